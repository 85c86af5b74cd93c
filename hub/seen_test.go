package hub_test

import (
	"fmt"
	"testing"
	"time"

	"souk/ledger"
	"souk/market"
)

// Every round that is recorded says what was expected of each of its edges, as the holds have it, with an
// interval around the first token.
func TestRoundsSayWhatWasExpected(t *testing.T) {
	h := newHouse(t, nil)
	for i := range 3 {
		h.join(fmt.Sprint("a-", i), "llama", 4, 0.9, card(10, 1, 40))
	}
	for i := range 6 {
		id := fmt.Sprint("t", i)
		h.must(h.step(h.task("ann", id)))
		h.pass(20 * time.Millisecond)
		h.serve(h.take("ann", id), market.Usage{Prompt: 100, Output: 50})
		h.pass(20 * time.Millisecond)
	}
	rounds := 0
	for _, f := range h.frames {
		for i := range f.Records {
			r := f.Records[i].Round
			if r == nil {
				continue
			}
			rounds++
			if len(r.Seen) != len(r.Round.Edges)+len(r.Round.Others) {
				t.Fatalf("round %d has %d edges and says what was expected of %d", r.Round.Number,
					len(r.Round.Edges)+len(r.Round.Others), len(r.Seen))
			}
			for _, s := range r.Seen {
				if s.Prompt <= 0 || s.Output <= 0 || s.First <= 0 || s.Least > s.First || s.Most < s.First ||
					s.Evidence != ledger.EvidenceSent {
					t.Errorf("round %d: %+v", r.Round.Number, s)
				}
			}
			hold := f.Records[1].Hold
			if s := r.Expected(&r.Outcome.Awards[0]); s == nil || s.Prompt != hold.Prompt ||
				s.Cached != hold.Cached || s.Output != hold.Output {
				t.Errorf("round %d: expected %+v, the hold has %+v", r.Round.Number, s, hold)
			}
		}
	}
	if rounds != 6 {
		t.Errorf("%d rounds", rounds)
	}
}
