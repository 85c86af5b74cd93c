// Package policies measures what runtime policies are worth: on against off, against the rule that is
// simpler, and against themselves with what they say replaced by a constant.
package policies

import (
	"cmp"
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	agentpolicy "souk/agentd/policy"
	"souk/agentd/policy/adapter"
	"souk/agentd/vllmsim"
	"souk/bus"
	"souk/bus/policy"
	"souk/integration/lab/traces"
	"souk/integration/lab/virtual"
)

// Panel is a workload on an engine that keeps fewer adapters ready than it serves.
type Panel struct {
	Name, About string
	ready       int
	sessions    int // open at a time
	plays       int // sessions in all
	pause       float64
	roles       func(lots *rand.Rand, i int) []int // of a session's turns: each needs an adapter of its own
}

// AdapterPanels returns the page's panels.
func AdapterPanels() []Panel {
	hand, generated := recorded("whowhen-hand.jsonl.gz"), recorded("whowhen-generated.jsonl.gz")
	chain := func(*rand.Rand, int) (all []int) {
		for i := range 24 {
			all = append(all, i%12)
		}
		return all
	}
	return []Panel{
		{"chain", "twelve roles that always follow one another, four ready, two sessions, tools of a second",
			4, 2, 100, 1, chain},
		{"star", "a supervisor and five others whom it chooses by who was last, three ready, two sessions, tools " +
			"of a second", 3, 2, 200, 1, star},
		{"star, at once", "the same, and the next turn comes 50 ms after one ends", 3, 2, 200, 0.05, star},
		{"star, busy", "the same with tools of a second and sixteen sessions", 3, 16, 400, 1, star},
		{"hand-crafted", "Who&When, hand-crafted: four roles, two ready, two sessions, tools of a second", 2, 2,
			120, 1, hand},
		{"generated", "Who&When, algorithm-generated: 129 roles, eight ready, two sessions, tools of a second", 8,
			2, 200, 1, generated},
		{"uniform", "eight roles by lot, four ready, two sessions, tools of a second: nothing can be learned", 4,
			2, 200, 1, func(lots *rand.Rand, _ int) (all []int) {
				for range 12 {
					all = append(all, lots.IntN(8))
				}
				return all
			}},
	}
}

// recorded are the roles of logged workflows, which a run begins anywhere.
func recorded(file string) func(lots *rand.Rand, i int) []int {
	list, err := traces.Workflows(file)
	if err != nil {
		panic(err) // they are part of the program
	}
	numbers := map[string]int{}
	var all [][]int
	for _, w := range list {
		var roles []int
		for _, s := range w.Steps {
			if s.Role == "" {
				continue
			}
			n, ok := numbers[s.Role]
			if !ok {
				n = len(numbers)
				numbers[s.Role] = n
			}
			roles = append(roles, n)
		}
		all = append(all, roles)
	}
	return func(lots *rand.Rand, _ int) []int { return all[lots.IntN(len(all))] }
}

// star are the turns of a supervisor, 0, and of those whom it chooses. The chances are the same in all runs.
func star(lots *rand.Rand, _ int) (all []int) {
	s := traces.NewStar(rand.New(rand.NewPCG(11, 1)))
	for range 6 {
		all = append(all, 0, 1+s.Next(lots))
	}
	return append(all, 0)
}

// loadTakes is the time that a step takes longer to load an adapter: some 80 MB from a disk and to the card.
const loadTakes = 200 * time.Millisecond

// AdapterFigures are the results of a run.
type AdapterFigures struct {
	Wait  float64 // ms that a turn's first token waited for adapters to be loaded, whosever they were
	Stall float64 // ms that its answer stood still for that
	Loads float64 // of 100 turns: adapters loaded
	Ahead float64 // of 100 turns: times that the policy had one loaded, or used again
}

func (f *AdapterFigures) columns() []float64 { return []float64{f.Wait, f.Stall, f.Loads, f.Ahead} }

// AdapterRules are compared, by name; "none" is the engine by itself.
var AdapterRules = []string{"none", "next", "next, constant", "most used", "told"}

// rule makes what a name says, for a run whose future told knows.
func (x *run) rule(name string) policy.Policy {
	a := adapter.New(x.ready)
	switch name {
	case "next":
		return a
	case "next, constant":
		return constant{a}
	case "most used":
		return &chooser{ready: x.ready, want: x.often, idle: x.idle}
	case "told":
		return &chooser{ready: x.ready, want: x.soon, idle: x.idle}
	}
	return nil
}

// constant says what a policy says, but that all that it scores and wants is always the same.
type constant struct{ policy.Policy }

func (constant) Score(time.Time, policy.Item) float64                               { return 1 }
func (constant) Act(_ time.Time, _ policy.Room, to []policy.Effect) []policy.Effect { return to }

// chooser has what is wanted most ready, as somebody else says.
type chooser struct {
	ready int
	used  []policy.ID // last at the end
	want  func(policy.ID) float64
	idle  func() bool // nothing runs
}

func (c *chooser) Observe(e policy.Event) {
	if e.Agent != 0 {
		c.used = append(slices.DeleteFunc(c.used, func(x policy.ID) bool { return x == e.Agent }), e.Agent)
	}
}
func (c *chooser) Score(time.Time, policy.Item) float64 { return 0 }
func (c *chooser) Act(_ time.Time, _ policy.Room, to []policy.Effect) []policy.Effect {
	if len(c.used) <= c.ready {
		return to
	}
	out, in := c.used[:len(c.used)-c.ready], c.used[len(c.used)-c.ready:]
	by := func(a, b policy.ID) int { return cmp.Compare(c.want(a), c.want(b)) }
	best, least, do := slices.MaxFunc(out, by), slices.MinFunc(in, by), in[0]
	switch {
	case least != in[0]: // something better would go first
	case c.want(best) > c.want(least) && c.idle():
		do = best
	default:
		return to
	}
	return append(to, policy.Effect{Kind: policy.Load, Agent: do})
}

// run is one engine on which sessions play.
type run struct {
	Panel
	lots   *rand.Rand
	engine *virtual.Engine
	host   agentpolicy.Host
	now    time.Duration
	agenda agenda

	played, planned int

	turns   map[*virtual.Job]*turn
	open    []*session
	loaded  []int // the one used last at the end
	loading *virtual.Job
	loads   [][2]time.Duration // steps that were longer: what they took more, from and to
	uses    map[policy.ID]float64
	tick    time.Duration
	figures AdapterFigures
	done    int
}

type session struct {
	name  string
	roles []int
	at    int
}

type turn struct {
	session       *session
	arrived, said time.Duration
}

func agent(role int) string { return fmt.Sprint("agent-", role) }

func (x *run) of(role int, s string) *policy.Turn {
	return &policy.Turn{Client: "crew", Session: bus.SessionKey("crew", s), Agent: agent(role),
		Role: policy.ID(role + 1)}
}

// PlayAdapters plays a panel by a rule.
func PlayAdapters(p Panel, rule string, seed uint64) (AdapterFigures, error) {
	profile, err := vllmsim.ProfileNamed("rtxpro6000-llama-3.1-8b")
	if err != nil {
		return AdapterFigures{}, err
	}
	x := &run{Panel: p, lots: rand.New(rand.NewPCG(seed, 7)), turns: map[*virtual.Job]*turn{},
		uses: map[policy.ID]float64{}, tick: -1}
	x.engine = virtual.NewEngine(virtual.EngineConfig{Profile: profile, Slots: 32,
		MaxBatched: profile.MaxNumBatchedTokens, Blocks: 1 << 14, BlockSize: 16})
	x.engine.Adapters, x.engine.Longer = p.ready, x.longer
	if by := x.rule(rule); by != nil {
		x.host.Set(agentpolicy.Adapter, rule, by)
	}
	for i := range p.sessions {
		x.later(time.Duration(i)*300*time.Millisecond, x.begin)
	}
	for {
		at, busy := x.engine.Next()
		if len(x.agenda) > 0 && (!busy || x.agenda[0].at <= at) {
			x.now = x.agenda[0].at
			heap.Pop(&x.agenda).(event).do()
		} else if busy {
			x.now = at
			for _, s := range x.engine.Advance(at, nil) {
				x.said(s)
			}
		} else {
			break
		}
		x.act()
	}
	if faults := x.host.Faults(); len(faults) > 0 {
		return x.figures, faults[0]
	}
	for _, f := range []*float64{&x.figures.Wait, &x.figures.Stall} {
		*f /= float64(x.done)
	}
	for _, f := range []*float64{&x.figures.Loads, &x.figures.Ahead} {
		*f *= 100 / float64(x.done)
	}
	return x.figures, nil
}

func (x *run) clock() time.Time { return virtual.Start.Add(x.now) }

// begin opens the next session.
func (x *run) begin() {
	if x.played >= x.plays {
		return
	}
	x.played++
	s := &session{name: fmt.Sprint("s-", x.played), roles: x.roles(x.lots, x.played)}
	x.open = append(x.open, s)
	x.ask(s)
}

// ask begins a session's next turn.
func (x *run) ask(s *session) {
	role := s.roles[s.at]
	j := &virtual.Job{Prompt: 400 + x.lots.IntN(800), Output: 20 + x.lots.IntN(80)}
	for i := range (j.Prompt + j.Output) / 16 {
		j.Hashes = append(j.Hashes, bus.SessionKey(s.name, fmt.Sprint(s.at, i)))
	}
	j.Sched().Adapter = int32(role + 1)
	x.turns[j] = &turn{session: s, arrived: x.now}
	x.uses[policy.IDOf(agent(role))]++
	x.host.Observe(x.of(role, s.name).Event(x.clock(), policy.Arrived))
	x.engine.Ask(x.now, j)
}

// longer returns how long the engine waits for adapters at a step.
func (x *run) longer(e *virtual.Engine) (more time.Duration) {
	var own []int
	for _, w := range e.Batch {
		if a := int(w.Seq.Sched().Adapter); !slices.Contains(own, a) {
			own = append(own, a)
		}
	}
	for _, a := range own {
		if i := slices.Index(x.loaded, a); i >= 0 {
			x.loaded = slices.Delete(x.loaded, i, i+1)
		} else {
			more += loadTakes
			x.figures.Loads++
		}
		x.loaded = append(x.loaded, a)
		x.loaded = slices.Delete(x.loaded, 0, max(0, len(x.loaded)-x.ready))
	}
	if more > 0 {
		x.loads = append(x.loads, [2]time.Duration{x.now, x.now + more})
	}
	return more
}

// loadedIn returns how much of a time the engine loaded adapters, in ms.
func (x *run) loadedIn(from, to time.Duration) (ms float64) {
	for _, l := range slices.Backward(x.loads) {
		if l[1] <= from {
			break
		}
		ms += float64(max(0, min(l[1], to)-max(l[0], from))) / 1e6
	}
	return ms
}

// said takes in that a job has its first token, or its last.
func (x *run) said(s virtual.Said) {
	if s.Job == x.loading {
		if s.Last {
			x.host.Observe(policy.Event{Kind: policy.Loaded, At: x.clock(),
				Agent: policy.IDOf(agent(int(s.Job.Sched().Adapter) - 1))})
			x.loading = nil
		}
		return
	}
	t := x.turns[s.Job]
	if s.First {
		t.said = x.now
		x.figures.Wait += x.loadedIn(t.arrived, x.now)
	}
	if !s.Last {
		return
	}
	delete(x.turns, s.Job)
	x.figures.Stall += x.loadedIn(t.said, x.now)
	x.done++
	own := t.session
	of := x.of(own.roles[own.at], own.name)
	x.host.Observe(of.Ended(x.clock(), &bus.Completion{Outcome: bus.OutcomeDone}))
	pause := time.Duration(x.pause * math.Exp(0.5*x.lots.NormFloat64()) * 1e9)
	if own.at++; own.at == len(own.roles) {
		x.host.Observe(of.Event(x.clock(), policy.Ended))
		x.open = slices.DeleteFunc(x.open, func(o *session) bool { return o == own })
		x.later(x.now+pause, x.begin)
		return
	}
	x.later(x.now+pause, func() { x.ask(own) })
}

// act does what the policy wants, as an agent does: one at a time, where the engine has a sequence free.
func (x *run) act() {
	for _, e := range x.host.Act(x.clock()) {
		if x.loading != nil || len(x.engine.Running)+len(x.engine.Waiting) >= x.engine.Slots {
			continue
		}
		for role := range 1 << 10 {
			if policy.IDOf(agent(role)) == e.Agent {
				x.figures.Ahead++
				x.loading = &virtual.Job{Prompt: 1, Output: 1}
				x.loading.Sched().Adapter = int32(role + 1)
				x.engine.Ask(x.now, x.loading)
				break
			}
		}
	}
	if wake := x.host.Wake(); !wake.IsZero() && x.tick <= x.now && (len(x.open) > 0 || x.played < x.plays) {
		x.tick = max(x.now+1, wake.Sub(virtual.Start))
		x.later(x.tick, func() {})
	}
}

func (x *run) idle() bool { return len(x.turns) == 0 }

// often returns how often an adapter was asked for.
func (x *run) often(a policy.ID) float64 { return x.uses[a] }

// soon is 1 for an adapter that an open session asks for next, and half for the turn after that.
func (x *run) soon(a policy.ID) (most float64) {
	for _, s := range x.open {
		from := s.at
		for _, t := range x.turns {
			if t.session == s {
				from++ // this one runs
			}
		}
		for i := from; i < len(s.roles) && i < from+2; i++ {
			if policy.IDOf(agent(s.roles[i])) == a {
				most = max(most, 1/float64(i-from+1))
			}
		}
	}
	for j := range x.turns {
		if policy.IDOf(agent(int(j.Sched().Adapter)-1)) == a {
			most = 2
		}
	}
	return most
}

type event struct {
	at    time.Duration
	order int
	do    func()
}

type agenda []event

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].order < a[j].order
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(e any)   { *a = append(*a, e.(event)) }
func (a *agenda) Pop() any {
	e := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return e
}

// later plans what is done at a time.
func (x *run) later(at time.Duration, do func()) {
	x.planned++
	heap.Push(&x.agenda, event{at, x.planned, do})
}
