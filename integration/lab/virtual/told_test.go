package virtual

import (
	"testing"
	"time"

	"souk/market"
)

// says is a teller by two functions.
type says struct {
	caller func(r *Request) Word
	owner  func(engine int) Offer
	ended  int
}

func (s *says) Says(r *Request) Word    { return s.caller(r) }
func (s *says) Offers(engine int) Offer { return s.owner(engine) }
func (s *says) Ended(*Request)          { s.ended++ }
func honestly(r *Request) Word          { return Word{Terms: r.Terms.Terms} }
func toldSetting(t *testing.T) (s Setting) {
	t.Helper()
	w := World{Terms: Tempers, Seed: 3, Rate: 12, Tasks: 250}
	var err error
	if w.Trace, err = TraceNamed("mtrag"); err == nil {
		w.Fleet, err = FleetNamed("mixed")
	}
	if err == nil {
		s, err = w.Setting()
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// playTold plays a setting on the market with a pricing, or under a rule.
func playTold(t *testing.T, s Setting, rule, pricing string) []*Request {
	t.Helper()
	if rule != "" {
		p, err := NewRule(rule, s.Seed)
		if err != nil {
			t.Fatal(err)
		}
		all, _, err := Run(s, p)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	o := NewMarketOptions(s)
	if o.Hub.Pricing = pricing; pricing == market.PricingTariff {
		o.Hub.Ceiling, o.Hub.Epoch = 1000, 2*time.Second
	}
	all, _, _, err := playMarket(s, o)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Where all tell the truth nothing is other than without a teller, under a rule and on the market.
func TestTheTruthToldChangesNothing(t *testing.T) {
	for _, rule := range []string{"greedy-first:4", ""} {
		s := toldSetting(t)
		was := playTold(t, s, rule, market.PricingVCG)
		honest := &says{caller: honestly, owner: s.True}
		s.Teller = honest
		is := playTold(t, s, rule, market.PricingVCG)
		if len(is) != len(was) || honest.ended != len(is) {
			t.Fatalf("%q: %d tasks, of which %d ended, were %d", rule, len(is), honest.ended, len(was))
		}
		for i, r := range is {
			if r.Engine != was[i].Engine || r.First != was[i].First || r.Paid != was[i].Paid {
				t.Fatalf("%q: task %d is served at %d for %s, was at %d for %s", rule, i, r.Engine, r.Paid,
					was[i].Engine, was[i].Paid)
			}
		}
	}
}

// What an owner says is believed: its price from the moment on at which it says it, and its cached tokens.
// Worth and cost go by the truth.
func TestOwnersAreBelieved(t *testing.T) {
	for _, rule := range []string{"greedy", ""} {
		s := toldSetting(t)
		asked := 0
		caller := func(r *Request) Word {
			asked++
			return honestly(r)
		}
		s.Teller = &says{caller: caller, owner: func(engine int) Offer {
			o := s.True(engine)
			if engine < 4 && asked > 150 {
				o.Card.Miss, o.Card.Hit, o.Card.Out, o.Cached = 3*o.Card.Miss, 3*o.Card.Hit, 3*o.Card.Out, 0
			}
			return o
		}}
		before, after, cached := 0, 0, 0
		for _, r := range playTold(t, s, rule, market.PricingVCG) {
			if r.Refused || r.Engine >= 4 {
				continue
			}
			cost := s.Cost(r)
			if r.Sent().Cached == 1 {
				if before++; r.Due < cost || rule != "" && r.Due != cost {
					t.Errorf("%q: before, %s is due for a cost of %s", rule, r.Due, cost)
				}
				continue
			}
			if after++; r.Due < 2*cost { // of the market a task may be on its way as the price changes
				after--
			}
			if r.Cached > 0 && r.Due > 3*cost {
				cached++
			}
		}
		if before < 20 || after < 20 || cached < 5 {
			t.Errorf("%q: %d tasks at the card, %d at three times, %d of them with cached tokens unsaid", rule,
				before, after, cached)
		}
	}
}

// A caller's word is believed, and its answer is worth what it is by the truth: all who say that nothing is
// worth its cost are refused.
func TestCallersAreBelieved(t *testing.T) {
	for _, rule := range []string{"greedy", ""} {
		s := toldSetting(t)
		s.Tasks = 60
		s.Teller = &says{owner: s.True, caller: func(r *Request) Word {
			w := honestly(r)
			if r.Caller%2 == 0 {
				w.Terms.Worth = 1
			}
			return w
		}}
		for _, r := range playTold(t, s, rule, market.PricingVCG) {
			if r.Refused != (r.Caller%2 == 0) {
				t.Fatalf("%q: caller %d, refused: %v", rule, r.Caller, r.Refused)
			}
			if !r.Refused && s.Worth(r) != s.Claimed(r) {
				t.Errorf("%q: its answer is worth %s, and claimed to be worth %s", rule, s.Worth(r),
					s.Claimed(r))
			}
		}
	}
}

// Under tariff all who serve are paid one amount beside the card, of their class; who asks more than the
// ceiling sells nothing.
func TestOwnersAsk(t *testing.T) {
	s := toldSetting(t)
	s.Teller = &says{caller: honestly, owner: func(engine int) Offer {
		o := s.True(engine)
		if o.Ask = 100; engine == 1 {
			o.Ask = 2000
		}
		return o
	}}
	served := 0
	for _, r := range playTold(t, s, "", market.PricingTariff) {
		if r.Refused {
			continue
		}
		served++
		if r.Engine == 1 {
			t.Errorf("task %d is served by who asks more than the ceiling", r.ID)
		}
		if beside := r.Due - s.Cost(r); beside != 100 && beside != 1000 {
			t.Errorf("task %d: %s beside the card", r.ID, beside)
		}
	}
	if served < 100 {
		t.Errorf("%d tasks are served", served)
	}
}
