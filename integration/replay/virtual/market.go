package virtual

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"souk/agentd"
	"souk/bus"
	"souk/bus/openai"
	"souk/hub"
	"souk/ledger"
	"souk/market"
)

// MarketOptions are what a market in virtual time is made of.
type MarketOptions struct {
	Hub    hub.Config // its names are filled in
	Engine EngineConfig
	Agents int

	Hop, Sync time.Duration // that a message takes, and making frames durable
	Named     bool          // callers name their sessions
	Seed      uint64
	Journal   func(frame []byte) // hears what is written, if anyone wants to
}

// Names of the one domain.
const (
	domain  = "general"
	journal = "hub-general"
	model   = "tiny"
)

// Card is the price of the simulated model, in credits per million tokens: a published row (openrouter,
// meta-llama/llama-3.1-8b-instruct has no cached price, so that of its kind is taken: a tenth).
var Card = market.Price{Miss: market.Credit / 50, Hit: market.Credit / 500, Out: market.Credit / 20}

// Score is the quality of every engine: they are equal.
const Score = 0.7

// NewMarketOptions are those of a market as it is delivered.
func NewMarketOptions(s Setting) MarketOptions {
	return MarketOptions{Hub: hub.Default(), Engine: s.Engine, Agents: s.Engines,
		Hop: s.Hop, Sync: time.Millisecond, Seed: s.Seed}
}

// Market is the real market as a Policy: a door's reading of each request, a hub.Node, and an agentd.Agent
// beside each engine. What they say to each other goes through the codec and takes a hop, what is to be
// durable a sync. Every frame is audited as it is written: applied to a book, and its rounds cleared again.
type Market struct {
	MarketOptions
	now  time.Time
	mail plan
	node *hub.Node
	wake time.Time // when the node wants to be ticked
	door []byte    // keys the names of sessions

	agents   []*seller
	requests map[string]*Request // by task id, those under way
	sales    map[*Request]*sale
	placed   []Placed
	grants   uint64

	audit   *ledger.Audit
	queue   []hub.Ready // of turns whose frames wait for the sync under way
	syncing bool
	faults  []error

	Bytes int // of the journal
}

// seller is one agent.
type seller struct {
	core *agentd.Agent
	id   string
	i    int
	wake time.Time
}

// sale is a task that runs.
type sale struct {
	r      *Request
	agent  *seller
	stream *agentd.Stream
	began  time.Time
	first  time.Time
}

// complete gives the hub its names.
func complete(c *hub.Config) {
	c.Domain, c.Hub, c.Journal, c.General = domain, "hub-1", journal, true
}

// NewMarket is a market whose agents are claimed and have said how they are.
func NewMarket(o MarketOptions) (*Market, error) {
	complete(&o.Hub)
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], o.Seed)
	node, err := hub.NewNode(o.Hub, seed)
	if err != nil {
		return nil, err
	}
	m := &Market{MarketOptions: o, now: Start, node: node, door: []byte("door"),
		requests: map[string]*Request{}, sales: map[*Request]*sale{},
		audit: ledger.NewAudit(journal, ledger.MaxLevel)}
	const epoch = 1
	if err := node.Lead(Start, epoch); err != nil {
		return nil, err
	}
	limits := agentd.Default()
	info := agentd.Info{Models: []string{model}, Version: "virtual", MaxModelLen: 8192,
		BlockSize: o.Engine.BlockSize, KVTokens: (o.Engine.Blocks - 1) * o.Engine.BlockSize}
	for i := range o.Agents {
		cfg := agentd.AgentConfig{ID: fmt.Sprintf("%s-%d", domain, i+1), Slots: o.Engine.Slots,
			Price: Card, Engine: agentd.EngineConfig{URL: "http://127.0.0.1"}, Scale: 8,
			Domains: []bus.DomainScore{{Domain: domain, Score: Score}}}
		if err := cfg.Validate(); err != nil {
			return nil, err
		}
		a := &seller{core: agentd.NewAgent(cfg, limits, info, 1), id: cfg.ID, i: i}
		m.agents = append(m.agents, a)
		reg := a.core.Registration("node")
		reg.Fence = int64(i + 1)
		a.core.Claimed(&bus.Claim{Agent: a.id, Domain: domain, Hub: o.Hub.Hub, Epoch: epoch,
			Fence: reg.Fence})
		if err := node.Join(Start, *reg); err != nil {
			return nil, err
		}
		m.tell(a)
	}
	m.turn()
	return m, nil
}

// Near is true: the agents stand beside their engines.
func (m *Market) Near() bool { return true }

// First, of an answer, is relayed.
func (m *Market) First(now time.Time, r *Request, _ *View) {
	m.now = now
	s := m.sales[r]
	s.first = now
	m.relay(s, agentd.Chunk{Text: "x", Tokens: []uint32{1}, Prompt: r.Prompt, Count: 1, Events: 1})
}

func (m *Market) relay(s *sale, c agentd.Chunk) {
	_, err := s.stream.Take(m.now, c, bus.MaxMessage)
	m.fault(err)
}

// fault keeps what must not happen.
func (m *Market) fault(err error) {
	if err != nil && len(m.faults) < 100 {
		m.faults = append(m.faults, err)
	}
}

// Done settles an answer: its reader's last word, and the account for the hub.
func (m *Market) Done(now time.Time, r *Request, usage market.Usage, _ *View) {
	m.now = now
	s := m.sales[r]
	if n := usage.Output - 1; n > 0 {
		m.relay(s, agentd.Chunk{Text: "x", Tokens: []uint32{1}, Count: n, Events: 1, Finish: true})
	}
	d := s.stream.Dispatch()
	answer := agentd.Answer{Finish: "stop", Usage: usage, TTFT: s.first.Sub(s.began)}
	if usage.Output > 1 {
		answer.ITL = now.Sub(s.first) / time.Duration(usage.Output-1)
	}
	e, _, err := s.stream.End(now, answer, nil, bus.MaxMessage)
	m.fault(err)
	c := s.agent.core.Ended(d, &e)
	delete(m.sales, r)
	m.report(s.agent, d.Domain, c)
	m.tell(s.agent)
}

// report sends a completion to the hub.
func (m *Market) report(a *seller, domain string, c bus.Completion) {
	m.send(bus.CompletionSubject(domain, a.id), &c, func(data []byte) {
		got := new(bus.Completion)
		if m.decode(data, got) {
			got.Inbox = fmt.Sprintf("ack.%d", a.i)
			m.step(got)
		}
	})
}

// Scraped tells the agents what their engines say.
func (m *Market) Scraped(now time.Time, v *View) {
	m.now = now
	for i, a := range m.agents {
		generated := int64(v.Engines[i].Scrape.Output)
		a.core.Healthy(&generated)
		m.tell(a)
	}
}

// tell sends what an agent has to say by now.
func (m *Market) tell(a *seller) {
	r := a.core.Ready(m.now)
	if r.Summary != nil {
		m.send(bus.SummarySubject(r.Domain, a.id), r.Summary, func(data []byte) {
			s := new(bus.Summary)
			if m.decode(data, s) {
				m.step(s)
			}
		})
	}
	for _, c := range r.Completions {
		m.report(a, c.Domain, c.Completion)
	}
	if !r.Wake.Equal(a.wake) {
		a.wake = r.Wake
		m.mail.add(r.Wake.Sub(Start), func(time.Duration) {
			if a.wake.Equal(r.Wake) {
				a.wake = time.Time{}
				m.tell(a)
			}
		})
	}
}

// Arrive reads a request as a door does and sends it to the hub.
func (m *Market) Arrive(now time.Time, r *Request, _ *View) int {
	m.now = now
	client := fmt.Sprintf("caller-%d", r.Caller)
	t, _, refusal := openai.DecodeRequest(r.Body(m.Named), nil, client, m.door)
	if refusal != nil {
		m.fault(refusal)
		m.placed = append(m.placed, Placed{r, Wait})
		return Wait
	}
	t.Domain, t.Reply = domain, bus.ReplyTo(client, t.ID)
	m.requests[t.ID] = r
	m.send(bus.HubTaskSubject(domain, "door"), t, func(data []byte) {
		got := new(bus.Task)
		if m.decode(data, got) {
			got.Inbox = "task." + got.ID
			m.step(got)
		}
	})
	return Wait
}

// send encodes a message and has it delivered a hop later.
func (m *Market) send(subject string, v bus.Message, deliver func(data []byte)) {
	data, err := bus.Encode(v)
	if err != nil {
		m.fault(fmt.Errorf("%s: %w", subject, err))
		return
	}
	m.after(m.Hop, func() { deliver(data) })
}

func (m *Market) after(d time.Duration, do func()) {
	m.mail.add(m.now.Add(d).Sub(Start), func(time.Duration) { do() })
}

func (m *Market) decode(data []byte, v bus.Message) bool {
	err := bus.Decode(data, v)
	m.fault(err)
	return err == nil
}

// step hands the hub a message. Summaries may be old, which is no fault.
func (m *Market) step(v bus.Message) {
	err := m.node.Step(m.now, v)
	if _, summary := v.(*bus.Summary); !summary {
		m.fault(err)
	}
}

// Wake delivers what has arrived by now and has the hub act on it.
func (m *Market) Wake(now time.Time) (place []Placed, next time.Time) {
	m.now = now
	news := !m.wake.IsZero() && !m.wake.After(now)
	for due := now.Sub(Start); len(m.mail.agenda) > 0 && m.mail.agenda[0].at <= due; {
		m.mail.next().do(due)
		news = true
	}
	if news {
		m.turn()
	}
	next = m.wake
	if len(m.mail.agenda) > 0 {
		if at := Start.Add(m.mail.agenda[0].at); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	place, m.placed = m.placed, nil
	return place, next
}

// turn asks the hub what is to be done, and queues it behind its frames.
func (m *Market) turn() {
	m.node.Tick(m.now)
	r := m.node.Ready()
	m.wake = r.Wake
	for _, err := range r.Faults {
		m.fault(err)
	}
	if r.Empty() {
		return
	}
	m.queue = append(m.queue, r)
	if !m.syncing {
		m.sync()
	}
}

// sync makes the frames of all turns that have queued up durable, and then does what follows from them.
func (m *Market) sync() {
	group := m.queue
	m.queue = nil
	frames := 0
	for i := range group {
		for j := range group[i].Frames {
			f := &group[i].Frames[j]
			data := ledger.AppendFrame(nil, f)
			m.Bytes += len(data)
			if m.Journal != nil {
				m.Journal(data)
			}
			m.audit.Frame(f.Seq, f.Epoch, data)
			frames++
		}
	}
	deliver := func() {
		for i := range group {
			m.deliver(&group[i])
		}
	}
	if frames == 0 {
		deliver()
		return
	}
	m.syncing = true
	m.after(m.Sync, func() {
		m.syncing = false
		deliver()
		if len(m.queue) > 0 {
			m.sync()
		}
	})
}

// deliver sends what a turn wants said. Probes need no answer: every agent is there.
func (m *Market) deliver(r *hub.Ready) {
	for i := range r.Dispatches {
		a := m.seller(r.Placed[i].Agent)
		m.send(bus.DispatchSubject(a.id, domain), &r.Dispatches[i], func(data []byte) {
			m.dispatched(a, data)
		})
	}
	for _, l := range r.Letters {
		m.send(l.Subject, l.Message, func(data []byte) { m.letter(l, data) })
	}
	for _, f := range r.Funds {
		m.send(bus.LedgerSubject(f.Op), &f.Request, func(data []byte) { m.treasury(f.Op, data) })
	}
	if r.Status != nil {
		m.send(bus.StatusSubject(domain), r.Status, func([]byte) {})
	}
}

func (m *Market) seller(id string) *seller {
	for _, a := range m.agents {
		if a.id == id {
			return a
		}
	}
	panic("virtual: a dispatch to " + id + ", which is no agent here")
}

// dispatched has an agent take a task, or refuse it.
func (m *Market) dispatched(a *seller, data []byte) {
	d := new(bus.Dispatch)
	if !m.decode(data, d) {
		return
	}
	reply, start := a.core.Dispatch(domain, d)
	if start {
		s := &sale{r: m.requests[d.Task.ID], agent: a, began: m.now,
			stream: agentd.NewStream(m.now, d, a.core.Begin(d), 0)}
		m.sales[s.r] = s
		m.placed = append(m.placed, Placed{s.r, a.i})
		delete(m.requests, d.Task.ID)
	}
	m.send(bus.DispatchSubject(a.id, domain), &reply, func(data []byte) {
		got := new(bus.DispatchReply)
		if m.decode(data, got) {
			m.step(got)
		}
	})
	m.tell(a)
}

// letter hears what the hub says: an acknowledgement, or its answer to a task, which may be a refusal.
func (m *Market) letter(l hub.Letter, data []byte) {
	switch l.Message.(type) {
	case *bus.CompletionAck:
		c := new(bus.CompletionAck)
		if m.decode(data, c) {
			var i int
			_, err := fmt.Sscanf(l.Subject, "ack.%d", &i)
			m.fault(err)
			m.agents[i].core.Acked(c.Hold, c.Code)
		}
	case *bus.Answer:
		a := new(bus.Answer)
		if !m.decode(data, a) || a.Result == nil {
			return
		}
		id := strings.TrimPrefix(l.Subject, "task.")
		if r := m.requests[id]; r != nil {
			delete(m.requests, id)
			m.placed = append(m.placed, Placed{r, Wait})
		}
	}
}

// treasury gives what is asked for, once that is durable.
func (m *Market) treasury(op string, data []byte) {
	q := new(bus.FundsRequest)
	if !m.decode(data, q) {
		return
	}
	r := &bus.FundsReply{ID: q.ID, Client: q.Client, Prepaid: market.MaxWorth}
	if op == bus.OpAllot {
		m.grants++
		r.Grants = []bus.Grant{{Number: m.grants, Client: q.Client, Hub: q.Hub, Amount: q.Amount}}
	}
	m.after(m.Sync, func() {
		m.send(bus.LedgerSubject(op), r, func(data []byte) {
			got := new(bus.FundsReply)
			if m.decode(data, got) {
				m.step(got)
			}
		})
	})
}

// Close checks what is left: the audit of the whole journal at all levels, and that every task has ended. It
// returns what the audit saw.
func (m *Market) Close() (ledger.Report, error) {
	for len(m.mail.agenda) > 0 && (!m.node.Idle() || len(m.queue) > 0 || m.syncing) {
		m.Wake(Start.Add(m.mail.agenda[0].at))
	}
	report := m.audit.Finish()
	errs := m.faults
	for _, f := range report.Findings {
		errs = append(errs, fmt.Errorf("audit: %v", f))
	}
	if len(m.sales) > 0 || len(m.requests) > 0 {
		errs = append(errs, fmt.Errorf("%d tasks run and %d wait after the end", len(m.sales),
			len(m.requests)))
	}
	if report.Open > 0 {
		errs = append(errs, fmt.Errorf("%d holds have no end", report.Open))
	}
	return report, errors.Join(errs...)
}
