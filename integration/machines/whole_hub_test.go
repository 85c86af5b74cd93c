package machines

import (
	"errors"
	"strings"
	"time"

	"souk/bus"
	"souk/cmd/choices"
	"souk/hub"
	"souk/hub/account"
	"souk/ledger"
	"souk/market"
)

// hubPart is a hub's process: what it does around its Node.
type hubPart struct {
	*part
	domain string
	cfg    hub.Config
	node   *hub.Node
	frames [][]byte // durable
	heads  [][2]int64
	book   *ledger.Book // of what is durable

	lead    *lead
	leading bool
	begins  bool // it asks the treasury whether it may
	sold    map[string]int64
	fences  map[string]int64

	queue   []hub.Ready
	syncing bool
	wake    time.Time
	due     int
	stops   bool // it was told to end this life
	retired bool
}

func (w *whole) newHub(domain, name string) *hubPart {
	h := &hubPart{part: w.newPart(name), domain: domain, book: ledger.NewBook()}
	h.cfg = choices.Hub()
	h.cfg.Domain, h.cfg.Hub, h.cfg.Journal, h.cfg.General = domain, name, name, true
	h.cfg.AccountIdle = 20 * time.Second
	if domain == "d2" {
		h.cfg.Settle = market.SettleQuoted
	}
	w.hubs = append(w.hubs, h)
	h.news = func(there bool) {
		if h.leading {
			if there {
				h.node.Hears(w.now, true)
			} else {
				h.node.Hears(w.now, false)
			}
			h.turn()
		}
	}
	h.start()
	return h
}

func (h *hubPart) start() {
	w := h.w
	n, err := hub.NewNode(h.cfg, [32]byte{byte(w.r.Uint32()), byte(w.r.Uint32())})
	if err != nil {
		w.t.Fatal(err)
	}
	for i, f := range h.frames {
		if err := n.Past.Apply(uint64(h.heads[i][0]), h.heads[i][1], f); err != nil {
			w.t.Fatalf("%s: frame %d: %v", h.name, i, err)
		}
	}
	if err := n.Restore(); err != nil {
		w.t.Fatal(err)
	}
	h.node, h.lead, h.leading, h.begins, h.stops, h.retired = n, nil, false, false, false, false
	h.queue, h.syncing, h.wake = nil, false, time.Time{}
	h.up, h.cut, h.knows, h.since = true, false, false, w.now
	h.turn()
}

// kill ends the process. What was on its way to the disk may be there, as far as it goes.
func (h *hubPart) kill(back time.Duration) {
	w := h.w
	if !h.up {
		return
	}
	if h.syncing {
		var frames []ledger.Frame
		for i := range h.queue {
			frames = append(frames, h.queue[i].Frames...)
		}
		h.durable(frames[:w.r.IntN(len(frames)+1)])
	}
	w.note("%s is killed (%d frames)", h.name, len(h.frames))
	h.up, h.sleep = false, time.Time{}
	h.life++
	h.lead, h.leading = nil, false
	w.after(back, func() {
		w.note("%s starts again", h.name)
		h.start()
	})
}

func (h *hubPart) durable(frames []ledger.Frame) {
	for i := range frames {
		f := &frames[i]
		if err := h.book.ApplyFrame(*f); err != nil {
			h.w.t.Fatalf("%s: %v", h.name, err)
		}
		h.frames = append(h.frames, ledger.AppendFrame(nil, f))
		for j := range f.Records {
			switch r := &f.Records[j]; {
			case r.Hold != nil:
				h.w.tell("%s holds %s for %s/%s at %s", h.name, r.ID, r.Hold.Client, r.Hold.Task,
					r.Hold.Agent)
			case r.Capture != nil || r.Void != nil:
				h.w.tell("%s ends %s %v", h.name, r.ID, r.Void)
			}
		}
		h.heads = append(h.heads, [2]int64{int64(f.Seq), f.Epoch})
	}
}

// look reads the registry.
func (h *hubPart) look() {
	w, g := h.w, h.w.registry
	if l := g.leads[h.domain]; l != nil && l.hub == h && l.life != h.life {
		w.endLead(l) // an earlier life of its own
	}
	if h.lead == nil && !h.begins && g.leads[h.domain] == nil && !h.stops {
		g.rev++
		h.lead = &lead{hub: h, life: h.life, epoch: g.rev, alive: w.now,
			entry: bus.HubEntry{Domain: h.domain, Hub: h.name, Journal: h.name, Life: h.name}}
		g.leads[h.domain] = h.lead
		w.note("%s is elected for %s, epoch %d", h.name, h.domain, h.lead.epoch)
		delete(w.left, h.name)
		h.begin(h.lead)
		return
	}
	if !h.leading || g.leads[h.domain] != h.lead {
		return
	}
	for _, id := range sortedKeys(g.agents) {
		a := g.agents[id]
		if a.reg.Domains[0].Domain != h.domain || h.sold[id] == a.rev {
			continue
		}
		if g.claims[id] == nil {
			g.rev++
			g.claims[id] = &bus.Claim{Agent: id, Domain: h.domain, Hub: h.name, Epoch: h.lead.epoch,
				Fence: g.rev}
			g.owners[id] = h.lead
		}
		if g.owners[id] != h.lead {
			continue
		}
		h.sold[id], h.fences[id] = a.rev, g.claims[id].Fence
		reg := a.reg
		reg.Fence = h.fences[id]
		h.on(0, func() {
			if h.leading {
				if err := h.node.Join(w.now, reg); err != nil {
					w.t.Errorf("%s: %v", h.name, err)
				}
				h.turn()
			}
		})
	}
	for _, id := range sortedKeys(h.sold) {
		if g.agents[id] == nil {
			delete(h.sold, id)
			if g.owners[id] == h.lead {
				delete(g.claims, id)
				delete(g.owners, id)
			}
			h.node.Leave(w.now, id)
			h.turn()
		}
	}
}

func (h *hubPart) begin(l *lead) {
	w := h.w
	f, ask := h.node.Money().First(l.epoch)
	if !ask {
		h.leads(l)
		return
	}
	h.begins = true
	w.funds(h, f, func(r *bus.FundsReply) {
		h.begins = false
		if h.lead != l {
			return
		}
		ok, err := h.node.Money().Begin(r)
		if err != nil {
			w.t.Errorf("%s: %v", h.name, err)
		} else if ok {
			h.leads(l)
		} else {
			h.begins = true
			h.on(200*time.Millisecond, func() { h.begins = false; h.begin(l) })
		}
	})
}

func (h *hubPart) leads(l *lead) {
	if h.lead != l {
		return
	}
	if err := h.node.Lead(h.w.now, l.epoch); err != nil {
		h.w.t.Errorf("%s: %v", h.name, err)
		return
	}
	h.w.registry.led[h.name] = h.w.now.Add(bus.LedFor)
	h.leading, h.sold, h.fences = true, map[string]int64{}, map[string]int64{}
	h.turn()
}

func (h *hubPart) deposed(l *lead) {
	if h.lead != l || l == nil {
		return
	}
	h.w.note("%s has lost the lead", h.name)
	h.leave()
}

func (h *hubPart) leave() {
	h.node.Depose(h.w.now)
	h.lead, h.leading, h.begins = nil, false, false
	h.turn()
}

// end stops the process as an operator does: it settles what runs, gives everything back, and comes again.
func (h *hubPart) end() {
	if h.leading && !h.stops {
		h.w.note("%s is told to stop", h.name)
		h.stops = true
		h.node.Drain(h.w.now)
		h.turn()
	}
}

func (h *hubPart) stopOn() {
	if !h.stops || !h.leading || !h.node.Idle() || len(h.queue) > 0 {
		return
	}
	if !h.retired {
		h.retired = true
		h.node.Retire(h.w.now)
		h.turn()
		return
	}
	h.w.note("%s has stopped", h.name)
	h.w.endLead(h.lead)
	h.leave()
	h.on(50*time.Millisecond, func() { h.kill(h.w.within(5 * time.Second)) })
}

func (h *hubPart) step(m bus.Message) {
	if !h.leading {
		if _, ok := m.(*bus.Completion); !ok {
			return
		}
	}
	h.node.Step(h.w.now, m)
	h.turn()
}

func (h *hubPart) turn() {
	w, n := h.w, h.node
	if !h.wake.IsZero() && w.now.Sub(h.wake) > 2*time.Second {
		n.Slept(w.now)
	}
	n.Tick(w.now)
	r := n.Ready()
	for _, err := range r.Faults {
		if s := err.Error(); !strings.Contains(s, "claims") && !strings.Contains(s, "later grants than") {
			w.t.Errorf("%s: fault: %v", h.name, err)
		}
	}
	h.wake = r.Wake
	if !r.Wake.IsZero() {
		h.due++
		due := h.due
		h.on(max(time.Millisecond/10, r.Wake.Sub(w.now)), func() {
			if due == h.due {
				h.turn()
			}
		})
	}
	if !r.Empty() {
		h.queue = append(h.queue, r)
		if !h.syncing {
			h.sync()
		}
	}
	h.stopOn()
}

// sync makes the frames of all turns so far durable, and then does what follows from them, step by step.
func (h *hubPart) sync() {
	h.syncing = true
	group := len(h.queue)
	h.on(100*time.Microsecond+h.w.within(3*time.Millisecond), func() {
		for i := range group {
			h.durable(h.queue[i].Frames)
			h.queue[i].Frames = nil
		}
		var effects []func()
		for i := range group {
			effects = append(effects, h.effects(h.queue[i])...)
		}
		var next func()
		next = func() {
			if len(effects) > 0 {
				do := effects[0]
				effects = effects[1:]
				do()
				h.on(10*time.Microsecond, next)
				return
			}
			h.queue = h.queue[group:]
			if h.syncing = false; len(h.queue) > 0 {
				h.sync()
			}
			h.stopOn()
		}
		next()
	})
}

func (h *hubPart) effects(r hub.Ready) (all []func()) {
	w := h.w
	for i := range r.Dispatches {
		d, to := r.Dispatches[i], w.agent(r.Placed[i].Agent)
		all = append(all, func() { h.dispatch(to, &d) })
	}
	for i := range r.Messages {
		l := r.Messages[i]
		all = append(all, func() { h.message(l) })
	}
	for _, id := range r.Probes {
		all = append(all, func() { h.probe(w.agent(id)) })
	}
	for _, f := range r.Funds {
		all = append(all, func() {
			w.funds(h, f, func(r *bus.FundsReply) { h.step(r) })
		})
	}
	if r.Status != nil {
		st := copied(w, r.Status)
		all = append(all, func() {
			for _, d := range w.doors {
				w.say(h.part, d.part, true, func() { d.hear(st()) })
			}
		})
	}
	return all
}

func (h *hubPart) dispatch(a *agentPart, d *bus.Dispatch) {
	w, m := h.w, copied(h.w, d)
	if a.gone() {
		r := &bus.DispatchReply{Agent: a.name, Boot: d.Boot, Hold: d.Hold, Code: bus.CodeUnavailable}
		w.after(w.delay(), func() {
			if h.there() {
				h.on(0, func() { h.step(r) })
			}
		})
		return
	}
	w.say(h.part, a.part, true, func() { a.dispatched(h, m()) })
}

func (h *hubPart) probe(a *agentPart) {
	if a.gone() && h.there() {
		h.w.after(h.w.delay(), func() {
			if h.there() {
				h.on(0, func() {
					if h.leading {
						if h.node.Absent(h.w.now, a.name) {
							h.w.note("%s holds %s to be gone", h.name, a.name)
						}
						h.turn()
					}
				})
			}
		})
	}
}

func (h *hubPart) message(l hub.Message) {
	w := h.w
	switch m := l.Body.(type) {
	case *bus.Answer:
		c := copied(w, m)
		w.answer(h.part, l.Subject, false, func() bus.Message { return c() })
	case *bus.CompletionAck:
		c := copied(w, m)
		w.answer(h.part, l.Subject, true, func() bus.Message { return c() })
	case *bus.RecallReply:
		c := copied(w, m)
		w.answer(h.part, l.Subject, true, func() bus.Message { return c() })
	case *bus.HoldControl:
		c, a := copied(w, m), w.agent(strings.Split(l.Subject, ".")[3])
		w.say(h.part, a.part, true, func() { a.control(h.domain, c()) })
	case *bus.Chunk:
		w.chunk(h.part, l.Subject, copied(w, m))
	default:
		w.t.Errorf("%s sends a %T", h.name, m)
	}
}

// chunk goes to the reader that its subject names.
func (w *whole) chunk(from *part, subject string, c func() *bus.Chunk) {
	s := strings.Split(subject, ".") // souk v1 reply READER TOKEN SENDER
	if r := w.readers[s[3]+"."+s[4]]; r != nil {
		w.say(from, r.part, true, func() { r.hear(s[5], c()) })
	}
}

// funds asks the treasury for a hub.
func (w *whole) funds(h *hubPart, f hub.Funds, then func(*bus.FundsReply)) {
	request := marked(f.Request, h.frames)
	q, l := copied(w, &request), h.lead
	w.ask(h.part, []*part{w.bank.part}, true, account.TreasuryTimeout, func(_ *part, inbox string) bool {
		w.bank.take(f.Op, q(), inbox, false)
		return true
	}, func(m bus.Message, err error) {
		r, ok := m.(*bus.FundsReply)
		if err != nil || !ok {
			r = &bus.FundsReply{Code: bus.CodeUnavailable}
		}
		if r.ID = f.Request.ID; h.lead == l { // else it waited for its answer before it gave up the lead
			then(asAnswered(*r, h.frames))
		}
	})
}

func (w *whole) agent(id string) *agentPart {
	for _, a := range w.agents {
		if a.name == id {
			return a
		}
	}
	panic(errors.New("no agent " + id))
}
