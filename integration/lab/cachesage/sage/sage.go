package sage

import (
	"math/bits"
	"time"

	"souk/bus/bounded"
	"souk/bus/policy"
)

// Params say how a Sage scores. The parts of it are off alone, so that each can be measured.
type Params struct {
	Paper bool // the score as published: by the hops from the role that ran last, and by recency
	Far   int  // hops that count at most in that; 0: four, as the publication does not say it

	NoLive  bool // every session is thought to go on
	NoTails bool // texts of sessions are scored as the anchors of their roles
	NoPairs bool // roles follow by the last one alone
	NoRest  bool // calls in flight are all thought to take as long again

	// seconds that an engine takes for a token of a prompt, and more for each token before it; 0: those of an
	// engine of 8 billion parameters on one card
	Token, Before float64
}

// Sage learns from what becomes of sessions. It is no policy itself: whoever knows what is in a cache asks
// it.
type Sage struct {
	Params
	graph
	shares   *Shares
	sessions *bounded.Cache[policy.ID, policy.ID, session]
	swept    int // how many sessions were looked at in this round of them
	tools    [tools]policy.ID
	begun    uint32
	current  uint8 // the role that ran last, of any session
	hops     [roles]uint8
	hopsOf   uint8 // for which they are
}

// tools are told from one another as far as this.
const tools = 64

// session is one remembered session.
type session struct {
	at     time.Duration // when it came, or when its last turn ended, if none runs; since 1970
	agent  policy.ID     // that served its last turn; 0: none has
	waited uint32        // what of its idle time was learned from, in milliseconds
	back   uint32        // after its end, as its client says, in milliseconds; 0: it says nothing
	tokens int32         // of it that are there
	share  float32       // as it is counted in live
	pace   uint16        // of its pauses, see paceOf; 0: it had none
	class  uint8
	before uint8 // the role before the last
	last   uint8
	of     [2]uint8 // graph.gen of these, as it was when they ran
	phase  phase
}

// phase is the state of a session.
type phase uint8

const (
	idle phase = iota // its last turn has ended
	runs
	over // it is idle, and thought to have ended, or has
)

// millis is a time in milliseconds, at most 49 days.
func millis(d time.Duration) uint32 { return uint32(min(max(0, d/time.Millisecond), 1<<32-1)) }

func ofMillis(n uint32) time.Duration { return time.Duration(n) * time.Millisecond }

// New remembers so many sessions.
func New(p Params, sessions int) *Sage {
	if p.Far == 0 {
		p.Far = 4
	}
	if p.Token == 0 {
		p.Token, p.Before = 4e-5, 2e-9
	}
	s := &Sage{Params: p, shares: NewShares(paces + tools),
		sessions: bounded.New[policy.ID, policy.ID, session](max(1, sessions), 0)}
	s.sessions.Gone = func(_ policy.ID, x *session) { // nobody knows what becomes of it
		s.refresh(x)
		s.weigh(x, 0)
	}
	return s
}

// session returns a remembered session, or nil.
func (s *Sage) session(key policy.ID, use bool) (x *session) {
	if use {
		x = s.sessions.Get(key)
	} else {
		x = s.sessions.Peek(key)
	}
	if x != nil {
		s.refresh(x)
	}
	return x
}

// refresh has a session know no role any more that was forgotten, and whose place another may have since.
func (s *Sage) refresh(x *session) {
	if s.forgot {
		s.compare(x)
	}
}

func (s *Sage) compare(x *session) {
	if x.of[1] != s.gen[x.last] { // what it weighed was forgotten with it
		x.before, x.last, x.of, x.share = 0, 0, [2]uint8{}, 0
	}
	if x.of[0] != s.gen[x.before] {
		x.before, x.of[0] = 0, 0
	}
}

func since(t time.Time) time.Duration { return time.Duration(t.UnixNano()) }

// paces are the classes of sessions whose last turn called no tool, by how long their pauses are: 0 of those
// that had none, then each longer by three quarters of a doubling, from two seconds on.
const paces = 20

// class returns the class of a session whose turn has ended.
func (s *Sage) class(x *session, tool policy.ID) uint8 {
	if tool != 0 {
		i := policy.Mixed(tool) % tools
		for k := range policy.ID(4) {
			at := (i + k) % tools
			if s.tools[at] == tool || s.tools[at] == 0 {
				s.tools[at] = tool
				return uint8(paces + at)
			}
		}
	}
	if x.pace == 0 {
		return 0
	}
	return uint8(min(max(1, (int(x.pace)-11*octave)/(octave*3/4)+1), paces-1))
}

// octave is a doubling of a pace.
const octave = 256

// paceOf is the logarithm of a pause, in milliseconds, at least 1.
func paceOf(pause time.Duration) int {
	ms := uint64(max(1, pause/time.Millisecond))
	k := bits.Len64(ms) - 1
	return max(1, octave*k+int(ms<<8>>k&(octave-1)))
}

// Observe takes in what has become of a session.
func (s *Sage) Observe(e policy.Event) {
	now := since(e.At)
	switch e.Kind {
	case policy.Arrived:
		s.arrived(now, &e)
	case policy.Served, policy.Failed:
		s.done(now, &e)
	case policy.Ended:
		if x := s.session(e.Session, false); x != nil {
			s.end(x)
			s.sessions.Drop(e.Session)
		}
	case policy.Placed, policy.Next, policy.Loaded:
		return
	}
	s.sweep(now)
}

func (s *Sage) arrived(now time.Duration, e *policy.Event) {
	role := s.index(e.Client, e.Role, true)
	if e.Session == 0 {
		s.current = role
		return
	}
	x, made := s.sessions.Add(e.Client, e.Session)
	s.refresh(x)
	switch {
	case made:
		s.begun++
		s.starts[role]++
		if s.begun%halveStep == 0 {
			s.begun /= 2
			for i := range s.starts {
				s.starts[i] /= 2
			}
		}
		s.saw(0, 0, role)
	case x.phase != runs:
		age := max(0, now-x.at)
		s.shares.Returned(int(x.class), ofMillis(x.waited), age)
		pace := paceOf(age)
		if x.pace > 0 { // the latest counts a third
			pace = int(x.pace) + (pace-int(x.pace))/3
		}
		x.pace = uint16(pace)
		s.saw(x.before, x.last, role)
	default: // another turn of it at the same time
		s.saw(x.before, x.last, role)
	}
	s.weigh(x, 0)
	x.before, x.last, x.phase, x.at = x.last, role, runs, now
	x.of = [2]uint8{x.of[1], s.gen[role]}
	s.weigh(x, 1)
	s.current = role
}

func (s *Sage) done(now time.Duration, e *policy.Event) {
	x := s.session(e.Session, true)
	if x == nil {
		return
	}
	if e.Kind == policy.Served {
		x.agent, x.tokens = e.Agent, int32(min(e.Usage.Prompt+e.Usage.Output, 1<<30))
	}
	if x.phase == over {
		return
	}
	if x.last != 0 && x.phase == runs && now > x.at {
		s.lasted(x.before, x.last, (now - x.at).Seconds())
	}
	x.class = s.class(x, e.Tool)
	x.at, x.waited, x.phase, x.back = now, 0, idle, millis(e.Claimed)
	s.weigh(x, float32(s.liveOf(x, now)))
}

// end takes a session out that has ended.
func (s *Sage) end(x *session) {
	if x.phase != over {
		x.phase = over
		s.saw(x.before, x.last, endOf)
	}
	s.weigh(x, 0)
}

// weigh has a session counted as so much of one that goes on.
func (s *Sage) weigh(x *session, share float32) {
	s.live[x.last] = max(0, s.live[x.last]-x.share+share)
	x.share = share
}

// late is the factor on its announced pause beyond which a session is not believed to come back.
const late = 2

// liveOf is the chance that a session goes on.
func (s *Sage) liveOf(x *session, now time.Duration) float64 {
	age := max(0, now-x.at)
	switch {
	case x.phase == over:
		return 0
	case x.phase == runs:
		return 1
	case x.back > 0 && age < late*ofMillis(x.back):
		return max(claimed, s.share(x, age))
	}
	return s.share(x, age)
}

// claimed is the chance that a session comes back as its client announced.
const claimed = 0.95

func (s *Sage) share(x *session, age time.Duration) float64 {
	if !s.shares.Known() {
		return 1 / (1 + float64(age.Seconds()/16))
	}
	return s.shares.Of(int(x.class), age)
}

// soon is within how long it is worth more to come back.
const soon = 30 * time.Second

// dead is a chance of going on below which a session is thought to have ended.
const dead = 0.02

// sweep looks at a few sessions, so that all are looked at again and again: how long they stay away is
// learned from, and those that will hardly come back are taken for ended.
func (s *Sage) sweep(now time.Duration) {
	for range 2 {
		_, x := s.sessions.At(s.swept)
		if s.swept++; s.swept >= s.sessions.Places() {
			s.swept = 0
		}
		if x == nil || x.phase == runs {
			continue
		}
		s.refresh(x)
		x.waited = millis(s.shares.Waited(int(x.class), ofMillis(x.waited), max(0, now-x.at)))
		if x.phase == over {
			continue
		}
		live := s.liveOf(x, now)
		if s.shares.Known() && live < dead {
			s.end(x)
			continue
		}
		s.weigh(x, float32(live))
	}
}
