package virtual

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"souk/agentd/vllmsim"
	"souk/cmd/replay"
	"souk/integration/lab/learned"
	"souk/integration/lab/runs"
	"souk/integration/lab/traces"
)

// Trace is a load on which rules and the market are compared.
type Trace struct {
	Name, About string
	// of a closed loop, before eight engines: who asks, if nobody says that tasks come otherwise; 0: they
	// come
	Callers int
	setting func(engines int) (Setting, error)
}

// NewTrace is a trace that is made for so many engines.
func NewTrace(name, about string, setting func(engines int) (Setting, error)) Trace {
	return Trace{name, about, 0, setting}
}

// Sizes of the engines: each runs eight requests at once, and its cache holds several times what those need.
const (
	slots     = 8
	blockSize = 16
	blocks    = 4096
)

// Traces lists what is played where slots are short.
var Traces = []Trace{
	load{callers: 32}.trace("mtrag", "conversations of mtRAG without passages"),
	load{callers: 32, passages: 8000}.trace("rag", "the same behind 8,000 bytes of passages each"),
	load{file: "tau.jsonl.gz", shared: true, callers: 32}.trace("tau",
		"tool calls of tau-bench behind one system prompt of 6 KB"),
	load{callers: 32, passages: 16000, shared: true}.trace("long",
		"mtrag behind one system prompt of 16,000 bytes"),
	load{callers: 32, passages: 8000, blocks: 640}.trace("small",
		"rag on engines whose cache holds two or three conversations"),
	load{callers: 64, passages: 8000, profile: "h100x2-qwen3-32b"}.trace("slow",
		"rag on slower engines, Qwen3 32B on two H100 each"),
	load{file: "quac.jsonl", callers: 64}.trace("quac", "questions about an article each, QuAC"),
	load{file: routedFile, callers: 32}.trace("routed",
		"questions of eleven benchmarks, with how good the answers of each model were"),
	load{callers: 128}.trace("crowd", "mtrag with twice as many callers as slots"),
	load{callers: 128, say: Spread}.trace("spread", "crowd, where callers tell worths that differ a hundredfold"),
	load{rate: 12}.trace("open", "mtrag, 12 conversations begin in a second, at random"),
	load{rate: 4, passages: 16000, shared: true}.trace("new",
		"long, where 4 conversations begin in a second, at random, each its caller's only one"),
	load{file: "tau.jsonl.gz", shared: true, rate: 1}.trace("begin",
		"tau, where one dialogue begins in a second, at random"),
	load{file: "quac.jsonl", recorded: true}.trace("bursts",
		"quac, conversations begin as requests of Azure's code trace of 2023 came, four times as fast"),
}

// TraceNames are their names.
func TraceNames() []string { return namesOf(Traces) }

// CliffNames are the names of those where caches are short.
func CliffNames() []string { return namesOf(Cliffs) }

func namesOf(traces []Trace) (names []string) {
	for _, t := range traces {
		names = append(names, t.Name)
	}
	return names
}

// traceNamed finds a trace, and reports whether it is one with short caches. Its name may end in the number
// of cache groups of its callers, as in tau@4, or tau@own: a group for each.
func traceNamed(name string) (of Trace, cliff bool, err error) {
	base, in, grouped := strings.Cut(name, "@")
	i := slices.IndexFunc(Traces, func(t Trace) bool { return t.Name == base })
	k := slices.IndexFunc(Cliffs, func(t Trace) bool { return t.Name == base })
	switch {
	case i >= 0:
		of = Traces[i]
	case k >= 0:
		of, cliff = Cliffs[k], true
	default:
		return of, false, fmt.Errorf("trace %q is none of %v", base,
			slices.Concat(TraceNames(), CliffNames()))
	}
	if !grouped {
		return of, cliff, nil
	}
	groups, about := Own, "each caller a cache group of its own"
	if in != "own" {
		if groups, err = strconv.Atoi(in); err != nil || groups < 1 || groups > mostGroups {
			return of, cliff, fmt.Errorf("trace %q: behind @ stands a number of cache groups up to %d, or own",
				name, mostGroups)
		}
		about = fmt.Sprintf("in %d cache groups", groups)
		if groups == 1 {
			about = "all in one cache group"
		}
	}
	with := of.setting
	return Trace{name, of.About + ", " + about, of.Callers, func(engines int) (Setting, error) {
		s, err := with(engines)
		s.Groups = groups
		return s, err
	}}, cliff, nil
}

// TraceNamed finds a trace.
func TraceNamed(name string) (Trace, error) {
	t, _, err := traceNamed(name)
	return t, err
}

// mostGroups is more than there are callers.
const mostGroups = 10_000

// load is the load of eight engines; for others it is scaled.
type load struct {
	file     string // of bundled dialogues; "": those of mtRAG, whose system prompts are replaced by passages
	shared   bool   // all have one system prompt
	passages int    // bytes of such passages before each dialogue; 0: none
	callers  int
	rate     float64 // instead of callers: dialogues that begin per second
	recorded bool    // instead of callers: dialogues begin at recorded times
	profile  string  // of the engines
	blocks   int     // of an engine's cache; more than is used at once
	say      Terms
}

// routedFile stands for the questions of which answers were recorded by model.
const routedFile = "routed"

func (l load) trace(name, about string) Trace { return Trace{name, about, l.callers, l.setting} }

func (l load) setting(engines int) (Setting, error) {
	if l.file == routedFile {
		own := l
		own.file = ""
		s, err := own.setting(engines)
		if err == nil {
			s.Scripts, err = questions()
		}
		return s, err
	}
	scripts, err := scriptsOf(spoken{l.file, l.shared, l.passages})
	if err != nil {
		return Setting{}, err
	}
	profile, err := vllmsim.ProfileNamed(cmp.Or(l.profile, "rtxpro6000-llama-3.1-8b"))
	if err != nil {
		return Setting{}, err
	}
	var arrive []time.Duration
	if l.recorded {
		if arrive, err = traces.Arrivals(); err != nil {
			return Setting{}, err
		}
		for i := range arrive {
			arrive[i] = arrive[i] * 2 / time.Duration(engines)
		}
	}
	return Setting{Engines: engines, Scripts: slices.Clone(scripts),
		Callers: l.callers * engines / 8, Rate: l.rate * float64(engines) / 8, Arrive: arrive,
		Say: l.say,
		Engine: EngineConfig{Profile: profile, Slots: slots, MaxBatched: profile.MaxNumBatchedTokens,
			Blocks: cmp.Or(l.blocks, blocks), BlockSize: blockSize},
		Think: 200 * time.Millisecond, Hop: 300 * time.Microsecond, Scrape: 2 * time.Second}, nil
}

// spoken says of which dialogues scripts are, as [load] has it.
type spoken struct {
	file     string
	shared   bool
	passages int
}

// made holds the scripts of each, which nobody changes: many plays are of the same.
var made sync.Map

func scriptsOf(x spoken) ([]*Script, error) {
	once, _ := made.LoadOrStore(x, sync.OnceValues(func() ([]*Script, error) {
		ds, err := replay.BundledSet(cmp.Or(x.file, "mtrag.jsonl.gz"))
		if own := slices.Clone(ds); x.file == "" {
			for i := range ds {
				first := i
				if x.shared {
					first = 0
				}
				ds[i].System = passages(own, first, x.passages)
			}
		}
		return NewScripts(ds, x.shared, blockSize), err
	}))
	return once.(func() ([]*Script, error))()
}

// questions makes a script of each question of which answers were recorded by model.
func questions() (all []*Script, err error) {
	asked, err := traces.Questions()
	if err != nil {
		return nil, err
	}
	data, err := learned.Recorded()
	if err != nil {
		return nil, err
	}
	read := data.Set("routeprofile").Rows // in the same order
	for i, q := range asked {
		s := &Script{chains: [][]uint64{nil}, recorded: map[string]recorded{}}
		t := turn{}
		for model, x := range q.Models {
			t.prompt, t.output = max(t.prompt, int(x[1])), max(t.output, int(x[2]))
			s.recorded[model] = recorded{x[0], int(x[2])}
		}
		s.turns, s.asked = []turn{t}, &reading{all: []learned.Question{read[i].Question}}
		all = append(all, s)
	}
	return all, nil
}

// CrowdOptions say what is compared.
type CrowdOptions struct {
	World                   // but for its trace and seed
	Traces, Rules []string  // by name; for markets among the rules see MarketName
	Loads         []float64 // of what the fleet can serve: see [Crowd]
	Seeds         []uint64
	Progress      func(done, total int)
	// plays one run, instead of virtual time; runs then follow one another, and a row of which one is
	// ErrLeftOut is not there
	Play func(s Setting, rule string, named bool) (Measures, error)
}

// ErrLeftOut says that a run was not played.
var ErrLeftOut = errors.New("left out")

// Row holds the results of one rule in one world.
type Row struct {
	Trace   string  `json:"trace"`
	About   string  `json:"about"`
	Fleet   string  `json:"fleet"`
	Terms   Terms   `json:"terms,omitempty"`
	Callers Callers `json:"callers,omitempty"`
	Load    float64 `json:"load,omitempty"` // of what the fleet can serve
	Rate    float64 `json:"rate,omitempty"` // dialogues that begin in a second
	Loop    int     `json:"loop,omitempty"` // callers of a closed loop
	Rule    string  `json:"rule"`
	Knob    string  `json:"knob,omitempty"` // the rule with the value of its knob that was played

	Seeds   []Measures                     `json:"seeds"`
	All     map[string]Estimate            `json:"all"`
	Tempers map[string]map[string]Estimate `json:"tempers,omitempty"` // by temper, as All
}

// Crowd runs every rule on every trace with every seed. A trace whose callers do not outnumber the slots
// by half is played with arrivals, at each of Loads, unless the options say how tasks come: in a closed
// loop who is served sooner asks sooner, and welfare a second then says who asked. A rule with a knob
// stands there with the value at which welfare was greatest.
func Crowd(ctx context.Context, o CrowdOptions) (rows []Row, err error) {
	return o.compare(ctx, (*World).loads, false)
}

// Frontier runs every rule, at every value of its knob, on every trace at each of Loads, with every seed:
// where welfare a second stands against the first token that one in a hundred waits for.
func Frontier(ctx context.Context, o CrowdOptions) (rows []Row, err error) {
	return o.compare(ctx, func(_ *World, loads []float64) ([]float64, error) { return loads, nil }, true)
}

// compare plays traces at the loads that are chosen for each, and of each rule all values or the best.
func (o *CrowdOptions) compare(ctx context.Context, choose func(*World, []float64) ([]float64, error),
	each bool) (rows []Row, err error) {
	for _, rule := range o.Rules {
		if _, err := played(rule); err != nil {
			return nil, err
		}
	}
	var worlds []World
	for _, trace := range o.Traces {
		w := o.World
		if w.Trace, _, err = traceNamed(trace); err != nil {
			return nil, err
		}
		loads, err := choose(&w, o.Loads)
		if err != nil {
			return nil, err
		}
		all, err := w.At(loads)
		if err != nil {
			return nil, err
		}
		worlds = append(worlds, all...)
	}
	return o.play(ctx, worlds, each)
}

// Compare runs every rule in every world with every seed; a rule with a knob stands there with the value at
// which welfare was greatest. Traces, Loads and the world of the options do not count.
func Compare(ctx context.Context, worlds []World, o CrowdOptions) (rows []Row, err error) {
	return o.play(ctx, worlds, false)
}

func (o *CrowdOptions) play(ctx context.Context, worlds []World, each bool) (rows []Row, err error) {
	for i := range worlds {
		s, err := worlds[i].Setting()
		if err != nil {
			return nil, err
		}
		for k, rule := range o.Rules {
			all, err := o.rows(ctx, &worlds[i], &s, rule)
			if err != nil {
				return nil, err
			}
			if !each && len(all) > 0 {
				all = []Row{slices.MaxFunc(all, func(a, b Row) int {
					return cmp.Compare(a.All["welfare"].Mean, b.All["welfare"].Mean)
				})}
			}
			rows = append(rows, all...)
			o.Progress(i*len(o.Rules)+k+1, len(worlds)*len(o.Rules))
		}
	}
	return rows, nil
}

// loads returns the loads at which a world is played: 0 where it says itself how tasks come.
func (w *World) loads(all []float64) ([]float64, error) {
	if w.Rate > 0 || w.Sessions > 0 || len(all) == 0 {
		return []float64{w.Load}, nil
	}
	own := *w
	own.Load = 0
	s, err := own.Setting()
	if err != nil {
		return nil, err
	}
	if s.Ring > 0 || !s.few() { // dialogues of a ring are many because few callers ask them in turn
		return []float64{0}, nil
	}
	return all, nil
}

// few reports whether callers do not outnumber the slots by half.
func (s *Setting) few() bool { return s.Callers > 0 && 2*s.Callers < 3*s.slots() }

// played are the names under which a rule or a market is played, one for each value of its knob.
func played(rule string) ([]string, error) {
	if _, market, err := variant(rule); market || err != nil {
		return []string{rule}, err
	}
	_, names, err := turned(rule)
	return names, err
}

// rows plays a rule at each value of its knob, from every seed. The seeds of a row run in parallel: runs
// share nothing.
func (o *CrowdOptions) rows(ctx context.Context, w *World, s *Setting, rule string) (all []Row, err error) {
	names, err := played(rule)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		row := Row{Trace: w.Trace.Name, About: w.Trace.About, Fleet: w.Fleet.Name, Terms: w.Terms,
			Callers: w.Callers, Load: w.Load, Rate: s.Rate, Loop: s.Callers,
			Rule: rule}
		if base, _, _ := strings.Cut(name, ":"); base != MarketName && base != name {
			row.Rule, row.Knob = base, name
		}
		most, one := 0, play
		if o.Play != nil {
			most, one = 1, o.Play // by the clock, one at a time
		}
		row.Seeds, err = runs.Each(ctx, len(o.Seeds), most, nil, func(i int) (Measures, error) {
			own := *s
			own.Seed, own.Arrive = o.Seeds[i], from(s.Arrive, o.Seeds[i])
			return one(own, name, w.Named)
		})
		if errors.Is(err, ErrLeftOut) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s on %s: %w", name, w.Trace.Name, err)
		}
		row.sum()
		all = append(all, row)
	}
	return all, nil
}

// from rotates recorded arrivals: the seed says with which one they begin, and those before it come last.
func from(arrive []time.Duration, seed uint64) (out []time.Duration) {
	if len(arrive) == 0 {
		return nil
	}
	first, whole := int(mix(seed)%uint64(len(arrive))), arrive[len(arrive)-1]
	for _, at := range arrive[first:] {
		out = append(out, at-arrive[first])
	}
	for _, at := range arrive[:first] {
		out = append(out, whole-arrive[first]+at)
	}
	return out
}

// play plays one run.
func play(s Setting, rule string, named bool) (m Measures, err error) {
	like, ok, err := variant(rule)
	if err != nil {
		return m, err
	}
	if !ok {
		p, err := NewRule(rule, s.Seed)
		if err != nil {
			return m, err
		}
		all, _, err := Run(s, p)
		if err != nil {
			return m, fmt.Errorf("rule %q: %w", rule, err)
		}
		return s.Measure(all), nil
	}
	o := NewMarketOptions(s)
	o.Hub, o.Named, o.Ends, o.Events = like.Hub, named || like.Named, like.Ends, like.Events
	o.Hub.Deadline, o.Hub.MaxDeadline = max(s.Patient, o.Hub.Deadline), max(s.Patient, o.Hub.MaxDeadline)
	o.Quiet = s.Quiet
	all, _, market, err := playMarket(s, o)
	if err != nil {
		return m, err
	}
	m = s.Measure(all)
	m.Journal = float64(market.Bytes) / float64(len(all))
	return m, nil
}
