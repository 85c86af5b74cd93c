package session

import (
	"fmt"
	"math"
	"slices"
	"time"

	"souk/hub/turn"
)

// Task is the room's state of a task: its session's place, and where the task may go in the round at hand.
type Task struct {
	client string
	key    uint64 // of its session; 0: it has none
	place  *Place // its session's; nil: none yet

	may     []bool    // by place of the round's agents; nil: anywhere
	outside time.Time // since then its session has found no place; zero: it has one, or needs none
}

// May reports whether places let the task go to the k-th agent of the round.
func (t *Task) May(k int) bool { return t.may == nil || t.may[k] }

// Outside reports whether the task waits for a place.
func (t *Task) Outside() bool { return !t.outside.IsZero() }

// Room is which sessions a hub has admitted, and who waits to be. Where sessions are not to be admitted
// ([Params.Admit]) it does nothing.
type Room struct {
	turn    *turn.Turn
	table   *Table
	sweep   turn.Timer // once a second, while sessions have places
	freed   func()
	waiting int // tasks that find no place
	least   int // blocks that one of them needs, of those in the last round

	askers []Asker // of the round at hand
	who    []*Task // of these
}

// sweepEvery is how often places of silent sessions are looked for.
const sweepEvery = time.Second

// New returns the room of a hub that has admitted nobody. It calls freed when a place has come free and
// somebody waits for one.
func New(t *turn.Turn, p Params, freed func()) *Room {
	r := &Room{turn: t, table: NewTable(p), freed: freed}
	r.sweep.Due = r.due
	return r
}

// Admits reports whether sessions wait for places at all.
func (r *Room) Admits() bool { return r.table.Params.Admit }

func (r *Room) Places() int  { return r.table.Places() }
func (r *Room) Waiting() int { return r.waiting }

// Come says that a task was admitted to the hub: a turn of that session of its client's has come.
func (r *Room) Come(t *Task, client string, key uint64) {
	t.client, t.key = client, key
	if r.Admits() {
		t.place = r.table.Come(key)
	}
}

// Admit finds out which tasks of a round may go to which of its agents, as far as places say. reach says of
// the i-th task which agents serve it, and how many blocks it needs there; 0: it needs no place.
func (r *Room) Admit(agents []*Agent, tasks []*Task, reach func(i int, may []bool) (need int)) {
	r.askers, r.who = r.askers[:0], r.who[:0]
	for i, t := range tasks {
		may := make([]bool, len(agents))
		if need := reach(i, may); need == 0 {
			r.stand(t, nil, false)
		} else {
			r.who = append(r.who, t)
			r.askers = append(r.askers, Asker{Client: t.client, Place: t.place, Need: need, May: may})
		}
	}
	r.table.Admit(agents, r.askers)
	r.least = math.MaxInt
	for i, t := range r.who {
		x := &r.askers[i]
		r.stand(t, x.May, !slices.Contains(x.May, true))
		if t.Outside() {
			r.least = min(r.least, x.Need)
		}
	}
}

// Fits reports whether one of those who wait for a place may find one at an agent.
func (r *Room) Fits(a *Agent) bool {
	return r.waiting > 0 && r.least < math.MaxInt && a.Fits(0, r.least)
}

// stand notes where a task may go, and whether it waits for a place.
func (r *Room) stand(t *Task, may []bool, outside bool) {
	switch t.may = may; {
	case outside && !t.Outside():
		t.outside = r.turn.Now()
		r.waiting++
	case !outside && t.Outside():
		t.outside = time.Time{}
		r.waiting--
	}
}

// Award says that a task goes to an agent, where it needs so many tokens: its session's place is there now.
func (r *Room) Award(t *Task, a *Agent, tokens int) {
	if !r.Admits() {
		return
	}
	t.place = r.table.Award(t.place, t.client, t.key, a, a.Need(tokens))
	if !r.sweep.IsSet() {
		r.turn.Set(&r.sweep, r.turn.Now().Add(sweepEvery))
	}
}

// Gone says that a task has ended.
func (r *Room) Gone(t *Task) {
	r.stand(t, nil, false)
	r.wake(r.table.Gone(r.now(), t.place))
	t.place = nil
}

// End says that a session has ended: it gives up its place once its last turn is over. A later turn of it is
// a new session's. What is not known is no fault, and nobody ends another's session, as the client is part of
// its key.
func (r *Room) End(key uint64) { r.wake(r.table.End(key)) }

// Leave says that an agent has left. Whoever had a place there has none.
func (r *Room) Leave(a *Agent) { r.table.Leave(a) }

// due is called by a timer.
func (r *Room) due() {
	r.wake(r.table.Sweep(r.now()))
	if r.Places() > 0 {
		r.turn.Set(&r.sweep, r.turn.Now().Add(sweepEvery))
	}
}

// wake tells the hub that a place came free, where somebody waits for one.
func (r *Room) wake(freed bool) {
	if freed && r.turn.Leading && r.waiting > 0 {
		r.freed()
	}
}

// Refusal explains a refusal to a task whose session found no place before its deadline, and when it may come
// again: by then a silent session's place is free.
func (r *Room) Refusal(t *Task) (retry time.Duration, why string) {
	idle := r.table.Idle
	retry = idle*3/4 + time.Duration(r.turn.Chance()%uint64(idle/2+1))
	return retry, fmt.Sprintf("the caches of the agents are full with sessions that are in use, and for %v none had "+
		"room for this one; tasks that wait for room: %d", r.turn.Now().Sub(t.outside).Round(time.Second), r.waiting)
}

func (r *Room) now() time.Duration { return time.Duration(r.turn.Nano()) }
