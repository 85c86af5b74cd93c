package line

import (
	"math"
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

// Stake is what a task with these terms has to lose by waiting.
func Stake(t market.Terms) market.Credits {
	c := float64(t.Worth) * (1 - t.Delta)
	if !(c > 0) {
		return 0
	}
	return market.Credits(min(c, float64(market.MaxWorth)))
}

// Worths keeps what a second was worth to those who were served last, or what they had to lose.
type Worths struct {
	seen   []seen // a ring
	next   int
	at     time.Time // of the last award
	known  market.Credits
	stale  bool // known is not of all that was seen
	count  map[string]*tally
	sorted [lately]uint8 // what was seen, by rate, when known was found
	ranked int           // so many
}

type seen struct {
	client string
	rate   market.Credits
	all    *tally // of the client
}

// tally counts what was seen of a client. All of a client's count as one.
type tally struct {
	n      int
	weight float64 // of each
}

func (t *tally) set(n int) { t.n, t.weight = n, 1/float64(n) }

// Add takes in an award.
func (w *Worths) Add(now time.Time, client string, worth market.Credits) {
	if w.count == nil {
		w.count = map[string]*tally{}
	}
	s := seen{client: client, rate: min(max(0, worth), 10*market.MaxWorth), all: w.count[client]}
	if s.all == nil {
		s.all = new(tally)
		w.count[client] = s.all
	}
	s.all.set(s.all.n + 1)
	if len(w.seen) < lately {
		w.seen = append(w.seen, s)
	} else {
		old := w.seen[w.next]
		if old.all.set(old.all.n - 1); old.all.n == 0 {
			delete(w.count, old.client)
		}
		w.seen[w.next] = s
		w.next = (w.next + 1) % lately
	}
	w.at, w.stale = now, true
}

// Mean is what that is on the mean of clients, however many tasks each of them had.
func (w *Worths) Mean(now time.Time) market.Credits {
	if w.stale {
		w.known, w.stale = w.mean(), false
	}
	return w.known >> min(62, max(0, now.Sub(w.at)/halved))
}

func (s *seen) before(o *seen) bool {
	return s.rate < o.rate || s.rate == o.rate && s.all.n < o.all.n
}

// sort brings into order what was seen, by rate, then by how many there are of the client. What is equal in
// both is so in all that a mean is made of, so that it is the same in whatever order they came. Few are new
// each time, and each of these moves until it is in place.
func (w *Worths) sort() []uint8 {
	for ; w.ranked < len(w.seen); w.ranked++ {
		w.sorted[w.ranked] = uint8(w.ranked)
	}
	list := w.sorted[:w.ranked]
	for i := range list {
		for k := i; k > 0 && w.seen[list[k]].before(&w.seen[list[k-1]]); k-- {
			list[k], list[k-1] = list[k-1], list[k]
		}
	}
	return list
}

func (w *Worths) mean() market.Credits {
	sorted, all := w.sort(), 0.0
	for _, i := range sorted {
		all += w.seen[i].all.weight
	}
	median, before := 0.0, 0.0
	for _, i := range sorted {
		if before += w.seen[i].all.weight; before >= all/2 {
			median = float64(w.seen[i].rate)
			break
		}
	}
	sum := 0.0
	for _, i := range sorted {
		sum += float64(w.seen[i].all.weight * min(float64(w.seen[i].rate), outlier*median))
	}
	return market.Credits(math.Round(sum / all))
}
