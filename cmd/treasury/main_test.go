package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/bustest/servers"
	"souk/bus/natsbus"
	"souk/cmd/daemon"
	"souk/ledger"
	"souk/ledger/journal"
	"souk/market"
)

func run(ctx context.Context, path string, errs io.Writer, args ...string) int {
	return daemon.Run(ctx, daemon.Command(role()), append([]string{"--config", path}, args...), io.Discard,
		errs)
}

func TestBadConfiguration(t *testing.T) {
	for text, want := range map[string]string{
		"treasury: {}\n":                                  "data: not set",
		"data: d\nlease_ttl: 1s\n":                        "t.yaml:2: lease_ttl: 1s is not within 2s",
		"data: d\ntreasury: {max_hub: 3}\n":               `t.yaml:2: unknown field "treasury.max_hub": write max_hubs`,
		"data: d\ntreasury: {currency: Euro}\n":           "t.yaml:2: currency: \"Euro\" is no code of a currency",
		"data: d\ntreasury: {drain: 0s}\n":                "t.yaml:2: drain: 0s is not from 1ns to 1h0m0s",
		"data: d\nhub: {domain: math}\n":                  "run `hub --config",
		"data: d\nmarket: {nats: \"http://127.0.0.1:1\"}": "write nats://host:port",
	} {
		path := filepath.Join(t.TempDir(), "t.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var errs bustest.Buffer
		if code := run(t.Context(), path, &errs, "--check-config"); code != daemon.ExitUsage ||
			!strings.Contains(errs.String(), want) {
			t.Errorf("%s: exit code %d, want %q: %s", text, code, want, &errs)
		}
	}
}

// The daemon before real servers: it takes a deposit, a second treasury with a journal of its own stands by,
// and after a restart it still knows of the deposit.
func TestTheMarketsOnlyTreasury(t *testing.T) {
	nats, etcd := servers.Start(t)
	file := func(data string) string {
		path := filepath.Join(t.TempDir(), "treasury.yaml")
		text := fmt.Sprintf("market: {nats: %q, etcd: [%q]}\ndata: %s\nlease_ttl: 2s\n", nats.URL,
			etcd.Endpoint(), data)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	data := t.TempDir()
	first := file(data)
	start := func() (stop func()) {
		ctx, sigterm := context.WithCancel(t.Context())
		var log bustest.Buffer
		code := make(chan int, 1)
		go func() { code <- run(ctx, first, &log) }()
		return func() {
			t.Helper()
			sigterm()
			select {
			case c := <-code:
				if c != daemon.ExitOK {
					t.Errorf("exit code %d: %s", c, &log)
				}
			case <-time.After(time.Minute):
				t.Fatalf("it did not end: %s", &log)
			}
		}
	}
	b, err := natsbus.Connect(natsbus.Config{URL: nats.URL, Name: "bank"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ask := func(op string, r bus.FundsRequest) bus.FundsReply {
		t.Helper()
		request, err := bus.Encode(&r)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		subject := bus.LedgerSubject(op, b.Name())
		if op == bus.OpBalance {
			subject = bus.BalanceSubject(r.Client, b.Name())
		}
		for {
			m, err := b.Request(ctx, bus.Msg{Subject: subject, Data: request})
			if err == nil {
				var reply bus.FundsReply
				if err := bus.Decode(m.Data, &reply); err != nil {
					t.Fatal(err)
				}
				return reply
			}
			select {
			case <-tick.C: // it is starting
			case <-ctx.Done():
				t.Fatalf("the treasury does not answer: %v", err)
			}
		}
	}

	stop := start()
	if reply := ask(bus.OpDeposit,
		bus.FundsRequest{ID: "d1", Client: "ada", Amount: 3 * market.Credit}); reply.Code != "" ||
		reply.Prepaid != 3*market.Credit {
		t.Errorf("the deposit was answered with %+v", reply)
	}
	var second bustest.Buffer
	beside, leave := context.WithCancel(t.Context())
	left := make(chan int, 1)
	go func() { left <- run(beside, file(t.TempDir()), &second) }()
	bustest.Eventually(t, "a second treasury stands by", func() bool {
		return strings.Contains(second.String(), "standing by: another treasury leads")
	})
	leave()
	by := fmt.Sprintf(`led_by="journal treasury, process %d on `, os.Getpid())
	if code, said := <-left, second.String(); code != daemon.ExitOK || !strings.Contains(said, by) ||
		strings.Count(said, "standing by") != 1 || strings.Contains(said, "treasury open") {
		t.Errorf("a second treasury: exit code %d: %s", code, said)
	}
	var errs bustest.Buffer
	if code := run(t.Context(), first, &errs); code != daemon.ExitWrong ||
		!strings.Contains(errs.String(), journal.ErrLocked.Error()) {
		t.Errorf("a second treasury on the same journal: exit code %d: %s", code, &errs)
	}
	stop()

	stop = start()
	if reply := ask(bus.OpBalance,
		bus.FundsRequest{ID: "b1", Client: "ada"}); reply.Prepaid != 3*market.Credit {
		t.Errorf("after a restart: %+v", reply)
	}
	stop()
	book := ledger.NewBook()
	if err := journal.Read(filepath.Join(data, "journal", ledger.Treasury), book.ApplyFrame); err != nil {
		t.Error(err)
	}
}
