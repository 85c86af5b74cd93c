package regime

import (
	"time"

	"souk/hub/turn"
)

// Room measures how full a hub's domain is. It reads no bid, and no round goes by it.
type Room struct {
	*Watch
	turn *turn.Turn

	missed   int // tasks that ended unserved at missedAt, by Turn.Nano
	missedAt int64
}

// New returns the room of a hub in whose domain nothing has happened.
func New(t *turn.Turn) *Room { return &Room{Watch: NewWatch(), turn: t} }

// MostWaiting bounds the waiting tasks that a reading looks at, as evenly as it can: 1 ms.
const MostWaiting = 256

// Observe takes a reading where it is time. It is asked after rounds, so that who waits then is not about to
// have a slot that has just come free; a hub says its status once a second, so it is seldom asked late.
// slots are those of agents that take tasks, and waiting tells of each task that waits: see [Watch.Waits].
func (r *Room) Observe(slots func() int, waiting func(tell *Watch)) {
	now := r.turn.Nano()
	if !r.Due(now) {
		return
	}
	state := r.State()
	r.Watch.Room(now, slots())
	waiting(r.Watch)
	r.Read(now)
	r.turn.Changed = r.turn.Changed || r.State() != state
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

// Stats says how full the domain is.
type Stats struct {
	State string
	Level int     // 0 below the knee, 1 in transition, 2 saturated
	Rho   float64 // tokens of tasks that run and wait, by those that caches hold
	// tasks a second that the slots serve at most; 0: not known. And what speaks for twice as many, by what
	// is enough, see [Watch.Serves].
	Serves, Evidence float64
	Slowdown         float64 // the mean of the readings: times to first tokens by what idle agents take
}

// Stats says it, where tasks that run and wait have so many tokens and caches room for so many. Rho is 0
// where no agent says what its cache holds (anarchy, Prop. 5).
func (r *Room) Stats(tasks, caches int) Stats {
	s := Stats{State: r.State().String(), Level: int(r.State()), Slowdown: r.Mean()}
	s.Serves, s.Evidence = r.Serves()
	if caches > 0 {
		s.Rho = float64(tasks) / float64(caches)
	}
	return s
}
