package predict

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
)

// stepsOf is an engine whose steps take 10 ms, 40 us a token of a prompt and 100 us for each that answers.
func stepsOf() *steps { return &steps{b: line{10, 40, 0, 0, 0.1, 0}} }

const millisecond = int64(time.Millisecond)

// A prompt that comes during a step waits for its end. Then it is computed beside the others that wait, and
// those before it come first.
func TestAPromptWaitsForTheStepUnderWay(t *testing.T) {
	s := stepsOf()
	takes := func(why string, now int64, size, cached int, want float64) {
		t.Helper()
		x := s.path(now*millisecond, size, cached)
		if got := s.b.along(&x); math.Abs(got-want) > 0.01 {
			t.Errorf("%s: %.2f ms until the first token, want %.2f", why, got, want)
		}
	}
	takes("idle", 0, 1000, 0, 50)
	takes("idle, half of it held", 0, 1000, 500, 30)
	takes("more than fits in a step", 0, 3048, 0, 10+2048*0.04+10+1000*0.04)
	s.sent(0, 1, 1000, 0) // until 50 ms
	takes("20 ms into a step of 50", 20, 500, 0, 30+10+500*0.04+0.1)
	s.sent(20*millisecond, 2, 2000, 0)
	takes("behind another that waits: the step has room for 47 of it", 20, 500, 0,
		30+10+2047*0.04+0.1+10+453*0.04+0.2)
	// at 140.1 ms the second has its first token; then steps of 10.2 ms in which two answer
	takes("3 ms into a step of 10.2", 143, 500, 0, 150.3-143+10+500*0.04+0.2)
	takes("and so many steps later", 143+1020, 500, 0, 150.3-143+10+500*0.04+0.2)
}

// An answer ends with a step: from there on the steps are counted, until the next one ends.
func TestAnAnswerEndsWithAStep(t *testing.T) {
	s := stepsOf()
	s.sent(0, 1, 1000, 0) // its first token comes at 50 ms
	s.sent(0, 2, 500, 0)  // and that of this one 30.1 ms later; then a step takes 10.2 ms
	s.advance(100 * millisecond)
	about := func(at int64) time.Duration { return time.Duration(at).Round(time.Microsecond) }
	if at := about(s.began); at != 90_300*time.Microsecond {
		t.Fatalf("a step began at %v, want 90.3 ms", at)
	}
	x := s.ended(103*millisecond, 1, 4) // nearer to the end at 100.5 ms than to that at 110.7 ms
	if a, b := about(s.began), about(s.ends); a != 103*time.Millisecond || b != 113_100*time.Microsecond {
		t.Errorf("a step from %v to %v, want 103 to 113.1 ms", a, b)
	}
	if want := (point{1, 0.5 / 3, 0.125 / 3, 0, 5.0 / 3, x.x[5]}); !x.known || x.x != want {
		t.Errorf("while it answered a step computed %+v on the mean, want %v", x, want)
	}
	s.ended(0, 2, 0) // cancelled: that is no end of a step
	if s.ends != 0 || len(s.prompts) != 0 {
		t.Errorf("%+v, and nothing is in hand", s)
	}
}

// What an agent says of how many tasks have no first token puts right what is believed.
func TestStepsAreAsAnAgentSays(t *testing.T) {
	s := stepsOf()
	s.sent(0, 1, 1000, 0)
	s.sent(1, 2, 2000, 0)
	waiting := func() (n int) {
		for _, p := range s.prompts {
			if !p.answers {
				n++
			}
		}
		return n
	}
	s.said(100*millisecond, 100*millisecond, 2)
	if n := waiting(); n != 2 {
		t.Errorf("%d wait, and two do by the agent's word", n)
	}
	s.said(100*millisecond, 100*millisecond, 0)
	if n := waiting(); n != 0 {
		t.Errorf("%d wait, and none does by the agent's word", n)
	}
	s.sent(100*millisecond, 3, 1000, 0)
	s.said(101*millisecond, 100*millisecond, 0)
	if n := waiting(); n != 1 {
		t.Errorf("%d wait, and the agent had not heard of the last", n)
	}
}

// Whatever comes and goes, paths are finite and none is shorter than a step of its own, nothing is kept of
// what has ended, and at another hour all is the same.
func TestAnySteps(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 4))
	const hour = int64(time.Hour)
	for range 100 {
		a := steps{b: line{r.Float64() * 30, r.Float64() * 100, r.Float64(), 0, r.Float64(), r.Float64()}}
		b := steps{b: a.b}
		open, number, now := []uint64{}, uint64(0), hour // at 0 no step ends: see steps.ends
		for range 200 {
			now += r.Int64N(int64(300 * time.Millisecond))
			size, cached := r.IntN(40_000)-100, r.IntN(40_000)-100
			switch k := r.IntN(5); {
			case k == 0 && len(open) > 0:
				i := r.IntN(len(open))
				at, tokens := now-r.Int64N(int64(time.Second)), r.IntN(100)-5
				x, y := a.ended(at, open[i], tokens), b.ended(at+hour, open[i], tokens)
				open = append(open[:i], open[i+1:]...)
				if x != y {
					t.Fatalf("%+v, and an hour later %+v", x, y)
				}
			case k == 1:
				n := r.IntN(20) - 2
				a.said(now, now-millisecond, n)
				b.said(now+hour, now+hour-millisecond, n)
			default:
				x, y := a.path(now, size, cached), b.path(now+hour, size, cached)
				if x != y {
					t.Fatalf("%+v, and an hour later %+v", x, y)
				}
				for _, v := range x {
					if !(v >= 0 && v < 1e7) || x[0] < 1 {
						t.Fatalf("a path of %v", x)
					}
				}
				number++
				a.sent(now, number, size, cached)
				b.sent(now+hour, number, size, cached)
				open = append(open, number)
			}
			if len(a.prompts) != len(open) || len(open) == 0 && a.ends != 0 {
				t.Fatalf("%d are in hand, and %d are kept; a step ends at %d", len(open), len(a.prompts), a.ends)
			}
		}
	}
}

// stepping is agents of a class whose engines make steps, and what they serve.
type stepping struct {
	*rand.Rand
	all    []*Means
	queues []Queue
	truth  []steps // of their engines
	off    [2]float64
	by     int // steps
	now    int64
	open   []inHand
}

type inHand struct {
	agent    int
	f        Features
	said     Said
	number   uint64
	ttft     time.Duration
	sent, at int64
}

func (s *stepping) serve(tasks int, late func(agent int) float64) {
	const tokens = 20
	for range tasks {
		s.now += s.Int64N(30 * millisecond)
		now := s.now
		for i := 0; i < len(s.open); i++ {
			o := s.open[i]
			q := &s.queues[o.agent]
			if o.at > now {
				continue
			}
			itl := time.Duration(o.at-o.sent-int64(o.ttft)) / time.Duration(tokens-1)
			between := q.Answered(now, o.number, o.ttft, itl, tokens)
			q.Ended(o.number, o.ttft)
			s.off[0] += math.Abs(o.said.line.first - ms(o.ttft))
			s.off[1] += math.Abs(ms(o.said.TTFT) - ms(o.ttft))
			if o.said.BySteps() {
				s.by++
			}
			s.all[o.agent].Learn(o.f, Observation{Prompt: o.f.Prompt, Output: tokens, TTFT: o.ttft, ITL: itl,
				Said: o.said, Between: between})
			s.truth[o.agent].ended(o.at, o.number, tokens)
			s.open = append(s.open[:i], s.open[i+1:]...)
			i--
		}
		k := s.IntN(len(s.all))
		m, q, e := s.all[k], &s.queues[k], &s.truth[k]
		f := Features{Prompt: 100 + s.IntN(1500), MaxTokens: 100}
		f.Counted, f.Load = f.Prompt, q.Load(now)
		x := e.path(now, f.Prompt, 0)
		ttft := e.b.along(&x) * late(k)
		o := inHand{agent: k, f: f, sent: now, ttft: time.Duration(ttft * 1e6)}
		o.said = m.Along(m.Forecast(f), q.Path(m, now, f.Prompt, 0))
		o.number = q.Sent(now, f.Prompt, 0, m.Work(f.Prompt, 0), o.said.First(), tokens, 10*time.Millisecond)
		e.sent(now, o.number, f.Prompt, 0)
		o.at = now + int64(o.ttft) + int64(tokens-1)*10*millisecond
		s.open = append(s.open, o)
	}
}

func newStepping(t *testing.T, agents int) *stepping {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	_, all := fleet(agents)
	s := &stepping{Rand: rand.New(rand.NewPCG(seed, 5)), all: all, queues: make([]Queue, agents)}
	for range agents {
		s.truth = append(s.truth, *stepsOf())
	}
	return s
}

// Forecasts by steps stand in for those of the line once they have erred less for a while, and until they do
// not any more.
func TestStepsCountWhileTheyErrLess(t *testing.T) {
	s := new(stepped)
	judge := func(n int, line, steps float64) {
		for range n {
			s.judge(line, steps, 1)
		}
	}
	if judge(stepsAfter, 2, 1); s.open {
		t.Errorf("they count after %d answers", stepsAfter)
	}
	if judge(1, 2, 1); !s.open || s.openings != 1 {
		t.Error("they do not count after one more")
	}
	if judge(100, 1, 3); s.open {
		t.Error("they count, and err three times as much")
	}
	judge(1000, 2, 1.99)
	if s.open {
		t.Error("they count, and save next to nothing")
	}
	judge(1000, 2, 1)
	if s.mute(); s.open || s.openings != 2 {
		t.Errorf("they count after their engines have changed, or began %d times", s.openings)
	}
}

// Engines that compute in steps are forecast by their steps before long, and better than by the line. How
// much better varies: nine are judged together.
func TestEnginesAreForecastByTheirSteps(t *testing.T) {
	open, by, off := 0, 0, [2]float64{}
	for range 9 {
		s := newStepping(t, 3)
		s.serve(3000, func(int) float64 { return 1 })
		if s.all[0].class.stepped.open {
			open++
		}
		s.off, s.by = [2]float64{}, 0
		s.serve(1000, func(int) float64 { return 1 })
		by, off[0], off[1] = by+s.by, off[0]+s.off[0], off[1]+s.off[1]
	}
	if open < 6 || by < 2000 || off[1] > 0.8*off[0] {
		t.Errorf("of %d in 9 steps forecast, %d of 9000 first tokens, which are off by %.2f of the line",
			open, by, off[1]/off[0])
	}
}

// Of engines that make none that could be counted the line goes on to forecast.
func TestWithoutStepsTheLineGoesOn(t *testing.T) {
	s := newStepping(t, 3)
	for i := range s.all {
		s.truth[i].b = line{0.001, 0, 0, 0, 0, 0}
	}
	s.serve(3000, func(int) float64 { return 30_000 * (0.7 + 0.6*s.Float64()) })
	if s.off[1] > 1.05*s.off[0] {
		t.Errorf("first tokens are off by %.2f of what the line is", s.off[1]/s.off[0])
	}
}

// An agent that lies about its first tokens moves what is expected by the steps of the others little.
func TestALiarAndTheSteps(t *testing.T) {
	path := func(liar bool) float64 {
		s := newStepping(t, 5)
		s.Rand = rand.New(rand.NewPCG(1, 1))
		s.serve(4000, func(agent int) float64 {
			if liar && agent == 4 {
				return 1 + 30*s.Float64()
			}
			return 1
		})
		x := point{1.5, 1, 0.5, 1, 4, 4}
		return s.all[0].class.stepped.coef.along(&x)
	}
	honest, beside := path(false), path(true)
	if beside > 1.25*honest || beside < honest/1.25 {
		t.Errorf("%.1f ms beside a liar, and %.1f without", beside, honest)
	}
}

// An agent whose first tokens were far off of late what was said by steps is given the room that such have
// had, and another is not.
func TestAnAgentThatWasOffIsGivenMoreRoom(t *testing.T) {
	e := newEngine(t)
	_, all := fleet(2)
	spread := &all[0].class.stepped.spread
	for range 2000 {
		by := e.Float64()
		ttft := 100 * (1 + by*(2*e.Float64()-1))
		spread.count(&said{observed: ttft, forecast: 100, low: 50, high: 150, by: by})
	}
	width := func(m *Means) float64 {
		to := m.Along(m.Forecast(cold), Path{x: point{1.5, 1, 0.5, 1, 4, 4}, known: true})
		return (to.steps.most - to.steps.least) / to.steps.first
	}
	all[0].lately, all[1].lately = 0.9, 0.1
	if far, near := width(all[0]), width(all[1]); !(far >= 2*near) {
		t.Errorf("far off of late, %.2f of the forecast, and %.2f where near", far, near)
	}
}

// An agent that says that its answer took longer than since its dispatch does not put the steps of its engine
// ahead of the clock, where no answer would put them right any more, and a path of hours would weigh on what
// its class takes for a step.
func TestNoAnswerEndsLaterThanNow(t *testing.T) {
	for _, itl := range []time.Duration{10 * time.Millisecond, 10 * time.Second, 1<<63 - 1} {
		m, q, now := NewMeans(DefaultPrior()), Queue{}, 10*int64(time.Second)
		q.Path(m, 0, 1000, 0)
		first := q.Sent(0, 1000, 0, 0, 0, 100, 0)
		q.Sent(0, 1000, 0, 0, 0, 100, 0)
		q.Answered(now, first, 9*time.Second, itl, 100_000)
		if q.Ended(first, 0); q.steps.began > now {
			t.Errorf("%v between tokens: a step began %v from now", itl, time.Duration(q.steps.began-now))
		}
		if x := q.Path(m, now, 1000, 0).x; x[0] > 3 {
			t.Errorf("%v between tokens: %v steps until a first token", itl, x[0])
		}
	}
}

// pathByEach is what path is, by looking at all prompts in every step.
func (s *steps) pathByEach(now int64, size, cached int) (x point) {
	s.advance(now)
	f := steps{b: s.b, began: s.began, ends: s.ends, batch: s.batch, all: s.all,
		prompts: append(append(s.scratch[:0], s.prompts...), prompted(0, now, size, cached))}
	own := &f.prompts[len(f.prompts)-1]
	if f.ends > 0 {
		x.add(&f.batch, float64(f.ends-now)/float64(f.ends-f.began))
		now = f.ends
		f.end()
	}
	for range mostSteps {
		if own.answers {
			break
		}
		f.begin(now)
		x.add(&f.batch, 1)
		now = f.ends
		f.end()
	}
	x[3] = 1
	s.scratch = f.prompts[:0]
	return x
}

// A path is the same whether all prompts are looked at in every step, or each once.
func TestAPathIsTheSumOfItsSteps(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	sizes := []int{1, 50, 700, 3000, 20_000, 150_000}
	for range 50 {
		s, now, open := stepsOf(), int64(0), []uint64(nil)
		for i := range 200 {
			now += r.Int64N(40 * millisecond)
			size := sizes[r.IntN(len(sizes))]
			switch k := r.IntN(10); {
			case k < 5 || len(open) == 0:
				s.sent(now, uint64(i), size, r.IntN(size))
				open = append(open, uint64(i))
			case k < 8:
				j := r.IntN(len(open))
				s.ended(now-r.Int64N(20*millisecond), open[j], r.IntN(3)*10)
				open = append(open[:j], open[j+1:]...)
			default:
				s.said(now, now-r.Int64N(50*millisecond), r.IntN(len(open)+2))
			}
			size = sizes[r.IntN(len(sizes))]
			cached := r.IntN(size)
			want := s.pathByEach(now, size, cached)
			if got := s.path(now, size, cached); got != want {
				t.Fatalf("%v, want %v, of %+v", got, want, s.prompts)
			}
		}
	}
}

// What a dispatch costs rises with the prompts in hand, and not with these times the steps that they take: a
// burst for one large agent does not hold its hub up.
func BenchmarkPathsOfABurst(b *testing.B) {
	for _, slots := range []int{64, 256, 1024} {
		b.Run(strconv.Itoa(slots), func(b *testing.B) {
			m := NewMeans(DefaultPrior())
			for range b.N {
				q := Queue{}
				for range slots {
					q.Path(m, 0, 8000, 0)
					q.Sent(0, 8000, 0, time.Second, time.Second, 100, time.Millisecond)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*slots), "us/dispatch")
		})
	}
}

// What is sent as an answer ends finds a step that has just begun, and what is sent later does not: first
// tokens of either come within what was seen of its like.
func TestWhatIsSentAsAStepBeginsIsApart(t *testing.T) {
	m, q := NewMeans(DefaultPrior()), Queue{}
	first := q.Sent(0, 1000, 0, 0, 0, 10, 0)
	q.Sent(0, 1000, 0, 0, 0, 1000, 0)
	now := int64(2 * time.Second)
	q.Answered(now, first, time.Second, 100*time.Millisecond, 10)
	q.Ended(first, 0)
	long := q.steps.ends - q.steps.began
	began := q.steps.began
	for _, test := range []struct {
		part float64
		want bool
	}{{0, true}, {0.1, true}, {0.2, false}, {0.9, false}, {1.01, false}} {
		at := began + int64(test.part*float64(long))
		if p := q.Path(m, at, 500, 0); p.fresh != test.want {
			t.Errorf("at %v of a step it is fresh: %v", test.part, p.fresh)
		}
	}
	e := newEngine(t)
	_, all := fleet(1)
	s := &all[0].class.stepped
	for range 500 {
		for _, fresh := range []bool{false, true} {
			off := 0.5
			if fresh {
				off = 0.02
			}
			s.ranges(fresh).count(&said{observed: 100 * (1 + off*(2*e.Float64()-1)), forecast: 100, low: 50,
				high: 150, by: 0.1, fresh: fresh})
		}
	}
	width := func(fresh bool) float64 {
		p := Path{x: point{1.5, 1, 0.5, 1, 4, 4}, known: true, fresh: fresh}
		to := all[0].Along(all[0].Forecast(cold), p)
		return (to.steps.most - to.steps.least) / to.steps.first
	}
	if apart, other := width(true), width(false); apart > other/4 {
		t.Errorf("as a step begins %.3f of the forecast, else %.3f", apart, other)
	}
}
