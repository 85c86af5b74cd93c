package hub

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"souk/bus"
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
	all      []*bus.Task
	answers  map[string]int
	rounds   map[string]bool // tasks that lost a round
	handed   []bus.Dispatch  // accepted
	boots    map[string]int64
	seqs     map[string]uint64
	deposits market.Credits
	read     struct{ messages, frames int }
	lost     map[string]bool
	taken    map[string]ledger.Hold // the last that an agent took, by task
	calls    []*bus.Call            // for asks, not answered
}

func newStorm(t *testing.T, seed uint64, restart bool) *storm {
	s := &storm{
		r: rand.New(rand.NewPCG(seed, 0)), restart: restart,
		sent: map[string]*bus.Task{}, answers: map[string]int{}, rounds: map[string]bool{},
		lost: map[string]bool{}, taken: map[string]ledger.Hold{},
		boots: map[string]int64{}, seqs: map[string]uint64{},
	}
	s.house = newHouse(t, func(c *Config) {
		c.MaxWaiting, c.MaxPerClient, c.Batch.MaxBatch = 40, 30, 8
		c.Fee = market.Credits(seed%3) * 10_000
		c.Settle = []string{market.SettleMetered, market.SettleQuoted}[seed/3%2]
		c.Batch.Eager = seed/6%4 > 0
		if seed%8 == 1 {
			c.Seed.Every = 0
		}
		s.reprice(&c.Rule)
		if seed%4 < 2 {
			c.Seats.Sessions = true
		}
		if seed%2 == 0 { // a small room, which one client can fill
			c.MaxWaiting, c.MaxWaitingPerClient = 8, 8
		}
	})
	s.tell = func(r *Ready) {
		for _, f := range r.Frames {
			for _, rec := range f.Records {
				if rec.Round == nil || rec.Round.Round.Pruned.Tasks == 0 {
					continue
				}
				for _, t := range s.n.known { // TestWhatARoundMeansToThoseItLeaves says which of them
					if t.rounds > 0 {
						s.rounds[string(t.id)] = true
					}
				}
			}
		}
	}
	s.prepaid = map[string]market.Credits{"rich": 1000 * market.Credit, "poor": market.Credit / 20,
		"some": 2 * market.Credit, "probe-math": market.Credit / 4}
	for _, c := range s.prepaid {
		s.deposits += c
	}
	return s
}

// reprice draws how rounds are priced.
func (s *storm) reprice(r *Rule) {
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
	if s.r.IntN(3) == 0 {
		m.DeadlineMS = s.now.Add(time.Duration(s.r.IntN(20_000)-500) * time.Millisecond).UnixMilli()
	}
	return m
}

func (s *storm) send(m *bus.Task) {
	s.sent[m.Inbox] = m
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
	if s.n.cfg.Seats.Sessions {
		r.KVTokens = 20_000
	}
	s.boots[id], s.seqs[id] = boot, 0
	s.n.Join(s.now, r)
}

// event lets one thing happen.
func (s *storm) event() {
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
			s.give(&bus.DispatchReply{Agent: rec.Agent, Hold: d.Hold, Code: codes[s.r.IntN(5)]})
		case 1: // the dispatch is lost
		case 2: // its reply is lost
			s.handed = append(s.handed, d)
		default:
			// of a recovered one the hub hears nothing new
			known := s.n.holds[d.Hold] != nil && s.n.holds[d.Hold].state != replayed
			if s.give(&bus.DispatchReply{Agent: rec.Agent, Hold: d.Hold}) == nil && known {
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
		if a := s.n.lookup(id); a != nil {
			s.seqs[id]++
			state := bus.StateReady
			if s.r.IntN(6) == 0 {
				state = []string{bus.StateDraining, bus.StateUnhealthy}[s.r.IntN(2)]
			}
			p := a.price
			switch s.r.IntN(6) {
			case 0:
				p.Hit = p.Miss + 1
			case 1:
				p.Out = market.Credits(1+s.r.IntN(8)) * market.Credit
			}
			slots := s.r.IntN(4)
			var tiers []market.Tier
			for k := range slots * s.r.IntN(2) {
				// not always rising
				tiers = append(tiers,
					market.Tier{Slots: 1, Toll: market.Credits(-k * (1 + s.r.IntN(3)) * 50_000)})
			}
			s.give(&bus.Summary{Agent: id, Boot: s.boots[id], Seq: s.seqs[id], State: state, Slots: slots,
				Tiers: tiers, InFlight: s.r.IntN(4), Price: p})
		}
	case k < 86:
		s.n.Leave(s.now, id)
	case k < 89:
		s.register(id, s.boots[id]+s.r.Int64N(2))
	case k < 91:
		s.silent = !s.silent
		if !s.silent {
			s.answerAll()
		}
	case k < 92:
		r := s.n.file.rule
		s.reprice(&r)
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

// weather is what happens to a hub from outside.
func (s *storm) weather() {
	switch s.r.IntN(5) {
	case 0: // the leadership is lost, and won again a while later
		was := s.silent
		s.silent = true // nobody listens to the treasury's answers
		s.n.Depose(s.now)
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
		s.must(s.n.Lead(s.now, s.n.epoch+1))
		for _, id := range s.agents() {
			if s.boots[id] > 0 && s.r.IntN(4) > 0 {
				s.register(id, s.boots[id])
			}
		}
	case 1:
		if s.n.full {
			return
		}
		if s.n.Room(false); s.n.leading {
			s.nobodyWaits()
		}
		for range s.r.IntN(20) {
			s.event()
		}
		s.n.Room(true)
	case 2:
		s.n.Disconnected(s.now)
		s.now = s.now.Add(time.Second)
		s.n.Tick(s.now)
		s.n.Reconnected(s.now)
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
	for _, t := range s.n.known {
		if t.state == waiting || t.state == awaitingFunds {
			s.t.Fatalf("task %s still waits", t.id)
		}
	}
}

// resume is a reader that wants the rest of an answer from another agent.
func (s *storm) resume() {
	again := *s.all[s.r.IntN(len(s.all))]
	t := s.n.known[taskKey{again.Client, again.ID}]
	if t == nil || again.Resume != nil {
		return
	}
	agent := ""
	if t.hold != nil {
		agent = t.hold.agent.id
	} else if t.final != nil {
		agent = t.final.Agent
	}
	if agent == "" {
		return
	}
	s.next++
	again.Inbox = fmt.Sprint("resume.", s.next)
	n := s.r.IntN(3)
	again.Resume = &bus.Resume{Agent: agent, Seq: uint64(n), Tokens: make([]uint32, n)}
	if n > 0 {
		again.Resume.Text = "x"
	}
	again.Attempt = t.attempt() + 1
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
	epoch := s.n.epoch + 1
	whole := s.startFrom(epoch, 0)
	s.n = s.startFrom(epoch, 1+s.r.IntN(len(s.frames)))
	if !reflect.DeepEqual(atStart(s.n), atStart(whole)) {
		s.t.Fatal("a snapshot and what follows it make another hub than the whole journal (I14)")
	}
	clear(s.taken) // whether an agent took it is not in the journal
	s.must(s.n.Lead(s.now, epoch))
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
func (s *storm) startFrom(epoch int64, behind int) *Node {
	n, err := NewNode(s.n.cfg, [32]byte{byte(epoch)})
	s.must(err)
	for i, f := range s.frames {
		s.must(n.Replay(f))
		if i+1 == behind {
			data, err := n.history.Snapshot()
			s.must(err)
			s.must(n.history.Load(data))
		}
	}
	s.must(n.Restore())
	return n
}

// atStart is all that a hub knows before it leads.
func atStart(n *Node) []any {
	return []any{n.known, n.ended, n.holds, n.open, n.acks, n.accounts, n.roster, n.timers, n.treasury, n.now,
		n.nano, n.past,
		n.book.Balances("*"), n.book.OpenHolds(), n.book.Tariffs()}
}

// check is what must hold after every event.
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
			placed := map[market.TaskID]bool{}
			for _, a := range r.Round.Outcome.Awards {
				placed[a.Task] = true
			}
			for _, t := range r.Round.Round.Tasks {
				if !placed[t.ID] {
					s.rounds[string(t.ID)] = true
				}
			}
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
		if a.Result != nil && a.Result.Code == bus.CodeOutbid &&
			!s.rounds[a.Result.Client+"/"+a.Result.Task] {
			s.t.Fatalf("%s is told outbid and lost no round (I19)", l.Subject)
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

	n := s.n
	twice := map[taskKey]bool{}
	for _, h := range s.replica.OpenHolds() {
		k := taskKey{h.Client, h.Task}
		if twice[k] {
			s.t.Fatalf("task %s of %s has two open holds", h.Task, h.Client)
		}
		twice[k] = true
	}
	reserved, open, waits := map[string]market.Credits{}, map[string]int{}, map[string]int{}
	count := map[taskState]int{}
	all := 0
	for _, t := range n.known {
		if t.state == done {
			continue
		}
		all++
		count[t.state]++
		open[t.key.client]++
		reserved[t.key.client] += t.reserved
		if t.state == waiting {
			waits[t.key.client]++
		}
		if (t.state == waiting) != (t.reserved > 0 && t.hold == nil) && t.state == waiting {
			s.t.Fatalf("task %s waits with %v reserved", t.key.id, t.reserved)
		}
	}
	for c, p := range n.accounts {
		if p.reserved != reserved[c] || p.open != open[c] || p.waiting != waits[c] ||
			n.book.Avail(c) < p.reserved {
			s.t.Fatalf("account of %s: %v reserved (tasks say %v), %d open (%d), %d waiting (%d), %v available",
				c, p.reserved, reserved[c], p.open, open[c], p.waiting, waits[c], n.book.Avail(c))
		}
	}
	for _, t := range n.known { // what a task has kept is what it would be quoted now
		for _, a := range n.roster {
			if t.state != waiting || a.reg.Agent == "" {
				continue
			}
			held := a.expect(t)
			kept, now := *n.noted(t, a, held), n.idleQuote(t, a, held).brief
			if kept != now {
				s.t.Fatalf("%s on %s: kept is %+v, and it would be quoted %+v", t.id, a.id, kept, now)
			}
		}
	}
	agents := 0
	for _, a := range n.roster {
		agents += len(a.holds)
	}
	most := 0
	for _, p := range n.accounts {
		most = max(most, p.waiting)
	}
	if n.waiting > n.cfg.MaxWaiting || n.room.most != most {
		s.t.Fatalf("%d wait, of one client %d; counted as %d", n.waiting, most, n.room.most)
	}
	if n.waiting != count[waiting] || n.waiting != n.batch.All() || n.open != all ||
		len(n.holds) != n.book.OpenCount() || agents != len(n.holds) || count[running] != len(n.holds) {
		s.t.Fatalf("counts: waiting %d/%d/%d, open %d/%d, %d holds, %d in the book, %d on agents, %d running",
			n.waiting, count[waiting], n.batch.All(), n.open, all, len(n.holds),
			n.book.OpenCount(), agents, count[running])
	}
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
	if s.replica.OpenCount() != 0 || s.n.open != 0 || len(s.n.known) != 0 {
		s.t.Fatalf("left: %d holds (I16), %d open tasks, %d known", s.replica.OpenCount(), s.n.open,
			len(s.n.known))
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
	if s.n.cfg.Seed.Every == 0 && spent != 0 {
		s.t.Fatalf("nothing is seeded, and its payer paid %s", spent)
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
	storms := 60
	if testing.Short() {
		storms = 6
	}
	for i := range storms {
		seed := rand.Uint64()
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
