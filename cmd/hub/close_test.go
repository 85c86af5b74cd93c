package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/bustest/servers"
	"souk/bus/etcdreg"
	"souk/bus/natsbus"
	"souk/bus/tip"
	"souk/cmd/daemon"
	"souk/cmd/local"
	"souk/ledger"
	"souk/ledger/inspect"
	"souk/ledger/journal"
	"souk/ledger/treasury"
	bank "souk/ledger/treasury/serve"
	"souk/market"
)

const crowded = `
listen: 127.0.0.1:0
domains: [{name: general, general: true, labels: [general]}]
agents:
  - {id: only, model: gpt-oss-20b, price_row: fireworks/gpt-oss-20b, scores: [{domain: general, score: 0.7}], slots: 1, engine: {profile: steady}}
speedup: 20
clients: {ann: 10, bob: 10}
`

// trade has two clients contend for one slot, in a market that ends then, and returns its directory.
func trade(t *testing.T) string {
	t.Helper()
	cfg, err := local.ParseConfig("crowded.yaml", []byte(crowded))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	m, err := local.Start(t.Context(), local.Options{Dir: dir, Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	var asks sync.WaitGroup
	for i := range 12 {
		asks.Go(func() {
			body := fmt.Sprintf(`{"messages":[{"role":"user","content":"number %d"}],"max_tokens":20}`, i)
			a, err := m.Ask(t.Context(), bus.Task{Client: []string{"ann", "bob"}[i%2], Kind: bus.KindChat,
				Body: []byte(body), Stream: true})
			if err != nil {
				t.Error(a.Result.Code, err)
			}
		})
	}
	asks.Wait()
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A domain ends, before real servers: what was traded in it stays on record, everything else goes back, its
// surplus leaves by the treasury's command, and its journal is closed: no hub can be started on it again.
func TestADomainEnds(t *testing.T) {
	data := trade(t)
	nats, etcd := servers.Start(t)
	quiet := slog.New(slog.DiscardHandler)
	j, err := journal.Open(filepath.Join(data, "journal", ledger.Treasury),
		journal.Config{Log: quiet, MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	b, err := natsbus.Connect(natsbus.Config{URL: nats.URL, Name: "treasury"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	registry, err := etcdreg.Dial(t.Context(), etcdreg.Config{Endpoints: []string{etcd.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	defer registry.Close()
	for range 20 { // epochs are revisions: this etcd has seen more than the one in which the journal began
		if err := registry.Put(t.Context(), "souk/before", nil); err != nil {
			t.Fatal(err)
		}
	}
	s, err := bank.New(treasury.Default(), bank.Deps{Bus: b, Registry: registry, Journal: j, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	banked := make(chan error, 1)
	go func() { banked <- s.Run(ctx) }()
	defer func() {
		stop()
		if err := <-banked; err != nil {
			t.Error(err)
		}
	}()
	<-s.Ready()

	file := filepath.Join(t.TempDir(), "hub.yaml")
	text := fmt.Sprintf("market: {nats: %q, etcd: [%q]}\ndata: %s\nhub: {domain: general, general: true, "+
		"lease_ttl: 2s}\n", nats.URL, etcd.Endpoint(), data)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		code int
		errs string
	}
	run := func(ctx context.Context, args ...string) <-chan outcome {
		done := make(chan outcome, 1)
		go func() {
			var out, errs bytes.Buffer
			code := daemon.Run(ctx, command(), append([]string{"--config", file}, args...), &out, &errs)
			done <- outcome{code, errs.String()}
		}()
		return done
	}
	link, err := local.Reach{NATS: nats.URL}.Dial(bus.RoleGateway, "operator")
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	patience, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()

	stopped, halt := context.WithCancel(patience)
	defer halt()
	closing := run(stopped, "--close")
	there, err := link.Surplus(patience, "general")
	if err != nil || there.Surplus <= 0 || there.Number != 1 {
		t.Fatalf("%+v, %v: the contest should have left a surplus", there, err)
	}
	select {
	case o := <-closing:
		t.Fatalf("it has ended with a surplus: %d, %s", o.code, o.errs)
	default:
	}
	halt()
	if o := <-closing; o.code != daemon.ExitWrong ||
		!strings.Contains(o.errs, "journal general is not closed: a surplus of "+there.Surplus.String()) ||
		!strings.Contains(o.errs, "agents are due") {
		t.Fatalf("exit code %d: %s", o.code, o.errs)
	}
	closing = run(patience, "--close") // goes on from there
	half := there.Surplus / 2
	before, err := link.Balance(patience, "ann")
	if err != nil {
		t.Fatal(err)
	}
	distribute := func(to string, amount market.Credits, number uint64) (bus.FundsReply, error) {
		return link.Command(patience, bus.OpDistribute, bus.FundsRequest{Hub: "general", Client: to,
			ID: bus.DistributeID("general", number), Amount: amount})
	}
	for range 2 { // it is made once
		r, err := distribute("ann", half, 1)
		if err != nil || r.Prepaid != before.Prepaid+half {
			t.Fatalf("%+v, %v; ann had %s", r, err, before.Prepaid)
		}
	}
	if _, err := distribute("", there.Surplus-half, 2); err != nil {
		t.Fatal(err)
	}
	pay := bus.FundsRequest{ID: "remit", Order: &tip.Order{Agent: "only"}}
	owed, err := link.Command(patience, bus.OpRemit, pay)
	if err != nil || len(owed.Hubs) != 1 || owed.Hubs[0].Owed <= 0 {
		t.Fatalf("%+v, %v", owed, err)
	}
	select {
	case o := <-closing:
		t.Fatalf("it has ended, and its agent was not paid: %d, %s", o.code, o.errs)
	default:
	}
	pay.Hub, pay.Amount, pay.Order.Ref = "general", owed.Hubs[0].Owed, "sepa-1"
	if _, err := link.Command(patience, bus.OpRemit, pay); err != nil {
		t.Fatal(err)
	}
	if o := <-closing; o.code != daemon.ExitOK || !strings.Contains(o.errs, "the hub has ended") ||
		strings.Contains(o.errs, "the journal is closed; agents are due") {
		t.Fatalf("exit code %d: %s", o.code, o.errs)
	}
	if o := <-run(patience, "--close"); o.code != daemon.ExitOK {
		t.Errorf("to end it once more: exit code %d: %s", o.code, o.errs)
	}
	if o := <-run(patience); o.code != daemon.ExitWrong ||
		!strings.Contains(o.errs, "journal general is closed") {
		t.Errorf("to lead with it: exit code %d: %s", o.code, o.errs)
	}
	if st := s.Stats(); st.Ended != 1 {
		t.Errorf("the treasury counts %d hubs as ended", st.Ended)
	}
	for level := range ledger.MaxLevel + 1 {
		sum, err := inspect.Check(t.Context(), []string{data}, inspect.Options{Level: level})
		if err != nil || sum.Count > 0 || level >= ledger.LevelState &&
			!strings.Contains(sum.Line(), "(1 closed)") {
			t.Errorf("level %d: %s, %v, %v", level, sum.Line(), sum.Findings, err)
		}
	}
}
