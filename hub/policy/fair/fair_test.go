package fair

import (
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"souk/bus/policy"
)

var start = time.Unix(1_800_000_000, 0)

// town is clients whose tasks a test moves about.
type town struct {
	*Fair
	now time.Time
}

func (t *town) all(client policy.ID, n int, kinds ...policy.EventKind) {
	for range n {
		for _, k := range kinds {
			t.Observe(policy.Event{Kind: k, At: t.now, Client: client, Agent: 7})
		}
	}
}

func (t *town) held(client policy.ID, before, free int) bool {
	return t.Score(t.now, policy.Item{Kind: policy.Pair, Client: client, Before: before, Free: free}) ==
		policy.Hold
}

// While the slots are enough for all, nobody is held, however much one of them has.
func TestNobodyIsHeldBelowTheKnee(t *testing.T) {
	x := town{New(), start}
	x.all(1, 50, policy.Arrived, policy.Placed)
	x.all(2, 3, policy.Arrived, policy.Placed)
	x.all(1, 5, policy.Arrived)
	for before := range 5 {
		if x.held(1, before, 11) {
			t.Errorf("with 11 slots free task %d of 5 is held", before)
		}
	}
	if x.held(3, 0, 1) {
		t.Error("a client of whom nothing is known is held")
	}
}

// A client that wants more than there is has what the others leave, in one round as well; what these had of
// late is kept for them and goes to it by and by.
func TestAFloodHasWhatIsLeft(t *testing.T) {
	x := town{New(), start}
	x.all(2, 4, policy.Arrived, policy.Placed)
	x.all(3, 6, policy.Arrived, policy.Placed)
	x.all(1, 100, policy.Arrived)
	got := func(free int) (n int) {
		for before := range 100 {
			if !x.held(1, before, free) {
				n++
			}
		}
		return n
	}
	if n := got(10); n != 10 {
		t.Errorf("of 20 slots, 10 of them used by others, a flood gets %d", n)
	}
	x.all(2, 4, policy.Served)
	if n := got(14); n != 10 {
		t.Errorf("right after four of others have ended it gets %d, want the 10 as before", n)
	}
	x.now = x.now.Add(20 * time.Second)
	x.all(3, 1, policy.Arrived, policy.Placed)
	x.all(9, 1, policy.Arrived, policy.Failed)
	if n := got(13); n < 10 || n > 12 {
		t.Errorf("later it gets %d, want half of the four more", n)
	}
	// three floods have a third each
	y := town{New(), start}
	for c := range policy.ID(3) {
		y.all(1+c, 50, policy.Arrived)
	}
	for c := range policy.ID(3) {
		if y.held(1+c, 9, 30) || !y.held(1+c, 10, 30) {
			t.Errorf("client %d of three floods does not get 10 of 30 slots", 1+c)
		}
	}
}

// A task whose agent gave it up waits again, and counts as waiting until another has it or it ends.
func TestATaskThatMovesWaitsAgain(t *testing.T) {
	x := town{New(), start}
	x.all(1, 1, policy.Arrived, policy.Placed, policy.Failed, policy.Again)
	c := x.clients.Peek(1)
	if c.running != 0 || c.waiting != 1 {
		t.Errorf("while it waits %d of its tasks run and %d wait", c.running, c.waiting)
	}
	x.all(1, 1, policy.Placed)
	if c.running != 1 || c.waiting != 0 || x.running != 1 {
		t.Errorf("placed again %d run and %d wait", c.running, c.waiting)
	}
	x.all(1, 1, policy.Failed, policy.Again)
	x.Observe(policy.Event{Kind: policy.Failed, At: x.now, Client: 1}) // no agent had it any more
	if c.running != 0 || c.waiting != 0 {
		t.Errorf("after its end %d run and %d wait", c.running, c.waiting)
	}
}

// Whoever wants anything can have one slot at least, so nobody is held for ever.
func TestOneIsNeverHeld(t *testing.T) {
	x := town{New(), start}
	for c := range policy.ID(1000) {
		x.all(1+c, 3, policy.Arrived)
	}
	for c := range policy.ID(1000) {
		if x.held(1+c, 0, 1) {
			t.Fatalf("client %d has nothing and is held", 1+c)
		}
	}
}

// Nonsense does no harm: events twice, out of order, of the past and the future; a million clients are
// forgotten again, and of one there are 24 bytes.
func TestNonsense(t *testing.T) {
	if size := unsafe.Sizeof(client{}); size != 24 {
		t.Errorf("%d bytes a client", size)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	x := town{New(), start}
	for range 100_000 {
		x.Observe(policy.Event{Kind: policy.EventKind(rng.IntN(9)), Client: rng.Uint64N(1 << rng.IntN(40)),
			Agent: rng.Uint64N(2), At: start.Add(time.Duration(rng.Int64N(int64(time.Hour))))})
		if f := x.share(start.UnixNano(), 40); !(f >= 1 && f <= 40) {
			t.Fatalf("a share of %v of 40 slots", f)
		}
		if x.running < 0 || x.clients.Len() > mostClients {
			t.Fatalf("%d run, %d clients", x.running, x.clients.Len())
		}
	}
}

func BenchmarkScore(b *testing.B) {
	x := town{New(), start}
	for c := range policy.ID(500) {
		x.all(1+c, 3, policy.Arrived, policy.Placed)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		x.Score(start, policy.Item{Kind: policy.Pair, Client: 1 + policy.ID(i)%500, Free: 7})
	}
}

func BenchmarkObserve(b *testing.B) {
	x := town{New(), start}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		x.Observe(policy.Event{Kind: policy.EventKind(1 + i%3),
			At: start.Add(time.Duration(i) * time.Millisecond), Client: policy.ID(i/3) % 500, Agent: 1})
	}
}

// Of clients that were forgotten, as there were too many, nothing is taken to run for ever, and who comes
// back is reckoned with once.
func TestForgottenClientsRunNothing(t *testing.T) {
	f, at := New(), time.Unix(1e9, 0)
	tell := func(kind policy.EventKind, client policy.ID) {
		f.Observe(policy.Event{Kind: kind, At: at, Agent: 1, Client: client, Session: client})
	}
	const names = 3 * mostClients
	for _, kind := range []policy.EventKind{policy.Arrived, policy.Placed, policy.Served} {
		for client := range policy.ID(names) {
			tell(kind, client+1)
		}
	}
	at = at.Add(time.Hour)
	f.share(at.UnixNano(), 8)
	if f.running != 0 || f.clients.Len() > 0 {
		t.Errorf("%d run, and %d clients are known", f.running, f.clients.Len())
	}
	tell(policy.Arrived, 7)
	tell(policy.Placed, 7)
	if f.running != 1 {
		t.Errorf("%d run where one does", f.running)
	}
}

// What a client had fades while nothing happens: the others' share rises by time alone.
func TestSharesRiseByTimeAlone(t *testing.T) {
	x := town{New(), start}
	x.all(1, 6, policy.Arrived, policy.Placed)
	x.all(1, 6, policy.Served)
	x.all(2, 10, policy.Arrived)
	x.all(2, 4, policy.Placed)
	for _, c := range []struct {
		after time.Duration
		want  float64
	}{{0, policy.Hold}, {10 * time.Second, policy.Hold}, {25 * time.Second, 0}} {
		got := x.Score(start.Add(c.after), policy.Item{Kind: policy.Pair, Client: 2, Free: 4})
		if got != c.want {
			t.Errorf("of the fifth of eight slots, %v later: %v, want %v", c.after, got, c.want)
		}
	}
}
