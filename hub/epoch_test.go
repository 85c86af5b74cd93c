package hub_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/market"
)

// owners is a house whose agents belong to owners with asks; it answers the hub's calls as honest agents do.
type owners struct {
	*house
	asks  map[string]market.Credits // by agent
	owner map[string]string
	read  int
}

func newOwners(t *testing.T) *owners {
	o := &owners{asks: map[string]market.Credits{}, owner: map[string]string{}}
	o.house = newHouse(t, func(c *hub.Config) {
		c.Pricing, c.Ceiling, c.Silence = market.PricingTariff, 90_000, time.Hour // no summaries here
	})
	return o
}

func (o *owners) joinOwner(id, owner string, ask market.Credits) {
	o.t.Helper()
	o.asks[id], o.owner[id] = ask, owner
	r := registration(id, "llama", 2, 0.8, card(1, 1, 1))
	r.Owner, r.Class = owner, "h200"
	o.must(o.n.Join(o.now, r))
	o.run()
}

func (o *owners) ask(id string, number uint64) market.Ask {
	return market.Ask{Owner: o.owner[id], Amount: o.asks[id], Nonce: [16]byte{byte(number)}}
}

// answer says what agents say to the calls that came since it was last asked to.
func (o *owners) answer() {
	for ; o.read < len(o.messages); o.read++ {
		c, ok := o.messages[o.read].Body.(*bus.Call)
		if !ok {
			continue
		}
		ask := o.ask(c.Agent, c.Epoch)
		m := &bus.Ask{Agent: c.Agent, Class: c.Class, Epoch: c.Epoch, Amount: ask.Amount, Nonce: ask.Nonce[:]}
		if !c.Open {
			seal := ask.Seal(c.Class, c.Epoch)
			m.Amount, m.Nonce, m.Seal = 0, nil, seal[:]
		}
		o.n.Step(o.now, m)
		o.run()
	}
}

func (o *owners) wait(d time.Duration) {
	for end := o.now.Add(d); o.now.Before(end); {
		o.pass(50 * time.Millisecond)
		o.answer()
	}
}

// serveAll serves a task on every agent that sells, and returns their dispatches.
func (o *owners) serveAll(client string, tasks int) (agents []string) {
	o.t.Helper()
	for i := range tasks {
		o.must(o.n.Step(o.now,
			o.task(client, fmt.Sprint("t", o.now.UnixNano(), "-", i), worth(market.Credit))))
	}
	o.run()
	o.pass(20 * time.Millisecond)
	for len(o.dispatched) > 0 {
		d := o.dispatched[0]
		agents = append(agents, o.agentOf(d))
		o.serve(o.take(d.Task.Client, d.Task.ID), market.Usage{Prompt: 100, Output: 10})
	}
	slices.Sort(agents)
	return slices.Compact(agents)
}

// Six owners, of whom the fewest sell that carry the load: paid what the first that lost had asked, whatever
// they asked themselves.
func TestAnEpochOfAClass(t *testing.T) {
	o := newOwners(t)
	for i := range 6 {
		o.joinOwner(fmt.Sprint("a-", i), fmt.Sprint("owner-", i), market.Credits(10_000*(i+1)))
	}
	o.must(o.step(o.task("ann", "early", worth(market.Credit))))
	if len(o.dispatched) != 0 {
		t.Fatal("sold before there is a tariff")
	}
	o.wait(2 * time.Second)
	e, tariff, ok := o.n.Book().Epoch("h200")
	if !ok || e.Number != 1 || tariff.Amount != 90_000 || len(tariff.Winners) != 6 {
		t.Fatalf("the first epoch, in which all win: %+v", tariff)
	}
	d := o.take("ann", "early")
	if d.Tariff != 90_000 || d.Quoted < d.Tariff {
		t.Errorf("tariff %s in a quote of %s", d.Tariff, d.Quoted)
	}
	o.serve(d, market.Usage{Prompt: 100, Output: 10})
	o.serveAll("ann", 2)
	// two more epochs: by the second's use the third leaves out whom the load does not need
	o.wait(65 * time.Second)
	e, tariff, _ = o.n.Book().Epoch("h200")
	if e.Number < 3 || len(tariff.Winners) == 6 ||
		tariff.Amount != market.Credits(10_000*(len(tariff.Winners)+1)) || tariff.Winners[0] != "owner-0" {
		t.Fatalf("epoch %d: %+v", e.Number, tariff)
	}
	winners := len(tariff.Winners)
	got := o.serveAll("ann", 12)
	if len(got) != winners {
		t.Errorf("%v sell, want those of %v", got, tariff.Winners)
	}
	for _, id := range got {
		if !slices.Contains(tariff.Winners, o.owner[id]) {
			t.Errorf("%s sells and did not win", id)
		}
	}
	// A winner's last agent leaves: the first on standby takes its place, at the next one's ask.
	o.n.Leave(o.now, "a-0")
	o.run()
	e, tariff, _ = o.n.Book().Epoch("h200")
	if len(e.Lost) != 1 || len(tariff.Winners) != winners || tariff.Winners[0] != "owner-1" ||
		tariff.Amount != market.Credits(10_000*(winners+2)) {
		t.Errorf("without owner-0: lost %v, %+v", e.Lost, tariff)
	}
	if got := o.serveAll("bob", 12); slices.Contains(got, "a-0") ||
		!slices.Contains(got, fmt.Sprint("a-", winners)) {
		t.Errorf("then %v sell", got)
	}
	// A hub that starts again goes on with the tariff that stands in its journal.
	o.restart()
	o.must(o.n.Lead(o.now, 8))
	o.run()
	o.joinOwner("a-1", "owner-1", 20_000)
	if got := o.serveAll("ann", 1); !slices.Equal(got, []string{"a-1"}) {
		t.Errorf("after a restart %v sell", got)
	}
	if r := o.lastRound().Round; r.Rule.Pricing != market.PricingTariff ||
		r.Sellers[0] != (market.Seller{Owner: "owner-1", Class: "h200", Tariff: tariff.Amount}) {
		t.Errorf("recorded %+v, %+v", r.Rule, r.Sellers)
	}
	o.audited()
}
