package economics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"souk/market"
)

// batch is the paper's: at most 16 tasks.
const batch = 16

// family is what one way of clearing made of batches.
type family struct {
	asked, served, prompt, hit int
	welfare, utility           float64 // micro-credits
	ttft                       float64 // seconds, added up
	took                       []time.Duration
	beyond                     int // batches whose best placement was not proven in time: cleared without bundles
}

func (f *family) share() float64 { return float64(f.hit) / float64(max(f.prompt, 1)) }

func (f *family) add(g family) {
	f.asked, f.served, f.prompt, f.hit = f.asked+g.asked, f.served+g.served, f.prompt+g.prompt, f.hit+g.hit
	f.welfare, f.utility, f.ttft, f.took = f.welfare+g.welfare, f.utility+g.utility, f.ttft+g.ttft, append(f.took, g.took...)
	f.beyond += g.beyond
}

// bundled clears batches of questions about the same passages, as the roles of a workflow ask them at once: by plain assignment, which
// quotes each as if it came alone, and with those of one passage put together first.
func bundled(ctx context.Context, src *source, o Options) (Result, error) {
	sizes := []int{1, 2, 4, 8, 16}
	rounds := max(o.Rounds/20, 1)
	kinds := []string{"replicas of one", "different"}
	runs, err := each(ctx, o, "bundles", len(kinds)*len(sizes)*o.Markets, func(i int) ([2]family, error) {
		cell := i / o.Markets
		return playBundles(src, rounds, o.seed(i%o.Markets), sizes[cell%len(sizes)], cell < len(sizes))
	})
	if err != nil {
		return Result{}, err
	}
	t := Table{Name: "bundles", Columns: []string{"agents", "questions about one passage", "cleared", "welfare a task", "client utility", "tasks served", "cached share", "TTFT mean (ms)", "clearing, median (ms)", "batches beyond the search"},
		Note: "As things came to be, micro-credits a task: on each agent the first question of a passage has it computed and the others wait for that and find it. Clearing: with all payments, while other batches were cleared beside it."}
	var plots []Plot
	var findings []string
	for c, kind := range kinds {
		gain := Plot{Title: "Agents: " + kind, X: "questions about one passage", Y: "welfare, micro-credits a task", LogX: true, Marks: true, Lines: []Line{{Name: "bundles"}, {Name: "plain assignment"}}}
		hits := Plot{Title: "Agents: " + kind, X: "questions about one passage", Y: "% of prompt tokens found in a cache", LogX: true, Marks: true, Lines: []Line{{Name: "bundles"}, {Name: "plain assignment"}}}
		for i, size := range sizes {
			var both [2]family
			at := (c*len(sizes) + i) * o.Markets
			for _, run := range runs[at : at+o.Markets] {
				both[0].add(run[0])
				both[1].add(run[1])
			}
			for k, name := range []string{"plain", "bundles"} {
				f := both[k]
				n := float64(f.asked)
				t.Rows = append(t.Rows, []any{kind, size, name, f.welfare / n, f.utility / n, Percent(float64(f.served) / n), Percent(f.share()), 1000 * f.ttft / float64(max(f.served, 1)), median(f.took), f.beyond})
				gain.Lines[1-k].Points = append(gain.Lines[1-k].Points, Point{float64(size), f.welfare / n})
				hits.Lines[1-k].Points = append(hits.Lines[1-k].Points, Point{float64(size), 100 * f.share()})
			}
			if size > 1 && size <= 4 {
				findings = append(findings, fmt.Sprintf("Agents %s, %d questions about one passage: %.0f %% of prompt tokens cached with bundles, %.0f %% without; welfare %+.1f %%.", kind, size,
					100*both[1].share(), 100*both[0].share(), 100*(both[1].welfare/both[0].welfare-1)))
			}
		}
		plots = append(plots, gain, hits)
	}
	return Result{
		About:    []string{fmt.Sprintf("Batches of %d questions from CoQA, QuAC and mtRAG about passages that no agent holds, on 8 agents of 4 free slots; %d markets, %d batches each. A bundle is split where it is larger than the room of one agent. The agents are eight replicas of one, or eight different ones, on which a client has favourites that a bundle may keep it from.", batch, o.Markets, rounds)},
		Findings: findings, Tables: []Table{t}, Plots: plots,
	}, nil
}

func playBundles(src *source, rounds int, seed uint64, size int, replicas bool) (out [2]family, err error) {
	sh := shape{clients: batch, agents: 8, slots: 4, cacheSize: usual.cacheSize}
	s := newSim(src, sh, seed)
	rng := rand.New(rand.NewPCG(seed, 0x73696273))
	for a := range s.nodes {
		if replicas {
			id := s.nodes[a].id
			s.nodes[a] = s.nodes[0]
			s.nodes[a].id = id
		}
	}
	for range rounds {
		var ds []demand
		var prefix []uint64
		shared := make([]int, batch)
		for f := range batch / size {
			talks := src.talks[[]int{0, 1, 3}[rng.IntN(3)]]
			talk := talks[rng.IntN(len(talks))]
			for range size {
				p := len(ds)
				s.people[p].talk = talk
				first, t := talk.turns[0].prompt, talk.turns[rng.IntN(len(talk.turns))]
				ask := 20 + rng.IntN(40) // the question itself; the passage is what comes before the first one
				shared[p] = max(first-20, 1) / block * block
				ds = append(ds, demand{person: p, turn: turn{first + ask, t.output}})
				prefix = append(prefix, uint64(f+1))
			}
		}
		bundles := market.Bundles(prefix, sh.slots)
		members := make([]int, batch)
		for _, b := range bundles {
			for _, j := range b.Tasks {
				members[j] = len(b.Tasks)
			}
		}
		number := s.number
		for k, together := range []bool{false, true} {
			s.number = number // the same seed for ties
			for j := range ds {
				s.quoteSibling(&ds[j], shared[j], members[j], together)
			}
			r := s.round(ds, market.SettleQuoted, func(j, a int) market.Credits { return ds[j].value[a] })
			start := time.Now()
			var o market.Outcome
			if together {
				r.Bundles = bundles
				o, err = market.Clear(r)
			}
			if !together || errors.Is(err, market.ErrBundles) {
				if together {
					out[k].beyond++
					r.Bundles = nil
				}
				o, err = clear(r)
			}
			if err != nil {
				return out, err
			}
			out[k].took = append(out[k].took, time.Since(start))
			s.serveSiblings(&out[k], ds, placed(&r, &o), prefix, shared)
		}
	}
	return out, nil
}

// quoteSibling quotes a task on agents that hold nothing of it yet, as one of a bundle or alone.
func (s *sim) quoteSibling(d *demand, shared, size int, together bool) {
	n := len(s.nodes)
	d.value, d.quote = make([]market.Credits, n), make([]market.Credits, n)
	p := &s.people[d.person]
	u := market.Usage{Prompt: d.turn.prompt, Output: s.src.output[p.talk.domain]}
	if together {
		u = u.InBundle(shared, size)
	}
	for a, node := range s.nodes {
		d.quote[a] = node.price.Cost(u)
		d.value[a] = s.worth(p, a, node.speed.base+time.Duration(d.turn.prompt-u.Cached)*node.speed.perToken)
	}
}

// serveSiblings is what a batch came to: the first of a family on an agent has the passage computed.
func (s *sim) serveSiblings(f *family, ds []demand, places []place, prefix []uint64, shared []int) {
	f.asked += len(ds)
	line := make([]time.Duration, len(s.nodes))
	type held struct {
		agent  int
		prefix uint64
	}
	seen := map[held]bool{}
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.task, b.task) })
	for _, pl := range places {
		d, node := ds[pl.task], &s.nodes[pl.agent]
		u := market.Usage{Prompt: d.turn.prompt, Output: d.turn.output}
		key := held{pl.agent, prefix[pl.task]}
		if seen[key] {
			u.Cached = shared[pl.task]
		}
		seen[key] = true
		line[pl.agent] += time.Duration(u.Prompt-u.Cached) * node.speed.perToken
		ttft := node.speed.base + line[pl.agent]
		cost := node.price.Cost(u)
		value := s.worth(&s.people[d.person], pl.agent, ttft)
		f.served, f.prompt, f.hit = f.served+1, f.prompt+u.Prompt, f.hit+u.Cached
		f.welfare += micro(value - cost)
		f.utility += micro(value - cost - pl.premium)
		f.ttft += ttft.Seconds()
	}
}
