package predict

import (
	"crypto/sha256"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"souk/bus/bustest/golden"
	"souk/bus/exact"
	"souk/hub/predict/tree"
)

// trees are the gates that a hub is given.
func trees(features int) Gate {
	return tree.NewGate(tree.Default(), features)
}

// open counts the classes whose tree is added to forecasts now.
func (cs *Classes) open() (n int) {
	for _, c := range cs.by {
		if c.rest != nil && c.rest.gate.Open() {
			n++
		}
	}
	return n
}

// odd is a task of an engine that no line describes: it computes a prompt in chunks, each of which takes
// longer the more decodes beside it, and long prompts it computes at another pace.
func odd(r *rand.Rand) (Features, Observation) {
	f := Features{Prompt: 100 + r.IntN(6000), MaxTokens: 400, Load: Load{Decoding: r.IntN(16),
		Left: time.Duration(r.Int64N(2e8) * r.Int64N(2))}}
	f.Resident = f.Decoding * (500 + r.IntN(1000))
	f.Cached = r.IntN(f.Prompt)
	u := f.Prompt - f.Cached
	ttft := 15 + 0.05*float64(u) + float64(1+u/1024)*float64(f.Decoding) + ms(f.Left)
	if u > 2500 {
		ttft *= 1.5
	}
	ttft *= 0.95 + 0.1*r.Float64()
	return f, Observation{Prompt: f.Prompt, Cached: f.Cached, Output: 100,
		TTFT: time.Duration(ttft * float64(time.Millisecond)), ITL: 10 * time.Millisecond}
}

// What a class's line leaves over is learned and added, once that errs less, also for an agent that nobody
// has seen run; and when its engines have turned it is not, until it has shown anew that it does.
func TestWhatALineLeavesOver(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 4))
	cs, all := fleet(5)
	serve := func(tasks int, times time.Duration) (with, without float64) {
		for range tasks {
			m := all[r.IntN(4)]
			f, o := odd(r)
			o.TTFT *= times
			with += math.Abs(ms(m.Forecast(f).TTFT - o.TTFT))
			x := at(f.Prompt-f.Cached, f.Cached, f.Load)
			without += math.Abs(m.Line().coef.along(&x) - ms(o.TTFT))
			m.Learn(f, o)
		}
		return with, without
	}
	serve(3000, 1)
	if cs.rests != 1 || cs.open() != 1 {
		t.Fatalf("%d gates, %d of them open", cs.rests, cs.open())
	}
	if with, without := serve(1000, 1); with > 0.8*without {
		t.Errorf("it errs by %.0f with what a tree adds, and by %.0f without", with, without)
	}
	f, _ := odd(r)
	seen, fresh := all[0].Forecast(f), all[4].Forecast(f)
	if all[0].Line() == all[4].Line() && seen.TTFT != fresh.TTFT {
		t.Errorf("%v of one that was seen, and %v of one that was not", seen.TTFT, fresh.TTFT)
	}
	serve(100, 10)
	if cs.open() > 0 {
		t.Error("all engines take ten times as long, and what was learned before is still added")
	}
}

// However odd what a line leaves over is, a forecast is no less where there is more to compute, or more is
// left before it, or more decodes, but for a microsecond: delays are whole nanoseconds, and what is added may
// rise several times as fast as they do. It is no more than so many times what the line says.
func TestWhatIsAddedGrowsWithTheWork(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 5))
	opened := 0
	for n := range 6 {
		cs, all := fleet(3)
		for range 2500 {
			f, o := odd(r)
			switch n {
			case 0: // the fuller, the faster
				o.TTFT = time.Second / time.Duration(1+f.Decoding)
			case 1:
				o.TTFT = time.Duration(1e6 * (100 + 90*math.Sin(float64(o.Prompt-o.Cached)/300)))
			case 2:
				o.TTFT = time.Second - 2*f.Left
			}
			all[r.IntN(3)].Learn(f, o)
		}
		opened += cs.open()
		for range 4000 {
			m := all[r.IntN(3)]
			f := Features{Counted: 1 + r.IntN(8000), MaxTokens: 100,
				Load: Load{Left: time.Duration(r.Int64N(5e8)),
					Decoding: r.IntN(20), Resident: r.IntN(30_000)}}
			f.Cached = r.IntN(f.Counted)
			g := f
			switch r.IntN(4) {
			case 0:
				g.Cached = r.IntN(f.Cached + 1)
			case 1:
				g.Left += time.Duration(r.Int64N(1e9))
			case 2:
				g.Decoding += r.IntN(20)
			case 3:
				g.Resident += r.IntN(30_000)
			}
			less, more := m.Forecast(f).TTFT, m.Forecast(g).TTFT
			x := at(max(1, f.Counted-f.Cached), f.Cached, f.Load)
			line := span(m.Line().coef.along(&x) / 1000)
			if more < less-time.Microsecond || less < line/mostTimes-2 || less > mostTimes*line+2 {
				t.Fatalf("%d: %+v: %v, by the line %v; %+v: %v", n, f, less, line, g, more)
			}
			delay := m.Delay(f.Load)
			first, work, _ := m.Line().Idle(f)
			if later := m.Line().Later(first, work, delay); later != less {
				t.Fatalf("%d: %+v: %v or %v", n, f, less, later)
			}
		}
	}
	if opened < 3 {
		t.Errorf("of six gates %d were open: little was looked at", opened)
	}
}

// An agent that lies where it is asked something odd, and so would teach the tree of its class, moves what is
// expected of the others by little.
func TestALiarAndTheTree(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	lies := map[string]func(f *Features, o *Observation){
		"slow where much decodes": func(f *Features, o *Observation) {
			if f.Decoding > 8 {
				o.TTFT *= 3
			}
		},
		"fast where much is to be computed": func(f *Features, o *Observation) {
			if o.Prompt-o.Cached > 2500 {
				o.TTFT /= 3
			}
		},
	}
	for name, lie := range lies {
		r := rand.New(rand.NewPCG(seed, 6))
		_, all := fleet(5)
		_, honest := fleet(5)
		for range 5000 {
			i := r.IntN(5)
			f, o := odd(r)
			if i < 4 {
				honest[i].Learn(f, o)
			} else {
				lie(&f, &o)
			}
			all[i].Learn(f, o)
		}
		var off []float64
		for range 500 {
			f, _ := odd(r)
			of := float64(all[0].Forecast(f).TTFT) / float64(honest[0].Forecast(f).TTFT)
			off = append(off, math.Abs(exact.Ln(of)))
		}
		slices.Sort(off)
		if middle, most := off[len(off)/2], off[len(off)*95/100]; middle > 0.15 || most > 0.5 {
			t.Errorf("%s: of another it is off by %.2f in the middle, and %.2f at most", name, middle, most)
		}
	}
}

// No more classes have trees than there may be, and one that is gone makes room.
func TestTreesAreFew(t *testing.T) {
	cs := NewClasses(trees)
	var all []*Means
	for i := range 2 * mostRests {
		m := NewMeans()
		cs.Enter(Key{Context: i}, m)
		all = append(all, m)
	}
	if cs.rests != mostRests || cs.Len() != 2*mostRests {
		t.Errorf("%d trees of %d classes", cs.rests, cs.Len())
	}
	for i, m := range all {
		cs.Enter(Key{Context: -1 - i}, m)
	}
	if cs.rests != mostRests {
		t.Errorf("%d trees once all have changed their classes", cs.rests)
	}
}

// What trees add is the same on every machine, to the last bit.
func TestSameTreesOnEveryMachine(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	h := sha256.New()
	cs, all := fleet(3)
	out := NewOutputs(trees)
	for range 3000 {
		m := all[r.IntN(3)]
		f, o := odd(r)
		s := Source{Client: fmt.Sprint(r.IntN(9)), Prompt: f.Prompt, Most: 400, Turn: r.IntN(3)}
		fmt.Fprintln(h, int64(m.Forecast(f).TTFT), out.Expect(s, 200))
		m.Learn(f, o)
		out.Learn(s, 300-f.Prompt/25+r.IntN(20), 200)
	}
	if cs.open() == 0 {
		t.Error("no gate is open")
	}
	golden.Check(t, "trees", fmt.Sprintf("%x", h.Sum(nil)))
}
