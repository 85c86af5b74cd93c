package thousand

import (
	"math"
	"slices"
	"time"

	"souk/integration/lab/virtual"
	"souk/market"
)

// A run has so many parts of one length, minutes where it takes ten. The first, in which hubs learn, do not
// count.
const (
	parts = 10
	warm  = 2
)

// Row holds the figures of a play, of tasks that were asked once it was warm.
type Row struct {
	Play    string    `json:"play"`
	Welfare []float64 `json:"welfare"` // a second, in thousandths of a credit, by part
	Tasks   int       `json:"tasks"`
	Refused float64   `json:"refused"` // of tasks
	P50     float64   `json:"ttft_p50"`
	P99     float64   `json:"ttft_p99"`
	Share   float64   `json:"cached_share"`
	Quality float64   `json:"quality"`
	Bill    float64   `json:"bill"`

	Market *Market `json:"market,omitempty"` // of hubs
	Clocks *Clocks `json:"clocks,omitempty"` // of hubs, where there was a clock
}

// Market holds what hubs did in the whole run.
type Market struct {
	Hubs     int     `json:"hubs"`
	Held     int     `json:"held"`     // rounds, those without an award included
	Recorded int     `json:"recorded"` // rounds with awards
	Verified int     `json:"verified"` // of these, by the audit
	Awards   float64 `json:"awards"`   // of a recorded round
	Records  float64 `json:"records"`  // a task
	Record   float64 `json:"record"`   // bytes
	Round    float64 `json:"round"`    // bytes of its frame
	Task     float64 `json:"task"`     // bytes of the journal
}

// Clocks says what the hubs took of a processor.
type Clocks struct {
	P50   float64 `json:"p50"` // of a round, ms
	P99   float64 `json:"p99"`
	Most  float64 `json:"most"`
	Busy  float64 `json:"busy"`  // of a second, the busiest hub
	Task  float64 `json:"task"`  // us, all hubs together
	Audit float64 `json:"audit"` // us a recorded round, its holds, and what became of these
}

// play plays hubs or a rule.
func (o *Options) play(s virtual.Setting, name string) (Row, error) {
	n, sold := hubs(name)
	if !sold {
		p, err := virtual.NewRule(name, s.Seed)
		if err != nil {
			return Row{}, err
		}
		all, _, err := virtual.Run(s, p)
		if err != nil {
			return Row{}, err
		}
		return figures(&s, name, all), nil
	}
	with := virtual.NewMarketOptions(s)
	with.Computes = computes
	if o.Clock != nil {
		with.Clock = o.Clock()
	}
	h, err := virtual.NewHubs(n, with)
	if err != nil {
		return Row{}, err
	}
	all, _, err := virtual.Run(s, h)
	if err != nil {
		return Row{}, err
	}
	row := figures(&s, name, all)
	if row.Market, err = did(h, len(all)); err == nil && o.Clock != nil {
		row.Clocks = took(h, len(all), s.Length)
	}
	return row, err
}

// What a round takes of a hub's time, in nanoseconds: measured by [Clocks.P50] of rounds of one task to a
// hundred, on two cores that others used, too.
const (
	ofAgent = 1000
	ofPair  = 170
)

// computes is how long a hub computes a round, in virtual time. Meanwhile it does nothing else, and for twice
// as long it holds no other round of competing tasks.
func computes(tasks, agents int) time.Duration {
	const mostPairs = 1 << 19 // that a round weighs
	return time.Duration(ofAgent*agents + ofPair*min(tasks*agents, mostPairs))
}

// did closes hubs, whose books must balance, and says what they did.
func did(h *virtual.Hubs, tasks int) (*Market, error) {
	reports, err := h.Close()
	if err != nil {
		return nil, err
	}
	x := &Market{Hubs: len(h.Markets)}
	records, bytes, rounds, awards := 0, 0, 0, 0
	for i, m := range h.Markets {
		x.Held, x.Recorded = x.Held+m.Held, x.Recorded+m.Rounds.Rounds
		x.Verified += int(reports[i].Rounds)
		records, bytes = records+int(reports[i].Records), bytes+m.Bytes
		rounds, awards = rounds+m.Rounds.Bytes, awards+m.Rounds.Awards
	}
	per := func(n, of int) float64 { return short(float64(n) / float64(max(1, of))) }
	x.Awards, x.Round = per(awards, x.Recorded), per(rounds, x.Recorded)
	x.Records, x.Record, x.Task = per(records, tasks), per(bytes, records), per(bytes, tasks)
	return x, nil
}

func took(h *virtual.Hubs, tasks int, length time.Duration) *Clocks {
	var rounds []time.Duration
	var busiest, hubs, audit time.Duration
	recorded := 0
	for _, m := range h.Markets {
		rounds, recorded = append(rounds, m.Clocks.Rounds...), recorded+m.Rounds.Rounds
		busiest, hubs, audit = max(busiest, m.Clocks.Hub), hubs+m.Clocks.Hub, audit+m.Clocks.Audit
	}
	slices.Sort(rounds)
	us := func(d time.Duration, n int) float64 {
		return short(float64(d.Microseconds()) / float64(max(1, n)))
	}
	return &Clocks{P50: quantile(rounds, 0.5), P99: quantile(rounds, 0.99), Most: quantile(rounds, 1),
		Busy: short(busiest.Seconds() / length.Seconds()), Task: us(hubs, tasks), Audit: us(audit, recorded)}
}

// quantile of sorted times, in ms; 0 where there are none.
func quantile(sorted []time.Duration, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return short(float64(sorted[int(p*float64(len(sorted)-1))]) / float64(time.Millisecond))
}

// short is a figure as a page keeps it: those of a play that stays there are read from it.
func short(x float64) float64 { return math.Round(x*1e4) / 1e4 }

// figures sums up a run.
func figures(s *virtual.Setting, name string, all []*virtual.Request) Row {
	row := Row{Play: name, Welfare: make([]float64, parts-warm)}
	part := s.Length / parts
	var first []time.Duration
	var paid, cost market.Credits
	prompt, cached := 0, 0
	for _, r := range all {
		counts := r.Arrived >= warm*part
		if counts {
			row.Tasks++
		}
		if r.Refused {
			continue
		}
		e := &s.Fleet[r.Engine]
		q := market.Quote{TTFT: r.First - r.Arrived, Quality: e.Score,
			Cost: e.Card.Cost(market.Usage{Prompt: r.Prompt, Cached: r.Cached, Output: r.Output})}
		if k := int(r.First / part); k >= warm && k < parts {
			row.Welfare[k-warm] += 1000 * float64(r.Terms.Value(q)-q.Cost) / float64(market.Credit)
		}
		if counts {
			first, row.Quality = append(first, q.TTFT), row.Quality+q.Quality
			paid, cost = paid+r.Paid, cost+q.Cost
			prompt, cached = prompt+r.Prompt, cached+r.Cached
		}
	}
	for i := range row.Welfare {
		row.Welfare[i] = short(row.Welfare[i] / part.Seconds())
	}
	slices.Sort(first)
	row.P50, row.P99 = quantile(first, 0.5), quantile(first, 0.99)
	served := float64(max(1, len(first)))
	row.Refused = short(1 - float64(len(first))/float64(max(1, row.Tasks)))
	row.Share, row.Quality = short(float64(cached)/float64(max(1, prompt))), short(row.Quality/served)
	row.Bill = short(float64(paid) / float64(max(1, cost)))
	return row
}
