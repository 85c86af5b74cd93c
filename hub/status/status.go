// Package status is a room of a hub: when the hub says how it is, and what a door can know by that.
//
// A door that has stopped for a while, in whatever moment, does not know that its task's reader has asked
// another door meanwhile, which may have placed the task elsewhere. Its own clock may have stopped, too; but
// it names the last status of this hub that it had heard when it took the task, or asked all hubs for it.
package status

import (
	"cmp"
	"slices"
	"time"

	"souk/bus"
	"souk/hub/turn"
)

// Least is the least time between two statuses.
const Least = 50 * time.Millisecond

// Room knows what was said of late. For one goroutine.
type Room struct {
	turn  *turn.Turn
	every time.Duration // it is said at least so often
	last  time.Time
	next  time.Time
	seq   uint64
	said  []saying // some of late, oldest first
	stood uint64   // a door's word of a status before this one is of before the hub stood still
}

// saying records when a status was sent.
type saying struct {
	seq uint64
	at  time.Time
}

const (
	// unheard bounds the age of the status after the one that a door names. It has reached the door soon
	// after, so that with the time between two statuses the door's word is at most so old. Readers ask
	// another door after three heartbeats, six seconds, at the earliest.
	unheard = 3 * time.Second
	// of so many statuses a second one is remembered
	sayEvery = 250 * time.Millisecond
	// backEvery is how often a hub sends its status while it settles after an outage of the bus: a process
	// that came back after the hub has missed the first, and believes it gone until it hears one.
	backEvery = 100 * time.Millisecond
)

// New returns the room of a hub that has said nothing.
func New(t *turn.Turn, every time.Duration) *Room { return &Room{turn: t, every: every} }

// Last names the status that a door which asks now knows of.
func (r *Room) Last() *bus.LastStatus { return &bus.LastStatus{Epoch: r.turn.Epoch, Seq: r.seq} }

// Unsure reports whether a task that a door placed here, and that came then, may be with another hub by now.
// A door that says nothing of what it heard has a task for which its reader cannot ask another.
func (r *Room) Unsure(h *bus.LastStatus, came time.Time) bool {
	if h == nil || h.Epoch != r.turn.Epoch {
		return h != nil
	}
	i := r.known(came)
	return h.Seq < r.stood || i >= 0 && h.Seq < r.said[i].seq
}

// StoodStill notes that the hub did not run for a while, and so said nothing that a door could have missed:
// what comes now may have waited all that time, in which the hub may have been taken for gone, and the task
// be placed elsewhere. The next number stands for a status of now.
func (r *Room) StoodStill() {
	r.seq++
	r.stood = r.seq
}

// known is the last status that was said longer ago than unheard, among those that are remembered; -1: none.
func (r *Room) known(now time.Time) int {
	i := 0
	for i < len(r.said) && now.Sub(r.said[i].at) > unheard {
		i++
	}
	return i - 1
}

const (
	// stock clients ask twice more, and this is half of what it takes until another leads, or this one again
	AgainSoon  = 3500 * time.Millisecond
	AgainFull  = 10 * time.Second // somebody has made room on a disk
	AgainStale = time.Minute

	DiskFull = "the disk of the hub's journal is nearly full: no new money is held"
)

// Closed returns why the hub takes no tasks now ("": it takes them), and when it may be worth asking again.
// waits: whether its journal is the newest will soon be heard.
func (r *Room) Closed(waits bool) (why string, again time.Duration) {
	switch {
	case r.turn.Draining:
		return "the hub is stopping", AgainSoon
	case r.turn.Doubt != "" && waits:
		return r.turn.Doubt, AgainSoon
	case r.turn.Doubt != "":
		return r.turn.Doubt, AgainStale
	case r.turn.Full:
		return DiskFull, AgainFull
	}
	return "", 0
}

// Add adds an agent of so many slots to what a hub says. m is what there is to say of that agent alone.
func Add(s *bus.Status, slots int, m bus.ModelStatus) {
	s.Agents++
	s.Slots += slots
	s.Free += m.Free
	i, ok := slices.BinarySearchFunc(s.Models, m, func(a, b bus.ModelStatus) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.Pools, b.Pools))
	})
	if !ok {
		s.Models = slices.Insert(s.Models, i, m)
		return
	}
	x := &s.Models[i]
	x.Agents++
	x.Free += m.Free
	x.Quality, x.TTFTUS = max(x.Quality, m.Quality), min(x.TTFTUS, m.TTFTUS)
	x.SlotPrice = min(x.SlotPrice, m.SlotPrice)
	x.MaxModelLen, x.Cards = max(x.MaxModelLen, m.MaxModelLen), x.Cards.With(m.Cards)
	if m.Price.Miss+m.Price.Out < x.Price.Miss+x.Price.Out {
		x.Price = m.Price
	}
}

// Soon has a status be said as soon as may be: who listens has missed the last.
func (r *Room) Soon() { r.turn.Changed, r.next = true, r.turn.Now() }

// Next returns when the next status is due.
func (r *Room) Next() time.Time { return r.next }

// Due reports whether one is to be said now, on change or as time has passed. It is said then.
func (r *Room) Due() bool {
	now, every := r.turn.Now(), r.every
	if now.Before(r.turn.Back) {
		every = min(every, max(backEvery, Least))
	}
	due := r.last.Add(every)
	if r.turn.Changed {
		due = r.last.Add(Least)
	}
	if r.next = due; now.Before(due) {
		return false
	}
	r.seq++
	r.last, r.next, r.turn.Changed = now, now.Add(every), false
	if n := len(r.said); n == 0 || now.Sub(r.said[n-1].at) >= sayEvery {
		r.said = append(slices.Delete(r.said, 0, max(0, r.known(now))), saying{r.seq, now})
	}
	return true
}
