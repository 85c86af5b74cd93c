package session

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Blocks that agents have given away are those of the places there, after any order of what may happen: turns
// that come, are awarded, moved and end, sessions that end or fall silent, agents that leave.
func TestPlacesAreExact(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		table := New(Params{Admit: true, Idle: 10 * time.Second})
		agents := []*Agent{{}, {}, {}}
		for _, a := range agents {
			a.Resize(r.IntN(200))
		}
		type turn struct {
			key   uint64
			place *Place
		}
		var turns []turn
		now := time.Duration(0)
		for range 300 {
			now += time.Duration(r.IntN(1000)) * time.Millisecond
			switch k := r.IntN(10); {
			case k < 4:
				key := uint64(r.IntN(12))
				turns = append(turns, turn{key, table.Come(key)})
			case k < 6 && len(turns) > 0:
				x := &turns[r.IntN(len(turns))]
				x.place = table.Award(x.place, x.key, agents[r.IntN(len(agents))], r.IntN(50))
			case k < 8 && len(turns) > 0:
				i := r.IntN(len(turns))
				table.Gone(now, turns[i].place)
				turns = slices.Delete(turns, i, i+1)
			case k == 8:
				table.End(uint64(r.IntN(12)))
			case r.IntN(3) == 0:
				table.Leave(agents[r.IntN(len(agents))])
			default:
				table.Sweep(now)
			}
			used, seen := map[*Agent]int{}, map[*Place]bool{}
			for key, p := range table.places {
				seen[p] = true
				if used[p.agent] += p.blocks; p.key != key || key == 0 || p.open < 0 {
					t.Fatalf("place %+v stands under %d", *p, key)
				}
			}
			for _, x := range turns {
				if p := x.place; p != nil && !seen[p] {
					seen[p] = true
					used[p.agent] += p.blocks
				}
			}
			for i, a := range agents {
				if got, _ := a.Blocks(); got != used[a] {
					t.Fatalf("agent %d has given %d blocks away, its places have %d", i, got, used[a])
				}
			}
		}
		for _, x := range turns {
			table.Gone(now, x.place)
		}
		table.Sweep(now + time.Minute)
		for i, a := range agents {
			if got, _ := a.Blocks(); got != 0 || table.Places() != 0 {
				t.Fatalf("nobody is left, and agent %d has given %d blocks away to %d places", i, got, table.Places())
			}
		}
	}
}

// Whoever is admitted fits, beside all that were admitted before, wherever each of them goes; a session that
// has a place is left that alone; and nobody is let in to an agent for which somebody waits who came before.
func TestAdmit(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	waited, homes := 0, 0
	for range 5000 {
		agents := make([]*Agent, 1+r.IntN(4))
		for i := range agents {
			agents[i] = &Agent{room: r.IntN(4) * 30, used: r.IntN(60)}
		}
		askers := make([]Asker, r.IntN(8))
		may := make([][]bool, len(askers))
		for i := range askers {
			x := &askers[i]
			x.Need, x.May = 1+r.IntN(40), make([]bool, len(agents))
			for k := range x.May {
				x.May[k] = r.IntN(3) > 0
			}
			if may[i] = slices.Clone(x.May); r.IntN(3) == 0 {
				x.Place = &Place{agent: agents[r.IntN(len(agents))]}
			}
		}
		Admit(agents, askers)
		barred := make([]bool, len(agents))
		promised := make([]int, len(agents))
		for i := range askers {
			x := &askers[i]
			if x.Place != nil {
				if at := slices.Index(agents, x.Place.agent); may[i][at] {
					want := make([]bool, len(agents))
					if want[at] = true; !slices.Equal(x.May, want) {
						t.Fatalf("asker %d is at home at %d, and may go to %v", i, at, x.May)
					}
					homes++
					continue
				}
			}
			for k, lets := range x.May {
				if lets && (!may[i][k] || barred[k] || !agents[k].Fits(promised[k], x.Need)) {
					t.Fatalf("asker %d of %v may go to agent %d", i, askers, k)
				}
				if lets {
					promised[k] += x.Need
				}
			}
			if !slices.Contains(x.May, true) {
				waited++
				for k := range barred {
					barred[k] = barred[k] || may[i][k]
				}
			}
		}
	}
	if waited < 1000 || homes < 1000 {
		t.Errorf("%d waited, %d were at home: the test sees little", waited, homes)
	}
}

func TestParams(t *testing.T) {
	if err := Default().Validate(); err != nil || Default().Admit {
		t.Errorf("by default %+v: %v", Default(), err)
	}
	for _, idle := range []time.Duration{-1, 0, time.Second - 1, time.Hour + 1} {
		if (Params{Idle: idle}).Validate() == nil {
			t.Errorf("idle %v is taken", idle)
		}
	}
}
