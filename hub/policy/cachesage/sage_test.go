package cachesage

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"souk/bus/policy"
)

var start = time.Unix(1_800_000_000, 0)

// walk has one session run some roles, a second each, with a pause of a tenth of it.
func walk(s *Sage, now time.Time, session policy.ID, run ...policy.ID) time.Time {
	for _, r := range run {
		s.Observe(policy.Event{Kind: policy.Arrived, At: now, Client: 1, Session: session, Role: r})
		now = now.Add(time.Second)
		s.Observe(policy.Event{Kind: policy.Served, At: now, Client: 1, Session: session, Role: r})
		now = now.Add(100 * time.Millisecond)
	}
	return now
}

// The chances of a return are those of the sum over all ways to get there.
func TestReturnsAgainstAllWays(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	s := New(Params{}, 100)
	now := start
	const n = 5
	for i := range policy.ID(200) {
		var run []policy.ID
		for range 2 + rng.IntN(6) {
			run = append(run, 10+rng.Uint64N(n)*rng.Uint64N(2)+rng.Uint64N(n)/4)
		}
		now = walk(s, now, 100+i, run...)
	}
	s.anew()
	var p [roles][roles]float64
	for a := 1; a < endOf; a++ {
		if s.ids[a] == 0 {
			continue
		}
		for b := 1; b < endOf; b++ {
			if s.ids[b] != 0 {
				p[a][b] = s.one(uint8(a), uint8(b))
			}
		}
	}
	var ways func(a, b, steps int) float64
	ways = func(a, b, steps int) float64 {
		sum := 0.0
		for y := 1; steps > 0 && y < endOf; y++ {
			switch {
			case p[a][y] == 0:
			case y == b:
				sum += p[a][y]
			default:
				sum += p[a][y] * s.laterBy(uint8(y)) * ways(y, b, steps-1)
			}
		}
		return sum
	}
	checked := 0
	for a := 1; a < endOf; a++ {
		for b := 1; b < endOf && s.ids[a] != 0; b++ {
			if s.ids[b] == 0 {
				continue
			}
			if got, want := s.chance(uint8(a), uint8(b)), ways(a, b, horizon); math.Abs(got-want) > 1e-4 {
				t.Errorf("from %d to %d: %.5f, want %.5f", a, b, got, want)
			}
			checked++
		}
	}
	if checked < 4 {
		t.Errorf("%d pairs of roles", checked)
	}
}

// What follows by the last two roles is told from what follows by one: after a, b comes c, and after x, b
// comes y.
func TestTwoRolesTellMore(t *testing.T) {
	s, now := New(Params{}, 1000), start
	for i := range policy.ID(100) {
		now = walk(s, now, 1000+2*i, 1, 2, 3, 1, 2, 3)
		now = walk(s, now, 1001+2*i, 4, 2, 5, 4, 2, 5)
	}
	three, five := 0.0, 0.0
	for _, c := range []struct{ session, before, next policy.ID }{{7, 1, 3}, {8, 4, 5}} {
		now = walk(s, now, c.session, c.before, 2)
		if c.session == 7 {
			three, five = s.Tail(now, 7, 3), s.Tail(now, 7, 5)
		}
		f := s.Predict(now, c.session, nil)
		if len(f) == 0 || f[0].Role != c.next || f[0].P < 0.5 {
			t.Errorf("of session %d comes %+v, want role %d", c.session, f, c.next)
		}
	}
	if three < 2*five {
		t.Errorf("the text of the role that comes is worth %.3f, of one that may not %.3f", three, five)
	}
}

// Who has ended is worth nothing, whether it said so or stays away for longer than anybody; and the anchor of
// a role that many sessions come to is worth more than that of one that none does.
func TestTheDeadAreWorthNothing(t *testing.T) {
	s, now := New(Params{}, 1000), start
	for i := range policy.ID(200) {
		now = walk(s, now, 1000+i, 1, 2, 1, 2)
	}
	now = walk(s, now, 8, 1, 2, 9)
	now = walk(s, now, 7, 1, 2)
	if got := s.Tail(now, 7, 1); got < 0.3 {
		t.Errorf("of one that is about to go on: %.3f", got)
	}
	s.Observe(policy.Event{Kind: policy.Ended, At: now, Session: 7})
	if got := s.Tail(now, 7, 1); got != 0 {
		t.Errorf("of one that has ended: %.3f", got)
	}
	if got := s.Tail(now.Add(time.Hour), 8, 1); got > 0.02 {
		t.Errorf("of one that stays away: %.3f", got)
	}
	now = walk(s, now, 9, 1)
	if one, nine := s.Anchor(1), s.Anchor(9); one < 5*nine || one > 1 {
		t.Errorf("an anchor that is used all the time %.3f, one that never is %.3f", one, nine)
	}
}

// Nonsense does no harm: events twice, out of order, of the future, of nobody; a million sessions and roles
// of one client make no role of another's be forgotten, and memory stays what it is.
func TestNonsenseAndAFlood(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	s, now := New(Params{}, 500), start
	for i := range policy.ID(20) {
		now = walk(s, now, 50+i, 1, 2, 1, 2)
	}
	if size := unsafe.Sizeof(*s) + 14_000; size > 64<<10 {
		t.Errorf("%d bytes beside the sessions, and what survives of them", size)
	}
	for range 300_000 {
		e := policy.Event{Kind: policy.EventKind(rng.IntN(9)), Client: 2, Session: 1000 + rng.Uint64N(1<<40),
			Role: 100 + rng.Uint64N(1<<40), Tool: rng.Uint64(), Claimed: time.Duration(rng.Int64()),
			At: now.Add(time.Duration(rng.Int64N(int64(time.Hour))) - 30*time.Minute)}
		if rng.IntN(2) == 0 {
			e.Session, e.Role = 1000+rng.Uint64N(600), 100+rng.Uint64N(9)
		}
		s.Observe(e)
	}
	if s.index(1, 1, false) == 0 || s.index(1, 2, false) == 0 {
		t.Error("another client's roles are forgotten")
	}
	if s.sessions.Len() > 500 {
		t.Errorf("%d sessions", s.sessions.Len())
	}
	for i := range policy.ID(2000) {
		for _, p := range []float64{s.Tail(now, 1000+i%600, 100+i%9), s.Anchor(100 + i%9)} {
			if !(p >= 0 && p <= 1) {
				t.Fatalf("a chance of %v", p)
			}
		}
	}
}

// The same events make the same scores on every machine.
func TestSameScoresOnEveryMachine(t *testing.T) {
	const want = "8305601d1f02ad1af19b725fcb3ffa584f3062a1e915a2cbf58dc9651f4304ef"
	rng := rand.New(rand.NewPCG(20, 29))
	s, now, h := New(Params{}, 300), start, sha256.New()
	for range 20_000 {
		session := 1 + rng.Uint64N(400)
		now = walk(s, now.Add(time.Duration(rng.Int64N(int64(time.Second)))), session,
			1+rng.Uint64N(12)*(session%3))
		if rng.IntN(9) == 0 {
			s.Observe(policy.Event{Kind: policy.Ended, At: now, Session: 1 + rng.Uint64N(400)})
		}
		p := s.Score(now, policy.Item{Kind: policy.Tail, Session: 1 + rng.Uint64N(400),
			Role:   1 + rng.Uint64N(24),
			Tokens: 160}, 1000) +
			s.Score(now, policy.Item{Kind: policy.Anchor, Role: 1 + rng.Uint64N(24), Tokens: 99}, 0)
		binary.Write(h, binary.LittleEndian, p)
	}
	if got := fmt.Sprintf("%x", h.Sum(nil)); got != want {
		t.Errorf("%s: scores hash to %s, want %s", runtime.GOARCH, got, want)
	}
}

func learned(sessions, n int) (*Sage, time.Time) {
	s, now := New(Params{}, sessions), start
	rng := rand.New(rand.NewPCG(1, 1))
	for range 4 * sessions {
		now = walk(s, now, 1+rng.Uint64N(uint64(sessions)), 1+rng.Uint64N(uint64(n)))
	}
	return s, now
}

func BenchmarkObserve(b *testing.B) {
	s, now := learned(10_000, 50)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		k := policy.EventKind(policy.Arrived)
		if i%2 == 1 {
			k = policy.Served
		}
		now = now.Add(time.Millisecond)
		s.Observe(policy.Event{Kind: k, At: now, Client: 1, Session: 1 + policy.Mixed(policy.ID(i/2))%10_000,
			Role: 1 + policy.ID(i/2)%50})
	}
}

func BenchmarkScore(b *testing.B) {
	s, now := learned(10_000, 50)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.Score(now, policy.Item{Kind: policy.Tail, Session: 1 + policy.ID(i)%10_000,
			Role:   1 + policy.ID(i)%50,
			Tokens: 160}, 1000)
	}
}

func BenchmarkReturnsAnew(b *testing.B) {
	s, _ := learned(1000, 50)
	b.ReportAllocs()
	for b.Loop() {
		s.anew()
	}
}
