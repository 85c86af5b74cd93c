package hints

import (
	"math"
	"slices"
	"testing"

	"souk/integration/lab/runs"
	"souk/market"
)

// Small runs go through: the liar is heard, the truth is worth something, and the same seed gives the same.
func TestPlay(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
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

// Runs that go side by side share nothing: they give what they give one after the other.
func TestRunsBesideOthers(t *testing.T) {
	o := Options{Callers: 3, Turns: 5}
	play := func(i int) (outcome, error) {
		return o.play(uint64(i+1), game{market.SettleMetered, &Lies[0], 1})
	}
	side, err := runs.Each(t.Context(), 2, 2, nil, play)
	if err != nil {
		t.Fatal(err)
	}
	if alone, err := runs.Each(t.Context(), 2, 1, nil, play); err != nil || !slices.Equal(side, alone) {
		t.Errorf("side by side %+v, alone %+v: %v", side, alone, err)
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
