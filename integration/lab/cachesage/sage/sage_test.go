package sage

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"souk/bus/bustest/golden"
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

// What returns are worth comes, step by step, to the sum over all ways to get there.
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
	known := func(do func(r uint8)) {
		for r := 1; r < endOf; r++ {
			if s.ids[r] != 0 {
				do(uint8(r))
			}
		}
	}
	var one [roles][roles]float64
	two := map[[3]uint8]float64{}
	for range 100 {
		known(func(a uint8) {
			known(func(b uint8) {
				sum := 0.0
				known(func(y uint8) {
					if y == b {
						sum += s.after(a, y)
					} else {
						sum += s.after(a, y) * float64(s.single[y].less()) * one[y][b]
					}
				})
				one[a][b] = sum
			})
		})
	}
	for range 100 {
		for i := range s.double {
			x, key := &s.double[i], s.keys[i]
			a := uint8(key)
			if key == 0 {
				continue
			}
			all := float64(x.total() + pseudo)
			known(func(b uint8) {
				sum := pseudo / all * one[a][b]
				for k, y := range x.next {
					p := float64(x.n[k]) / all
					switch then := s.find(a, y, false); {
					case y == b:
						sum += p
					case then >= 0:
						sum += p * float64(s.double[then].less()) * two[[3]uint8{a, y, b}]
					default:
						sum += p * float64(s.single[y].less()) * one[y][b]
					}
				}
				two[[3]uint8{uint8(key >> 8), a, b}] = sum
			})
		}
	}
	for s.steps = range uint32(200) { // what comes by mere frequency is worked out with every second step
		known(s.relax)
		for i := range s.double {
			if s.keys[i] != 0 {
				s.relaxTwo(i)
			}
		}
	}
	checked := 0
	known(func(a uint8) {
		known(func(b uint8) {
			if got, want := s.chance(a, b), one[a][b]; math.Abs(got-want) > 1e-3 {
				t.Errorf("from %d to %d: %.5f, want %.5f", a, b, got, want)
			}
		})
	})
	for k, want := range two {
		if got := s.returns(k[0], k[1], k[2], true); math.Abs(got-want) > 1e-3 {
			t.Errorf("from %d and %d to %d: %.5f, want %.5f", k[0], k[1], k[2], got, want)
		}
		checked++
	}
	if checked < 8 {
		t.Errorf("%d returns", checked)
	}
}

// What is looked up fast is what a plain look at every place says, to the last bit, among more roles than are
// busy, of which some are forgotten.
func TestFastAgainstPlain(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	s, now := New(Params{}, 100), start
	find := func(before, last uint8) int {
		key := uint16(before)<<8 | uint16(last)
		if before == 0 || last == 0 {
			return -1
		}
		for i := range near {
			if k := (int(policy.Mixed(uint64(key))%pairs) + i) % pairs; s.keys[k] == key {
				return k
			}
		}
		return -1
	}
	returns := func(before, last, b uint8) float64 {
		at := find(before, last)
		if last == 0 || b == 0 {
			return 0
		} else if at < 0 {
			return s.chance(last, b)
		} else if j := s.slot[b]; j > 0 && j <= often {
			return float64(s.two[at][j-1]) / 65535
		}
		x, all := &s.double[at], float64(pseudo)
		for _, n := range x.n {
			all += float64(n)
		}
		p := float64(pseudo / all * s.chance(last, b))
		for i, y := range x.next {
			if x.n[i] > 0 && y == b {
				p += float64(x.n[i]) / all
			} else if x.n[i] > 0 && y != endOf {
				p += float64(float64(x.n[i]) / all * float64(float64(s.single[y].less())*s.chance(y, b)))
			}
		}
		return min(p, 1)
	}
	found, beyond := 0, 0
	for i := range 300 {
		var run []policy.ID
		for range 1 + rng.IntN(20) {
			run = append(run, 1+rng.Uint64N(1+rng.Uint64N(300)))
		}
		now = walk(s, now, policy.ID(1+i%150), run...)
		for range 200 {
			before, last, b := uint8(rng.UintN(roles)), uint8(rng.UintN(roles)), uint8(rng.UintN(endOf))
			if k := rng.IntN(pairs); rng.IntN(4) > 0 {
				before, last = uint8(s.keys[k]>>8), uint8(s.keys[k])
			}
			if got, want := s.find(before, last, false), find(before, last); got != want {
				t.Fatalf("roles %d and %d at place %d, want %d", before, last, got, want)
			} else if got >= 0 {
				found++
			}
			if s.slot[b] == 0 && s.ids[b] != 0 {
				beyond++
			}
			if got, want := s.returns(before, last, b, true), returns(before, last, b); got != want {
				t.Fatalf("from %d and %d to %d: %v, want %v", before, last, b, got, want)
			}
		}
	}
	if found < 1000 || beyond < 1000 {
		t.Errorf("%d states of two roles and %d roles that are not busy: too few", found, beyond)
	}
}

// A call that has taken long will end later than one that has just begun where calls are short or very long,
// and sooner where all take as long; and it is known of which two roles it is.
func TestHowLongACallStillTakes(t *testing.T) {
	s, now := New(Params{}, 1000), start
	run := func(session policy.ID, role policy.ID, seconds float64) {
		s.Observe(policy.Event{Kind: policy.Arrived, At: now, Client: 1, Session: session, Role: role})
		now = now.Add(time.Duration(seconds * 1e9))
		s.Observe(policy.Event{Kind: policy.Served, At: now, Client: 1, Session: session, Role: role})
	}
	for i := range policy.ID(60) {
		run(i+1, 1, 5)
		run(i+1, 2, []float64{0.2, 30}[i%2])
		run(i+1, 3, 5)
		run(i+1, 2, 0.2)
	}
	rest := func(before, last policy.ID, seconds float64) float64 {
		return s.rest(s.index(1, before, false), s.index(1, last, false), seconds, true)
	}
	if soon, late := rest(1, 2, 0), rest(1, 2, 2); late > 0.8*soon {
		t.Errorf("a use after a call of 2 s, when 0.2 s are over, counts %.3f, at its start %.3f", late, soon)
	}
	if early, late := rest(0, 1, 0), rest(0, 1, 4.5); late <= early {
		t.Errorf("a use after a call of 5 s counts %.3f at 4.5 s and %.3f at its start", late, early)
	}
	if after1, after3 := rest(1, 2, 0), rest(3, 2, 0); after3 < after1+0.1 {
		t.Errorf("after role 3 calls are short: %.3f, after role 1 half are: %.3f", after3, after1)
	}
	if x := rest(1, 2, 1e6); !(x >= 0 && x < 0.1) {
		t.Errorf("of a call that never ends: %v", x)
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
	walk(s, now, 9, 1)
	if one, nine := s.Anchor(1), s.Anchor(9); one < 5*nine || one > 1 {
		t.Errorf("an anchor that is used all the time %.3f, one that never is %.3f", one, nine)
	}
}

// A clock that went back makes no chance that is none, whether it is known how long sessions stay away or
// not.
func TestAClockThatWentBack(t *testing.T) {
	for _, sessions := range []policy.ID{0, 200} {
		s, now := New(Params{}, 1000), start
		for i := range sessions {
			now = walk(s, now, 1000+i, 1, 2, 1, 2)
		}
		walk(s, now, 7, 1, 2)
		walk(s, now, 8)
		if known := s.shares.Known(); known != (sessions > 0) {
			t.Fatalf("after %d sessions it is known: %v", sessions, known)
		}
		for back := time.Duration(0); back < time.Hour; back += 500 * time.Millisecond {
			for _, role := range []policy.ID{0, 1, 2} {
				if p := s.Tail(now.Add(-back), 7, role); !(p >= 0 && p <= 1) {
					t.Fatalf("%v before, role %d, after %d sessions: a chance of %v", back, role, sessions, p)
				}
			}
		}
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

// What is learned takes 64 KB, and 112 bytes a session.
func TestMemory(t *testing.T) {
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC() // what others left in pools goes with the second time
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const sessions = 1 << 16
	before := used()
	s := New(Params{}, sessions)
	empty := used()
	for i := range policy.ID(sessions) {
		s.Observe(policy.Event{Kind: policy.Arrived, At: start, Client: 1, Session: 1 + i, Role: 1 + i%9})
	}
	if size := empty - before; size > 64<<10 {
		t.Errorf("%d bytes beside the sessions", size)
	}
	if size := float64(used()-empty) / sessions; size > 112 {
		t.Errorf("%.1f bytes a session", size)
	}
	runtime.KeepAlive(s)
}

// The same events make the same scores on every machine.
func TestSameScoresOnEveryMachine(t *testing.T) {
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
	golden.Check(t, "scores", fmt.Sprintf("%x", h.Sum(nil)))
}

func learned(sessions, n int) (*Sage, time.Time) {
	s, now := New(Params{}, sessions), start
	rng := rand.New(rand.NewPCG(1, 1))
	for range 4 * sessions {
		now = walk(s, now, 1+rng.Uint64N(uint64(sessions)), 1+rng.Uint64N(uint64(n)))
	}
	return s, now
}

// Once a Sage knows its sessions, an event and a score take no memory.
func TestNothingIsAllocated(t *testing.T) {
	s, now := learned(10_000, 50)
	i := policy.ID(0)
	if n := testing.AllocsPerRun(20_000, func() {
		e := policy.Event{Kind: policy.Arrived, At: now, Client: 1, Session: 1 + policy.Mixed(i)%10_000,
			Role: 1 + i%50}
		s.Observe(e)
		e.Kind, e.At = policy.Served, now.Add(time.Millisecond)
		s.Observe(e)
		s.Score(now, policy.Item{Kind: policy.Tail, Session: e.Session, Role: e.Role, Tokens: 160}, 1000)
		s.Score(now, policy.Item{Kind: policy.Anchor, Role: e.Role, Tokens: 160}, 0)
		now, i = now.Add(2*time.Millisecond), i+1
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
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
