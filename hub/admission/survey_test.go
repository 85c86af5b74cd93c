package admission_test

import (
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/hub/admission"
	"souk/hub/estimate"
	"souk/hub/turn"
	"souk/ledger"
	"souk/market"
)

const milli = market.Credit / 1000

// asked is a task whose client says what it is worth, and what it pays at most.
func asked(worth, most market.Credits) *bus.Task {
	m := &bus.Task{Client: "ann", ID: "t1", Model: "llama", Prompt: bus.Prompt{Tokens: 900}}
	if worth > 0 {
		m.Terms.Worth = &worth
	}
	if most > 0 {
		m.Terms.MaxPrice = &most
	}
	return m
}

// offer returns the estimate of an agent that answers at once.
func offer(cost, floor, worst market.Credits) *estimate.Estimate {
	return &estimate.Estimate{Prompt: 900, Output: 100, Cost: cost, Floor: floor, Worst: worst, Quality: 0.5}
}

// Each line is one task and the agents that it might go to: what keeps it from them, or what they offer. It
// is told why none will do, or needs so much money.
func TestWhetherAnyAgentEverCould(t *testing.T) {
	cheap, dear := offer(milli, milli, 3*milli), offer(4*milli, 4*milli, 9*milli)
	for _, c := range []struct {
		name        string
		worth, most market.Credits
		moved       bool
		from        []estimate.Obstacle
		offers      []*estimate.Estimate
		code        bus.Code
		why         string
	}{
		{name: "nobody is here", code: bus.CodeNoRoom, why: "no agent is with hub math right now"},
		{name: "nobody else is here", moved: true, from: []estimate.Obstacle{estimate.Elsewhere},
			code: bus.CodeAgentFailed, why: "no other agent is with hub math"},
		{name: "none has the model", from: []estimate.Obstacle{estimate.Model, estimate.Elsewhere},
			code: bus.CodeUnknownModel, why: `no agent of hub math serves model "llama"`},
		{name: "no other has the model", moved: true, from: []estimate.Obstacle{estimate.Model},
			code: bus.CodeAgentFailed, why: `no other agent of hub math serves model "llama"`},
		{name: "none can go on", from: []estimate.Obstacle{estimate.Parsers}, code: bus.CodeAgentFailed,
			why: "--enable-scale-out"},
		{name: "none reads pictures", from: []estimate.Obstacle{estimate.Model, estimate.Media},
			code: bus.CodeUnsupportedField, why: "reads pictures or sound"},
		{name: "it is too long for all", from: []estimate.Obstacle{estimate.Context, estimate.Media},
			code: bus.CodePromptTooLong, why: "about 8200 tokens; the longest context here has 8192"},
		{name: "none is in time", from: []estimate.Obstacle{estimate.None}, code: bus.CodeNotWorthIt,
			why: "before the deadline, even with a free slot"},
		{name: "it is worth too little", worth: milli, offers: []*estimate.Estimate{cheap, dear},
			code: bus.CodeNotWorthIt, why: "at worth 0.001 credits, delta 0.8, patience "},
		{name: "it may cost too little", worth: 100 * milli, most: milli / 2,
			offers: []*estimate.Estimate{dear, cheap}, code: bus.CodeNotWorthIt,
			why: "max_price 0.0005 credits is below what it is expected to cost, 0.0010"},
		{name: "the prompt alone may cost more", worth: 100 * milli, most: 2 * milli,
			offers: []*estimate.Estimate{offer(milli, 5*milli, 6*milli)}, code: bus.CodeNotWorthIt,
			why: "that it costs 0.005 credits: offer at least that"},
		{name: "one will do", worth: 100 * milli, from: []estimate.Obstacle{estimate.Model},
			offers: []*estimate.Estimate{dear, cheap}},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := turn.New("math-1", "math", ledger.NewBook(), [32]byte{})
			d, m := admission.DefaultTerms(), asked(c.worth, c.most)
			var bid admission.Bid
			if err := bid.Set(&d, m, admission.Reference{Best: 0.5, Card: milli, Usual: milli}); err != nil {
				t.Fatal(err)
			}
			s := admission.NewSurvey(&bid, 0, c.moved)
			for _, o := range c.from {
				if s.May(o, 8192, 8200) != (o == estimate.None) {
					t.Errorf("an agent that obstacle %d keeps it from: %v", o, o != estimate.None)
				}
			}
			for _, e := range c.offers {
				s.May(estimate.None, 0, 0)
				s.Offers(e, 10*time.Millisecond)
			}
			need, no := s.Verdict(&at, m)
			if no == nil {
				no = &bus.Result{}
			}
			if no.Code != c.code || !strings.Contains(no.Message, c.why) {
				t.Fatalf("it is told %s: %s; want %s: %s", no.Code, no.Message, c.code, c.why)
			}
			if c.code != "" {
				return
			}
			value := cheap.Value(bid.Stated(), 10*time.Millisecond, bid.Terms.Cap())
			if got, want := bid.Lasts(), bid.Stated().Lasts(value-milli, 0); got != want {
				t.Errorf("it is worth more than it costs for %v, want %v", got, want)
			}
			if need.Wanted < need.Worst || need.Worst < need.Least || need.Least != milli ||
				need.Worst != 3*milli || need.Wanted > bid.Terms.Cap() {
				t.Errorf("it needs %+v", need)
			}
		})
	}
}

// A client that offers the least that it is told would do is served by it, and by one less is not.
func TestTheLeastThatWouldDoDoes(t *testing.T) {
	at := turn.New("math-1", "math", ledger.NewBook(), [32]byte{})
	d, e := admission.DefaultTerms(), offer(4*milli, 4*milli, 9*milli)
	gains := func(most market.Credits) (no *bus.Result) {
		var bid admission.Bid
		m := asked(100*milli, most)
		if err := bid.Set(&d, m, admission.Reference{Best: 0.5, Card: milli, Usual: milli}); err != nil {
			t.Fatal(err)
		}
		s := admission.NewSurvey(&bid, milli/10, false)
		s.May(estimate.None, 0, 0)
		s.Offers(e, time.Second)
		_, no = s.Verdict(&at, m)
		return no
	}
	no := gains(milli)
	if no == nil {
		t.Fatal("a thousandth is enough for four")
	}
	_, said, _ := strings.Cut(no.Message, "expected to cost, ")
	said, _, _ = strings.Cut(said, " credits")
	least, err := market.ParseCredits(said)
	if err != nil {
		t.Fatalf("%q: %v", no.Message, err)
	}
	if no := gains(least); no != nil {
		t.Errorf("by the %s that it was told it is refused: %s", least, no.Message)
	}
	if gains(least-10) == nil {
		t.Errorf("less than the %s that it was told would do", least)
	}
}

// What a client has, and what its door vouches for, bounds what a task pays, and what a second costs it in a
// round; it says nothing of what the task is worth.
func TestWhatThereIsToPayWithBoundsABid(t *testing.T) {
	d := admission.DefaultTerms()
	x := admission.Reference{Best: 0.5, Card: milli, Usual: milli, Joins: 3}
	var bid admission.Bid
	set := func() market.Terms {
		t.Helper()
		if err := bid.Set(&d, asked(100*milli, 0), x); err != nil {
			t.Fatal(err)
		}
		return bid.Terms
	}
	free, second := set(), bid.Second(0)
	bid.Bound(10 * milli)
	poor := set()
	if poor.Worth != free.Worth || bid.Terms.Cap() != 10*milli || bid.Second(0) >= second {
		t.Errorf("terms %+v, and with a hundredth to spend %+v; a second costs %s, then %s", free, poor, second,
			bid.Second(0))
	}
	if bid.Bound(0); set() != free || bid.Second(0) != second {
		t.Errorf("terms %+v once there is more to spend, want %+v", bid.Terms, free)
	}
	if bid.Stale(milli, 3) || !bid.Stale(2*milli, 3) || !bid.Stale(milli, 4) {
		t.Error("it is stale while nothing changed, or not when something has")
	}
	bid = admission.Fixed(market.Terms{Worth: milli, Delta: 1, Patience: time.Second})
	if !bid.Stale(milli, 3) || bid.Terms.Cap() != milli {
		t.Errorf("a bid of the hub's own: %+v", bid.Terms)
	}
}
