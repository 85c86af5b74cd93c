package hints

import (
	"math"
	"testing"

	"souk/market"
)

// Small runs go through: the liar is heard, the truth is worth something, and the same seed gives the same.
func TestPlay(t *testing.T) {
	o := Options{Callers: 4, Turns: 20, Seeds: 1}
	truth, err := o.play(1, game{settle: market.SettleMetered})
	if err != nil {
		t.Fatal(err)
	}
	again, err := o.play(1, game{settle: market.SettleMetered})
	if err != nil || again != truth {
		t.Errorf("%+v, and again %+v, %v", truth, again, err)
	}
	if truth.liar <= 0 || truth.others <= 0 || truth.told != 0 {
		t.Errorf("%+v", truth)
	}
	for _, l := range Lies {
		x, err := o.play(1, game{market.SettleMetered, &l, 1})
		if err != nil {
			t.Fatalf("%s: %v", l.Name, err)
		}
		if x.told == 0 {
			t.Errorf("%s: it is never told", l.Name)
		}
	}
	quoted, err := o.play(1, game{settle: market.SettleQuoted})
	if err != nil || quoted.liar == truth.liar {
		t.Errorf("under quoted the truth is worth %+v as it is metered, %v", quoted, err)
	}
	if n := len(games(Lies)); n != 2+4*len(Lies) {
		t.Errorf("%d games", n)
	}
}

func TestMean(t *testing.T) {
	if m, off := mean([]float64{1, 2, 3}); m != 2 || math.Abs(off-2.484) > 0.001 {
		t.Errorf("%v ± %v, want 2 ± 2.484", m, off)
	}
	if _, off := mean([]float64{1}); !math.IsNaN(off) {
		t.Errorf("of one: ± %v", off)
	}
}
