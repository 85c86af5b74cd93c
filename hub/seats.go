package hub

import (
	"slices"
	"time"

	"souk/bus"
	"souk/hub/predict"
	"souk/hub/seat"
)

// Where sessions need more than the caches hold, a hub admits sessions rather than tasks: see package seat.
// Who has a seat is known before any bid of a round is read.

// seats holds the seats of the sessions that have turns here.
type seats struct {
	table   *seat.Table
	sweep   timer // looks after who stays away, and who has waited for too long
	askers  []seat.Asker
	who     []*task       // of these
	agents  []*seat.Agent // the open ones
	takes   []time.Duration
	bits    []bool
	waiting int     // tasks that found no seat, in the last round
	woke    int64   // by Node.nano: when they were last woken for there may be one
	least   int     // blocks that one of them needs
	late    []*task // tasks that no seat is large enough for, in this round
	capped  bool    // an agent was given less than it has slots for, in this round
}

// seatsEvery is how often.
const seatsEvery = time.Second

func (n *Node) clock() time.Duration { return time.Duration(n.nano) }

// blocks is how many blocks of an agent's cache so many tokens take.
func (a *agent) blocks(tokens int) int {
	size := max(1, a.reg.BlockSize)
	return (tokens + size - 1) / size
}

// enterSeats makes an agent known that was joined, or is anew.
func (n *Node) enterSeats(a *agent, fresh bool) {
	blocks := a.reg.KVTokens / max(1, a.reg.BlockSize)
	switch t := n.seats.table; {
	case a.seats == nil:
		a.seats = t.Enter(n.clock(), blocks)
	default:
		t.Resize(a.seats, blocks)
		if fresh {
			t.Renew(a.seats, n.clock())
		}
	}
}

// leaveSeats takes the seats of an agent that has left.
func (n *Node) leaveSeats(a *agent) {
	if a.seats != nil {
		n.seats.table.Leave(a.seats, n.clock())
		a.seats = nil
	}
}

// come says that a task was admitted: its session's turn has come.
func (n *Node) come(t *task) {
	key := t.session
	if !n.cfg.Seats.Sessions {
		key = 0
	}
	t.turn = n.seats.table.Come(n.clock(), t.key.client, key)
	if s := &n.seats.sweep; n.cfg.Seats.Sessions && s.place == 0 {
		n.timers.set(s, n.now.Add(seatsEvery))
	}
}

// saturated reports whether an agent is given nothing now, as it has enough to compute, and how long that
// lasts.
func (n *Node) saturated(a *agent) (time.Duration, bool) {
	return time.Duration(max(0, a.saturatedUntil-n.nano)), n.nano < a.saturatedUntil
}

// updateSaturation finds out anew how long that lasts, as what the agent has to compute has changed, or what
// is known of it: by what was sent to it, what came back, and what it says.
func (n *Node) updateSaturation(a *agent) {
	ahead := n.cfg.Seats.Ahead()
	if a.saturatedUntil = 0; ahead <= 0 {
		return
	}
	if left := n.load(a).Left - ahead; left >= 0 {
		a.saturatedUntil = n.at(left + 1)
		n.timers.set(&a.saturation.timer, n.now.Add(left+1))
	}
}

// roomOf is how many tasks an agent takes in one round that has so many slots free: no more than it then has
// little more to compute than it may have ahead. None of them knows of the others when it is quoted.
func (n *Node) roomOf(a *agent, free int) int {
	if _, saturated := n.saturated(a); saturated {
		return 0
	}
	ahead := n.cfg.Seats.Ahead()
	if free < 2 || ahead <= 0 || a.seats == nil {
		return free
	}
	most := a.seats.Most(ahead - n.load(a).Left)
	n.seats.capped = n.seats.capped || most < free
	return min(free, most)
}

// availableAt is when an agent takes another task that is given so many now, and has a slot for one more.
func (n *Node) availableAt(a *agent, given int) time.Duration {
	usual := min(a.seats.Usual(), time.Hour)
	return max(0, n.load(a).Left+time.Duration(given)*usual-n.cfg.Seats.Ahead())
}

// prefill is how long an agent takes to compute a prompt of which it holds so much.
func (a *agent) prefill(prompt, cached int) time.Duration {
	if d, ok := a.rate.Takes(prompt - cached); ok {
		return d
	}
	f := predict.Features{Counted: max(1, prompt), Cached: cached}
	whole := a.predictor.First(f)
	f.Cached = f.Counted - 1
	return max(0, whole-a.predictor.First(f))
}

// admitted finds out which of the tasks of a round may go to which agents, as far as seats say: see
// task.may. Those that may go nowhere leave the round, and wait behind nobody but others without a seat.
func (n *Node) admitted() {
	s := &n.seats
	if !n.cfg.Seats.Sessions {
		return
	}
	now := n.clock()
	s.askers, s.who, s.agents = s.askers[:0], s.who[:0], s.agents[:0]
	tight := false
	for _, open := range n.round.agents {
		a := open.seats
		s.agents = append(s.agents, a)
		tight = !s.table.Open(a, now) || tight
	}
	for _, t := range n.round.tasks {
		t.may = nil
		// what has begun goes on: the rest of an answer waits for no seat
		if tight && t.only == nil && !t.continued && !s.table.Seated(&t.turn) {
			s.who = append(s.who, t)
		} else {
			t.unseated = time.Time{}
		}
	}
	width := len(n.round.agents)
	s.takes, s.bits = resized(s.takes, width*len(s.who)), resized(s.bits, width*len(s.who))
	asking := s.who[:0]
	for _, t := range s.who {
		i := len(asking)
		r := seat.Asker{Turn: &t.turn, Takes: s.takes[width*i : width*(i+1)],
			Bits: s.bits[width*i : width*(i+1)]}
		if n.forecastSeat(t, &r); slices.Max(r.Takes) < 0 {
			t.unseated = time.Time{} // no open agent serves it: it waits for one that does, and for no seat
			continue
		}
		asking, s.askers = append(asking, t), append(s.askers, r)
	}
	s.who = asking
	s.table.Admit(now, s.agents, s.askers)
	if len(s.who)+s.waiting == 0 {
		return
	}
	left, who, askers := n.round.tasks[:0], s.who, s.askers
	for _, t := range n.round.tasks {
		if len(who) == 0 || who[0] != t {
			left = append(left, t)
			continue
		}
		bits := askers[0].Bits
		t.needs = askers[0].Need
		large := seat.TooLarge(s.agents, &askers[0])
		who, askers = who[1:], askers[1:]
		for _, may := range bits {
			if may {
				t.may = bits
			}
		}
		if t.may != nil {
			t.unseated = time.Time{}
			left = append(left, t)
			continue
		}
		if t.unseated.IsZero() {
			t.unseated = n.now
		}
		n.batch.Leave(t, t.arrived)
		if large {
			s.late = append(s.late, t)
		}
	}
	n.round.tasks = left
	n.countUnseated()
}

// refuseTooLarge sends away those that no seat is large enough for, after the round: what they leave may let
// others in, and a full room is judged by all who wait, whether a round looks at them or not.
func (n *Node) refuseTooLarge() {
	s := &n.seats
	if len(s.late) == 0 {
		return
	}
	for _, t := range s.late {
		if t.state == waiting { // else it had to leave a full room
			n.stats.Unseated++
			n.end(t, n.noSeatEver(t))
		}
	}
	clear(s.late)
	s.late = s.late[:0]
	n.countUnseated()
}

// countUnseated counts the tasks that wait for a seat, and what the least of them needs.
func (n *Node) countUnseated() {
	s := &n.seats
	s.waiting = 0
	n.batch.Each(func(t *task, _ time.Time) {
		if t.unseated.IsZero() {
			return
		}
		if s.waiting++; s.waiting == 1 || t.needs < s.least {
			s.least = t.needs
		}
	})
}

// forecastSeat says when a task would begin on each open agent, and how many blocks it needs.
func (n *Node) forecastSeat(t *task, r *seat.Asker) {
	now := n.clock()
	for k, a := range n.round.agents {
		h := a.expect(t)
		if r.Takes[k] = -1; !a.suits(t) || !a.takes(h.tokens+t.carried()) {
			continue
		}
		left, _ := a.seats.Load(now)
		d := left + a.prefill(h.tokens+t.carried(), h.cached)
		if n.round.sides[k].Free == 0 {
			d = min(d+a.alike.Service()/time.Duration(max(1, a.slots)), time.Hour)
		}
		r.Takes[k] = d
		if r.Need == 0 {
			q := n.noted(t, a, h)
			r.Need = max(1, a.blocks(q.prompt+q.output))
		}
	}
}

// lets reports whether a task may go to an agent, as far as seats say.
func (t *task) lets(seat int) bool { return t.may == nil || t.may[seat] }

// letsIn wakes those who wait for a seat if there may be one, so that nobody who comes later takes it. Once
// is enough of a moment: several rounds may be held in it, each of those that the last had no room for.
func (n *Node) letsIn() {
	s := &n.seats
	if s.waiting == 0 || s.woke == n.nano {
		return
	}
	for _, a := range n.roster {
		if !a.open(n) || a.seats == nil {
			continue
		}
		if used, room := a.seats.Blocks(); used+s.least <= room || s.table.Open(a.seats, n.clock()) {
			s.woke = n.nano
			n.batch.Wake()
			return
		}
	}
}

// seatHome is the open agent where a task's session has its seat; nil if there is none.
func (n *Node) seatHome(t *task) *agent {
	home := n.seats.table.Home(&t.turn)
	if home == nil {
		return nil
	}
	for _, a := range n.round.agents {
		if a.seats == home && a.suits(t) && a.fits(t) {
			return a
		}
	}
	return nil
}

// seated says that a task goes to an agent: its session has a seat there now.
func (n *Node) seated(t *task, h *hold) {
	a := h.agent
	if a.seats == nil {
		return
	}
	need := max(1, a.blocks(h.rec.Prompt+h.rec.Output))
	takes := a.prefill(h.rec.Prompt, h.rec.Cached)
	n.seats.table.Award(n.clock(), &t.turn, a.seats, need, takes)
}

// saturation wakes those who wait when an agent has less to compute.
type saturation struct {
	agent *agent
	timer timer
}

// due implements timed.
func (d *saturation) due(n *Node) {
	n.updateSaturation(d.agent)
	if _, saturated := n.saturated(d.agent); !saturated {
		n.news()
	}
}

// answeredSeat says that an agent has served a task.
func (n *Node) answeredSeat(t *task, h *hold, c *bus.Completion) {
	s := n.seats.table
	if c.TTFTUS > 0 {
		sent := n.clock() - n.now.Sub(h.sent)
		first := min(sent+time.Duration(c.TTFTUS)*time.Microsecond, n.clock())
		s.Began(n.clock(), &t.turn, first)
		h.agent.rate.Learn(sent, first, c.Usage.Prompt-c.Usage.Cached)
	}
	s.Served(n.clock(), &t.turn, h.agent.blocks(c.Usage.Prompt+c.Usage.Output))
}

// due implements timed: once a second, while sessions are remembered.
func (s *seats) due(n *Node) {
	if s.table.Sweep(n.clock()) > 0 || s.waiting > 0 {
		n.news()
	}
	if n.leading && s.waiting > 0 {
		n.refuseUnseated()
	}
	if s.table.Sessions() > 0 {
		n.timers.set(&s.sweep, n.now.Add(seatsEvery))
	}
}

// refuseUnseated sends away those who have waited for a seat for long enough.
func (n *Node) refuseUnseated() {
	var late []*task
	n.batch.Each(func(t *task, _ time.Time) {
		if !t.unseated.IsZero() && n.now.Sub(t.unseated)+seatsEvery > n.cfg.Seats.Wait {
			late = append(late, t)
		}
	})
	for _, t := range late {
		n.stats.Unseated++
		n.end(t, n.noSeat(t))
	}
	n.countUnseated()
}

// noSeat is the answer to a task whose session found no seat, with when it should come back.
func (n *Node) noSeat(t *task) *bus.Result {
	s := &n.seats
	retry := seat.RetryAfter(s.waiting, s.table.Freed(n.clock()), n.salts.Uint64())
	return n.refusal(t.msg, bus.CodeNoRoom, retry,
		"the caches of the agents are full with sessions that are in use, and for %v no seat was free that this "+
			"one could have; tasks that wait for one: %d", n.now.Sub(t.unseated).Round(time.Second), s.waiting)
}

// noSeatEver is the answer to a task that is larger than any seat, while no agent lets in whoever comes.
func (n *Node) noSeatEver(t *task) *bus.Result {
	room := 0
	for _, a := range n.seats.agents {
		_, most := a.Blocks()
		room = max(room, most)
	}
	retry := seat.RetryAfter(n.seats.waiting, n.seats.table.Freed(n.clock()), n.salts.Uint64())
	return n.refusal(t.msg, bus.CodeNoRoom, retry,
		"its prompt and answer need %d blocks of a cache, and no agent has seats for more than %d: it is served "+
			"only while an agent has time to spare, and none has", t.needs, room)
}

// SessionEnded says that a client's session has ended: it gives up its seat once its last turn is over. A
// later turn of it is a new session's. What is not known is no fault, and nobody ends another's session, as
// the client is part of its key.
func (n *Node) SessionEnded(now time.Time, client, session string) {
	n.advance(now)
	n.endSession(bus.SessionKey(client, session))
}

func (n *Node) endSession(key uint64) {
	n.seatFreed(n.seats.table.End(n.clock(), key))
	n.runtime.host.Ended(n.now, key)
}

// seatFreed wakes those who wait for a seat, where one came free.
func (n *Node) seatFreed(freed bool) {
	if freed && n.leading && n.seats.waiting > 0 {
		n.news()
	}
}
