package session

import (
	"cmp"
	"fmt"
	"maps"
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
		table := NewTable(Params{Admit: true, Idle: 10 * time.Second})
		agents := []*Agent{{}, {}, {}}
		for _, a := range agents {
			a.Resize(r.IntN(200), 1)
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
				x.place = table.Award(x.place, fmt.Sprint("c", x.key%3), x.key, agents[r.IntN(len(agents))],
					r.IntN(50))
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
			of := map[string]int{}
			for p := range seen {
				if p.agent != nil {
					of[p.client] += p.blocks
				}
			}
			for i, a := range agents {
				if got, _ := a.Blocks(); got != used[a] {
					t.Fatalf("agent %d has given %d blocks away, its places have %d", i, got, used[a])
				}
			}
			if !maps.Equal(of, table.held) {
				t.Fatalf("clients have %v blocks, their places %v", table.held, of)
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

// Whoever is admitted fits, beside all that were admitted before, wherever each of them goes; a session
// that has a place is left that alone, and a place in use is nobody else's; nobody is let in to an agent
// for which somebody waits whose client has fewer blocks, or as many and came before; and who gives up a
// place still has as much as a client that is let in has with that.
func TestAdmit(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	waited, placed, gave := 0, 0, 0
	for range 5000 {
		table := NewTable(Params{Admit: true, Idle: time.Minute})
		name := func() string { return string(rune('a' + r.IntN(3))) }
		agents := make([]*Agent, 1+r.IntN(4))
		for i := range agents {
			agents[i] = &Agent{room: r.IntN(4) * 30}
		}
		for key := range uint64(r.IntN(12)) {
			p := table.Award(nil, name(), key+1, agents[r.IntN(len(agents))], 1+r.IntN(20))
			if r.IntN(2) == 0 {
				table.Gone(time.Duration(r.IntN(5)), p)
			}
		}
		askers := make([]Asker, r.IntN(8))
		may := make([][]bool, len(askers))
		for i := range askers {
			x := &askers[i]
			x.Client, x.Need, x.May = name(), 1+r.IntN(40), make([]bool, len(agents))
			for k := range x.May {
				x.May[k] = r.IntN(3) > 0
			}
			if may[i] = slices.Clone(x.May); r.IntN(3) == 0 {
				x.Place = table.Come(uint64(1 + r.IntN(12)))
			}
		}
		had, open := maps.Clone(table.held), map[uint64]*Place{}
		for key, p := range table.places {
			if p.open > 0 {
				open[key] = p
			}
		}
		var order, before []int
		has := maps.Clone(had)
		for i := range askers {
			x := &askers[i]
			before = append(before, has[x.Client])
			if x.Place == nil || x.Place.agent == nil || !may[i][slices.Index(agents, x.Place.agent)] {
				has[x.Client] += x.Need
				order = append(order, i)
			}
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(before[a], before[b]) })
		table.Admit(agents, askers)
		for key, p := range open {
			if table.places[key] != p || p.agent == nil {
				t.Fatalf("a place in use was given away: %+v", p)
			}
		}
		for i := range askers {
			if x := &askers[i]; !slices.Contains(order, i) {
				want := make([]bool, len(agents))
				if want[slices.Index(agents, x.Place.agent)] = true; !slices.Equal(x.May, want) {
					t.Fatalf("asker %d is at home, and may go to %v, not %v", i, x.May, want)
				}
				placed++
			}
		}
		barred, promised := make([]bool, len(agents)), make([]int, len(agents))
		least := 1 << 30
		for _, i := range order {
			x := &askers[i]
			for k, lets := range x.May {
				if lets && (!may[i][k] || barred[k] || !agents[k].Fits(promised[k], x.Need)) {
					t.Fatalf("asker %d of %v may go to agent %d", i, askers, k)
				}
				if lets {
					promised[k] += x.Need
					least = min(least, before[i]+x.Need)
				}
			}
			if !slices.Contains(x.May, true) {
				waited++
				for k := range barred {
					barred[k] = barred[k] || may[i][k]
				}
			}
		}
		for client, blocks := range had {
			if table.held[client] < blocks {
				gave++
				if table.held[client] < least {
					t.Fatalf("%s had %d blocks and has %d, for who has %d or more", client, blocks,
						table.held[client], least)
				}
			}
		}
	}
	if waited < 1000 || placed < 1000 || gave < 50 {
		t.Errorf("%d waited, %d were placed, %d gave up places: the test sees little", waited, placed, gave)
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
