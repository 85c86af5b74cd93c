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
	Dropped int64 // messages that found the queue full
	Awaited int64 // leaderships waited for whose holder nothing proved to have ended
	// arrival to dispatch sent, of tasks that found slot and money free: the hub's own time
	Decision Quantiles
	Wait     Quantiles // the same of all tasks that were placed
	Round    Quantiles // quotes, clearing, check and records of one round
	Sync     Quantiles // append and sync
	Quote    Quantiles // one quote, which a round may have to wait for
	Quotes   map[bus.Code]int64
}

// Quantiles sums up durations.
type Quantiles struct {
	Count              int64
	P50, P90, P99, Max time.Duration
}

// times takes durations of one kind, for /stats and for a collector.
type times struct {
	all *hdrhistogram.Histogram
	to  *metrics.Recorder
}

// measures holds the times that only a clock can tell.
type measures struct {
	mu       sync.Mutex
	decision times // arrival to dispatch sent, of tasks that found a slot free
	wait     times // the same, of all
	round    times // quotes, clearing, check and records of one round
	sync     times // append and sync
	quote    times
	refusals map[bus.Code]int64 // tasks that did not reach the Node
	quotes   map[bus.Code]int64 // by what was said
	bad      atomic.Int64       // messages that make no sense
}

func newMeasures(m metrics.Meter, domain string) *measures {
	// Nanoseconds up to an hour, to two digits.
	h := func() *hdrhistogram.Histogram { return hdrhistogram.New(100, int64(time.Hour), 2) }
	of := func(f *metrics.Family) times { return times{h(), families.Recorder(m, f, domain)} }
	return &measures{decision: of(hubDecisionSeconds), wait: of(hubWaitSeconds), round: of(hubRoundSeconds),
		sync: times{all: h()}, quote: of(hubQuoteSeconds),
		refusals: map[bus.Code]int64{}, quotes: map[bus.Code]int64{}}
}

func (t times) record(d time.Duration) {
	t.all.RecordValue(min(max(100, int64(d)), int64(time.Hour)))
	t.to.Record(d.Seconds())
}

func (m *measures) placed(now time.Time, all []hub.Placed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range all {
		d := now.Sub(p.Arrived)
		m.wait.record(d)
		if p.Free {
			m.decision.record(d)
		}
	}
}

func (m *measures) one(of times, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of.record(d)
}

func (m *measures) count(by map[bus.Code]int64, code bus.Code) {
	m.mu.Lock()
	defer m.mu.Unlock()
	by[code]++
}

func quantiles(of times) Quantiles {
	h := of.all
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
	return st
}
