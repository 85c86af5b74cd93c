package market

import (
	"math/rand/v2"
	"testing"
)

// The parts of a bill are those of its premium, and come to all of it, whatever was due in the end.
func TestBillsAddUp(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 51))
	wanted := 0
	for range times(300) {
		r := randomRound(rng, 7, 3, 30)
		for i := range r.Tasks {
			r.Tasks[i].Client = "client-" + string(r.Tasks[i].ID)
		}
		o, err := Clear(r)
		if err != nil {
			t.Fatal(err)
		}
		x, err := Explain(r, o)
		if err != nil {
			t.Fatal(err)
		}
		for i := range x.Tasks {
			tx := &x.Tasks[i]
			a := tx.Award
			if a == nil {
				continue
			}
			b := x.Bill(tx, a.Cost, a.Premium)
			want := Bill{a.Cost, a.SlotPrice - tx.Shared, b.Wanted, -tx.Slot - tx.Own, -tx.Fee}
			if b != want || b.Cost+b.Slot+b.Toll+b.Fee != tx.Payment {
				t.Fatalf("seed %d: %+v, want %+v, in all %s", seed, b, want, tx.Payment)
			}
			if b.Wanted != "" {
				wanted++
			}
			due := Credits(rng.Int64N(int64(2*a.Premium + 2)))
			c := x.Bill(tx, 7, due)
			if c.Cost+c.Slot+c.Toll+c.Fee != 7+due || min(c.Slot, c.Toll, c.Fee) < 0 {
				t.Fatalf("seed %d: of %s is due %+v", seed, due, c)
			}
		}
	}
	if wanted == 0 {
		t.Error("nobody wanted a slot: the test sees nothing")
	}
}

func TestBillsInWords(t *testing.T) {
	for want, b := range map[string]Bill{
		"0.00017: 0.0001 by the card, 0.00007 because balanced-3 wanted the slot": {Cost: 100_000, Slot: 70_000,
			Wanted: "balanced-3"},
		"0.000000006: 0.000000001 because others wanted the slot, 0.000000002 for the time that the slot is kept " +
			"from others, 0.000000003 as the flat fee": {Slot: 1, Toll: 2, Fee: 3},
		"0": {},
	} {
		if got := b.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	var all Bill
	for _, who := range []string{"ann", "ann", "bob", "ann"} {
		all.Add(Bill{Slot: 1, Wanted: who})
		if want := map[Credits]string{1: "ann", 2: "ann"}[all.Slot]; all.Wanted != want {
			t.Errorf("of %s %q wanted the slots, want %q", all.Slot, all.Wanted, want)
		}
	}
}
