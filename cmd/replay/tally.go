package replay

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// Tally gathers what a replay measured; safe for use from many goroutines.
type Tally struct {
	mu       sync.Mutex
	total    row
	hubs     map[string]*row
	agents   map[string]*row
	domains  map[string]*row
	kinds    map[string]*row
	refusals map[bus.Code]int
	rounds   map[string]*Rounds
	sizes    map[int]int

	judged Judged // sums, over answers that were compared with a recorded one
}

// row is a tally of some of the tasks. TTFT is in microseconds, up to ten minutes; bills are in thousandths
// of the card, up to a thousand times. Both have 3 digits.
type row struct {
	hub, model string
	asked      int
	served     int
	usage      market.Usage
	cost       market.Credits
	premium    market.Credits
	fee        market.Credits
	ttft       *hdrhistogram.Histogram
	bills      *hdrhistogram.Histogram
}

func newRow() *row {
	return &row{ttft: hdrhistogram.New(1, int64(10*time.Minute/time.Microsecond), 3),
		bills: hdrhistogram.New(1, 1000*1000, 3)}
}

// NewTally begins with nothing measured.
func NewTally() *Tally {
	return &Tally{
		total: *newRow(), hubs: map[string]*row{}, agents: map[string]*row{}, domains: map[string]*row{},
		kinds:    map[string]*row{},
		refusals: map[bus.Code]int{}, rounds: map[string]*Rounds{}, sizes: map[int]int{},
	}
}

// Add counts one turn.
func (t *Tally) Add(d Dialogue, c Client, a Answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := a.Result
	rows := []*row{&t.total, at(t.domains, cmp.Or(d.Domain, "unnamed")), at(t.kinds, cmp.Or(c.Kind, c.ID))}
	if r.Hub != "" {
		rows = append(rows, at(t.hubs, r.Hub))
	}
	if r.Agent != "" {
		agent := at(t.agents, r.Agent)
		agent.hub, agent.model = r.Hub, r.Model
		rows = append(rows, agent)
	}
	for _, x := range rows {
		x.add(a)
	}
	if r.Code != "" {
		t.refusals[r.Code]++
	}
	if a.Quality != nil {
		t.judged.Answers++
		t.judged.Quality += *a.Quality
	}
}

func at(m map[string]*row, key string) *row {
	if m[key] == nil {
		m[key] = newRow()
	}
	return m[key]
}

func (x *row) add(a Answer) {
	r := a.Result
	x.asked++
	// Money counts whatever the code: a cancelled task was paid in part.
	x.cost, x.premium, x.fee = x.cost+r.Cost, x.premium+r.Premium, x.fee+r.Fee
	x.usage.Prompt += r.Usage.Prompt
	x.usage.Cached += r.Usage.Cached
	x.usage.Output += r.Usage.Output
	if r.Code != "" {
		return
	}
	x.served++
	if r.Cost > 0 {
		bill := 1000 * float64(r.Paid()) / float64(r.Cost)
		_ = x.bills.RecordValue(int64(min(bill, float64(x.bills.HighestTrackableValue()))))
	}
	if a.TTFT > 0 {
		// Values beyond the histogram's range count as its largest.
		_ = x.ttft.RecordValue(min(a.TTFT.Microseconds(), x.ttft.HighestTrackableValue()))
	}
}

// AddRound counts a cleared round as the hub's journal records it.
func (t *Tally) AddRound(r *ledger.Round) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x, n := t.rounds[r.Round.Domain], len(r.Round.Tasks)
	if x == nil {
		x = &Rounds{Hub: r.Round.Domain}
		t.rounds[r.Round.Domain] = x
	}
	t.sizes[n]++
	x.Rounds++
	x.Tasks += n
	x.Awards += len(r.Outcome.Awards)
	x.Largest = max(x.Largest, n)
	if n > 1 {
		x.Several++
	}
	if len(r.Outcome.Prices) > 0 {
		x.Contested++
	}
	for _, a := range r.Outcome.Awards {
		x.SlotPrices += a.SlotPrice
	}
	x.Welfare += r.Outcome.Welfare
}

// sorted walks a map in the order of its keys.
func sorted[V any](m map[string]V, f func(key string, v V)) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		f(k, m[k])
	}
}
