package daemon

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/bus/natsauth"
)

// A process warns once a day from two weeks before its creds end, and no more once they are renewed; the
// files are read again each time.
func TestTheEndOfCredsIsToldBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, err := natsauth.Init(filepath.Join(t.TempDir(), "auth"))
		if err != nil {
			t.Fatal(err)
		}
		path, err := keys.Add(bus.RoleHub, bus.IDs{Name: "math", Domain: "math"}, time.Now(), natsauth.Valid)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		var mu sync.Mutex
		var out bytes.Buffer
		said := func() int {
			mu.Lock()
			defer mu.Unlock()
			return strings.Count(out.String(), "souk auth renew math")
		}
		p := &Process{Log: slog.New(slog.NewTextHandler(writer(func(b []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return out.Write(b)
		}), nil))}
		l := &Link{creds: natsauth.File(path), files: natsauth.Beside(path)}
		if got := l.Expires(); got.Sub(begun) > natsauth.Valid ||
			got.Sub(begun) < natsauth.Valid-time.Minute {
			t.Errorf("they end %v after they were made", got.Sub(begun))
		}
		ctx, stop := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { p.watchEnds(ctx, l, "math") })
		defer done.Wait()
		defer stop()
		until := func(d time.Duration, lines int) {
			t.Helper()
			time.Sleep(time.Until(begun.Add(d)))
			synctest.Wait()
			if n := said(); n != lines {
				t.Errorf("after %v: %d lines, want %d\n%s", d, n, lines, out.String())
			}
		}
		day := 24 * time.Hour
		until(natsauth.Valid-natsauth.Warn-time.Hour, 0)
		until(natsauth.Valid-natsauth.Warn+2*time.Hour, 1)
		until(natsauth.Valid-natsauth.Warn+3*day+2*time.Hour, 4)
		if renewed, err := keys.RenewDue(time.Now()); err != nil || len(renewed) != 1 {
			t.Fatal(renewed, err)
		}
		until(natsauth.Valid+day, 4)
	})
}

// writer is a function that writes.
type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
