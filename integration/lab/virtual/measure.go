package virtual

import (
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"souk/market"
)

// Figures are the results of a run. Times are milliseconds, from the moment a caller asks to the moment it
// hears the first token.
type Figures struct {
	Share      float64 `json:"cached_share"` // of prompt tokens that were found in a cache, 0 to 1
	Bound      float64 `json:"cached_share_bound"`
	Median     float64 `json:"ttft_p50"`
	P99        float64 `json:"ttft_p99"`
	Mean       float64 `json:"ttft_mean"`
	Longest    float64 `json:"ttft_longest"`
	Work       float64 `json:"work_max_mean"` // tokens computed: the most on one engine divided by the mean
	Fewest     float64 `json:"fewest_mean"`   // tasks: the fewest on one engine divided by the mean
	Throughput float64 `json:"tasks_per_second"`
	Welfare    float64 `json:"welfare"` // per task, in thousandths of a credit: value as served less cost
	Starved    float64 `json:"starved"` // tasks whose first token took longer than Starving
	Refused    float64 `json:"refused"`
	Journal    float64 `json:"journal_bytes,omitempty"` // of a market, a task
	Seeds      float64 `json:"seeds,omitempty"`         // texts that it put on idle engines

	First float64 `json:"ttft_first"` // mean, of first turns
	Cold  float64 `json:"cold"`       // of sessions, those that found less than a fifth of what they could
	// tokens a task, between those believed to be cached and those found; below 0: that is not known
	Belief float64 `json:"belief_error"`

	Again float64 `json:"again"` // times a task that callers were told to come back later
	// tasks whose first token is waited for, on the mean of the time that counts; below 0: that has no end
	Waiting float64 `json:"waiting"`
}

// Starving is how long nobody should have to wait for a first token.
const Starving = 10 * time.Second

// Measure computes the figures of a run. All engines are paid by Card and have the quality Score.
func Measure(all []*Request, engines int) (f Figures) {
	var ttft []float64
	tasks := make([]float64, engines)
	work := make([]float64, engines)
	prompt, cached := 0, 0
	end := time.Duration(0)
	for _, r := range all {
		end = max(end, r.Done)
		if r.Refused {
			f.Refused++
			continue
		}
		wait := r.First - r.Arrived
		ttft = append(ttft, float64(wait)/1e6)
		if wait > Starving {
			f.Starved++
		}
		tasks[r.Engine]++
		work[r.Engine] += float64(r.Prompt - r.Cached + r.Output)
		prompt, cached = prompt+r.Prompt, cached+r.Cached
		f.Belief += math.Abs(float64(r.believed - r.Cached))
		cost := Card.Cost(usage(r))
		value := r.Terms.Value(market.Quote{TTFT: wait, Cost: cost, Quality: Score})
		f.Welfare += float64(value-cost) / float64(market.Credit) * 1000
	}
	f.Welfare /= float64(max(1, len(all)))
	if len(ttft) == 0 {
		return f
	}
	slices.Sort(ttft)
	f.Belief /= float64(len(ttft))
	f.Share = float64(cached) / float64(prompt)
	f.Median = stat.Quantile(0.5, stat.Empirical, ttft, nil)
	f.P99 = stat.Quantile(0.99, stat.Empirical, ttft, nil)
	f.Mean, f.Longest = stat.Mean(ttft, nil), ttft[len(ttft)-1]
	f.Work, f.Fewest = slices.Max(work)/stat.Mean(work, nil), slices.Min(tasks)/stat.Mean(tasks, nil)
	f.Throughput = float64(len(ttft)) / end.Seconds()
	return f
}

// Figures computes the figures of a run of the setting, with the bound on its share of cached tokens.
func (s *Setting) Figures(all []*Request) Figures {
	counted := all
	if s.Warm > 0 {
		counted = slices.Clone(all)
		counted = slices.DeleteFunc(counted, func(r *Request) bool { return r.Arrived < s.Warm })
	}
	f := Measure(counted, s.Engines)
	f.Waiting = -1
	if s.Warm > 0 && s.Length > s.Warm {
		f.Throughput, f.Waiting = s.inside(all)
	}
	f.Bound = Bound(all, s.Engines, s.Engine)
	f.First, f.Cold, f.Again = s.sessions(counted)
	return f
}

// inside is how many first tokens came in a second while what is asked counts, and how many were waited for
// on the mean. Whoever asked before, or is served after, counts for as long as that was then, so that nobody
// who waits all the time is left out; pauses of those who were told to come back later are among it.
func (s *Setting) inside(all []*Request) (rate, waiting float64) {
	for _, r := range all {
		if !r.Refused && r.First >= s.Warm && r.First < s.Length {
			rate++
		}
		waiting += max(0, min(r.First, s.Length)-max(r.Arrived, s.Warm)).Seconds()
	}
	span := (s.Length - s.Warm).Seconds()
	return rate / span, waiting / span
}

// coldShare is the share of what a session could find cached, below which it went cold.
const coldShare = 0.2

// sessions says how long first turns waited, how many sessions went cold, and how often a task was sent away
// for later.
func (s *Setting) sessions(all []*Request) (first, cold, again float64) {
	type reuse struct{ could, did int }
	by := map[int]*reuse{}
	firsts := 0
	for _, r := range all {
		again += float64(r.Refusals)
		if r.Refused {
			continue
		}
		if r.Turn == 0 {
			first += float64(r.First-r.Arrived) / 1e6
			firsts++
		}
		if by[r.Play] == nil {
			by[r.Play] = &reuse{}
		}
		if r.Turn > r.joined {
			of := by[r.Play]
			of.could += r.script.reusable(r.Turn, s.Engine.BlockSize)
			of.did += r.Cached
		}
	}
	several := 0
	for _, of := range by {
		if of.could > 0 {
			several++
			if float64(of.did) < coldShare*float64(of.could) {
				cold++
			}
		}
	}
	return first / float64(max(1, firsts)), cold / float64(max(1, several)), again / float64(max(1, len(all)))
}

// reusable is how many tokens of a turn's prompt the turn before had.
func (s *Script) reusable(turn, size int) int {
	t := s.turns[turn]
	if s.chains == nil {
		before := s.turns[turn-1]
		return min(before.prompt+before.output-1, t.prompt-1) / size * size
	}
	n := 0
	for a, b := s.chains[turn-1], s.chains[turn]; n < len(a) && n < len(b) && a[n] == b[n]; {
		n++
	}
	return n * size
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
