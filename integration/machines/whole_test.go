package machines

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/ledger"
	"souk/ledger/treasury"
	"souk/market"
)

// bankPart is the treasury's process.
type bankPart struct {
	*part
	bank   *treasury.Treasury
	frames [][]byte
	heads  [][2]int64
	book   *ledger.Book
	epoch  int64
	busy   bool
	queue  []paper
	said   []*bus.RecallReply
	due    int
	flight []ledger.Frame
}

// paper is a request to the treasury.
type paper struct {
	op    string
	req   *bus.FundsRequest
	inbox string
	asked bool // the registry
}

func (w *whole) newBank() *bankPart {
	b := &bankPart{part: w.newPart("treasury"), book: ledger.NewBook()}
	w.bank = b
	b.start()
	return b
}

func (b *bankPart) start() {
	w := b.w
	b.bank = treasury.New(treasury.Default(), func() (s [16]byte) {
		for i := range s {
			s[i] = byte(w.r.Uint32())
		}
		return s
	})
	for i, f := range b.frames {
		if err := b.bank.Past.Apply(uint64(b.heads[i][0]), b.heads[i][1], f); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := b.bank.Restore(); err != nil {
		w.t.Fatal(err)
	}
	if err := b.bank.Begin(); err != nil {
		w.t.Fatal(err)
	}
	b.epoch++
	b.busy, b.queue, b.said, b.flight = false, nil, nil, nil
	b.up, b.cut, b.knows, b.since = true, false, false, w.now
	b.hearKeys()
	b.serve()
}

func (b *bankPart) kill(back time.Duration) {
	w := b.w
	if !b.up {
		return
	}
	if len(b.flight) > 0 && w.chance(0.5) {
		b.durable()
	}
	w.note("the treasury is killed (%d frames)", len(b.frames))
	b.up, b.sleep = false, time.Time{}
	b.life++
	w.after(back, func() {
		w.note("the treasury starts again")
		b.start()
	})
}

func (b *bankPart) durable() {
	for i := range b.flight {
		f := &b.flight[i]
		if err := b.book.ApplyFrame(*f); err != nil {
			b.w.t.Fatalf("treasury: %v", err)
		}
		b.frames = append(b.frames, ledger.AppendFrame(nil, f))
		b.heads = append(b.heads, [2]int64{int64(f.Seq), f.Epoch})
	}
	b.flight = nil
}

func (b *bankPart) take(op string, req *bus.FundsRequest, inbox string, asked bool) {
	b.queue = append(b.queue, paper{op, req, inbox, asked})
	b.serve()
}

func (b *bankPart) serve() {
	w := b.w
	if b.busy {
		return
	}
	b.bank.Tick(w.now)
	for _, m := range b.said {
		b.bank.Said(m)
	}
	b.said = nil
	queue := b.queue
	b.queue = nil
	for _, p := range queue {
		b.handle(p)
	}
	r := b.bank.Ready()
	if len(r.Records) > 0 {
		f, err := b.bank.Book.Seal(b.epoch, w.now.UnixNano(), r.Records)
		if err != nil {
			w.t.Fatal(err)
		}
		b.flight = []ledger.Frame{f}
	}
	b.busy = true
	sync := time.Duration(0)
	if len(b.flight) > 0 {
		sync = 100*time.Microsecond + w.within(2*time.Millisecond)
	}
	b.on(sync, func() {
		b.durable()
		var effects []func()
		mark := markOf(b.bank.Book, b.bank.Closed(), b.frames)
		for _, a := range r.Answers {
			if a.To.(paper).req.Hub != "" {
				a.Reply.Mark = mark
			}
			c := copied(w, &a.Reply)
			effects = append(effects, func() {
				w.answer(b.part, a.To.(paper).inbox, true, func() bus.Message { return c() })
			})
		}
		for _, q := range r.Recalls {
			effects = append(effects, func() { b.recall(q) })
		}
		var next func()
		next = func() {
			if len(effects) > 0 {
				effects[0]()
				effects = effects[1:]
				b.on(10*time.Microsecond, next)
				return
			}
			b.busy = false
			if len(b.queue)+len(b.said) > 0 {
				b.serve()
				return
			}
			if b.due++; !r.Wake.IsZero() {
				due := b.due
				b.on(max(time.Millisecond, r.Wake.Sub(w.now)), func() {
					if due == b.due {
						b.serve()
					}
				})
			}
		}
		next()
	})
}

func (b *bankPart) handle(p paper) {
	w := b.w
	ended := p.op == bus.OpReturn && b.bank.Book.Closed(p.req.Hub)
	if !ended && !b.bank.Doubts(p.op, p.req) {
		q := asHeard(*p.req, b.frames)
		b.bank.Handle(p.op, &q, p, true)
		return
	}
	if p.asked {
		b.bank.Doubted(p.op, p.req, p)
		return
	}
	b.on(20*time.Millisecond, func() {
		for _, l := range w.registry.leads {
			if l.entry.Journal == p.req.Hub {
				b.bank.Leads(p.req.Hub, l.entry.Domain, l.epoch)
			}
		}
		b.take(p.op, p.req, p.inbox, true)
	})
}

func (b *bankPart) recall(q treasury.Recall) {
	w, life := b.w, b.life
	w.inbox++
	inbox := fmt.Sprint("_INBOX.treasury.", w.inbox)
	w.inboxes[inbox] = func(m bus.Message) {
		if r, ok := m.(*bus.RecallReply); ok && b.life == life {
			b.said = append(b.said, r)
			b.serve()
		}
	}
	w.after(time.Minute, func() { delete(w.inboxes, inbox) })
	m := copied(w, &q.Ask)
	for _, h := range w.hubs {
		if h.domain == q.Domain {
			w.say(b.part, h.part, true, func() {
				v := m()
				v.Inbox = inbox
				h.step(v)
			})
		}
	}
}

// operator asks the treasury until it has an answer that is one, and says what that is.
func (w *whole) operator(op string, q bus.FundsRequest, then func(*bus.FundsReply)) {
	p := w.byName["operator"]
	m := copied(w, &q)
	w.ask(p, []*part{w.bank.part}, true, 3*time.Second, func(_ *part, inbox string) bool {
		w.bank.take(op, m(), inbox, false)
		return true
	}, func(m bus.Message, err error) {
		r, _ := m.(*bus.FundsReply)
		if r == nil || r.Code == bus.CodeUnavailable || r.Code == bus.CodeAllotmentPending {
			p.on(500*time.Millisecond, func() { w.operator(op, q, then) })
			return
		}
		then(r)
	})
}

var (
	wholeRuns = flag.Int("whole.runs", 0, "runs of TestAWholeMarketWhateverIsLost; 0: a few")
	wholeSeed = flag.Uint64("whole.seed", 0, "play this one run of it, and say what happens")
)

func newWhole(t *testing.T, seed uint64) *whole {
	w := &whole{t: t, r: rand.New(rand.NewPCG(seed, 77)), now: begin,
		byName: map[string]*part{}, left: map[string]time.Time{},
		inboxes: map[string]func(bus.Message){},
		asking:  map[int]*question{},
		readers: map[string]*readerPart{}, late: 5 * time.Millisecond,
		registry: &registry{rev: 10, leads: map[string]*lead{}, claims: map[string]*bus.Claim{},
			owners: map[string]*lead{}, agents: map[string]*listed{}, led: map[string]time.Time{},
			vouch: map[string]*bus.VouchKeys{}}}
	w.newPart("operator")
	w.newBank()
	for _, name := range []string{"hub-0a", "hub-0b", "hub-1", "hub-2"} {
		w.newHub("d"+name[4:5], name)
	}
	for i := range 5 {
		w.newAgent(fmt.Sprint("d", i%3), fmt.Sprint("a", i))
	}
	w.newDoor("door-0")
	w.newDoor("door-1")
	w.renew()
	return w
}

var clients = []string{"ann", "bob", "cay"}

func (w *whole) task(n int) {
	c := clients[w.r.IntN(len(clients))]
	if w.chance(0.1) {
		c = "poor"
	}
	t := &bus.Task{Client: c, ID: fmt.Sprint("t", n), Kind: bus.KindChat, Stream: true, Model: "llama",
		Body:      json.RawMessage(fmt.Sprintf(`{"messages":[{"role":"user","content":"%d"}]}`, n)),
		MaxTokens: 12 + w.r.IntN(30), Prompt: bus.Prompt{Bytes: 400, Messages: 1, Tokens: 50 + w.r.IntN(100)}}
	worth := market.Credit/10 + market.Credits(w.r.Int64N(int64(2*market.Credit)))
	t.Terms.Worth = &worth
	if w.chance(0.2) { // of a task that costs at most 0.009
		most := market.Credits(w.r.Int64N(int64(market.Credit / 100)))
		t.Terms.MaxPrice = &most
	}
	if w.chance(0.5) {
		t.DeadlineMS = w.now.Add(500*time.Millisecond + w.within(20*time.Second)).UnixMilli()
	}
	if w.chance(0.1) {
		t.Failover = "off"
	}
	t.Whole = w.chance(0.5)
	t.Tail = t.Whole && w.chance(0.7)
	if w.chance(0.3) {
		t.Session = fmt.Sprint("s", w.r.IntN(5))
	}
	r := w.submit(c, t)
	if w.chance(0.15) {
		r.on(w.within(8*time.Second), func() {
			if !r.over {
				w.note("%s is cancelled", r.name)
				r.m.Step(w.now, cancelEvent)
				r.do()
			}
		})
	}
}

// A whole market is played while messages are lost, repeated, delayed and overtaken, parts are cut off, stand
// still and are killed between any two steps. Then all faults end, and: no credit is missing or too many, no
// task is paid twice or otherwise than its reader was told, nothing waits, is held or is on its way any more,
// and every level of the audit is clean.
func TestAWholeMarketWhateverIsLost(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	if *wholeSeed != 0 {
		playWhole(t, *wholeSeed)
		return
	}
	runs := *wholeRuns
	if runs == 0 {
		runs = 5
	}
	for range runs {
		seed := rand.Uint64()
		if !t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { playWhole(t, seed) }) {
			return
		}
	}
}

func playWhole(t *testing.T, seed uint64) {
	w := newWhole(t, seed)
	defer func() {
		if *wholeSeed != 0 || os.Getenv("WHOLE_LOG") != "" {
			t.Log("\n" + strings.Join(w.log, "\n"))
		}
	}()
	given := map[string]market.Credits{"ann": 60 * market.Credit, "bob": 25 * market.Credit,
		"cay": 200 * market.Credit, "poor": market.Credit / 2}
	total := market.Credits(0)
	for _, c := range sortedKeys(given) {
		total += given[c]
		w.operator(bus.OpDeposit, bus.FundsRequest{ID: "d-" + c, Client: c, Amount: given[c]},
			func(r *bus.FundsReply) {
				if r.Code != "" {
					t.Errorf("deposit: %s %s", r.Code, r.Message)
				}
			})
	}
	w.run(3 * time.Second)
	w.trouble()
	n := 0
	length := 15*time.Second + w.within(40*time.Second)
	gap := 40*time.Millisecond + w.within(time.Second)
	for end := w.now.Add(length); w.now.Before(end) && !t.Failed(); {
		w.task(n)
		n++
		w.run(time.Duration(w.r.ExpFloat64() * float64(gap)))
	}
	w.quiet, w.lost, w.again, w.late = true, 0, 0, 5*time.Millisecond
	for _, p := range w.parts {
		p.heal()
	}
	w.note("all faults end")
	// who asks for two minutes hears what became of a task, also where a journal alone knows of it
	for range 8 {
		w.run(15 * time.Second)
		w.askAgain()
	}
	for i := 0; (i < 25 || i < 150 && w.holds() > 0) && !t.Failed(); i++ { // a hold is for an hour at most
		w.run(30 * time.Second)
	}
	if !t.Failed() {
		w.check(total)
	}
	if t.Failed() {
		t.Logf("seed %d", seed)
	}
}

// holds counts those that hubs have open.
func (w *whole) holds() (n int) {
	for _, h := range w.hubs {
		n += h.node.Stats().Holds
	}
	return n
}

// trouble begins: each run has some of all that may happen.
func (w *whole) trouble() {
	dose := func(p float64) float64 {
		if w.chance(0.4) {
			return 0
		}
		return p * w.r.Float64()
	}
	w.lost, w.again, w.late = dose(0.2), dose(0.3), time.Millisecond+w.within(time.Second)
	if w.chance(0.3) {
		w.late = w.within(3 * time.Second) // more is not foreseen between processes that run
	}
	kills, cuts, stops := dose(1), dose(1), dose(1)
	each := 500*time.Millisecond + w.within(6*time.Second)
	payouts := 0
	var hit func()
	hit = func() {
		if w.quiet {
			return
		}
		w.after(time.Duration(w.r.ExpFloat64()*float64(each)), hit)
		var p *part
		var kill func(time.Duration)
		switch k := w.r.IntN(len(w.hubs) + len(w.agents) + len(w.doors) + 1); {
		case k == 0:
			p, kill = w.bank.part, w.bank.kill
		case k <= len(w.hubs):
			h := w.hubs[k-1]
			p, kill = h.part, h.kill
			if w.chance(0.15) {
				h.end()
				return
			}
		case k <= len(w.hubs)+len(w.agents):
			a := w.agents[k-1-len(w.hubs)]
			p, kill = a.part, a.kill
		default:
			d := w.doors[k-1-len(w.hubs)-len(w.agents)]
			p, kill = d.part, d.kill
		}
		x := w.r.Float64() * 3
		switch {
		case x < kills:
			kill(10*time.Millisecond + w.within(10*time.Second))
		case x >= 1 && x < 1+cuts:
			p.isolate(10*time.Millisecond + w.within(12*time.Second))
		case x >= 2 && x < 2+stops:
			p.stop(w.within(9 * time.Second))
		}
		if w.chance(0.1) {
			payouts++
			c := clients[w.r.IntN(len(clients))]
			w.operator(bus.OpPayout, bus.FundsRequest{ID: fmt.Sprint("p-", payouts), Client: c,
				Amount: market.Credits(w.r.Int64N(int64(2 * market.Credit)))}, func(*bus.FundsReply) {})
		}
		if w.chance(0.1) {
			payouts++
			c := clients[w.r.IntN(len(clients))]
			w.operator(bus.OpMove, bus.FundsRequest{ID: fmt.Sprint("m-", payouts), Client: c, To: "poor",
				Amount: market.Credits(w.r.Int64N(int64(market.Credit)))}, func(*bus.FundsReply) {})
		}
		if len(w.order) > 0 && w.chance(0.2) {
			if r := w.order[w.r.IntN(len(w.order))]; !r.over {
				r.isolate(w.within(12 * time.Second))
			}
		}
	}
	w.after(0, hit)
}
