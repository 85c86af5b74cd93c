package virtual

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"souk/bus"
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
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	for name, want := range map[string]struct {
		plays uint64 // where caches are short one is half a per cent off the mean
		least float64
	}{"tau": {1, 0.92}, "small": {3, 0}, "mtrag": {1, 0.86}} {
		b := &believing{}
		for seed := range want.plays {
			s, err := Traces[slices.Index(TraceNames(), name)].setting(8)
			if err != nil {
				t.Fatal(err)
			}
			s.Tasks, s.Seed = 1000, 1+seed
			if b.Market, err = NewMarket(NewMarketOptions(s)); err != nil {
				t.Fatal(err)
			}
			if _, _, err := Run(s, b); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Market.Close(); err != nil {
				t.Fatal(err)
			}
		}
		all, cached, right := float64(b.prompt), float64(b.cached), float64(b.both)
		t.Logf("%s: %.4f of prompt tokens are cached, %.4f believed to be, %.4f both", name, cached/all,
			float64(b.believed)/all, right/all)
		if cached < want.least*all || right < 0.96*cached || float64(b.believed) > 1.02*right {
			t.Errorf("%s: %d tokens are believed to be cached, %d are, %d both, of %d", name, b.believed,
				b.cached, b.both, b.prompt)
		}
	}
}

// Where engines publish what becomes of their blocks, agents say what they hold, all of it in place, and the
// hub goes by that: it is off by a few tokens a task, as it is without.
func TestAHubHearsWhatEnginesHold(t *testing.T) {
	s, err := Cliffs[slices.Index(CliffNames(), "people-2")].setting(1)
	if err != nil {
		t.Fatal(err)
	}
	s.Length, s.Warm, s.Seed = time.Minute, 0, 1
	var off [2]float64
	for i, rule := range []string{"market", "market:events"} {
		like, _, err := variant(rule)
		if err != nil {
			t.Fatal(err)
		}
		o := NewMarketOptions(s)
		o.Hub, o.Events, o.Quiet = like.Hub, like.Events, s.Quiet
		all, engines, m, err := playMarket(s, o)
		if err != nil {
			t.Fatal(err)
		}
		_, _, off[i] = measured(all, len(engines))
		holds := m.agents[0].core.Stats().Cache
		t.Logf("%s: off by %.1f tokens a task; %+v", rule, off[i], holds)
		if (holds.Evidence == bus.EvidenceEvents) != o.Events ||
			o.Events && (holds.Coverage < 0.9 || holds.Unplaced+holds.Unknown+holds.Bad > 0) {
			t.Errorf("%s: %+v", rule, holds)
		}
	}
	if off[1] > off[0]+2*blockSize {
		t.Errorf("with events it is off by %.1f tokens a task, without by %.1f", off[1], off[0])
	}
}
