package serve

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"souk/agentd"
	"souk/agentd/policy"
	"souk/agentd/policy/guard"
	"souk/bus/follow"
	"souk/bus/membus"
)

// A node starts without the policy in which an earlier life hung, and says so; one that hangs names it and
// ends its process.
func TestANodeStartsWithoutThePolicyThatHung(t *testing.T) {
	home, err := OpenHome(t.TempDir(), "n1")
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	world := membus.New(1)
	life := func() (*Server, *bytes.Buffer, *int) {
		var log bytes.Buffer
		code := 0
		b := world.Bus("agentd")
		defer b.Close()
		cfg := agentd.Config{Node: "n1", Agents: []agentd.AgentConfig{oneAgent("a1", 2)},
			Policies: policy.Params{Guard: "patterns"},
			Patterns: []guard.Pattern{{Name: "n", Pattern: "ab", Action: guard.Cut}}}
		s, err := NewServer(cfg, Deps{Bus: b, Registry: world.Registry(), Home: home,
			Engine: func(agentd.EngineConfig) agentd.Engine { return &script{} },
			Log:    slog.New(slog.NewTextHandler(&log, nil)), Exit: func(c int) { code = c }})
		if err != nil {
			t.Fatal(err)
		}
		return s, &log, &code
	}
	s, log, code := life()
	if s.cfg.Policies.Guard == "" {
		t.Fatalf("%+v", s.cfg.Policies)
	}
	s.agents[0].hangs("patterns")
	s.agents[0].hangs("patterns")
	if *code != follow.ExitHung || strings.Count(log.String(), "policy=patterns") != 1 {
		t.Errorf("ended with %d: %s", *code, log)
	}
	s, log, _ = life()
	if s.cfg.Policies.Guard != "" || !strings.Contains(log.String(), string(home.hung())) {
		t.Errorf("policies %+v; it said %s", s.cfg.Policies, log)
	}
}
