package load

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/jedib0t/go-pretty/v6/table"

	"souk/bus"
	"souk/cmd/replay"
)

// Report holds the measures of a load. Times are in milliseconds; rates, shares, times and CPU are of the
// time after the ramp.
type Report struct {
	Loop        string  `json:"loop"` // "open" or "closed"
	Rate        float64 `json:"rate,omitempty"`
	Concurrency int     `json:"concurrency"`
	Seconds     float64 `json:"seconds"` // measured: from the end of the ramp to the last answer

	Asked    int            `json:"asked"` // tasks sent, those of the ramp included
	Answered int            `json:"answered"`
	Moved    int            `json:"moved"` // answers that began or went on at another agent than the first
	Codes    map[string]int `json:"codes"` // results by code; "ok" for none
	Says     []string       `json:"says,omitempty"`
	Broken   int            `json:"broken"` // answers with a frame missing or twice
	Wrong    []string       `json:"wrong,omitempty"`

	TasksPerSecond  float64 `json:"tasks_per_second"`
	TokensPerSecond float64 `json:"tokens_per_second"`
	Prompt          int     `json:"prompt_tokens"`
	Cached          int     `json:"cached_tokens"`
	Output          int     `json:"output_tokens"`

	SLO struct {
		TTFT float64 `json:"ttft_ms"`
		ITL  float64 `json:"itl_ms"`
	} `json:"slo"` // 0: no limit
	Goodput float64 `json:"goodput"` // share of the tasks sent that were answered within the SLO

	TTFT  Times `json:"ttft_ms"`
	ITL   Times `json:"itl_ms"`
	Whole Times `json:"end_to_end_ms"`

	// As they were measured, before the correction of a closed loop.
	RawTTFT  *Times `json:"ttft_measured_ms,omitempty"`
	RawWhole *Times `json:"end_to_end_measured_ms,omitempty"`

	Processes []Usage `json:"processes"`
	// of the market's processes together, engines and this one apart
	CPUTask  float64 `json:"cpu_us_per_task"`
	CPUToken float64 `json:"cpu_us_per_token"` // the same for each output token
}

// Times are quantiles in milliseconds.
type Times struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
	N    int64   `json:"n"`
}

// Usage is the processor time and memory of one process.
type Usage struct {
	Name   string  `json:"name"`
	PID    int     `json:"pid"`
	Apart  bool    `json:"apart,omitempty"` // an engine, or the load itself: not part of the market's sum
	CPU    float64 `json:"cpu_s"`
	Share  float64 `json:"cores"`  // of one core, on average
	RSS    float64 `json:"rss_mb"` // at the end
	Peak   float64 `json:"rss_peak_mb"`
	Before float64 `json:"rss_before_mb"`
	Note   string  `json:"note,omitempty"`
}

func times(h *hdrhistogram.Histogram) Times {
	at := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1000 }
	return Times{at(50), at(90), at(99), at(99.9), float64(h.Max()) / 1000, h.TotalCount()}
}

// Report sums up what was measured until now, and what processes used meanwhile.
func (t *Tally) Report(now time.Time, used []Usage) Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := Report{
		Loop: "open", Asked: t.asked, Answered: t.codes[""], Moved: t.moved, Codes: map[string]int{},
		Broken: t.broken, Wrong: t.wrong,
		Prompt: t.prompt, Cached: t.cached, Output: t.output, ITL: times(t.itl), TTFT: times(t.ttft),
		Whole: times(t.whole), Processes: used,
	}
	r.SLO.TTFT, r.SLO.ITL = float64(t.slo.TTFT)/1e6, float64(t.slo.ITL)/1e6
	for _, code := range slices.Sorted(maps.Keys(t.codes)) {
		name := string(code)
		if code == "" {
			name = "ok"
		} else {
			r.Says = append(r.Says, fmt.Sprintf("%s: %s", code, t.messages[code]))
		}
		r.Codes[name] = t.codes[code]
	}
	if t.closed {
		r.Loop = "closed"
		raw, whole := r.TTFT, r.Whole
		r.RawTTFT, r.RawWhole = &raw, &whole
		interval := time.Duration(t.whole.ValueAtQuantile(50)) * time.Microsecond
		r.TTFT, r.Whole = times(corrected(t.ttft, interval)), times(corrected(t.whole, interval))
	}
	if t.offered > 0 {
		r.Goodput = float64(t.good) / float64(t.offered)
	}
	if t.measuring {
		until := now
		if t.open == 0 && !t.ended.IsZero() {
			until = t.ended
		}
		r.Seconds = until.Sub(t.begun).Seconds()
	}
	if r.Seconds > 0 {
		r.TasksPerSecond, r.TokensPerSecond = float64(t.tasks)/r.Seconds, float64(t.tokens)/r.Seconds
	}
	cpu := 0.0
	for i := range used {
		if r.Seconds > 0 {
			used[i].Share = used[i].CPU / r.Seconds
		}
		if !used[i].Apart {
			cpu += used[i].CPU
		}
	}
	if t.tasks > 0 {
		r.CPUTask = cpu * 1e6 / float64(t.tasks)
	}
	if t.tokens > 0 {
		r.CPUToken = cpu * 1e6 / float64(t.tokens)
	}
	return r
}

// Line describes the load's progress for a person who waits. What is "late" in it begins anew with each call.
func (t *Tally) Line(passed time.Duration) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	refused := 0
	for code, n := range t.codes {
		if code != "" {
			refused += n
		}
	}
	line := fmt.Sprintf("%4.0f s  asked %d  under way %d  answered %d", passed.Seconds(), t.asked, t.open,
		t.codes[""])
	if refused > 0 {
		line += fmt.Sprintf("  not answered %d", refused)
	}
	if t.broken > 0 {
		line += fmt.Sprintf("  BROKEN %d", t.broken)
	}
	if !t.measuring {
		return line + "  (ramp)"
	}
	if t.late.TotalCount() > 0 {
		line += fmt.Sprintf("  TTFT p50 %s p99 %s", replay.MS(float64(t.late.ValueAtQuantile(50))/1000),
			replay.MS(float64(t.late.ValueAtQuantile(99))/1000))
		t.late.Reset()
	}
	return line
}

// Write prints the report for people.
func (r Report) Write(w io.Writer) {
	how := fmt.Sprintf("%d callers, closed loop", r.Concurrency)
	if r.Loop == "open" {
		how = fmt.Sprintf("%g tasks a second, open loop", r.Rate)
	}
	fmt.Fprintf(w, "%s, measured for %.1f s after the ramp\n", how, r.Seconds)
	fmt.Fprintf(w, "tasks      %d asked, %d answered (%.1f a second), %d of them by more than one agent\n",
		r.Asked, r.Answered, r.TasksPerSecond, r.Moved)
	fmt.Fprintf(w, "tokens     %d prompt, %d of them from cache; %d output (%.0f a second)\n", r.Prompt,
		r.Cached, r.Output, r.TokensPerSecond)
	var codes []string
	for _, c := range slices.Sorted(maps.Keys(r.Codes)) {
		codes = append(codes, fmt.Sprintf("%s %d", c, r.Codes[c]))
	}
	fmt.Fprintf(w, "results    %s\n", strings.Join(codes, ", "))
	for _, s := range r.Says {
		fmt.Fprintf(w, "           %s\n", s)
	}
	if r.Broken == 0 {
		fmt.Fprintln(w, "frames     none missing, none twice")
	} else {
		fmt.Fprintf(w, "frames     MISSING OR TWICE in %d answers\n           %s\n", r.Broken,
			strings.Join(r.Wrong, "\n           "))
	}
	fmt.Fprintf(w, "goodput    %.2f %% of the tasks sent%s\n\n", 100*r.Goodput, r.slo())

	t := replay.Table(w, 1, "", "p50", "p90", "p99", "p99.9", "max", "n")
	row := func(name string, x Times) {
		t.AppendRow(table.Row{name, replay.MS(x.P50), replay.MS(x.P90), replay.MS(x.P99), replay.MS(x.P999),
			replay.MS(x.Max), x.N})
	}
	row("TTFT", r.TTFT)
	row("ITL", r.ITL)
	row("end to end", r.Whole)
	t.Render()
	if r.RawTTFT != nil {
		fmt.Fprintf(w, "Corrected for coordinated omission; as measured: TTFT p99 %s, end to end p99 %s.\n",
			replay.MS(r.RawTTFT.P99), replay.MS(r.RawWhole.P99))
	} else {
		fmt.Fprintln(w, "Counted from the moment when each task was due, not from when it was sent.")
	}
	if len(r.Processes) == 0 {
		return
	}
	fmt.Fprintln(w)
	t = replay.Table(w, 1, "process", "pid", "CPU", "of a core", "memory", "peak", "before")
	for _, p := range r.Processes {
		name := p.Name
		if p.Note != "" {
			name += " (" + p.Note + ")"
		}
		t.AppendRow(table.Row{name, p.PID, fmt.Sprintf("%.2f s", p.CPU), fmt.Sprintf("%.1f %%", 100*p.Share),
			fmt.Sprintf("%.1f MB", p.RSS), fmt.Sprintf("%.1f MB", p.Peak), fmt.Sprintf("%.1f MB", p.Before)})
	}
	t.Render()
	if r.CPUTask > 0 {
		fmt.Fprintf(w, "The market's own, engines and this load apart: %.0f us of CPU for a task, %.1f us "+
			"for an output token.\n", r.CPUTask, r.CPUToken)
	}
}

func (r Report) slo() string {
	var within []string
	if r.SLO.TTFT > 0 {
		within = append(within, "TTFT "+replay.MS(r.SLO.TTFT))
	}
	if r.SLO.ITL > 0 {
		within = append(within, "mean ITL "+replay.MS(r.SLO.ITL))
	}
	if within == nil {
		return " were answered (no SLO given)"
	}
	return " were answered within " + strings.Join(within, " and ")
}

// Failed counts the tasks that ended with a code, other than those that were cancelled with the load.
func (r Report) Failed() (n int) {
	for code, x := range r.Codes {
		if code != "ok" && code != string(bus.CodeCancelled) {
			n += x
		}
	}
	return n
}
