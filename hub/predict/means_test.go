package predict

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func near(t *testing.T, what string, got, want time.Duration, share float64) {
	t.Helper()
	if math.Abs(float64(got-want)) > share*float64(want) {
		t.Errorf("%s = %v, want %v within %v %%", what, got, want, share*100)
	}
}

func TestColdStartIsThePrior(t *testing.T) {
	f := NewMeans().Forecast(Features{Prompt: 1000, MaxTokens: 500, Load: Load{Decoding: 3}})
	near(t, "TTFT", f.TTFT, base+1000*perToken+3*perTask, 0.01)
	if f.Output != 200 {
		t.Errorf("output = %d, want 0.4 of 500", f.Output)
	}
}

// An engine with known constants and noise is learned from its own answers.
func TestLearnsAnEngine(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	base, per, task := 12*time.Millisecond, 40*time.Microsecond, 5*time.Millisecond
	m := NewMeans()
	engine := func(uncached, running int) time.Duration {
		return base + time.Duration(uncached)*per + time.Duration(running)*task
	}
	for range 500 {
		f := Features{Prompt: 100 + r.IntN(4000), MaxTokens: 400, Load: Load{Decoding: r.IntN(8)}}
		actual := f.Prompt * 5 / 4 // this model needs a quarter more tokens than the door thinks
		f.Cached = r.IntN(actual)
		o := Observation{Prompt: actual, Cached: f.Cached, Output: 80 + r.IntN(41),
			ITL: 10 * time.Millisecond}
		o.TTFT = time.Duration(float64(engine(actual-f.Cached, f.Decoding)) * (0.9 + 0.2*r.Float64()))
		m.Learn(f, o)
	}
	if got := m.Line().Tokens(1000); got < 1240 || got > 1255 {
		t.Errorf("1000 estimated tokens = %d, want about 1250", got)
	}
	for _, c := range []struct{ prompt, cached, running int }{{800, 0, 0}, {800, 900, 0}, {3200, 0, 6},
		{3200, 3900, 2}} {
		f := m.Forecast(Features{Prompt: c.prompt, Cached: c.cached, MaxTokens: 400,
			Load: Load{Decoding: c.running}})
		near(t, "TTFT", f.TTFT, engine(c.prompt*5/4-c.cached, c.running), 0.15)
		if f.Output < 90 || f.Output > 110 {
			t.Errorf("output = %d, want about 100", f.Output)
		}
	}
}

func TestForgetsAnEngineThatChanged(t *testing.T) {
	m := NewMeans()
	learn := func(ttft time.Duration, n int) {
		for range n {
			m.Learn(Features{Prompt: 100},
				Observation{Prompt: 100, TTFT: ttft, ITL: ttft / 10})
		}
	}
	learn(2*time.Second, 200)
	learn(100*time.Millisecond, 2000)
	near(t, "TTFT", m.Forecast(Features{Prompt: 100}).TTFT, 100*time.Millisecond, 0.05)
	near(t, "slowest ITL", m.SlowestITL(), 10*time.Millisecond, 0.05)
}

// Whatever an agent reports, forecasts stay finite, not negative, and never fall with more work.
func TestHostileObservations(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	odd := func() int {
		return []int{0, 1, -1, 16, 1000, math.MaxInt32, math.MinInt32, math.MaxInt64, r.IntN(5000)}[r.IntN(9)]
	}
	for range 200 {
		m := NewMeans()
		for range r.IntN(60) {
			m.Learn(Features{Prompt: odd(), Cached: odd(), MaxTokens: odd()},
				Observation{Prompt: odd(), Cached: odd(), Output: odd(), TTFT: time.Duration(odd()),
					ITL: time.Duration(odd()), NoCacheReport: r.IntN(2) == 0})
			f := m.Forecast(Features{Prompt: r.IntN(100000), MaxTokens: 100})
			if f.TTFT < 0 || f.TTFT > time.Hour || f.Output < 1 || f.Output > 100 || m.SlowestITL() < 0 {
				t.Fatalf("forecast %+v, slowest %v", f, m.SlowestITL())
			}
		}
		few, many := m.Forecast(Features{Prompt: 100}),
			m.Forecast(Features{Prompt: 9000})
		if many.TTFT < few.TTFT {
			t.Fatalf("more work is faster: %v, %v", few.TTFT, many.TTFT)
		}
	}
}

func BenchmarkForecast(b *testing.B) {
	m := NewMeans()
	b.ReportAllocs()
	for b.Loop() {
		m.Forecast(Features{Prompt: 1000, Cached: 500, MaxTokens: 500, Load: Load{Decoding: 3}})
	}
}

func BenchmarkLearn(b *testing.B) {
	m := NewMeans()
	b.ReportAllocs()
	for b.Loop() {
		m.Learn(Features{Prompt: 1000, MaxTokens: 500},
			Observation{Prompt: 1000, Output: 99, TTFT: time.Second, ITL: time.Millisecond})
	}
}

// Whatever was learned, a forecast is finite, and no less where there are more tokens to compute, or more is
// left before them, or more decode; and the interval is around it.
func TestForecastsGrowWithTheWork(t *testing.T) {
	e := newEngine(t)
	for range 50 {
		_, all := fleet(1 + e.IntN(4))
		e.serve(all, e.IntN(80), func(_ int, o *Observation) {
			o.TTFT = time.Duration(float64(o.TTFT) * math.Exp(3*e.NormFloat64()))
		})
		for range 200 {
			m := all[e.IntN(len(all))]
			f := Features{Counted: 1 + e.IntN(100_000), MaxTokens: 100, Load: Load{
				Left: time.Duration(e.Int64N(int64(time.Minute))), Decoding: e.IntN(64),
				Resident: e.IntN(1e6)}}
			f.Cached = e.IntN(f.Counted)
			g := f
			switch e.IntN(4) {
			case 0:
				g.Cached = e.IntN(f.Cached + 1) // of as long a prompt: more is to be computed
			case 1:
				g.Left += time.Duration(e.Int64N(int64(time.Minute)))
			case 2:
				g.Decoding += e.IntN(9)
			case 3:
				g.Resident += e.IntN(1e5)
			}
			less, more := m.Forecast(f), m.Forecast(g)
			if less.TTFT < 0 || more.TTFT > time.Hour || more.TTFT < less.TTFT-1 {
				t.Fatalf("%+v: %v; %+v: %v", f, less.TTFT, g, more.TTFT)
			}
			if less.Low > less.TTFT || less.High < less.TTFT || less.Low < 0 {
				t.Fatalf("%+v: %+v", f, less)
			}
		}
	}
}
