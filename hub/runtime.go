package hub

import (
	"cmp"
	"slices"
	"time"

	"souk/bus"
	runtimepolicy "souk/bus/policy"
	"souk/hub/policy"
	"souk/ledger"
	"souk/market"
)

// Runtime policies see what becomes of sessions, set bits and tolls of a round before any bid is read, and
// may want agents to use texts again. Package hub/policy hosts them; here is what a Node tells that host and
// does for it. Without a policy none of this says or does anything.

// runtime is what a Node has for its policies.
type runtime struct {
	host *policy.Host
	tick timer
	sets []ledger.Set // of the round at hand
	kept []*task      // of it: those whose outcome is another for what a policy said

	items    []runtimepolicy.Item
	verdicts []policy.Verdict
	before   map[runtimepolicy.ID]int // tasks of each client that were asked about in this round

	waiting []string // clients, and what each is owed
	owed    []float64
}

// actEvery is how often policies are asked what is to be done.
const actEvery = time.Second

// Watch has a shell hear the name of each policy that is called, and "" when it is back: who does not come
// back holds up the hub.
func (n *Node) Watch(enters func(policy string)) { n.runtime.host.Enters(enters) }

// plain reports whether agents that are alike to the market are alike to a task: nobody draws or judges each
// of them for itself.
func (n *Node) plain() bool {
	return n.params().Idle() && !n.runtime.host.Of(policy.Place).On(n.now)
}

// turnOf is a task as policies hear of it.
func (n *Node) turnOf(t *task, a *agent) policy.Turn {
	x := policy.Turn{Client: t.key.client, Key: t.session, Role: t.role}
	if a != nil {
		x.Agent = a.id
	}
	if m := t.msg; m != nil {
		x.Session, x.Parent, x.Next = m.Session, m.Parent, m.Next
		x.Back = time.Duration(m.BackMS) * time.Millisecond
	}
	return x
}

// overheard reports whether policies hear of a task: not of what the hub sends itself.
func (n *Node) overheard(t *task) bool { return n.runtime.host.Any() && t.only == nil }

func (n *Node) hearArrived(t *task) {
	if !n.overheard(t) {
		return
	}
	declared := ""
	if t.msg.Declared {
		declared = t.msg.Role
	}
	t.role = bus.RoleKey(t.key.client, declared, &t.msg.Prompt)
	x := n.turnOf(t, nil)
	n.runtime.host.Arrived(n.now, &x)
	if n.runtime.tick.place == 0 {
		n.timers.set(&n.runtime.tick, n.now.Add(actEvery))
	}
}

func (n *Node) hearPlaced(h *hold) {
	if n.overheard(h.task) {
		x := n.turnOf(h.task, h.agent)
		n.runtime.host.Placed(n.now, &x,
			market.Usage{Prompt: h.rec.Prompt, Cached: h.rec.Cached, Output: h.rec.Output})
	}
}

// hearServed says that a turn was served. Of a prompt of more tokens than its hold covers, which cannot be
// true, policies hear no more than these: who says that the session comes next would pay for them.
func (n *Node) hearServed(h *hold, c *bus.Completion) {
	if n.overheard(h.task) {
		if most := h.covers(h.most); h.most > 0 && c.Usage.Prompt > most {
			capped := *c
			capped.Usage.Prompt, capped.Usage.Cached = most, min(c.Usage.Cached, most)
			c = &capped
		}
		x := n.turnOf(h.task, h.agent)
		n.runtime.host.Served(n.now, &x, c)
	}
}

func (n *Node) hearFailed(h *hold) {
	if n.overheard(h.task) {
		x := n.turnOf(h.task, h.agent)
		n.runtime.host.Failed(n.now, &x)
	}
}

// hearAgain says that a task waits again, whose agent gave it up.
func (n *Node) hearAgain(t *task) {
	if n.overheard(t) {
		x := n.turnOf(t, nil)
		n.runtime.host.Again(n.now, &x)
	}
}

// hearUnserved says that a task has ended that no agent ever had. Else policies would take its session for
// one whose turn runs, for ever.
func (n *Node) hearUnserved(t *task) {
	if n.overheard(t) {
		x := n.turnOf(t, nil)
		n.runtime.host.Failed(n.now, &x)
	}
}

// judgePairs asks the policy of [policy.Place] about the pairs of the round, whatever was bid: those that it
// forbids leave the round, and the others are charged for what is lost by them.
func (n *Node) judgePairs() {
	x, s := &n.runtime, &n.round
	x.sets, x.kept = x.sets[:0], x.kept[:0]
	guard := x.host.Of(policy.Place)
	if !guard.On(n.now) {
		return
	}
	kept := s.pairs[:0]
	name := guard.Name()
	free := 0
	for _, a := range s.agents {
		free += a.idle()
	}
	clear(x.before)
	s.eachTask(func(pairs []pair) {
		t := s.tasks[pairs[0].task]
		x.items = x.items[:0]
		client := runtimepolicy.IDOf(t.key.client)
		ask := func(a *agent) {
			x.items = append(x.items, runtimepolicy.Item{Kind: runtimepolicy.Pair,
				Agent:   runtimepolicy.IDOf(a.id),
				Session: t.session, Role: t.role, Tokens: a.expect(t).cached, Client: client,
				Before: x.before[client], Free: free, Age: n.now.Sub(t.arrived),
				Split: slices.Contains(a.reg.Features, bus.Split)})
		}
		for _, p := range pairs {
			ask(s.agents[p.agent])
		}
		x.verdicts = resized(x.verdicts, len(pairs))
		if t.only == nil {
			x.host.Pairs(n.now, x.items, x.verdicts)
			x.counts(client)
		}
		said := len(x.sets)
		for i, p := range pairs {
			a, v := s.agents[p.agent], x.verdicts[i]
			toll := policy.Toll(v.Lost, a.second())
			if v.Never || toll < 0 {
				x.sets = append(x.sets, ledger.Set{Policy: name, Task: string(t.id), Agent: a.id, Toll: toll})
			}
			if v.Never {
				t.barred = true
			} else {
				p.toll += toll
				kept = append(kept, p)
			}
		}
		if len(x.sets) > said {
			x.kept = append(x.kept, t)
		}
	})
	s.pairs = kept
}

// owed asks the policy of [policy.Place] what clients are owed that wait. What it asks with is kept, as
// clients may be many and a hub is asked for its figures often.
func (n *Node) owed() (all []Owed) {
	x := &n.runtime
	guard := x.host.Of(policy.Place)
	if !guard.On(n.now) {
		return nil
	}
	x.items, x.waiting = x.items[:0], x.waiting[:0]
	clear(x.before)
	n.batch.Each(func(t *task, _ time.Time) {
		client := runtimepolicy.IDOf(t.key.client)
		if t.only != nil || x.before[client] > 0 {
			return
		}
		x.counts(client)
		x.waiting = append(x.waiting, t.key.client)
		x.items = append(x.items, runtimepolicy.Item{Kind: runtimepolicy.Share, Client: client})
	})
	x.owed = resized(x.owed, len(x.items))
	guard.Score(n.now, x.items, x.owed)
	for i, client := range x.waiting {
		if x.owed[i] > 0 {
			all = append(all, Owed{Client: client, Seconds: x.owed[i]})
		}
	}
	clear(x.waiting)
	slices.SortFunc(all, func(a, b Owed) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Client, b.Client))
	})
	return all[:min(len(all), mostOwed)]
}

// counts notes that a client's task was asked about.
func (x *runtime) counts(client runtimepolicy.ID) {
	if x.before == nil {
		x.before = map[runtimepolicy.ID]int{}
	}
	x.before[client]++
}

// second is what an agent's engine takes in with a second of computing prompts, at its card.
func (a *agent) second() market.Credits {
	const sample = 1024
	takes := a.prefill(sample+1, 1).Seconds()
	if takes <= 0 {
		return 0
	}
	return a.price.Cost(market.Usage{Prompt: int(min(sample/takes, bus.MaxTokens))})
}

// set is what policies set for the tasks of a round, as its record has it.
func (x *runtime) set(r *market.Round) (all []ledger.Set) {
	if len(x.sets) == 0 {
		return nil
	}
	in := map[string]bool{}
	for _, t := range r.Tasks {
		in[string(t.ID)] = true
	}
	for _, s := range x.sets {
		if in[s.Task] {
			all = append(all, s)
		}
	}
	ledger.SortSets(all)
	return all
}

// due implements timed: once a second, after a task has come.
func (x *runtime) due(n *Node) {
	if !n.leading || n.draining {
		return
	}
	n.out.Wishes = append(n.out.Wishes, n.useful(x.host.Act(n.now))...)
	n.timers.set(&x.tick, n.now.Add(actEvery))
}

// useful are the effects that may still be of use: of a session, for an agent, not too late. None is where
// tasks wait, which need the engines more.
func (n *Node) useful(all []runtimepolicy.Effect) []runtimepolicy.Effect {
	if n.batch.Len() > 0 {
		return nil
	}
	return slices.DeleteFunc(all, func(e runtimepolicy.Effect) bool {
		return !e.Until.IsZero() && n.now.After(e.Until) || e.Session == 0 || e.Tokens == 0 || e.Agent == 0
	})
}

// policyFaults says which policies were turned off.
func (n *Node) policyFaults() {
	for _, err := range n.runtime.host.Faults() {
		n.status.changed = true
		n.fault(err)
	}
}
