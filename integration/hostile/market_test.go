package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"souk/agentd"
	agentserve "souk/agentd/serve"
	"souk/bus"
	"souk/bus/membus"
	"souk/bus/tip"
	"souk/classifier"
	doorserve "souk/classifier/serve"
	"souk/cmd/choices"
	hubserve "souk/hub/serve"
	"souk/ledger"
	"souk/ledger/treasury"
	bankserve "souk/ledger/treasury/serve"
	"souk/market"
)

var card = market.Price{Miss: market.Credit, Hit: market.Credit / 10, Out: 4 * market.Credit}

// clients are the ids that the hostile party has money under.
var clients = []string{"ann", "bob", "eve"}

// memory is a journal that lasts as long as the process.
type memory struct {
	mu     sync.Mutex
	frames []ledger.Frame
}

func (m *memory) Follow(func() ledger.Replica) (end func()) { return func() {} }
func (m *memory) Close() error                              { return nil }
func (m *memory) Captured(string) (tip.Ordered, error)      { return tip.Ordered{}, ledger.ErrUnpaid }
func (m *memory) HasRoom() bool                             { return true }
func (m *memory) Life() string                              { return "" }
func (m *memory) Ended(string) (bool, string)               { return false, "it has no lives" }
func (m *memory) Moved() bool                               { return false }
func (m *memory) Confirmed() bool                           { return false }
func (m *memory) Settle(bool)                               {}
func (m *memory) Held() error                               { return nil }
func (m *memory) Sum(seq uint64) (tip.Sum, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if seq == 0 || seq > uint64(len(m.frames)) {
		return tip.Sum{}, false, nil
	}
	return tip.SumOf(ledger.AppendFrame(nil, &m.frames[seq-1])), true, nil
}

func (m *memory) Restore(r ledger.Replica) error {
	if err := r.Load(nil); err != nil {
		return err
	}
	for i := range m.frames {
		f := &m.frames[i]
		if err := r.Apply(f.Seq, f.Epoch, ledger.AppendFrame(nil, f)); err != nil {
			return err
		}
	}
	return nil
}

func (m *memory) Append(frames ...ledger.Frame) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frames = append(m.frames, frames...)
	return nil
}

// house is a whole market in memory but for its engines: treasury, door, hub and two nodes with an agent
// each, on a clock that runs as fast as nobody has anything to do.
type house struct {
	t      *testing.T
	world  *membus.World
	me     bus.Bus // all clients'
	door   *doorserve.Server
	hub    *hubserve.Server
	nodes  map[string]*agentserve.Server
	engine map[string]*engine // by agent

	hubBook, treasuryBook memory
	faults                faultLog
	log                   *slog.Logger
	running               []part
	through               ports

	buses   map[string]bus.Bus // by part
	mu      sync.Mutex
	answers map[string][][]byte    // by inbox: what the door said
	last    map[string]*bus.Result // by reply subject: the last word
	seen    map[string]uint64      // by reply subject: the next chunk that was not heard yet
	anew    int                    // bytes of chunks heard for the first time
	again   int                    // and of all else that agents said
}

// part is a process, or would be one.
type part struct {
	name string
	stop func() error
}

// faultLog keeps what must not happen.
type faultLog struct {
	mu    sync.Mutex
	lines []string
}

func (f *faultLog) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("must not happen")) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.lines = append(f.lines, string(p))
	}
	return len(p), nil
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// run runs a part until it is stopped.
func (h *house) run(name string, serve func(context.Context) error, ready <-chan struct{}) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx) }()
	select {
	case <-ready:
	case err := <-ended:
		cancel()
		h.t.Fatalf("%s ended before it was ready: %v", name, err)
	}
	h.running = append(h.running, part{name, func() error {
		select {
		case err := <-ended:
			cancel()
			return fmt.Errorf("%s died: %v", name, err)
		default:
		}
		cancel()
		if err := <-ended; err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}})
}

// stop ends a part and its connection.
func (h *house) stop(name string) {
	h.t.Helper()
	i := slices.IndexFunc(h.running, func(p part) bool { return p.name == name })
	h.must(h.running[i].stop())
	h.running = slices.Delete(h.running, i, i+1)
	h.must(h.buses[name].Close())
}

// ports are a part's ways to the others.
type ports func(part string, b bus.Bus, r bus.Registry) (bus.Bus, bus.Registry)

func direct(_ string, b bus.Bus, r bus.Registry) (bus.Bus, bus.Registry) { return b, r }

// open opens a market whose engines say so much of what they add to a prompt.
func open(t *testing.T, through ports, template *bus.Template) *house {
	h := &house{t: t, world: membus.New(1), engine: map[string]*engine{}, answers: map[string][][]byte{},
		last: map[string]*bus.Result{}, seen: map[string]uint64{}, through: through,
		buses: map[string]bus.Bus{}, nodes: map[string]*agentserve.Server{}}
	h.me, _ = h.connect("me")
	h.log = slog.New(slog.NewTextHandler(&h.faults, &slog.HandlerOptions{Level: slog.LevelError}))
	listen := func(subject string, f func(bus.Msg)) {
		_, err := h.me.Subscribe(subject, "", func(m bus.Msg) {
			h.mu.Lock()
			defer h.mu.Unlock()
			f(m)
		})
		h.must(err)
	}
	for _, c := range clients {
		listen(bus.InboxOf(c)+".*",
			func(m bus.Msg) { h.answers[m.Subject] = append(h.answers[m.Subject], m.Data) })
	}
	listen("souk.v1.reply.*.*.*", func(m bus.Msg) {
		var c bus.Chunk
		if err := bus.Decode(m.Data, &c); err != nil {
			t.Errorf("%s: a chunk that cannot be read: %v", m.Subject, err)
		} else if c.Result != nil {
			h.last[m.Subject[:strings.LastIndexByte(m.Subject, '.')]] = c.Result
		}
		if !c.Heartbeat && c.Seq >= h.seen[m.Subject] {
			h.seen[m.Subject] = c.Seq + 1
			h.anew += len(m.Data)
		} else {
			h.again += len(m.Data)
		}
	})

	b, r := h.connect("treasury")
	bank, err := bankserve.New(treasury.Default(), bankserve.Deps{Bus: b, Registry: r,
		Journal: &h.treasuryBook, Log: h.log})
	h.must(err)
	h.run("treasury", bank.Run, bank.Ready())
	for _, c := range clients {
		data, err := bus.Encode(&bus.FundsRequest{ID: "opening-" + c, Client: c, Amount: market.Credit})
		h.must(err)
		_, err = h.me.Request(t.Context(), bus.Msg{Subject: bus.LedgerSubject(bus.OpDeposit, h.me.Name()),
			Data: data})
		h.must(err)
	}

	h.runHub()
	for _, name := range []string{"node-1", "node-2"} {
		h.engine[agentOf(name)] = newEngine(template)
		h.runNode(name)
	}

	d := classifier.Default()
	d.ID, d.Drain = "door", 5*time.Second
	b, r = h.connect("door")
	h.door, err = doorserve.New(d, doorserve.Deps{Bus: b, Registry: r, Log: h.log})
	h.must(err)
	h.run("door", h.door.Run, h.door.Ready())
	h.pass(2 * time.Second) // the hub has said what it sells
	return h
}

func (h *house) runHub() {
	h.t.Helper()
	h.newHub(false)
	h.run("hub", h.hub.Run, h.hub.Ready())
}

// newHub makes a hub that has what earlier ones left in its journal, and ends if it is told so.
func (h *house) newHub(ends bool) {
	h.t.Helper()
	cfg := choices.Hub()
	cfg.Domain, cfg.Hub, cfg.Journal, cfg.General = "general", "hub-1", "hub", true
	b, r := h.connect("hub")
	var err error
	h.hub, err = hubserve.New(cfg, hubserve.Deps{Bus: b, Registry: r,
		Journal: &h.hubBook, Log: h.log, Seed: [32]byte{1}, Close: ends})
	h.must(err)
}

func (h *house) runNode(name string) {
	h.t.Helper()
	id := agentOf(name)
	b, r := h.connect(name)
	node, err := agentserve.NewServer(agentd.Config{Node: name, Agents: []agentd.AgentConfig{{
		ID: id, Engine: agentd.EngineConfig{URL: "http://" + id}, Slots: 4, Price: card,
		Domains: []bus.DomainScore{{Domain: "general", Score: 0.7}}}}},
		agentserve.Deps{Bus: b, Registry: r, Log: h.log,
			Engine: func(agentd.EngineConfig) agentd.Engine { return h.engine[id] }})
	h.must(err)
	h.nodes[name] = node
	h.run(name, node.Run, node.Ready())
}

// agentOf is the agent of a node.
func agentOf(node string) string { return strings.Replace(node, "node-", "a-", 1) }

// connect gives a part its ways to the others.
func (h *house) connect(part string) (bus.Bus, bus.Registry) {
	b := h.world.Bus(part)
	h.buses[part] = b
	return h.through(part, b, h.world.Registry())
}

func (h *house) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// quietWithin bounds how long a task may take that nobody ends: the deadline that it waits for a slot, and
// what its hold lasts.
const quietWithin = 30 * time.Minute

// close waits until nothing is under way, ends all parts, and returns the holds that the hub has ended.
func (h *house) close() map[string]ending {
	h.t.Helper()
	waited := time.Duration(0)
	for ; waited < quietWithin; waited += time.Second {
		if s := h.hub.Stats(); s.Open == 0 && s.Holds == 0 && h.door.Stats().Open == 0 {
			break
		}
		h.pass(time.Second)
	}
	if waited >= quietWithin {
		s := h.hub.Stats()
		h.t.Errorf("after %v the hub has %d tasks open and %d holds, the door %d tasks", waited, s.Open,
			s.Holds, h.door.Stats().Open)
	}
	h.pass(35 * time.Second) // ended answers are forgotten
	if s := h.hub.Stats(); s.Faults > 0 {
		h.t.Errorf("the hub counts %d faults", s.Faults)
	}
	for _, node := range h.nodes {
		for _, a := range node.Stats().Agents {
			if a.InFlight != 0 || a.Pending != 0 {
				h.t.Errorf("agent %s has %d tasks in flight and %d completions to say", a.Agent, a.InFlight,
					a.Pending)
			}
		}
	}
	for _, p := range slices.Backward(h.running) {
		if err := p.stop(); err != nil {
			h.t.Error(err)
		}
	}
	h.faults.mu.Lock()
	for _, line := range h.faults.lines {
		h.t.Error(line)
	}
	h.faults.mu.Unlock()
	for _, b := range h.buses {
		h.must(b.Close())
	}
	return h.audit()
}

// ending holds a hub's records of a hold.
type ending struct {
	hold    ledger.Hold
	capture *ledger.Capture
	void    *ledger.Void
}

// audit checks both journals at every level.
func (h *house) audit() map[string]ending {
	h.t.Helper()
	read := func(name string, m *memory) *ledger.Audit {
		a := ledger.NewAudit(name, ledger.MaxLevel)
		for i := range m.frames {
			a.Frame(m.frames[i].Seq, m.frames[i].Epoch, ledger.AppendFrame(nil, &m.frames[i]))
		}
		return a
	}
	selling, bank := read("hub", &h.hubBook), read("treasury", &h.treasuryBook)
	selling.Mark()
	found := slices.Concat(selling.Finish().Findings, bank.Finish().Findings, ledger.Across(bank,
		[]*ledger.Audit{selling}))
	for _, f := range found {
		h.t.Error(f)
	}
	ends := map[string]ending{}
	for _, f := range h.hubBook.frames {
		for _, r := range f.Records {
			switch {
			case r.Hold != nil:
				e := ends[ledger.HoldID("hub", r.Hold.Round, r.Hold.Slot)]
				e.hold = *r.Hold
				ends[ledger.HoldID("hub", r.Hold.Round, r.Hold.Slot)] = e
			case r.Capture != nil:
				e := ends[r.Capture.Hold]
				e.capture = r.Capture
				ends[r.Capture.Hold] = e
			case r.Void != nil:
				e := ends[r.Void.Hold]
				e.void = r.Void
				ends[r.Void.Hold] = e
			}
		}
	}
	return ends
}

// accepted reads what the door said to a request: the stream that it was promised, or nil where the answer is
// the last word.
func accepted(data []byte) (*bus.Accepted, error) {
	if len(data) > 0 && data[0] == '{' {
		var both struct {
			bus.Accepted
			Code  bus.Code `json:"code"`
			Usage *market.Usage
		}
		if err := json.Unmarshal(data, &both); err != nil {
			return nil, err
		}
		if both.Usage == nil && both.Reply != "" {
			return &both.Accepted, nil
		}
		return nil, nil
	}
	var a bus.Answer
	if err := bus.Decode(data, &a); err != nil {
		return nil, err
	}
	return a.Accepted, nil
}
