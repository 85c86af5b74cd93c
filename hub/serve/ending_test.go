package serve

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"souk/ledger/journal"
)

// A hub that is to end while another leads its domain says what it waits for, and closes nothing.
func TestAHubThatEndsBehindAnother(t *testing.T) {
	tn := newTown(t)
	tn.hub(nil)
	j, err := journal.Open(filepath.Join(t.TempDir(), "b"), journal.Config{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	cfg := testConfig()
	cfg.Hub, cfg.Journal = "hub-2", "hub-b"
	b := tn.world.Bus(cfg.Journal)
	defer b.Close()
	said := &words{got: make(chan struct{}), want: "after whoever leads it now"}
	s, err := New(cfg, Deps{Bus: b, Registry: tn.world.Registry(), Journal: j, Close: true,
		Log: slog.New(slog.NewTextHandler(said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	select {
	case <-said.got:
	case err := <-ended:
		t.Fatal(err)
	}
	stop()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "it did not lead its domain") {
		t.Errorf("ended with %v", err)
	}
}

// A hub that the treasury counts as ended closes its journal by itself, and ends with an error that says so
// and what to do; started again, it says the same.
func TestAHubThatTheTreasuryEnded(t *testing.T) {
	tn := newTown(t)
	_, stop := tn.hub(nil)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	tn.mu.Lock()
	tn.ended = true
	tn.mu.Unlock()
	for range 2 {
		j, err := journal.Open(tn.dir, journal.Config{MinFree: -1})
		if err != nil {
			t.Fatal(err)
		}
		_, hub, _ := tn.start(tn.world.Registry(), j, nil)
		if err := hub.wait(); err == nil || !strings.Contains(err.Error(),
			"journal hub-math is closed, for this hub has ended: give another one a journal of another name") {
			t.Errorf("ended with %v", err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// words waits for some in a log.
type words struct {
	want string
	all  bytes.Buffer
	got  chan struct{}
	done bool
}

func (w *words) Write(line []byte) (int, error) {
	w.all.Write(line)
	if !w.done && strings.Contains(w.all.String(), w.want) {
		w.done = true
		close(w.got)
	}
	return len(line), nil
}
