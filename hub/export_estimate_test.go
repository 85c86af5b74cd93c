package hub

import (
	"time"

	"souk/bus"
	"souk/hub/admission"
	"souk/hub/estimate"
	"souk/hub/predict"
	"souk/hub/queue"
	"souk/market"
)

// What tests from outside see of quotes, beside what [Node.Quote] says.

// untaken is a task as the Node reads it, that it does not take.
func (n *Node) untaken(m *bus.Task) *task {
	copied := *m
	x := &task{Request: admission.New(m.Client, m.ID, m.Content(), 0),
		Entry: queue.New(m.Client, n.turn.Now(), time.Time{})}
	n.read(x, &copied)
	if err := n.setTerms(x); err != nil {
		panic(err)
	}
	return x
}

// Believed returns how many tokens of a task's prompt an agent is believed to hold.
func (n *Node) Believed(agent string, m *bus.Task) int {
	return n.heldBy(n.untaken(m), n.fleet.Find(agent)).Cached
}

// Depth returns how many prefixes of a task's prompt an agent is believed to hold.
func (n *Node) Depth(agent string, m *bus.Task) int {
	x := n.untaken(m)
	return int(n.fleet.Find(agent).cache.Depth(&x.Msg.Prompt))
}

// Estimate holds a task's forecast need, cost and value at an agent.
type Estimate struct {
	estimate.Estimate
	Forecast       predict.Forecast
	Value          market.Credits
	Usable, InTime bool
}

func (n *Node) estimated(x *task, a *agent, in estimate.Delay) Estimate {
	e := n.estimate(x, a, n.heldBy(x, a))
	e.Service = 0 // by what ended in this life of the hub alone
	f := a.predictor.Timed(e.First, e.Work, e.Output, in)
	half := a.predictor.Half(a.later(&e, a.Besides())) // prompts in hand delay a seat
	return Estimate{Estimate: e, Forecast: f, Value: x.Stated().Value(e.Quote(f.TTFT)), Usable: n.goes(x, a),
		InTime: !n.turn.Now().Add(half).After(x.Deadline())}
}

// Estimate returns that of a task that has not come, at an agent with what it has in hand.
func (n *Node) Estimate(agent string, m *bus.Task) Estimate {
	a := n.fleet.Find(agent)
	return n.estimated(n.untaken(m), a, a.Backlog(n.turn.Nano()))
}

// IdleEstimate returns that at the agent as if it had nothing in hand.
func (n *Node) IdleEstimate(agent string, m *bus.Task) Estimate {
	return n.estimated(n.untaken(m), n.fleet.Find(agent), estimate.Delay{})
}

// Queue returns how long an agent's prompts that are yet to be computed hold up the next one.
func (n *Node) Queue(agent string) time.Duration {
	return n.fleet.Find(agent).Backlog(n.turn.Nano()).Queue
}

// Busy reports whether an agent has prompts to compute.
func (n *Node) Busy(agent string) bool { return n.fleet.Find(agent).Load(n.turn.Nano()).Left > 0 }

// Ended has the class of an agent learn how long a task had a slot, and returns how long one is expected to.
func (n *Node) Ended(agent string, after time.Duration) time.Duration {
	s := n.fleet.Find(agent).Service()
	s.Ended(0, after)
	return s.Mean()
}

// Estimates returns those of a task that waits, by agent; nil if none of that name does.
func (n *Node) Estimates(client, id string) map[string]Estimate {
	t := n.admission.Find(client, id)
	if t == nil {
		return nil
	}
	all := map[string]Estimate{}
	for _, a := range n.fleet.All() {
		all[a.ID()] = n.estimated(t, a, a.Backlog(n.turn.Nano()))
	}
	return all
}

// Slowest returns how long an agent's engine may take for a token.
func (n *Node) Slowest(agent string) time.Duration {
	return n.fleet.Slowest(&n.fleet.Find(agent).Agent)
}

// AnswerWithin returns for how long money is held for an answer at an agent.
func (n *Node) AnswerWithin(agent string, prompt, maxTokens int) time.Duration {
	return n.fleet.Within(&n.fleet.Find(agent).Agent, prompt, maxTokens)
}

// Usual returns what a task costs as a rule.
func (n *Node) Usual() market.Credits { return n.usual() }

// Length returns how long a task's answer is expected to be at an agent.
func (n *Node) Length(agent string, m *bus.Task) int {
	return n.forecasts.Answer(n.turn.Nano(), &n.untaken(m).asks, n.class(n.fleet.Find(agent)))
}

// TermsOf returns the terms of a task that comes, and those that it has if it has waited since another time,
// when something else was usual.
func (n *Node) TermsOf(m *bus.Task) (comes, waits market.Terms) {
	t := n.untaken(m)
	comes = t.Terms()
	t.Bid = admission.Fixed(market.Terms{Worth: 1, Delta: 1, Patience: time.Second})
	n.agree([]*task{t})
	return comes, t.Terms()
}
