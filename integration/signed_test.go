package integration

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"souk/bus/bustest"
	"souk/cmd/local"
)

// All journals of a market, put back together to one moment, agree with one another and keep every rule; but
// each was cosigned farther by another (I13). The newest ones, put back, go on.
func TestJournalsThatArePutBackTogetherAreNotLed(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	dir := t.TempDir()
	cfg, err := local.ParseConfig("one.yaml", []byte(one))
	if err != nil {
		t.Fatal(err)
	}
	up := func(within time.Duration) (*local.Market, error) {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		return local.Start(ctx, local.Options{Dir: dir, Config: cfg})
	}
	witnessed := func() string {
		text, _ := os.ReadFile(filepath.Join(dir, "treasury.witnessed"))
		return string(text)
	}
	// run asks one task, and ends once the treasury has cosigned the hub's journal beyond what it had.
	run := func() {
		t.Helper()
		m, err := up(time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		was := witnessed()
		if a, err := m.Ask(t.Context(), chat("Hello")); err != nil || a.Result.Code != "" {
			t.Fatalf("%+v, %v", a.Result, err)
		}
		bustest.Eventually(t, "the treasury cosigns", func() bool { return witnessed() != was })
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	journals, older := filepath.Join(dir, "journal"), filepath.Join(dir, "older")
	newest := filepath.Join(dir, "newest")
	run()
	if err := os.CopyFS(older, os.DirFS(journals)); err != nil {
		t.Fatal(err)
	}
	run()
	if err := os.Rename(journals, newest); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(older, journals); err != nil {
		t.Fatal(err)
	}
	if m, err := up(5 * time.Second); err == nil {
		m.Close()
		t.Fatal("older copies of all journals are led")
	} else if !strings.Contains(err.Error(), "is not the one that was signed") {
		t.Fatalf("it does not say why: %v", err)
	}
	if err := os.RemoveAll(journals); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(newest, journals); err != nil {
		t.Fatal(err)
	}
	run()
}
