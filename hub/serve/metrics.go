package serve

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"souk/bus"
	"souk/bus/metrics"
	"souk/hub"
)

// Stats counts what a hub did since its start, with measured times.
type Stats struct {
	hub.Stats
	Dropped int64     // messages that found the queue full
	Awaited int64     // leaderships waited for whose holder nothing proved to have ended
	Sync    Quantiles // append and sync
	Quotes  map[bus.Code]int64
}

// Quantiles sums up durations.
type Quantiles struct {
	Count              int64
	P50, P90, P99, Max time.Duration
}

// measures holds the times that only a clock can tell.
type measures struct {
	decision, wait, round, quote *metrics.Recorder

	mu       sync.Mutex              // of the next three
	sync     *hdrhistogram.Histogram // append and sync, in nanoseconds
	refusals map[bus.Code]int64      // tasks that did not reach the Node
	quotes   map[bus.Code]int64      // by what was said
	bad      atomic.Int64            // messages that make no sense
}

func newMeasures(m metrics.Meter, domain string) *measures {
	of := func(f *metrics.Family) *metrics.Recorder { return families.Recorder(m, f, domain) }
	return &measures{decision: of(hubDecisionSeconds), wait: of(hubWaitSeconds), round: of(hubRoundSeconds),
		quote: of(hubQuoteSeconds), sync: hdrhistogram.New(100, int64(time.Hour), 2),
		refusals: map[bus.Code]int64{}, quotes: map[bus.Code]int64{}}
}

func (m *measures) placed(now time.Time, all []hub.Placed) {
	for _, p := range all {
		d := now.Sub(p.Arrived).Seconds()
		m.wait.Record(d)
		if p.Free {
			m.decision.Record(d)
		}
	}
}

func (m *measures) synced(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sync.RecordValue(min(max(100, int64(d)), int64(time.Hour)))
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
	st.Sync, st.Quotes = quantiles(m.sync), maps.Clone(m.quotes)
	return st
}
