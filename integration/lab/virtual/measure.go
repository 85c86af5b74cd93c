package virtual

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"souk/market"
)

// Measures are the results of a run. What is a second is of the time between the first and the last tenth
// of arrivals, so that neither the beginning counts, when all slots are free, nor the end. Times are
// milliseconds, from the moment a caller asks to the moment it hears the first token. A task that is
// refused adds nothing to welfare; how long it waited until it was told counts for Longest.
type Measures struct {
	Welfare    float64 `json:"welfare"` // a second, in thousandths of a credit: value as served less cost
	Uncounted  bool    `json:"uncounted,omitempty"`
	P50        float64 `json:"ttft_p50"`
	P99        float64 `json:"ttft_p99"`
	Longest    float64 `json:"longest"`
	Refused    float64 `json:"refused"` // of tasks
	Throughput float64 `json:"tasks_per_second"`
	Bill       float64 `json:"bill"`    // what was paid, by the card
	Dearest    float64 `json:"dearest"` // the same of the client that paid most beside its card
	// slots that stand idle, on the mean of that time, while somebody waits who would pay for one
	Idle    float64 `json:"idle"`
	Quality float64 `json:"quality"`      // mean
	Share   float64 `json:"cached_share"` // of prompt tokens that were found in a cache, 0 to 1
	Bound   float64 `json:"cached_share_bound"`
	Work    float64 `json:"work_max_mean"`           // tokens computed: the most of an engine by the mean
	Journal float64 `json:"journal_bytes,omitempty"` // of a market, a task

	Tempers []Group  `json:"tempers,omitempty"` // where callers have tempers
	Clients []Group  `json:"clients,omitempty"` // who paid most beside their cards, at most MostClients
	Beside  []Beside `json:"beside,omitempty"`  // of engines with a slot free beside somebody who lost by it
}

// Beside counts the seconds for which an engine had a slot free while somebody waited who would have had more
// there, if it had begun then with nothing cached, than it had in the end: by what became of the one who
// would have gained most. It began there later, or elsewhere, or was refused.
type Beside struct {
	Engine    string  `json:"engine"`
	There     float64 `json:"there"`
	Elsewhere float64 `json:"elsewhere"`
	Refused   float64 `json:"refused"`
	Of        float64 `json:"of"` // seconds that were looked at
}

func (b *Beside) seconds() float64 { return b.There + b.Elsewhere + b.Refused }

// Group holds the results of some tasks, within [Measures].
type Group struct {
	Name    string  `json:"name"`
	Tasks   int     `json:"tasks"`
	Refused int     `json:"refused"`
	P50     float64 `json:"ttft_p50"`
	P99     float64 `json:"ttft_p99"`
	Longest float64 `json:"longest"`
	Welfare float64 `json:"welfare"` // a task, in thousandths of a credit
	Bill    float64 `json:"bill"`
}

// MostClients bounds [Measures.Clients].
const MostClients = 8

// millis is a time in milliseconds.
func millis(d time.Duration) float64 { return float64(d) / 1e6 }

// quantile of sorted figures; 0 where there are none.
func quantile(p float64, sorted []float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return stat.Quantile(p, stat.Empirical, sorted, nil)
}

// quality returns the quality of an engine's answer: as recorded for the question, or the engine's score; 0
// of one that was cut.
func (s *Setting) quality(r *Request, engine int) float64 {
	o := s.offer(engine)
	if r.Cut {
		return 0
	}
	if r.script != nil {
		if a, ok := r.script.recorded[o.Recorded]; ok {
			return a.score
		}
	}
	return o.Score
}

// welfare returns a served task's worth less its cost, in credits.
func (s *Setting) welfare(r *Request) market.Credits {
	cost := s.offer(r.Engine).Card.Cost(usage(r))
	return r.Terms.Value(market.Quote{TTFT: r.First - r.Arrived, Cost: cost,
		Quality: s.quality(r, r.Engine)}) - cost
}

// thousandths of a credit.
func thousandths(c market.Credits) float64 { return float64(c) / float64(market.Credit) * 1000 }

// Measure computes what came of a run of the setting.
func (s *Setting) Measure(all []*Request) (m Measures) {
	counted := slices.DeleteFunc(slices.Clone(all), func(r *Request) bool { return r.Arrived < s.Warm })
	if len(counted) == 0 {
		return m
	}
	from, to := tenths(counted)
	tasks, work := make([]float64, s.Engines), make([]float64, s.Engines)
	prompt, cached, served := 0, 0, 0.0
	for _, r := range counted {
		if r.Refused {
			m.Refused++
			continue
		}
		served++
		tasks[r.Engine]++
		work[r.Engine] += float64(r.Prompt - r.Cached + r.Output)
		prompt, cached = prompt+r.Prompt, cached+r.Cached
		m.Quality += s.quality(r, r.Engine)
		if r.First >= from && r.First < to {
			m.Welfare += thousandths(s.welfare(r))
			m.Throughput++
		}
	}
	span := max(to-from, 1).Seconds()
	m.Welfare, m.Throughput, m.Refused = m.Welfare/span, m.Throughput/span, m.Refused/float64(len(counted))
	m.Uncounted = s.few()
	m.Share, m.Quality = float64(cached)/float64(max(1, prompt)), m.Quality/max(1, served)
	if served > 0 {
		m.Work = slices.Max(work) / stat.Mean(work, nil)
	}
	m.Bound = Bound(all, s)
	m.Idle, m.Beside = s.idle(all, from, to)
	whole := s.had("", counted)
	m.P50, m.P99, m.Longest, m.Bill = whole.P50, whole.P99, whole.Longest, whole.Bill
	m.Tempers = s.hadBy(counted, func(r *Request) string { return r.Temper })
	if len(m.Tempers) < 2 {
		m.Tempers = nil
	}
	m.Clients = s.hadBy(counted, func(r *Request) string { return s.client(r.Caller) })
	slices.SortStableFunc(m.Clients, func(a, b Group) int { return cmp.Compare(b.Bill, a.Bill) })
	m.Clients = m.Clients[:min(len(m.Clients), MostClients)]
	m.Dearest = m.Clients[0].Bill
	return m
}

// tenths returns when the first tenth of tasks had come, and when the last tenth began to.
func tenths(all []*Request) (from, to time.Duration) {
	var at []time.Duration
	for _, r := range all {
		at = append(at, r.Arrived)
	}
	slices.Sort(at)
	return at[len(at)/10], at[len(at)*9/10]
}

// hadBy are the tasks by a name, in the order of names.
func (s *Setting) hadBy(all []*Request, of func(*Request) string) (out []Group) {
	by := map[string][]*Request{}
	for _, r := range all {
		by[of(r)] = append(by[of(r)], r)
	}
	var names []string
	for name := range by {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		out = append(out, s.had(name, by[name]))
	}
	return out
}

func (s *Setting) had(name string, all []*Request) Group {
	g := Group{Name: name, Tasks: len(all)}
	var first []float64
	var paid, cost market.Credits
	for _, r := range all {
		g.Longest = max(g.Longest, millis(r.First-r.Arrived))
		if r.Refused {
			g.Refused++
			continue
		}
		first = append(first, millis(r.First-r.Arrived))
		paid, cost = paid+r.Paid, cost+s.offer(r.Engine).Card.Cost(usage(r))
		g.Welfare += thousandths(s.welfare(r))
	}
	slices.Sort(first)
	g.P50, g.P99 = quantile(0.5, first), quantile(0.99, first)
	g.Welfare /= float64(len(all))
	g.Bill = float64(paid) / float64(max(1, cost))
	return g
}

// client returns the client to whom a caller's tasks belong.
func (s *Setting) client(caller int) string {
	if s.OneKey {
		return oneKey
	}
	last := 0
	for i, n := range s.Keys {
		if last += n; caller < last {
			return fmt.Sprint("key-", i)
		}
	}
	return callerName(caller)
}

// idle returns the mean number of slots that stand idle between two times while a task waits that would pay
// for one: its answer there, begun then with nothing of the prompt cached, is worth more than it costs.
// Beside is by engine.
func (s *Setting) idle(all []*Request, from, to time.Duration) (mean float64, beside []Beside) {
	const comes, begins, ends = 0, 1, 2
	type event struct {
		at   time.Duration
		what int
		r    *Request
	}
	var events []event
	for _, r := range all {
		if events = append(events, event{r.Arrived, comes, r}); r.Refused {
			events = append(events, event{r.Done, begins, r})
			continue
		}
		events = append(events, event{cmp.Or(r.Began, r.First), begins, r}, event{r.Done, ends, r})
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	free := make([]int, s.Engines)
	beside = make([]Beside, s.Engines)
	var profiles []EngineConfig
	for i := range free {
		beside[i] = Beside{Engine: fmt.Sprintf("%s-%d", s.offer(i).Model, i+1), Of: (to - from).Seconds()}
		profiles = append(profiles, s.engine(i))
		free[i] = profiles[i].Slots
	}
	var waiting []*waiter
	sum := 0.0
	for k, e := range events {
		switch {
		case e.what == comes:
			waiting = append(waiting, s.waiter(e.r, profiles))
		case e.what == ends:
			free[e.r.Engine]++
		default:
			waiting = slices.DeleteFunc(waiting, func(w *waiter) bool { return w.r == e.r })
			if !e.r.Refused {
				free[e.r.Engine]--
			}
		}
		if k+1 == len(events) || len(waiting) == 0 ||
			!slices.ContainsFunc(free, func(n int) bool { return n != 0 }) {
			continue
		}
		dt := min(events[k+1].at, to) - max(e.at, from)
		if dt <= 0 {
			continue
		}
		wanted, payers := make([]bool, s.Engines), 0
		loser, loss := make([]*Request, s.Engines), make([]market.Credits, s.Engines)
		for _, w := range waiting {
			pays := false
			for i := range free {
				if free[i] == 0 {
					continue
				}
				would := w.would(i, e.at)
				if would > 0 {
					wanted[i], pays = true, true
				}
				if would-w.had > loss[i] {
					loser[i], loss[i] = w.r, would-w.had
				}
			}
			if pays {
				payers++
			}
		}
		slots := 0
		for i, r := range loser {
			if wanted[i] {
				slots += free[i]
			}
			switch b := &beside[i]; {
			case r == nil:
			case r.Refused:
				b.Refused += dt.Seconds()
			case r.Engine == i:
				b.There += dt.Seconds()
			default:
				b.Elsewhere += dt.Seconds()
			}
		}
		sum += float64(dt.Seconds() * float64(min(slots, payers)))
	}
	beside = slices.DeleteFunc(beside, func(b Beside) bool { return b.seconds() < 0.0005 })
	return sum / max(to-from, 1).Seconds(), beside
}

// waiter is a task that waits, and what an answer of each engine would be.
type waiter struct {
	r      *Request
	terms  market.Judged
	had    market.Credits // what it had in the end, at least 0
	quotes []market.Quote // of each engine; TTFT is from when it begins
	fits   []bool         // whether it is short enough for each
}

func (s *Setting) waiter(r *Request, engines []EngineConfig) *waiter {
	w := &waiter{r: r, terms: r.Terms.Judge()}
	if !r.Refused {
		w.had = max(0, s.welfare(r))
	}
	for i := range engines {
		o, c := s.offer(i), &engines[i]
		w.fits = append(w.fits, r.Prompt < cmp.Or(o.Context, usualContext))
		w.quotes = append(w.quotes, market.Quote{
			TTFT:    time.Duration((c.Profile.Base + float64(float64(r.Prompt)*c.Profile.Prefill)) * 1000),
			Cost:    o.Card.Cost(market.Usage{Prompt: r.Prompt, Output: r.Output}),
			Quality: s.quality(r, i)})
	}
	return w
}

// would returns the task's surplus over its cost if an engine began with it at a time; 0 where it is too
// long.
func (w *waiter) would(engine int, at time.Duration) market.Credits {
	if !w.fits[engine] {
		return 0
	}
	q := w.quotes[engine]
	q.TTFT += at - w.r.Arrived
	return w.terms.Value(q) - q.Cost
}

// Estimate is a figure over several seeds.
type Estimate struct {
	Median float64 `json:"median"`
	Mean   float64 `json:"mean"`
	Within float64 `json:"within"` // half of the 95 % interval of the mean (Student's t); 0 of a single seed
}

// NewEstimate summarises a figure over several seeds.
func NewEstimate(of []float64) (e Estimate) {
	sorted := slices.Sorted(slices.Values(of))
	e.Median = sorted[len(sorted)/2]
	mean, deviation := stat.MeanStdDev(of, nil)
	e.Mean = mean
	if n := float64(len(of)); n > 1 {
		t := distuv.StudentsT{Sigma: 1, Nu: n - 1}
		e.Within = t.Quantile(0.975) * deviation / math.Sqrt(n)
	}
	return e
}
