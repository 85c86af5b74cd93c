package seat

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestExp(t *testing.T) {
	for x := -650.0; x <= 650; x += 0.37 {
		if got, want := Exp(x), math.Exp(x); math.Abs(got-want) > 1e-11*want {
			t.Errorf("Exp(%v) = %v, want %v", x, got, want)
		}
	}
}

// Sessions of one class come back after ten seconds, those of another never: one is worth its seat for as
// long as it may still come, the other for no time at all.
func TestIndexLearnsWhoComesBack(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	var x Index
	back, never := class(4, 2), class(1, 0)
	if got := x.of(back, time.Second); got != 0.5 {
		t.Errorf("before anything was seen the index of one idle for 1s is %v, want 0.5", got)
	}
	for range 2000 {
		pause := time.Duration(10e9 * math.Exp(0.2*random.NormFloat64()))
		x.waited(back, 0, pause)
		x.returned(back, pause)
		x.waited(never, 0, 10*time.Minute)
	}
	if early, late := x.of(back, 0), x.of(back, 8*time.Second); late <= early || early < 0.05 || early > 0.2 {
		t.Errorf("idle for 0s %v and for 8s %v: want some 0.1, and more the nearer its return", early, late)
	}
	if got, want := x.of(never, 0), x.of(back, 0)/20; got > want {
		t.Errorf("one that never comes back has %v, want at most %v", got, want)
	}
	if got := x.of(back, time.Hour); got > x.of(back, 0)/20 {
		t.Errorf("an hour late its index is still %v", got)
	}
	if x.gone(back, 12*time.Second) || !x.gone(back, time.Hour) {
		t.Errorf("a seat is to be kept for 12s and not for an hour: gone after %v", x.leaves[back])
	}
}

// A few sessions go on at once, as agents do that call a tool which takes no time; most come back after half
// a minute. Their seats are kept until then: who goes on at once makes nobody else seem worth nothing.
func TestAFewWhoGoOnAtOnce(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 5))
	var x Index
	for i := range 2000 {
		pause := time.Duration(30e9 * math.Exp(0.5*random.NormFloat64()))
		if i%20 == 0 {
			pause = time.Millisecond
		}
		c := class(uint8(1+random.IntN(9)), uint8(1+random.IntN(4)))
		x.waited(c, 0, pause)
		x.returned(c, pause)
	}
	for c := range classes {
		if x.gone(c, 20*time.Second) {
			t.Fatalf("class %d has lost its seat after 20s: %v", c, x.leaves[c])
		}
	}
	if !x.gone(class(1, 0), 20*time.Minute) {
		t.Error("one that has been away for 20 minutes has its seat yet")
	}
}

// What a session waits counts once, however often it is looked at in between.
func TestExposureCountsOnce(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 2))
	for range 200 {
		var whole, parts Index
		age := time.Duration(math.Exp(random.Float64()*16) * 1e6)
		whole.waited(3, 0, age)
		from := time.Duration(0)
		for range 5 {
			to := from + time.Duration(random.Float64()*float64(age-from))
			parts.waited(3, from, to)
			from = to
		}
		parts.waited(3, from, age)
		for b := range bins {
			if a, b := whole.exposure[3][b], parts.exposure[3][b]; math.Abs(a-b) > 1e-6*(1+a) {
				t.Fatalf("age %v: at once %v, in parts %v", age, a, b)
			}
		}
	}
}

// What was seen long ago counts less.
func TestIndexForgets(t *testing.T) {
	var x Index
	for range halveEvery - 1 {
		x.returned(0, time.Second)
	}
	before := x.events[0][binOf(time.Second)]
	x.returned(0, time.Second)
	if after := x.events[0][binOf(time.Second)]; after != (before+1)/2 {
		t.Errorf("of %v events %v are left after one more", before, after)
	}
}

func TestFreedInTheLastMinute(t *testing.T) {
	var f Freed
	f.Add(100*time.Second, 3)
	f.Add(130*time.Second, 4)
	for _, c := range []struct {
		at   time.Duration
		want int
	}{{130, 7}, {159, 7}, {160, 4}, {189, 4}, {190, 0}, {1000, 0}} {
		if got := f.Count(c.at * time.Second); got != c.want {
			t.Errorf("at %d s: %d, want %d", c.at, got, c.want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	for lot := range uint64(1000) {
		d := RetryAfter(120, 60, lot*0x9e3779b97f4a7c15)
		if want := 120 * time.Second; d < want*3/4 || d > want*5/4 {
			t.Fatalf("120 ahead, 1 seat a second: %v", d)
		}
		if d := RetryAfter(5, 0, lot); d < 450*time.Second || d > 750*time.Second {
			t.Fatalf("no seat came free: %v, want ten minutes or so", d)
		}
		if d := RetryAfter(0, 100, lot); d < 750*time.Millisecond {
			t.Fatalf("nobody ahead: %v, want a second or so", d)
		}
	}
	if RetryAfter(120, 60, 1) == RetryAfter(120, 60, 1e9) {
		t.Error("those who are refused together come back together")
	}
}

// The bin of an age is the first that ends after it.
func TestBinOf(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	ages := []time.Duration{-1, 0, 1, math.MaxInt64, math.MinInt64}
	for _, e := range edges {
		ages = append(ages, e-1, e, e+1)
	}
	for range 10_000 {
		ages = append(ages, time.Duration(rng.Int64()>>rng.IntN(63)))
	}
	for _, age := range ages {
		want := 0
		for want < bins && edges[want] <= age {
			want++
		}
		if got := binOf(age); got != want {
			t.Fatalf("seed %d: %v is in bin %d, want %d", seed, age, got, want)
		}
	}
}

// of is the index of a session of a class that has been idle for so long.
func (x *Index) of(class int, idle time.Duration) float64 {
	if !x.known() {
		return 1 / (1 + idle.Seconds())
	}
	b := binOf(idle)
	if b == bins {
		return 0
	}
	return x.best[class][b]
}
