package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/membus"
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
	prepaid map[string]market.Credits
	grants  []bus.Grant
	seen    map[string]bus.FundsReply
}

func newTown(t *testing.T) *town {
	w := membus.New(1)
	tn := &town{t: t, world: w, bus: w.Bus("town"), dir: filepath.Join(t.TempDir(), "hub-math"),
		prepaid: map[string]market.Credits{"ann": 1000 * market.Credit}, seen: map[string]bus.FundsReply{}}
	tn.subscribe("souk.v1.ledger.*", tn.treasury)
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
	op := bus.LastToken(m.Subject)
	r, repeated := tn.seen[q.ID]
	if !repeated || op == bus.OpAllotted {
		r = bus.FundsReply{ID: q.ID, Client: q.Client}
		switch op {
		case bus.OpAllotted:
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
				g := bus.Grant{ID: q.ID, Number: number, Client: q.Client, Hub: q.Hub, Amount: q.Amount}
				tn.grants = append(tn.grants, g)
				r.Grants = []bus.Grant{g}
			}
		}
		tn.seen[q.ID] = r
	}
	tn.publish(m.Reply, "", &r)
}

// agent registers one and serves whatever it is handed: accepted at once, then done, with 10 tokens out. serve may
// take over: false keeps the dispatch for the test.
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
		tn.publish(m.Reply, "", &bus.DispatchReply{Agent: id, Hold: d.Hold})
		tn.publish(bus.CompletionSubject(d.Domain, id), "", completion(id, d, market.Usage{Prompt: 100, Output: 10}))
	})
	reg := registration(id, "llama", slots, 0.8, card(1, 1, 4))
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
func (tn *town) hub(change func(*Config)) (s *Server, stop func() error) {
	tn.t.Helper()
	j, err := journal.Open(tn.dir, journal.Config{MinFree: -1})
	if err != nil {
		tn.t.Fatal(err)
	}
	s, run := tn.run("hub", tn.world.Registry(), j, change)
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

func (tn *town) run(name string, r bus.Registry, j ledger.Journal, change func(*Config)) (s *Server, stop stopper) {
	tn.t.Helper()
	s, stop, failed := tn.start(name, r, j, change)
	select {
	case <-s.Ready():
	case err := <-failed:
		tn.t.Fatalf("the hub ended before it was ready: %v", err)
	case <-time.After(10 * time.Second):
		tn.t.Fatal("the hub is not ready after 10 s")
	}
	return s, stop
}

// start runs a hub that need not become ready.
func (tn *town) start(name string, r bus.Registry, j ledger.Journal, change func(*Config)) (s *Server, stop stopper, failed <-chan error) {
	tn.t.Helper()
	cfg := testConfig()
	if change != nil {
		change(&cfg)
	}
	b, log := tn.world.Bus(name), tn.log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s, err := NewServer(cfg, Deps{Bus: b, Registry: r, Journal: j, Log: log})
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
	ctx, cancel := context.WithTimeout(tn.t.Context(), 10*time.Second)
	defer cancel()
	reply, err := tn.bus.Request(ctx, bus.Msg{Subject: bus.HubTaskSubject("math"), Data: data})
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
	return (&house{}).task("ann", id)
}

// until polls a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	within(t, 10*time.Second, what, ok)
}

func within(t *testing.T, wait time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(wait)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("after %v still not: %s", wait, what)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(what)
		case <-time.After(wait / 2000):
		}
	}
}

// A journal that is gone is not begun anew under its name: what it held would be spent twice.
func TestAJournalThatIsGone(t *testing.T) {
	tn := newTown(t)
	tn.agent("a-1", 2, nil)
	_, stop := tn.hub(nil)
	if got := tn.ask(request("t-1")); got != "accepted by a-1" {
		t.Fatal(got)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(tn.dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"again", "again-2"} {
		j := tn.journal(filepath.Base(tn.dir))
		_, _, failed := tn.start(name, tn.world.Registry(), j, nil)
		if err := <-failed; err == nil || !strings.Contains(err.Error(), "journal hub-math is empty, but the treasury has allotted money to one of that name") {
			t.Errorf("%s: %v", name, err)
		}
		j.Close()
	}
	_, stop = tn.hub(func(c *Config) { c.Journal = "hub-new" })
	if got := tn.ask(request("t-2")); got != "accepted by a-1" {
		t.Error(got)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A hub with a new journal waits for its treasury.
func TestANewJournalWaitsForTheTreasury(t *testing.T) {
	tn := newTown(t)
	tn.world.Cut("town")
	j := tn.journal(filepath.Base(tn.dir))
	s, stop, failed := tn.start("hub", tn.world.Registry(), j, nil)
	select {
	case err := <-failed:
		t.Fatalf("it ended: %v", err)
	case <-s.Ready():
		t.Fatal("it is ready")
	case <-time.After(100 * time.Millisecond):
	}
	tn.world.Heal("town")
	select {
	case err := <-failed:
		t.Fatalf("it ended: %v", err)
	case <-s.Ready():
	}
	if err := stop.stop(); err != nil {
		t.Error(err)
	}
	j.Close()
}

func TestServerServesSettlesAndStartsAgain(t *testing.T) {
	tn := newTown(t)
	tn.agent("a-1", 64, nil)
	s, stop := tn.hub(nil)
	var all sync.WaitGroup
	for c := range 8 {
		all.Go(func() {
			for i := range 25 {
				if got := tn.ask(request(fmt.Sprintf("t-%d-%d", c, i))); got != "accepted by a-1" {
					t.Errorf("task %d-%d: %s", c, i, got)
				}
			}
		})
	}
	all.Wait()
	until(t, "200 captures", func() bool { return s.Stats().Captured == 200 })
	if st := s.Stats(); st.Tasks[""] != 200 || st.Faults != 0 || st.Decision.Count == 0 || st.Sync.Count > 600 {
		t.Errorf("stats: %+v", st)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	tn.mu.Lock()
	spent := market.Credits(200 * (100 + 40) * 1000)
	if got := tn.prepaid["ann"]; got != 1000*market.Credit-spent {
		t.Errorf("after the stop ann has %v with the treasury, want all but the %v spent", got, spent)
	}
	tn.mu.Unlock()

	// What the journal says, by the ledger's own rules.
	book := ledger.NewBook()
	if err := journal.Read(tn.dir, book.ApplyFrame); err != nil {
		t.Fatal(err)
	}
	if got := book.Balance(ledger.Payable("a-1")); got != spent || book.OpenCount() != 0 || book.Avail("ann") != 0 {
		t.Errorf("the journal: payable %v (want %v), %d holds open, %v available", got, spent, book.OpenCount(), book.Avail("ann"))
	}

	// A second start remembers the ids of the first.
	_, stop = tn.hub(nil)
	if got := tn.ask(request("t-0-0")); got != "accepted by a-1" { // whose chunks are still there
		t.Errorf("an id of the first run: %s", got)
	}
	if got := tn.ask(request("new")); got != "accepted by a-1" {
		t.Errorf("a new task: %s", got)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}

	// So does one that begins with a snapshot, and with what was settled behind it.
	j := tn.journal(filepath.Base(tn.dir))
	if err := j.Snapshot(nil, newHistory(testConfig())); err != nil {
		t.Fatal(err)
	}
	j.Close()
	for _, id := range []string{"newer", "newest"} {
		_, stop = tn.hub(nil)
		if got := tn.ask(request("t-7-24")); got != "accepted by a-1" && got != "answer_gone" { // by how long all this took
			t.Errorf("an id of the first run: %s", got)
		}
		if got := tn.ask(request(id)); got != "accepted by a-1" {
			t.Errorf("a new task: %s", got)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
	want, got := ledger.NewBook(), newHistory(testConfig())
	j = tn.journal(filepath.Base(tn.dir))
	err := errors.Join(j.Restore(got), journal.Read(tn.dir, want.ApplyFrame))
	if err != nil || !slices.Equal(got.Book().Balances("*"), want.Balances("*")) || got.Book().Balance(ledger.Payable("a-1")) != spent/200*203 {
		t.Errorf("%v; from a snapshot: %v\nfrom the first frame: %v", err, got.Book().Balances("*"), want.Balances("*"))
	}
}

// failing is a journal whose disk breaks.
type failing struct {
	ledger.Journal
	mu   sync.Mutex
	left int
}

var errDisk = errors.New("disk is gone")

func (f *failing) Append(frames ...ledger.Frame) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left--; f.left < 0 {
		return errDisk
	}
	return f.Journal.Append(frames...)
}

func TestNothingLeavesThatIsNotDurable(t *testing.T) {
	tn := newTown(t)
	handed := make(chan bus.Dispatch, 10)
	tn.agent("a-1", 4, func(d bus.Dispatch) bool { handed <- d; return true })
	j, err := journal.Open(tn.dir, journal.Config{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	disk := &failing{Journal: j, left: 1 << 30}
	s, stop := tn.run("hub", tn.world.Registry(), disk, nil)
	if got := tn.ask(request("good")); got != "accepted by a-1" {
		t.Fatal(got)
	}
	until(t, "the capture of the first task", func() bool { return s.Stats().Captured == 1 })
	<-handed
	disk.mu.Lock()
	disk.left = 0
	disk.mu.Unlock()
	tn.publish(bus.HubTaskSubject("math"), "nowhere", request("lost"))
	err = stop.wait()
	if !errors.Is(err, errDisk) {
		t.Errorf("the hub ended with %v, want the disk's error", err)
	}
	select {
	case d := <-handed:
		t.Errorf("%s was dispatched although its hold was not durable", d.Task.ID)
	default:
	}
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

// A hub that loses its lease stops awarding; its standby takes over the domain and the agents; what ran under the
// first is settled by it when it leads again, and by nobody else.
func TestTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tn := newTown(t)
		kept := make(chan bus.Dispatch, 10)
		tn.agent("a-1", 8, func(d bus.Dispatch) bool {
			if d.Task.ID == "kept" {
				kept <- d
				tn.publish("keep."+d.Hold[:5], "", &bus.DispatchReply{Agent: "a-1", Hold: d.Hold})
				return false
			}
			return true
		})
		one, two := tn.world.Registry(), tn.world.Registry()
		first, _ := tn.run("hub-one", one, tn.journal("one"), func(c *Config) { c.Hub, c.Journal = "one", "one" })
		second, stopSecond, _ := tn.start("hub-two", two, tn.journal("two"), func(c *Config) { c.Hub, c.Journal = "two", "two" })
		if got := tn.ask(request("t-1")); got != "accepted by a-1" {
			t.Fatal(got)
		}
		tn.publish(bus.HubTaskSubject("math"), "nowhere", request("kept"))
		d := <-kept
		if second.Stats().Arrived != 0 {
			t.Error("the standby has seen a task")
		}

		one.Cut()
		<-second.Ready()
		until(t, "the standby serves", func() bool { return tn.ask(request("t-2")) == "accepted by a-1" })
		if st := first.Stats(); st.Arrived != 2 || st.Open != 1 {
			t.Errorf("the first hub went on: %+v", st)
		}
		one.Heal()
		stopSecond.stop()
		until(t, "the first leads again", func() bool { return tn.ask(request("t-3")) == "accepted by a-1" })
		tn.publish(bus.CompletionSubject("math", "a-1"), "", completion("a-1", d, market.Usage{Prompt: 100, Output: 10}))
		until(t, "what ran under the first is paid", func() bool { return first.Stats().Captured == 3 })
		if first.Stats().Faults != 0 || second.Stats().Faults != 0 {
			t.Error("faults")
		}
	})
}

// A dispatch that is lost on the way is sent again; of an agent that never hears one the client is told. The trace context is
// not lost.
func TestLostMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tn := newTown(t)
		tn.agent("a-1", 1, nil)
		s, _ := tn.hub(nil)
		tn.world.DropNext(1, bus.DispatchSubject("a-1", "math"))
		if got := tn.ask(request("once")); got != "accepted by a-1" {
			t.Errorf("a dispatch lost once: %s", got)
		}
		tn.world.DropNext(3, bus.DispatchSubject("a-1", "math"))
		if got := tn.ask(request("lost")); got != "unknown" {
			t.Errorf("a lost dispatch: %s", got)
		}
		within(t, 2*time.Minute, "the hold ends by its own time", func() bool {
			st := s.Stats()
			return st.Holds == 0 && st.Voids[bus.CodeTimeout] == 1
		})
	})
}

// A request that the treasury has not answered in its time is over, and made anew while the task still waits.
func TestATreasuryThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tn := newTown(t)
		tn.agent("a-1", 1, nil)
		tn.hub(func(c *Config) { c.Silence, c.Suspect = time.Hour, time.Hour }) // its agent says nothing of itself
		for i := range 12 {
			client := fmt.Sprint("c", i)
			tn.mu.Lock()
			tn.prepaid[client] = 1000 * market.Credit
			tn.mu.Unlock()
			tn.world.DropNext(1, bus.LedgerSubject(bus.OpAllot))
			if got := tn.ask((&house{}).task(client, "t")); got != "accepted by a-1" {
				t.Fatalf("%s: %s", client, got)
			}
		}
	})
}

// A treasury that is away for long is named once a minute, however often it is asked.
func TestASilentTreasuryIsNamedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &Server{log: slog.New(slog.NewTextHandler(&log, nil))}
		for range 150 { // seconds
			s.unanswered(Funds{}, bus.ErrNoResponders)
			time.Sleep(time.Second) // virtual
		}
		if got := strings.Count(log.String(), "treasury did not answer"); got != 3 {
			t.Errorf("%d lines in 150 s, want 3", got)
		}
	})
}

// A registry that answers with errors for ten minutes is named when it begins, once a minute, and when it is
// back; by all loops that ask it together, and by a hub that was deposed meanwhile.
func TestARegistryThatFailsIsNamedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tn := newTown(t)
		var log syncedLog
		j := tn.journal("hub-math")
		registry := &bustest.Failing{Registry: tn.world.Registry()}
		tn.log = slog.New(slog.NewTextHandler(&log, nil))
		_, stop := tn.run("hub", registry, j, nil)
		log.take()
		lines := func() string {
			var out []string
			for line := range strings.Lines(log.take()) {
				if strings.Contains(line, "level=WARN") || strings.Contains(line, "registry") ||
					strings.Contains(line, "msg=leading") {
					_, line, _ = strings.Cut(line, "msg=")
					out = append(out, strings.TrimSpace(line))
				}
			}
			return strings.Join(out, "\n")
		}
		registry.Away(true)
		time.Sleep(10*time.Minute + time.Second)
		if got := strings.Count(lines(), "; trying on"); got != 11 || registry.Calls() < 1000 {
			t.Errorf("%d lines of %d calls that failed in ten minutes, want 11", got, registry.Calls())
		}
		registry.Away(false)
		time.Sleep(2 * time.Second)
		if got := lines(); strings.Count(got, "\n") != 0 || !strings.Contains(got,
			"the registry answers again") {
			t.Errorf("when it was back it said %q", got)
		}
		// Deposed in the outage: it asks for the leadership again and again.
		registry.Away(true)
		time.Sleep(2 * time.Second)
		tn.world.Expire(bus.HubKey("math"))
		time.Sleep(5 * time.Minute)
		if got := lines(); strings.Count(got, "not leading") != 1 || strings.Count(got, "; trying on") != 5 ||
			strings.Count(got, "\n") != 5 {
			t.Errorf("in five minutes without leadership it said\n%s", got)
		}
		registry.Away(false)
		time.Sleep(10 * time.Second)
		if got := lines(); strings.Count(got, "\n") != 1 || strings.Count(got, "leading") != 1 ||
			strings.Count(got, "answers again") != 1 {
			t.Errorf("back, it said\n%s", got)
		}
		if err := stop.stop(); err != nil {
			t.Error(err)
		}
	})
}

// syncedLog is a log that is written and read at the same time.
type syncedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *syncedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// take returns what was written since it was called last.
func (l *syncedLog) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.b.String()
	l.b.Reset()
	return s
}

func TestTraceIsPassedOn(t *testing.T) {
	tn := newTown(t)
	trace := make(chan bus.Header, 1)
	tn.agent("a-1", 1, nil)
	tn.subscribe(bus.DispatchSubject("a-1", "*"), func(m bus.Msg) { trace <- m.Header })
	tn.hub(nil)
	data, err := bus.Encode(request("t-1"))
	if err != nil {
		t.Fatal(err)
	}
	h := bus.Header{"traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, "tracestate": {"k=v"}}
	if err := tn.bus.Publish(bus.Msg{Subject: bus.HubTaskSubject("math"), Header: h, Data: data}); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-trace:
		if got.Get("traceparent") != h.Get("traceparent") || got.Get("tracestate") != "k=v" {
			t.Errorf("headers %v", got)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("no dispatch")
	}
}

// full is a journal whose disk is nearly full.
type full struct {
	ledger.Journal
	mu  sync.Mutex
	yes bool
}

func (f *full) HasRoom() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.yes
}

// Append refuses new money, as the journal does.
func (f *full) Append(frames ...ledger.Frame) error {
	if !f.HasRoom() {
		for _, fr := range frames {
			for _, r := range fr.Records {
				if r.Kind != ledger.KindCapture && r.Kind != ledger.KindVoid && r.Kind != ledger.KindReturn {
					return ledger.ErrDiskFull
				}
			}
		}
	}
	return f.Journal.Append(frames...)
}

func (f *full) set(yes bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.yes = yes
}

// With a nearly full disk no money is held, what runs is settled, and everything goes on when there is room.
func TestDiskNearlyFull(t *testing.T) {
	tn := newTown(t)
	held := make(chan bus.Dispatch, 1)
	tn.agent("a-1", 4, func(d bus.Dispatch) bool {
		if d.Task.ID == "long" {
			held <- d
			return false
		}
		return true
	})
	disk := &full{Journal: tn.journal("hub-math")}
	s, _ := tn.run("hub", tn.world.Registry(), disk, nil)
	tn.publish(bus.HubTaskSubject("math"), "nowhere", request("long"))
	d := <-held
	disk.set(true)
	tn.mu.Lock()
	tn.prepaid["bob"] = 1000 * market.Credit
	tn.mu.Unlock()
	// An allotment is new money too, and the first task of a client asks for one.
	first := request("first")
	first.Client = "bob"
	if got := tn.ask(first); got != "unavailable" && got != "allotment_pending" {
		t.Errorf("a new client's first task: %s", got)
	}
	until(t, "tasks are refused", func() bool { return tn.ask(request(fmt.Sprint("t-", s.Stats().Arrived))) == "unavailable" })
	tn.publish(bus.CompletionSubject("math", "a-1"), "", completion("a-1", d, market.Usage{Prompt: 100, Output: 10}))
	until(t, "the running task is settled", func() bool { return s.Stats().Tasks[""] >= 1 && s.Stats().Holds == 0 })
	disk.set(false)
	until(t, "tasks are taken again", func() bool {
		return tn.ask(request(fmt.Sprint("u-", s.Stats().Arrived))) == "accepted by a-1"
	})
}

// Bytes that are no messages are counted and change nothing; whoever asked hears why.
func TestBytesThatAreNoMessages(t *testing.T) {
	tn := newTown(t)
	tn.agent("a-1", 1, nil)
	s, _ := tn.hub(nil)
	for _, subject := range []string{bus.SummarySubject("math", "a-1"), bus.CompletionSubject("math", "a-1"), bus.CancelSubject("math", "ann"), bus.FeedbackSubject("math", "ann")} {
		if err := tn.bus.Publish(bus.Msg{Subject: subject, Data: []byte("\xdd\xff\xff\xff\xff")}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	m, err := tn.bus.Request(ctx, bus.Msg{Subject: bus.HubTaskSubject("math"), Data: []byte("\xdd\xff\xff\xff\xff")})
	if err != nil {
		t.Fatal(err)
	}
	var a bus.Answer
	if err := bus.Decode(m.Data, &a); err != nil || a.Result == nil || a.Result.Code != bus.CodeBadRequest {
		t.Errorf("answer %+v, %v", a.Result, err)
	}
	until(t, "four counted", func() bool { return s.Stats().Rejected == 4 })
	if got := tn.ask(request("good")); got != "accepted by a-1" {
		t.Error(got)
	}
}

// An account that is none is acknowledged over the bus as well, and the agent's only slot is free at once.
func TestAnAccountThatIsNoneIsAnswered(t *testing.T) {
	tn := newTown(t)
	held := make(chan bus.Dispatch, 8) // unanswered, it may come again
	tn.agent("a-1", 1, func(d bus.Dispatch) bool {
		if d.Task.ID == "wrong" {
			held <- d
			return false
		}
		return true
	})
	tn.hub(nil)
	tn.publish(bus.HubTaskSubject("math"), "nowhere", request("wrong"))
	data, err := bus.Encode(completion("a-1", <-held, market.Usage{Prompt: 100, Cached: 101}))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		m, err := tn.bus.Request(ctx, bus.Msg{Subject: bus.CompletionSubject("math", "a-1"), Data: data})
		cancel()
		var ack bus.CompletionAck
		if err == nil {
			err = bus.Decode(m.Data, &ack)
		}
		if err != nil || ack.Code != bus.CodeLate {
			t.Errorf("%+v, %v", ack, err)
		}
	}
	if got := tn.ask(request("right")); got != "accepted by a-1" {
		t.Error(got)
	}
}

// counting is a journal that says how many frames each sync made durable.
type counting struct {
	ledger.Journal
	mu    sync.Mutex
	syncs []int
}

func (c *counting) Append(frames ...ledger.Frame) error {
	c.mu.Lock()
	c.syncs = append(c.syncs, len(frames))
	c.mu.Unlock()
	return c.Journal.Append(frames...)
}

func (c *counting) HasRoom() bool { return true }

// Settlements wait a little for a sync to share, and no longer than that; an award does not wait at all.
func TestSettlementsShareASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tn := newTown(t)
		handed := make(chan bus.Dispatch, 1)
		tn.subscribe(bus.DispatchSubject("a-1", "*"), func(m bus.Msg) {
			var d bus.Dispatch
			if err := bus.Decode(m.Data, &d); err != nil {
				t.Error(err)
			}
			tn.publish(m.Reply, "", &bus.DispatchReply{Agent: "a-1", Hold: d.Hold})
			handed <- d
		})
		tn.agent("a-1", 4, func(bus.Dispatch) bool { return false })
		j := &counting{Journal: tn.journal("hub-math")}
		s, stop := tn.run("hub", tn.world.Registry(), j, func(c *Config) { c.Linger = 50 * time.Millisecond })
		captured := func() int64 { return s.Stats().Captured }
		at := time.Now()
		for i := range 20 {
			if got := tn.ask(request(fmt.Sprintf("t-%d", i))); got != "accepted by a-1" {
				t.Fatal(got)
			}
			d := <-handed
			tn.publish(bus.CompletionSubject("math", "a-1"), "", completion("a-1", d, market.Usage{Prompt: 100, Output: 10}))
			synctest.Wait()
		}
		if took := time.Since(at); took > 10*time.Millisecond {
			t.Errorf("twenty awards took %v: they waited for a settlement", took)
		}
		j.mu.Lock()
		n := len(j.syncs)
		j.mu.Unlock()
		if n > 25 {
			t.Errorf("%d syncs for 20 rounds and 19 settlements", n)
		}
		time.Sleep(60 * time.Millisecond) // virtual: the last settlement has waited enough
		synctest.Wait()
		if j.mu.Lock(); len(j.syncs) != n+1 || captured() != 20 {
			t.Errorf("%d settlements, %d syncs after %d", captured(), len(j.syncs), n)
		}
		j.mu.Unlock()
		if err := stop.stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// A dispatch names the claim under which it is sent: the revision at which the registry has the claim's key,
// and a later one once the agent was away and is claimed anew.
func TestDispatchesCarryTheirClaimsFence(t *testing.T) {
	tn := newTown(t)
	got := make(chan bus.Dispatch, 2)
	serve := func(d bus.Dispatch) bool { got <- d; return true }
	lease := tn.agent("a-1", 1, serve)
	s, _ := tn.hub(nil)
	sold := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.node.freeSlots() == 1
	}
	until(t, "the agent is sold", sold)
	last := int64(0)
	for i := range 2 {
		kvs, err := tn.world.Registry().Get(t.Context(), bus.ClaimKey("a-1"))
		if err != nil || len(kvs) != 1 {
			t.Fatalf("claims %+v, %v", kvs, err)
		}
		tn.ask(request(fmt.Sprint("t-", i)))
		if d := <-got; d.Fence != kvs[0].Create || d.Fence <= last {
			t.Errorf("claim %d: fence %d, the claim was made at %d, the one before at %d", i, d.Fence, kvs[0].Create, last)
		}
		last = kvs[0].Create
		if i > 0 {
			break
		}
		if err := lease.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		until(t, "the agent is released", func() bool {
			kvs, _ := tn.world.Registry().Get(t.Context(), bus.ClaimKey("a-1"))
			return len(kvs) == 0
		})
		reg := registration("a-1", "llama", 1, 0.8, card(1, 1, 4))
		data, _ := bus.EncodeEntry(&reg)
		if _, err := tn.world.Registry().Register(t.Context(), bus.AgentKey("a-1"), data, 5*time.Second); err != nil {
			t.Fatal(err)
		}
		until(t, "the agent is sold again", sold)
	}
}
