package regime

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"souk/market"
)

// desk plays one hub in front of agents that serve so many tasks a second, each at once, and what waits.
type desk struct {
	w       *Watch
	now     time.Duration
	rng     *rand.Rand
	servers []time.Duration // when each has served what it has
	takes   time.Duration   // that a task keeps one
	idle    time.Duration   // to a first token there
	queue   []time.Duration // arrivals of tasks that wait
	next    time.Duration
}

func newDesk(seed uint64, servers int, takes, idle time.Duration) *desk {
	return &desk{w: NewWatch(DefaultControl()), rng: rand.New(rand.NewPCG(seed, 1)),
		servers: make([]time.Duration, servers), takes: takes, idle: idle, now: time.Hour, next: time.Hour}
}

// knee is how many tasks a second the desk serves at most.
func (d *desk) knee() float64 { return float64(len(d.servers)) / d.takes.Seconds() }

// play lets tasks come for some time at a rate, at random, and calls each after every reading.
func (d *desk) play(length time.Duration, rate float64, each func()) {
	for end := d.now + length; d.now < end; d.now += 10 * time.Millisecond {
		for d.next <= d.now {
			d.queue = append(d.queue, d.next)
			d.next += time.Duration(d.rng.ExpFloat64() / rate * 1e9)
		}
		for i := range d.servers {
			if d.servers[i] <= d.now && len(d.queue) > 0 {
				d.w.Served(d.now-d.queue[0]+d.idle, d.idle)
				d.w.Priced(0, 1000)
				d.servers[i], d.queue = d.now+d.takes, d.queue[1:]
			}
		}
		if d.w.Due(int64(d.now)) {
			for _, came := range d.queue {
				d.w.Waits(d.now-came, d.idle, 1)
			}
			d.w.Read(int64(d.now))
			each()
		}
	}
}

// Twice what can be served is seen within 15 s by the slowdown; by the others it is seen, too, where they can
// tell. What has begun does not end within 30 s.
func TestTwiceTheKneeIsSeen(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for i := range uint64(20) {
		d := newDesk(seed+i, 64, 2*time.Second, 50*time.Millisecond)
		d.play(2*time.Minute, 0.5*d.knee(), func() {})
		if s := d.w.State(); s != Below {
			t.Fatalf("%s at half of the knee", s)
		}
		began, seen := d.now, map[Signal]time.Duration{}
		note := func() {
			for s := range signals {
				if state, _ := d.w.Reading(s); state > Below && seen[s] == 0 {
					seen[s] = d.now - began
				}
			}
		}
		d.play(time.Minute, 2*d.knee(), note)
		for _, s := range []Signal{Slowdown, TTFT, Backlog} {
			if at, ok := seen[s]; !ok || at > 15*time.Second {
				t.Errorf("%s sees twice the knee after %v", s, at)
			}
		}
		d.queue = nil // all at once it is over
		over := d.now
		state, since := d.w.State(), over
		d.play(5*time.Minute, 0.2*d.knee(), func() {
			if s := d.w.State(); s != state {
				if s < state && d.now-since < stays {
					t.Errorf("%s is left after %v", state, d.now-since)
				}
				state, since = s, d.now
			}
		})
		if state != Below {
			t.Errorf("%s five minutes after it was over", state)
		}
	}
}

// No state changes in an hour at 0.8 of what can be served, with 128 slots: with 64 tasks wait for
// one now and then, many times as long as they would for a first token, and that is seen in two hours of
// three.
func TestNothingChangesBelowTheKnee(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for i := range uint64(2) {
		d := newDesk(seed+i, 128, 2*time.Second, 50*time.Millisecond)
		d.play(time.Hour, 0.8*d.knee(), func() {
			for s := range signals {
				if state, mean := d.w.Reading(s); state != Below {
					t.Fatalf("%s says %s at 0.8 of the knee, mean %.1f", s, state, mean)
				}
			}
		})
	}
}

// What is no number, or of a clock that went mad, is no reading.
func TestWhatIsNoReading(t *testing.T) {
	for _, theta := range thresholds {
		d := detector{theta: theta}
		for _, x := range []float64{math.NaN(), -1, math.Inf(-1)} {
			d.add(0, x)
			if d != (detector{theta: theta}) {
				t.Errorf("%v is taken for a reading", x)
			}
		}
		d.add(0, math.Inf(1))
		if !(d.mean <= most) {
			t.Errorf("mean %v", d.mean)
		}
	}
	w := NewWatch(DefaultControl())
	w.Due(0)
	for k := range int64(100) { // agents say nothing of first tokens
		for range 50 {
			w.Served(0, time.Second)
			w.Served(time.Second, 0)
			w.Served(-time.Second, time.Second)
			w.Priced(-1, -1)
		}
		w.Waits(0, 0, 1)
		w.Waits(-time.Hour, time.Second, 1)
		w.Read(k * int64(Every))
	}
	for _, s := range []Signal{Slowdown, TTFT, Price} {
		if state, mean := w.Reading(s); state != Below || mean > 1 {
			t.Errorf("%s says %s, mean %v, of nothing", s, state, mean)
		}
	}
}

// A hub that slept takes one reading, and of what was before none.
func TestAWatchThatSlept(t *testing.T) {
	w := NewWatch(DefaultControl())
	w.Due(0)
	for range 100 {
		w.Served(time.Hour, time.Millisecond)
	}
	w.Read(int64(24 * time.Hour))
	if s := w.State(); s != Below {
		t.Errorf("%s after one reading", s)
	}
	if w.Due(int64(24 * time.Hour)) {
		t.Error("it owes a reading for each five seconds that it slept")
	}
	for k := range int64(60) {
		w.Read(int64(24*time.Hour) + (k+1)*int64(Every))
	}
	if state, mean := w.Reading(Slowdown); state != Below || mean > 1.01 {
		t.Errorf("%s with mean %v a day later", state, mean)
	}
}

// Where few tasks end the window is doubled until it holds twenty, and holds a minute at most.
func TestTheWindowOfAReading(t *testing.T) {
	w := NewWatch(DefaultControl())
	w.Due(0)
	read := func() float64 {
		w.Read(w.next)
		return w.tests[Slowdown].mean
	}
	for range 19 {
		w.Served(time.Second, time.Second)
	}
	read()
	for range 30 {
		w.Served(10*time.Second, time.Second)
	}
	if got := read(); got < 3 { // 0.3*10 + 0.7*1, of thirty alone
		t.Errorf("mean %v: the interval before is read with one that has enough", got)
	}
	w = NewWatch(DefaultControl())
	w.Due(0)
	w.Served(100*time.Second, time.Second)
	for k := range 15 {
		before := w.tests[Slowdown].mean
		if got := read(); (got > before) != (k < intervals) {
			t.Errorf("reading %d: mean %v after %v: one task is read for a minute", k, got, before)
		}
	}
}

// A task that is turned away counts as long as the longest that waits.
func TestWhoIsTurnedAwayCounts(t *testing.T) {
	w := NewWatch(DefaultControl())
	w.Due(0)
	for range 1000 {
		w.Served(time.Second, time.Second)
	}
	w.Waits(50*time.Second, time.Second, 1)
	for range 100 {
		w.Turned()
	}
	w.Read(int64(Every))
	if _, mean := w.Reading(Slowdown); mean < 10 {
		t.Errorf("mean %v", mean)
	}
}

// Prices are read by the mean cost, whatever the unit.
func TestPricesByCost(t *testing.T) {
	for _, unit := range []market.Credits{1, 1000, market.Credit} {
		w := NewWatch(DefaultControl())
		w.Due(0)
		for k := range int64(3) {
			for range 100 {
				w.Priced(3*unit, unit)
			}
			w.Read((k + 1) * int64(Every))
		}
		if state, mean := w.Reading(Price); state != Transition || mean < 1.9 || mean > 2.1 {
			t.Errorf("%s, mean %v, where slots cost three times what tasks do", state, mean)
		}
	}
}

// A reading takes little, and allocates nothing once an hour has passed.
func BenchmarkRead(b *testing.B) {
	w := NewWatch(DefaultControl())
	now := int64(0)
	w.Due(now)
	one := func() {
		for i := range 256 {
			w.Served(time.Duration(i)*time.Millisecond, 50*time.Millisecond)
		}
		now += int64(Every)
		w.Read(now)
	}
	for range 2 * hour {
		one()
	}
	b.ReportAllocs()
	for b.Loop() {
		one()
	}
}
