package cachesage

import (
	"time"

	"souk/bus/policy"
	"souk/hub/seat"
)

// Params say how a Sage scores. The parts of it are off alone, so that each can be measured.
type Params struct {
	Paper bool // the score as published: by the hops from the role that ran last, and by recency
	Far   int  // hops that count at most in that; 0: four, as the publication does not say it

	NoLive  bool // every session is thought to go on
	NoTails bool // texts of sessions are scored as the anchors of their roles
	NoPairs bool // roles follow by the last one alone

	// seconds that an engine takes for a token of a prompt, and more for each token before it; 0: those of an
	// engine of 8 billion parameters on one card
	Token, Before float64
}

// Sage learns from what becomes of sessions. It is no policy itself: whoever knows what is in a cache asks
// it.
type Sage struct {
	Params
	graph
	shares   *seat.Shares
	sessions policy.Kept[session]
	swept    int // how many sessions were looked at in this round of them
	tools    [tools]policy.ID
	live     [roles]float32 // by the last role, sessions that are thought to go on
	starts   [roles]uint32  // sessions that began with a role
	begun    uint32
	current  uint8 // the role that ran last, of any session
	hops     [roles]uint8
	hopsOf   uint8          // for which they are
	anchors  [roles]float64 // how likely each role runs soon; refreshed now and then
	fresh    uint32         // at which step that was
}

// tools are told from one another as far as this.
const tools = 64

// session is what is remembered of one.
type session struct {
	ended  time.Duration // of its last turn, since 1970
	came   time.Duration // of its last turn
	waited time.Duration // what of its idle time was learned from
	back   time.Duration // after its end, as its client says; 0: it says nothing
	share  float32       // as it is counted in live
	class  uint8
	turns  uint8
	before uint8 // the role before the last
	last   uint8
	idle   bool
	over   bool // it is thought to have ended, or has
}

// New remembers so many sessions.
func New(p Params, sessions int) *Sage {
	if p.Far == 0 {
		p.Far = 4
	}
	if p.Token == 0 {
		p.Token, p.Before = 4e-5, 2e-9
	}
	return &Sage{Params: p, shares: seat.NewShares(seat.SessionClasses + tools),
		sessions: policy.NewKept[session](sessions)}
}

func since(t time.Time) time.Duration { return time.Duration(t.UnixNano()) }

// class is that of a session whose turn has ended.
func (s *Sage) class(turns int, pause time.Duration, e *policy.Event) uint8 {
	if e.Tool != 0 {
		i := policy.Mixed(e.Tool) % tools
		for k := range policy.ID(4) {
			at := (i + k) % tools
			if s.tools[at] == e.Tool || s.tools[at] == 0 {
				s.tools[at] = e.Tool
				return uint8(seat.SessionClasses + int(at))
			}
		}
	}
	return uint8(seat.SessionClass(turns, pause))
}

// Observe takes in what has become of a session.
func (s *Sage) Observe(e policy.Event) {
	now := since(e.At)
	switch e.Kind {
	case policy.Arrived:
		s.arrived(now, &e)
	case policy.Served, policy.Failed:
		s.served(now, &e)
	case policy.Ended:
		if x := s.sessions.Get(e.Session, false); x != nil {
			s.end(x)
			s.sessions.Drop(e.Session)
		}
	case policy.Placed, policy.Next, policy.Touched:
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
	case x.idle:
		age := max(0, now-x.ended)
		if x.over = false; x.waited < age {
			s.shares.Waited(int(x.class), x.waited, age)
		}
		s.shares.Returned(int(x.class), age)
		s.saw(x.before, x.last, role)
	default: // another turn of it at the same time
		s.saw(x.before, x.last, role)
	}
	s.weigh(x, 0)
	x.before, x.last, x.idle, x.came = x.last, role, false, now
	s.weigh(x, 1)
	s.current = role
}

func (s *Sage) served(now time.Duration, e *policy.Event) {
	x := s.sessions.Get(e.Session, true)
	if x == nil || x.over {
		return
	}
	pause := time.Duration(0)
	if x.turns > 0 && x.ended > 0 {
		pause = max(1, now-x.ended)
	}
	if x.turns = min(x.turns+1, 255); x.last != 0 && now > x.came {
		s.lasted(x.last, float32((now - x.came).Seconds()))
	}
	x.class = s.class(int(x.turns), pause, e)
	x.ended, x.waited, x.idle, x.back = now, 0, true, e.Claimed
	s.weigh(x, float32(s.liveOf(x, now)))
}

// end takes a session out that has ended.
func (s *Sage) end(x *session) {
	if !x.over {
		x.over = true
		s.saw(x.before, x.last, endOf)
	}
	s.weigh(x, 0)
}

// weigh has a session counted as so much of one that goes on.
func (s *Sage) weigh(x *session, share float32) {
	s.live[x.last] = max(0, s.live[x.last]-x.share+share)
	x.share = share
}

// late is how much longer than its client said a session may stay away and still be believed.
const late = 2

// liveOf is the chance that a session goes on.
func (s *Sage) liveOf(x *session, now time.Duration) float64 {
	age := max(0, now-x.ended)
	switch {
	case x.over:
		return 0
	case !x.idle:
		return 1
	case x.back > 0 && age < late*x.back:
		return max(claimed, s.share(x, age))
	}
	return s.share(x, age)
}

// claimed is the chance that a session comes back whose client says so.
const claimed = 0.95

func (s *Sage) share(x *session, age time.Duration) float64 {
	if !s.shares.Known() {
		return 1 / (1 + float64(age.Seconds()/16))
	}
	return s.shares.Of(int(x.class), age)
}

// soon is within how many seconds it is worth more to come back.
const soon = 30

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
		if x == nil || !x.idle {
			continue
		}
		if age := now - x.ended; x.waited < age {
			s.shares.Waited(int(x.class), x.waited, age)
			x.waited = age
		}
		if x.over {
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

// Anchor is the chance that a role runs soon.
func (s *Sage) Anchor(role policy.ID) float64 {
	b := s.index(0, role, false)
	if b == 0 {
		return 0
	}
	if s.Paper {
		return s.hop(b)
	}
	if s.steps-s.fresh >= refreshEvery || s.fresh == 0 {
		s.refresh()
	}
	return s.anchors[b]
}

// refreshEvery is after how many steps the chances of all anchors are worked out again.
const refreshEvery = 4

// refresh works out how likely each role runs soon: p = 1 - exp(-sum), where the sum is over all sessions of
// the chance that it runs there, and of how many sessions are expected to begin with it.
func (s *Sage) refresh() {
	s.fresh = max(1, s.steps)
	open := 0.0
	for a := range s.live {
		open += float64(s.live[a])
	}
	var known [roles]uint8
	n := 0
	for b := 1; b < endOf; b++ {
		if s.ids[b] != 0 {
			known[n] = uint8(b)
			n++
		}
	}
	for _, b := range known[:n] {
		sum := 0.0
		for _, a := range known[:n] {
			if l := s.live[a]; s.NoLive && s.graph.count[a] > 0 {
				sum += s.chance(a, b)
			} else if l > 0 {
				sum += float64(float64(l) * s.chance(a, b))
			}
		}
		if s.total > 0 { // sessions that begin while those that are open take their steps
			sum += float64(float64(s.starts[b]) / float64(s.total) * horizon * max(1, open))
		}
		s.anchors[b] = 1 - seat.Exp(-min(sum, 600))
	}
}

// Tail is the chance that a session runs a role soon, and so uses again what its prompts had after the
// anchor.
func (s *Sage) Tail(now time.Time, key, role policy.ID) float64 {
	b := s.index(0, role, false)
	if s.NoTails || s.Paper {
		return s.Anchor(role)
	}
	x := s.sessions.Get(key, false)
	if x == nil {
		return 0
	}
	live := 1.0
	if !s.NoLive {
		live = s.liveOf(x, since(now))
	}
	if b == 0 { // its roles are not known: who comes back soon goes before who does some day
		if x.idle && !s.NoLive && s.shares.Known() && x.back == 0 {
			return live * (1 - seat.Exp(-min(600, soon*s.shares.Rate(int(x.class), since(now)-x.ended))))
		}
		return live
	}
	if !x.idle { // its call has to end first
		live *= s.laterBy(x.last)
	}
	return float64(live * s.returns(x.before, x.last, b, !s.NoPairs))
}

// Score is how many seconds are lost if a text is not in the cache when it is wanted again: the chance that
// it is wanted soon, times the seconds to compute so many tokens of it behind so many others.
func (s *Sage) Score(now time.Time, i policy.Item, behind int) float64 {
	p := 0.0
	switch i.Kind {
	case policy.Anchor:
		p = s.Anchor(i.Role)
	case policy.Tail:
		p = s.Tail(now, i.Session, i.Role)
	}
	return float64(p * s.Seconds(i.Tokens, behind))
}

// Seconds is what an engine takes to compute so many tokens behind others.
func (s *Sage) Seconds(tokens, behind int) float64 {
	n := float64(tokens)
	return float64(n * (s.Token + float64(s.Before*(float64(behind)+float64(n/2)))))
}

// least is the chance below which one role does not follow another (runtime-layer, 3.3).
const least = 0.01

// hop is the published chance that a role survives: 1 - hops/far, in hops from the role that ran last.
func (s *Sage) hop(b uint8) float64 {
	far := uint8(min(max(s.Far, 1), 255))
	if s.hopsOf != s.current || s.current == 0 {
		for i := range s.hops {
			s.hops[i] = far
		}
		s.hopsOf = s.current
		s.hops[s.current] = 0
		queue := make([]uint8, 1, roles)
		queue[0] = s.current
		for len(queue) > 0 {
			a := queue[0]
			queue = queue[1:]
			if s.hops[a]+1 >= far {
				continue
			}
			st := &s.single[a]
			for i, y := range st.next {
				if st.n[i] > 0 && y != endOf && float64(st.n[i]) >= least*float64(st.total) &&
					s.hops[a]+1 < s.hops[y] {
					s.hops[y] = s.hops[a] + 1
					queue = append(queue, y)
				}
			}
		}
	}
	return 1 - float64(s.hops[b])/float64(far)
}

// Predict appends what sessions are expected to run next, the likeliest first, as far as there is room.
func (s *Sage) Predict(now time.Time, key policy.ID, to []policy.Forecast) []policy.Forecast {
	x := s.sessions.Get(key, false)
	if x == nil || x.over {
		return to
	}
	var room [2 * followers]follower
	before := x.before
	if s.NoPairs {
		before = 0
	}
	live, from := s.liveOf(x, since(now)), len(to)
	for _, f := range s.graph.next(before, x.last, room[:0]) {
		if f.role == endOf || s.ids[f.role] == 0 {
			continue
		}
		next := policy.Forecast{Session: key, Role: s.ids[f.role], P: float64(live * f.p)}
		at := len(to)
		for at > from && to[at-1].P < next.P {
			at--
		}
		to = append(to, policy.Forecast{})
		copy(to[at+1:], to[at:])
		to[at] = next
	}
	return to
}
