package regime

import (
	"math"
	"time"

	"souk/hub/estimate"
	"souk/hub/turn"
	"souk/ledger"
	"souk/market"
)

// Toll charges a task for an agent beside what the market itself does: at most 0, and never by a bid. Package
// router has one.
type Toll interface {
	// Draw is a number for a task on an agent in a round of such a seed.
	Draw(seed [32]byte, task, agent string) float64
	// Of is the charge where the task costs scale in the mean of its agents, most is the largest of its
	// draws, and what the agent has cached saves it so much. None of these follows a bid.
	Of(p Params, scale market.Credits, draw, most float64, saved market.Credits) market.Credits
}

// Room measures how full a hub's domain is, and what rounds are charged for that. It reads no bid.
type Room struct {
	*Watch
	turn    *turn.Turn
	control Control
	below   Params
	toll    Toll

	missed   int // tasks that ended unserved at missedAt, by Turn.Nano
	missedAt int64

	sets  []ledger.Set // of the round at hand
	draws []float64
}

// New returns the room of a hub in whose domain nothing has happened. below holds below the knee; without a
// toll no round is charged.
func New(t *turn.Turn, c Control, below Params, toll Toll) *Room {
	return &Room{Watch: NewWatch(), turn: t, control: c, below: below, toll: toll}
}

// Params are the regime's parameters in the next round.
func (r *Room) Params() Params { return r.control.Params(r.State(), r.below) }

// MostWaiting bounds the waiting tasks that a reading looks at, as evenly as it can: 1 ms.
const MostWaiting = 256

// Observe takes a reading where it is time. It is asked after rounds, so that who waits then is not about to
// have a slot that has just come free; a hub says its status once a second, so it is seldom asked late.
// slots are those of agents that take tasks, and waiting tells of each task that waits: see [Watch.Waits]. It
// reports whether rounds are charged otherwise now: what a free slot was not worth may be charged no more.
func (r *Room) Observe(slots func() int, waiting func(tell *Watch)) (changed bool) {
	now := r.turn.Nano()
	if !r.Due(now) {
		return false
	}
	state, charged := r.State(), r.Params()
	r.Watch.Room(now, slots())
	waiting(r.Watch)
	r.Read(now)
	r.turn.Changed = r.turn.Changed || r.State() != state
	return r.Params() != charged
}

// mostMissed is after how many that end at once only every second is looked at, after twice as many every
// fourth, and so on.
const mostMissed = 64

// Unserved takes in a task that waited so long, until its deadline, or until it was worth no more than it
// costs, for a slot that others had, if they had: see [Watch.Missed]. Those whose worth was too small to win
// one are among them: who of those that wait has the slots follows bids, how many wait for how long does not,
// and where overload shows in nothing else it shows in them.
func (r *Room) Unserved(waited time.Duration, blocked func() (idle time.Duration, is bool)) {
	if r.missedAt != r.turn.Nano() {
		r.missed, r.missedAt = 0, r.turn.Nano()
	}
	every := 1
	for r.missed >= every*mostMissed {
		every *= 2
	}
	if r.missed++; r.missed%every == 0 {
		if idle, is := blocked(); is {
			r.Missed(waited, idle, every)
		}
	}
}

// Charge adds what the regime charges to every offer of a round of such a number, after one of such a hash;
// saved is what an agent's cache has made less of an offer's cost. The scale and the largest draw are taken
// over all that a task is offered, not only over what becomes an edge: bids decide which does, and bids must
// not decide tolls. Nor does it matter which other tasks are in the round.
func (r *Room) Charge(number uint64, prev [32]byte, from *estimate.Snapshot, waiters []estimate.Waiter,
	saved func(o *estimate.Offer) market.Credits) {
	p := r.Params()
	if r.sets = r.sets[:0]; p.Idle() {
		return
	}
	seed, by := Seed(prev, number), "regime"
	if r.control.Adapt {
		by += "-" + r.State().String()
	}
	for i := range waiters {
		task, offers := string(waiters[i].ID), waiters[i].Offers
		sum, count, most := market.Credits(0), market.Credits(0), math.Inf(-1)
		r.draws = r.draws[:0]
		for k := range offers {
			draw := r.toll.Draw(seed, task, string(from.Agents[offers[k].Agent].ID))
			r.draws, most = append(r.draws, draw), max(most, draw)
			if total, ok := sum.Add(offers[k].Cost); ok {
				sum, count = total, count+1
			}
		}
		scale := sum / max(1, count)
		for k := range offers {
			o := &offers[k]
			toll := r.toll.Of(p, scale, r.draws[k], most, saved(o))
			if o.Extra += toll; toll < 0 {
				r.sets = append(r.sets, ledger.Set{Policy: by, Task: task,
					Agent: string(from.Agents[o.Agent].ID), Toll: toll})
			}
		}
	}
}

// Sets returns the charges of the round, with the regime where they follow the load.
func (r *Room) Sets() []ledger.Set { return r.sets }

// Stats says how full the domain is.
type Stats struct {
	State       string
	Level       int // 0 below the knee, 1 in transition, 2 saturated
	Temperature float64
	Overlap     float64
	Rho         float64 // tokens of tasks that run and wait, by those that caches hold
	// tasks a second that the slots serve at most; 0: not known. And what speaks for twice as many, by what
	// is enough, see [Watch.Serves].
	Serves, Evidence float64
	Slowdown         float64 // the mean of the readings: times to first tokens by what idle agents take
}

// Stats says it, where tasks that run and wait have so many tokens and caches room for so many. Rho is 0
// where no agent says what its cache holds (anarchy, Prop. 5).
func (r *Room) Stats(tasks, caches int) Stats {
	p := r.Params()
	s := Stats{State: r.State().String(), Level: int(r.State()), Temperature: p.Temperature,
		Overlap: p.Overlap, Slowdown: r.Mean()}
	s.Serves, s.Evidence = r.Serves()
	if caches > 0 {
		s.Rho = float64(tasks) / float64(caches)
	}
	return s
}
