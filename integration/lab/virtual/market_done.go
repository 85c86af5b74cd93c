package virtual

import (
	"time"

	"souk/agentd"
	"souk/bus"
	"souk/market"
)

// First relays the first token of an answer.
func (m *Market) First(now time.Time, r *Request, _ *View) {
	m.now = now
	s := m.sales[r]
	if s == nil {
		return // a wish
	}
	s.first = now
	m.relay(s, agentd.Chunk{Text: "x", Tokens: []uint32{1}, Prompt: r.Prompt, Count: 1, Events: 1})
	var ids []uint32
	if size := m.Engine.BlockSize; m.Events {
		ids = append(tokens(r.Hashes[:r.Prompt/size], size), make([]uint32, r.Prompt%size)...)
		m.hear(s.agent)
	}
	s.agent.core.Began(s.stream.Dispatch(), ids)
	m.tell(s.agent)
}

func (m *Market) relay(s *sale, c agentd.Chunk) {
	_, err := s.stream.Take(m.now, c, bus.MaxMessage)
	m.fault(err)
}

// fault keeps the first error that must not happen.
func (m *Market) fault(err error) {
	if err != nil && len(m.faults) < 100 {
		m.faults = append(m.faults, err)
	}
}

// Done ends an answer: the agent tells its reader the end, and the hub what was used.
func (m *Market) Done(now time.Time, r *Request, usage market.Usage, _ *View) {
	m.now = now
	if m.wished[r] != nil {
		delete(m.wished, r)
		m.Wished, m.WishCost = m.Wished+1, m.WishCost+m.Setting.offer(r.Engine).Card.Cost(usage)
		return
	}
	s := m.sales[r]
	if n := usage.Output - 1; n > 0 {
		m.relay(s, agentd.Chunk{Text: "x", Tokens: []uint32{1}, Count: n, Thought: max(0, min(m.Thought,
			n)-1),
			Events: 1, Finish: true})
	}
	d := s.stream.Dispatch()
	if r.own {
		m.Seeds, m.SeedCost = m.Seeds+1, m.SeedCost+m.Setting.offer(r.Engine).Card.Cost(usage)
	}
	if h, ok := m.node.Book().Hold(d.Hold); ok {
		r.believed = h.Cached
	}
	finish := "stop"
	if r.Cut {
		finish = "length"
	}
	answer := agentd.Answer{Finish: finish, Usage: usage, TTFT: s.first.Sub(s.began)}
	if usage.Output > 1 {
		answer.ITL = now.Sub(s.first) / time.Duration(usage.Output-1)
	}
	e, _, err := s.stream.End(now, answer, nil, bus.MaxMessage)
	m.fault(err)
	r.Paid, r.Due = e.Result.Paid(), e.Result.Cost
	m.hear(s.agent)
	if m.Paid != nil && !r.own {
		m.Paid(r, &e.Result)
	}
	c := s.agent.core.Ended(d, &e)
	delete(m.sales, r)
	m.report(s.agent, d.Domain, c)
	m.tell(s.agent)
}

// report sends a completion to the hub.
func (m *Market) report(a *seller, domain string, c bus.Completion) {
	say(m, bus.CompletionSubject(domain, a.id), &c, func(got *bus.Completion) {
		got.Inbox = acks + a.id
		m.step(got)
	})
}
