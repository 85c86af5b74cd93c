package serve

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"souk/bus/follow"
	"souk/bus/membus"
	runtimepolicy "souk/bus/policy"
	"souk/hub/policy"
	"souk/hub/policy/ahead"
	"souk/ledger/journal"
)

// A hub starts without the policy in which an earlier life hung, and says so; one that hangs names it and
// ends its process.
func TestAHubStartsWithoutThePolicyThatHung(t *testing.T) {
	tn := newTown(t)
	path := filepath.Join(t.TempDir(), "hung")
	life := func(n string) (*Server, *bytes.Buffer, *int) {
		var log bytes.Buffer
		j, err := journal.Open(filepath.Join(t.TempDir(), n), journal.Config{MinFree: -1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { j.Close() })
		cfg := testConfig()
		cfg.Policies.Keep = "kvcache"
		cfg.Parts.Policies[policy.Keep] = runtimepolicy.Known{"kvcache": func() runtimepolicy.Policy {
			return ahead.New(1)
		}}
		b := membus.New(1).Bus(cfg.Journal)
		t.Cleanup(func() { b.Close() })
		code := 0
		s, err := New(cfg, Deps{Bus: b, Registry: tn.world.Registry(), Journal: j, Hung: follow.Hung(path),
			Log: slog.New(slog.NewTextHandler(&log, nil)), Exit: func(c int) { code = c }})
		if err != nil {
			t.Fatal(err)
		}
		return s, &log, &code
	}
	s, log, code := life("one")
	if got := s.node.Status().Policies; len(got) != 1 || got[0].Policy != "kvcache" {
		t.Fatalf("policies %+v", got)
	}
	s.deps.Hung.End(s.log, "kvcache", s.deps.Exit)
	if *code != follow.ExitHung || !strings.Contains(log.String(), "policy=kvcache") {
		t.Errorf("ended with %d: %s", *code, log)
	}
	s, log, _ = life("two")
	if got := s.node.Status().Policies; len(got) != 0 || !strings.Contains(log.String(), path) {
		t.Errorf("policies %+v; it said %s", got, log)
	}
}
