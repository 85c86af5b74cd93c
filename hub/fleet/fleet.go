// Package fleet is a room of a hub: the agents whose slots it sells. It knows which are registered and
// claimed, which take tasks, which are silent or dead, and what runs on each.
//
// A [Room] is a machine without I/O or clock: it runs on the hub's [turn.Turn]. What an agent's registration
// and its summaries say is all that it knows of them, beside the hub's own dispatches. What an agent holds in
// its cache, how fast it is and how good its answers are is for others.
package fleet

import (
	"cmp"
	"slices"
	"time"

	"souk/bus"
	"souk/bus/bounded"
	"souk/hub/estimate"
	"souk/hub/turn"
)

// Limits configures a hub's view of its agents.
type Limits struct {
	// so many are sold at once, as edges of a round grow with them; as many that have left are remembered
	MaxAgents int           `yaml:"max_agents"`
	Suspect   time.Duration `yaml:"suspect"` // without a word for so long it is probed
	Silence   time.Duration `yaml:"silence"` // without a summary for so long it gets no tasks
	// between tokens, and for a hundred of a prompt, until the agent's own are known
	SlowestITL time.Duration `yaml:"slowest_itl"`
}

// Kept is a pointer to a hub's own record of an agent, in which [Agent] is embedded.
type Kept interface {
	comparable
	self() *Agent
}

// Room has the agents of a hub, and what that keeps of each. For one goroutine.
type Room[A Kept] struct {
	turn   *turn.Turn
	limits Limits
	fresh  func(id string) A
	all    []A // by id
	gone   func(A)
	news   func()

	early   map[string]bool // agents not sold here that have said what they hold: see TooSoon
	joined  int             // agents that are sold
	slots   int             // of these
	changes uint64          // times that agents came, changed or left

	services *bounded.Cache[string, string, *Service] // by model and class

	led time.Time // since when the hub leads
}

// New returns the room of a hub without agents. fresh makes the record of a new one, gone hears of one that
// is forgotten. The room calls news when a task that did not fit may fit now.
func New[A Kept](t *turn.Turn, l Limits, fresh func(id string) A, gone func(A), news func()) *Room[A] {
	return &Room[A]{turn: t, limits: l, fresh: fresh, gone: gone, news: news, early: map[string]bool{},
		services: bounded.New[string, string, *Service](4*l.MaxAgents, 0)}
}

// All are the agents that are known, by id, to be read: sold, or not any more.
func (r *Room[A]) All() []A { return r.all }

func (r *Room[A]) search(id string) (int, bool) {
	return slices.BinarySearchFunc(r.all, id,
		func(a A, id string) int { return cmp.Compare(a.self().id, id) })
}

// Find returns the agent of an id; nil: it is not known.
func (r *Room[A]) Find(id string) (a A) {
	if i, ok := r.search(id); ok {
		a = r.all[i]
	}
	return a
}

// Enrol returns the agent of an id, new if need be.
func (r *Room[A]) Enrol(id string) A {
	i, ok := r.search(id)
	if !ok {
		r.all = slices.Insert(r.all, i, r.fresh(id))
		a := r.all[i].self()
		a.id = id
		a.timer.Due, a.watch.timer.Due = r.news, func() { r.suspect(a) }
	}
	return r.all[i]
}

// forget forgets an agent that has left and on which nothing runs, if there are many such: one that comes
// back, after a lost lease say, is known already. Rather than it, one is forgotten that an earlier life of
// the hub knew, and that has not come since.
func (r *Room[A]) forget(a *Agent) {
	if a.joined || len(a.Runs) > 0 || // as at nearly every end of a task: agents are many
		len(r.all) <= 2*r.limits.MaxAgents {
		return
	}
	i := slices.IndexFunc(r.all, func(x A) bool {
		b := x.self()
		return b.reg.Agent == "" && len(b.Runs) == 0
	})
	if i < 0 {
		i, _ = r.search(a.id)
	}
	gone := r.all[i]
	r.all = slices.Delete(r.all, i, i+1)
	r.turn.Set(&gone.self().timer, time.Time{})
	r.turn.Set(&gone.self().watch.timer, time.Time{})
	r.gone(gone)
}

// End records that an agent has a task no more.
func (r *Room[A]) End(a *Agent, client, task string) {
	a.End(client, task)
	r.forget(a)
}

// Slots returns the number of slots of all agents that are sold.
func (r *Room[A]) Slots() int { return r.slots }

// Taking counts the slots of the agents that take tasks.
func (r *Room[A]) Taking() (slots int) {
	for _, kept := range r.all {
		if a := kept.self(); a.Open(r.turn.Nano()) {
			slots += a.reg.Slots
		}
	}
	return slots
}

// Sellers yields the agents, by id, as sellers of slots.
func (r *Room[A]) Sellers(yield func(estimate.Seller) bool) {
	for _, kept := range r.all {
		a := kept.self()
		most, _ := a.slots()
		if !yield(estimate.Seller{ID: a.id, Owner: a.seller.Owner, Class: a.seller.Class, Joined: a.joined,
			Slots: most, Running: len(a.Runs)}) {
			return
		}
	}
}

// Changes counts how often agents came, changed or left.
func (r *Room[A]) Changes() uint64 { return r.changes }

// Free counts the slots that tasks can be given now, as far as the count is below most.
func (r *Room[A]) Free(most int) (free int) {
	for _, a := range r.all {
		if free >= most {
			return most
		}
		free += a.self().Free(r.turn.Nano())
	}
	return min(free, most)
}

// Full reports whether as many agents are sold as may be.
func (r *Room[A]) Full() bool { return r.joined >= r.limits.MaxAgents }

// Claim records that the hub sells an agent's slots from now on, or does so by another registration.
func (r *Room[A]) Claim(a *Agent) {
	if !a.joined { // another hub sold it meanwhile: what its next summary counts is believed
		a.said = time.Time{}
		r.joined++
	}
	a.joined = true
	r.changes++
}

// Register takes in the registration of an agent that is sold.
func (r *Room[A]) Register(a *Agent, reg bus.Registration) {
	if a.Fresh(&reg) {
		a.life, a.restarted = 0, a.reg.Agent != ""
		a.seq, a.said, a.ready, a.refusals, a.avoidUntil = 0, time.Time{}, true, 0, 0
		a.excess, a.stuck, a.own, a.prefill, a.queues = 0, 0, 0, 0, false
	}
	a.reg = reg
	a.seller.Owner, a.seller.Class = reg.Seller()
	class := reg.Model + "/" + a.seller.Class
	service, fresh := r.services.Add(class, class)
	if fresh {
		*service = new(Service)
	}
	a.service = *service
	r.sized(a, reg.Slots)
	a.drains, a.listed = reg.State == bus.StateDraining, reg.State == bus.StateReady
	a.silentFrom = r.turn.In(r.limits.Silence)
	r.Listen(a)
	if r.early[a.id] {
		delete(r.early, a.id)
		r.AskAll(a)
	}
}

// Leave records that an agent's registration, or the claim on it, is gone.
func (r *Room[A]) Leave(a *Agent) {
	if a.joined {
		r.joined--
	}
	a.joined = false
	r.changes++
	r.sized(a, 0)
	r.forget(a)
}

// sized sets the number of slots that an agent sells.
func (r *Room[A]) sized(a *Agent, slots int) {
	r.slots += slots - a.sold
	a.sold = slots
}

// An agent that refused is left alone for so long, twice as long with each refusal, up to a while.
const avoidLeast, avoidMost = 50 * time.Millisecond, 10 * time.Second

// Avoid leaves an agent alone for a while that refused a dispatch or did not answer it, longer each time.
// What is heard of while it is left alone was dispatched before, and says nothing new.
func (r *Room[A]) Avoid(a *Agent) {
	if r.turn.Nano() < a.avoidUntil {
		return
	}
	wait := min(avoidLeast<<min(a.refusals, 20), avoidMost)
	a.refusals++
	a.avoidUntil = r.turn.In(wait)
	r.turn.Set(&a.timer, r.turn.Now().Add(wait))
}

// An agent that dies does not say so, and its lease lives for seconds more. But the bus knows at once that
// nobody listens where the agent did. So the hub sends a probe, a message that needs no reply, to an agent
// that is suspect, as it has said nothing for longer than it should. If the bus says twice that nobody heard,
// long enough apart for a cut connection to be made again, the agent is dead, until it speaks. It may have
// died, or be cut off and serve on; either way it may have told a reader before that the answer has ended,
// and its account of that not have come here.

const (
	probeEvery = 250 * time.Millisecond // while an agent is suspect
	// from the first time that nobody heard: connections are made again within 200 ms, later within 500 ms
	deadAfter = 500 * time.Millisecond
	// an agent that stays away is looked after again so late at most, as long as anything may run there
	deadAgain = 30 * time.Second
)

// lookout watches one agent.
type lookout struct {
	timer  turn.Timer
	heard  time.Time // when the agent last said anything, or we began to listen
	empty  time.Time // when nobody first heard us since; zero: somebody did, or was not asked
	deaths int       // how often the agent was held to be dead, and has said nothing since
}

// Alive notes a word of an agent.
func (r *Room[A]) Alive(a *Agent) {
	a.watch.heard, a.watch.empty, a.watch.deaths = r.turn.Now(), time.Time{}, 0
}

// Listen begins to watch an agent from now on.
func (r *Room[A]) Listen(a *Agent) {
	r.Alive(a)
	r.turn.Set(&a.watch.timer, r.turn.Now().Add(r.limits.Suspect))
}

// suspect is called by a timer: the agent may be suspect.
func (r *Room[A]) suspect(a *Agent) {
	l := &a.watch
	if !r.turn.Leading || !a.joined && len(a.Runs) == 0 {
		return // until we lead, or it joins
	}
	if next := l.heard.Add(r.limits.Suspect); r.turn.Now().Before(next) {
		r.turn.Set(&l.timer, next)
		return
	}
	r.turn.Out.Probes = append(r.turn.Out.Probes, a.id)
	r.turn.Set(&l.timer, r.turn.Now().Add(probeEvery))
}

// Absent says that nobody heard a probe of an agent. It returns how often the agent was held to be dead by
// now without a word since, if it is held to be from now on, or again; else 0.
func (r *Room[A]) Absent(a *Agent) (deaths int) {
	l := &a.watch
	if !r.turn.Leading || r.turn.Now().Sub(l.heard) < r.limits.Suspect || r.turn.Now().Before(r.turn.Back) {
		return 0
	}
	if l.empty.IsZero() {
		l.empty = r.turn.Now()
	}
	if r.turn.Now().Sub(l.empty) < deadAfter {
		return 0
	}
	times := l.deaths
	a.silentFrom = 0
	r.Alive(a)
	l.deaths = times + 1
	r.turn.Set(&l.timer, r.turn.Now().Add(min(r.limits.Suspect<<min(times, 10), deadAgain)))
	return l.deaths
}

// Dead reports whether the agent was held to be dead, and has said nothing since.
func (a *Agent) Dead() bool { return a.watch.deaths > 0 }

// Silent reports whether an agent has said nothing for too long. A hub that has just come hears agents late.
func (r *Room[A]) Silent(a *Agent) bool {
	return r.turn.Nano() > a.silentFrom && r.turn.Now().After(r.led.Add(2*r.limits.Silence))
}

// State says why an agent is given nothing now; "": it is given tasks as it has slots free.
func (r *Room[A]) State(a *Agent) string {
	switch {
	case !a.joined:
		return "gone"
	case a.Dead():
		return "dead"
	case r.turn.Nano() > a.silentFrom:
		return "silent"
	case a.drains:
		return "draining"
	case !a.ready || !a.listed:
		return "not ready"
	case !a.sells:
		return "sells nothing"
	case r.turn.Nano() < a.avoidUntil:
		return "left alone"
	}
	return ""
}

// Lead begins a time of leadership: all agents are listened to from now on.
func (r *Room[A]) Lead() {
	r.led = r.turn.Now()
	clear(r.early)
	for _, a := range r.all {
		r.Listen(a.self())
	}
}

// Depose ends it: no agent is sold.
func (r *Room[A]) Depose() {
	for _, a := range slices.Clone(r.all) {
		r.Leave(a.self())
	}
}

// Back says that the bus is there again after it was away. Agents come back a little later, so none of them
// is judged before that.
func (r *Room[A]) Back() {
	r.turn.Back = r.turn.Now().Add(turn.Settling)
	for _, a := range r.all {
		if r.turn.Leading {
			r.Listen(a.self())
		}
	}
}
