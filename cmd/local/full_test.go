package local

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/bustest"
	"souk/ledger/journal"
	"souk/market"
)

// A market on a disk that is nearly full says what it waits for, how much is free and how much is needed.
// Meanwhile other commands find it: they hear that it takes nothing, for certain, and of what is there; and
// its gateway is not ready, as its first deposits do not stand. Once there is room it goes on by itself.
func TestAMarketWaitsForRoom(t *testing.T) {
	var free atomic.Int64
	free.Store(1 << 30)
	c := Default()
	c.Listen, c.Speedup = "127.0.0.1:0", 20
	dir := t.TempDir()
	log := new(bustest.Buffer)
	o := Options{Dir: dir, Config: c, Within: time.Second, Log: slog.New(slog.NewTextHandler(log, nil)),
		Journal: journal.Config{Free: func(string) (int64, error) { return free.Load(), nil }}}
	m, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Link.Fund(t.Context(), "ann", market.Credit, "before"); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}

	free.Store(40 << 20)
	if _, err := Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "40 MB free") ||
		!strings.Contains(err.Error(), "64 MB") {
		t.Errorf("who does not wait is told %v", err)
	}
	o.Patient = true
	type started struct {
		m   *Market
		err error
	}
	up := make(chan started, 1)
	go func() {
		m, err := Start(t.Context(), o)
		up <- started{m, err}
	}()
	until := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !ok(); {
			select {
			case s := <-up:
				t.Fatalf("it is up, or not, before %s: %v\n%s", what, s.err, log)
			case <-time.After(5 * time.Millisecond):
			}
			if time.Now().After(end) {
				t.Fatalf("a minute passed before %s\n%s", what, log)
			}
		}
	}
	until("it is found", func() bool { _, err := ReadState(dir); return err == nil })
	state, _ := ReadState(dir)
	health := func(want int) {
		t.Helper()
		r, err := http.Get(state.HTTP + "/health")
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != want {
			t.Errorf("the gateway's health is %d, want %d", r.StatusCode, want)
		}
	}
	health(http.StatusServiceUnavailable)
	if s := log.String(); !strings.Contains(s, "free_mb=40 needed_mb=64") || !strings.Contains(s, dir) {
		t.Errorf("it says\n%s", s)
	}
	link, err := Reach{Data: dir}.Dial(bus.RoleOperator, Operator)
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	r, err := link.Fund(t.Context(), "ann", market.Credit, "before")
	if err != nil || r.Prepaid != market.Credit {
		t.Errorf("what was made before: %+v, %v", r, err)
	}
	if r, err := link.Balance(t.Context(), "ann"); err != nil || r.Prepaid != market.Credit {
		t.Errorf("the balance: %+v, %v", r, err)
	}
	full := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ErrUnmade) || bus.CodeOf(err) != bus.CodeUnavailable ||
			!strings.Contains(err.Error(), "disk is nearly full") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = link.Fund(t.Context(), "ann", market.Credit, "now")
	full("a deposit", err)
	begun := time.Now()
	_, err = link.Command(t.Context(), bus.OpPayout, bus.FundsRequest{ID: "now", Client: "ann",
		Amount: market.Credit})
	if full("a payout", err); time.Since(begun) > FundWithin {
		t.Errorf("it was asked for again for %v", time.Since(begun))
	}
	client, err := Reach{Data: dir}.Dial(bus.RoleClient, "ann")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	hello := bus.Task{Client: "ann", Body: []byte(`{"messages":[{"role":"user","content":"Hello"}]}`)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	a, err := client.Ask(ctx, hello)
	for err == nil && strings.Contains(a.Result.Message, "does not listen") { // it may be late
		a, err = client.Ask(ctx, hello)
	}
	if err != nil || a.Result.Code != bus.CodeUnavailable ||
		!strings.Contains(a.Result.Message, "nearly full") {
		t.Errorf("a task: %+v, %v", a.Result, err)
	}

	free.Store(1 << 30)
	s := <-up
	if s.err != nil {
		t.Fatal(s.err)
	}
	health(http.StatusOK)
	defer func() {
		if err := errors.Join(s.m.Close(), CheckLedger(context.Background(), dir, io.Discard)); err != nil {
			t.Error(err)
		}
	}()
	if _, err := link.Fund(t.Context(), "ann", market.Credit, "now"); err != nil {
		t.Error(err)
	}
	if a, err := client.Ask(ctx, hello); err != nil || a.Result.Code != "" {
		t.Errorf("a task: %+v, %v", a.Result, err)
	}
}
