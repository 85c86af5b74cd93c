package integration

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"souk/bus"
	"souk/cmd/local"
	"souk/cmd/replay"
	"souk/ledger"
	"souk/ledger/inspect"
	"souk/ledger/journal"
	"souk/market"
)

// credits of a test's terms.
func worth(t *testing.T, c string) *market.Credits {
	t.Helper()
	w, err := market.ParseCredits(c)
	if err != nil {
		t.Fatal(err)
	}
	return &w
}

// Twelve tasks of two clients want two slots. Those worth most go first; whoever is served while another
// waits pays what the other would have gained.
func TestCrowdsPayPremiums(t *testing.T) {
	m := start(t, one)
	const n = 12
	answers := make([]replay.Answer, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			task := chat("Tell me a long story about a market, please.", func(b *bus.Task) {
				b.Client = []string{"dev", "other"}[i/2%2]
				b.Terms.Worth = worth(t, []string{"0.01", "0.002"}[i%2])
			})
			a, err := m.Ask(t.Context(), task)
			if err != nil {
				t.Error(err)
			}
			answers[i] = a
		})
	}
	wg.Wait()
	var premiums market.Credits
	for i, a := range answers {
		if a.Result.Code != "" {
			t.Errorf("task %d: %s: %s", i, a.Result.Code, a.Result.Message)
		}
		premiums += a.Result.Premium
		if limit := *worth(t, []string{"0.01", "0.002"}[i%2]); a.Result.Paid() > limit {
			t.Errorf("task %d paid %s, more than the %s it was worth", i, a.Result.Paid(), limit)
		}
	}
	if premiums <= 0 {
		t.Errorf("nobody paid a premium although %d tasks wanted two slots", n)
	}
	tally := replay.NewTally()
	if _, err := local.TallyRounds(m.Reach().Data, tally, time.Time{}); err != nil {
		t.Fatal(err)
	}
	r := tally.Report(0, replay.Played{})
	if r.Several() == 0 || r.Contested() == 0 {
		t.Errorf("rounds: %+v; want some of several tasks, and contested", r.Rounds)
	}
}

// fill takes both slots of the only agent with long answers that have begun; end waits for them.
func fill(t *testing.T, m *local.Market) (end func()) {
	busy := make(chan struct{})
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			first := false
			_, err := m.AskWith(t.Context(), chat("Fill the only agent for a while.", long), func(bus.Chunk) {
				if !first {
					first = true
					busy <- struct{}{}
				}
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	<-busy
	<-busy
	return all.Wait
}

// A task that never gets a slot before its deadline is told that others were worth more.
func TestUnplacedTasksAreToldWhy(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	m := start(t, slow)
	end := fill(t, m)
	a, err := m.Ask(t.Context(), chat("I am in a hurry.", func(b *bus.Task) {
		b.DeadlineMS = time.Now().Add(1500 * time.Millisecond).UnixMilli()
	}))
	if err != nil {
		t.Fatal(err)
	}
	if c := a.Result.Code; c != bus.CodeNoRoom {
		t.Errorf("got %q: %s; want %s", c, a.Result.Message, bus.CodeNoRoom)
	}
	if a.Result.Paid() != 0 {
		t.Errorf("it paid %s", a.Result.Paid())
	}
	end()
}

// A task that comes beside those of others pays cost and fee alone where a slot is free, as does one of their
// client: its receipt and its explanation say so.
func TestWhereASlotIsFreeTheFeeIsAll(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	dir := t.TempDir()
	m := startIn(t, dir, strings.Replace(slow, "slots: 2,", "slots: 3,", 1)+"hub: {fee: 0.00001}\n")
	ctx, cancel := context.WithCancel(t.Context())
	running := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		first := true
		if _, err := m.AskWith(ctx, chat(strings.Repeat("Fill a slot for five seconds. ", 400), func(b *bus.Task) {
			b.Client = "other"
			b.Body = []byte(strings.Replace(string(b.Body), `"max_tokens":40`,
				`"max_tokens":500,"ignore_eos":true`, 1))
		}), func(bus.Chunk) {
			if first {
				first = false
				close(running)
			}
		}); first {
			t.Error("it did not begin: ", err)
			close(running)
		}
	})
	<-running
	a, err := m.Ask(t.Context(), chat("And who comes beside it?"))
	own, ownErr := m.Ask(t.Context(), chat("And who comes beside it?", func(b *bus.Task) {
		b.Client = "other"
	}))
	cancel()
	wg.Wait()
	if err != nil || ownErr != nil {
		t.Fatal(err, ownErr)
	}
	r, fee := a.Result, *worth(t, "0.00001")
	if r.Code != "" || r.SlotPrice != 0 || r.Fee != fee || r.Toll != -fee || r.Own != 0 || r.Premium != fee {
		t.Fatalf("%+v", r)
	}
	if o := own.Result; o.Code != "" || o.Toll != -fee || o.Own != 0 || o.Premium != fee {
		t.Errorf("beside its client's own: %+v", o)
	}
	path := filepath.Join(dir, "journal", r.Receipt.Journal)
	n := int64(0)
	if err := journal.Read(path, func(f ledger.Frame) error {
		for _, rec := range f.Records {
			for _, of := range []*bus.Receipt{r.Receipt, own.Result.Receipt} {
				if (rec.ID == of.ID) != (n == of.Index) {
					t.Errorf("record %d is %s, and the receipt says %+v", n, rec.ID, *of)
				}
			}
			n++
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	sources, err := inspect.Open([]string{path}, "")
	if err != nil {
		t.Fatal(err)
	}
	cleared, err := sources[0].Round(t.Context(), r.Receipt.Round)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := cleared.Explain()
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("premium %s = slot price 0 + toll 0 + fee %s", fee, fee)
	if !strings.Contains(shown.String(), want) {
		t.Errorf("explained as\n%s\nwant %s", shown.String(), want)
	}
}
