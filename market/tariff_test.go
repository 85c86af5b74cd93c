package market

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// epochOf seals and opens asks, written "owner amount".
func epochOf(ceiling Credits, winners int, asks ...Ask) Epoch {
	e := Epoch{Class: "llama-8b/bf16/rtx", Number: 7, Ceiling: ceiling, Winners: winners}
	for i, a := range asks {
		a.Nonce[0] = byte(i)
		e.Seals = append(e.Seals, Sealed{a.Owner, a.Seal(e.Class, e.Number)})
		e.Opened = append(e.Opened, a)
	}
	return e
}

func ask(owner string, amount Credits) Ask { return Ask{Owner: owner, Amount: amount} }

func TestTariff(t *testing.T) {
	five := []Ask{ask("a", 4), ask("b", 2), ask("c", 7), ask("d", 1), ask("e", 12)}
	for _, c := range []struct {
		name    string
		epoch   Epoch
		amount  Credits
		winners string
		standby string
	}{
		{"the two lowest are paid the third's ask", epochOf(10, 2, five...), 4, "d b", "a c"},
		{"an ask above the ceiling is dropped", epochOf(6, 2, five...), 4, "d b", "a"},
		{"nobody lost: the ceiling", epochOf(6, 3, five...), 6, "d b a", ""},
		{"all may win: the ceiling", epochOf(10, 0, five...), 10, "d b a c", ""},
		{"a lost winner: the first on standby enters, the next one's ask is paid",
			epochOf(10, 2, five...).Without("d"), 7, "b a", "c"},
		{"an owner's asks count as their highest", epochOf(10, 2, append(five, ask("d", 5))...), 5, "b a",
			"d c"},
		{"nobody", epochOf(10, 2), 10, "", ""},
	} {
		got, err := c.epoch.Clear()
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got.Amount != c.amount || strings.Join(got.Winners, " ") != c.winners ||
			strings.Join(got.Standby, " ") != c.standby {
			t.Errorf("%s: %+v, want %d to %s before %s", c.name, got, c.amount, c.winners, c.standby)
		}
		if err := CheckTariff(c.epoch, got); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	kept := epochOf(10, 2, append(five, ask("d", 1))...)
	kept.Opened = kept.Opened[:5] // d seals twice and opens what suits it
	if got, err := kept.Clear(); err != nil || slices.Contains(got.Winners, "d") {
		t.Errorf("who keeps an ask closed is out: %+v, %v", got, err)
	}
}

// The order in which asks arrive changes nothing, nor do equal asks let anybody choose among friends.
func TestTariffShuffled(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 20))
	first := map[string]bool{}
	for n := range times(300) {
		var asks []Ask
		for i := range 2 + rng.IntN(6) {
			asks = append(asks, ask(fmt.Sprint("o", i), Credits(rng.IntN(3))))
		}
		e := epochOf(3, 1+rng.IntN(4), asks...)
		e.Prev[0] = byte(n)
		want, err := e.Clear()
		if err != nil {
			t.Fatal(err)
		}
		rng.Shuffle(len(e.Seals), func(i, j int) { e.Seals[i], e.Seals[j] = e.Seals[j], e.Seals[i] })
		rng.Shuffle(len(e.Opened), func(i, j int) { e.Opened[i], e.Opened[j] = e.Opened[j], e.Opened[i] })
		got, err := e.Clear()
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("seed %d: %+v, %v after shuffling, want %+v", seed, got, err, want)
		}
		equal := epochOf(3, 1, ask("x", 1), ask("y", 1))
		equal.Prev[0] = byte(n)
		if got, err = equal.Clear(); err != nil {
			t.Fatal(err)
		}
		first[got.Winners[0]] = true
	}
	if len(first) != 2 {
		t.Errorf("of two equal asks always the same one wins: %v", first)
	}
}

// Whatever is changed in a true tariff, CheckTariff sees it.
func TestMutatedTariffs(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 21))
	for range times(2000) {
		var asks []Ask
		for i := range 1 + rng.IntN(5) {
			asks = append(asks, ask(fmt.Sprint("o", i), Credits(rng.IntN(5))))
		}
		e := epochOf(3, rng.IntN(4), asks...)
		good, err := e.Clear()
		if err != nil {
			t.Fatal(err)
		}
		m := good
		m.Winners, m.Standby = slices.Clone(good.Winners), slices.Clone(good.Standby)
		switch all := append(m.Winners, m.Standby...); rng.IntN(5) {
		case 0:
			m.Amount += Credits(rng.IntN(5) - 2)
		case 1:
			m.Epoch++
		case 2:
			if len(all) > 1 { // two owners change places
				i, j := rng.IntN(len(all)), rng.IntN(len(all))
				all[i], all[j] = all[j], all[i]
				m.Winners, m.Standby = all[:len(m.Winners)], all[len(m.Winners):]
			}
		case 3:
			if len(all) > 0 { // one more or one fewer wins
				n := rng.IntN(len(all) + 1)
				m.Winners, m.Standby = all[:n], all[n:]
			}
		case 4:
			if len(all) > 0 {
				all[rng.IntN(len(all))] = "o9"
				m.Winners, m.Standby = all[:len(m.Winners)], all[len(m.Winners):]
			}
		}
		same := fmt.Sprint(m) == fmt.Sprint(good)
		if err := CheckTariff(e, m); (err == nil) != same || err != nil && !errors.Is(err, ErrOutcome) {
			t.Fatalf("seed %d: %v\n%+v\ntrue: %+v\n%+v", seed, err, m, good, e)
		}
	}
}

func TestBadEpochs(t *testing.T) {
	for _, c := range []struct {
		want  string
		spoil func(e *Epoch)
	}{
		{"class has 0 bytes", func(e *Epoch) { e.Class = "" }},
		{"ceiling is -0.000000001", func(e *Epoch) { e.Ceiling = -1 }},
		{"winners is -1", func(e *Epoch) { e.Winners = -1 }},
		{"seal 0: owner has 0 bytes", func(e *Epoch) { e.Seals[0].Owner = "" }},
		{"ask 0 of owner a: -0.000000001", func(e *Epoch) { e.Opened[0].Amount = -1 }},
		{"ask 0 of owner a: no seal fits", func(e *Epoch) { e.Opened[0].Amount++ }},
		{"ask 0 of owner a: no seal fits", func(e *Epoch) { e.Number++ }},
		{"ask 2 of owner a: no seal fits it, or it was opened twice",
			func(e *Epoch) { e.Opened = append(e.Opened, e.Opened[0]) }},
		{"owner a: more than 1024 asks", func(e *Epoch) { e.Seals = slices.Repeat(e.Seals[:1], MaxAsks+1) }},
	} {
		e := epochOf(10, 1, ask("a", 1), ask("b", 2))
		c.spoil(&e)
		if _, err := e.Clear(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
		if err := CheckTariff(e, Tariff{}); err == nil || errors.Is(err, ErrOutcome) {
			t.Errorf("%q: checked: %v", c.want, err)
		}
	}
}

func TestNextWinners(t *testing.T) {
	for _, c := range []struct {
		name string
		past []ClassUse
		want int
	}{
		{"nothing is known", nil, 0},
		{"three owners are too few", []ClassUse{{[]int{9, 9, 9}, 1}}, 0},
		{"two of four carry ten and a quarter more", []ClassUse{{[]int{8, 8, 8, 8}, 10}}, 2},
		{"three must, since the large one may lose", []ClassUse{{[]int{4, 5, 6, 90}, 12}}, 3},
		{"no slack", []ClassUse{{[]int{4, 4, 4, 4}, 13}}, 0},
		{"the busiest epoch counts", []ClassUse{{[]int{8, 8, 8, 8}, 1}, {[]int{8, 8, 8, 8}, 18}}, 3},
		{"an idle class still has a winner", []ClassUse{{[]int{8, 8, 8, 8}, 0}}, 1},
	} {
		if got := NextWinners(c.past); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// agentMarket is a class of agents with what serving a task truly costs their owners beside the metered cost,
// and rounds of clients.
type agentMarket struct {
	owners  []string
	private []Credits
	rounds  []Round // metered costs
}

func randomAgentMarket(rng *rand.Rand) agentMarket {
	var m agentMarket
	for i := range 4 + rng.IntN(2) {
		m.owners = append(m.owners, fmt.Sprintf("o%d", i))
		m.private = append(m.private, Credits(rng.IntN(7)))
	}
	for n := range 3 {
		r := Round{Domain: "agents", Number: uint64(n + 1), Rule: DefaultRule}
		for i := range m.owners { // one owner, one agent; the first has two
			r.Agents = append(r.Agents, Supply{AgentID(m.owners[i] + "-1"), open(1)})
			if i == 0 {
				r.Agents = append(r.Agents, Supply{AgentID(m.owners[i] + "-2"), open(1)})
			}
		}
		for j := range 1 + rng.IntN(5) {
			r.Tasks = append(r.Tasks, Task{ID: TaskID(fmt.Sprint("t", j)), Client: fmt.Sprint("c", j)})
			for a := range r.Agents {
				if rng.IntN(4) > 0 {
					r.Edges = append(r.Edges,
						Edge{Task: j, Agent: a, Value: Credits(rng.IntN(16)), Cost: Credits(rng.IntN(4))})
				}
			}
		}
		m.rounds = append(m.rounds, r)
	}
	return m
}

func ownerOf(a AgentID) string { owner, _, _ := strings.Cut(string(a), "-"); return owner }

// sold counts the tasks that an owner serves, and sums what clients pay beyond what agents are due, when
// every agent's tasks cost it so much more.
func (m agentMarket) sold(t *testing.T, owner string, of func(AgentID) (Credits, bool)) (tasks Credits,
	surplus Credits) {
	t.Helper()
	for _, r := range m.rounds {
		r, err := r.WithTariffs(of)
		if err != nil {
			t.Fatal(err)
		}
		o, err := Clear(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range o.Awards {
			if ownerOf(a.Agent) == owner {
				tasks++
			}
			surplus += a.Premium
		}
	}
	return tasks, surplus
}

// Every lie that an owner can tell on a small grid, one ask for each of its agents, with every owner or none
// lost in the middle of the epoch: none gains under tariff. Under vcg, where an agent is paid what it says,
// some do.
func TestAgentsLieInVainUnderTariff(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 22))
	const ceiling = 5
	tried, changed, vcgGains := 0, 0, 0
	for range times(25) {
		m := randomAgentMarket(rng)
		winners := 1 + rng.IntN(len(m.owners))
		liar := rng.IntN(len(m.owners))
		lost := ""
		if i := rng.IntN(2 * len(m.owners)); i < len(m.owners) && i != liar {
			lost = m.owners[i]
		}
		keeps := func(asks [2]Credits) Credits {
			var all []Ask
			for i, owner := range m.owners {
				first, second := m.private[i], m.private[i]
				if i == liar {
					first, second = asks[0], asks[1]
				}
				all = append(all, ask(owner, first))
				if i == 0 {
					all = append(all, ask(owner, second))
				}
			}
			e := epochOf(ceiling, winners, all...)
			if lost != "" {
				e = e.Without(lost)
			}
			tariff, err := e.Clear()
			if err != nil {
				t.Fatal(err)
			}
			tasks, surplus := m.sold(t, m.owners[liar], func(a AgentID) (Credits, bool) {
				return tariff.Amount, slices.Contains(tariff.Winners, ownerOf(a))
			})
			if surplus < 0 {
				t.Fatalf("seed %d: clients pay %d less than agents are due", seed, -surplus)
			}
			return tasks * (tariff.Amount - m.private[liar])
		}
		truth := [2]Credits{m.private[liar], m.private[liar]}
		honest := keeps(truth)
		if honest < 0 {
			t.Fatalf("seed %d: an honest owner loses %d", seed, -honest)
		}
		for first := range Credits(ceiling + 3) {
			for second := range Credits(ceiling + 3) {
				if liar != 0 && second != first {
					continue // it has one agent
				}
				tried++
				got := keeps([2]Credits{first, second})
				if got > honest {
					t.Fatalf("seed %d: %s keeps %d by asking %d and %d, and %d by the truth %d\n%+v", seed,
						m.owners[liar], got, first, second, honest, truth[0], m)
				}
				if got < honest {
					changed++
				}
			}
		}
		// Under vcg the card bears the ask, and the agent is paid its card.
		vcg := func(asked Credits) Credits {
			tasks, _ := m.sold(t, m.owners[liar], func(a AgentID) (Credits, bool) {
				i := slices.Index(m.owners, ownerOf(a))
				if i == liar {
					return asked, true
				}
				return m.private[i], true
			})
			return tasks * (asked - m.private[liar])
		}
		for asked := range Credits(ceiling + 8) {
			if vcg(asked) > vcg(m.private[liar]) {
				vcgGains++
				break
			}
		}
	}
	if changed == 0 || vcgGains == 0 {
		t.Errorf("%d lies changed anything under tariff, %d owners gain under vcg: the test sees nothing",
			changed, vcgGains)
	}
	t.Logf("%d lies tried under tariff, 0 paid; under vcg %d owners of %d gain by one", tried, vcgGains,
		times(25))
}

// One integer on both sides, at most the cap.
func TestSettle(t *testing.T) {
	card, use := Price{Miss: 3_000_000, Hit: 1_000_000, Out: 9_000_000},
		Usage{Prompt: 10, Cached: 4, Output: 2}
	for _, c := range []struct {
		rule              string
		tariff, cap, want Credits
	}{
		{SettleMetered, 5, 100, 40 + 5}, {SettleMetered, 5, 42, 42}, {SettleMetered, 0, 100, 40},
		{SettleQuoted, 5, 100, 33}, {SettleQuoted, 5, 30, 30}, {SettleMetered, 5, -1, 0},
	} {
		if got := Settle(c.rule, card, c.tariff, 33, use, c.cap); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

func TestWithTariffs(t *testing.T) {
	r := Round{Rule: DefaultRule, Tasks: []Task{{ID: "p", Client: "c"}},
		Agents: []Supply{{"a", open(1)}, {"b", open(1)}},
		Edges:  []Edge{{0, 0, 9, 2, 0, 0}, {0, 1, 9, 2, 0, 0}}}
	got, err := r.WithTariffs(func(a AgentID) (Credits, bool) { return 4, a == "b" })
	if err != nil || !slices.Equal(got.Edges, []Edge{{0, 1, 9, 6, 0, 0}}) || r.Edges[1].Cost != 2 {
		t.Errorf("%+v, %v", got.Edges, err)
	}
	for _, bad := range []Credits{-1, MaxCredits} {
		if _, err := r.WithTariffs(func(AgentID) (Credits, bool) { return bad, true }); err == nil ||
			!strings.Contains(err.Error(), "agent a: cost") {
			t.Errorf("tariff %d: %v", bad, err)
		}
	}
	r.Edges[0].Agent = 7
	if _, err := r.WithTariffs(func(AgentID) (Credits, bool) { return 1, true }); err == nil {
		t.Error("an edge to no agent passed")
	}
}

// WithTariffs is a round as clients see it under pricing tariff or posted: the cost of every edge includes
// its agent's tariff, and agents without one, whose owner did not win, sell nothing. Who sells, and at which
// tariff, is fixed before any value is read.
func (r Round) WithTariffs(of func(AgentID) (tariff Credits, sells bool)) (Round, error) {
	edges := make([]Edge, 0, len(r.Edges))
	for _, e := range r.Edges {
		if e.Agent < 0 || e.Agent >= len(r.Agents) {
			return Round{}, fmt.Errorf("round %s-%d: agent index is %d, want 0 to %d", clip(r.Domain),
				r.Number, e.Agent, len(r.Agents)-1)
		}
		tariff, sells := of(r.Agents[e.Agent].Agent)
		if !sells {
			continue
		}
		cost, ok := e.Cost.Add(tariff)
		if !ok || tariff < 0 || cost > MaxCredits {
			return Round{}, fmt.Errorf("round %s-%d: agent %s: cost %s and tariff %s are together beyond "+
				"%s credits, or one is negative",
				clip(r.Domain), r.Number, r.Agents[e.Agent].Agent, e.Cost, tariff, MaxCredits)
		}
		e.Cost = cost
		edges = append(edges, e)
	}
	r.Edges = edges
	return r, nil
}

// A premium follows what an answer costs, by the rule that the round was cleared under.
func TestPremiumFollowsTheAnswer(t *testing.T) {
	for _, c := range []struct {
		rule                             string
		cancelled                        bool
		premium, fee, quoted, cost, left Credits
		want                             Credits
	}{
		{SettleMetered, false, 40, 0, 100, 100, 500, 40},           // as quoted
		{SettleMetered, false, 40, 0, 100, 10, 500, 4},             // a tenth of it
		{SettleMetered, false, 40, 0, 100, 300, 500, 120},          // three times as long
		{SettleMetered, false, 40, 4, 100, 10, 500, 7},             // the fee stays, the rest is rounded down
		{SettleMetered, false, 40, 4, 100, 0, 500, 4},              // nothing was served that has a price
		{SettleMetered, false, 40, 0, 100, 300, 60, 60},            // no more than the hold has
		{SettleMetered, false, 40, 3, 0, 0, 500, 40},               // a card that asks for nothing
		{SettleMetered, false, 40, 3, 0, 9, 500, 40},               // or expected to
		{SettleMetered, false, 0, 0, 100, 300, 500, 0},             // nobody else was there
		{SettleQuoted, false, 40, 0, 100, 10, 500, 40},             // all is as quoted
		{SettleMetered, true, 40, 4, 100, 10, 500, 40},             // its client has ended it
		{SettleMetered, true, 40, 4, 100, 0, 500, 40},              // before its first token
		{SettleMetered, true, 40, 0, 100, 300, 500, 120},           // or late
		{SettleMetered, false, MaxCredits, 0, 1, MaxCredits, 9, 9}, // nothing overflows
		{SettleMetered, false, MaxCredits, 0, MaxCredits, MaxCredits, MaxCredits, MaxCredits},
	} {
		got := SettlePremium(c.rule, c.cancelled, c.premium, c.fee, c.quoted, c.cost, c.left)
		if got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
