package forecast

import (
	"testing"
	"time"

	"souk/hub/predict"
	"souk/market"
)

// A second of an engine is worth the tokens that it computes in it, at its card: as is assumed first, then as
// was seen.
func TestSecond(t *testing.T) {
	m, card := predict.NewMeans(), market.Price{Miss: market.Credit, Hit: 1, Out: 1}
	a := &Agent{Means: m}
	near := func(want time.Duration) {
		t.Helper()
		got, full := a.Second(card), card.Cost(market.Usage{Prompt: int(time.Second / want)})
		if got < full*98/100 || got > full*102/100 {
			t.Errorf("a second is worth %v, want %v", got, full)
		}
	}
	near(120 * time.Microsecond)
	for i := range 40 {
		sent := time.Duration(10*i) * time.Second
		a.rate.Learn(sent, sent+time.Second, 2000)
	}
	near(500 * time.Microsecond)
	if got := a.Second(market.Price{}); got != 0 {
		t.Errorf("at no price it is worth %v", got)
	}
}
