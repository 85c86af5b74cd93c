package hub

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"souk/bus"
	"souk/market"
)

// What rounds and quotes read of every agent stands beside it, copied from what it says: after whatever
// happens it is what it was copied from.
func TestWhatStandsBesideAnAgentIsTrue(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	seen := map[string]int{}
	for range 12 {
		seed := rand.Uint64()
		s := newStorm(t, seed, true)
		for n := range 1500 {
			if s.event(); s.r.IntN(25) == 0 {
				s.changed(s.agents()[s.r.IntN(4)])
			}
			if s.r.IntN(3) > 0 {
				s.run()
			}
			wrong := func(a *agent, what string, got, want any) {
				if got != want {
					t.Fatalf("seed %d, event %d: %s of %s is %v, want %v", seed, n, what, a.id, got, want)
				}
			}
			places := map[int32]string{}
			for i, a := range s.n.roster {
				if i > 0 && s.n.roster[i-1].id >= a.id {
					t.Fatalf("seed %d, event %d: the roster is out of order at %s", seed, n, a.id)
				}
				wrong(a, "place", a.place, int32(a.cache.Place()))
				if other, ok := places[a.place]; ok {
					t.Fatalf("seed %d, event %d: %s and %s have one place", seed, n, other, a.id)
				}
				places[a.place] = a.id
				wrong(a, "having seats", a.seats != nil, a.seats != nil || a.joined)
				if a.along.Stands(a.alongAt) {
					wrong(a, "line", a.along, a.predictor.Line())
					seen["line"]++
				}
				wrong(a, "line by which it is forecast", a.line(), a.predictor.Line())
				if a.declined < 0 || a.stuck < 0 || a.excess < 0 {
					t.Fatalf("seed %d, event %d: %s has %d, %d, %d", seed, n, a.id, a.declined, a.stuck, a.excess)
				}
				if a.reg.Agent == "" {
					continue
				}
				if a.reg.State != bus.StateReady {
					seen["draining"]++
				}
				if a.reg.Model == "mistral" {
					seen["other model"]++
				}
				wrong(a, "model", a.model, a.reg.Model)
				wrong(a, "context", a.context, a.reg.MaxModelLen)
				wrong(a, "parses", a.parses, slices.Contains(a.reg.Features, bus.Parsers))
				wrong(a, "text", a.text, slices.Contains(a.reg.Features, bus.Text))
				wrong(a, "listed", a.listed, a.reg.State == bus.StateReady)
				_, class := a.reg.Seller()
				wrong(a, "class", a.class, class)
				wrong(a, "scores", a.scores, fmt.Sprint(a.reg.Domains, a.rated))
				if k := a.kind; k != nil && k.line == a.line() {
					seen["kind"]++
					a.kind = nil
					wrong(a, "kind", s.n.kind(a), k)
				}
			}
		}
	}
	for _, what := range []string{"line", "kind", "draining", "other model"} {
		if seen[what] < 500 {
			t.Errorf("only %d times an agent has a %s: the test sees nothing", seen[what], what)
		}
	}
}

// changed registers an agent as it was not before.
func (s *storm) changed(id string) {
	a := s.n.lookup(id)
	if a == nil || a.reg.Agent == "" {
		return
	}
	r := a.reg
	switch s.r.IntN(9) {
	case 8:
		r.Features = [][]string{nil, {bus.Text}, {bus.Parsers}, {bus.Text, bus.Parsers}}[s.r.IntN(4)]
	case 0:
		r.Model = []string{"llama", "qwen", "mistral"}[s.r.IntN(3)]
	case 1:
		r.State = []string{bus.StateReady, bus.StateDraining, bus.StateUnhealthy}[s.r.IntN(3)]
	case 2:
		r.MaxModelLen = []int{0, 512, 4096, 8192}[s.r.IntN(4)]
	case 3:
		r.KVTokens, r.BlockSize = 10_000+s.r.IntN(90_000), 16<<s.r.IntN(2)
	case 4:
		r.Price = card(market.Credits(1+s.r.IntN(9)), 1, 4)
	case 5:
		r.Domains = []bus.DomainScore{{Domain: "math", Score: s.r.Float64()}, {Domain: "other", Score: 0.5}}
		r.Domains = r.Domains[:1+s.r.IntN(2)]
	case 6:
		r.Template = &bus.Template{Fixed: s.r.IntN(9), Each: s.r.IntN(9)}
	case 7:
		r.Slots = s.r.IntN(5) // none: it is refused
	}
	s.n.Join(s.now, r)
}
