package serve

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"souk/bus"
	"souk/hub"
)

// Stats counts what a hub did since its start, with measured times.
type Stats struct {
	hub.Stats
	Dropped int64 // messages that found the queue full
	Awaited int64 // leaderships waited for whose holder nothing proved to have ended
	// arrival to dispatch sent, of tasks that found slot and money free: the hub's own time
	Decision Quantiles
	Wait     Quantiles // the same of all tasks that were placed
	Round    Quantiles // quotes, clearing, check and records of one round
	Rounds   Within    `json:"-"` // the same, for Prometheus
	Sync     Quantiles // append and sync
	Quote    Quantiles // one quote, which a round may have to wait for
	Quotes   map[bus.Code]int64
}

// Quantiles sums up durations.
type Quantiles struct {
	Count              int64
	P50, P90, P99, Max time.Duration
}

// measures holds the times that only a clock can tell.
type measures struct {
	mu       sync.Mutex
	decision *hdrhistogram.Histogram // arrival to dispatch sent, of tasks that found a slot free
	wait     *hdrhistogram.Histogram // the same, of all
	round    *hdrhistogram.Histogram // quotes, clearing, check and records of one round
	sync     *hdrhistogram.Histogram // append and sync
	quote    *hdrhistogram.Histogram
	refusals map[bus.Code]int64 // tasks that did not reach the Node
	quotes   map[bus.Code]int64 // by what was said
	bad      atomic.Int64       // messages that make no sense
}

func newMeasures() *measures {
	// Nanoseconds up to an hour, to two digits.
	h := func() *hdrhistogram.Histogram { return hdrhistogram.New(100, int64(time.Hour), 2) }
	return &measures{decision: h(), wait: h(), round: h(), sync: h(), quote: h(),
		refusals: map[bus.Code]int64{}, quotes: map[bus.Code]int64{}}
}

func record(h *hdrhistogram.Histogram, d time.Duration) {
	h.RecordValue(min(max(100, int64(d)), int64(time.Hour)))
}

func (m *measures) placed(now time.Time, all []hub.Placed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range all {
		d := now.Sub(p.Arrived)
		record(m.wait, d)
		if p.Free {
			record(m.decision, d)
		}
	}
}

func (m *measures) one(h *hdrhistogram.Histogram, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	record(h, d)
}

func (m *measures) count(by map[bus.Code]int64, code bus.Code) {
	m.mu.Lock()
	defer m.mu.Unlock()
	by[code]++
}

func quantiles(h *hdrhistogram.Histogram) Quantiles {
	at := func(q float64) time.Duration { return time.Duration(h.ValueAtQuantile(q)) }
	return Quantiles{Count: h.TotalCount(), P50: at(50), P90: at(90), P99: at(99),
		Max: time.Duration(h.Max())}
}

// Stats is a snapshot.
func (s *Server) Stats() Stats {
	var st Stats
	s.with(func(n *hub.Node) { st.Stats = n.Stats() })
	m := s.measures
	m.mu.Lock()
	defer m.mu.Unlock()
	for code, k := range m.refusals {
		st.Tasks[code] += k
		st.Arrived += k
	}
	st.Rejected += m.bad.Load()
	st.Dropped, st.Awaited = s.dropped.Load(), s.stands.Awaited()
	st.Decision, st.Wait = quantiles(m.decision), quantiles(m.wait)
	st.Round, st.Sync, st.Quote = quantiles(m.round), quantiles(m.sync), quantiles(m.quote)
	st.Quotes = maps.Clone(m.quotes)
	st.Rounds = within(m.round)
	return st
}

// Within counts durations up to each of some bounds.
type Within struct {
	Bounds []time.Duration
	Counts []int64 // up to each
	Sum    time.Duration
	Count  int64
}

// bounds divide the times that rounds take.
var bounds = []time.Duration{50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond,
	500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 100 * time.Millisecond}

func within(h *hdrhistogram.Histogram) Within {
	w := Within{Bounds: bounds, Counts: make([]int64, len(bounds)), Count: h.TotalCount(),
		Sum: time.Duration(h.Mean() * float64(h.TotalCount()))}
	for _, bar := range h.Distribution() {
		for i, most := range bounds {
			if bar.Count > 0 && bar.To <= int64(most) {
				w.Counts[i] += bar.Count
			}
		}
	}
	return w
}
