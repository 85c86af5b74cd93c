package ledger

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"souk/market"
)

// Whatever one client pays for, and however often, it moves what is usual no further than to what others'
// tasks cost, and a step.
func TestNobodyMovesTheUsualFarAlone(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 49))
	for range 300 {
		others := 1 + r.IntN(80)
		var u Usual
		for range 8 {
			for i := range others {
				u.learn(fmt.Sprint("c-", i), market.Credits(900+r.IntN(201)))
			}
		}
		for range 1000 {
			card := market.Credits(r.IntN(2)) * market.MaxWorth
			if r.IntN(3) == 0 {
				u.learn(fmt.Sprint("c-", r.IntN(others)), market.Credits(900+r.IntN(201)))
			}
			u.learn("loud", card)
			if u.Said < 900*4/5 || u.Said > 1100*5/4 {
				t.Fatalf("seed %d: %d others pay 900 to 1100, one pays %d: usual is %d", seed, others, card,
					u.Said)
			}
		}
		if !u.valid() {
			t.Fatalf("seed %d: %+v", seed, u)
		}
	}
}

// Small changes of what tasks cost do not move what is said, large ones do.
func TestTheUsualMovesInSteps(t *testing.T) {
	var u Usual
	u.learn("ann", 1000)
	for i := range 100 {
		u.learn("ann", market.Credits(900+i%3*100))
	}
	if u.Said != 1000 {
		t.Errorf("usual is %d, want the first 1000", u.Said)
	}
	for range 200 {
		u.learn("ann", 4000)
	}
	if u.Said < 3000 || u.Said > 4000 {
		t.Errorf("usual is %d, want about 4000", u.Said)
	}
}

// A frame that is refused teaches nothing; one that stands is in the snapshot.
func TestTheUsualIsOfWhatStands(t *testing.T) {
	var u Usual
	u.learn("ann", 7)
	if h := (Hold{MaxTokens: 1}); true {
		if _, counts := cardOf(&h, &Capture{}); counts {
			t.Error("what a hub puts on an engine counts as a usual task")
		}
	}
	b := NewBook()
	b.fresh = append(b.fresh, used{client: "ann", card: 5, counts: true})
	b.rollback()
	b.forget()
	if b.Usual() != 0 {
		t.Errorf("usual is %s after a rollback", b.Usual())
	}
	b.fresh = append(b.fresh, used{client: "ann", card: 5, counts: true})
	b.forget()
	if b.Usual() != 5 {
		t.Errorf("usual is %s, want 5 nano-credits", b.Usual())
	}
}
