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
	"souk/classifier"
	doorserve "souk/classifier/serve"
	"souk/hub"
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

func (m *memory) Restore(ledger.Replica) error              { return nil }
func (m *memory) Follow(func() ledger.Replica) (end func()) { return func() {} }
func (m *memory) Close() error                              { return nil }
func (m *memory) HasRoom() bool                             { return true }
func (m *memory) Life() string                              { return "" }
func (m *memory) Ended(string) bool                         { return false }

func (m *memory) Append(frames ...ledger.Frame) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frames = append(m.frames, frames...)
	return nil
}

// house is a whole market in memory but for its engine: treasury, door, hub and a node with two agents, on a
// clock that runs as fast as nobody has anything to do.
type house struct {
	t      *testing.T
	world  *membus.World
	me     bus.Bus // all clients'
	door   *doorserve.Server
	hub    *hubserve.Server
	node   *agentserve.Server
	engine map[string]*engine // by agent

	hubBook, treasuryBook memory
	faults                faultLog
	stops                 []func() error
	buses                 []bus.Bus

	mu      sync.Mutex
	answers map[string][][]byte    // by inbox: what the door said
	last    map[string]*bus.Result // by reply subject: the last word
	seen    map[string]uint64      // by reply subject: the next chunk that was not heard yet
	anew    int                    // bytes of chunks heard for the first time
	again   int                    // and of all else that agents said
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
	h.stops = append(h.stops, func() error {
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
	})
}

func open(t *testing.T) *house {
	h := &house{t: t, world: membus.New(1), engine: map[string]*engine{}, answers: map[string][][]byte{},
		last: map[string]*bus.Result{}, seen: map[string]uint64{}}
	connect := func(name string) bus.Bus {
		b := h.world.Bus(name)
		h.buses = append(h.buses, b)
		return b
	}
	h.me = connect("me")
	log := slog.New(slog.NewTextHandler(&h.faults, &slog.HandlerOptions{Level: slog.LevelError}))
	listen := func(subject string, f func(bus.Msg)) {
		_, err := h.me.Subscribe(subject, "", func(m bus.Msg) {
			h.mu.Lock()
			defer h.mu.Unlock()
			f(m)
		})
		h.must(err)
	}
	listen("_INBOX.me.*", func(m bus.Msg) { h.answers[m.Subject] = append(h.answers[m.Subject], m.Data) })
	listen("souk.v1.reply.*.*", func(m bus.Msg) {
		var c bus.Chunk
		if err := bus.Decode(m.Data, &c); err != nil {
			t.Errorf("%s: a chunk that cannot be read: %v", m.Subject, err)
		} else if c.Result != nil {
			h.last[m.Subject] = c.Result
		}
		if !c.Heartbeat && c.Seq >= h.seen[m.Subject] {
			h.seen[m.Subject] = c.Seq + 1
			h.anew += len(m.Data)
		} else {
			h.again += len(m.Data)
		}
	})

	bank, err := bankserve.New(treasury.Default(), bankserve.Deps{Bus: connect("treasury"),
		Journal: &h.treasuryBook, Log: log})
	h.must(err)
	h.run("treasury", bank.Run, bank.Ready())
	for _, c := range clients {
		data, err := bus.Encode(&bus.FundsRequest{ID: "opening-" + c, Client: c, Amount: market.Credit})
		h.must(err)
		_, err = h.me.Request(t.Context(), bus.Msg{Subject: bus.LedgerSubject(bus.OpDeposit), Data: data})
		h.must(err)
	}

	cfg := hub.Default()
	cfg.Domain, cfg.Hub, cfg.Journal, cfg.General = "general", "hub-1", "hub-general", true
	h.hub, err = hubserve.New(cfg, hubserve.Deps{Bus: connect("hub"), Registry: h.world.Registry(),
		Journal: &h.hubBook, Log: log, Seed: [32]byte{1}})
	h.must(err)
	h.run("hub", h.hub.Run, h.hub.Ready())

	node := agentd.Config{Node: "n"}
	for i := range 2 {
		id := fmt.Sprintf("a-%d", i+1)
		h.engine[id] = newEngine()
		node.Agents = append(node.Agents, agentd.AgentConfig{ID: id,
			Engine: agentd.EngineConfig{URL: "http://" + id}, Slots: 4, Price: card,
			Domains: []bus.DomainScore{{Domain: "general", Score: 0.7}}})
	}
	h.node, err = agentserve.NewServer(node,
		agentserve.Deps{Bus: connect("node"), Registry: h.world.Registry(),
			Log: log,
			Engine: func(c agentd.EngineConfig) agentd.Engine {
				return h.engine[strings.TrimPrefix(c.URL,
					"http://")]
			}})
	h.must(err)
	h.run("node", h.node.Run, h.node.Ready())

	d := classifier.Default()
	d.ID, d.Drain = "door", 5*time.Second
	h.door, err = doorserve.New(d, doorserve.Deps{Bus: connect("door"), Registry: h.world.Registry(),
		Log: log})
	h.must(err)
	h.run("door", h.door.Run, h.door.Ready())
	h.pass(2 * time.Second) // the hub has said what it sells
	return h
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
	for _, a := range h.node.Stats().Agents {
		if a.InFlight != 0 || a.Pending != 0 {
			h.t.Errorf("agent %s has %d tasks in flight and %d completions to say", a.Agent, a.InFlight,
				a.Pending)
		}
	}
	for _, stop := range slices.Backward(h.stops) {
		if err := stop(); err != nil {
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

// ending is what a hub's journal says of a hold.
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
	selling, bank := read("hub-general", &h.hubBook), read("treasury", &h.treasuryBook)
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
				e := ends[ledger.HoldID("hub-general", r.Hold.Round, r.Hold.Slot)]
				e.hold = *r.Hold
				ends[ledger.HoldID("hub-general", r.Hold.Round, r.Hold.Slot)] = e
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
