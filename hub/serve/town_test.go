package serve

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/membus"
	"souk/bus/tip"
	"souk/hub"
	"souk/ledger"
	"souk/ledger/journal"
	"souk/market"
)

// town is a hub on a bus in memory with a real journal, and the least of a treasury and of agents around it.
type town struct {
	t     *testing.T
	world *membus.World
	bus   bus.Bus
	dir   string

	log *slog.Logger // of hubs; nil: none

	mu      sync.Mutex
	ended   bool      // what the treasury says of the hub
	mark    *tip.Mark // and of its own journal
	prepaid map[string]market.Credits
	grants  []bus.Grant
	seen    map[string]bus.FundsReply
}

func newTown(t *testing.T) *town {
	w := membus.New(1)
	tn := &town{t: t, world: w, bus: w.Bus("town"), dir: filepath.Join(t.TempDir(), "hub-math"),
		prepaid: map[string]market.Credits{"ann": 1000 * market.Credit}, seen: map[string]bus.FundsReply{}}
	tn.subscribe(bus.LedgerSubjects, tn.treasury)
	t.Cleanup(func() { tn.bus.Close() })
	return tn
}

func (tn *town) subscribe(subject string, h bus.Handler) {
	tn.t.Helper()
	if _, err := tn.bus.Subscribe(subject, "", h); err != nil {
		tn.t.Fatal(err)
	}
}

func (tn *town) publish(subject, reply string, m bus.Message) {
	data, err := bus.Encode(m)
	if err == nil {
		err = tn.bus.Publish(bus.Msg{Subject: subject, Reply: reply, Data: data})
	}
	if err != nil && !errors.Is(err, bus.ErrClosed) {
		tn.t.Errorf("publish on %s: %v", subject, err)
	}
}

func (tn *town) treasury(m bus.Msg) {
	tn.mu.Lock()
	defer tn.mu.Unlock()
	var q bus.FundsRequest
	if err := bus.Decode(m.Data, &q); err != nil {
		tn.t.Error(err)
		return
	}
	op, _, _, _ := bus.ParseLedger(m.Subject)
	r, repeated := tn.seen[q.ID]
	if !repeated || op == bus.OpAllotted {
		r = bus.FundsReply{ID: q.ID, Client: q.Client}
		switch op {
		case bus.OpAllotted:
			r.Ended, r.Mark = tn.ended, tn.mark
			if tn.mark != nil {
				r.Journal = tn.mark.Journal
			}
			for _, g := range tn.grants {
				if g.Hub == q.Hub && g.Number > q.After {
					r.Grants = append(r.Grants, g)
				}
			}
		case bus.OpReturn:
			tn.prepaid[q.Client] += q.Amount
		case bus.OpAllot:
			if have := tn.prepaid[q.Client]; have < q.Amount {
				r.Code = bus.CodeInsufficientFunds
			} else {
				tn.prepaid[q.Client] -= q.Amount
				number := uint64(1)
				for _, g := range tn.grants {
					if g.Hub == q.Hub {
						number++
					}
				}
				g := bus.Grant{Number: number, Client: q.Client, Hub: q.Hub, Amount: q.Amount}
				tn.grants = append(tn.grants, g)
				r.Grants = []bus.Grant{g}
			}
		}
		tn.seen[q.ID] = r
	}
	tn.publish(m.Reply, "", &r)
}

// agent registers one and serves whatever it is handed: accepted at once, then done, with 10 tokens out.
// serve may take over: false keeps the dispatch for the test.
func (tn *town) agent(id string, slots int, serve func(bus.Dispatch) bool) bus.Lease {
	tn.t.Helper()
	tn.subscribe(bus.DispatchSubject(id, "*"), func(m bus.Msg) {
		var d bus.Dispatch
		if err := bus.Decode(m.Data, &d); err != nil {
			tn.t.Error(err)
			return
		}
		if serve != nil && !serve(d) {
			return
		}
		tn.publish(m.Reply, "", &bus.DispatchReply{Agent: id, Boot: d.Boot, Hold: d.Hold})
		tn.publish(bus.CompletionSubject(d.Domain, id), "", served(id, d))
	})
	reg := registration(id, slots)
	data, err := bus.EncodeEntry(&reg)
	if err != nil {
		tn.t.Fatal(err)
	}
	l, err := tn.world.Registry().Register(tn.t.Context(), bus.AgentKey(id), data, 5*time.Second)
	if err != nil {
		tn.t.Fatal(err)
	}
	return l
}

// hub runs a hub until stop is called, which returns Run's error.
func (tn *town) hub(change func(*hub.Config)) (s *Server, stop func() error) {
	tn.t.Helper()
	j, err := journal.Open(tn.dir, journal.Config{MinFree: -1})
	if err != nil {
		tn.t.Fatal(err)
	}
	s, run := tn.run(tn.world.Registry(), j, change)
	stop = func() error {
		err := run.stop()
		if e := j.Close(); err == nil {
			err = e
		}
		return err
	}
	tn.t.Cleanup(func() { stop() })
	return s, stop
}

func (tn *town) run(r bus.Registry, j ledger.Journal, change func(*hub.Config)) (s *Server,
	stop stopper) {
	tn.t.Helper()
	s, stop, failed := tn.start(r, j, change)
	select {
	case <-s.Ready():
	case err := <-failed:
		tn.t.Fatalf("the hub ended before it was ready: %v", err)
	case <-time.After(time.Minute):
		tn.t.Fatal("the hub is not ready after a minute")
	}
	return s, stop
}

// start runs a hub that need not become ready.
func (tn *town) start(r bus.Registry, j ledger.Journal, change func(*hub.Config)) (s *Server,
	stop stopper, failed <-chan error) {
	tn.t.Helper()
	cfg := testConfig()
	if change != nil {
		change(&cfg)
	}
	b, log := tn.world.Bus(cfg.Journal), tn.log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s, err := New(cfg, Deps{Bus: b, Registry: r, Journal: j, Log: log})
	if err != nil {
		tn.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done, early := make(chan error, 1), make(chan error, 1)
	go func() {
		err := s.Run(ctx)
		early <- err
		done <- err
	}()
	var once sync.Once
	var result error
	wait := func() error {
		once.Do(func() {
			result = <-done
			b.Close()
		})
		return result
	}
	stop = stopper{cancel, wait}
	tn.t.Cleanup(func() { stop.stop() })
	return s, stop, early
}

// stopper ends a hub, or waits for one that ends by itself.
type stopper struct {
	cancel func()
	wait   func() error
}

func (s stopper) stop() error {
	s.cancel()
	return s.wait()
}

// ask sends a task and waits for the hub's one answer.
func (tn *town) ask(m *bus.Task) string {
	tn.t.Helper()
	data, err := bus.Encode(m)
	if err != nil {
		tn.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(tn.t.Context(), time.Minute)
	defer cancel()
	reply, err := tn.bus.Request(ctx, bus.Msg{Subject: bus.HubTaskSubject("math", "door"), Data: data})
	if err != nil {
		return "error: " + err.Error()
	}
	var a bus.Answer
	if err := bus.Decode(reply.Data, &a); err != nil {
		tn.t.Fatal(err)
	}
	if a.Accepted != nil {
		return "accepted by " + a.Accepted.Agent
	}
	return string(a.Result.Code)
}

func request(id string) *bus.Task {
	return task("ann", id)
}

func (tn *town) journal(name string) *journal.Journal {
	tn.t.Helper()
	j, err := journal.Open(filepath.Join(filepath.Dir(tn.dir), name), journal.Config{MinFree: -1})
	if err != nil {
		tn.t.Fatal(err)
	}
	tn.t.Cleanup(func() { j.Close() })
	return j
}

func testConfig() hub.Config {
	c := hub.Default()
	c.Domain, c.Hub, c.Journal = "math", "hub-1", "hub-math"
	c.Labels = []string{"gsm8k"}
	c.DrainTimeout = 2 * time.Second
	c.SlowestITL = 100 * time.Millisecond       // so that holds end in a minute or two
	c.Suspect, c.Silence = time.Hour, time.Hour // agents of a town say nothing unless they are asked
	return c
}

// card is a price card in credits per million tokens.
func card(miss, hit, out market.Credits) market.Price {
	return market.Price{Miss: miss * market.Credit, Hit: hit * market.Credit, Out: out * market.Credit}
}

func registration(id string, slots int) bus.Registration {
	return bus.Registration{
		Agent: id, Boot: 1, Model: "llama", Domains: []bus.DomainScore{{Domain: "math", Score: 0.8}},
		MaxModelLen: 8192, BlockSize: 16, KVTokens: 100_000, Slots: slots,
		Price: card(1, 1, 4), State: bus.StateReady,
	}
}

// task is a request of some 100 prompt tokens.
func task(client, id string) *bus.Task {
	return &bus.Task{Client: client, ID: id, Kind: bus.KindChat, Body: []byte(`{"messages":[]}`),
		Stream:    true,
		MaxTokens: 100, Session: "s-" + id, Inbox: "inbox." + client + "." + id,
		Prompt: bus.Prompt{Bytes: 400, Messages: 1, Tokens: 100, Prefixes: []bus.PrefixHash{{Bytes: 400,
			Hash: 42}}}}
}

// served is an honest agent's account of what it serves of every dispatch: 10 tokens.
func served(agent string, d bus.Dispatch) *bus.Completion {
	return completion(agent, d, market.Usage{Prompt: 100, Output: 10})
}

// completion is an honest agent's account of a dispatch.
func completion(agent string, d bus.Dispatch, u market.Usage) *bus.Completion {
	return &bus.Completion{
		Agent: agent, Boot: 1, Hold: d.Hold, Client: d.Task.Client, Task: d.Task.ID,
		Outcome: bus.OutcomeDone, Finish: "stop", Usage: u, Relayed: u.Output, TTFTUS: 50_000, ITLUS: 10_000,
		Cost:  market.Settle(d.Settle, d.Price, d.Tariff, d.Quoted, u, d.CostCap),
		Inbox: "ack." + d.Hold,
	}
}
