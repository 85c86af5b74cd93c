package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/membus"
	"souk/cmd/choices"
	hubserve "souk/hub/serve"
	"souk/ledger"
	"souk/ledger/inspect"
	"souk/ledger/journal"
	"souk/ledger/treasury"
	bankserve "souk/ledger/treasury/serve"
	"souk/market"
)

// The pages of deploy/runbook.md for a lost hub, a lost treasury and an old copy are played here, with the
// processes' shells and journals on disk, in virtual time.

// stall is a market of one domain in a data directory.
type stall struct {
	t       *testing.T
	ctx     context.Context
	world   *membus.World
	me      bus.Bus
	data    string // the journals are in data/journal
	agent   func(bus.Msg)
	ends    bool // processes may end by themselves
	tasks   int
	vouched map[string]market.Credits
	buses   map[string]bus.Bus // of processes, by name: a copy has the name of its original
}

// process is a part that can be killed: from then on its disk takes nothing, and it says nothing.
type process struct {
	t    *testing.T
	kill func()
	hub  *hubserve.Server
	bank *bankserve.Server
	log  *bustest.Buffer
}

// mortal is a journal whose process can be killed between any two frames.
type mortal struct {
	ledger.Journal
	dead atomic.Bool
}

func (m *mortal) Append(f ...ledger.Frame) error {
	if m.dead.Load() {
		return errors.New("killed")
	}
	return m.Journal.Append(f...)
}

var stallKey = bytes.Repeat([]byte{5}, bus.VouchKeyBytes)

// inStall plays f in a market of a treasury, and of an agent in the domain general.
func inStall(t *testing.T, f func(s *stall)) {
	if runtime.GOOS != "linux" {
		t.Skip("no copy is told from its original here")
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		s := &stall{t: t, ctx: ctx, world: membus.New(1), data: t.TempDir(),
			vouched: map[string]market.Credits{}, buses: map[string]bus.Bus{}}
		s.agent = s.serve
		s.me = s.world.Bus("me")
		defer s.me.Close()
		put := func(key string, entry []byte, err error, lease bool) {
			if err == nil && lease {
				_, err = s.world.Registry().Register(ctx, key, entry, 24*time.Hour)
			} else if err == nil {
				err = s.world.Registry().Put(ctx, key, entry)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		keys, err := bus.EncodeEntry(&bus.VouchKeys{Keys: [][]byte{stallKey}})
		put(bus.VouchKey("door"), keys, err, false)
		agent, err := bus.EncodeEntry(&bus.Registration{Agent: "a-1", Boot: 1, Model: "llama",
			Domains: []bus.DomainScore{{Domain: "general", Score: 0.9}}, MaxModelLen: 8192, BlockSize: 16,
			KVTokens: 100_000, Slots: 4, State: bus.StateReady,
			Price: market.Price{Miss: market.Credit, Hit: market.Credit, Out: 100 * market.Credit}})
		put(bus.AgentKey("a-1"), agent, err, true)
		serve := func(m bus.Msg) { s.agent(m) }
		if _, err := s.me.Subscribe(bus.DispatchSubject("a-1", "*"), "", serve); err != nil {
			t.Fatal(err)
		}
		f(s)
	})
}

// serve acts as the agent.
func (s *stall) serve(m bus.Msg) {
	var d bus.Dispatch
	if err := bus.Decode(m.Data, &d); err != nil {
		s.t.Error(err)
		return
	}
	say := func(subject string, m bus.Message) {
		data, err := bus.Encode(m)
		if err == nil {
			err = s.me.Publish(bus.Msg{Subject: subject, Data: data})
		}
		if err != nil {
			s.t.Error(err)
		}
	}
	say(m.Reply, &bus.DispatchReply{Agent: "a-1", Boot: d.Boot, Hold: d.Hold})
	u := market.Usage{Prompt: 100, Output: 10}
	say(bus.CompletionSubject(d.Domain, "a-1"), &bus.Completion{Agent: "a-1", Boot: 1, Hold: d.Hold,
		Client: d.Task.Client, Task: d.Task.ID, Outcome: bus.OutcomeDone, Finish: "stop", Usage: u,
		Relayed: 10,
		Cost:    market.Settle(d.Settle, d.Price, d.Tariff, d.Quoted, u, d.CostCap),
		TTFTUS:  1, ITLUS: 1})
}

func (s *stall) bus(name string) bus.Bus {
	if s.buses[name] == nil {
		b := s.world.Bus(name)
		s.buses[name] = b
		s.t.Cleanup(func() { b.Close() })
	}
	return s.buses[name]
}

func (s *stall) dir(name string) string { return filepath.Join(s.data, "journal", name) }

// start starts a process on a journal in a directory; run gets the rest.
func (s *stall) start(dir string, run func(p *process, j ledger.Journal, log *slog.Logger) (
	func(context.Context) error, <-chan struct{})) *process {
	s.t.Helper()
	disk, err := journal.Open(dir, journal.Config{MinFree: -1})
	if err != nil {
		s.t.Fatal(err)
	}
	j := &mortal{Journal: disk}
	p := &process{t: s.t, log: new(bustest.Buffer)}
	ctx, cancel := context.WithCancel(s.ctx)
	work, ready := run(p, j, slog.New(slog.NewTextHandler(io.MultiWriter(p.log), nil)))
	done := make(chan error, 1)
	go func() { done <- work(ctx) }()
	over := false
	p.kill = func() {
		if !over {
			over = true
			j.dead.Store(true)
			cancel()
			<-done
			disk.Close()
		}
	}
	s.t.Cleanup(p.kill)
	select {
	case <-ready:
	case <-time.After(5 * time.Second): // virtual: one whose journal is not the newest never is
	case err := <-done:
		if !s.ends {
			s.t.Fatalf("%v: %s", err, p.log.String())
		}
		done <- err
	}
	return p
}

func (s *stall) treasury(dir string, change func(*treasury.Config)) *process {
	return s.start(dir, func(p *process, j ledger.Journal, log *slog.Logger) (func(context.Context) error,
		<-chan struct{}) {
		c := treasury.Default()
		if change != nil {
			change(&c)
		}
		b, err := bankserve.New(c, bankserve.Deps{Bus: s.bus("treasury"), Registry: s.world.Registry(),
			Journal: j, Log: log})
		if err != nil {
			s.t.Fatal(err)
		}
		p.bank = b
		return b.Run, b.Ready()
	})
}

func (s *stall) hub(name, dir string) *process {
	return s.start(dir, func(p *process, j ledger.Journal, log *slog.Logger) (func(context.Context) error,
		<-chan struct{}) {
		c := choices.Hub()
		c.Domain, c.Hub, c.Journal = "general", name, name
		c.Silence, c.Suspect = time.Hour, time.Hour // the agent says nothing of itself
		c.DrainTimeout = time.Second
		h, err := hubserve.New(c, hubserve.Deps{Bus: s.bus(name), Registry: s.world.Registry(), Journal: j,
			Log: log})
		if err != nil {
			s.t.Fatal(err)
		}
		p.hub = h
		return h.Run, h.Ready()
	})
}

// copied copies a journal as it lies there, beside whoever writes it.
func (s *stall) copied(dir string) string {
	s.t.Helper()
	to := filepath.Join(s.t.TempDir(), filepath.Base(dir))
	if out, err := exec.Command("cp", "-a", dir, to).CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	return to
}

func (s *stall) try(subject string, m, reply bus.Message) error {
	data, err := bus.Encode(m)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.ctx, 30*time.Second)
	defer cancel()
	got, err := s.me.Request(ctx, bus.Msg{Subject: subject, Data: data})
	if err != nil {
		return err
	}
	return bus.Decode(got.Data, reply)
}

func (s *stall) request(subject string, m, reply bus.Message) {
	s.t.Helper()
	if err := s.try(subject, m, reply); err != nil {
		s.t.Fatalf("%s: %v", subject, err)
	}
}

// ask asks the treasury as an operator does.
func (s *stall) ask(op string, q bus.FundsRequest) bus.FundsReply {
	s.t.Helper()
	var r bus.FundsReply
	subject := bus.LedgerSubject(op, s.me.Name())
	if op == bus.OpBalance {
		subject = bus.BalanceSubject(q.Client, s.me.Name())
	}
	s.request(subject, &q, &r)
	return r
}

// opened begins a treasury and the hub general, which has served a task of ann's.
func (s *stall) opened() (bank, hub *process) {
	s.t.Helper()
	bank = s.treasury(s.dir("treasury"), nil)
	s.fund("ann", 40*market.Credit)
	hub = s.hub("general", s.dir("general"))
	s.must("general", "ann")
	return bank, hub
}

func (s *stall) fund(client string, amount market.Credits) {
	s.t.Helper()
	s.tasks++
	r := s.ask(bus.OpDeposit, bus.FundsRequest{ID: fmt.Sprint("d", s.tasks), Client: client, Amount: amount})
	if r.Code != "" {
		s.t.Fatalf("no deposit: %s %s", r.Code, r.Message)
	}
}

// task is the next of a client at a hub.
func (s *stall) task(hub, client string) *bus.Task {
	s.tasks++
	worth, takes := 30*market.Credit, market.Credit
	m := &bus.Task{Client: client, ID: fmt.Sprint("t", s.tasks), Kind: bus.KindChat,
		Body:      []byte(`{"messages":[]}`),
		MaxTokens: 7900, Prompt: bus.Prompt{Bytes: 400, Messages: 1, Tokens: 100,
			Prefixes: []bus.PrefixHash{{Bytes: 400, Hash: uint64(s.tasks)}}}}
	m.Terms.Worth, m.Terms.MaxPrice = &worth, &takes
	s.vouched[hub+client] += takes
	m.Voucher = bus.NewVoucher(stallKey, "door", client, hub, 1, s.vouched[hub+client], takes)
	return m
}

// spend has a hub serve a task, and says why not if it does not. It costs spent.
func (s *stall) spend(name, client string) string {
	s.t.Helper()
	m := s.task(name, client)
	var a bus.Answer
	if err := s.try(bus.HubTaskSubject("general", "door"), m, &a); err != nil {
		return err.Error() // nobody leads
	}
	if a.Accepted == nil {
		return string(a.Result.Code) + ": " + a.Result.Message
	}
	time.Sleep(200 * time.Millisecond) // virtual: it is served and settled
	return ""
}

func (s *stall) must(name, client string) {
	s.t.Helper()
	if why := s.spend(name, client); why != "" {
		s.t.Fatalf("%s does not serve %s: %s", name, client, why)
	}
}

// clean checks the journals of the data directory.
func (s *stall) clean() {
	s.t.Helper()
	sum, err := inspect.Check(context.Background(), []string{s.data}, inspect.Options{Level: ledger.MaxLevel})
	if err != nil || sum.Count > 0 {
		s.t.Errorf("ledger check: %v: %v", err, sum.Findings)
	}
}

// book reads a journal.
func (s *stall) book(dir string) *ledger.Book {
	s.t.Helper()
	b := ledger.NewBook()
	if err := journal.Read(dir, b.ApplyFrame); err != nil {
		s.t.Fatal(err)
	}
	return b
}

// A hub burns with its journal. It is written off: clients have back what they had not spent by its last
// mark, to the last unit, the rest is booked as lost, the audit is clean without the journal, and another hub
// goes on. Should the journal turn up after all, nothing of it is taken.
func TestALostHub(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	inStall(t, func(s *stall) {
		s.treasury(s.dir("treasury"), nil)
		s.fund("ann", 40*market.Credit)
		s.fund("bob", 20*market.Credit)
		h := s.hub("general", s.dir("general"))
		for range 3 {
			s.must("general", "ann")
			s.must("general", "bob")
		}
		time.Sleep(6 * time.Second) // it speaks
		marked := s.book(s.dir("general"))
		s.must("general", "ann") // and is killed before it has told that
		h.kill()
		lost := s.dir("general") + ".burnt"
		if err := os.Rename(s.dir("general"), lost); err != nil {
			t.Fatal(err)
		}
		moved := filepath.Join(t.TempDir(), "general")
		if err := os.Rename(lost, moved); err != nil {
			t.Fatal(err)
		}
		sure := bus.FundsRequest{ID: "w", Hub: "general", Sure: true}
		if r := s.ask(bus.OpWriteOff, sure); r.Code != bus.CodeBadRequest ||
			!strings.Contains(r.Message, "was heard of") {
			t.Errorf("a hub that spoke seconds ago is written off: %q %s", r.Code, r.Message)
		}
		time.Sleep(16 * time.Second)
		h = s.hub("general-b", s.dir("general-b"))
		s.must("general-b", "ann")
		time.Sleep(16 * time.Second)
		look := s.ask(bus.OpWriteOff, bus.FundsRequest{ID: "w", Hub: "general"})
		r := s.ask(bus.OpWriteOff, sure)
		spent := marked.Charged("ann") + marked.Charged("bob")
		if r.Code != "" || !r.Lost || r.Gone != spent || r.Number != 2 || look.Back != r.Back ||
			look.Gone != r.Gone ||
			look.Lost {
			t.Errorf("%q %s: %s back and %s lost, want %s lost; before, %s and %s", r.Code, r.Message,
				r.Back, r.Gone,
				spent, look.Back, look.Gone)
		}
		if again := s.ask(bus.OpWriteOff, sure); again.Code != "" || again.Gone != r.Gone {
			t.Errorf("a second time: %+v", again)
		}
		if r := s.ask(bus.OpWriteOff, bus.FundsRequest{ID: "v", Hub: "general-b", Sure: true}); r.Code !=
			bus.CodeBadRequest || !strings.Contains(r.Message, "leads domain general") {
			t.Errorf("a hub that lives is written off: %q %s", r.Code, r.Message)
		}
		for client, had := range map[string]market.Credits{"ann": 40 * market.Credit,
			"bob": 20 * market.Credit} {
			b := s.book(s.dir("general-b"))
			left := had - marked.Charged(client) - b.Charged(client)
			if r := s.ask(bus.OpPayout, bus.FundsRequest{ID: "more-" + client, Client: client,
				Amount: left + 1}); r.Code != bus.CodeInsufficientFunds {
				t.Errorf("%s is paid more than it has: %q %s", client, r.Code, r.Message)
			}
			if r := s.ask(bus.OpPayout, bus.FundsRequest{ID: "all-" + client, Client: client,
				Amount: left}); r.Code !=
				"" {
				t.Errorf("%s is not paid %s: %q %s", client, left, r.Code, r.Message)
			}
		}
		h.kill()
		s.clean()
		h = s.hub("general", moved)
		time.Sleep(6 * time.Second)
		if why := h.hub.Refuses(); !strings.Contains(why, "written journal general off") || h.hub.Leading() {
			t.Errorf("the journal that came back leads %v, and refuses for %q", h.hub.Leading(), why)
		}
		h.kill()
		s.clean()
	})
}

// Twenty older copies of a hub's journal, of all its past, are put in its place one after another, and some
// of them are started twice. Each takes no task, does not lead after the treasury's word, and says what is
// missing. The right one then goes on, at once.
func TestOldCopiesOfAHub(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	inStall(t, func(s *stall) {
		bank := s.treasury(s.dir("treasury"), nil)
		s.fund("ann", 300*market.Credit)
		h := s.hub("general", s.dir("general"))
		var copies []string
		for range 20 {
			s.must("general", "ann")
			copies = append(copies, s.copied(s.dir("general")))
		}
		s.must("general", "ann")
		time.Sleep(6 * time.Second) // it speaks
		h.kill()
		for i, old := range copies {
			for range 1 + i%2 {
				h := s.hub("general", old)
				time.Sleep(5 * time.Second)
				if s.spend("general", "ann") == "" {
					t.Fatalf("copy %d sells", i)
				}
				why := h.hub.Refuses()
				if !strings.Contains(why, "older copy; bring back the one that has frame") &&
					!strings.Contains(why, "another history") || h.hub.Leading() {
					t.Fatalf("copy %d leads %v, and refuses for %q", i, h.hub.Leading(), why)
				}
				h.kill()
			}
		}
		bank.kill() // the right one needs nobody's word
		for _, with := range []string{copies[3], s.dir("general")} {
			sum, err := inspect.Check(context.Background(), []string{s.copied(s.dir("treasury")), with},
				inspect.Options{Level: ledger.MaxLevel})
			if old := with == copies[3]; err != nil || old == (sum.Count == 0) ||
				old && !strings.Contains(sum.Findings[0].Found, "older copy") {
				t.Errorf("ledger check of %s: %v, %v", with, err, sum.Findings)
			}
		}
		h = s.hub("general", s.dir("general"))
		s.must("general", "ann")
		h.kill()
		s.clean()
	})
}

// Twenty treasuries are started on older copies of the journal, on none, or on another market's. None takes a
// deposit, and each says why. The right one then has all the money.
func TestOldCopiesOfATreasury(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	inStall(t, func(s *stall) {
		bank := s.treasury(s.dir("treasury"), nil)
		s.fund("ann", 10*market.Credit)
		s.hub("general", s.dir("general"))
		s.must("general", "ann")
		var wrong []string
		for i := range 20 {
			s.fund("ann", market.Credit)
			switch dir := filepath.Join(t.TempDir(), "treasury"); i % 3 {
			case 0:
				wrong = append(wrong, s.copied(s.dir("treasury")))
			case 1:
				wrong = append(wrong, dir) // there is nothing
			case 2: // of another market
				other := s.dir(fmt.Sprint("other-", i))
				j, err := journal.Open(other, journal.Config{MinFree: -1})
				if err != nil {
					t.Fatal(err)
				}
				b, open := ledger.NewBook(), ledger.NewOpen("treasury", ledger.RoleTreasury, "",
					[16]byte{byte(i)})
				deposit := ledger.NewDeposit("d", "zoe", 5, nil, [16]byte{byte(i)})
				if err := errors.Join(b.Apply(&open), b.Apply(&deposit)); err != nil {
					t.Fatal(err)
				}
				f, err := b.Seal(1, 1, []ledger.Record{open, deposit})
				if err := errors.Join(err, j.Append(f), j.Close(), os.Rename(other, dir)); err != nil {
					t.Fatal(err)
				}
				wrong = append(wrong, dir)
			}
		}
		s.fund("ann", market.Credit)
		time.Sleep(6 * time.Second) // the hub hears of it
		bank.kill()
		for i, dir := range wrong {
			bank := s.treasury(dir, nil)
			for range 2 {
				for op, q := range map[string]bus.FundsRequest{
					bus.OpDeposit: {ID: "late", Client: "ann", Amount: market.Credit},
					bus.OpPayout:  {ID: "p", Client: "ann", Amount: 1}} {
					var r bus.FundsReply // none, while it gives way
					if err := s.try(bus.LedgerSubject(op, s.me.Name()), &q, &r); err == nil &&
						r.Code != bus.CodeUnavailable && bank.bank.Closed() != "" {
						t.Errorf("treasury %d: %s: %q %s", i, op, r.Code, r.Message)
					}
				}
				time.Sleep(5 * time.Second)
			}
			if why := bank.bank.Closed(); !strings.Contains(why, "bring back") {
				t.Errorf("treasury %d of 20 is ready, or says %q", i, why)
			}
			if got := bank.bank.Stats().Records; got > 1 {
				t.Errorf("treasury %d has made %d records", i, got)
			}
			bank.kill()
		}
		s.treasury(s.dir("treasury"), nil)
		time.Sleep(6 * time.Second)
		if r := s.ask(bus.OpBalance, bus.FundsRequest{ID: "b", Client: "ann"}); r.Prepaid+r.Allotted !=
			31*market.Credit {
			t.Errorf("%+v", r)
		}
		s.must("general", "ann")
	})
}

// The treasury's journal is lost but for a copy of before. The market begins anew, by what hubs' journals and
// the copy say, and clients have what they had.
func TestALostTreasury(t *testing.T) {
	inStall(t, func(s *stall) {
		bank := s.treasury(s.dir("treasury"), nil)
		s.fund("ann", 40*market.Credit)
		h := s.hub("general", s.dir("general"))
		for range 3 {
			s.must("general", "ann")
		}
		time.Sleep(6 * time.Second)
		backup := s.copied(s.dir("treasury"))
		s.must("general", "ann")
		before := s.ask(bus.OpBalance, bus.FundsRequest{ID: "b", Client: "ann"})
		bank.kill()
		h.kill()
		lost := filepath.Join(t.TempDir(), "lost")
		if err := os.Rename(filepath.Join(s.data, "journal"), lost); err != nil {
			t.Fatal(err)
		}
		at, with := s.book(filepath.Join(lost, "general")), s.book(backup)
		had := at.Avail("ann") + at.Held("ann")
		prepaid, _ := with.Prepaid("ann")
		if err := journal.Read(filepath.Join(lost, "general"), func(f ledger.Frame) error {
			for _, r := range f.Records { // what went to and fro since the copy
				switch x := r.Transfer; {
				case r.Kind == ledger.KindAccept && x.Number > with.LastGrant("general"):
					prepaid -= x.Amount
				case r.Kind == ledger.KindReturn && x.Number > with.LastReturn("general"):
					prepaid += x.Amount
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if prepaid != before.Prepaid || had != before.Allotted-at.Charged("ann") {
			t.Errorf("%s and %s, by the pages; %+v", prepaid, had, before)
		}
		bank = s.treasury(s.dir("treasury"), nil)
		if why := bank.bank.Closed(); !strings.Contains(why, "believe: 1") {
			t.Errorf("it does not wait for the former hub: %q", why)
		}
		bank.kill()
		s.treasury(s.dir("treasury"), func(c *treasury.Config) { c.Believe = 1 })
		s.fund("ann", had+prepaid)
		h = s.hub("general-c", s.dir("general-c"))
		s.must("general-c", "ann")
		h.kill()
		s.clean()
	})
}
