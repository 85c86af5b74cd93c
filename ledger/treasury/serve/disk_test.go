package serve_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"souk/bus"
	"souk/bus/life"
	"souk/ledger"
	"souk/market"
)

// cramped is a journal whose disk is nearly full now and then.
type cramped struct {
	ledger.Journal
	full atomic.Bool
}

func (c *cramped) HasRoom() bool { return !c.full.Load() }

// A treasury whose directory is moved away ends, and says why, whether it has something to write or not.
func TestATreasuryWhoseDirectoryIsMovedAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "treasury")
	h := start(t, dir, nil)
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	if err := h.wait(); !errors.Is(err, life.ErrReplaced) || !strings.Contains(err.Error(), dir+": ") {
		t.Errorf("it ends with %v", err)
	}
}

// A treasury whose disk is nearly full takes no money in. Its log says so when that begins, and when there is
// room again.
func TestADiskThatIsNearlyFullIsNamed(t *testing.T) {
	var disk *cramped
	h := start(t, t.TempDir(), func(j ledger.Journal) ledger.Journal {
		disk = &cramped{Journal: j}
		return disk
	})
	deposit := func(id string, full bool, want bus.Code) {
		t.Helper()
		disk.full.Store(full)
		r := h.ask(bus.OpDeposit, bus.FundsRequest{ID: id, Client: "ann", Amount: market.Credit})
		if r.Code != want {
			t.Errorf("deposit %s: %q %s, want %q", id, r.Code, r.Message, want)
		}
	}
	deposit("a", false, "")
	deposit("b", true, bus.CodeUnavailable)
	deposit("c", true, bus.CodeUnavailable)
	deposit("d", false, "")
	for _, line := range []string{"level=WARN msg=\"the journal's disk is nearly full",
		"level=INFO msg=\"the journal's disk has room again"} {
		if n := strings.Count(h.said.String(), line); n != 1 {
			t.Errorf("%q is logged %d times", line, n)
		}
	}
}
