package virtual

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"souk/cmd/replay"
	"souk/market"
)

// Terms names the terms that callers state.
type Terms string

// The choices of terms; "" is the trace's.
const (
	NoTerms Terms = "none"    // nothing: the hub's own hold
	Tempers Terms = "tempers" // hurried, exacting, balanced and thrifty in turn, as the clients of souk run
	Spread  Terms = "spread"  // worths that differ a hundredfold
)

// AllTerms are the choices.
var AllTerms = []Terms{NoTerms, Tempers, Spread}

// Callers says to which clients the tasks belong.
type Callers string

// The choices of callers; "" is OwnKeys.
const (
	OwnKeys Callers = "own"     // each caller is a client
	OneKey  Callers = "one-key" // all stand behind the key of one application, which is the client
)

// AllCallers are the choices.
var AllCallers = []Callers{OwnKeys, OneKey}

// World is a trace before a fleet, with the callers' terms and clients, and their rate.
type World struct {
	Trace   Trace
	Fleet   Fleet // none: eight engines as the trace has them, or Engines
	Engines int   // of a fleet alike; 0: eight
	Terms   Terms
	Callers Callers
	Seed    uint64

	// How tasks come; both 0: as the trace has them. One at most.
	Rate     float64 // dialogues that begin in a second, at random (Poisson)
	Sessions int     // callers of a closed loop: each asks its next question when the last is answered
	Load     float64 // for the page: what part Rate is of what the fleet can serve, see [World.At]

	Tasks  int           // of a run, where the trace has no end of its own
	Length time.Duration // instead of Tasks
	Named  bool          // callers tell the market the names of their sessions

	Thought int // tokens of reasoning that each answer begins with: see [Setting.Thought]
}

// tempers are the clients of souk run, the same for every seed.
var tempers = replay.Mix(7, 512)

// temper returns the terms of a caller whose temper is drawn by its number.
func temper(caller int) (Stated, string) {
	c := &tempers[caller%len(tempers)]
	return Stated{market.Terms{Worth: *c.Terms.Worth, Delta: *c.Terms.Delta,
		Patience: time.Duration(*c.Terms.PatienceMS) * time.Millisecond}, true}, c.Kind
}

// Setting is the world as it is run.
func (w *World) Setting() (s Setting, err error) {
	if len(w.Fleet.Engines) > 0 {
		if err := w.Fleet.Validate(); err != nil {
			return s, fmt.Errorf("fleet %s: %w", w.Fleet.Name, err)
		}
	}
	if !slices.Contains(AllTerms, cmp.Or(w.Terms, NoTerms)) {
		return s, fmt.Errorf("terms %q are none of %v", w.Terms, AllTerms)
	}
	if !slices.Contains(AllCallers, cmp.Or(w.Callers, OwnKeys)) {
		return s, fmt.Errorf("callers %q are none of %v", w.Callers, AllCallers)
	}
	if !(w.Rate >= 0 && w.Rate <= mostRate) ||
		min(w.Sessions, w.Tasks, w.Engines, w.Thought, int(w.Length)) < 0 {
		return s, fmt.Errorf("a rate of %v, %d sessions, %d tasks, %v and %d engines: none may be below 0, and a "+
			"rate is at most %.0f", w.Rate, w.Sessions, w.Tasks, w.Length, w.Engines, mostRate)
	}
	engines := cmp.Or(len(w.Fleet.Engines), w.Engines, 8)
	if s, err = w.Trace.setting(engines); err != nil {
		return s, fmt.Errorf("trace %s: %w", w.Trace.Name, err)
	}
	s.Seed, s.Arrive, s.Thought = w.Seed, from(s.Arrive, w.Seed), cmp.Or(w.Thought, s.Thought)
	w.Fleet.behind(&s)
	if w.Terms != "" {
		s.Say = w.Terms
	}
	s.OneKey = w.Callers == OneKey
	if w.Length > 0 || w.Tasks > 0 && s.Tasks == 0 && s.Length == 0 {
		s.Tasks, s.Length = w.Tasks, w.Length
	}
	switch {
	case w.Rate > 0:
		s.Callers, s.Ring, s.Arrive, s.Timed, s.Midway, s.Rate = 0, 0, nil, 0, false, w.Rate
	case w.Sessions > 0:
		s.Callers, s.Ring, s.Arrive, s.Timed, s.Rate = w.Sessions, 0, nil, 0, 0
	}
	return s, nil
}

// mostRate is more dialogues a second than an engine has microseconds for.
const mostRate = 1e6

// At is the world with arrivals at each load, a part of what the fleet can serve; 0 is as the trace has them.
func (w *World) At(loads []float64) (all []World, err error) {
	most := 0.0
	for _, load := range loads {
		if load > 0 && most == 0 {
			if most, err = w.Capacity(); err != nil {
				return nil, err
			}
		}
		at := *w
		if load > 0 {
			at.Rate, at.Load = load*most, load
		} else if s, err := w.Setting(); err != nil {
			return nil, err
		} else if s.Callers > 0 && s.Ring == 0 && !s.few() && w.Sessions == 0 && w.Length == 0 {
			at.Tasks = max(at.Tasks, eachAsks*s.Callers)
		}
		all = append(all, at)
	}
	return all, nil
}

// eachAsks is the least mean number of tasks of each caller in a trace's own crowd: the first ones find
// empty engines, and say little of the crowd.
const eachAsks = 12

// Capacity returns how many dialogues of the trace can begin in a second so that the fleet serves them all:
// its throughput when twice as many callers as it has slots ask without a pause, under the rule least-loaded.
func (w *World) Capacity() (float64, error) {
	full := World{Trace: w.Trace, Fleet: w.Fleet, Engines: w.Engines, Terms: w.Terms, Seed: capacitySeed,
		Thought: w.Thought}
	s, err := full.Setting()
	if err != nil {
		return 0, err
	}
	s.Callers, s.Ring, s.Arrive, s.Timed, s.Rate, s.Think = 2*s.slots(), 0, nil, 0, 0, 0
	s.Hurried = true
	s.Midway, s.Warm, s.Tasks, s.Length = false, 0, capacityTasks*s.slots(), 0
	p, err := NewRule("least-loaded", s.Seed)
	if err != nil {
		return 0, err
	}
	all, _, err := Run(s, p)
	if err != nil {
		return 0, fmt.Errorf("what the fleet can serve of %s: %w", w.Trace.Name, err)
	}
	// what begins and ends with slots that stand empty does not count
	var done []time.Duration
	for _, r := range all {
		done = append(done, r.Done)
	}
	slices.Sort(done)
	from, to := len(done)/5, len(done)*4/5
	tasks := float64(to-from) / (done[to] - done[from]).Seconds()
	turns := 0
	for _, x := range s.Scripts {
		turns += len(x.turns)
	}
	return tasks * float64(len(s.Scripts)) / float64(turns), nil
}

// Of a fleet's capacity: how many tasks a slot serves until it is known, and from which seed.
const (
	capacityTasks = 20
	capacitySeed  = 1
)
