package virtual

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"souk/agentd"
	"souk/agentd/kvevent"
	"souk/bus"
	"souk/bus/openai"
	"souk/cmd/choices"
	"souk/hub"
	"souk/hub/regime"
	"souk/ledger"
	"souk/market"
)

// MarketOptions configure a market in virtual time.
type MarketOptions struct {
	Hub     hub.Config // NewMarket fills in its names
	Setting *Setting   // whose engines its agents have
	Engine  EngineConfig
	Agents  int

	Hop, Sync time.Duration // how long a message takes, and how long making frames durable
	Named     bool          // callers name their sessions
	Ends      bool          // and tell with the last turn that it is the last
	Events    bool          // engines publish what becomes of their blocks
	Quiet     time.Duration // agents speak no more often than that, if that is longer than usual
	Context   int           // tokens that a prompt and its answer may have; 0: 8192
	Thought   int           // of them, reasoning that each answer begins with
	Wishes    bool          // engines do what policies want, see [hub.Ready]
	Seed      uint64
	Split     []int              // agents that say that others compute their prompts
	Only      []int              // engines that its hub has, of those of the setting; nil: all
	Journal   func(frame []byte) // gets each frame that is written; may be nil
	// by which it is told how long parts take, on the machine that computes them; nil: nobody asks
	Clock func() time.Duration
	// how long the hub computes a round of so many tasks that wait and so many agents, and does nothing else;
	// nil: no time
	Computes func(tasks, agents int) time.Duration

	Status func(now time.Time, s *bus.Status) // hears what the hub says of itself; may be nil
	Client func(caller int) string            // whose a caller's tasks are
	Hints  func(r *Request, t *bus.Task)      // what a caller says beside; nil: nothing
	Paid   func(r *Request, paid *bus.Result) // how an answer ended; may be nil
}

// acks is the prefix of the subjects on which agents hear that their completions were recorded.
const acks = "ack."

// Names in the market, which has one domain.
const (
	domain  = "general"
	journal = "hub-general"
	model   = "tiny"
)

// Card is the price of the simulated model, in credits per million tokens. It is the row that openrouter
// publishes for meta-llama/llama-3.1-8b-instruct. That row has no price for cached tokens, so a tenth of Miss
// is taken, as for similar models.
var Card = market.Price{Miss: market.Credit / 50, Hit: market.Credit / 500, Out: market.Credit / 20}

// Score is the quality of every engine: they are equal.
const Score = 0.7

// NewMarketOptions returns the options of a market with default settings.
func NewMarketOptions(s Setting) MarketOptions {
	var split []int
	for _, p := range s.Pools {
		split = append(split, p.Decode...)
	}
	return MarketOptions{Hub: choices.Hub(), Split: split, Setting: &s, Engine: s.Engine, Agents: s.Engines,
		Client: s.client, Context: s.Context, Thought: s.Thought, Hop: s.Hop, Sync: time.Millisecond,
		Seed: s.Seed}
}

// Market is the real market as a Policy. It reads each request as a door does, and has a hub.Node, and an
// agentd.Agent for each engine. Each message between these passes the codec and takes a hop; making frames
// durable takes a sync. Every frame is audited as it is written: it is applied to a book, and its rounds are
// cleared again.
type Market struct {
	MarketOptions
	now  time.Time
	mail plan
	node *hub.Node
	wake time.Time // when the node wants to be ticked
	busy time.Time // until when it computes
	door []byte    // key by which names of sessions are hashed

	agents   []*seller
	byID     map[string]*seller
	requests map[string]*Request // under way, by task id
	texts    map[uint64]*Request // by the last mark of the prompt: texts that the hub may put on idle engines
	sales    map[*Request]*sale
	last     map[uint64]*Request  // by session, its last request
	wished   map[*Request]*seller // what policies want engines to do, under way
	placed   []Placed
	grants   uint64
	probes   market.Credits // what the hub was allotted of its own client's money

	audit   *ledger.Audit
	queue   []hub.Ready // turns whose frames wait for the sync that is under way
	syncing bool
	frame   []byte // memory for the next
	faults  []error

	Bytes    int             // of the journal
	Held     int             // rounds, those without an award included, of which none is recorded
	Rounds   Recorded        // in it
	Clocks   Clocks          // where a clock was given
	Late     map[string]bool // holds that the hub took for late, and wanted to give to other agents
	Wished   int             // times that an engine did what a policy wanted
	WishCost market.Credits  // what that would cost, by the card
	Seeds    int             // texts that the hub put on idle engines
	SeedCost market.Credits  // what it paid for them
}

// seller is one agent.
type seller struct {
	core *agentd.Agent
	id   string
	i    int
	wake time.Time

	reg   bus.Registration // as it is now
	card  market.Price     // of the core, which takes no other
	offer Offer
	asked market.Credits // in the epoch that is sealed

	blocks kvevent.Batch // what became of its engine's, and it has not heard
}

// sale is a task that runs at an agent.
type sale struct {
	r      *Request
	agent  *seller
	stream *agentd.Stream
	began  time.Time
	first  time.Time
}

// complete fills in the hub's names.
func complete(c *hub.Config) {
	c.Domain, c.Hub, c.Journal, c.General = domain, "hub-1", journal, true
}

// NewMarket makes a market whose hub has claimed all agents and has had a summary of each.
func NewMarket(o MarketOptions) (*Market, error) {
	complete(&o.Hub)
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], o.Seed)
	node, err := hub.NewNode(o.Hub, seed)
	if err != nil {
		return nil, err
	}
	if o.Clock == nil {
		o.Clock = func() time.Duration { return 0 }
	}
	m := &Market{MarketOptions: o, now: Start, node: node, door: []byte("door"),
		requests: map[string]*Request{}, texts: map[uint64]*Request{}, sales: map[*Request]*sale{},
		last: map[uint64]*Request{}, wished: map[*Request]*seller{},
		byID: map[string]*seller{}, Late: map[string]bool{},
		audit: ledger.NewAudit(journal, ledger.MaxLevel)}
	node.Limit = func() func() bool { m.Held++; return nil }
	const epoch = 1
	if err := node.Lead(Start, epoch); err != nil {
		return nil, err
	}
	limits := agentd.Default()
	limits.SummaryGap = max(o.Quiet, limits.SummaryGap)
	for i := range o.Agents {
		if o.Only != nil && !slices.Contains(o.Only, i) {
			continue
		}
		engine, offer, told := o.Setting.engine(i), o.Setting.offer(i), o.Setting.told(i)
		info := agentd.Info{Models: []string{cmp.Or(offer.Model, model)}, Version: "virtual",
			MaxModelLen: cmp.Or(offer.Context, o.Context, usualContext), BlockSize: engine.BlockSize,
			KVTokens: (engine.Blocks - 1) * engine.BlockSize, Forgets: o.Thought > 0}
		cfg := agentd.AgentConfig{ID: fmt.Sprintf("%s-%d", domain, i+1), Slots: engine.Slots,
			Price: told.Card, Engine: agentd.EngineConfig{URL: "http://127.0.0.1"}, Scale: 8,
			Domains: []bus.DomainScore{{Domain: domain, Score: told.Score}}}
		if o.Setting.Fleet != nil { // engines of one speed and one model are a class
			cfg.Class = offer.Model + " " + offer.Profile
		}
		if slices.Contains(o.Split, i) {
			cfg.Features = []string{bus.Split}
		}
		if err := cfg.Validate(); err != nil {
			return nil, err
		}
		a := &seller{core: agentd.NewAgent(cfg, limits, info, 1, [32]byte{}), id: cfg.ID, i: i,
			card: told.Card, offer: told}
		m.agents, m.byID[a.id] = append(m.agents, a), a
		reg := a.core.Registration("node")
		reg.Fence = int64(i + 1)
		a.core.Claimed(&bus.Claim{Agent: a.id, Domain: domain, Hub: o.Hub.Hub, Epoch: epoch,
			Fence: reg.Fence})
		if o.Hub.Pricing == market.PricingTariff {
			reg.Owner = "owner-of-" + a.id
		}
		if err := node.Join(Start, *reg); err != nil {
			return nil, err
		}
		a.reg = *reg
		if m.Events {
			a.core.Events(kvevent.Update{Restarted: true})
		}
		m.tell(a)
	}
	m.turn()
	return m, nil
}

// Near is true: the agents run on the machines of their engines.
func (m *Market) Near() bool { return true }

// Scraped gives the agents the metrics of their engines.
func (m *Market) Scraped(now time.Time, v *View) {
	m.now = now
	for _, a := range m.agents {
		m.hear(a)
		generated := int64(v.Engines[a.i].Scrape.Output)
		a.core.Healthy(&generated)
		m.tell(a)
	}
}

// tell sends the summary and the completions of an agent that are due, and plans when to look again.
func (m *Market) tell(a *seller) {
	r := a.core.Ready(m.now)
	if r.Summary != nil {
		say(m, bus.SummarySubject(r.Domain, a.id), r.Summary, func(s *bus.Summary) {
			s.Price = a.reg.Price
			m.step(s)
		})
	}
	for i := range r.Holdings {
		say(m, bus.HoldingsSubject(r.Domain, a.id), &r.Holdings[i], func(h *bus.Holdings) { m.step(h) })
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
	client := m.Client(r.Caller)
	t, _, refusal := openai.DecodeRequest(r.Body(m.Named), nil, client, m.keyOf(r.Group))
	if refusal == nil && r.script.chains != nil {
		t.Prompt = r.prompt(m.Engine.BlockSize)
	}
	if refusal == nil && r.said != nil {
		if t.SessionEnd = r.said.Last; r.said.Role != "" {
			t.Role, t.Declared = r.said.Role, true
		}
	}
	if refusal == nil && m.Hints != nil {
		m.Hints(r, t)
	}
	var unfit error
	if refusal != nil {
		unfit = refusal
	} else {
		unfit = t.Validate() // nobody would hear it, and so answer
	}
	if unfit != nil {
		m.fault(unfit)
		m.placed = append(m.placed, Placed{Request: r, Engine: Wait})
		return Wait
	}
	t.Domain, t.Reply = domain, bus.ReplyTo(client, t.ID)
	m.requests[t.ID] = r
	key := bus.SessionKey(client, t.Session)
	m.last[key] = r
	if m.Ends && r.Turn+1 == len(r.script.turns) {
		ends := &bus.SessionEnd{Client: client, Session: t.Session}
		m.after(m.Hop, func() { m.fault(m.node.Step(m.now, ends)) })
	}
	if marks := t.Prompt.Prefixes; len(marks) > 0 {
		m.texts[marks[len(marks)-1].Hash] = r
	}
	say(m, bus.HubTaskSubject(domain, "door"), t, func(got *bus.Task) {
		got.Inbox = "task." + got.ID
		m.step(got)
	})
	return Wait
}

// callerName is the client that a caller is, and oneKey the one that all are.
func callerName(caller int) string { return fmt.Sprintf("caller-%d", caller) }

const oneKey = "application"

// keyOf is the key by which the door hashes what a cache group sends, so that its marks are no other's.
func (m *Market) keyOf(group int) []byte {
	if group == 0 {
		return m.door
	}
	return fmt.Appendf(nil, "%s\x00%d", m.door, group)
}

// say delivers a message a hop later. It is encoded and decoded on the way.
func say[T any, M interface {
	*T
	bus.Message
}](m *Market, subject string, v M, hear func(M)) {
	got := M(new(T))
	var err error
	if encoded := bus.EncodeFor(v, func(data []byte) { err = bus.Decode(data, got) }); encoded != nil {
		err = encoded
	}
	if err != nil {
		m.fault(fmt.Errorf("%s: %w", subject, err))
		return
	}
	m.after(m.Hop, func() { hear(got) })
}

func (m *Market) after(d time.Duration, do func()) {
	m.mail.add(m.now.Add(d).Sub(Start), func(time.Duration) { do() })
}

// step gives the hub a message. A summary that is refused as too old is no fault.
func (m *Market) step(v bus.Message) {
	began := m.Clock()
	err := m.node.Step(m.now, v)
	m.Clocks.Hub += m.Clock() - began
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

// turn takes from the hub what is to be done, and queues it until the frames of it are durable.
func (m *Market) turn() {
	if m.busy.After(m.now) {
		m.wake = m.busy
		return
	}
	r := m.cleared()
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

// Regime returns the hub's measures of how full its domain is.
func (m *Market) Regime() regime.Stats { return m.node.Stats().Regime }

// Close ends the audit of the whole journal, at all levels, and checks that every task has ended. It returns
// the audit's report.
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
