package virtual

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"time"

	"souk/agentd"
	"souk/bus"
	"souk/bus/policy"
	"souk/hub"
	"souk/ledger"
	"souk/market"
)

// sync makes the frames of all queued turns durable, and then does what these turns want done.
func (m *Market) sync() {
	group := m.queue
	m.queue = nil
	frames := 0
	for i := range group {
		for j := range group[i].Frames {
			f := &group[i].Frames[j]
			m.frame = ledger.AppendFrame(m.frame[:0], f)
			data := m.frame
			m.Bytes += len(data)
			if m.Journal != nil {
				m.Journal(slices.Clone(data))
			}
			m.audited(f, data)
			frames++
		}
	}
	deliver := func() {
		for i := range group {
			m.deliver(&group[i])
		}
	}
	takes := max(0, m.busy.Sub(m.now)) // before anything is written or said
	if frames > 0 {
		takes += m.Sync
	}
	if takes == 0 {
		deliver()
		return
	}
	m.syncing = true
	m.after(takes, func() {
		m.syncing = false
		deliver()
		if len(m.queue) > 0 {
			m.sync()
		}
	})
}

// deliver sends the messages of a turn. Probes get no answer: every agent is there.
func (m *Market) deliver(r *hub.Ready) {
	if m.MarketOptions.Wishes {
		for i := range r.Wishes {
			m.wish(&r.Wishes[i])
		}
	}
	for i := range r.Dispatches {
		a := m.seller(r.Placed[i].Agent)
		say(m, bus.DispatchSubject(a.id, domain), &r.Dispatches[i],
			func(d *bus.Dispatch) { m.dispatched(a, d) })
	}
	for _, l := range r.Messages {
		m.message(l)
	}
	for _, f := range r.Funds {
		f.Request.Mark = nil // a journal that is never copied needs nobody who keeps how far it is
		say(m, bus.LedgerSubject(f.Op, domain), &f.Request,
			func(q *bus.FundsRequest) { m.treasury(f.Op, q) })
	}
	if r.Status != nil {
		say(m, bus.StatusSubject(domain), r.Status, func(s *bus.Status) {
			if m.MarketOptions.Status != nil {
				m.MarketOptions.Status(m.now, s)
			}
		})
	}
}

func (m *Market) seller(id string) *seller {
	if a := m.byID[id]; a != nil {
		return a
	}
	panic("virtual: something is for " + id + ", which is no agent here")
}

// dispatched gives a dispatch to its agent, which takes the task or refuses it.
func (m *Market) dispatched(a *seller, d *bus.Dispatch) {
	judged := *d
	judged.Price = a.card
	reply, start := a.core.Dispatch(domain, &judged)
	if start {
		r := m.requests[d.Task.ID]
		if d.Task.Client == bus.ProberOf(m.Hub.Domain) {
			r = m.seed(d)
		}
		r.most = payable(d, m.Engine.BlockSize)
		s := &sale{r: r, agent: a, began: m.now,
			stream: agentd.NewStream(m.now, d, a.core.Begin(d), 0)}
		delete(m.requests, d.Task.ID)
		if r.Prompt < cmp.Or(m.Setting.offer(a.i).Context, m.Setting.Context, usualContext) {
			m.sales[s.r] = s
			m.placed = append(m.placed, Placed{Request: s.r, Engine: a.i})
		} else {
			m.tooLong(s)
		}
	}
	say(m, bus.DispatchSubject(a.id, domain), &reply, func(got *bus.DispatchReply) { m.step(got) })
	m.tell(a)
}

// tooLong has an engine refuse a prompt that its context has no room for, as real ones do before they
// compute.
func (m *Market) tooLong(s *sale) {
	if !s.r.own {
		m.placed = append(m.placed, Placed{Request: s.r, Engine: Wait})
	}
	why := &agentd.EngineError{Code: bus.CodePromptTooLong, Message: "the prompt is longer than the context"}
	d := s.stream.Dispatch()
	e, _, err := s.stream.End(m.now, agentd.Answer{}, why, bus.MaxMessage)
	m.fault(err)
	m.after(m.Hop, func() { m.report(s.agent, d.Domain, s.agent.core.Ended(d, &e)) })
}

// payable returns how many tokens of an answer an agent relays, within a dispatch's limit and its price cap.
func payable(d *bus.Dispatch, block int) int {
	held := max(0, min(d.Cached, d.Task.Prompt.Tokens-1)) / block * block
	return max(1, sort.Search(d.MaxTokens, func(n int) bool {
		u := market.Usage{Prompt: d.Task.Prompt.Tokens, Cached: held, Output: n + 1}
		return d.Price.Cost(u)+d.Tariff > d.CostCap
	}))
}

// seed is the request for a text that the hub puts on an idle engine.
func (m *Market) seed(d *bus.Dispatch) *Request {
	marks := d.Task.Prompt.Prefixes
	of := m.texts[marks[len(marks)-1].Hash]
	return &Request{ID: -1, Play: of.Play, Turn: of.Turn, Group: of.Group, script: of.script, own: true,
		Job: Job{Hashes: of.script.blocksOf(of.Play, of.Turn, m.Engine.BlockSize, of.Group, nil),
			Prompt: of.Prompt, Output: d.MaxTokens}}
}

// wish has an engine do what a policy wants, where a slot is free: one token after what it is to use again,
// or to compute ahead, of a session. No hub's process can have that done: here it is seen what it would be
// worth.
func (m *Market) wish(e *policy.Effect) {
	i := slices.IndexFunc(m.agents, func(a *seller) bool { return policy.IDOf(a.id) == e.Agent })
	of, size := m.last[e.Session], m.Engine.BlockSize
	if i < 0 || of == nil || e.Kind != policy.KeepAlive && e.Kind != policy.Warm {
		return
	}
	a, taken := m.agents[i], 0
	for _, s := range m.sales {
		if s.agent == a {
			taken++
		}
	}
	for _, by := range m.wished {
		if by == a {
			taken++
		}
	}
	if taken >= m.Engine.Slots {
		return
	}
	r := &Request{ID: -1, Play: of.Play, Turn: of.Turn, Group: of.Group, script: of.script, own: true,
		Job: Job{Hashes: of.script.blocksOf(of.Play, of.Turn, size, of.Group, nil), Output: 1}}
	r.Prompt = min(e.Tokens/size, len(r.Hashes))*size + 1
	m.wished[r] = a
	m.placed = append(m.placed, Placed{Request: r, Engine: a.i})
}

// message delivers what the hub says to one receiver: an acknowledgement to an agent, or the answer to a
// task.
func (m *Market) message(l hub.Message) {
	switch v := l.Body.(type) {
	case *bus.CompletionAck:
		say(m, l.Subject, v, func(c *bus.CompletionAck) {
			m.seller(strings.TrimPrefix(l.Subject, acks)).core.Acked(c.Hold, c.Code)
		})
	case *bus.HoldControl:
		if v.Late { // all engines answer, so this came too late
			m.Late[v.Hold] = true
			break
		}
		say(m, l.Subject, v, func(*bus.HoldControl) {
			for _, a := range m.agents {
				if l.Subject == bus.ControlSubject(a.id, domain) {
					a.core.Asked(domain)
					m.tell(a)
				}
			}
		})
	case *bus.Call:
		say(m, l.Subject, v, func(c *bus.Call) { m.called(m.seller(c.Agent), c) })
	case *bus.Answer:
		say(m, l.Subject, v, func(a *bus.Answer) {
			id := strings.TrimPrefix(l.Subject, "task.")
			if r := m.requests[id]; r != nil && a.Result != nil {
				delete(m.requests, id)
				p := Placed{Request: r, Engine: Wait}
				if a.Result.Code == bus.CodeNoRoom {
					p.Again = time.Duration(a.Result.RetryMS) * time.Millisecond
				}
				m.placed = append(m.placed, p)
			}
		})
	}
}

// Probes is the money that the hub may spend in a run on texts that it puts on idle engines.
const Probes = market.Credit

// treasury answers the hub once its question is durable. Callers have as much money as is asked for; the
// hub's own client has Probes.
func (m *Market) treasury(op string, q *bus.FundsRequest) {
	r := &bus.FundsReply{ID: q.ID, Client: q.Client}
	left := market.MaxWorth
	if q.Client == bus.ProberOf(m.Hub.Domain) {
		left = Probes - m.probes
	}
	amount := min(q.Amount, left)
	switch {
	case op == bus.OpAllot && amount < max(1, q.Least):
		r.Code = bus.CodeInsufficientFunds
	case op == bus.OpAllot:
		m.grants++
		r.Grants = []bus.Grant{{Number: m.grants, Client: q.Client, Hub: q.Hub, Amount: amount}}
		left -= amount
	case op == bus.OpReturn:
		left += q.Amount
	}
	if r.Prepaid = left; q.Client == bus.ProberOf(m.Hub.Domain) {
		m.probes = Probes - left
	}
	m.after(m.Sync, func() {
		say(m, bus.LedgerSubject(op, domain), r, func(got *bus.FundsReply) { m.step(got) })
	})
}
