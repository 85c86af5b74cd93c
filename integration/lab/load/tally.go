package load

import (
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"souk/bus"
)

// Tally gathers what a load measured; safe for use from many goroutines.
type Tally struct {
	mu     sync.Mutex
	slo    SLO
	closed bool // the loop: a caller sends when its last answer has ended

	asked, open, moved     int
	prompt, cached, output int
	codes                  map[bus.Code]int
	messages               map[bus.Code]string // the first of each code
	broken                 int                 // answers with a frame missing or twice
	wrong                  []string            // the first few of them

	measuring     bool // the ramp is over
	begun, ended  time.Time
	offered, good int // tasks sent while measuring, and those of them within the SLO
	tasks, tokens int // ended, and come, while measuring

	ttft, itl, whole, late *hdrhistogram.Histogram // microseconds; late is ttft since the last look
}

// SLO holds the limits within which an answer counts as good; zero: no limit.
type SLO struct {
	TTFT time.Duration // to the first token
	ITL  time.Duration // mean between tokens after it
}

// NewTally begins with nothing measured.
func NewTally(slo SLO, closedLoop bool) *Tally {
	return &Tally{slo: slo, closed: closedLoop, codes: map[bus.Code]int{}, messages: map[bus.Code]string{},
		ttft: histogram(), itl: histogram(), whole: histogram(), late: histogram()}
}

// histogram counts microseconds up to half an hour, to 3 digits.
func histogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(30*time.Minute/time.Microsecond), 3)
}

// Measure ends the ramp: latencies count from now on.
func (t *Tally) Measure(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.measuring, t.begun = true, now
}

// Begin begins one answer. Its times count from when it was due, not from when it was sent. So in an open
// loop the time for which a task is sent late counts, too.
func (t *Tally) Begin(due time.Time) *Answer {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked++
	t.open++
	if t.measuring {
		t.offered++
	}
	return &Answer{t: t, due: due, measured: t.measuring}
}

// Answer is one answer as it comes.
type Answer struct {
	t        *Tally
	due      time.Time
	measured bool
	first    time.Time
	last     time.Time
	next     uint64
	tokens   int
	wrong    string
}

// Chunk takes what came at a time.
func (a *Answer) Chunk(now time.Time, c bus.Chunk) {
	if c.Seq != a.next && a.wrong == "" {
		what := "a gap"
		if c.Seq < a.next {
			what = "twice"
		}
		a.wrong = fmt.Sprintf("%s: frame %d came where %d was due", what, c.Seq, a.next)
	}
	a.next = c.Seq + 1
	if c.Count == 0 && c.Text == "" {
		return
	}
	gap := time.Duration(-1)
	if a.first.IsZero() {
		a.first = now
	} else {
		gap = now.Sub(a.last)
	}
	a.last = now
	a.tokens += c.Count
	a.t.mu.Lock()
	defer a.t.mu.Unlock()
	if a.t.measuring {
		a.t.tokens += c.Count
	}
	if a.measured && gap >= 0 {
		record(a.t.itl, gap, 1)
	}
}

// End takes the last word.
func (a *Answer) End(now time.Time, r bus.Result) {
	t := a.t
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open--
	t.codes[r.Code]++
	if r.Code != "" {
		if t.messages[r.Code] == "" {
			t.messages[r.Code] = r.Message
		}
	} else if a.wrong == "" && (r.Chunks != a.next || a.tokens != r.Usage.Output) {
		a.wrong = fmt.Sprintf("a gap: %d tokens in %d frames came, %d in %d were sent", a.tokens, a.next,
			r.Usage.Output, r.Chunks)
	}
	if a.wrong != "" {
		t.broken++
		if len(t.wrong) < 5 {
			t.wrong = append(t.wrong, fmt.Sprintf("task %s of %s: %s", r.Task, r.Agent, a.wrong))
		}
	}
	// the load was stopped, which says nothing about the market
	if r.Code == bus.CodeCancelled && a.measured {
		t.offered--
	}
	if r.Code != "" {
		return
	}
	if t.measuring {
		t.tasks, t.ended = t.tasks+1, now
	}
	t.prompt, t.cached, t.output = t.prompt+r.Usage.Prompt, t.cached+r.Usage.Cached, t.output+r.Usage.Output
	if r.Receipt != nil && len(r.Receipt.Earlier) > 0 {
		t.moved++
	}
	if !a.measured || a.first.IsZero() {
		return
	}
	ttft := a.first.Sub(a.due)
	record(t.ttft, ttft, 1)
	record(t.late, ttft, 1)
	record(t.whole, now.Sub(a.due), 1)
	each := time.Duration(0)
	if a.tokens > 1 {
		each = a.last.Sub(a.first) / time.Duration(a.tokens-1)
	}
	if (t.slo.TTFT == 0 || ttft <= t.slo.TTFT) && (t.slo.ITL == 0 || each <= t.slo.ITL) {
		t.good++
	}
}

func record(h *hdrhistogram.Histogram, d time.Duration, n int64) {
	us := min(max(d.Microseconds(), h.LowestTrackableValue()), h.HighestTrackableValue())
	if err := h.RecordValues(us, n); err != nil {
		panic("load: a value between the histogram's ends: " + err.Error())
	}
}

// corrected gives back to a histogram of a closed loop what the loop omitted: a caller that waits for a slow
// answer does not send what it would have sent meanwhile, one task each interval, and those would have waited
// too. This is HdrHistogram's correction for coordinated omission (Tene), with the median of a whole answer
// as interval.
func corrected(h *hdrhistogram.Histogram, interval time.Duration) *hdrhistogram.Histogram {
	out := histogram()
	for _, b := range h.Distribution() {
		if b.Count == 0 {
			continue
		}
		took := time.Duration(b.To) * time.Microsecond
		record(out, took, b.Count)
		if interval <= 0 {
			continue
		}
		for missing := took - interval; missing >= interval; missing -= interval {
			record(out, missing, b.Count)
		}
	}
	return out
}
