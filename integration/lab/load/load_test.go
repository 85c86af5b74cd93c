package load

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/cmd/replay"
	"souk/market"
)

func TestArrivals(t *testing.T) {
	at := slices.Collect(Arrivals(1, 100, 10*time.Second, 60*time.Second))
	if again := slices.Collect(Arrivals(1, 100, 10*time.Second, 60*time.Second)); !slices.Equal(at, again) {
		t.Error("one seed, two schedules")
	}
	if other := slices.Collect(Arrivals(2, 100, 10*time.Second, 60*time.Second)); slices.Equal(at, other) {
		t.Error("two seeds, one schedule")
	}
	if !slices.IsSorted(at) || at[len(at)-1] >= 60*time.Second {
		t.Error("times are not in order, or beyond the end")
	}
	count := func(from, to float64) (n float64) {
		for _, x := range at {
			if s := x.Seconds(); s >= from && s < to {
				n++
			}
		}
		return n
	}
	// While it rises half of the rate comes on average, of which a quarter in the first half; five standard
	// deviations are allowed.
	for _, part := range []struct{ from, to, want float64 }{{0, 5, 125}, {5, 10, 375}, {10, 35, 2500},
		{35, 60, 2500}} {
		if n := count(part.from, part.to); math.Abs(n-part.want) > 5*math.Sqrt(part.want) {
			t.Errorf("%g to %g s: %g arrivals, want about %g", part.from, part.to, n, part.want)
		}
	}
}

func TestQuestions(t *testing.T) {
	ds := []replay.Dialogue{
		{System: "s", Turns: []replay.Turn{{User: "a1", Answer: "A1"}, {User: "a2"}, {User: "a3"}}},
		{Turns: []replay.Turn{{User: "b1"}, {User: "b2"}}},
	}
	q, err := NewQuestions(ds, Shape{Clients: replay.Mix(1, 2), MaxTokens: 7, Whole: true, Run: "r"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for n := range 4 {
		task := q.Task(n)
		if err := task.Validate(); err != nil {
			t.Error(err)
		}
		var body struct {
			Messages []struct{ Role, Content string } `json:"messages"`
			Max      int                              `json:"max_tokens"`
			Whole    bool                             `json:"ignore_eos"`
		}
		if err := json.Unmarshal(task.Body, &body); err != nil || body.Max != 7 || !body.Whole {
			t.Errorf("%s: %v", task.Body, err)
		}
		var said []string
		for _, m := range body.Messages {
			said = append(said, m.Content)
		}
		got = append(got, task.Client+" "+task.Session+" "+strings.Join(said, " "))
	}
	want := []string{"hurried-1 r-0-0 s a1", "exacting-1 r-0-1 b1", "hurried-1 r-0-0 s a1 A1 a2",
		"exacting-1 r-1-0 s a1"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// chunks tells a tally an answer whose frames have these numbers, one token in each.
func chunks(t *Tally, result bus.Result, seqs ...uint64) {
	now := time.Unix(100, 0)
	a := t.Begin(now)
	for _, n := range seqs {
		now = now.Add(10 * time.Millisecond)
		a.Chunk(now, bus.Chunk{Seq: n, Count: 1, Text: "x"})
	}
	a.End(now, result)
}

func TestFrames(t *testing.T) {
	whole := bus.Result{Chunks: 3, Usage: market.Usage{Output: 3}}
	for name, c := range map[string]struct {
		result bus.Result
		seqs   []uint64
		wrong  string
	}{
		"whole":              {whole, []uint64{0, 1, 2}, ""},
		"a gap":              {whole, []uint64{0, 2}, "frame 2 came where 1 was due"},
		"twice":              {whole, []uint64{0, 1, 1, 2}, "twice"},
		"the end is missing": {whole, []uint64{0, 1}, "2 tokens in 2 frames came, 3 in 3 were sent"},
		"tokens are missing": {bus.Result{Chunks: 3, Usage: market.Usage{Output: 4}}, []uint64{0, 1, 2},
			"4 in 3 were sent"},
		"broken off, without gaps": {bus.Result{Code: bus.CodeEngineFailed}, []uint64{0, 1}, ""},
		"broken off, with a gap":   {bus.Result{Code: bus.CodeEngineFailed}, []uint64{1}, "a gap"},
	} {
		tally := NewTally(SLO{}, false)
		chunks(tally, c.result, c.seqs...)
		r := tally.Report(time.Unix(101, 0), nil)
		if (r.Broken > 0) != (c.wrong != "") || !strings.Contains(strings.Join(r.Wrong, ""), c.wrong) {
			t.Errorf("%s: %d broken: %q, want %q", name, r.Broken, r.Wrong, c.wrong)
		}
	}
}

// stalls is a market whose answers have three tokens, 10 ms apart, and that stands still for some time after
// its first answers.
type stalls struct {
	from, until time.Time
	refuse      bus.Code
}

func (m *stalls) ask(ctx context.Context, t bus.Task, each func(bus.Chunk)) (replay.Answer, error) {
	if m.refuse == bus.CodeUnavailable {
		return replay.Answer{}, errors.New("no bus")
	}
	r := bus.Result{Task: t.ID, Code: m.refuse, Message: "no"}
	if m.refuse != "" {
		return replay.Answer{Result: r}, nil
	}
	for n := range uint64(3) {
		if now := time.Now(); !now.Before(m.from) && now.Before(m.until) {
			time.Sleep(m.until.Sub(now)) // virtual
		}
		time.Sleep(10 * time.Millisecond)
		if ctx.Err() != nil {
			r.Code = bus.CodeCancelled
			return replay.Answer{Result: r}, nil
		}
		each(bus.Chunk{Seq: n, Count: 1, Text: "x"})
	}
	r.Chunks, r.Usage = 3, market.Usage{Prompt: 5, Output: 3}
	return replay.Answer{Result: r}, nil
}

func questions(t *testing.T) *Questions {
	q, err := NewQuestions([]replay.Dialogue{{Turns: []replay.Turn{{User: "why?"}}}},
		Shape{Clients: replay.Mix(1, 1), Run: "r"})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// A market that stands still for ten seconds of a minute has a bad tail, whichever way it is asked: the
// closed loop, which sent next to nothing in that time, says so too once it is corrected.
func TestCoordinatedOmission(t *testing.T) {
	for _, rate := range []float64{0, 20} {
		synctest.Test(t, func(t *testing.T) {
			m := &stalls{from: time.Now().Add(30 * time.Second), until: time.Now().Add(40 * time.Second)}
			callers := 1
			if rate > 0 {
				callers = 1000
			}
			r, err := Run(t.Context(),
				Config{Rate: rate, Concurrency: callers, Ramp: time.Second, Duration: time.Minute,
					SLO: SLO{TTFT: time.Second}}, questions(t), m.ask)
			if err != nil || r.Broken > 0 || r.Failed() > 0 || r.Answered != r.Asked {
				t.Fatalf("%+v, %v", r, err)
			}
			// A sixth of the time it stood still, so about one task in twelve waited for more than five
			// seconds.
			if r.TTFT.P50 > 11 || r.TTFT.P90 < 3000 || r.TTFT.P99 < 9000 || r.Whole.P99 < 9000 ||
				r.ITL.P99 > 11 && rate == 0 {
				t.Errorf("rate %g: TTFT %+v, whole %+v, ITL %+v", rate, r.TTFT, r.Whole, r.ITL)
			}
			if rate == 0 && r.RawTTFT.P99 > 11 {
				t.Errorf("measured TTFT %+v: the loop omitted nothing, so nothing was shown", r.RawTTFT)
			}
			if rate > 0 && (r.Goodput > 0.86 || r.Goodput < 0.80) {
				t.Errorf("goodput %g, want five sixths", r.Goodput)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	for _, code := range []bus.Code{bus.CodeNoRoom, bus.CodeUnavailable} {
		synctest.Test(t, func(t *testing.T) {
			r, err := Run(t.Context(), Config{Concurrency: 4, Duration: 10 * time.Second}, questions(t),
				(&stalls{refuse: code}).ask)
			if err != nil || r.Codes[string(code)] != r.Asked || r.Failed() != r.Asked || r.Goodput != 0 {
				t.Errorf("%+v, %v", r, err)
			}
			if r.Asked < 400 || r.Asked > 2000 {
				t.Errorf("%d tasks were refused in 10 s: a refused caller pauses", r.Asked)
			}
		})
	}
}

// A load that is stopped says what was measured until then.
func TestStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second+15*time.Millisecond)
		defer cancel()
		r, err := Run(ctx, Config{Concurrency: 2, Duration: time.Hour}, questions(t), new(stalls).ask)
		if err != nil || r.Codes["cancelled"] != 2 || r.Answered != r.Asked-2 || r.Answered < 300 ||
			r.Goodput != 1 || r.Failed() != 0 {
			t.Errorf("%+v, %v", r, err)
		}
		var out strings.Builder
		r.Write(&out)
		if !strings.Contains(out.String(), "none missing, none twice") ||
			!strings.Contains(out.String(), "end to end") {
			t.Error(out.String())
		}
	})
}

func TestConfig(t *testing.T) {
	for want, c := range map[string]Config{
		"concurrency":  {Duration: 1},
		"rate":         {Rate: -1, Concurrency: 1, Duration: 1},
		"must be over": {Concurrency: 1, Ramp: time.Second, Duration: time.Second},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want something about %q", c, err, want)
		}
	}
}
