package hub_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// What everybody would pay is left off until tasks of two clients were refused that had waited: then a slot
// costs what these would have had, where they might have gone. A round says whose they were. One client's
// refused tasks alone charge nobody, and those of others do so for ten seconds.
func TestWhereTasksAreRefusedASlotCostsAllOfItsPrice(t *testing.T) {
	for _, refused := range [][]string{{"bob"}, {"bob", "cyd"}} {
		e := newEngines(t, nil)
		e.join("a-1", "llama", 2, 0.9, card(1, 1, 4))
		e.join("a-2", "llama", 2, 0.9, card(1, 1, 4))
		e.join("b-1", "qwen", 4, 0.9, card(1, 1, 4)) // to which the refused do not go
		var last time.Time                           // of a refusal
		told := map[string]bool{}
		ask := func(client string, worth market.Credits, patience int64) {
			e.ask(client, func(m *bus.Task) {
				m.Model, m.Terms = "llama", bus.Terms{Worth: &worth, Delta: new(0.5), PatienceMS: &patience}
				if client == "dan" {
					m.Model = "qwen"
				}
			})
		}
		for i := range 300 {
			if i < 150 { // two tasks more than are served come in a second, of who is in no hurry
				ask("ann", market.Credit, 60_000)
				ask("dan", market.Credit, 60_000)
				if i%3 == 0 {
					ask(refused[i/3%len(refused)], market.Credit/500, 1500)
				}
			}
			e.lets(200 * time.Millisecond)
			for key := range e.asked {
				if e.answerTo("inbox."+key) == string(bus.CodeNotWorthIt) && !told[key] {
					told[key], last = true, e.now
				}
			}
		}
		charged := 0
		for _, x := range pricedRounds(e.frames) {
			if len(x.round.Ground.Refused) == 0 {
				continue
			}
			charged++
			for i, l := range x.round.Ground.Loads {
				want := uint8(3)
				if x.round.Round.Agents[i].Agent == "b-1" {
					want = 0
				}
				if l.Refused != want {
					t.Errorf("at %s refused are %b, want %b", x.round.Round.Agents[i].Agent, l.Refused, want)
				}
			}
			names := slices.Sorted(slices.Values(x.round.Ground.Refused))
			at := time.Unix(0, e.frames[x.frame].Time)
			if !slices.Equal(names, refused) || at.After(last.Add(10*time.Second)) {
				t.Errorf("a round at %v names %v, and the last refusal was at %v", at, names, last)
			}
		}
		if len(told) < 10 || (charged > 0) != (len(refused) > 1) {
			t.Errorf("%d tasks of %v were refused, and %d rounds charge all of a slot's price", len(told), refused,
				charged)
		}
		e.audited()
	}
}

// Who would have less of a slot than others, two seconds long and at each agent, is told then, and not when
// it has waited for as long as it would: by the prices that earlier rounds made, so that it is all one in
// which money everybody counts. What a client's own tasks bear of a price tells none of them.
func TestWhoIsOutpricedForTwoSecondsIsTold(t *testing.T) {
	var first map[string]time.Duration
	for _, scale := range []market.Credits{1, 5} {
		e := newEngines(t, nil)
		e.join("a-1", "llama", 1, 0.9, card(0, 0, 0))
		e.join("b-1", "qwen", 4, 0.9, card(0, 0, 0)) // where a slot costs nothing: nothing is left off
		ask := func(client, model string, worth market.Credits) {
			e.ask(client, func(m *bus.Task) {
				m.Model, m.Terms = model, bus.Terms{Worth: new(scale * worth), Delta: new(0.5),
					PatienceMS: new(int64(600_000)), MaxPrice: new(scale * worth)}
			})
		}
		told := map[string]time.Duration{} // after how long
		for i := range 100 {
			if ask("ann", "llama", market.Credit/10); i%5 == 0 {
				ask("dan", "qwen", market.Credit/10)
			}
			if i >= 50 && i%10 == 0 {
				ask("bob", "llama", market.Credit/1000)
			}
			e.lets(200 * time.Millisecond)
			for key := range e.asked {
				if _, known := told[key]; !known && e.answerTo("inbox."+key) == string(bus.CodeNotWorthIt) {
					told[key] = e.now.Sub(e.asked[key])
				}
			}
		}
		for key, after := range told {
			if !strings.HasPrefix(key, "bob.") || after < 2*time.Second || after > 4*time.Second {
				t.Errorf("%s is told after %v that it is not worth it", key, after)
			}
		}
		if len(told) < 3 {
			t.Errorf("%d tasks of bob's are told", len(told))
		}
		if first == nil {
			first = told
		} else if !maps.Equal(first, told) {
			t.Errorf("told are %v, and where all is worth five times as much %v", first, told)
		}
		e.audited()
	}
}
