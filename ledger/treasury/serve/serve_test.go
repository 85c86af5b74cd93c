package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/membus"
	"souk/ledger"
	"souk/ledger/journal"
	"souk/ledger/treasury"
	"souk/ledger/treasury/serve"
	"souk/market"
)

// house runs a treasury on a journal on disk and the bus in memory.
type house struct {
	t     testing.TB
	world *membus.World
	mu    sync.Mutex
	who   map[string]bus.Bus
	srv   *serve.Server
	said  bustest.Buffer            // its log
	reg   *membus.Registry          // the treasury's
	leads map[string]bus.Leadership // of the hubs of domains
	stop  func() error
	wait  func() error // until it ends by itself
}

// start starts one. Hubs lead these domains before it does.
func start(t testing.TB, dir string, wrap func(ledger.Journal) ledger.Journal, domains ...string) *house {
	t.Helper()
	h := &house{t: t, world: membus.New(1), who: map[string]bus.Bus{}, leads: map[string]bus.Leadership{}}
	for _, domain := range domains {
		h.leads[domain] = h.elect(domain)
	}
	j, err := journal.Open(dir, journal.Config{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	lj := ledger.Journal(j)
	if wrap != nil {
		lj = wrap(j)
	}
	h.reg = h.world.Registry()
	keys, err := bus.EncodeEntry(&bus.VouchKeys{Keys: [][]byte{doorKey}})
	if err == nil {
		err = h.reg.Put(t.Context(), bus.VouchKey("door"), keys)
	}
	if err != nil {
		t.Fatal(err)
	}
	srv, err := serve.New(treasury.Default(), serve.Deps{Bus: h.world.Bus("treasury"),
		Registry: h.reg, Journal: lj, Log: slog.New(slog.NewTextHandler(&h.said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	h.srv = srv
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	var once sync.Once
	var end error
	h.wait = func() error {
		once.Do(func() {
			end = <-done
			j.Close()
		})
		return end
	}
	h.stop = func() error { cancel(); return h.wait() }
	t.Cleanup(func() { h.stop() })
	select {
	case <-srv.Ready():
	case err := <-done:
		t.Fatal(err)
	}
	return h
}

// raw asks as somebody: under its own name and on its own subject.
func (h *house) raw(who, subject string, data []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	m, err := h.as(who).Request(ctx, bus.Msg{Subject: subject, Data: data})
	return m.Data, err
}

// as is somebody's way to the bus.
func (h *house) as(who string) bus.Bus {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.who[who] == nil {
		h.who[who] = h.world.Bus(who)
	}
	return h.who[who]
}

var doorKey = bytes.Repeat([]byte{7}, bus.VouchKeyBytes)

// vouched is a request of a hub for which a door has vouched, with so much in all.
func vouched(req bus.FundsRequest, total market.Credits) bus.FundsRequest {
	req.Vouchers = []bus.DoorVoucher{{Door: "door",
		Voucher: bus.NewVoucher(doorKey, "door", req.Client, req.Hub, 1, total, total)}}
	return req
}

// ask asks, for a hub with a door's word for all that there may be, where it shows no voucher itself.
func (h *house) ask(op string, req bus.FundsRequest) bus.FundsReply {
	h.t.Helper()
	if op == bus.OpAllot && req.Vouchers == nil {
		req = vouched(req, market.MaxCredits)
	}
	data, err := bus.Encode(&req)
	if err != nil {
		h.t.Fatal(err)
	}
	var reply bus.FundsReply
	who := "op"
	if req.Hub != "" {
		who = req.Hub
	}
	subject := bus.LedgerSubject(op, who)
	if op == bus.OpBalance {
		subject = bus.BalanceSubject(req.Client, who)
	}
	if data, err = h.raw(who, subject, data); err == nil {
		err = bus.Decode(data, &reply)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return reply
}

// elect makes a hub lead its domain; its journal is called as it is.
func (h *house) elect(domain string) bus.Leadership {
	h.t.Helper()
	entry, err := bus.EncodeEntry(&bus.HubEntry{Domain: domain, Labels: []string{domain}, Hub: "h",
		Journal: "hub-" + domain})
	if err != nil {
		h.t.Fatal(err)
	}
	lead, err := h.world.Registry().Elect(h.t.Context(), bus.HubKey(domain), entry, time.Hour)
	if err != nil {
		h.t.Fatal(err)
	}
	return lead
}

// Nobody makes a hub stale by a number: the epochs that count are the registry's. One that was deposed is
// refused; while the registry is away hubs are served.
func TestEpochsAreProven(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, filepath.Join(t.TempDir(), "journal", "treasury"), nil)
	h.ask(bus.OpDeposit, bus.FundsRequest{ID: "d1", Client: "ann", Amount: 1000})
	n := 0
	allot := func(hub string, epoch int64) bus.Code {
		n++
		r := h.ask(bus.OpAllot,
			bus.FundsRequest{ID: fmt.Sprint("a", n), Client: "ann", Hub: hub, Epoch: epoch, Amount: 1})
		return r.Code
	}
	first := h.elect("maths")
	for _, forged := range []int64{1 << 50, 1<<62 - 1, first.Epoch() + 1} {
		for _, op := range []string{bus.OpAllot, bus.OpReturn, bus.OpAllotted} {
			r := h.ask(op, bus.FundsRequest{ID: bus.ReturnID("hub-maths", 1), Client: "ann", Hub: "hub-maths",
				Epoch: forged, Amount: 1})
			if r.Code != bus.CodeUnavailable || len(r.Grants) > 0 {
				t.Errorf("%s in epoch %d: %+v", op, forged, r)
			}
		}
		if code := allot("hub-maths", first.Epoch()); code != "" {
			t.Fatalf("after a request in epoch %d the hub that leads gets %q", forged, code)
		}
	}
	if code := allot("hub-law", 1<<50); code != bus.CodeUnavailable {
		t.Errorf("a hub that leads nothing gets %q", code)
	}
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if code := allot("hub-maths", first.Epoch()); code != "" {
		t.Errorf("a hub that has resigned, and that none has followed, gets %q", code)
	}
	second := h.elect("maths")
	if code := allot("hub-maths", second.Epoch()); code != "" {
		t.Errorf("its follower gets %q", code)
	}
	if code := allot("hub-maths", first.Epoch()); code != bus.CodeStaleEpoch {
		t.Errorf("it is deposed, and gets %q", code)
	}
	h.reg.Cut()
	if code := allot("hub-law", 7); code != "" {
		t.Errorf("with the registry away a hub gets %q", code)
	}
	h.reg.Heal()
	law := h.elect("law")
	for range 100 { // until the registry is asked again
		if code := allot("hub-law", law.Epoch()); code != "" {
			t.Fatalf("after what it could not prove the hub gets %q", code)
		}
	}
}

// A hub that somebody ended in its name gives clients' money back as long as it leads; in the name of one
// that leads no more nobody can.
func TestAHubEndedInItsNameGivesBack(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, filepath.Join(t.TempDir(), "journal", "treasury"), nil)
	h.ask(bus.OpDeposit, bus.FundsRequest{ID: "d1", Client: "ann", Amount: 1000})
	lead := h.elect("maths")
	ask := func(op, id string, amount market.Credits, after uint64) bus.FundsReply {
		return h.ask(op, bus.FundsRequest{ID: id, Client: "ann", Hub: "hub-maths", Epoch: lead.Epoch(),
			Amount: amount, After: after})
	}
	for _, r := range []bus.FundsReply{ask(bus.OpAllot, "a1", 500, 0),
		ask(bus.OpClose, "hub-maths-close", 0, 1)} {
		if r.Code != "" {
			t.Fatalf("%+v", r)
		}
	}
	if r := ask(bus.OpAllotted, "look", 0, 1); !r.Ended {
		t.Errorf("it is not told that it has ended: %+v", r)
	}
	back := func(n uint64, amount market.Credits) string {
		r := ask(bus.OpReturn, bus.ReturnID("hub-maths", n), amount, 0)
		return fmt.Sprintf("%s %d", r.Code, r.Prepaid)
	}
	for _, test := range []struct {
		do   func()
		n    uint64
		want string
	}{
		{nil, 1, " 600"},
		{nil, 1, " 600"},
		{h.reg.Cut, 2, "unavailable 600"},
		{func() {
			h.reg.Heal()
			for range 1000 { // until the registry is asked again
				if back(2, 100) == " 700" {
					return
				}
			}
		}, 2, " 700"},
		{func() { lead.Close(t.Context()) }, 3, "unavailable 700"},
	} {
		if test.do != nil {
			test.do()
		}
		if got := back(test.n, 100); got != test.want {
			t.Errorf("return %d: %q, want %q", test.n, got, test.want)
		}
	}
}

func TestTheServerOutlivesItself(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal", "treasury")
	h := start(t, dir, nil)
	h.ask(bus.OpDeposit, bus.FundsRequest{ID: "d1", Client: "ann", Amount: 100})
	epoch := h.elect("maths").Epoch()
	first := h.ask(bus.OpAllot,
		bus.FundsRequest{ID: "a1", Client: "ann", Hub: "hub-maths", Epoch: epoch, Amount: 30})
	if err := h.stop(); err != nil {
		t.Fatal(err)
	}
	h = start(t, dir, nil)
	epoch = h.elect("maths").Epoch()
	again := h.ask(bus.OpAllot,
		bus.FundsRequest{ID: "a1", Client: "ann", Hub: "hub-maths", Epoch: epoch, Amount: 30})
	if len(first.Grants) != 1 || len(again.Grants) != 1 || first.Grants[0] != again.Grants[0] ||
		again.Prepaid != 70 {
		t.Errorf("first %+v\nagain %+v", first, again)
	}
	if s := h.srv.Stats(); s.Epoch == 0 || !s.Leading || s.Requests != 1 {
		t.Errorf("stats %+v, want one request of its leadership", s)
	}
}

func TestJSONByHand(t *testing.T) {
	h := start(t, t.TempDir(), nil)
	out, err := h.raw("op", bus.LedgerSubject(bus.OpDeposit, "op"), []byte(`{"id": "cash-1", "client": "dev", "amount": 12.5}`))
	if err != nil {
		t.Fatal(err)
	}
	var reply struct {
		Code    string         `json:"code"`
		Prepaid market.Credits `json:"prepaid"`
	}
	if err := json.Unmarshal(out, &reply); err != nil || reply.Prepaid != 25*market.Credit/2 ||
		reply.Code != "" {
		t.Errorf("reply %s, %v", out, err)
	}
	for _, bad := range []string{`{"id": "x", "client": "dev", "amount": "lots"}`, `{`,
		`{"client": "dev", "amount": 1}`, `{"id":"y","client":"dev","amount":1e99}`} {
		out, err := h.raw("op", bus.LedgerSubject(bus.OpDeposit, "op"), []byte(bad))
		if err != nil || !strings.Contains(string(out), `"code":"bad_request"`) {
			t.Errorf("%s: %s, %v", bad, out, err)
		}
	}
	out, err = h.raw("op", bus.LedgerSubject("rob", "op"), []byte(`{"id": "x", "client": "dev", "amount": 1}`))
	if err != nil || !strings.Contains(string(out), "unknown operation") {
		t.Errorf("%s, %v", out, err)
	}
}

// slow is a journal whose sync takes until it is told.
type slow struct {
	ledger.Journal
	gate   chan struct{}
	frames chan ledger.Frame
}

func (s *slow) Append(f ...ledger.Frame) error {
	s.frames <- f[0]
	<-s.gate
	return s.Journal.Append(f...)
}

func TestRequestsShareASync(t *testing.T) {
	s := &slow{gate: make(chan struct{}, 100), frames: make(chan ledger.Frame, 100)}
	s.gate <- struct{}{} // the journal's first frame
	h := start(t, t.TempDir(), func(j ledger.Journal) ledger.Journal { s.Journal = j; return s })
	<-s.frames
	const n = 50
	var wg sync.WaitGroup
	answered := make(chan bus.FundsReply, n+1)
	deposit := func(id string) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			answered <- h.ask(bus.OpDeposit, bus.FundsRequest{ID: id, Client: "ann", Amount: 1})
		}()
	}
	deposit("first")
	<-s.frames // it is being synced
	for i := range n {
		deposit(fmt.Sprint("d", i))
	}
	bustest.Eventually(t, "all of them wait", func() bool { return h.srv.Stats().Pending == n })
	if len(answered) != 0 {
		t.Error("a deposit was confirmed before it was durable")
	}
	close(s.gate)
	wg.Wait()
	if f := <-s.frames; len(f.Records) != n {
		t.Errorf("%d deposits shared a frame, want %d", len(f.Records), n)
	}
}

// broken is a journal whose disk fails.
type broken struct{ ledger.Journal }

func (b broken) Append(f ...ledger.Frame) error {
	if f[0].Seq > 1 {
		return errors.New("input/output error")
	}
	return b.Journal.Append(f...)
}

func TestAFailedSyncStopsTheServerUnanswered(t *testing.T) {
	h := start(t, t.TempDir(), func(j ledger.Journal) ledger.Journal { return broken{j} })
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	req, _ := bus.Encode(&bus.FundsRequest{ID: "d", Client: "ann", Amount: 1})
	answered := make(chan []byte, 1)
	go func() {
		defer close(answered)
		m, err := h.as("op").Request(ctx,
			bus.Msg{Subject: bus.LedgerSubject(bus.OpDeposit, "op"), Data: req})
		if err == nil {
			answered <- m.Data
		}
	}()
	if err := h.wait(); err == nil || !strings.Contains(err.Error(), "input/output error") {
		t.Errorf("the server ended with %v, want the disk's error", err)
	}
	cancel()
	if data, ok := <-answered; ok {
		t.Errorf("answered %q, though the deposit may be lost", data)
	}
}

func BenchmarkDeposits(b *testing.B) {
	h := start(b, b.TempDir(), nil)
	b.ReportAllocs()
	b.SetParallelism(32)
	var mu sync.Mutex
	n := 0
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			mu.Lock()
			n++
			id := fmt.Sprint("d", n)
			mu.Unlock()
			h.ask(bus.OpDeposit, bus.FundsRequest{ID: id, Client: "ann", Amount: 1})
		}
	})
	b.ReportMetric(float64(h.srv.Stats().Records)/float64(h.srv.Stats().Frames), "records/sync")
}

// Who asks is the subject's to say. A hub returns no other journal's money, a client sees no other's balance,
// and an answer goes to nobody but who asked: the rest changes nothing and is counted.
func TestTheSubjectSaysWhoAsks(t *testing.T) {
	h := start(t, filepath.Join(t.TempDir(), "journal", "treasury"), nil)
	h.ask(bus.OpDeposit, bus.FundsRequest{ID: "d1", Client: "ann", Amount: 1000})
	h.ask(bus.OpDeposit, bus.FundsRequest{ID: "d2", Client: "bob", Amount: 10})
	epoch := h.elect("maths").Epoch()
	h.elect("law")
	h.ask(bus.OpAllot, bus.FundsRequest{ID: "a1", Client: "ann", Hub: "hub-maths", Epoch: epoch, Amount: 100})

	asks := func(who, subject string, req bus.FundsRequest) bus.FundsReply {
		t.Helper()
		data, err := bus.Encode(&req)
		if err != nil {
			t.Fatal(err)
		}
		var r bus.FundsReply
		if data, err = h.raw(who, subject, data); err == nil {
			err = bus.Decode(data, &r)
		}
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	back := bus.FundsRequest{ID: bus.ReturnID("hub-maths", 1), Client: "ann", Hub: "hub-maths", Epoch: epoch,
		Amount: 100}
	for _, op := range []string{bus.OpReturn, bus.OpAllot, bus.OpAllotted, bus.OpClose} {
		r := asks("hub-law", bus.LedgerSubject(op, "hub-law"), back)
		if r.Code != bus.CodeBadRequest || !strings.Contains(r.Message, "hub-maths") || len(r.Grants) > 0 {
			t.Errorf("%s of hub-maths on the subject of hub-law: %+v", op, r)
		}
	}
	if r := asks("ann", bus.BalanceSubject("ann", ""), bus.FundsRequest{ID: "b", Client: "bob"}); r.Code !=
		bus.CodeBadRequest || r.Prepaid != 0 {
		t.Errorf("bob's balance on the subject of ann: %+v", r)
	}
	for _, who := range []string{"ann", "gateway"} {
		r := asks(who, bus.BalanceSubject("ann", who), bus.FundsRequest{ID: "b"})
		if r.Code != "" || r.Client != "ann" || r.Prepaid != 900 || r.Allotted != 100 {
			t.Errorf("ann's balance, asked by %s: %+v", who, r)
		}
	}

	// An answer to anywhere else than the asker's inbox would be the treasury's word there.
	var heard []string
	var mu sync.Mutex
	ear := h.as("ear")
	for _, subject := range []string{"_INBOX.>", "souk.v1.hub.>"} {
		if _, err := ear.Subscribe(subject, "", func(m bus.Msg) {
			mu.Lock()
			defer mu.Unlock()
			heard = append(heard, m.Subject)
		}); err != nil {
			t.Fatal(err)
		}
	}
	forged := []bus.Msg{
		{Subject: bus.LedgerSubject(bus.OpReturn, "hub-maths"), Reply: "_INBOX.hub-law.1"},
		{Subject: bus.LedgerSubject(bus.OpReturn, "hub-maths"), Reply: "_INBOX.hub-maths"},
		{Subject: bus.LedgerSubject(bus.OpReturn, "hub-maths"), Reply: "_INBOX.hub-maths."},
		{Subject: bus.LedgerSubject(bus.OpReturn, "hub-maths"), Reply: "_INBOX.hub-maths2.1"},
		{Subject: bus.LedgerSubject(bus.OpReturn, "hub-maths"),
			Reply: bus.CompletionSubject("maths", "hub-maths")},
		{Subject: bus.LedgerSubject(bus.OpReturn, "hub-maths")},
		{Subject: bus.Root + "ledger." + bus.OpReturn, Reply: "_INBOX.return.1"},
		{Subject: bus.LedgerSubject(bus.OpReturn, "hub-maths") + ".hub-maths", Reply: "_INBOX.hub-maths.1"},
		{Subject: bus.BalanceSubject("ann", "gateway") + ".more", Reply: "_INBOX.more.1"},
	}
	before := h.srv.Stats()
	data, err := bus.Encode(&back)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range forged {
		m.Data = data
		if m.Reply == "_INBOX.hub-maths." { // no server takes it; the treasury would not either
			if bus.AnswersTo(m.Subject, m.Reply) {
				t.Error("an inbox without a token below it is answered")
			}
			continue
		}
		if err := h.as("thief").Publish(m); err != nil {
			t.Fatal(err)
		}
	}
	bustest.Eventually(t, "they are counted", func() bool {
		return h.srv.Stats().Dropped-before.Dropped == int64(len(forged))-1
	})
	if r := asks("ann", bus.BalanceSubject("ann", ""), bus.FundsRequest{ID: "b"}); r.Prepaid != 900 ||
		r.Allotted != 100 {
		t.Errorf("money moved: %+v", r)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, subject := range heard {
		if !strings.HasPrefix(subject, bus.InboxOf("ann")+".") {
			t.Errorf("the treasury answered at %s", subject)
		}
	}
	if after := h.srv.Stats(); after.Records != before.Records {
		t.Errorf("%d records were made", after.Records-before.Records)
	}
}
