// Package adapter is the runtime policy adapter: it has the LoRA adapter that a session needs next loaded
// before its turn comes, on an engine that keeps fewer of them ready than it serves.
//
// Each agent of such an engine sells one adapter, so who serves a turn says which one it needs. The policy
// learns which agent serves a session after which others, and so which one all sessions that are open will
// want in their next two turns. It knows what the engine has ready, as that drops what was used longest ago:
// an adapter that is wanted more than what would go is loaded where nothing runs, since everything stands
// still meanwhile; and one that is wanted and about to be dropped is used again, which costs a token.
package adapter

import (
	"math"
	"slices"
	"time"

	"souk/bus/bounded"
	"souk/bus/policy"
)

// Adapter is the policy.
type Adapter struct {
	policy.Silent
	ready    int // adapters that the engine keeps so: --max-cpu-loras
	sessions *bounded.Cache[policy.ID, owned, session]
	states   *bounded.Cache[policy.ID, owned, state]
	all      []adapter // that there are, the one used last at the end

	wants []float64 // scratch: of all
}

// owned is a client's session or state: agents tell the numbers of both, and two clients may have one of the
// same number, each its own.
type owned struct{ client, key policy.ID }

// session tracks a session's turns.
type session struct {
	at    time.Duration // its last turn arrived or ended, since 1970
	state policy.ID     // of that turn; before: of the one before
	prior policy.ID
	busy  bool // it runs
}

// state counts which turns follow a turn of an agent's in a role, alone or after a given earlier turn.
type state struct {
	turns float32 // that have ended
	pause float32 // seconds, mean
	next  [successors]pair
}

// pair is an agent that came next, in 16 bytes.
type pair struct {
	agent policy.ID
	times float32
}

// adapter tracks the tasks of one adapter, by the agent that sells it.
type adapter struct {
	agent policy.ID
	last  policy.ID // state of the turn that it served last
	runs  int32
	since time.Duration // runs was above zero all the time, since 1970
}

const (
	mostSessions = 256
	mostStates   = 1024
	mostAdapters = 2048 // more than an engine may keep ready: see agentd's configuration
	successors   = 8
	mostTurns    = 256 // of a state: then half of all is forgotten
	backOff      = 4   // turns that the shorter memory counts as
	nextTurn     = 0.5 // what a turn counts that comes after the next
	leastChance  = 0.05
	// an adapter is loaded where the chance that it is asked for is so much higher than that of what goes
	margin = 0.25
	// a session that pauses for so many times the mean does not come back
	patience            = 4
	leastWait, mostWait = time.Second, 2 * time.Minute
	// who runs for so long without a pause is taken to run nothing, and a session whose turn takes so long to
	// be gone: an end may be lost
	longestRun = 30 * time.Minute
)

// New knows no sessions yet. The engine keeps so many adapters ready.
func New(ready int) *Adapter {
	return &Adapter{ready: ready, sessions: bounded.New[policy.ID, owned, session](mostSessions, 0),
		states: bounded.New[policy.ID, owned, state](mostStates, 0)}
}

// Observe implements policy.Policy.
func (a *Adapter) Observe(e policy.Event) {
	if e.Agent == 0 && e.Kind != policy.Ended {
		return
	}
	at := time.Duration(e.At.UnixNano())
	switch e.Kind {
	case policy.Arrived:
		a.used(e.Agent, 1, at)
		if e.Session != 0 {
			s, made := a.sessions.Add(e.Client, owned{e.Client, e.Session})
			if !made && !s.busy && s.state != 0 {
				pause := max(0, at-s.at).Seconds()
				a.follows(e.Client, s.state, e.Agent, pause)
				if s.prior != 0 {
					a.follows(e.Client, after(s.prior, s.state), e.Agent, pause)
				}
			}
			s.prior, s.state = s.state, stateOf(e.Agent, e.Role)
			a.all[len(a.all)-1].last = s.state
			s.at, s.busy = at, true
		}
	case policy.Served, policy.Failed:
		a.used(e.Agent, -1, at)
		s := a.sessions.Get(owned{e.Client, e.Session})
		if s == nil || !s.busy {
			return
		}
		s.at, s.busy = at, false
		for _, key := range s.keys() {
			x, _ := a.states.Add(e.Client, owned{e.Client, key})
			if x.turns++; x.turns >= mostTurns {
				x.turns /= 2
				for i := range x.next {
					x.next[i].times /= 2
				}
			}
		}
	case policy.Ended:
		if s := a.sessions.Peek(owned{e.Client, e.Session}); s != nil {
			*s = session{}
		}
	case policy.Loaded:
		a.used(e.Agent, 0, at)
	}
}

func stateOf(agent, role policy.ID) policy.ID { return max(1, policy.Mixed(agent^policy.Mixed(role))) }

// after is the state of a turn after another.
func after(prior, state policy.ID) policy.ID { return max(1, policy.Mixed(prior^3*state)) }

// keys are the states of a session's last turn: by itself, and after the one before.
func (s *session) keys() []policy.ID {
	if s.prior == 0 {
		return []policy.ID{s.state}
	}
	return []policy.ID{s.state, after(s.prior, s.state)}
}

// used notes that an adapter was used just now, and whether a task of its runs more or less.
func (a *Adapter) used(agent policy.ID, runs int32, at time.Duration) {
	i := a.find(agent)
	x := adapter{agent: agent}
	if i >= 0 {
		x = a.all[i]
		a.all = slices.Delete(a.all, i, i+1)
	} else if len(a.all) >= mostAdapters {
		a.all = slices.Delete(a.all, 0, 1)
	}
	if x.runs == 0 {
		x.since = at
	}
	x.runs = max(0, x.runs+runs)
	a.all = append(a.all, x)
}

// follows notes that an agent came next in a state, so many seconds after its turn's end.
func (a *Adapter) follows(client, key, agent policy.ID, pause float64) {
	x, _ := a.states.Add(client, owned{client, key})
	x.pause += float32((pause - float64(x.pause)) / float64(min(max(x.turns, 1), 32)))
	least := 0
	for i := range x.next {
		if x.next[i].agent == agent {
			x.next[i].times++
			return
		}
		if x.next[i].times < x.next[least].times {
			least = i
		}
	}
	x.next[least] = pair{agent, 1}
}

// chances adds how likely it is of each adapter that it serves a session's next turn.
func (a *Adapter) chances(client policy.ID, s *session, to []float64) {
	one := a.states.Peek(owned{client, s.state})
	weight := 1.0
	if s.prior != 0 { // by what came before, too, as far as that was seen
		if two := a.states.Peek(owned{client, after(s.prior, s.state)}); two != nil {
			weight = backOff / float64(backOff+float64(two.turns))
			a.add(two, 1/float64(backOff+float64(two.turns)), to)
		}
	}
	if one != nil {
		a.add(one, weight/float64(max(one.turns, 1)+1), to)
	}
}

func (a *Adapter) add(x *state, each float64, to []float64) {
	for _, p := range x.next {
		if i := a.find(p.agent); i >= 0 {
			to[i] += float64(float64(p.times) * each)
		}
	}
}

func (a *Adapter) find(agent policy.ID) int {
	if agent == 0 {
		return -1
	}
	return slices.IndexFunc(a.all, func(x adapter) bool { return x.agent == agent })
}

// open reports whether a session is likely to have another turn.
func (a *Adapter) open(now time.Time, client policy.ID, s *session) bool {
	if s.state == 0 {
		return false
	}
	idle := time.Duration(now.UnixNano()) - s.at
	if s.busy {
		return idle < longestRun
	}
	x := a.states.Peek(owned{client, s.state})
	if x == nil {
		return false
	}
	wait := min(max(time.Duration(patience*float64(x.pause)*float64(time.Second)), leastWait), mostWait)
	return idle <= wait
}

// want works out how likely it is of each adapter that an open session asks for it next, or half as much the
// turn after that. It stops where it has no steps left.
func (a *Adapter) want(now time.Time, work *policy.Work) bool {
	n := len(a.all)
	a.wants = append(a.wants[:0], make([]float64, 3*n)...)
	next, then := a.wants[n:2*n], a.wants[2*n:]
	a.wants = a.wants[:n]
	for i := range a.all {
		if time.Duration(now.UnixNano())-a.all[i].since >= longestRun {
			a.all[i].runs = 0
		}
	}
	ok := true
	for of, s := range a.sessions.All() {
		client := of.client
		if !a.open(now, client, s) {
			continue
		}
		if ok = work.Take(1 + n/4); !ok {
			break
		}
		clear(next)
		clear(then)
		a.chances(client, s, next)
		for i, p := range next {
			if key := a.all[i].last; p > leastChance && key != 0 {
				if x := a.states.Peek(owned{client, key}); x != nil {
					a.add(x, float64(p*nextTurn)/float64(max(x.turns, 1)+1), then)
				}
			}
		}
		for i := range a.wants {
			p := min(1, next[i]+then[i])
			a.wants[i] = 1 - float64((1-a.wants[i])*(1-p))
		}
	}
	for i := range a.all {
		if a.all[i].runs > 0 {
			a.wants[i] = math.Inf(1) // it is used at each step
		}
	}
	return ok
}

// Act implements policy.Policy: one adapter at a time.
func (a *Adapter) Act(now time.Time, r policy.Room, to []policy.Effect) []policy.Effect {
	if a.ready < 1 || len(a.all) <= a.ready || !a.want(now, r.Work) {
		return to // all are ready
	}
	// What was used longest ago goes next, and what runs is used now.
	ready, out := make([]int, 0, len(a.all)), -1
	for i := range a.all {
		if a.all[i].runs == 0 {
			ready = append(ready, i)
		}
	}
	running := len(a.all) - len(ready)
	keeps := max(0, a.ready-running) // of those that do not run
	for _, i := range ready[:max(0, len(ready)-keeps)] {
		if out < 0 || a.wants[i] > a.wants[out] {
			out = i
		}
	}
	ready = ready[max(0, len(ready)-keeps):]
	if len(ready) == 0 || out < 0 {
		return to
	}
	oldest, least := ready[0], ready[0]
	for _, i := range ready {
		if a.wants[i] < a.wants[least] {
			least = i
		}
	}
	switch {
	case a.wants[out] > a.wants[least]+margin && least == oldest && running == 0:
		to = a.load(to, out, now)
	case a.wants[oldest] > a.wants[least]+margin: // something better goes first
		to = a.load(to, oldest, now)
	}
	return to
}

func (a *Adapter) load(to []policy.Effect, i int, now time.Time) []policy.Effect {
	return append(to, policy.Effect{Kind: policy.Load, Agent: a.all[i].agent, Until: now.Add(leastWait)})
}
