package games

import (
	"context"
	"fmt"
	"math"
	"time"

	"souk/agentd/vllmsim"
	"souk/hub/regime"
	"souk/integration/lab/runs"
	"souk/integration/lab/virtual"
)

// job is one rule under one load, played with every seed.
type job struct {
	topology Topology
	name     string // of what stands for it; "": the topology's own
	rule     rule
	load     string
	setting  func(seed uint64) (virtual.Setting, error)
	whole    bool // engines compute the prompts that they answer
	parts    []part
	watched  span   // in which what routers think of the load is told of
	queue    *Queue // in place of all that
}

// part is a span of a run that has figures of its own.
type part struct {
	name string
	at   span
}

// Row holds the results of a rule in a part of its runs.
type Row struct {
	Topology string    `json:"topology"`
	Rule     string    `json:"rule"`
	Load     string    `json:"load"`
	Part     string    `json:"part,omitempty"`
	Seeds    []Figures `json:"seeds"`
	// of the part that is watched: when it was first seen, in seconds from the beginning of that, NaN is left
	// out; and the highest state
	Seen  []float64 `json:"seen,omitempty"`
	Worst []int     `json:"worst,omitempty"`
	// of queues
	Chance *Chance `json:"chance,omitempty"`
}

// Experiment is a question and how it is answered.
type Experiment struct {
	Name, Title string
	jobs        func() []job
}

// Experiments lists every experiment.
var Experiments = []Experiment{
	{"1", "14 loads", one}, {"2", "9 loads, with detectors", two}, {"3", "a spike: 32, 128, 32", three},
	{"4a", "temperatures and weights at 64 callers", func() []job { return grid(64) }},
	{"4b", "the same at 128", func() []job { return grid(128) }},
	{"rules", "every rule at 128 callers", everyRule},
	{"game1", "engines that compute prompts against engines that answer", gameOne},
	{"game2", "caches from far too small to large enough", gameTwo},
	{"knee16", "regimes at 0.8, 1 and 2 times what 16 slots serve", Pair.knees},
	{"knee64", "the same of 64 slots", Eight.knees},
	{"chance", "what a hub of so many slots can know: slots alone, for many hours", queues},
}

const (
	ramp = 30 * time.Second
	hold = 120 * time.Second
)

// steady is a closed loop that grows within ramp and is held.
func (t Topology) steady(callers int, hold time.Duration) func(uint64) (virtual.Setting, error) {
	return func(seed uint64) (virtual.Setting, error) {
		return t.setting(virtual.Ramp(0, ramp, 0, callers), ramp+hold, seed)
	}
}

// one has its ramp in the figures, as the paper's has.
func one() (all []job) {
	for _, c := range []int{1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512} {
		for _, x := range []struct {
			t Topology
			r rule
		}{{Two, static}, {Five, static}} {
			all = append(all, job{topology: x.t, rule: x.r, load: fmt.Sprint(c), setting: x.t.steady(c, hold),
				parts: []part{{"", span{0, ramp + hold}}}})
		}
	}
	return all
}

func two() (all []job) {
	for _, c := range []int{1, 4, 8, 16, 32, 64, 128, 256, 512} {
		for _, x := range []struct {
			t Topology
			r rule
		}{{Two, theirs}, {Five, theirs}, {Five, ours}} {
			hold := hold
			if x.r.market { // two milliseconds of work a task
				hold /= 2
			}
			held := span{ramp, ramp + hold}
			all = append(all, job{topology: x.t, rule: x.r, load: fmt.Sprint(c), setting: x.t.steady(c, hold),
				parts: []part{{"", held}}, watched: span{0, held.to}})
		}
	}
	return all
}

func three() (all []job) {
	spike := func(t Topology, r rule, callers int) job {
		const begins, ends, over = 120 * time.Second, 300 * time.Second, 420 * time.Second
		return job{topology: t, rule: r, load: fmt.Sprintf("32-%d-32", callers),
			setting: func(seed uint64) (virtual.Setting, error) {
				crews := append(virtual.Ramp(0, ramp, 0, 32), virtual.Crew{From: begins, Callers: callers},
					virtual.Crew{From: ends, Callers: 32})
				return t.setting(crews, over, seed)
			},
			parts: []part{{"below", span{ramp, begins}}, {"spike", span{begins, ends}},
				{"after 60 s of it", span{begins + time.Minute, ends}}, {"recovery", span{ends, over}}},
			watched: span{begins, ends}}
	}
	for _, t := range []Topology{Five, Two} {
		all = append(all, spike(t, static, 128), spike(t, theirs, 128), spike(t, static, 112))
	}
	all = append(all, spike(Five, ours, 128), spike(Five, adapted, 128))
	return all
}

// everyRule plays every rule there is, with every value of its knob.
func everyRule() (jobs []job) {
	for _, other := range virtual.Rules() {
		for _, name := range other.Turned() {
			jobs = append(jobs, job{topology: Five, rule: rule{name: name, other: true}, load: "128",
				setting: Five.steady(128, hold/3), parts: []part{{"", span{ramp, ramp + hold/3}}}})
		}
	}
	return append(jobs, job{topology: Five, rule: ours, load: "128", setting: Five.steady(128, hold/3),
		parts: []part{{"", span{ramp, ramp + hold/3}}}})
}

func grid(callers int) (all []job) {
	const hold = 40 * time.Second
	steps := []float64{0, 0.3, 0.7, 1}
	for _, x := range []struct {
		t Topology
		r rule
	}{{Two, static}, {Five, static}, {Five, ours}} {
		for _, tau := range steps {
			for _, omega := range steps {
				if x.r.market && (tau == 0.3 || omega == 0.3 || omega == 0.7) {
					continue // the corners, and the temperature that the controller sets
				}
				r := x.r.with(regime.Params{Temperature: tau, Overlap: omega})
				all = append(all, job{topology: x.t, rule: r, load: fmt.Sprintf("%g %g", tau, omega),
					setting: x.t.steady(callers, hold), parts: []part{{"", span{ramp, ramp + hold}}}})
			}
		}
	}
	return all
}

// gameOne plays splits of engines at rates of tasks that come whether or not others were answered.
func gameOne() (all []job) {
	const length = 100 * time.Second
	for _, rate := range []float64{30, 45, 60, 90, 140} {
		for _, split := range [][2]int{{2, 1}, {3, 1}, {2, 2}, {1, 2}, {1, 3}, {3, 3}, {4, 3}, {3, 4}} {
			t := Topology{split[0], split[1], Five.Rate}
			all = append(all, job{topology: t, rule: static, load: fmt.Sprint(rate),
				setting: func(seed uint64) (virtual.Setting, error) {
					s, err := t.setting(nil, length, seed)
					s.Rate = rate
					return s, err
				},
				parts: []part{{"", span{20 * time.Second, length}}}})
		}
	}
	return all
}

// What gameTwo plays: prompts that are asked again and again, blocks of each, and engines.
const (
	prompts = 96
	ofEach  = 2048 / blockSize
	whole   = 4
)

// gameTwo plays long prompts, each asked again and again, on engines whose caches hold from an eighth of all
// of them together to all of them each.
func gameTwo() (all []job) {
	for _, share := range []float64{0.125, 0.25, 0.5, 1, 2, 4} {
		blocks := int(share*prompts*ofEach/whole) + 1
		for _, r := range []rule{static.with(regime.Params{Overlap: 0}), static, ours} {
			name := r.name
			if !r.market {
				r.name = fmt.Sprintf("%s, weight %g", name, r.params.Overlap)
			}
			t := Topology{Decode: whole}
			all = append(all, job{topology: t, name: fmt.Sprint(whole), rule: r,
				load: fmt.Sprintf("%g", share), whole: true,
				setting: func(seed uint64) (virtual.Setting, error) {
					p, err := vllmsim.ProfileNamed(profile)
					var templates []virtual.Template
					for range prompts {
						templates = append(templates,
							virtual.Template{Prompt: ofEach * blockSize, Output: 32})
					}
					return virtual.Setting{Engines: whole, Callers: 24, Seed: seed,
						Scripts: virtual.NewTemplates(templates, blockSize), Tasks: 2000,
						Engine: virtual.EngineConfig{Profile: p, Slots: 6, MaxBatched: p.MaxNumBatchedTokens,
							// what runs has room of its own
							Blocks: blocks + 6*(ofEach+3), BlockSize: blockSize},
						Think: 200 * time.Millisecond, Hop: 300 * time.Microsecond,
						Scrape: 5 * time.Second}, err
				},
				parts: []part{{"", span{10 * time.Second, time.Hour}}}})
		}
	}
	return all
}

// Run plays an experiment with each seed; done is called after each run.
func (e *Experiment) Run(ctx context.Context, seeds []uint64, began func(runs int),
	done func()) ([]Row, error) {
	jobs := e.jobs()
	began(len(jobs) * len(seeds))
	// by job and seed, a row for each part
	results, err := runs.Each(ctx, len(jobs)*len(seeds), 0, func(int) { done() }, func(i int) ([]Row, error) {
		return jobs[i/len(seeds)].run(seeds[i%len(seeds)])
	})
	if err != nil {
		return nil, fmt.Errorf("experiment %s: %w", e.Name, err)
	}
	var out []Row
	for i := range jobs {
		for p := range jobs[i].parts {
			of := results[i*len(seeds) : (i+1)*len(seeds)]
			row := of[0][p]
			for _, other := range of[1:] {
				row.join(&other[p])
			}
			out = append(out, row)
		}
	}
	return out, nil
}

// join adds another seed.
func (r *Row) join(o *Row) {
	r.Seeds = append(r.Seeds, o.Seeds...)
	r.Seen, r.Worst = append(r.Seen, o.Seen...), append(r.Worst, o.Worst...)
	if r.Chance != nil {
		r.Chance.Hours += o.Chance.Hours
		r.Chance.Rises += o.Chance.Rises
		r.Chance.Sees = append(r.Chance.Sees, o.Chance.Sees...)
		r.Chance.Later = append(r.Chance.Later, o.Chance.Later...)
		r.Chance.Wrong += o.Chance.Wrong
	}
}

func (j *job) run(seed uint64) (rows []Row, err error) {
	if j.queue != nil {
		return []Row{{Topology: j.queue.String(), Rule: "slots alone", Load: "0.8; 0.5, then 2; 0.8, then 2; 0.5, then 0.8",
			Chance: j.queue.chance(seed)}}, nil
	}
	s, err := j.setting(seed)
	if err != nil {
		return nil, err
	}
	t, name := j.topology, j.name
	if t.Prefill == 0 {
		t.Rate, t.Prefill = 1e9, 1 // before these nobody computes
	}
	p, err := play(t, s, j.rule)
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = j.topology.String()
	}
	for _, part := range j.parts {
		at := part.at
		if s.Tasks > 0 {
			at.to = p.all[len(p.all)-1].Arrived
		}
		row := Row{Topology: name, Rule: j.rule.name, Load: j.load, Part: part.name,
			Seeds: []Figures{measure(p.all, p.engines, at)}}
		if j.whole {
			row.Seeds[0].Bound = belady(p.all, s.Engines*s.Engine.Blocks, at)
		}
		if w := j.watched; w.to > 0 && part.at.from <= w.from+ramp {
			row.Worst = []int{int(p.worst(w))}
			if at := p.seen(w.from, w.to-w.from); !math.IsNaN(at) {
				row.Seen = []float64{at}
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// belady is the share of prompt tokens that one cache of so many blocks would have found within a span, which
// knew what is asked next. Prompts are all of one size, and are kept or given up as a whole; the
// last block of
// one is always computed.
func belady(all []*virtual.Request, blocks int, at span) float64 {
	next, last := make([]int, len(all)), map[int]int{}
	key := (*virtual.Request).Text
	for i := len(all) - 1; i >= 0; i-- {
		next[i] = math.MaxInt
		if k, ok := last[key(all[i])]; ok {
			next[i] = k
		}
		last[key(all[i])] = i
	}
	held, room, found, asked := map[int]int{}, blocks/ofEach, 0, 0
	for i, r := range all {
		_, ok := held[key(r)]
		if r.Done >= at.from && r.Done < at.to {
			if asked++; ok {
				found++
			}
		}
		if !ok && len(held) == room {
			worst := -1
			for k, at := range held {
				if worst < 0 || at > held[worst] || at == held[worst] && k < worst {
					worst = k
				}
			}
			delete(held, worst)
		}
		held[key(r)] = next[i]
	}
	return float64(found) / float64(max(1, asked)) * (ofEach - 1) / ofEach
}
