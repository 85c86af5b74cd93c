package hub_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"souk/bus"
	"souk/hub"
	"souk/hub/account"
	"souk/hub/tariff"
	"souk/hub/turn"
	"souk/ledger"
	"souk/market"
)

// storm plays a random market: honest and dishonest agents, clients with much and little money, lost
// messages, restarts of agents and of the hub, a treasury that falls silent. After every event the hub's
// promises are checked; at the end everything heals, and every hold must end and every client must have been
// told.
type storm struct {
	*house
	r       *rand.Rand
	restart bool // the hub may start again

	next     int
	sent     map[string]*bus.Task // by inbox
	came     map[string]time.Time // by client and task: when it was sent first
	all      []*bus.Task
	answers  map[string]int
	handed   []bus.Dispatch // accepted
	boots    map[string]int64
	seqs     map[string]uint64
	deposits market.Credits
	read     struct{ messages, frames int }
	lost     map[string]bool
	taken    map[string]ledger.Hold // the last that an agent took, by task
	calls    []*bus.Call            // for asks, not answered

	epoch     int64
	events    int                    // since promises were checked
	awards    int                    // seen
	worthless int                    // tasks that were told that they are, likewise
	outpriced int                    // or that others would have had more
	rates     []slotRates            // of late, oldest first
	full      bool                   // of the journal's disk
	rule      tariff.Rule            // as it was last set
	recovered map[string]bool        // holds that an earlier Node dispatched
	last      map[string]ledger.Hold // of each task
}

func newStorm(t *testing.T, seed uint64, restart bool) *storm {
	s := &storm{
		r: rand.New(rand.NewPCG(seed, 0)), restart: restart,
		sent: map[string]*bus.Task{}, came: map[string]time.Time{}, answers: map[string]int{},
		lost: map[string]bool{}, taken: map[string]ledger.Hold{},
		boots: map[string]int64{}, seqs: map[string]uint64{}, epoch: 7,
		recovered: map[string]bool{}, last: map[string]ledger.Hold{},
	}
	s.house = newHouse(t, func(c *hub.Config) {
		c.MaxWaiting, c.MaxWaitingPerClient, c.Batch.MaxBatch = 40, 30, 8
		c.Fee = market.Credits(seed%3) * 10_000
		c.Settle = []string{market.SettleMetered, market.SettleQuoted}[seed/3%2]
		c.Batch.Eager = seed/6%4 > 0
		if seed%8 == 1 {
			c.Prewarm.Every = 0
		}
		s.reprice(&c.Rule)
		s.rule = c.Rule
		if seed%2 == 0 { // a small room, which one client can fill
			c.MaxWaiting, c.MaxWaitingPerClient = 8, 8
		}
	})
	s.prepaid = map[string]market.Credits{"rich": 1000 * market.Credit, "poor": market.Credit / 20,
		"some": 2 * market.Credit, "probe-math": market.Credit / 4}
	for _, c := range s.prepaid {
		s.deposits += c
	}
	return s
}

// reprice draws how rounds are priced.
func (s *storm) reprice(r *tariff.Rule) {
	r.Clarke = []string{market.ClarkeClient, market.ClarkeTask}[s.r.IntN(2)]
	r.Pricing, r.Tariffs, r.Ceiling = market.PricingVCG, nil, 100_000
	switch s.r.IntN(3) {
	case 0:
		r.Pricing, r.Tariffs = market.PricingPosted,
			map[string]market.Credits{"llama": 3000, "qwen": market.Credits(s.r.IntN(2))}
	case 1:
		r.Pricing = market.PricingTariff
	}
}

func (s *storm) task() *bus.Task {
	s.next++
	client := []string{"rich", "rich", "some", "poor", "nobody"}[s.r.IntN(5)]
	m := s.house.task(client, fmt.Sprint("t", s.next))
	m.MaxTokens = []int{0, 1, 50, 400, 100_000}[s.r.IntN(5)]
	m.Prompt.Tokens = 1 + s.r.IntN(3000)
	if s.r.IntN(3) == 0 { // some begin alike
		family := uint64(s.next / 8)
		m.Prompt = bus.Prompt{Bytes: 8800, Messages: 2, Tokens: 2200,
			Prefixes: []bus.PrefixHash{{Bytes: 8000, Hash: family + 1<<40}, {Bytes: 8800,
				Hash: uint64(s.next)}}}
	}
	m.Session = fmt.Sprint("s", s.r.IntN(20))
	m.Model = []string{"", "", "llama", "qwen", "auto", "none"}[s.r.IntN(6)]
	if s.r.IntN(2) == 0 {
		w := market.Credits(s.r.Int64N(int64(market.Credit / 5)))
		m.Terms.Worth = &w
	}
	if s.r.IntN(4) == 0 {
		w := market.Credits(s.r.Int64N(int64(market.Credit / 50)))
		m.Terms.MaxPrice = &w
	}
	if s.r.IntN(6) == 0 {
		s.edge(&m.Terms)
	}
	if s.r.IntN(3) == 0 {
		m.DeadlineMS = s.now.Add(time.Duration(s.r.IntN(20_000)-500) * time.Millisecond).UnixMilli()
	}
	return m
}

// edge makes terms of the least or the most that may be said, or of more.
func (s *storm) edge(terms *bus.Terms) {
	switch s.r.IntN(4) {
	case 0:
		terms.Worth = new([]market.Credits{0, 1, market.MaxWorth, 1 << 62}[s.r.IntN(4)])
	case 1:
		terms.Delta = new([]float64{0, 5e-324, 1}[s.r.IntN(3)])
	case 2:
		terms.PatienceMS = new([]int64{0, 1, 24 * 3600 * 1000, 365 * 24 * 3600 * 1000}[s.r.IntN(4)])
	case 3:
		terms.MaxPrice = new([]market.Credits{0, 1, market.MaxWorth, 1 << 62}[s.r.IntN(4)])
	}
}

func (s *storm) send(m *bus.Task) {
	s.sent[m.Inbox] = m
	if _, ok := s.came[m.Client+"/"+m.ID]; !ok {
		s.came[m.Client+"/"+m.ID] = s.now
	}
	s.all = append(s.all, m)
	taken := *m // the hub fills in defaults
	s.give(&taken)
}

// reply answers a call for an ask, mostly as an honest agent would.
func (s *storm) reply(c *bus.Call) {
	ask := market.Ask{Owner: c.Agent, Amount: market.Credits(c.Agent[2]) * 1000,
		Nonce: [16]byte{byte(c.Epoch)}}
	m := &bus.Ask{Agent: c.Agent, Class: c.Class, Epoch: c.Epoch, Amount: ask.Amount, Nonce: ask.Nonce[:]}
	if !c.Open {
		seal := ask.Seal(c.Class, c.Epoch)
		m.Amount, m.Nonce, m.Seal = 0, nil, seal[:]
	}
	switch s.r.IntN(12) {
	case 0: // lost
		return
	case 1:
		m.Amount += 5
	case 2:
		m.Epoch++
	case 3:
		m.Agent = s.agents()[s.r.IntN(4)]
	}
	s.give(m)
}

// give steps the Node; what it does not understand is its right.
func (s *storm) give(m bus.Message) error { return s.n.Step(s.now, m) }

func (s *storm) agents() []string { return []string{"a-1", "a-2", "a-3", "a-4"} }

func (s *storm) register(id string, boot int64) {
	r := registration(id, []string{"llama", "qwen"}[len(id)*int(id[2])%2], 1+int(id[2])%3,
		0.5+float64(id[2]%5)/10, card(1+market.Credits(id[2]%3), 1, 4))
	r.Boot = boot
	s.boots[id], s.seqs[id] = boot, 0
	s.house.register(r)
}

// event lets one thing happen, after which no more rounds are held than there may be tasks.
func (s *storm) event() {
	rounds := 0
	s.n.Limit = func() func() bool {
		if rounds++; rounds > 1000 {
			panic("rounds are held without an end")
		}
		return nil
	}
	s.events++
	pick := func(d []bus.Dispatch) (bus.Dispatch, int) { i := s.r.IntN(len(d)); return d[i], i }
	id := s.agents()[s.r.IntN(4)]
	switch k := s.r.IntN(100); {
	case k < 30:
		s.send(s.task())
	case k < 33 && len(s.all) > 0: // the same task again, or another under its id
		again := *s.all[s.r.IntN(len(s.all))]
		s.next++
		again.Inbox = fmt.Sprint("again.", s.next)
		if s.r.IntN(3) == 0 {
			again.Body = []byte(`{"other":true}`)
		}
		s.send(&again)
	case k < 53 && len(s.dispatched) > 0:
		d, i := pick(s.dispatched)
		rec, ok := s.replica.Hold(d.Hold)
		s.dispatched = append(s.dispatched[:i], s.dispatched[i+1:]...)
		if !ok {
			return
		}
		switch s.r.IntN(8) {
		case 0:
			codes := []bus.Code{bus.CodeNoSlot, bus.CodeDraining, bus.CodeUnavailable, bus.CodeStaleEpoch,
				bus.CodeBadRequest}
			s.give(&bus.DispatchReply{Agent: rec.Agent, Boot: d.Boot, Hold: d.Hold, Code: codes[s.r.IntN(5)]})
		case 1: // the dispatch is lost
		case 2: // its reply is lost
			s.handed = append(s.handed, d)
		default:
			known := !s.recovered[d.Hold] // of a recovered one the hub hears nothing new
			if s.give(&bus.DispatchReply{Agent: rec.Agent, Boot: d.Boot, Hold: d.Hold}) == nil && known {
				s.taken[rec.Client+"/"+rec.Task] = rec
			}
			s.handed = append(s.handed, d)
		}
	case k < 75 && len(s.handed) > 0:
		d, i := pick(s.handed)
		if rec, ok := s.replica.Hold(d.Hold); ok {
			u := market.Usage{Prompt: 1 + s.r.IntN(4000), Output: s.r.IntN(d.MaxTokens + 1)}
			u.Cached = s.r.IntN(u.Prompt)
			c := completion(rec.Agent, d, u)
			switch s.r.IntN(8) {
			case 0:
				c.Outcome, c.Code = bus.OutcomeFailed, bus.CodeEngineFailed
				if c.Unsaid = s.r.IntN(2) == 0; c.Unsaid {
					c.Relayed = 0
				}
			case 1:
				c.Outcome = bus.OutcomeCancelled
			case 2:
				c.Cost = market.Credits(s.r.Int64N(int64(market.Credit)))
			case 3:
				c.Agent = id // perhaps another's
			}
			s.give(c)
			if s.r.IntN(3) == 0 {
				s.give(c) // repeated
			}
		}
		if s.r.IntN(4) > 0 {
			s.handed = append(s.handed[:i], s.handed[i+1:]...)
		}
	case k < 77 && len(s.calls) > 0:
		for _, c := range s.calls {
			s.reply(c)
		}
		s.calls = nil
	case k < 78 && s.next > 0:
		who := []string{"rich", "poor", "some"}[s.r.IntN(3)]
		s.give(&bus.Cancel{Client: who, Sender: who, Task: fmt.Sprint("t", 1+s.r.IntN(s.next))})
	case k < 84:
		if a := s.house.agents[id]; a != nil {
			s.seqs[id]++
			state := bus.StateReady
			if s.r.IntN(6) == 0 {
				state = []string{bus.StateDraining, bus.StateUnhealthy}[s.r.IntN(2)]
			}
			p := a.Price
			switch s.r.IntN(6) {
			case 0:
				p.Hit = p.Miss + 1
			case 1:
				p.Out = market.Credits(1+s.r.IntN(8)) * market.Credit
			}
			slots := s.r.IntN(4)
			err := s.give(&bus.Summary{Agent: id, Boot: s.boots[id], Seq: s.seqs[id], State: state,
				Slots: slots, InFlight: s.r.IntN(4), Price: p})
			if err == nil && p.Validate() == nil {
				a.Price = p
			}
		}
	case k < 86:
		s.leave(id)
	case k < 89:
		s.register(id, s.boots[id]+s.r.Int64N(2))
	case k < 91:
		s.silent = !s.silent
		if !s.silent {
			s.answerAll()
		}
	case k < 92:
		s.reprice(&s.rule)
		r := s.rule
		s.must(s.n.Configure(s.now,
			&bus.MarketConfig{Domain: "math", Pricing: r.Pricing, Clarke: r.Clarke, Tariffs: r.Tariffs,
				Ceiling: &r.Ceiling}))
	case k < 93 && s.restart:
		s.startAgain()
	case k < 94:
		s.weather()
	case k < 95 && len(s.all) > 0:
		s.resume()
	default:
		s.now = s.now.Add(time.Duration(s.r.ExpFloat64() * float64(300*time.Millisecond)))
		s.n.Tick(s.now)
	}
}

// weather draws the events that come to a hub from outside.
func (s *storm) weather() {
	s.events++ // it is several
	switch s.r.IntN(5) {
	case 0: // the leadership is lost, and won again a while later
		was := s.silent
		s.silent = true // nobody listens to the treasury's answers
		s.depose()
		s.run()
		s.check()
		s.nobodyWaits()
		for range s.r.IntN(4) {
			s.now = s.now.Add(time.Duration(s.r.ExpFloat64() * float64(2*time.Second)))
			s.n.Tick(s.now)
			s.run()
			s.check()
		}
		s.pending, s.silent = nil, was
		s.epoch++
		s.must(s.n.Lead(s.now, s.epoch))
		for _, id := range s.agents() {
			if s.boots[id] > 0 && s.r.IntN(4) > 0 {
				s.register(id, s.boots[id])
			}
		}
	case 1:
		if s.full {
			return
		}
		s.full = true
		s.n.Room(false)
		s.nobodyWaits()
		for range s.r.IntN(20) {
			s.event()
		}
		s.n.Room(true)
		s.full = false
	case 2:
		s.n.Hears(s.now, false)
		s.now = s.now.Add(time.Second)
		s.n.Tick(s.now)
		s.n.Hears(s.now, true)
	case 3:
		id := s.agents()[s.r.IntN(4)]
		for range 5 {
			s.now = s.now.Add(time.Second)
			s.n.Tick(s.now)
			s.run()
			if s.n.Absent(s.now, id) {
				break
			}
		}
	case 4:
		s.n.Slept(s.now)
	}
}

// nobodyWaits: whoever had no money held was sent away.
func (s *storm) nobodyWaits() {
	s.t.Helper()
	if st := s.n.Stats(); st.Open != st.Holds {
		s.t.Fatalf("%d tasks still wait", st.Open-st.Holds)
	}
}

// resume is a reader that wants the rest of an answer from another agent.
func (s *storm) resume() {
	again := *s.all[s.r.IntN(len(s.all))]
	last, ok := s.last[again.Client+"/"+again.ID]
	if !ok || again.Resume != nil {
		return
	}
	s.next++
	again.Inbox = fmt.Sprint("resume.", s.next)
	n := s.r.IntN(3)
	again.Resume = &bus.Resume{Agent: last.Agent, Seq: uint64(n), Tokens: make([]uint32, n)}
	if n > 0 {
		again.Resume.Text = "x"
	}
	again.Attempt = last.Attempt + 1
	s.sent[again.Inbox] = &again
	taken := again
	s.give(&taken)
}

// answerAll answers what was asked while the treasury was silent; half of it was lost.
func (s *storm) answerAll() {
	asked := s.pending
	s.pending = nil
	for _, f := range asked {
		reply := s.treasury(f)
		if s.r.IntN(2) == 0 {
			reply = &bus.FundsReply{ID: f.Request.ID, Code: bus.CodeUnavailable}
		}
		s.give(reply)
	}
}

// startAgain kills the hub and starts another on its journal.
func (s *storm) startAgain() {
	s.epoch++
	whole := s.startFrom(s.epoch, 0)
	s.n = s.startFrom(s.epoch, 1+s.r.IntN(len(s.frames)))
	// links to the hub itself
	links := []reflect.Type{reflect.TypeFor[turn.Turn](), reflect.TypeFor[account.Tasks]()}
	if whole.PrintAtStart(links) != s.n.PrintAtStart(links) {
		all := cmp.Exporter(func(reflect.Type) bool { return true })
		ignore := cmp.FilterPath(func(p cmp.Path) bool {
			x := p.Last().Type()
			return x != nil && (x.Kind() == reflect.Func || slices.Contains(links, x))
		}, cmp.Ignore())
		if diff := cmp.Diff(whole.AtStart(), s.n.AtStart(), all, ignore); diff != "" {
			s.t.Fatal("a snapshot and what follows it make another hub than the whole journal (I14):\n" + diff)
		}
	}
	clear(s.taken) // whether an agent took it is not in the journal
	for _, rec := range s.openHolds() {
		s.recovered[ledger.HoldID("hub-math", rec.Round, rec.Slot)] = true
	}
	s.started()
	s.must(s.n.Lead(s.now, s.epoch))
	for inbox := range s.sent {
		s.lost[inbox] = true // may never be answered
	}
	for _, id := range s.agents() {
		if s.boots[id] > 0 {
			s.register(id, s.boots[id])
		}
	}
}

// startFrom makes a hub of the journal, by way of a snapshot behind its first so many frames; 0: of none.
func (s *storm) startFrom(epoch int64, behind int) *hub.Node {
	n, err := hub.NewNode(s.n.Config(), [32]byte{byte(epoch)})
	s.must(err)
	for i := range s.frames {
		f := &s.frames[i]
		s.must(n.Past.Apply(f.Seq, f.Epoch, ledger.AppendFrame(nil, f)))
		if i+1 == behind {
			data, err := n.Past.Snapshot()
			s.must(err)
			s.must(n.Past.Load(data))
		}
	}
	s.must(n.Restore())
	return n
}

// check tests the rules that hold after every event.
func (s *storm) check() {
	s.t.Helper()
	for _, l := range s.messages[s.read.messages:] {
		var last *bus.Result // its reader has the last word: what comes after is another answer
		switch m := l.Body.(type) {
		case *bus.Chunk:
			last = m.Result
		case *bus.Answer:
			last = m.Result
		}
		if last != nil {
			delete(s.taken, last.Client+"/"+last.Task)
		}
	}
	for _, f := range s.frames[s.read.frames:] {
		for _, r := range f.Records {
			if h := r.Hold; h != nil {
				s.last[h.Client+"/"+h.Task] = *h
				if was, ok := s.taken[h.Client+"/"+h.Task]; ok && h.Round > was.Round &&
					h.Attempt <= was.Attempt {
					s.t.Fatalf("task %s of %s is handed out as attempt %d, which an agent took: its reader "+
						"would join two answers", h.Task, h.Client, h.Attempt)
				}
			}
			if r.Kind != ledger.KindRound {
				continue
			}
			if err := market.Check(r.Round.Round, r.Round.Outcome); err != nil {
				s.t.Fatalf("round %d (I6): %v", r.Round.Round.Number, err)
			}
			s.fair(&r.Round.Round, &r.Round.Outcome)
		}
	}
	s.read.frames = len(s.frames)
	for _, l := range s.messages[s.read.messages:] {
		if c, ok := l.Body.(*bus.Call); ok {
			s.calls = append(s.calls, c)
		}
		a, ok := l.Body.(*bus.Answer)
		if !ok {
			continue
		}
		s.answers[l.Subject]++
		if s.answers[l.Subject] > 1 {
			s.t.Fatalf("%s is answered twice", l.Subject)
		}
		if a.Result != nil {
			s.justly(a.Result)
		}
		if a.Result != nil && a.Result.Code == bus.CodeUnknownClient && a.Result.Client != "nobody" {
			s.t.Fatalf("%s is told that %s is unknown (I19)", l.Subject, a.Result.Client)
		}
	}
	s.read.messages = len(s.messages)
	for _, d := range s.dispatched {
		limit := market.Terms{Worth: d.Premium + d.CostCap}.Worth
		if m := s.sent[d.Task.Inbox]; m != nil && m.Terms.MaxPrice != nil && *m.Terms.MaxPrice > 0 &&
			limit > *m.Terms.MaxPrice {
			s.t.Fatalf("task %s may cost %v, its max_price is %v (I18)", d.Task.ID, limit, *m.Terms.MaxPrice)
		}
	}

	twice := map[string]bool{}
	for _, h := range s.openHolds() {
		k := h.Client + "/" + h.Task
		if twice[k] {
			s.t.Fatalf("task %s of %s has two open holds", h.Task, h.Client)
		}
		twice[k] = true
	}
	st := s.n.Stats()
	const slots = 4 * 3 // of agents at the most: for so many more there was room
	if st.Holds != s.replica.OpenCount() || st.Waiting > s.n.Config().MaxWaiting+slots {
		s.t.Fatalf("%d holds, and %d in the book; %d wait", st.Holds, s.replica.OpenCount(), st.Waiting)
	}
	if err := s.n.Sound(); err != nil {
		s.t.Fatal(err)
	}
	s.note()
	s.events = 0
}

// fair tests that of every award nobody owes more than the value at the quoted first token, nor less than the
// cost, and tolls are charges.
func (s *storm) fair(r *market.Round, o *market.Outcome) {
	s.t.Helper()
	for _, a := range o.Awards {
		if a.Premium < 0 || a.Cost+a.Premium > a.Value || a.Toll > -r.Fee {
			s.t.Fatalf("round %d: %s pays cost %v and premium %v of a value of %v, with a toll of %v",
				r.Number, a.Task, a.Cost, a.Premium, a.Value, a.Toll)
		}
		s.awards++
	}
}

// justly judges a refusal for want of worth: at no agent would the task have been worth more than it costs;
// or, where others would have had more of a slot, than that and what journals say slots cost others, whenever
// something happened in the last two seconds. A client that has too little money is offered less than its
// terms say. Where several things happened at once agents may have come since.
func (s *storm) justly(r *bus.Result) {
	s.t.Helper()
	i := slices.IndexFunc(s.all, func(m *bus.Task) bool { return m.Client == r.Client && m.ID == r.Task })
	_, held := s.last[r.Client+"/"+r.Task] // then not every agent may serve it
	if r.Code != bus.CodeNotWorthIt || r.Client != "rich" || held || i < 0 || s.events != 1 {
		return
	}
	m := s.all[i]
	if m.Terms.Worth == nil || *m.Terms.Worth == 0 {
		return
	}
	free := func(string, time.Duration) market.Credits { return 0 }
	prices, came := []func(string, time.Duration) market.Credits{free}, s.came[r.Client+"/"+r.Task]
	within := market.Credits(2) // of what it costs: how long its answer is expected to be was asked before
	if s.worthless++; strings.Contains(r.Message, "others would have had more") {
		if s.worthless, s.outpriced = s.worthless-1, s.outpriced+1; s.now.Sub(came) < outpricedFor {
			s.t.Fatalf("task %s is told %q, and came %v ago", r.Task, r.Message, s.now.Sub(came))
		}
		prices, within = s.slotPrices(m.Client), 50
	}
	for _, price := range prices {
		if gains, cost := s.n.Gains(*m, came, price); gains > cost/within {
			s.t.Fatalf("task %s is told %q, and would be worth %v more than it costs", r.Task, r.Message, gains)
		}
	}
}

// outpricedFor is the time for which a slot costs more than a task is worth until its client is told.
const outpricedFor = 2 * time.Second

// slotRates are the prices of slots by the journal after an event, of the agents that took tasks then.
type slotRates struct {
	at    time.Time
	rates map[string]market.Rate
}

// note notes what slots cost now.
func (s *storm) note() {
	now := slotRates{s.now, map[string]market.Rate{}}
	for _, id := range s.n.Open() {
		now.rates[id] = s.replica.Rates().Of(market.AgentID(id), s.now.UnixMilli())
	}
	s.rates = slices.DeleteFunc(s.rates, func(r slotRates) bool { return s.now.Sub(r.at) > 2*outpricedFor })
	s.rates = append(s.rates, now)
}

// slotPrices returns, of each moment of the last two seconds just before something happened, what slots cost
// others than a client. An agent that took no tasks then had none.
func (s *storm) slotPrices(client string) (all []func(string, time.Duration) market.Credits) {
	for i, r := range s.rates {
		until := s.now
		if i+1 < len(s.rates) {
			until = s.rates[i+1].at
		}
		if s.now.Sub(until) > outpricedFor {
			continue
		}
		all = append(all, func(agent string, keeps time.Duration) market.Credits {
			rate, open := r.rates[agent]
			if !open {
				return market.MaxCredits / 4
			}
			return market.PerSecond(rate.Without(until.UnixMilli(), client), keeps)
		})
	}
	return all
}

// heal brings everything back and lets time pass until nothing can be left.
func (s *storm) heal() {
	s.silent = false
	s.n.Room(true)
	s.answerAll()
	for range 400 {
		s.pass(30 * time.Second)
		s.check()
	}
	if st := s.n.Stats(); s.replica.OpenCount() != 0 || st.Open != 0 || s.n.Remembers() != 0 {
		s.t.Fatalf("left: %d holds (I16), %d open tasks, %d remembered", s.replica.OpenCount(), st.Open,
			s.n.Remembers())
	}
	for inbox := range s.sent {
		if s.answers[inbox] != 1 && !s.lost[inbox] {
			s.t.Fatalf("%s was never answered", inbox)
		}
	}
	// Every credit is somewhere (I5, I18).
	spent := market.Credits(0)
	for _, f := range s.frames {
		for i := range f.Records {
			if r := &f.Records[i]; r.Kind == ledger.KindCapture {
				for _, l := range r.Legs {
					if strings.HasPrefix(l.Account, "client:probe-math:") {
						spent -= l.Amount
					}
				}
			}
		}
	}
	if s.n.Config().Prewarm.Every == 0 && spent != 0 {
		s.t.Fatalf("nothing is prewarmed, and its payer paid %s", spent)
	}
	sum := market.Credits(0)
	for _, c := range s.prepaid {
		sum += c
	}
	for _, b := range s.replica.Balances("*") {
		if b.Account != ledger.Clearing(ledger.Treasury) {
			sum += b.Amount
		}
	}
	if got := s.replica.LastGrant("hub-math"); got != uint64(len(s.grants)) || sum != s.deposits {
		s.t.Fatalf("%v of %v are left; %d of %d grants accepted (I11)", sum, s.deposits, got, len(s.grants))
	}
}

func TestStorm(t *testing.T) {
	storms, awards, worthless := 24, 0, 0
	switch {
	case os.Getenv("SOUK_SOAK") != "":
		storms = 600
	case testing.Short():
		storms = 6
	}
	for i := range storms {
		seed := rand.Uint64()
		if i == 1 { // failed once: the best agent left, by which a max_price had bounded what a task is worth
			seed = 13862166809956883069
		}
		ok := t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s := newStorm(t, seed, i%2 == 0)
			for _, id := range s.agents() {
				s.register(id, 1)
			}
			for range 700 {
				s.event()
				if s.r.IntN(3) > 0 { // sometimes several things come at once
					s.run()
					s.check()
				}
			}
			s.run()
			s.check()
			s.heal()
			awards, worthless = awards+s.awards, worthless+s.worthless
			for _, f := range s.findings(ledger.MaxLevel) {
				if f.Level < ledger.LevelMetering || !strings.HasPrefix(f.Expected, "an account of agent ") {
					s.t.Errorf("the audit finds %s", f) // agents that lie are named; nothing else is
				}
			}
		})
		if !ok {
			return
		}
	}
	if awards < 20*storms || worthless == 0 {
		t.Errorf("%d awards, and %d tasks that were not worth it: the test sees little", awards, worthless)
	}
}

// In a crowd that wants more than there is, and of which each values it otherwise, those are told that others
// would have more to whom no agent was worth its price for two seconds, and nobody else.
func TestWhoIsOutpriced(t *testing.T) {
	outpriced := 0
	for range 4 {
		seed := rand.Uint64() | 1 // with room for many
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s := newStorm(t, seed, false)
			s.must(s.n.Configure(s.now, &bus.MarketConfig{Domain: "math", Pricing: market.PricingVCG,
				Ceiling: new(market.Credits(100_000))}))
			for range 1500 {
				s.crowd()
				s.events = 1
				s.run()
				s.check()
			}
			outpriced += s.outpriced
		})
	}
	if outpriced == 0 {
		t.Error("nobody was outpriced: the test sees nothing")
	}
}

// crowd lets one thing happen that honest agents and callers with patience do.
func (s *storm) crowd() {
	switch k := s.r.IntN(10); {
	case s.boots["a-1"] == 0:
		s.register("a-1", 1)
	case k < 4:
		m := s.task()
		m.Client, m.Model, m.MaxTokens, m.DeadlineMS = "some", "", 50, 0
		m.Prompt = bus.Prompt{Bytes: 400, Messages: 1, Tokens: 100}
		worth := market.Credits(1+s.r.IntN(8)) * market.Credit / 100
		if s.r.IntN(3) == 0 {
			m.Client, worth = "rich", worth/16
		}
		m.Terms = bus.Terms{Worth: &worth, PatienceMS: new(int64(600_000))}
		s.send(m)
	case k < 6 && len(s.dispatched) > 0:
		d := s.dispatched[0]
		s.dispatched = s.dispatched[1:]
		s.give(&bus.DispatchReply{Agent: "a-1", Boot: 1, Hold: d.Hold})
		s.handed = append(s.handed, d)
	case k < 9 && len(s.handed) > 0:
		d := s.handed[0]
		s.handed = s.handed[1:]
		s.give(completion("a-1", d, market.Usage{Prompt: d.Task.Prompt.Tokens, Output: 50}))
	default:
		s.seqs["a-1"]++
		s.give(&bus.Summary{Agent: "a-1", Boot: 1, Seq: s.seqs["a-1"], State: bus.StateReady, Slots: 2,
			InFlight: len(s.handed), Price: s.house.agents["a-1"].Price})
		s.now = s.now.Add(time.Duration(s.r.ExpFloat64() * float64(200*time.Millisecond)))
		s.n.Tick(s.now)
	}
}

// The same inputs at the same times give the same frames, to the byte, and the same messages.
func TestDeterminism(t *testing.T) {
	const enough = 60 // frames, for the comparison to mean something
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	play := func() (frames, messages []byte) {
		s := newStorm(t, seed, false)
		// one seed in 300 writes little in 1,500 events
		for i := 0; i < 1500 || len(s.frames) < enough && i < 50_000; i++ {
			s.event()
			s.run()
		}
		if len(s.frames) < enough {
			t.Fatalf("%d frames: nothing to compare", len(s.frames))
		}
		for i := range s.frames {
			frames = ledger.AppendFrame(frames, &s.frames[i])
		}
		for _, l := range s.messages {
			data, err := bus.Encode(l.Body)
			s.must(err)
			messages = append(append(messages, l.Subject...), data...)
		}
		return frames, messages
	}
	f1, l1 := play()
	f2, l2 := play()
	if !bytes.Equal(f1, f2) || !bytes.Equal(l1, l2) {
		t.Errorf("%d and %d bytes of frames, %d and %d of messages differ", len(f1), len(f2), len(l1), len(l2))
	}
}

// D9: two hubs live the same random life, and one of them is asked for quotes between all that happens. They
// say the same to the byte and write the same journal, and no quote changes anything that the hub remembers,
// caches and prefixes of what was last looked at among it.
func TestQuotesChangeNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	asked, sold := 0, 0
	for range 12 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			var lives [2]*storm
			var said [2][]byte
			for k := range lives {
				s := newStorm(t, seed, false)
				s.tell = func(r *hub.Ready) {
					said[k] = append(said[k], hub.BytesOf(r)...)
				}
				for _, id := range s.agents() {
					s.register(id, 1)
				}
				lives[k] = s
			}
			r := rand.New(rand.NewPCG(seed, 9))
			other := newStorm(t, seed+1, false) // makes the tasks that are asked about
			for n := range 500 {
				lives[0].event()
				lives[1].event()
				s := lives[1]
				before := uint64(0)
				if n%10 == 0 {
					before = s.n.Print()
				}
				for range r.IntN(3) {
					other.now = s.now
					m := other.task()
					was := *m
					q := s.n.Quote(s.now.Add(time.Duration(r.ExpFloat64()*float64(time.Second))), m)
					if err := q.Validate(); err != nil {
						t.Fatalf("quote %+v: %v", q, err)
					}
					if !reflect.DeepEqual(*m, was) {
						t.Fatalf("the task became %+v, and was %+v", *m, was)
					}
					asked++
					sold += min(1, len(q.Models))
				}
				if n%10 == 0 && s.n.Print() != before {
					t.Fatalf("event %d: quotes change what the hub remembers", n)
				}
				if r.IntN(3) > 0 {
					lives[0].run()
					lives[1].run()
				}
				if string(said[0]) != string(said[1]) {
					t.Fatalf("event %d: what the hub says is not what it says without quotes", n)
				}
				said[0], said[1] = said[0][:0], said[1][:0]
			}
		})
	}
	if asked < 3000 || sold < asked/4 {
		t.Errorf("of %d quotes %d were of something: nothing is shown", asked, sold)
	}
}

// What tasks keep while they wait changes nothing: a node that looks everything up anew before each turn
// writes the same frames, to the byte.
func TestNothingThatIsKeptChangesAStorm(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	play := func(seed uint64, anew bool) (frames []byte) {
		s := newStorm(t, seed, false)
		for range 600 {
			if s.event(); anew {
				s.n.Forget()
			}
			s.run()
		}
		for i := range s.frames {
			frames = ledger.AppendFrame(frames, &s.frames[i])
		}
		return frames
	}
	for i := range uint64(12) {
		if kept, anew := play(seed+i, false), play(seed+i, true); !bytes.Equal(kept, anew) {
			t.Fatalf("storm %d: %d bytes of frames, and %d others where nothing is kept", seed+i, len(kept),
				len(anew))
		}
	}
}

// What rounds and quotes read of every agent stands beside it, copied from what it says: after whatever
// happens it is what it was copied from.
func TestWhatStandsBesideAnAgentIsTrue(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	seen := map[string]int{}
	for range 12 {
		seed := rand.Uint64()
		s := newStorm(t, seed, true)
		for n := range 1500 {
			if s.event(); s.r.IntN(25) == 0 {
				s.changed(s.agents()[s.r.IntN(4)])
			}
			if s.r.IntN(3) > 0 {
				s.run()
			}
			if err := s.n.Copies(seen); err != nil {
				t.Fatalf("seed %d, event %d: %v", seed, n, err)
			}
		}
	}
	for _, what := range []string{"class", "draining", "other model"} {
		if seen[what] < 500 {
			t.Errorf("only %d times an agent has a %s: the test sees nothing", seen[what], what)
		}
	}
}

// changed registers an agent as it was not before.
func (s *storm) changed(id string) {
	a := s.house.agents[id]
	if a == nil {
		return
	}
	r := a.Registration
	switch s.r.IntN(9) {
	case 8:
		r.Features = [][]string{nil, {bus.Text}, {bus.Parsers}, {bus.Text, bus.Parsers}}[s.r.IntN(4)]
	case 0:
		r.Model = []string{"llama", "qwen", "mistral"}[s.r.IntN(3)]
	case 1:
		r.State = []string{bus.StateReady, bus.StateDraining, bus.StateUnhealthy}[s.r.IntN(3)]
	case 2:
		r.MaxModelLen = []int{0, 512, 4096, 8192}[s.r.IntN(4)]
	case 3:
		r.KVTokens, r.BlockSize = 10_000+s.r.IntN(90_000), 16<<s.r.IntN(2)
	case 4:
		r.Price = card(market.Credits(1+s.r.IntN(9)), 1, 4)
	case 5:
		r.Domains = []bus.DomainScore{{Domain: "math", Score: s.r.Float64()}, {Domain: "other", Score: 0.5}}
		r.Domains = r.Domains[:1+s.r.IntN(2)]
	case 6:
		r.Template = &bus.Template{Fixed: s.r.IntN(9), Each: s.r.IntN(9)}
	case 7:
		r.Slots = s.r.IntN(5) // none: it is refused
	}
	s.house.register(r)
}
