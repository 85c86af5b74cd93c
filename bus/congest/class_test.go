package congest

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"souk/bus/learned"
	"souk/market"
)

// engine slows by slope with each task beside; the hub hears of it what it is let say.
type engine struct {
	*Agent
	slope, itl float64
	says       float64 // times the truth
	late       time.Duration
	now        int64
}

// serve has it answer batches of so many tasks at once, handed out and ended together.
func (e *engine) serve(r *rand.Rand, batches, most int) {
	for range batches {
		beside := r.IntN(most)
		itl := e.itl * (1 + e.slope*float64(beside)) * (0.95 + 0.1*r.Float64())
		e.Runs(e.now, beside+1)
		spent, output := e.Spent(e.now), 50+r.IntN(300)
		took := time.Duration(20e6 + itl*float64(output-1))
		e.now += int64(took + e.late)
		e.Learn(e.now, Served{Spent: spent, Took: took + e.late, TTFT: 20 * time.Millisecond,
			ITL: time.Duration(itl * e.says), Output: output})
		e.Runs(e.now, 0)
	}
}

func engines(slopes ...float64) (all []*engine) {
	var cs Classes[string]
	for _, s := range slopes {
		e := &engine{Agent: new(Agent), slope: s, itl: 9e6, says: 1}
		cs.Enter("llama", e.Agent)
		all = append(all, e)
	}
	return all
}

// within reports whether a slope is nearly the true one, as far as steps let it.
func within(got, want float64) bool { return got < want*1.25+0.002 && got > want/1.25-0.002 }

// An agent of a class is charged for what the others of it showed, before it has served anybody; one that is
// far from its class for what it showed itself.
func TestAClassSharesWhatOneShowed(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	all := engines(0.06, 0.06, 0.06, 0.06, 0.4)
	if got := all[0].Slope(); !within(got, priorSlope) {
		t.Errorf("of an engine that nobody measured %v is expected", got)
	}
	all[0].serve(r, 200, 8)
	for i, e := range all {
		if got := e.Slope(); !within(got, 0.06) {
			t.Errorf("engine %d of a class of which one showed 0.06: %v", i, got)
		}
	}
	for _, e := range all[1:] {
		e.serve(r, 200, 8)
	}
	all[0].serve(r, 50, 8)
	for i, e := range all {
		if got := e.Slope(); !within(got, e.slope) {
			t.Errorf("engine %d of slope %v: %v", i, e.slope, got)
		}
	}
	all[4].Leave()
	var cs Classes[string]
	cs.Enter("another", all[4].Agent)
	if got := all[4].Slope(); !within(got, 0.4) {
		t.Errorf("alone in a class: %v", got)
	}
}

// An agent that says that its tokens come faster than they do, or by load never slower, is charged as its
// answers take by the hub's clock; and one that lies, or is slow to say that it is done, moves nobody else's
// charges by more than what lies between an honest agent's and the prior's.
func TestALieAboutLoadGainsNothing(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, lie := range []engine{{says: 0.1}, {says: 0.5}, {says: 10}, {says: 1, late: 3 * time.Second}} {
		r := rand.New(rand.NewPCG(seed, 2))
		all := engines(0.1, 0.1, 0.1)
		liar := all[2]
		liar.says, liar.late = lie.says, lie.late
		for range 20 {
			for _, e := range all {
				e.serve(r, 20, 8)
			}
		}
		for i, e := range all[:2] {
			if got := e.Slope(); got < priorSlope/1.25 || got > 0.125 {
				t.Errorf("says %v, late %v: agent %d is charged by %v", lie.says, lie.late, i, got)
			}
		}
		if got := liar.Slope(); lie.late == 0 && !within(got, 0.1) {
			t.Errorf("says %v: it is charged by %v", lie.says, got)
		}
	}
}

// Whatever is said, charges begin at nothing, fall and are finite; and agents that are written down and read
// again go on as if nothing had been.
func TestWhateverIsSaid(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	long := func() time.Duration { return time.Duration(r.Uint64()) >> r.IntN(64) }
	for range 200 {
		var cs, others Classes[int]
		a, b := new(Agent), new(Agent)
		cs.Enter(1, a)
		others.Enter(1, b)
		now := int64(0)
		for i := range r.IntN(200) {
			now += int64(r.Uint64() >> (20 + r.IntN(44)))
			runs, s := r.IntN(300), Served{Spent: int64(long()), Took: long(), TTFT: long(), ITL: long(),
				Output: r.IntN(1 << r.IntN(20))}
			if i == 50 {
				data, err := learned.Append(nil, a)
				if err == nil {
					data, err = learned.Sealed(data)
				}
				var c Agent
				if err == nil {
					err = learned.Read(data, &c)
				}
				if err != nil || !c.Valid() {
					t.Fatalf("read: %v, valid: %v", err, c.Valid())
				}
				b.Leave()
				c.running, c.at, c.spent = b.running, b.at, b.spent
				*b = c
				others.Enter(1, b)
				a.Leave()
				cs.Enter(1, a) // which judges the class likewise
			}
			for _, x := range []*Agent{a, b} {
				x.Learn(now, s)
				x.Runs(now, runs)
			}
			tiers := a.Tiers(1+r.IntN(64), market.Credits(r.Int64N(int64(market.Credit)))<<r.IntN(6))
			if _, err := market.ValidateTiers(tiers); err != nil || tiers[0].Toll != 0 {
				t.Fatalf("%v: %v", tiers, err)
			}
			if i >= 50 && a.Slope() != b.Slope() {
				t.Fatalf("slope %v, and %v after it was read", a.Slope(), b.Slope())
			}
			if s := a.Slope(); !(s >= 0 && s <= 2*maxSlope) {
				t.Fatalf("slope %v", s)
			}
		}
	}
}

// Steps are four to a doubling, and what is near its step stays there.
func TestSteps(t *testing.T) {
	for x := 1.1e-4; x < 1e4; x *= 1.01 {
		s := stepped(x)
		if s > x*1.0906 || s < x/1.0906 {
			t.Fatalf("%v is stepped to %v", x, s)
		}
		if again := stepped(s); again != s {
			t.Fatalf("%v, a step, is stepped to %v", s, again)
		}
		if k := math.Log2(s) * 4; math.Abs(k-math.Round(k)) > 1e-9 {
			t.Fatalf("%v is no step", s)
		}
		if kept := keptAt(s, s*1.13); kept != s {
			t.Fatalf("%v near %v is %v", s*1.13, s, kept)
		}
		if moved := keptAt(s, s*1.2); moved == s {
			t.Fatalf("%v is still %v", s*1.2, s)
		}
	}
	if stepped(0) != 0 || stepped(-1) != 0 || stepped(math.NaN()) != 0 {
		t.Error("nothing is something")
	}
}
