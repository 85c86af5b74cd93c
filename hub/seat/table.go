package seat

import (
	"math"
	"slices"
	"time"
)

// Times are durations since any fixed moment, the same for all calls.

// Table is who has a seat. It is a hub's own: a hub that starts again has none, takes those who come back for
// new ones, and lets them in because nothing waits. Not for concurrent use.
type Table struct {
	Params
	store
	index  Index
	agents []*Agent // by number, from 1 on; nil: the number is free
	total  int      // blocks that seats may have, of agents whose blocks are known
	taken  int      // by seats
	seats  int
	active int // clients that have seats
	asking int // clients that had none in the last round, and asked for one
	left   int // turns that found none
	freed  Freed
}

// Agent is what is known of one agent.
type Agent struct {
	number uint16
	blocks int // of its cache; 0: unknown
	room   int // of these, for seats
	used   int // by seats
	maybe  int // by those that a round may give it: see Table.Admit

	back  time.Duration // when the prompts sent to it are computed
	shift time.Duration // by how much that was corrected so far
	load  float64       // seconds to compute, on the mean of late
	usual time.Duration // what a task took to compute, on the mean of late
	at    time.Duration // until when these are known

	running int // blocks of the tasks that run
	tasks   int // that run
}

// New returns a table that remembers so many sessions.
func New(p Params, limit int) *Table { return &Table{Params: p, store: newStore(limit)} }

// margin is the part of its cache that an agent is not believed to have: to believe in too much is the worst
// error.
const margin = 20

// Enter makes an agent known whose cache has so many blocks, 0 if it does not say.
func (t *Table) Enter(now time.Duration, blocks int) *Agent {
	a := &Agent{at: now, back: now}
	n := slices.Index(t.agents, nil)
	if n < 0 {
		n = len(t.agents)
		t.agents = append(t.agents, nil)
	}
	t.agents[n], a.number = a, uint16(n+1)
	t.Resize(a, blocks)
	return a
}

// Resize says how many blocks an agent's cache has.
func (t *Table) Resize(a *Agent, blocks int) {
	t.total -= a.room
	a.blocks = max(0, blocks)
	a.room = int(t.Full * float64(a.blocks-(a.blocks+margin-1)/margin))
	t.total += a.room
}

// Renew says that an agent has begun anew: it has nothing to compute, and holds nothing. Its sessions keep
// their seats, and may take them with them to another agent.
func (t *Table) Renew(a *Agent, now time.Duration) {
	a.pass(now)
	a.back = now
}

// Leave says that an agent has left. Its sessions have no seats any more.
func (t *Table) Leave(a *Agent, now time.Duration) {
	if a.number == 0 || t.agents[a.number-1] != a {
		return
	}
	for i := range t.all {
		x := &t.all[i]
		if x.seat == a.number {
			t.vacate(now, x)
		}
	}
	t.total -= a.room
	t.agents[a.number-1] = nil
	a.number, a.room = 0, 0
}

// Turn is a session's turn, from when it comes until it has ended.
type Turn struct {
	session int32 // from 1; 0: of none
	client  string
	agent   *Agent
	need    int
	due     time.Duration // its first token is expected then
	spends  time.Duration // what it takes to compute
	shift   time.Duration
}

// Come says that a session's turn has come: a key of 0 is of none. It ends by Gone.
func (t *Table) Come(now time.Duration, name string, key uint64) Turn {
	if key == 0 {
		return Turn{client: name}
	}
	i := t.find(key)
	if i != none && t.all[i].over && t.all[i].open == 0 {
		t.forget(now, i)
		i = none
	}
	if i == none {
		i = t.add(key, name)
		defer t.shrink(now)
	}
	x := &t.all[i]
	if x.open == 0 && x.turns > 0 {
		t.rouse(i)
		idle := max(0, now-x.ended)
		t.see(x, idle)
		t.index.returned(class(x.turns, x.gap), idle)
		x.gap = gapOf(idle)
	}
	x.open = min(x.open, math.MaxUint16-1) + 1
	return Turn{session: i + 1, client: name}
}

// see takes into the index that a session was idle until an age.
func (t *Table) see(x *session, idle time.Duration) {
	if from := begin(int(x.bin)); x.bin < bins && idle > from {
		t.index.waited(class(x.turns, x.gap), from, idle)
		x.bin = uint8(binOf(idle))
	}
}

// of is a turn's session; nil if it has none.
func (t *Table) of(r *Turn) *session {
	if r.session == 0 {
		return nil
	}
	return &t.all[r.session-1]
}

// Seated reports whether a turn's session has a seat: then it may go anywhere.
func (t *Table) Seated(r *Turn) bool {
	x := t.of(r)
	return x != nil && x.seat != 0
}

// Home is the agent where a turn's session has its seat; nil if it has none.
func (t *Table) Home(r *Turn) *Agent {
	if x := t.of(r); x != nil && x.seat != 0 {
		return t.agents[x.seat-1]
	}
	return nil
}

// Open reports whether an agent lets in whoever comes: it has time to spare, so that a seat need not fit its
// cache. Without this, holding sessions back would leave engines idle.
func (t *Table) Open(a *Agent, now time.Duration) bool {
	_, load := a.Load(now)
	return load < t.Spare.Seconds()
}

// fits reports whether so many blocks are left, beside all that the round may give away.
func (a *Agent) fits(need int) bool { return a.used+a.maybe+need <= a.room }

// bound reports whether a turn's session must wait behind everybody else's, as its client has as many seats
// as it may: four, or its share of all, and twice its share while seats are free. One of a fleet whose caches
// nobody knows has no such bound.
func (t *Table) bound(r *Turn, need int) bool {
	k, ok := t.byName[r.client]
	if !ok || t.total == 0 || t.clients[k].seats < leastSeats {
		return false
	}
	share := t.total / max(1, t.active+t.asking)
	if t.taken < t.total {
		share *= 2
	}
	return t.clients[k].blocks+need > share
}

// leastSeats are each client's, whatever its share.
const leastSeats = 4

// newcomer reports whether a client has no seat.
func (t *Table) newcomer(name string) bool {
	k, ok := t.byName[name]
	return !ok || t.clients[k].seats == 0
}

// Asker is a turn of a round whose session has no seat.
type Asker struct {
	Turn   *Turn
	Need   int             // blocks of prompt and answer
	Takes  []time.Duration // by agent of the round, until its first token; negative: it cannot go there
	Bits   []bool          // by agent: whether it may; written by Admit
	behind bool
}

// Admit says for each turn without a seat, by arrival, to which agents it may go. Each that fits somewhere
// takes its blocks there where it begins soonest, for the rest of the round, so that one free seat is not
// given to two; then it may go elsewhere, too, as long as there is room for everybody who may.
func (t *Table) Admit(now time.Duration, agents []*Agent, askers []Asker) {
	clients := map[string]bool{}
	for i := range askers {
		if name := askers[i].Turn.client; t.newcomer(name) {
			clients[name] = true
		}
	}
	open := make([]bool, len(agents))
	for k, a := range agents {
		a.maybe = 0
		open[k] = t.Open(a, now)
	}
	var behind []int
	t.asking, t.left = len(clients), 0
	reserved := make([]int, len(askers))
	look := func(i int, room bool) {
		r := &askers[i]
		best := -1
		for k, a := range agents {
			may := r.Takes[k] >= 0 && (open[k] || room && a.fits(r.Need))
			if r.Bits[k] = may; may && (best < 0 || r.Takes[k] < r.Takes[best]) {
				best = k
			}
		}
		if reserved[i] = best; best < 0 {
			t.left++
			return
		}
		agents[best].maybe += r.Need
	}
	for i := range askers {
		r := &askers[i]
		if r.behind = t.bound(r.Turn, r.Need); r.behind {
			behind = append(behind, i)
			continue
		}
		look(i, true)
	}
	for i := range askers {
		r := &askers[i]
		if r.behind || reserved[i] < 0 {
			continue
		}
		for k, a := range agents {
			if !r.Bits[k] || k == reserved[i] || open[k] {
				continue
			}
			// whoever came later may have taken the room meanwhile
			if r.Bits[k] = a.fits(r.Need); r.Bits[k] {
				a.maybe += r.Need
			}
		}
	}
	for _, i := range behind { // who has its share already goes where nobody is in need, and takes no seat
		if t.left > 0 {
			clear(askers[i].Bits)
			continue
		}
		look(i, false)
	}
	for _, a := range agents {
		a.maybe = 0
	}
}

// TooLarge reports whether no agent that a turn could go to has seats for so many blocks, were it empty: it
// would wait for nothing. An agent whose blocks are not known may have.
func TooLarge(agents []*Agent, r *Asker) bool {
	could := false
	for k, a := range agents {
		if r.Takes[k] < 0 {
			continue
		}
		if could = true; a.blocks == 0 || a.room >= r.Need {
			return false
		}
	}
	return could
}

// Award says that a turn goes to an agent, where it needs so many blocks and takes so long to compute.
func (t *Table) Award(now time.Duration, r *Turn, a *Agent, need int, takes time.Duration) {
	a.pass(now)
	a.back = max(a.back, now) + takes
	if a.usual == 0 {
		a.usual = takes
	}
	a.usual += (takes - a.usual) / 8
	a.running += need
	a.tasks++
	r.agent, r.need, r.due, r.spends, r.shift = a, need, a.back, takes, a.shift
	x := t.of(r)
	if x == nil || a.number == 0 || x.seat == 0 && t.bound(r, need) {
		return
	}
	if x.seat != a.number {
		t.vacate(now, x)
		t.sit(x, a)
	}
	t.count(x, need)
}

// sit gives a session a seat without blocks.
func (t *Table) sit(x *session, a *Agent) {
	x.seat = a.number
	t.seats++
	c := &t.clients[x.client]
	if c.seats++; c.seats == 1 {
		t.active++
	}
}

// count says how many blocks a session's seat has.
func (t *Table) count(x *session, blocks int) {
	blocks = min(max(0, blocks), math.MaxInt32)
	more := blocks - int(x.blocks)
	t.agents[x.seat-1].used += more
	t.clients[x.client].blocks += more
	t.taken += more
	x.blocks = int32(blocks)
}

// vacate takes a session's seat, if it has one.
func (t *Table) vacate(now time.Duration, x *session) {
	if x.seat == 0 {
		return
	}
	t.count(x, 0)
	x.seat = 0
	t.seats--
	t.freed.Add(now, 1)
	c := &t.clients[x.client]
	if c.seats--; c.seats == 0 {
		t.active--
	}
}

// Began corrects when an agent will have computed what was sent to it: a turn's first token came then.
func (t *Table) Began(now time.Duration, r *Turn, at time.Duration) {
	a := r.agent
	if a == nil || r.due == 0 {
		return
	}
	a.pass(now)
	a.correct(now, at-(r.due+a.shift-r.shift))
	r.due = 0
}

// mostShift bounds how much later one turn has an agent ready.
const mostShift = 5 * time.Second

func (a *Agent) correct(now, by time.Duration) {
	by = min(by, mostShift)
	if by > 0 && a.back <= now { // it has nothing to compute, however late this was
		return
	}
	before := a.back
	a.back = max(now, a.back+by)
	a.shift += a.back - before
}

// Back says that a turn's agent did not serve it, or not any more. The turn may be awarded again.
func (t *Table) Back(now time.Duration, r *Turn) {
	a := r.agent
	if a == nil {
		return
	}
	a.pass(now)
	if left := r.due + a.shift - r.shift - now; r.due > 0 && left > 0 {
		a.correct(now, -min(r.spends, left))
	}
	a.running -= r.need
	if a.tasks--; a.tasks == 0 {
		a.back = min(a.back, now) // nothing is left to compute, whatever was believed
	}
	r.agent, r.need, r.due = nil, 0, 0
}

// Served says that a turn's agent has answered, and holds so many blocks of prompt and answer.
func (t *Table) Served(now time.Duration, r *Turn, blocks int) {
	a := r.agent
	t.Back(now, r)
	x := t.of(r)
	if x == nil || a == nil {
		return
	}
	x.turns, x.bin = counted(x.turns), 0
	if x.seat != 0 && x.seat == a.number {
		t.count(x, blocks)
	}
	x.ended = now
}

// Gone says that a turn has ended, served or not. It reports whether a seat came free.
func (t *Table) Gone(now time.Duration, r *Turn) (freed bool) {
	t.Back(now, r)
	i := r.session - 1
	x := t.of(r)
	*r = Turn{}
	if x == nil {
		return false
	}
	if x.open--; x.open > 0 {
		return false
	}
	if x.over || x.turns == 0 {
		freed = x.seat != 0
		t.vacate(now, x)
		t.remove(i)
		return freed
	}
	x.bin = uint8(binOf(max(0, now-x.ended))) // of a turn that was not served, the pause goes on
	t.rest(i)
	t.shrink(now)
	return false
}

// End says that a session has ended: it has no seat any more once its last turn has. It reports whether a
// seat came free.
func (t *Table) End(now time.Duration, key uint64) (freed bool) {
	i := t.find(key)
	if i == none {
		return false
	}
	x := &t.all[i]
	x.over = true
	if x.open > 0 {
		return false
	}
	freed = x.seat != 0
	t.forget(now, i)
	return freed
}

// shrink forgets sessions beyond the limit.
func (t *Table) shrink(now time.Duration) {
	for i := t.tooMany(); i != none; i = t.tooMany() {
		t.forget(now, i)
	}
}

// forget forgets an idle session.
func (t *Table) forget(now time.Duration, i int32) {
	x := &t.all[i]
	if !x.over {
		t.see(x, max(0, now-x.ended))
	}
	t.vacate(now, x)
	t.rouse(i)
	t.remove(i)
}

// Sweep takes the seats of sessions that are not likely to come back, and, where somebody waits, of clients
// that have more than their share, those that have been idle longest. It returns how many came free.
func (t *Table) Sweep(now time.Duration) (freed int) {
	before := t.seats
	for i := range t.all {
		x := &t.all[i]
		if !x.used || x.open > 0 {
			continue
		}
		idle := now - x.ended
		if x.bin < bins && idle >= edges[x.bin] {
			t.see(x, idle)
		}
		if x.seat != 0 && t.index.gone(class(x.turns, x.gap), idle) {
			t.vacate(now, x)
		}
	}
	if t.left > 0 && t.total > 0 {
		share := t.total / max(1, t.active+t.asking)
		for k := range t.clients {
			c := &t.clients[k]
			for i := c.oldest; c.seats > leastSeats && c.blocks > share && i != none; i = t.all[i].newer {
				t.vacate(now, &t.all[i])
			}
		}
	}
	return before - t.seats
}

// Freed is how many seats came free in the last minute.
func (t *Table) Freed(now time.Duration) int { return t.freed.Count(now) }

// Seats is how many there are, and how many blocks they have of how many.
func (t *Table) Seats() (seats, taken, total int) { return t.seats, t.taken, t.total }

// Sessions is how many are remembered.
func (t *Table) Sessions() int { return t.store.count }

// Returns is how often a session came back.
func (t *Table) Returns() int { return t.index.returns }

// loadTau is how long an agent's load is remembered.
const loadTau = 20 * time.Second

// pass lets time pass: what was to be computed shrinks by it.
func (a *Agent) pass(now time.Duration) {
	if now <= a.at {
		return
	}
	if busy := min(now, a.back) - a.at; busy > 0 {
		a.mean(busy, (a.back - a.at).Seconds(), true)
		a.at += busy
	}
	if now > a.at {
		a.mean(now-a.at, 0, false)
		a.at = now
	}
}

// mean moves the mean over a span in which there was so much to compute at its beginning, and less by the
// time that has passed; or nothing.
func (a *Agent) mean(span time.Duration, first float64, busy bool) {
	d, tau := span.Seconds(), loadTau.Seconds()
	keep := Exp(-min(600, d/tau))
	load := float64(first * (1 - keep))
	if busy {
		load -= d - float64(tau*(1-keep))
	}
	a.load = max(0, float64(a.load*keep)+load)
}

// Load is how much there is to compute on an agent, and how much there was on the mean of late.
func (a *Agent) Load(now time.Duration) (left time.Duration, mean float64) {
	then := *a // who looks changes nothing, not even the last bit
	then.pass(now)
	return max(0, a.back-now), then.load
}

// Blocks returns how many blocks of an agent seats have, and how many they may have.
func (a *Agent) Blocks() (used, room int) { return a.used, a.room }

// Usual is what a task took to compute of late; 0: there was none.
func (a *Agent) Usual() time.Duration { return a.usual }

// Most is how many tasks an agent is given at once so that it does not have much more to compute than for a
// time: as many as were usual of late, and one.
func (a *Agent) Most(room time.Duration) int {
	if a.usual <= 0 {
		return math.MaxInt
	}
	return 1 + int(max(0, room)/a.usual)
}
