package games

import (
	"cmp"
	"slices"
	"time"

	"souk/integration/lab/virtual"
)

// Figures says what happened in one run within a time. Times are ms, but for Latency.
type Figures struct {
	Rate     float64 `json:"rps"`
	TTFT50   float64 `json:"ttft_p50"`
	TTFT99   float64 `json:"ttft_p99"`
	ITL99    float64 `json:"itl_p99"` // of the tasks' means
	Latency  float64 `json:"latency"` // mean seconds from asking to the end
	InFlight float64 `json:"in_flight"`
	PoA      float64 `json:"poa"`        // Eq. 12 by the paper's constants, with how many were in flight
	Counted  float64 `json:"poa_window"` // with how many of 160 an engine served: see [counted]
	Fitted   float64 `json:"poa_fitted"` // with constants that explain these tasks best
	Refused  float64 `json:"refused"`
	Cached   float64 `json:"cached_share"`
	Bound    float64 `json:"cached_share_bound,omitempty"`
	Late     float64 `json:"late_first"` // share of tasks beyond lateFirst
	Slow     float64 `json:"late_token"` // and beyond lateToken
}

// What the game of splits counts as late: five times what an idle engine takes to a first token, as the
// paper's threshold is, and twice its time for a token.
const (
	lateFirst = 300 * time.Millisecond
	lateToken = 15 * time.Millisecond
)

// column is a figure by name, with the digits that a page shows.
type column struct {
	name   string
	digits int
	of     func(*Figures) float64
}

var columns = []column{
	{"rps", 1, func(f *Figures) float64 { return f.Rate }},
	{"in flight", 0, func(f *Figures) float64 { return f.InFlight }},
	{"TTFT p50", 0, func(f *Figures) float64 { return f.TTFT50 }},
	{"TTFT p99", 0, func(f *Figures) float64 { return f.TTFT99 }},
	{"ITL p99", 1, func(f *Figures) float64 { return f.ITL99 }},
	{"latency", 2, func(f *Figures) float64 { return f.Latency }},
	{"PoA", 1, func(f *Figures) float64 { return f.PoA }},
	{"PoA window", 1, func(f *Figures) float64 { return f.Counted }},
	{"PoA fitted", 2, func(f *Figures) float64 { return f.Fitted }},
}

// span is a part of a run.
type span struct{ from, to time.Duration }

// measure computes the figures of what ended within a span.
func measure(all []*virtual.Request, engines int, at span) (f Figures) {
	beside := besides(all, engines)
	var done []*virtual.Request
	var firsts, tokens []time.Duration
	length := (at.to - at.from).Seconds()
	prompt, cached := 0, 0
	for _, r := range all {
		if over := min(r.Done, at.to) - max(r.Arrived, at.from); over > 0 {
			f.InFlight += over.Seconds() / length
		}
		switch {
		case r.Done < at.from || r.Done >= at.to:
		case r.Refused:
			f.Refused++
		default:
			done = append(done, r)
			firsts = append(firsts, r.First-r.Arrived)
			tokens = append(tokens, (r.Done-r.First)/time.Duration(max(1, r.Output-1)))
			f.Latency += (r.Done - r.Arrived).Seconds()
			prompt, cached = prompt+r.Prompt, cached+r.Cached
			if r.First-r.Arrived > lateFirst {
				f.Late++
			}
			if tokens[len(tokens)-1] > lateToken {
				f.Slow++
			}
		}
	}
	n := float64(max(1, len(done)))
	f.Rate, f.Latency = float64(len(done))/length, f.Latency/n
	f.Late, f.Slow, f.Cached = f.Late/n, f.Slow/n, float64(cached)/float64(max(1, prompt))
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	f.TTFT50, f.TTFT99 = ms(quantile(firsts, 0.5)), ms(quantile(firsts, 0.99))
	f.ITL99 = ms(quantile(tokens, 0.99))
	slices.SortFunc(done, func(a, b *virtual.Request) int {
		return cmp.Or(cmp.Compare(a.Done, b.Done), cmp.Compare(a.ID, b.ID))
	})
	f.PoA, f.Fitted = poa(done, engines, beside)
	f.Counted = counted(done, engines)
	return f
}

// besides counts the tasks that each engine had in flight, with waiting ones, when each task came that it
// served.
func besides(all []*virtual.Request, engines int) map[*virtual.Request]int {
	ends := make([][]time.Duration, engines)
	out := make(map[*virtual.Request]int, len(all))
	for _, r := range all { // by arrival
		if r.Engine < 0 {
			continue
		}
		ends[r.Engine] = slices.DeleteFunc(ends[r.Engine],
			func(at time.Duration) bool { return at <= r.Arrived })
		out[r] = len(ends[r.Engine])
		ends[r.Engine] = append(ends[r.Engine], r.Done)
	}
	return out
}

// window is tasks as the estimate takes them. Every engine holds all prompts but for their last block.
func window(done []*virtual.Request, engines int, beside func(*virtual.Request) int) (w Window) {
	for range engines {
		w.Slots = append(w.Slots, int(Theirs.Slots))
	}
	for _, r := range done {
		d := Done{Agent: r.Engine, Seconds: (r.Done - r.Arrived).Seconds(), Beside: beside(r)}
		for k := range min(engines, MostShares) {
			d.Shares[k] = Share{Agent: int32(k), Of: float32(r.Cached) / float32(r.Prompt)}
		}
		w.Done = append(w.Done, d)
	}
	return w
}

// poa is the mean over windows of [MostDone] tasks.
func poa(done []*virtual.Request, engines int, beside map[*virtual.Request]int) (theirs, fitted float64) {
	n := 0.0
	for part := range slices.Chunk(done, MostDone) {
		if len(part) < 20 {
			continue
		}
		w := window(part, engines, func(r *virtual.Request) int { return beside[r] })
		theirs, fitted, n = theirs+w.PoA(Theirs), fitted+w.PoA(w.Fit()), n+1
	}
	return theirs / max(1, n), fitted / max(1, n)
}

// counted is the index as the paper must have computed it, to give its plateaus: an engine's load is the
// number of tasks of a window of 160 that it served, below its capacity of 64. Then 2.46 s of an answer are
// 7.5 with two engines and 14.8 with five, at any load, which are the paper's 7.47 and 14.7.
func counted(done []*virtual.Request, engines int) float64 {
	const size = 160
	sum, n := 0.0, 0.0
	for part := range slices.Chunk(done, size) {
		if len(part) < size {
			continue
		}
		served := make([]int, engines)
		for _, r := range part {
			served[r.Engine]++
		}
		w := window(part, engines, func(r *virtual.Request) int {
			return min(served[r.Engine], int(Theirs.Slots)-1) - 1
		})
		sum, n = sum+w.PoA(Theirs), n+1
	}
	return sum / max(1, n)
}
