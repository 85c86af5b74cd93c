package virtual

import (
	"slices"
	"testing"
	"time"

	"souk/agentd/vllmsim"
)

// alone is one dialogue of two questions on one engine, in steps of 1 ms and 10 us for a token of a prompt.
func alone() Setting {
	s := Script{turns: []turn{{prompt: 100, output: 5}, {prompt: 116, output: 2}}}
	for i := range uint64(20) {
		s.hashes = append(s.hashes, mix(i))
	}
	s.common = len(s.hashes)
	s.chains = [][]uint64{s.hashes[:6], s.hashes[:7]}
	return Setting{Engines: 1, Scripts: []*Script{&s}, Callers: 1, Tasks: 2, Scrape: time.Second,
		Engine: EngineConfig{Profile: vllmsim.Profile{Base: 1000, Prefill: 10}, Slots: 4, MaxBatched: 2048,
			Blocks: 100, BlockSize: 16}}
}

// What a pool takes is what its parts do: the prompt, all of its keys and values but the last token's on the
// way, one step for that token, and a step for each token more. What is there is neither computed nor sent
// again.
func TestAPoolTakesWhatItsPartsDo(t *testing.T) {
	s := alone()
	s.Pools = []Pool{{Prefill: 1, Decode: []int{0}, Token: 1000, Link: 99e6}}
	all, engines := routed(t, s, "least-loaded")
	if len(all) != 2 || len(engines) != 2 {
		t.Fatalf("%d requests, %d engines", len(all), len(engines))
	}
	const us = time.Microsecond
	for i, want := range []struct {
		cached     int
		first, end time.Duration
	}{
		// 1 ms and 100 tokens; 99 tokens sent; 1 ms and one token; four more steps
		{0, (2000 + 1000 + 1010) * us, (2000 + 1000 + 1010 + 4000) * us},
		// 6 blocks were found where it was computed and where it is answered: 20 tokens more are computed,
		// 19 are sent
		{96, (1200+1010)*us + 19*time.Second/99_000, (1200+1010+1000)*us + 19*time.Second/99_000},
	} {
		q := all[i]
		if q.Cached != want.cached || (q.First-q.Arrived-want.first).Abs() > us ||
			(q.Done-q.Arrived-want.end).Abs() > us {
			t.Errorf("question %d: %d cached, first token after %v, done after %v; want %+v", i, q.Cached,
				q.First-q.Arrived, q.Done-q.Arrived, want)
		}
	}
}

// A slower link makes first tokens later by what it takes, and one prompt is sent after another.
func TestALinkSendsOnePromptAfterAnother(t *testing.T) {
	s := alone()
	s.Callers, s.Tasks, s.Engine.Profile = 3, 3, vllmsim.Profile{}
	s.Scripts[0].common = 0 // callers share nothing
	s.Pools = []Pool{{Prefill: 1, Decode: []int{0}, Token: 1000, Link: 1e6}}
	all, _ := routed(t, s, "least-loaded")
	var firsts []time.Duration
	for _, q := range all {
		firsts = append(firsts, q.First)
	}
	slices.Sort(firsts)
	for i, d := range firsts[1:] {
		if d-firsts[i] < 99*time.Millisecond {
			t.Errorf("prompts of 99 ms each on the link have their first tokens at %v", firsts)
		}
	}
}

// In pools of any size everybody is answered once, by an engine that answers, and the same seed gives the
// same run. Where prompts are what is short, engines that compute them help, and where answers are, those
// that answer do.
func TestPools(t *testing.T) {
	rate := func(prefill, decode, prompts int) float64 {
		s := small(t, 7)
		s.Engines, s.Callers = decode, 40
		s.Engine.Slots = 16
		if s.Engine.Profile.Prefill *= float64(prompts); prompts == 0 {
			s.Engine.Profile.Prefill, s.Engine.Slots = 1, 2
		}
		var all []int
		for i := range decode {
			all = append(all, i)
		}
		s.Pools = []Pool{{Prefill: prefill, Decode: all, Token: tokenOf8B, Link: link400}}
		out, engines := routed(t, s, "least-loaded")
		if again, _ := routed(t, s, "least-loaded"); digest(t, out) != digest(t, again) {
			t.Errorf("%dP/%dD: the same seed gave another run", prefill, decode)
		}
		if len(out) != s.Tasks || len(engines) != prefill+decode {
			t.Fatalf("%dP/%dD: %d requests, %d engines", prefill, decode, len(out), len(engines))
		}
		for _, q := range out {
			if q.Engine < 0 || q.Engine >= decode || q.First <= q.Arrived || q.Done < q.First ||
				q.Cached >= q.Prompt {
				t.Fatalf("%dP/%dD: %+v", prefill, decode, q)
			}
		}
		for i, e := range engines {
			if len(e.Waiting)+len(e.Running) > 0 || e.Cache.Used() > 0 {
				t.Errorf("%dP/%dD: engine %d is not idle at the end", prefill, decode, i)
			}
		}
		return s.Measure(out).Throughput
	}
	if two, one := rate(2, 1, 20), rate(1, 2, 20); two < 1.3*one {
		t.Errorf("where prompts take long: %.2f tasks/s with 2P/1D, %.2f with 1P/2D", two, one)
	}
	if one, five, two := rate(1, 2, 0), rate(1, 5, 0), rate(2, 1, 0); one < 1.3*two || five < 1.3*one {
		t.Errorf("where answers take long: %.2f tasks/s with 2P/1D, %.2f with 1P/2D, %.2f with 1P/5D", two, one,
			five)
	}
}

// A request that is pushed out where it is answered is computed there when its turn comes again.
func TestPushedOutInAPool(t *testing.T) {
	s := small(t, 5)
	s.Engines, s.Callers, s.Tasks, s.Engine.Slots = 1, 8, 60, 8
	s.Engine.Blocks = 300
	s.Pools = []Pool{{Prefill: 1, Decode: []int{0}, Token: tokenOf8B, Link: link400}}
	all, engines := routed(t, s, "least-loaded")
	if engines[0].Preempted == 0 {
		t.Error("nobody was pushed out")
	}
	if len(all) != 60 || engines[0].Prompt > 0 && engines[0].Cached > engines[0].Prompt {
		t.Errorf("%d requests; %+v", len(all), engines[0])
	}
}

// The market takes the engines of a pool for agents like others, and its books are clean.
func TestAMarketOfPools(t *testing.T) {
	s := small(t, 6)
	s.Tasks = 120
	s.Pools = []Pool{{Prefill: 1, Decode: []int{0, 1}, Token: tokenOf8B, Link: link400}}
	m, err := NewMarket(NewMarketOptions(s))
	if err != nil {
		t.Fatal(err)
	}
	all, _, err := Run(s, m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Close(); err != nil {
		t.Error(err)
	}
	served := map[int]int{}
	for _, q := range all {
		served[q.Engine]++
	}
	if served[0]+served[1] == 0 || served[2] == 0 {
		t.Errorf("served by engine: %v", served)
	}
	for _, p := range []Pool{{}, {Prefill: 1, Decode: []int{3}, Token: 1, Link: 1},
		{Prefill: 1, Decode: []int{1, 1}, Token: 1, Link: 1}, {Prefill: 1, Decode: []int{0}, Token: 1}} {
		s.Pools = []Pool{p}
		if _, _, err := Run(s, m); err == nil {
			t.Errorf("%+v was played", p)
		}
	}
}
