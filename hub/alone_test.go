package hub_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/ledger"
	"souk/market"
)

// alone is a hub that one test drives by itself: what its Node asks of the treasury waits for the test.
type alone struct {
	t     *testing.T
	n     *hub.Node
	now   time.Time
	said  map[string]*bus.Result // last words, by inbox
	hands []bus.Dispatch
	asks  []hub.Funds
	given uint64

	frames []ledger.Frame
}

func newAlone(t *testing.T, change func(*hub.Config), journal ...ledger.Frame) *alone {
	cfg := hub.Default()
	cfg.Domain, cfg.Hub, cfg.Journal = "math", "hub-1", "hub-math"
	change(&cfg)
	n, err := hub.NewNode(cfg, [32]byte{9})
	if err != nil {
		t.Fatal(err)
	}
	x := &alone{t: t, n: n, now: time.Unix(1_800_000_000, 0), said: map[string]*bus.Result{}}
	for _, f := range journal {
		x.ok(n.Past.Apply(f.Seq, f.Epoch, ledger.AppendFrame(nil, &f)))
	}
	x.ok(n.Lead(x.now, 3))
	x.ready()
	for _, f := range x.asks { // what it had been granted before: nothing
		x.step(&bus.FundsReply{ID: f.Request.ID})
	}
	x.asks = nil
	return x
}

func (x *alone) ok(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

func (x *alone) ready() {
	r := x.n.Ready()
	x.frames = append(x.frames, r.Frames...)
	x.hands, x.asks = append(x.hands, r.Dispatches...), append(x.asks, r.Funds...)
	for _, m := range r.Messages {
		if a, ok := m.Body.(*bus.Answer); ok && a.Result != nil {
			x.said[m.Subject] = a.Result
		}
	}
	for _, err := range r.Faults {
		x.t.Errorf("fault: %v", err)
	}
}

func (x *alone) step(m bus.Message) {
	x.t.Helper()
	x.ok(x.n.Step(x.now, m))
	x.ready()
}

// grants answers the oldest request for a client's money by the least that it asks for.
func (x *alone) grants(client string) {
	x.t.Helper()
	for i, f := range x.asks {
		if q := f.Request; f.Op == bus.OpAllot && q.Client == client {
			x.asks = append(x.asks[:i:i], x.asks[i+1:]...)
			x.given++
			x.step(&bus.FundsReply{ID: q.ID, Client: client, Grants: []bus.Grant{
				{Number: x.given, Client: client, Hub: "hub-math", Amount: q.Least}}})
			return
		}
	}
	x.t.Fatalf("no money is asked for %s: %+v", client, x.asks)
}

func (x *alone) agent(id string, slots int) {
	x.t.Helper()
	x.ok(x.n.Join(x.now, bus.Registration{Agent: id, Boot: 1, Model: "llama", MaxModelLen: 8192,
		BlockSize: 16, KVTokens: 100_000, Slots: slots, State: bus.StateReady,
		Domains: []bus.DomainScore{{Domain: "math", Score: 0.9}},
		Price:   market.Price{Miss: market.Credit, Hit: market.Credit, Out: 4 * market.Credit}}))
	x.ready()
}

func (x *alone) send(client, id string, worth market.Credits, most int, patience time.Duration) {
	x.t.Helper()
	x.step(x.task(client, id, worth, most, patience))
}

func (x *alone) task(client, id string, worth market.Credits, most int,
	patience time.Duration) *bus.Task {
	ms := patience.Milliseconds()
	return &bus.Task{Client: client, ID: id, Kind: bus.KindChat, Body: []byte(`{"messages":[]}`),
		Stream: true, MaxTokens: most, Inbox: client + "/" + id,
		Terms: bus.Terms{Worth: &worth, PatienceMS: &ms},
		Prompt: bus.Prompt{Bytes: 400, Messages: 1, Tokens: 100,
			Prefixes: []bus.PrefixHash{{Bytes: 400, Hash: bus.SessionKey(client, id)}}}}
}

// Many wait that are worth no more than they cost from the same moment on. As the first of them ends, what
// was set aside for it has others wait for a slot, for whom there is no room, so that one of those who are
// looked at leaves meanwhile.
func TestWhoLeavesWhileOthersAreFoundSpent(t *testing.T) {
	x := newAlone(t, func(c *hub.Config) {
		c.MaxWaiting, c.MaxWaitingPerClient, c.FundsWait, c.Prewarm.Every = 4, 100, time.Minute, 0
	})
	x.agent("a-1", 1)
	x.send("zoe", "runs", market.Credit/10, 10, time.Minute)
	x.grants("zoe")
	if len(x.hands) != 1 {
		t.Fatalf("%d tasks are handed out", len(x.hands))
	}
	x.step(&bus.DispatchReply{Agent: "a-1", Boot: 1, Hold: x.hands[0].Hold})
	x.send("ben", "much", market.Credit/10, 8000, 5*time.Second)
	x.grants("ben")
	for i := range 3 {
		x.send("ben", fmt.Sprint("little", i), market.Credit/100, 10, time.Hour)
	}
	for i := range 3 {
		x.send("amy", fmt.Sprint("a", i), market.Credit/10, 10, 5*time.Second)
		x.grants("amy")
	}
	if s := x.n.Stats(); s.Waiting != 4 || s.Open != 8 {
		t.Fatalf("%d wait and %d are open, want 4 and 8", s.Waiting, s.Open)
	}
	x.now = x.now.Add(30 * time.Second)
	x.step(&bus.Summary{Agent: "a-1", Boot: 1, Seq: 1, State: bus.StateReady, Slots: 1, InFlight: 1,
		Price: market.Price{Miss: market.Credit, Hit: market.Credit, Out: 4 * market.Credit}})
	x.n.Tick(x.now)
	x.ready()
	for id, want := range map[string]bus.Code{"ben/much": bus.CodeNotWorthIt, "amy/a0": bus.CodeNotWorthIt,
		"amy/a1": bus.CodeNotWorthIt, "amy/a2": bus.CodeNoRoom} {
		if r := x.said[id]; r == nil || r.Code != want {
			t.Errorf("%s is told %+v, want %s", id, r, want)
		}
	}
	if s := x.n.Stats(); s.Waiting != 2 || s.Open != 3 {
		t.Errorf("%d wait and %d are open, want 2 and 3", s.Waiting, s.Open)
	}
}

// A task that the journal alone knows, and that is sent again, begins then as far as the hub expects: its
// slot is expected to be free after as long as is usual, and not to have been for long.
func TestATaskTakenUpAgainBeginsThen(t *testing.T) {
	before := newAlone(t, func(c *hub.Config) { c.Prewarm.Every = 0 })
	before.agent("a-1", 1)
	before.send("zoe", "runs", market.Credit/10, 100, time.Minute)
	before.grants("zoe")
	if len(before.hands) != 1 {
		t.Fatalf("%d tasks are handed out", len(before.hands))
	}
	wait := func(x *alone) float64 {
		t.Helper()
		q := x.n.Quote(x.now, x.task("amy", "asks", market.Credit/10, 100, time.Minute))
		if len(q.Models) != 1 {
			t.Fatalf("a quote of %+v", q)
		}
		return q.Models[0].WaitMS
	}
	usual := wait(before)

	x := newAlone(t, func(c *hub.Config) { c.Prewarm.Every = 0 }, before.frames...)
	x.now = before.now.Add(50 * time.Second)
	x.agent("a-1", 1)
	x.send("zoe", "runs", market.Credit/10, 100, time.Minute)
	if got := wait(x); got != usual {
		t.Errorf("a slot is expected in %v ms, and in %v ms as it was handed out first", got, usual)
	}
}

// What a hub finds of those who are found spent it does not keep: no round may be held for long that would
// forget it.
func TestNothingIsKeptOfWhoIsFoundSpent(t *testing.T) {
	x := newAlone(t, func(c *hub.Config) { c.HoldGrace, c.Prewarm.Every = time.Hour, 0 })
	const agents, rounds = 8, 1500
	for i := range agents {
		x.agent(fmt.Sprint("a-", i), 1)
		x.send("zoe", fmt.Sprint("runs", i), market.Credit/10, 10, time.Minute)
		if len(x.hands) == i {
			x.grants("zoe")
		}
		d := x.hands[i]
		rec, _ := x.n.Book().Hold(d.Hold)
		x.step(&bus.DispatchReply{Agent: rec.Agent, Boot: 1, Hold: d.Hold})
	}
	heap := func() int64 {
		var m runtime.MemStats
		x.frames, x.said, x.asks = nil, map[string]*bus.Result{}, nil
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	first := int64(0)
	for k := range rounds {
		x.send("amy", "asks", market.Credit/10, 10, time.Second/2)
		if k == 0 {
			x.grants("amy")
		}
		x.now = x.now.Add(2100 * time.Millisecond)
		for i := range agents {
			x.step(&bus.Summary{Agent: fmt.Sprint("a-", i), Boot: 1, Seq: uint64(k + 1),
				State: bus.StateReady, Slots: 1, InFlight: 1,
				Price: market.Price{Miss: market.Credit, Hit: market.Credit, Out: 4 * market.Credit}})
		}
		x.n.Tick(x.now)
		x.ready()
		if r := x.said["amy/asks"]; r == nil || r.Code != bus.CodeNotWorthIt {
			t.Fatalf("after %d it is told %+v", k, r)
		}
		if k == rounds/10 {
			first = heap()
		}
		delete(x.said, "amy/asks")
	}
	if grown := heap() - first; grown > 200_000 {
		t.Errorf("after %d were found spent %d bytes more are kept than after %d", rounds, grown, rounds/10)
	}
	runtime.KeepAlive(x.n)
}
