package forecast

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func judged(t *testing.T, o Options) []Result {
	t.Helper()
	results, err := Judge(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func small(streams ...string) Options {
	o := DefaultOptions()
	o.Streams, o.Seeds, o.Tasks, o.Gap = streams, []uint64{7}, 3000, false
	return o
}

// The same seed gives the same figures to the last bit, another one others.
// Streams that go side by side share nothing: one seed gives the same figures every time.
func TestSameFiguresAgain(t *testing.T) {
	o := small("short", "azure")
	o.Tasks, o.Gap = 500, true
	one, two := judged(t, o), judged(t, o)
	o.Seeds = []uint64{8}
	other := judged(t, o)
	if fmt.Sprint(one) != fmt.Sprint(two) {
		t.Errorf("two runs of one seed:\n%v\n%v", one, two)
	}
	for i := range one {
		if one[i].TTFT == other[i].TTFT {
			t.Errorf("%s: two seeds give one stream", one[i].Stream)
		}
	}
}

// What state says is worth more than what learns: seconds left against tasks in flight, and against the
// paper's trees.
func TestSecondsLeftForecastBetter(t *testing.T) {
	for _, r := range judged(t, small("short", "long")) {
		by := map[string]Score{}
		for _, s := range r.Scores {
			by[s.Name] = s
			if !(s.TTFT > 0 && s.TTFT < 2 && s.Cost > 0 && s.Cost < 2) || math.Abs(s.Covered-goal) > 0.05 {
				t.Errorf("%s: %+v", r.Stream, s)
			}
		}
		for _, worse := range []string{"means", "eq5", "eq5-loose", "backlog"} {
			if by[Baseline].TTFT > 0.97*by[worse].TTFT {
				t.Errorf("%s: %s errs by %.3f, %s by %.3f", r.Stream, Baseline, by[Baseline].TTFT, worse, by[worse].TTFT)
			}
		}
		if by[asHub].TTFT > 0.8*by["means"].TTFT || by[asHub].Cost > 1.05*by["means"].Cost {
			t.Errorf("%s: a hub errs by %.3f and %.3f, with tasks in flight alone it did by %.3f and %.3f",
				r.Stream, by[asHub].TTFT, by[asHub].Cost, by["means"].TTFT, by["means"].Cost)
		}
		if r.Cached < 0.2 || r.TTFT <= 0 || r.Belief < r.Held {
			t.Errorf("%+v", r)
		}
	}
}

// Every stream is of plays that fit the engines and begin as they say.
func TestStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	for _, s := range Streams {
		src, err := s.source(3)
		if err != nil {
			t.Fatal(err)
		}
		e := s.engine()
		shared, turns := 0, 0
		seen := map[uint64]bool{}
		for range 3000 {
			for n, q := range src.next().turns {
				turns++
				if q.prompt < 1 || q.output < 1 || q.fresh < 0 || q.fresh > q.prompt || q.think < 0 ||
					len(q.hashes) != (q.prompt+q.output)/blockSize ||
					q.prompt+q.output > (e.Blocks-1)*blockSize/4 {
					t.Fatalf("%s: turn %d: %d tokens, %d of them fresh, %d blocks, an answer of %d after %v", s.Name, n,
						q.prompt, q.fresh, len(q.hashes), q.output, q.think)
				}
				same := 0
				for same < len(q.hashes) && seen[q.hashes[same]] {
					same++
				}
				if same > 0 {
					shared++
				}
				if same*blockSize > q.prompt-q.fresh+2*blockSize {
					t.Fatalf("%s: %d blocks were there before, of a prompt of %d tokens with %d fresh", s.Name, same,
						q.prompt, q.fresh)
				}
				for _, h := range q.hashes {
					seen[h] = true
				}
			}
		}
		if (shared > turns/20) != (s.Name != "azure") {
			t.Errorf("%s: %d of %d prompts begin as another did", s.Name, shared, turns)
		}
	}
}

// The hub takes what it forecast for what happens until it hears better.
func TestHand(t *testing.T) {
	sec := func(s float64) time.Duration { return time.Duration(s * 1e9) }
	h := &hand{}
	for i := range 3 {
		h.sent(sec(10+float64(i)/10), &Task{ID: i, Prompt: 1000, Believed: 400}, float64(i+1), 1)
	}
	check := func(now, left float64, ahead, decoding int) {
		t.Helper()
		l := h.load(sec(now))
		if math.Abs(l.left-left) > 1e-6 || l.ahead != ahead || l.decoding != decoding ||
			l.resident != 1000*decoding {
			t.Errorf("at %v: %+v, want %v s left, %d tokens ahead, %d that answer", now, l, left, ahead, decoding)
		}
	}
	check(10.5, 2.5, 1800, 0) // half of the first is done
	check(11.5, 1.5, 1200, 1) // its first token is believed to have come at 11
	h.said(sec(11.5), 3)      // but it has not
	check(11.5, 1.5, 1800, 0) // so it took longer since it was sent
	h.said(sec(11.6), 1)      // now two have theirs
	check(11.6, 1, 600, 2)    // and the third begins
	h.ended(&Task{ID: 0, TTFT: 1.55})
	check(11.7, 0.9, 600, 1)
}

// Coefficients are found where there are some, and are never below 0.
func TestSquares(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	s := newSquares(1000, []float64{5, 5, 5}, []float64{1, 1, 1})
	for range 2000 {
		x := []float64{1, rng.Float64() * 4, rng.Float64()}
		s.learn(x, 3+2*x[1]-x[2]+0.1*rng.NormFloat64())
	}
	if c := s.coef; math.Abs(c[0]-2.5) > 0.1 || math.Abs(c[1]-2) > 0.1 || c[2] != 0 {
		t.Errorf("coefficients %v, want 2.5, 2, 0", c)
	}
}

// Nine in ten of what came lies within, also where what comes changes.
func TestIntervalsCover(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	b := band{level: goal}
	covered, n := 0, 0
	for i := range 20_000 {
		forecast := 0.01 * math.Exp(rng.NormFloat64())
		came := forecast * math.Exp((0.1+0.4*float64(i/5000%2))*rng.NormFloat64())
		group, low, high := b.interval(forecast)
		in := came >= low && came <= high
		b.learn(group, forecast, came, in)
		if n++; in {
			covered++
		}
	}
	if share := float64(covered) / float64(n); share < 0.88 || share > 0.92 {
		t.Errorf("%v are covered", share)
	}
}

// A page says what does not pay, and what was left out.
func TestPage(t *testing.T) {
	score := func(name string, ttft, cost float64) Score { return Score{Name: name, TTFT: ttft, Cost: cost} }
	p := Said{Options: DefaultOptions(),
		Results: []Result{
			{Stream: "azure", Seed: 1, Scores: []Score{score("means", 0.4, 0.1), score("state", 0.09, 0.3),
				score(Baseline, 0.1, 0.2), score("gated", 0.08, 0.2)}},
			{Stream: "mooncake", Seed: 1, Scores: []Score{score("means", 0.3, 0.1), score("state", 0.11, 0.3),
				score(Baseline, 0.1, 0.2), score("gated", 0.05, 0.2)}},
			{Stream: "short", Seed: 1, Scores: []Score{score("means", 0.01, 0.1), score(Baseline, 0.1, 0.2)}},
		}}
	made := p.Page("bin/lab forecast")
	if html, err := made.HTML(); err != nil || !bytes.Contains(html, []byte("<svg")) {
		t.Errorf("no plot on the page: %v", err)
	}
	out := made.Markdown()
	for _, want := range []string{"left out: `--python` names",
		"| `means` | **does not pay**: 200 to 300 % more | **pays** on all: 50 to 50 % less |",
		"| `state` | pays on some: from 10 % more to 10 % less | **does not pay**: 50 to 50 % more |",
		"| `gated` | **pays** on all: 20 to 50 % less | the same |", "bin/lab forecast"} {
		if !strings.Contains(out, want) {
			t.Errorf("the page does not say %q:\n%s", want, out)
		}
	}
}

// River's script is told of each forecast and each end, and what it says counts; its fault is a fault.
func TestRiver(t *testing.T) {
	ctx := context.Background()
	if _, err := FindRiver(ctx, "no-such-python"); err == nil {
		t.Error("a Python that is not there has river")
	}
	script := filepath.Join(t.TempDir(), "fake.sh")
	write := func(text string) {
		if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`f=0; l=0
while IFS=, read -r kind rest; do case $kind in f) f=$((f+1));; l) l=$((l+1));; esac; done
[ $l -ge 1000 ] && [ $f -ge $l ] && echo '{"ttft_nmae": 0.25, "cost_nmae": 0.5}'
`)
	o := small("short")
	o.Tasks, o.Python, o.Script = 1000, "sh", script
	scores := judged(t, o)[0].Scores
	if s := scores[len(scores)-1]; s.Name != "river" || s.TTFT != 0.25 || s.Cost != 0.5 {
		t.Errorf("%+v", s)
	}
	write("cat >/dev/null; echo it has no trees >&2; exit 3")
	if _, err := Judge(ctx, o); err == nil || !strings.Contains(err.Error(), "no trees") {
		t.Errorf("a script that fails: %v", err)
	}
}

func TestOptions(t *testing.T) {
	for i, change := range []func(*Options){
		func(o *Options) { o.Streams = []string{"nowhere"} }, func(o *Options) { o.Seeds = nil },
		func(o *Options) { o.Agents = 0 }, func(o *Options) { o.Tasks = 10 },
		func(o *Options) { o.Explore = math.NaN() },
	} {
		o := DefaultOptions()
		change(&o)
		if o.Validate() == nil {
			t.Errorf("options %d are taken: %+v", i, o)
		}
	}
}
