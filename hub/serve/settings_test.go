package serve

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/bus/bustest"
	"souk/hub"
)

// What is put into the registry, in any order, is told as settings or as none; what is not understood is
// told to nobody.
func TestSettingsAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tn := newTown(t)
		mine := tn.world.Registry()
		j := tn.journal("hub-math")
		s, err := New(testConfig(), Deps{Bus: tn.world.Bus(testConfig().Journal), Registry: mine, Journal: j,
			Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.heed(ctx)
		r, key := tn.world.Registry(), bus.MarketKey("math")
		put := func(key, v string) func() error { return func() error { return r.Put(ctx, key, []byte(v)) } }
		gone := func() error { return r.Delete(ctx, key) }
		for i, c := range []struct {
			do   func() error
			want string
		}{
			{gone, ""},
			{put(key, `{"domain":"math","max_batch":4}`), "4"},
			{put(key, `{"domain":"math","max_batch":"four"}`), ""},
			{put(key, `{"domain":"math","pricng":"tariff"}`), ""}, // not the same as none at all
			{put(key+"2", `{"domain":"math2","max_batch":9}`), ""},
			{put(key, `{"domain":"math","max_batch":5}`), "5"},
			{func() error { mine.Cut(); mine.Heal(); return nil }, ""}, // an outage, and it is still there
			{func() error { mine.Cut(); err := gone(); mine.Heal(); return err }, "none"},
			{put(key, `{"domain":"math","max_batch":6}`), "6"},
			{gone, "none"},
		} {
			if err := c.do(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second) // virtual
			synctest.Wait()
			var got []string
			for len(s.in) > 0 {
				(<-s.in)(s.node)
				if now := s.node.Config().Batch.MaxBatch; now == s.cfg.Batch.MaxBatch {
					got = append(got, "none")
				} else {
					got = append(got, fmt.Sprint(now))
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("step %d: told %q, want %q", i, got, c.want)
			}
		}
		if got := s.Stats().Rejected; got != 2 {
			t.Errorf("%d entries were counted as not understood, want 2", got)
		}
	})
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
		return s.node.Config().Batch.MaxBatch
	}
	put(`{"domain":"math","max_batch":3}`)
	bustest.Eventually(t, "three tasks a batch", func() bool { return batch() == 3 })
	put(`nonsense`)
	put(`{"domain":"math","max_batch":5}`)
	bustest.Eventually(t, "five tasks a batch", func() bool { return batch() == 5 })
	if err := tn.world.Registry().Delete(t.Context(), bus.MarketKey("math")); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the file's own again",
		func() bool { return batch() == hub.Default().Batch.MaxBatch })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// lines counts the lines of a log that hold words.
type lines struct {
	slog.Handler
	level slog.Level
	word  string
	n     atomic.Int64
}

func (w *lines) Handle(_ context.Context, r slog.Record) error {
	if r.Level == w.level && strings.Contains(r.Message, w.word) {
		w.n.Add(1)
	}
	return nil
}

func (w *lines) Enabled(context.Context, slog.Level) bool { return true }
func (w *lines) WithAttrs([]slog.Attr) slog.Handler       { return w }
