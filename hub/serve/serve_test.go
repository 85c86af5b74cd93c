package serve

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"souk/bus"
	"souk/bus/bustest"
	"souk/hub"
	"souk/ledger"
	"souk/ledger/journal"
	"souk/market"
)

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
	bustest.Eventually(t, "200 captures", func() bool { return s.Stats().Captured == 200 })
	if st := s.Stats(); st.Tasks[""] != 200 || st.Faults != 0 || st.Sync.Count == 0 ||
		st.Sync.Count > 600 {
		t.Errorf("stats: %+v", st)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	// What the journal says, by the ledger's own rules.
	book := ledger.NewBook()
	if err := journal.Read(tn.dir, book.ApplyFrame); err != nil {
		t.Fatal(err)
	}
	cost := market.Credits(200 * (100 + 40) * 1000)
	if got := book.Balance(ledger.Payable("a-1")); got != cost || book.OpenCount() != 0 ||
		book.Avail("ann") != 0 {
		t.Errorf("the journal: payable %v (want %v), %d holds open, %v available", got, cost,
			book.OpenCount(), book.Avail("ann"))
	}
	tn.mu.Lock()
	spent := cost + book.Balance(ledger.Surplus) // paid by tasks that make others wait
	if got := tn.prepaid["ann"]; got != 1000*market.Credit-spent {
		t.Errorf("after the stop ann has %v with the treasury, want all but the %v spent", got, spent)
	}
	tn.mu.Unlock()

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
	if err := j.Snapshot(nil, hub.NewHistory()); err != nil {
		t.Fatal(err)
	}
	j.Close()
	for _, id := range []string{"newer", "newest"} {
		_, stop = tn.hub(nil)
		// by how long all this took
		if got := tn.ask(request("t-7-24")); got != "accepted by a-1" && got != "answer_gone" {
			t.Errorf("an id of the first run: %s", got)
		}
		if got := tn.ask(request(id)); got != "accepted by a-1" {
			t.Errorf("a new task: %s", got)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
	want, got := ledger.NewBook(), hub.NewHistory()
	j = tn.journal(filepath.Base(tn.dir))
	err := errors.Join(j.Restore(got), journal.Read(tn.dir, want.ApplyFrame))
	if err != nil || !slices.Equal(got.Book.Balances("*"), want.Balances("*")) ||
		got.Book.Balance(ledger.Payable("a-1")) != cost/200*203 {
		t.Errorf("%v; from a snapshot: %v\nfrom the first frame: %v", err, got.Book.Balances("*"),
			want.Balances("*"))
	}
}

// What doors send while a hub stops is answered: of what is not, nobody could say whether it was served.
func TestWhatComesWhileAHubStopsIsAnswered(t *testing.T) {
	tn := newTown(t)
	tn.agent("a-1", 64, nil)
	_, stop := tn.hub(nil)
	if got := tn.ask(request("t")); got != "accepted by a-1" {
		t.Fatal(got)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	for i := 0; ; i++ {
		switch got := tn.ask(request(fmt.Sprint("t-", i))); got {
		case "accepted by a-1":
			continue
		case string(bus.CodeDraining):
		default:
			t.Errorf("while it stops: %s", got)
		}
		break
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
