package hub_test

import (
	"slices"
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
