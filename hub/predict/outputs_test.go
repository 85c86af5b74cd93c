package predict

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// An answer is expected to be as long as those of its session were, and where that has few, as those of its
// client's role, then of the hub.
func TestOutputsByWhoseTheyAre(t *testing.T) {
	o := NewOutputs(trees)
	s := Source{Client: "ann", Role: "coder", Session: 7}
	expects := func(why string, s Source, least, most int) {
		t.Helper()
		if got := o.Expect(s, 400); got < least || got > most {
			t.Errorf("%s: %d tokens, want %d to %d", why, got, least, most)
		}
	}
	expects("nothing was seen", s, 400, 400)
	for range 100 {
		o.Learn(s, 50, 400)
		o.Learn(Source{Client: "ann", Role: "writer"}, 900, 400)
		o.Learn(Source{Client: "bob"}, 200, 400)
		o.Learn(Source{Client: "cat", Session: 7}, 10, 400)
	}
	expects("its session", s, 50, 52)
	s.Session = 8
	expects("another of the role", s, 50, 70)
	s.Role = "writer"
	expects("another role", s, 850, 900)
	expects("another client", Source{Client: "dan"}, 225, 320)
	o.Learn(Source{Client: "dan", Session: 1}, 500, 400)
	expects("one answer, which may be chance", Source{Client: "dan", Session: 1}, 250, 400)
}

// What newcomers' answers are expected to be is the mean of clients, not of answers: one of whom there are
// hundreds of long ones counts like the others.
func TestAClientCountsOnce(t *testing.T) {
	o := NewOutputs(trees)
	for range 200 {
		o.Learn(Source{Client: "bob"}, 2000, 400)
	}
	for i := range 5 {
		for c := range 10 {
			o.Learn(Source{Client: fmt.Sprint("c", c),
				Session: uint64(1 + i)}, 50, 400)
		}
	}
	for range 200 {
		o.Learn(Source{Client: "bob"}, 2000, 400)
	}
	if got := o.Expect(Source{Client: "new"}, 400); got > 400 {
		t.Errorf("ten clients' answers have 50 tokens, one's have 2000: of a newcomer %d are expected", got)
	}
	if got := o.Expect(Source{Client: "bob"}, 400); got < 1900 {
		t.Errorf("of bob, whose answers have 2000 tokens, %d are expected", got)
	}
}

// An answer whose length goes with what is asked is expected so, once there is evidence; and none is expected
// to be longer than it may be.
func TestALengthThatGoesWithThePrompt(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 9))
	o := NewOutputs(trees)
	task := func() (Source, int) {
		s := Source{Client: fmt.Sprint("c", r.IntN(20)), Prompt: 100 + r.IntN(4000), Most: 2048}
		if s.Prompt < 1500 {
			return s, 380 + r.IntN(40)
		}
		return s, 40 + r.IntN(20)
	}
	for range 3000 {
		s, n := task()
		o.Learn(s, n, 400)
	}
	open := o.rest.Open()
	off, long := 0.0, 0
	for range 500 {
		s, n := task()
		off += math.Abs(float64(o.Expect(s, 400)-n)) / 500
		if s.Most = 30; o.Expect(s, 400) > 30 {
			long++
		}
	}
	if !open || off > 60 || long > 0 {
		t.Errorf("open %v, off by %.0f tokens, %d of 500 longer than they may be", open, off, long)
	}
}

// A client with any number of sessions or roles costs no memory beyond a bound, and no other client
// what is known of it.
func TestAClientWithManySessions(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	o := NewOutputs(trees)
	quiet := Source{Client: "ann", Session: 1}
	for range 20 {
		o.Learn(quiet, 33, 400)
	}
	for i := range 100_000 {
		o.Learn(Source{Client: "bob", Role: fmt.Sprint(i), Session: uint64(1 + i)}, 1000, 400)
	}
	if got := o.Expect(quiet, 400); got < 33 || got > 250 {
		t.Errorf("ann's session is expected to answer %d tokens", got)
	}
	if s, r := o.sessions.Len(), o.roles.Len(); s != sessionsEach+1 || r != rolesEach+1 {
		t.Errorf("kept are %d sessions, %d roles", s, r)
	}
	for i := range 2 * clientsKept {
		o.Learn(Source{Client: fmt.Sprint("c", i), Session: 9}, 10, 400)
		o.Learn(Source{Client: fmt.Sprint("c", i), Session: 10}, 10, 400)
	}
	if c, s := o.clients.Len(), o.sessions.Len(); c != clientsKept || s > 2*c {
		t.Errorf("%d clients and %d sessions", c, s)
	}
}

// The time between tokens grows with the tasks that decode and the tokens that they hold, and is learned.
func TestTheTimeBetweenTokens(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 6))
	m := NewMeans()
	if got := m.Token(Load{Decoding: 3}); got != 0 {
		t.Errorf("%v before any was measured", got)
	}
	token := func(l Load) time.Duration {
		return 9*time.Millisecond + time.Duration(l.Decoding)*400*time.Microsecond +
			time.Duration(l.Resident)*100*time.Nanosecond
	}
	for range 300 {
		l := Load{Left: time.Duration(r.Int64N(1e9)), Decoding: r.IntN(16)}
		l.Resident = l.Decoding * r.IntN(4000)
		itl := time.Duration(float64(token(l)) * (0.95 + 0.1*r.Float64()))
		m.Learn(Features{Load: l}, Observation{ITL: itl})
	}
	for _, l := range []Load{{}, {Decoding: 8, Resident: 8000}, {Decoding: 15, Resident: 45000}} {
		near(t, fmt.Sprint(l), m.Token(l), token(l), 0.05)
	}
}

// A client whose roles change is known by those that it has now, however many it had; and one role of many
// answers keeps its place where the others are asked for once each.
func TestAClientWhoseRolesChange(t *testing.T) {
	o := NewOutputs(trees)
	long, short := Source{Client: "ann", Role: "writer"}, Source{Client: "ann", Role: "judge"}
	says := func(when string) {
		t.Helper()
		if l, s := o.Expect(long, 400), o.Expect(short, 400); l < 700 || s > 100 {
			t.Errorf("%s: %d tokens of answers of 800, %d of answers of 10", when, l, s)
		}
	}
	for i := range 40 * rolesEach {
		o.Learn(Source{Client: "ann", Role: fmt.Sprint("old-", i%rolesEach)}, 200, 400)
	}
	for range 1000 {
		o.Learn(long, 800, 400)
		o.Learn(short, 10, 400)
	}
	says("after a thousand answers of two new roles")
	for i := range 5000 {
		o.Learn(Source{Client: "ann", Role: fmt.Sprint("once-", i)}, 200, 400)
		if i%4 == 0 {
			o.Learn(long, 800, 400)
			o.Learn(short, 10, 400)
		}
	}
	says("beside five thousand that came once")
	if n := o.roles.Len(); n != rolesEach {
		t.Errorf("%d roles are kept", n)
	}
}
