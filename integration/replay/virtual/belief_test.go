package virtual

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"souk/market"
)

// believing counts, beside a market, what its hub believed to be cached and what was.
type believing struct {
	*Market
	prompt, believed, cached, both int
}

func (b *believing) Done(now time.Time, r *Request, usage market.Usage, v *View) {
	h, ok := b.node.Book().Hold(b.sales[r].stream.Dispatch().Hold)
	if !ok {
		b.fault(fmt.Errorf("request %d is done, and has no hold", r.ID))
	}
	b.prompt += usage.Prompt
	b.believed += h.Cached
	b.cached += usage.Cached
	b.both += min(h.Cached, usage.Cached)
	b.Market.Done(now, r, usage, v)
}

// A hub whose callers name no session believes what is there, and nothing else: where many sessions begin
// alike, and where tasks that run need most of the cache.
func TestAHubBelievesWhatIsCached(t *testing.T) {
	for name, least := range map[string]float64{"tau": 0.92, "small": 0, "mtrag": 0.86} {
		s, err := Traces[slices.Index(TraceNames(), name)].setting(8)
		if err != nil {
			t.Fatal(err)
		}
		s.Tasks, s.Seed = 1000, 1
		m, err := NewMarket(NewMarketOptions(s))
		if err != nil {
			t.Fatal(err)
		}
		b := &believing{Market: m}
		if _, _, err := Run(s, b); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Close(); err != nil {
			t.Fatal(err)
		}
		all, cached, right := float64(b.prompt), float64(b.cached), float64(b.both)
		t.Logf("%s: %.4f of prompt tokens are cached, %.4f believed to be, %.4f both", name, cached/all,
			float64(b.believed)/all, right/all)
		if cached < least*all || right < 0.96*cached || float64(b.believed) > 1.02*right {
			t.Errorf("%s: %d tokens are believed to be cached, %d are, %d both, of %d", name, b.believed,
				b.cached, b.both, b.prompt)
		}
	}
}
