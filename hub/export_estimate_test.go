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
	n.meeting.Read(x, &copied)
	if err := n.meeting.SetTerms(x); err != nil {
		panic(err)
	}
	return x
}

// Believed returns how many tokens of a task's prompt an agent is believed to hold.
func (n *Node) Believed(agent string, m *bus.Task) int {
	return n.Forecasts.Held(&n.untaken(m).Asks, &n.fleet.Find(agent).Forecast).Cached
}

// Depth returns how many prefixes of a task's prompt an agent is believed to hold.
func (n *Node) Depth(agent string, m *bus.Task) int {
	x := n.untaken(m)
	return int(n.fleet.Find(agent).Forecast.Cache.Depth(&x.Msg.Prompt))
}

// Estimate holds a task's forecast need, cost and value at an agent.
type Estimate struct {
	estimate.Estimate
	Forecast       predict.Forecast
	Value          market.Credits
	Usable, InTime bool
}

func (n *Node) estimated(x *task, a *agent, in estimate.Delay) Estimate {
	e := n.Forecasts.At(n.turn.Nano(), &x.Asks, &a.Forecast)
	f := a.Forecast.Timed(e.First, e.Work, e.Output, in)
	// prompts in hand delay a seat
	half := a.Forecast.Half(a.Forecast.Line().Later(e.First, e.Work, besides(a)))
	return Estimate{Estimate: e, Forecast: f, Value: x.Stated().Value(e.Quote(f.TTFT)),
		Usable: n.Forecasts.Goes(&x.Asks, &a.Forecast), InTime: !n.turn.Now().Add(half).After(x.Deadline)}
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

// QueueAt returns how long an agent's prompts that are yet to be computed hold up the next one.
func (n *Node) QueueAt(agent string) time.Duration {
	return n.fleet.Find(agent).Backlog(n.turn.Nano()).Queue
}

// Busy reports whether an agent has prompts to compute.
func (n *Node) Busy(agent string) bool { return n.fleet.Find(agent).Load(n.turn.Nano()).Left > 0 }

// Ended has the class of an agent learn how long a task had a slot, and returns how long one is expected to.
func (n *Node) Ended(agent string, after time.Duration) time.Duration {
	s := n.fleet.Find(agent).Service()
	s.Kept(after)
	s.Ended(after)
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
	_, all := n.fleet.Within(&n.fleet.Find(agent).Agent, prompt, maxTokens)
	return all
}

// Usual returns what a task costs as a rule.
func (n *Node) Usual() market.Credits { return n.meeting.Usual() }

// Length returns how long a task's answer is expected to be at an agent.
func (n *Node) Length(agent string, m *bus.Task) int {
	return n.Forecasts.Answer(n.turn.Nano(), &n.untaken(m).Asks,
		n.Forecasts.Of(&n.fleet.Find(agent).Forecast))
}

// TermsOf returns the terms of a task that comes, and those that it has if it has waited since another time,
// when something else was usual.
func (n *Node) TermsOf(m *bus.Task) (comes, waits market.Terms) {
	t := n.untaken(m)
	comes = t.Terms
	t.Bid = admission.Fixed(market.Terms{Worth: 1, Delta: 1, Patience: time.Second})
	n.meeting.Agree([]*task{t})
	return comes, t.Terms
}

// Own returns how long a task is expected to keep a slot of an agent by itself.
func (n *Node) Own(agent string) time.Duration { return n.fleet.Find(agent).Service().Own() }

// besides is the delay of a first token at an agent that has computed all prompts in hand.
func besides(a *agent) estimate.Delay {
	return a.Forecast.Delay(estimate.Load{Decoding: a.Besides()})
}
