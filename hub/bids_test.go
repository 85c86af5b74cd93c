package hub_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/hub/regime"
	"souk/market"
)

// pairing holds a hub's forecast of a task on an agent, whatever is bid.
type pairing struct {
	hub.Estimate
	worthIt, inRound bool // these two may read the task's own bid
	edgeCost, toll   market.Credits
}

// bidden is a round of tasks with some terms in a house that is otherwise the same for the same seed.
type bidden struct {
	pairs  map[string]pairing
	agents map[market.AgentID][]market.Seat
	order  []string // of the tasks that wait
}

// terms are a client's possible bids for a task.
func randomTerms(r *rand.Rand) bus.Terms {
	worth, delta, patience := market.Credits(4_000_000)<<r.IntN(12), 0.3+0.7*r.Float64(),
		int64(1)<<(8+r.IntN(8))
	t := bus.Terms{Worth: &worth, Delta: &delta, PatienceMS: &patience}
	if r.IntN(3) == 0 {
		most := worth / market.Credits(1+r.IntN(4))
		t.MaxPrice = &most
	}
	return t
}

// bid clears a round of 12 tasks that bid terms; nil if none of them is worth its cost.
func bid(t *testing.T, seed uint64, terms []bus.Terms) *bidden {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	h := newHouse(t, func(c *hub.Config) {
		c.Batch.Eager, c.Fee = false, 500
		c.Regime = regime.Params{Temperature: 3 * r.Float64(), Overlap: r.Float64()}
		c.Pricing = []string{market.PricingVCG, market.PricingPosted}[r.IntN(2)]
	})
	for i := range 5 {
		reg := registration(fmt.Sprint("a-", i), []string{"llama", "qwen"}[r.IntN(2)], 1+r.IntN(3),
			0.6+r.Float64()/3, card(1<<r.IntN(6), 1, market.Credits(4+r.IntN(60))))
		reg.MaxModelLen = 2000 << r.IntN(3)
		h.must(h.register(reg))
	}
	dear := worth(10 * market.Credit)
	for i := range 6 { // some agents are warm, and one of the cheap ones is taken
		h.must(h.step(h.task("ann", fmt.Sprint("warm-", i), dear,
			func(m *bus.Task) { m.Session = fmt.Sprint("s-", i%3) })))
	}
	h.pass(20 * time.Millisecond)
	for len(h.dispatched) > 1 {
		d := h.dispatched[0]
		h.dispatched = h.dispatched[1:]
		h.serve(d, market.Usage{Prompt: 100 + r.IntN(20), Output: 1 + r.IntN(80)})
		h.must(h.step(&bus.Feedback{Client: "ann", Sender: "ann", Task: d.Task.ID, Quality: r.Float64()}))
	}
	h.pass(time.Second)
	var tasks []*bus.Task
	for i := range terms {
		m := h.task([]string{"ann", "bob"}[r.IntN(2)], fmt.Sprint("t", i), func(m *bus.Task) {
			m.Session, m.Terms = fmt.Sprint("s-", r.IntN(6)), terms[i]
			m.MaxTokens = 20 << r.IntN(6)
			m.DeadlineMS = h.now.Add(time.Duration(40+r.IntN(400)) * time.Millisecond).UnixMilli()
			m.Model = []string{"", "", "llama", "qwen"}[r.IntN(4)]
			if r.IntN(3) > 0 { // a long prompt that others begin with, too
				m.Prompt = bus.Prompt{Bytes: 6000, Messages: 2, Tokens: 1500,
					Prefixes: []bus.PrefixHash{{Bytes: 5000,
						Hash: uint64(r.IntN(2))}, {Bytes: 6000, Hash: uint64(100 + i)}}}
			}
		})
		tasks = append(tasks, m)
	}
	for _, m := range tasks {
		h.must(h.step(m))
	}
	b := &bidden{pairs: map[string]pairing{}, agents: map[market.AgentID][]market.Seat{}}
	h.now = h.now.Add(20 * time.Millisecond)
	h.n.Tick(h.now)
	for _, m := range tasks {
		// none of who was refused: no agent has its model, say, or its bid is below any cost
		for agent, q := range h.n.Estimates(m.Client, m.ID) {
			q.Value = 0 // is what it bids
			b.pairs[m.Client+"/"+m.ID+">"+agent] = pairing{Estimate: q}
		}
	}
	b.order = h.n.Order()
	rounds := h.n.Stats().Rounds
	h.run()
	if h.n.Stats().Rounds != rounds+1 {
		return nil // nothing was worth its cost
	}
	for key, worthIt := range h.n.Worthwhile() {
		if p, asked := b.pairs[key]; asked {
			p.worthIt = worthIt
			b.pairs[key] = p
		}
	}
	whole := h.n.Whole() // before it was pruned by what was bid
	for _, e := range whole.Edges {
		key := string(whole.Tasks[e.Task].ID) + ">" + string(whole.Agents[e.Agent].Agent)
		p, asked := b.pairs[key]
		if !asked {
			continue // of one that came before, and waits for a warm agent
		}
		p.inRound, p.edgeCost, p.toll = true, e.Cost, e.Toll
		b.pairs[key] = p
	}
	for _, a := range whole.Agents {
		b.agents[a.Agent] = slices.Clone(a.Seats)
	}
	return b
}

// Who may meet whom, what is predicted and quoted, how good answers are expected to be, every toll and the
// order of those that wait are the same whatever the tasks of a round bid: terms are scaled, drawn anew and
// dealt out otherwise. A bid decides the weight of its own task's edges; one of negative weight is left out,
// and no other.
func TestNoBidDecidesWhoMayMeet(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 8))
	compared, both, gone, cheap := 0, 0, 0, 0
	for n := range uint64(150) {
		var terms []bus.Terms
		for range 12 {
			terms = append(terms, randomTerms(rng))
		}
		first := bid(t, seed+n, terms)
		for range 3 {
			other := slices.Clone(terms)
			switch rng.IntN(3) {
			case 0:
				rng.Shuffle(len(other), func(i, j int) { other[i], other[j] = other[j], other[i] })
			case 1:
				by := market.Credits(1 + rng.IntN(30))
				for i := range other {
					worth := *other[i].Worth * by
					other[i] = bus.Terms{Worth: &worth, Delta: other[i].Delta}
				}
			default:
				for i := range other {
					other[i] = randomTerms(rng)
				}
			}
			second := bid(t, seed+n, other)
			// a bid is below any cost, even on an idle agent
			if first == nil || second == nil ||
				!slices.Equal(slices.Sorted(slices.Values(first.order)),
					slices.Sorted(slices.Values(second.order))) {
				cheap++
				continue
			}
			compared++
			if !slices.Equal(first.order, second.order) {
				t.Fatalf("round %d: the tasks wait as %v, and with other bids as %v", n, first.order,
					second.order)
			}
			for id, seats := range second.agents {
				if was := first.agents[id]; !slices.Equal(was, seats) {
					t.Fatalf("round %d: agent %s offers %v, and with other bids %v", n, id, was, seats)
				}
			}
			for key, p := range first.pairs {
				q := second.pairs[key]
				for _, x := range []pairing{p, q} {
					if x.inRound != (x.Usable && x.InTime && x.worthIt) {
						t.Fatalf("round %d: %s is in the round: %v, and ought not: %+v", n, key, x.inRound, x)
					}
				}
				if p.inRound && q.inRound {
					both++
				} else if p.inRound != q.inRound {
					gone++
					p.edgeCost, p.toll, q.edgeCost, q.toll = 0, 0, 0, 0
				}
				p.worthIt, p.inRound, q.worthIt, q.inRound = false, false, false, false
				if p != q {
					t.Fatalf("round %d: %s is %+v, and with other bids %+v", n, key, p, q)
				}
			}
		}
	}
	if compared < 50 || both == 0 || gone == 0 {
		t.Errorf("%d rounds compared (%d with a bid too low to come in), %d edges in both, %d in one: the "+
			"test sees little", compared, cheap, both, gone)
	}
}

// An answer that is cut where its client's max_price ends is as long as its bid, and says nothing of how long
// answers are: what the next task is expected to need does not follow from what another bid.
func TestACutByPriceTeachesNoLength(t *testing.T) {
	for name, c := range map[string]struct {
		finish  string
		output  int
		learned bool
	}{
		"cut at the price":  {"length", 3, false},
		"ended by itself":   {"stop", 3, true},
		"as long as it may": {"length", 100, true},
	} {
		h := newHouse(t, nil)
		h.join("a-1", "llama", 1, 0.8, card(1, 1, 4))
		before := h.n.IdleEstimate("a-1", h.task("bob", "next"))
		for i := range 20 {
			h.must(h.step(h.task("ann", fmt.Sprint("t", i), worth(market.Credit))))
			d := h.take("ann", fmt.Sprint("t", i))
			done := completion("a-1", d, market.Usage{Prompt: 100, Output: c.output})
			done.Finish = c.finish
			h.accept(d)
			h.must(h.step(done))
		}
		after := h.n.IdleEstimate("a-1", h.task("bob", "next"))
		if (after.Forecast.Output != before.Forecast.Output) != c.learned {
			t.Errorf("%s: %d tokens are expected, %d before", name, after.Forecast.Output,
				before.Forecast.Output)
		}
	}
}
