package regime

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// desk plays one hub in front of agents that serve so many tasks a second, each at once, and what waits.
type desk struct {
	w       *Watch
	now     time.Duration
	rng     *rand.Rand
	servers []time.Duration // when each has served what it has
	takes   time.Duration   // that a task keeps one
	idle    time.Duration   // to a first token there
	varied  bool            // some tasks keep one for much longer than others
	queue   []time.Duration // arrivals of tasks that wait
	next    time.Duration
}

func newDesk(seed uint64, servers int, takes, idle time.Duration) *desk {
	return &desk{w: NewWatch(), rng: rand.New(rand.NewPCG(seed, 1)),
		servers: make([]time.Duration, servers), takes: takes, idle: idle, now: time.Hour, next: time.Hour}
}

// knee returns the tasks a second that the desk serves at most.
func (d *desk) knee() float64 { return float64(len(d.servers)) / d.takes.Seconds() }

// play lets tasks come for some time at a rate, at random, and calls each after every reading.
func (d *desk) play(length time.Duration, rate float64, each func()) {
	for end := d.now + length; d.now < end; d.now += 10 * time.Millisecond {
		for d.next <= d.now {
			d.queue = append(d.queue, d.next)
			d.w.Came(int64(d.next))
			d.next += time.Duration(d.rng.ExpFloat64() / rate * 1e9)
		}
		for i := range d.servers {
			if d.servers[i] <= d.now && len(d.queue) > 0 {
				takes := d.takes
				if d.varied { // twice what is usual, or next to nothing
					takes = time.Duration(float64(takes) * min(10, d.rng.ExpFloat64()))
				}
				d.w.Served(d.now-d.queue[0], d.idle, d.idle)
				d.w.Ended(takes)
				d.servers[i], d.queue = d.now+takes, d.queue[1:]
			}
		}
		if d.w.Due(int64(d.now)) {
			d.w.Room(int64(d.now), len(d.servers))
			for _, came := range d.queue {
				d.w.Waits(d.now-came, 0, d.idle, 1)
			}
			d.w.Read(int64(d.now))
			each()
		}
	}
}

// fleets serve eight tasks a second or more: of fewer too few come within 15 s to tell that they are twice as
// many.
var fleets = []struct {
	slots  int
	takes  time.Duration
	varied bool
}{{16, 2 * time.Second, false}, {16, 2 * time.Second, true}, {64, 2 * time.Second, false},
	{64, 8 * time.Second, false}, {128, 2 * time.Second, false}}

// Twice what can be served is seen within 15 s. What has begun does not end within 30 s.
func TestTwiceTheKneeIsSeen(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, f := range fleets {
		late := 0
		for i := range uint64(60) {
			d := newDesk(seed+i, f.slots, f.takes, 50*time.Millisecond)
			d.varied = f.varied
			// it begins anywhere between two readings
			d.play(2*time.Minute+time.Duration(i)*Every/60, 0.5*d.knee(), func() {})
			if s := d.w.State(); s != Below {
				t.Fatalf("%+v: %s at half of the knee", f, s)
			}
			began, seen := d.now, time.Hour
			d.play(time.Minute, 2*d.knee(), func() {
				if d.w.State() > Below {
					seen = min(seen, d.now-began)
				}
			})
			if seen > 15*time.Second {
				late++
			}
			d.queue = nil // all at once it is over
			over := d.now
			state, since := d.w.State(), over
			d.play(5*time.Minute, 0.2*d.knee(), func() {
				if s := d.w.State(); s != state {
					if s < state && d.now-since < stays {
						t.Errorf("%+v: %s is left after %v", f, state, d.now-since)
					}
					state, since = s, d.now
				}
			})
			if state != Below {
				t.Errorf("%+v: %s five minutes after it was over", f, state)
			}
		}
		if late > 3 { // one in twenty; of thousands one in two hundred was
			t.Errorf("%+v: of 60 times twice the knee was not seen within 15 s %d times", f, late)
		}
	}
}

// A state ends when the mean was under four fifths of its threshold at six readings in a row, and 30 s after
// it began at the soonest; a mean just under the threshold keeps it. It begins with the second reading in a
// row that is above, where the mean is as well.
func TestAStateEndsLate(t *testing.T) {
	const high, low, just = 1000, 0, 4.5
	var d detector
	now := int64(0)
	play := func(readings ...float64) {
		for _, r := range readings {
			now += int64(Every)
			d.add(now, [tracks]float64{r, r}, false, false)
		}
	}
	anew := func() {
		d = detector{}
		now = 0
		if play(6, 6); d.state != Below {
			t.Fatal("two readings above are a regime, and their mean is below")
		}
		d = detector{}
		play(20)
		if d.state != Below {
			t.Fatal("one reading above is a regime")
		}
		if play(20); d.state != Transition {
			t.Fatalf("two readings above are %v", d.state)
		}
	}
	for _, c := range []struct {
		name     string
		readings []float64
		want     State
	}{
		{"ten just under the threshold", []float64{just, just, just, just, just, just, just, just, just, just},
			Transition},
		{"five under", []float64{low, low, low, low, low}, Transition},
	} {
		anew()
		for range 30 { // the mean comes down to just under the threshold
			play(just)
		}
		if play(c.readings...); d.state != c.want {
			t.Errorf("%s: %v, want %v", c.name, d.state, c.want)
		}
	}
	anew()
	for d.mean() >= margin*thresholds[0] {
		play(low)
	}
	began := d.since
	for d.state == Transition {
		if play(low); now > began+int64(time.Hour) {
			t.Fatal("a state that never ends")
		}
	}
	if stayed := time.Duration(now - began); stayed < 30*time.Second {
		t.Errorf("it ended after %v", stayed)
	}
	for d = (detector{}); d.state == Below; { // and straight from above to nothing
		play(high)
	}
	began = now
	for i := range d.tracks { // as if all that was, was forgotten at once
		d.tracks[i].mean = 0
	}
	for d.state == Transition {
		play(low)
	}
	if stayed := time.Duration(now - began); stayed < 30*time.Second {
		t.Errorf("it ended after %v, where all was quiet at once", stayed)
	}
}

// No state changes in an hour at 0.8 of what can be served, however long tasks wait by chance.
func TestNothingChangesBelowTheKnee(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	changed := 0
	for _, f := range append(fleets, fleets...) {
		seed++
		d := newDesk(seed, f.slots, f.takes, 50*time.Millisecond)
		d.varied = f.varied
		first := ""
		d.play(time.Hour, 0.8*d.knee(), func() {
			if s := d.w.State(); s != Below && first == "" {
				first = fmt.Sprintf("%+v: %s after %v, mean %.1f", f, s, d.now-time.Hour, d.w.Mean())
			}
		})
		if first != "" {
			changed++
			t.Log(first)
		}
	}
	if changed > 1 { // of hundreds none had one
		t.Errorf("in %d of %d hours at 0.8 of the knee a state changed", changed, 2*len(fleets))
	}
}

// One burst is no regime, nor are tasks that wait because what they need most is short: as much as can be
// served comes all the time, and evidence for more is soon gone.
func TestEvidenceIsSoonGone(t *testing.T) {
	w := NewWatch()
	w.Due(0)
	read := func(came int, waited time.Duration) {
		for i := range came {
			w.Came(w.next - int64(Every) + int64(i)*int64(Every)/int64(came))
			w.Ended(2 * time.Second)
			w.Served(0, 50*time.Millisecond, 50*time.Millisecond)
		}
		w.Room(w.next, 16)
		w.Waits(waited, 0, 50*time.Millisecond, 10)
		w.Read(w.next)
	}
	for range 20 {
		read(32, 500*time.Millisecond)
	}
	if mean := w.Mean(); mean > 1.2 {
		t.Fatalf("waits of half a second count, where chance makes them: mean %.1f", mean)
	}
	read(90, 2*time.Second)
	if mean := w.Mean(); mean < 5 {
		t.Errorf("mean %.1f: who waits does not count, where more comes than is served", mean)
	}
	for range 5 {
		read(32, 500*time.Millisecond)
	}
	if s := w.State(); s != Below {
		t.Errorf("%s after one burst", s)
	}
	for range 2 { // longer than chance has anyone wait
		read(32, 20*time.Second)
	}
	if s := w.State(); s != Transition {
		t.Errorf("%s where ten tasks wait for half a minute", s)
	}
}

// The share of tasks that find no slot is Erlang's, and chance explains longer waits where slots are fewer
// and tasks longer.
func TestWhatChanceExplains(t *testing.T) {
	for slots, want := range map[int]float64{1: 0.8, 2: 0.7111, 16: 0.3049, 64: 0.0561} {
		if got := without(slots); math.Abs(got-want) > 0.001 {
			t.Errorf("%d slots: %.4f find none, want %.4f", slots, got, want)
		}
	}
	forgiven := func(slots int, takes time.Duration) time.Duration {
		w := NewWatch()
		w.Due(0)
		w.Came(1)
		w.Ended(takes)
		w.Room(int64(Every), slots)
		return w.capacity.forgiven
	}
	a, b, c := forgiven(16, 2*time.Second), forgiven(64, 2*time.Second), forgiven(16, 4*time.Second)
	if a <= b || c <= a || forgiven(1<<20, time.Hour) != 0 {
		t.Errorf("forgiven: %v by 16 slots, %v by 64, %v of tasks twice as long", a, b, c)
	}
}

// An idle agent is not taken to answer faster than the fastest answer of the last half hour.
func TestAQuoteThatIsTooShort(t *testing.T) {
	w := NewWatch()
	w.Due(0)
	for k := range int64(2 * hour) {
		w.Room(k*int64(Every), 8)
		for range 30 { // 30 ms alone; said to take 10, and 90 beside others
			w.Served(0, 90*time.Millisecond, 10*time.Millisecond)
		}
		w.Served(0, 30*time.Millisecond, 10*time.Millisecond)
		w.Read(w.next)
	}
	if mean := w.Mean(); mean < 2.8 || mean > 3.3 {
		t.Errorf("mean %.1f: three times what is fastest", mean)
	}
	if got := w.capacity.idle(time.Millisecond); got != 8*time.Millisecond {
		t.Errorf("a quote of 1 ms is taken for %v", got)
	}
	for k := range int64(2 * hour) { // from now on
		w.Room((k+2*int64(hour))*int64(Every), 8)
		w.Served(0, 90*time.Millisecond, 20*time.Millisecond)
		w.Read(w.next)
	}
	if got := w.capacity.idle(20 * time.Millisecond); got != 90*time.Millisecond {
		t.Errorf("%v, an hour after the last answer in 30 ms", got)
	}
}

// Who gives up soon does not hide that others wait.
func TestWhoGivesUpSoon(t *testing.T) {
	w := NewWatch()
	w.Due(0)
	for range 10_000 {
		w.Missed(time.Millisecond, time.Second, 1)
	}
	for range 10 {
		w.Served(0, time.Second, time.Second)
	}
	w.Room(int64(Every), 8)
	w.Waits(100*time.Second, 0, time.Second, 10)
	w.Read(int64(Every))
	if mean := w.Mean(); mean < 25 {
		t.Errorf("mean %.1f: tasks that nobody waits for make it small", mean)
	}
}

// What is no number, or of a clock that went mad, is no reading.
func TestWhatIsNoReading(t *testing.T) {
	var d detector
	for _, x := range []float64{math.NaN(), -1, math.Inf(-1)} {
		d.add(0, [tracks]float64{x, x}, false, false)
		if d != (detector{}) {
			t.Errorf("%v is taken for a reading", x)
		}
	}
	d.add(0, [tracks]float64{math.Inf(1), math.Inf(1)}, false, false)
	if !(d.mean() <= most) {
		t.Errorf("mean %v", d.mean())
	}
	w := NewWatch()
	w.Due(0)
	for k := range int64(100) { // agents say nothing of first tokens
		for range 50 {
			w.Served(0, 0, time.Second)
			w.Served(0, time.Second, 0)
			w.Served(0, -time.Second, time.Second)
		}
		w.Waits(0, 0, 0, 1)
		w.Waits(-time.Hour, 0, time.Second, 1)
		w.Read(k * int64(Every))
	}
	if state, mean := w.State(), w.Mean(); state != Below || mean > 1 {
		t.Errorf("%s, mean %v, of nothing", state, mean)
	}
}

// A hub that slept takes one reading, and of what was before none.
func TestAWatchThatSlept(t *testing.T) {
	w := NewWatch()
	w.Due(0)
	for range 100 {
		w.Served(0, time.Hour, time.Millisecond)
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
	if state, mean := w.State(), w.Mean(); state != Below || mean > 1.01 {
		t.Errorf("%s with mean %v a day later", state, mean)
	}
}

// Where few tasks end the window is doubled until it holds twenty, and holds a minute at most.
func TestTheWindowOfAReading(t *testing.T) {
	w := NewWatch()
	w.Due(0)
	read := func() float64 {
		w.Read(w.next)
		return w.Mean()
	}
	for range 19 {
		w.Served(0, time.Second, time.Second)
	}
	read()
	for range 30 {
		w.Served(0, 10*time.Second, time.Second)
	}
	if got := read(); got < 3 { // 0.3*10 + 0.7*1, of thirty alone
		t.Errorf("mean %v: the interval before is read with one that has enough", got)
	}
	w = NewWatch()
	w.Due(0)
	w.Served(0, 100*time.Second, time.Second)
	for k := range 15 {
		before := w.Mean()
		if got := read(); (got > before) != (k < intervals) {
			t.Errorf("reading %d: mean %v after %v: one task is read for a minute", k, got, before)
		}
	}
}

// A task that is turned away counts as long as the longest that waits.
func TestWhoIsTurnedAwayCounts(t *testing.T) {
	w := NewWatch()
	w.Due(0)
	for range 1000 {
		w.Served(0, time.Second, time.Second)
	}
	w.Waits(50*time.Second, 0, time.Second, 1)
	for range 100 {
		w.Turned()
	}
	w.Read(int64(Every))
	if mean := w.Mean(); mean < 10 {
		t.Errorf("mean %v", mean)
	}
}

// A reading takes little, and allocates nothing.
func BenchmarkRead(b *testing.B) {
	w := NewWatch()
	now := int64(0)
	w.Due(now)
	one := func() {
		for i := range 256 {
			w.Served(0, time.Duration(i)*time.Millisecond, 50*time.Millisecond)
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
