package integration

import (
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/bustest"
)

// An engine that falls silent before the first token costs its task what the hub watches for, not what it
// takes to find that an engine hangs: its client has the answer of another agent, and pays that alone. The
// silent one sells nothing until it has said a token.
func TestATaskLeavesASilentEngine(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	m := start(t, strings.NewReplacer("speedup: 20", "speedup: 4", // on a slow machine, too, before its agent
		"engine: {profile: steady}", "engine: {profile: steady}, agentd: {engine: {suspect: 30s}}").Replace(two), hard)
	for range 30 { // so that the hub knows what to expect
		if a, err := m.Ask(t.Context(), chat("Say yes.")); err != nil || a.Result.Agent != "first" {
			t.Fatalf("%+v, %v", a.Result, err)
		}
	}
	before := balance(t, m, "dev")
	m.Engine("first").Freeze(true)
	begun := time.Now()
	a, err := m.Ask(t.Context(), chat(hard.Turns[0].User))
	if err != nil || a.Text != hard.Turns[0].Answer || a.Result.Code != "" || a.Result.Agent != "second" {
		t.Fatalf("%q, %+v, %v", a.Text, a.Result, err)
	}
	t.Logf("answered after %v", time.Since(begun).Round(time.Millisecond))
	s := m.Hubs[0].Stats()
	if s.Hedged != 1 || s.Voids[bus.CodeLateFirst] != 1 {
		t.Errorf("%d tasks went elsewhere for a late first token; void %v", s.Hedged, s.Voids)
	}
	if paid := before - balance(t, m, "dev"); paid != a.Result.Paid() {
		t.Errorf("dev paid %s, and its receipt says %s", paid, a.Result.Paid())
	}
	bustest.Eventually(t, "the silent agent's slots are gone", func() bool { return m.Free() == 4 })
	m.Engine("first").Freeze(false)
	bustest.Eventually(t, "they are back", func() bool { return m.Free() == 8 })
}
