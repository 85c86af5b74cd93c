package tariff

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/hub/estimate"
	"souk/hub/turn"
	"souk/ledger"
	"souk/market"
)

var byAsks = Rule{Rule: market.Rule{Pricing: market.PricingTariff}, Ceiling: 90_000}

const epoch = 30 * time.Second

// house is a room over a book, with agents of class h200 that answer its calls as honest ones do.
type house struct {
	testing.TB
	turn     turn.Turn
	room     *Room
	agents   []estimate.Seller
	asks     map[string]market.Credits // by agent; of who has none nothing is heard
	repriced int
	kinds    []ledger.Kind // of the records that were written
	wrong    []error       // of answers that were not taken
}

func newHouse(t testing.TB) *house {
	h := &house{TB: t, turn: turn.New("hub-math", "math", ledger.NewBook(), [32]byte{1}),
		asks: map[string]market.Credits{}}
	h.turn.Leading, h.turn.Epoch = true, 1
	h.turn.Advance(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	h.turn.Wrote = func(f *ledger.Frame) {
		for _, r := range f.Records {
			h.kinds = append(h.kinds, r.Kind)
		}
	}
	h.room = New(&h.turn, epoch, byAsks, h.each, func() { h.repriced++ })
	if err := h.turn.Commit(ledger.NewOpen("hub-math", ledger.RoleHub, "math", h.turn.Salt())); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *house) each(yield func(estimate.Seller) bool) { slices.Values(h.agents)(yield) }

func (h *house) join(id, owner string, ask market.Credits) {
	h.asks[id] = ask
	a := estimate.Seller{ID: id, Owner: owner, Class: "h200", Joined: true, Slots: 2}
	h.agents = append(h.agents, a)
	h.room.Joined(owner, "h200")
}

func (h *house) agent(id string) *estimate.Seller {
	return &h.agents[slices.IndexFunc(h.agents, func(a estimate.Seller) bool { return a.ID == id })]
}

// answer returns the answer to a call of an agent with an ask.
func (h *house) answer(c *bus.Call) *bus.Ask {
	ask := market.Ask{Owner: h.agent(c.Agent).Owner, Amount: h.asks[c.Agent], Nonce: [16]byte{byte(c.Epoch)}}
	if c.Open {
		return &bus.Ask{Agent: c.Agent, Class: c.Class, Epoch: c.Epoch, Amount: ask.Amount,
			Nonce: ask.Nonce[:]}
	}
	seal := ask.Seal(c.Class, c.Epoch)
	return &bus.Ask{Agent: c.Agent, Class: c.Class, Epoch: c.Epoch, Seal: seal[:]}
}

// calls takes the calls that were made.
func (h *house) calls() (all []*bus.Call) {
	for _, m := range h.turn.Take().Messages {
		all = append(all, m.Body.(*bus.Call))
	}
	return all
}

// pass lets time pass, and nobody answer.
func (h *house) pass(d time.Duration) {
	h.turn.Advance(h.turn.Now().Add(d))
	h.turn.Ring()
}

// wait lets time pass, and agents answer.
func (h *house) wait(d time.Duration) {
	for end := h.turn.Now().Add(d); h.turn.Now().Before(end); h.pass(50 * time.Millisecond) {
		for _, c := range h.calls() {
			if _, ok := h.asks[c.Agent]; !ok {
				continue
			}
			if err := h.room.Asked(h.answer(c)); err != nil {
				h.wrong = append(h.wrong, err)
			}
		}
	}
}

// sell lists the agents that sell, with the tariff of all.
func (h *house) sell() (ids []string, tariff market.Credits) {
	for _, a := range h.agents {
		amount, sells := h.room.Of(a.Owner, a.Class)
		if tariff = amount; sells {
			ids = append(ids, a.ID)
		}
	}
	return ids, tariff
}

func (h *house) wantSell(tariff market.Credits, want ...string) {
	h.Helper()
	if got, t := h.sell(); !slices.Equal(got, want) || t != tariff {
		h.Errorf("%v sell for %s, want %v for %s", got, t, want, tariff)
	}
}

// Asks of one owner count as one, the highest; who does not open what it sealed, or says another thing, does
// not sell.
func TestAsksThatDoNotCount(t *testing.T) {
	h := newHouse(t)
	h.join("a-0", "both", 10_000)
	h.join("a-1", "both", 70_000)
	h.join("a-2", "dear", 90_001)
	h.join("a-3", "liar", 20_000)
	h.join("a-4", "mute", 20_000)
	h.join("a-5", "fair", 30_000)
	h.wantSell(90_000)
	h.pass(gather)
	for _, c := range h.calls() {
		if c.Agent == "a-4" {
			continue
		}
		if err := h.room.Asked(h.answer(c)); err != nil || c.Open || c.Epoch != 1 {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if len(h.kinds) != 1 {
		t.Fatal("sealed before everybody had the time to answer")
	}
	h.pass(sealWait)
	if !slices.Equal(h.kinds[1:], []ledger.Kind{ledger.KindSeal}) {
		t.Fatalf("recorded %v", h.kinds)
	}
	h.asks["a-3"] = 5_000 // read the others' first, or so it thinks
	for _, x := range []struct {
		m    *bus.Ask
		want string
	}{
		{h.answer(&bus.Call{Agent: "a-4", Class: "h200", Epoch: 1}), "or not sealed"}, // too late
		{h.answer(&bus.Call{Agent: "a-4", Class: "h200", Epoch: 1, Open: true}), "or not sealed"},
		{h.answer(&bus.Call{Agent: "a-0", Class: "h200", Epoch: 1}), "said before"},
		{h.answer(&bus.Call{Agent: "a-0", Class: "h200", Epoch: 2, Open: true}), "not called for"},
		{h.answer(&bus.Call{Agent: "a-0", Class: "h100", Epoch: 1, Open: true}), "not called for"},
		{h.answer(&bus.Call{Agent: "a-3", Class: "h200", Epoch: 1, Open: true}), "fits no seal"},
	} {
		if err := h.room.Asked(x.m); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%+v: %v, want %q", x.m, err, x.want)
		}
	}
	h.agent("a-0").Joined = false
	late := h.answer(&bus.Call{Agent: "a-0", Class: "h200", Epoch: 1, Open: true})
	if err := h.room.Asked(late); err == nil {
		t.Error("an agent that has left is heard")
	}
	h.agent("a-0").Joined = true
	opened := h.calls()
	if unfit := func(c *bus.Call) bool { return c.Agent == "a-4" || !c.Open }; len(opened) != 5 ||
		slices.ContainsFunc(opened, unfit) {
		t.Errorf("asks are called for from %d", len(opened))
	}
	for _, c := range opened {
		if err := h.room.Asked(h.answer(c)); (err != nil) != (c.Agent == "a-3") {
			t.Errorf("%s: %v", c.Agent, err)
		}
		if err := h.room.Asked(h.answer(c)); err == nil {
			t.Errorf("%s opens twice", c.Agent)
		}
	}
	if h.repriced != 0 {
		t.Error("cleared while a seal is not opened")
	}
	h.pass(sealWait)
	h.wantSell(90_000, "a-0", "a-1", "a-5")
	// Who came too late is in the next one, soon.
	h.join("a-6", "new", 1_000)
	h.wantSell(90_000, "a-0", "a-1", "a-5")
	h.wait(EpochLeast + 2*time.Second)
	if ids, _ := h.sell(); !slices.Contains(ids, "a-6") || len(h.wrong) > 0 {
		t.Errorf("a newcomer is not in the next epoch: %v; %v", ids, h.wrong)
	}
}

// The fewest sell that carry the load. When the last agent of a winner leaves, who stands by takes its place,
// and another's agent that leaves changes nothing.
func TestAWinnerThatLeaves(t *testing.T) {
	h := newHouse(t)
	for i := range 4 {
		h.join(fmt.Sprint("a-", i), fmt.Sprint("owner-", i), market.Credits(10_000*(i+1)))
	}
	h.wait(2 * time.Second)
	h.wantSell(90_000, "a-0", "a-1", "a-2", "a-3")
	h.agent("a-3").Joined = false // it has left, and what runs there loads the class still
	h.agent("a-3").Running = 1
	h.room.Left("owner-3", "h200")
	h.wantSell(90_000, "a-0", "a-1", "a-2", "a-3")
	h.room.Placed()
	h.agent("a-3").Joined, h.agent("a-3").Running = true, 0
	h.room.Placed()
	h.wait(2 * epoch)
	e, _, _ := h.turn.Book.Epoch("h200")
	if e.Number < 2 || e.Winners == 0 || e.Winners > 3 {
		t.Fatalf("%d winners in epoch %d, after one of four slots was used", e.Winners, e.Number)
	}
	sold, tariff := h.sell()
	if len(sold) != e.Winners || tariff != market.Credits(10_000*(e.Winners+1)) {
		t.Errorf("%v sell for %s", sold, tariff)
	}
	before := h.repriced
	h.room.Left("owner-0", "h200") // another of its agents is there
	h.agent("a-0").Joined = false
	h.room.Left("owner-9", "h200")
	h.room.Left("owner-0", "h100")
	h.turn.Full = true
	h.room.Left("owner-0", "h200")
	if h.repriced != before {
		t.Error("cleared again where nobody is lost, or nothing may be recorded")
	}
	h.turn.Full = false
	h.room.Left("owner-0", "h200")
	if e, t, _ := h.turn.Book.Epoch("h200"); h.repriced != before+1 ||
		!slices.Equal(e.Lost, []string{"owner-0"}) || slices.Contains(t.Winners, "owner-0") ||
		t.Winners[0] != "owner-1" {
		h.Errorf("lost %v, %+v", e.Lost, t)
	}
}

// An epoch ends where the hub ends to lead, drains or prices otherwise; where the disk is full, or a record
// cannot be made, the next is tried.
func TestEpochsThatComeToNothing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(h *house)
		again  bool // another comes by itself
	}{
		"deposed":         {func(h *house) { h.turn.Leading = false }, false},
		"draining":        {func(h *house) { h.turn.Draining = true }, false},
		"another pricing": {func(h *house) { h.room.Set(Rule{Rule: market.DefaultRule}) }, false},
		"leads again":     {func(h *house) { h.room.Lead() }, false},
		"full":            {func(h *house) { h.turn.Full = true }, true},
		"unwritable": {func(h *house) {
			h.turn.Along = func([]ledger.Record) []ledger.Record { return make([]ledger.Record, 1) }
		}, true},
		"nobody answers": {func(h *house) { clear(h.asks) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.join("a-1", "one", 10_000)
			h.join("a-2", "two", 20_000)
			h.pass(gather)
			calls := h.calls()
			if len(calls) != 2 || name != "nobody answers" && h.room.Asked(h.answer(calls[0])) != nil {
				t.Fatalf("%d calls", len(calls))
			}
			c.change(h)
			h.pass(sealWait)
			if len(h.kinds) != 1 || h.turn.Faults > 0 != (name == "unwritable") {
				t.Errorf("a %s was recorded, %d faults", h.kinds[len(h.kinds)-1], h.turn.Faults)
			}
			if h.turn.Next().IsZero() == c.again {
				t.Errorf("there is to be another: %v", !c.again)
			}
			h.turn.Leading, h.turn.Draining, h.turn.Full, h.turn.Along = true, false, false, nil
			h.asks = map[string]market.Credits{"a-1": 10_000, "a-2": 20_000}
			h.room.Set(byAsks)
			h.wait(epoch + 5*time.Second)
			if ids, _ := h.sell(); len(ids) != 2 {
				t.Errorf("then %v sell", ids)
			}
		})
	}
}

// What a class without an epoch, one with a posted tariff, and one where prices are the plan's are paid.
func TestTariffsByRule(t *testing.T) {
	h := newHouse(t)
	posted := Rule{Rule: market.Rule{Pricing: market.PricingPosted},
		Tariffs: map[string]market.Credits{"h200": 5}}
	asked := byAsks
	asked.Ceilings = map[string]market.Credits{"h100": 3}
	for _, c := range []struct {
		rule   Rule
		class  string
		amount market.Credits
		sells  bool
	}{
		{Rule{Rule: market.DefaultRule}, "h200", 0, true},
		{posted, "h200", 5, true}, {posted, "h100", 0, true},
		{asked, "h200", 90_000, false}, {asked, "h100", 3, false},
	} {
		before := h.repriced
		h.room.Set(c.rule)
		if amount, sells := h.room.Of("one", c.class); amount != c.amount || sells != c.sells ||
			h.repriced != before+1 {
			t.Errorf("%+v: %s is paid %s and sells: %v", c.rule, c.class, amount, sells)
		}
	}
}

// Agents of more classes than there may be are without an epoch; those of the others are not.
func TestClassesHaveABound(t *testing.T) {
	h := newHouse(t)
	for i := range bus.MaxClasses + 1 {
		h.room.Joined("one", fmt.Sprint("c-", i))
	}
	if len(h.room.sales) != bus.MaxClasses {
		t.Errorf("epochs of %d classes", len(h.room.sales))
	}
}

// Whatever agents do and say, and whenever, what is recorded is an epoch, no record is refused, and a class
// whose agents answer has one in the end.
func TestEpochsWhateverComes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	h := newHouse(t)
	for i := range 8 {
		h.join(fmt.Sprint("a-", i), fmt.Sprint("owner-", i/2), market.Credits(r.IntN(100_000)))
	}
	cleared := 0
	for range 4000 {
		a := &h.agents[r.IntN(len(h.agents))]
		switch r.IntN(10) {
		case 0:
			if a.Joined = !a.Joined; a.Joined {
				h.room.Joined(a.Owner, a.Class)
			} else {
				h.room.Left(a.Owner, a.Class)
			}
		case 1:
			a.Running, a.Slots = r.IntN(5), 1+r.IntN(4)
			h.room.Placed()
		case 2:
			h.asks[a.ID] = market.Credits(r.IntN(100_000))
		case 3:
			a.Owner = fmt.Sprint("owner-", r.IntN(6))
		case 4:
			h.room.Asked(h.answer(&bus.Call{Agent: a.ID, Class: a.Class, Epoch: uint64(r.IntN(20)),
				Open: r.IntN(2) == 0}))
		case 5:
			h.turn.Full = r.IntN(4) == 0
		default:
			h.wait(time.Duration(r.IntN(3000)) * time.Millisecond)
		}
	}
	for _, k := range h.kinds {
		if k == ledger.KindTariff {
			cleared++
		}
	}
	if h.turn.Faults > 0 || cleared < 20 {
		t.Errorf("%d faults, %d epochs", h.turn.Faults, cleared)
	}
	for i := range h.agents {
		h.agents[i].Joined, h.turn.Full, h.asks[h.agents[i].ID] = true, false, 1
		h.room.Joined(h.agents[i].Owner, "h200")
	}
	h.wait(3 * epoch)
	if ids, _ := h.sell(); len(ids) == 0 {
		t.Error("nobody sells in the end")
	}
}
