package hub

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// burst is a house with a fleet of few kinds, some of it busy or warm, in front of which several tasks wait.
func burst(t *testing.T, r *rand.Rand) *house {
	h := newHouse(t, func(c *Config) {
		c.Batch.Eager, c.Fee, c.Tiers = false, market.Credits(r.IntN(2)*500), r.IntN(2) == 0
		c.Seats.Sessions = r.IntN(2) == 0
		c.Seats.Spare = time.Duration(r.IntN(2)) * time.Second
		c.Seats.Depth = time.Duration(r.IntN(2)) * 300 * time.Millisecond
		c.Crowd.Beside = time.Duration(r.IntN(2)) * 1500 * time.Microsecond
		c.Crowd.Compute = 4 * float64(r.IntN(2))
		c.Clarke = []string{market.ClarkeTask, market.ClarkeClient}[r.IntN(2)]
	})
	var clients []string
	for i := range 1 + r.IntN(8) {
		clients = append(clients, fmt.Sprint("c", i))
		h.prepaid[clients[i]] = 1000 * market.Credit
	}
	fleet, kinds := 4+r.IntN(60), 1+r.IntN(3)
	for i := range fleet {
		k := r.IntN(kinds)
		reg := registration(fmt.Sprintf("a-%02d", i), []string{"llama", "qwen", "llama"}[k], 1+k, 0.9,
			card(market.Credits(1+k), 1, 4))
		if k == 1 {
			reg.Tiers = []market.Tier{{Slots: 1}, {Slots: 1, Toll: -20_000}}
		}
		reg.BlockSize, reg.KVTokens = 10, 4000*r.IntN(2)
		h.must(h.n.Join(h.now, reg))
	}
	h.run()
	ask := func(name string, n int, change func(*bus.Task)) {
		for i := range n {
			h.must(h.n.Step(h.now, h.task(clients[r.IntN(len(clients))], fmt.Sprint(name, i),
				worth(10*market.Credit), change)))
			h.fund()
		}
	}
	sessions := 2 << r.IntN(6)
	session := func(m *bus.Task) { m.Session = fmt.Sprint("s", r.IntN(sessions)) }
	ask("warm", r.IntN(2)*(1+r.IntN(fleet)), session)
	h.pass(20 * time.Millisecond)
	ends := 1 + r.IntN(4)
	for i := range h.dispatched {
		if d := h.dispatched[i]; r.IntN(ends) > 0 {
			h.serve(d, market.Usage{Prompt: 100, Output: 1 + r.IntN(80)})
		}
	}
	h.dispatched = nil
	h.pass(time.Second)
	ask("t", 2+r.IntN(fleet), func(m *bus.Task) {
		session(m)
		m.Model = []string{"", "", "llama", "qwen"}[r.IntN(4)]
		if r.IntN(2) == 0 {
			m.Terms = randomTerms(r)
		}
	})
	return h
}

// fund does what the Node asks of the treasury, and clears no round.
func (h *house) fund() {
	h.t.Helper()
	funds := h.n.out.Funds
	h.n.out.Funds = nil
	for _, f := range funds {
		h.must(h.n.Step(h.now, h.treasury(f)))
	}
}

// Tasks that have a place of their own on idle agents look at no others, and what comes of their round is
// what would if each had looked at every agent: welfare, the price of every slot, and what each client gains.
func TestOwnPlacesAreWorthTheWholeFleet(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 43))
	spared, told := 0, 0
	for n := range 400 {
		h := burst(t, r)
		h.now = h.now.Add(20 * time.Millisecond)
		h.n.advance(h.now)
		weigh := func(meet func()) (market.Round, market.Round) {
			h.n.collect()
			h.n.lineUp()
			meet()
			pruned := *h.n.assemble()
			for _, task := range h.n.round.tasks {
				h.n.batch.Add(task, task.arrived)
			}
			whole := h.n.round.whole
			whole.Agents, whole.Edges = slices.Clone(whole.Agents), slices.Clone(whole.Edges)
			whole.Tasks, whole.Parts = slices.Clone(whole.Tasks), nil
			for i := range whole.Tasks {
				if w := whole.Tasks[i].Wait; w != nil {
					own := *w
					whole.Tasks[i].Wait = &own
				}
			}
			for i := range whole.Agents {
				whole.Agents[i].Tiers = slices.Clone(whole.Agents[i].Tiers)
			}
			whole.Sort()
			return pruned, whole
		}
		pruned, _ := weigh(h.n.meet)
		weighed := slices.Clone(h.n.round.tasks)
		if h.n.round.spreads.any {
			spared += h.n.round.spared
			for _, w := range h.n.round.spreads.list {
				told += w.all - len(w.members)
			}
		}
		_, whole := weigh(func() {
			s := &h.n.round
			s.pairs, s.spared = s.pairs[:0], 0
			s.waits, s.waitFor = resized(s.waits, len(s.tasks)), resized(s.waitFor, len(s.tasks))
			s.yields = resized(s.yields, len(s.tasks))
			h.n.eachInLine(func(i int) {
				h.n.prospects(s.tasks[i])
				from := len(s.pairs)
				for k, a := range s.agents {
					if x := h.n.prospect(a.seat); x.serves && s.tasks[i].lets(a.seat) {
						s.pairs = append(s.pairs, pair{task: int32(i), agent: int32(k),
							half:  x.ttft - x.early,
							value: s.tasks[i].valueOf(x), cost: x.quote.cost})
					}
				}
				h.n.charge(i, s.pairs[from:])
			})
		})
		if !slices.Equal(weighed, h.n.round.tasks) {
			continue // tasks that waited for news came in between
		}
		got, want := outcomeOf(t, pruned), outcomeOf(t, whole)
		if got.String() != want.String() {
			t.Fatalf("seed %d, round %d, %d tasks, %d agents:\n%s\nand with every agent looked at\n%s", seed, n,
				len(h.n.round.tasks), len(h.n.round.agents), got, want)
		}
	}
	if spared == 0 || told == 0 {
		t.Errorf("seed %d: %d pairs were not looked at, and %d agents told from others: the test sees nothing",
			seed, spared, told)
	}
}

// outcome is what does not depend on which of several best assignments is taken.
type outcome struct {
	welfare market.Credits
	prices  map[string]market.Credits // above 0, by slot
	gains   map[string]market.Credits // above 0, by client: by these its bill is fixed
}

func (o outcome) String() string { return fmt.Sprint(o.welfare, o.prices, o.gains) }

func outcomeOf(t *testing.T, r market.Round) outcome {
	t.Helper()
	o, err := market.Clear(r)
	if err == nil {
		err = market.Check(r, o)
	}
	if err != nil {
		t.Fatal(err)
	}
	out := outcome{prices: map[string]market.Credits{}, gains: map[string]market.Credits{}}
	tasks := map[market.TaskID]market.Task{}
	for _, x := range r.Tasks {
		tasks[x.ID] = x
	}
	out.welfare = o.Welfare
	for _, a := range o.Awards {
		x, gain := tasks[a.Task], a.Value-a.Cost-a.Premium
		if x.Wait != nil {
			out.welfare, gain = out.welfare-x.Wait.Loss, gain-x.Wait.Loss
		}
		if gain != 0 {
			out.gains[x.Client] += gain
		}
	}
	for _, p := range o.Prices {
		if p.Price > 0 {
			out.prices[fmt.Sprint(r.Agents[p.Agent].Agent, "/", p.Tier)] = p.Price
		}
	}
	return out
}
