package hub

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"souk/bus"
	"souk/ledger/journal"
)

// An operator's settings hold for every later round, and the file's own come back when they are taken away.
func TestSettings(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 8, 0.8, card(1, 1, 4))
	no, wait := false, int64(30)
	h.must(h.n.Configure(h.now, &bus.MarketConfig{Domain: "math", MaxBatch: 2, MaxWaitMS: &wait, Eager: &no, Settle: "quoted"}))

	h.must(h.step(h.task("ann", "t1")))
	if len(h.dispatched) != 0 {
		t.Fatal("a fixed window clears at once")
	}
	h.pass(30 * time.Millisecond)
	d := h.take("ann", "t1")
	if d.Settle != "quoted" || h.n.cfg.market().Settle != "quoted" {
		t.Errorf("settled by %s", d.Settle)
	}
	h.must(h.step(h.task("ann", "t2")))
	h.must(h.step(h.task("ann", "t3")))
	h.take("ann", "t2") // two are a full batch
	h.take("ann", "t3")

	for _, bad := range []*bus.MarketConfig{
		{Domain: "law"}, {Domain: "math", MaxBatch: -1}, {Domain: "math", Pricing: "highest"}, {Domain: "math", Settle: "later"},
	} {
		if h.n.Configure(h.now, bad) == nil || h.n.cfg.Batch.MaxBatch != 2 {
			t.Errorf("%+v is applied", bad)
		}
	}
	h.must(h.n.Configure(h.now, nil))
	h.must(h.step(h.task("ann", "t4")))
	if d := h.take("ann", "t4"); d.Settle != "metered" {
		t.Errorf("settled by %s", d.Settle)
	}
}

// What a watch tells, in the order in which it may tell it.
func TestSettingsAreFollowed(t *testing.T) {
	key := bus.MarketKey("math")
	put := func(v string) bus.Event { return bus.Event{KV: bus.KV{Key: key, Value: []byte(v)}} }
	synced := bus.Event{Synced: true}
	var f force
	for i, c := range []struct {
		e        bus.Event
		batch    int // 0: none
		news, ok bool
	}{
		{synced, 0, false, true},
		{put(`{"domain":"math","max_batch":4}`), 4, true, true},
		{put(`{"domain":"math","max_batch":"four"}`), 0, false, false},
		{put(`{"domain":"math","pricng":"tariff"}`), 0, false, false}, // not the same as none at all
		{bus.Event{KV: bus.KV{Key: key + "2", Value: []byte("x")}}, 0, false, true},
		{put(`{"domain":"math","max_batch":5}`), 5, true, true},
		{synced, 0, false, true}, // named since the last: still there
		{synced, 0, true, true},  // an outage, and it is no longer named
		{put(`{"domain":"math","max_batch":6}`), 6, true, true},
		{bus.Event{KV: bus.KV{Key: key}, Deleted: true}, 0, true, true},
	} {
		got, news := f.take(key, c.e)
		batch := 0
		if got != nil && news {
			batch = got.MaxBatch
		}
		if news != c.news || batch != c.batch || (f.err == nil) != c.ok {
			t.Errorf("event %d: %d, news %v, err %v", i, batch, news, f.err)
		}
	}
}

// The hub itself follows its key in the registry.
func TestServerFollowsItsSettings(t *testing.T) {
	tn := newTown(t)
	s, stop := tn.hub(nil)
	put := func(v string) {
		t.Helper()
		if err := tn.world.Registry().Put(t.Context(), bus.MarketKey("math"), []byte(v)); err != nil {
			t.Fatal(err)
		}
	}
	batch := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.node.cfg.Batch.MaxBatch
	}
	put(`{"domain":"math","max_batch":3}`)
	until(t, "three tasks a batch", func() bool { return batch() == 3 })
	put(`nonsense`)
	put(`{"domain":"math","max_batch":5}`)
	until(t, "five tasks a batch", func() bool { return batch() == 5 })
	if err := tn.world.Registry().Delete(t.Context(), bus.MarketKey("math")); err != nil {
		t.Fatal(err)
	}
	until(t, "the file's own again", func() bool { return batch() == Default().Batch.MaxBatch })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// warnings counts the lines of a log that hold a word.
type warnings struct {
	slog.Handler
	word string
	n    atomic.Int64
}

func (w *warnings) Handle(_ context.Context, r slog.Record) error {
	if r.Level == slog.LevelWarn && strings.Contains(r.Message, w.word) {
		w.n.Add(1)
	}
	return nil
}

func (w *warnings) Enabled(context.Context, slog.Level) bool { return true }
func (w *warnings) WithAttrs([]slog.Attr) slog.Handler       { return w }

// bundle_tokens in a file or in the registry is of hubs of before: it is ignored with one warning each,
// whatever it says, and what stands beside it holds.
func TestBundleTokensIsIgnored(t *testing.T) {
	tn := newTown(t)
	log := &warnings{word: "bundle_tokens is ignored"}
	j, err := journal.Open(tn.dir, journal.Config{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	cfg, tokens := testConfig(), -7
	cfg.BundleTokens = &tokens
	s, err := NewServer(cfg, Deps{Bus: tn.world.Bus("hub"), Registry: tn.world.Registry(), Journal: j,
		Log: slog.New(log)})
	if err != nil || log.n.Load() != 1 {
		t.Fatalf("%v, %d warnings of the file, want 1", err, log.n.Load())
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go s.heed(ctx)
	for i, v := range []string{`{"domain":"math","max_batch":3,"bundle_tokens":256}`,
		`{"domain":"math","max_batch":4,"bundle_tokens":"no"}`} {
		if err := tn.world.Registry().Put(t.Context(), bus.MarketKey("math"), []byte(v)); err != nil {
			t.Fatal(err)
		}
		in := <-s.in
		if in.set == nil || in.set.config == nil || in.set.config.MaxBatch != 3+i ||
			s.node.Configure(time.Now(), in.set.config) != nil {
			t.Errorf("settings %d: %+v", i, in)
		}
	}
	if n := log.n.Load(); n != 2 {
		t.Errorf("%d warnings in all, want one of the file and one of the registry", n)
	}
}
