package line

import (
	"cmp"
	"math"
	"slices"
	"time"

	"souk/market"
)

const (
	lately = 64 // awards that say what a second is worth
	// times the median: what is worth more counts as this, so that one bid sets nobody's toll
	outlier       = 10
	leastPatience = 100 * time.Millisecond
	// with every so much time since the last award the worth counts half: what nobody was served for in a
	// while must not keep out those who wait now
	halved = 5 * time.Second
)

// PerSecond is what a second of waiting costs a task with these terms. A patience below 100 ms counts as
// that.
func PerSecond(t market.Terms) market.Credits {
	c := float64(t.Worth) * (1 - t.Delta) / max(leastPatience, t.Patience).Seconds()
	if !(c > 0) {
		return 0
	}
	return market.Credits(min(c, 10*float64(market.MaxWorth)))
}

// Worths keeps what a second was worth to those who were served last.
type Worths struct {
	seen   []seen // a ring
	next   int
	at     time.Time // of the last award
	second market.Credits
	stale  bool // second is not of all that was seen
	sorted []seen
	count  map[string]int
}

type seen struct {
	client string
	rate   market.Credits
}

// Add takes in an award.
func (w *Worths) Add(now time.Time, client string, perSecond market.Credits) {
	s := seen{client, min(max(0, perSecond), 10*market.MaxWorth)}
	if len(w.seen) < lately {
		w.seen = append(w.seen, s)
	} else {
		w.seen[w.next] = s
		w.next = (w.next + 1) % lately
	}
	w.at, w.stale = now, true
}

// Second is what a second of waiting is worth on the mean of clients, however many tasks each of them had.
func (w *Worths) Second(now time.Time) market.Credits {
	if w.stale {
		w.second, w.stale = w.mean(), false
	}
	return w.second >> min(62, max(0, now.Sub(w.at)/halved))
}

// Peek is Second for one who must leave no trace.
func (w *Worths) Peek(now time.Time) market.Credits {
	own := *w
	own.sorted, own.count = nil, nil
	return own.Second(now)
}

func (w *Worths) mean() market.Credits {
	if w.count == nil {
		w.count = map[string]int{}
	}
	clear(w.count)
	for _, s := range w.seen {
		w.count[s.client]++
	}
	weight := func(s seen) float64 { return 1 / float64(w.count[s.client]) } // all of a client's count as one
	w.sorted = append(w.sorted[:0], w.seen...)
	slices.SortFunc(w.sorted, func(a, b seen) int {
		return cmp.Or(cmp.Compare(a.rate, b.rate), cmp.Compare(a.client, b.client))
	})
	all := 0.0
	for _, s := range w.sorted {
		all += weight(s)
	}
	median, before := 0.0, 0.0
	for _, s := range w.sorted {
		if before += weight(s); before >= all/2 {
			median = float64(s.rate)
			break
		}
	}
	sum := 0.0
	for _, s := range w.sorted {
		sum += float64(weight(s) * min(float64(s.rate), outlier*median))
	}
	return market.Credits(math.Round(sum / all))
}
