package agentd

import (
	"testing"

	"souk/bus/congest"
	"souk/market"
)

// Configured tiers win over measured ones.
func TestConfiguredTiers(t *testing.T) {
	cfg := oneAgent("a1", 3)
	cfg.Tiers = []market.Tier{{Slots: 2}, {Slots: 1, Toll: -5}}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	a := NewAgent(cfg, Config{}, Info{Models: []string{"tiny"}}, 7, [32]byte{1})
	a.Claimed(claim(5))
	s := a.Ready(begun).Summary
	if r := a.Registration("n"); len(r.Tiers) != 2 || r.Tiers[1].Toll != -5 || len(s.Tiers) != 2 ||
		s.Tiers[1].Toll != -5 || r.Measured || s.Measured {
		t.Errorf("registered %+v, summary %+v", r, s)
	}
	b := newTestAgent(4, Config{})
	b.Claimed(claim(5))
	if s := b.Ready(begun).Summary; !s.Measured || !b.Registration("n").Measured {
		t.Errorf("tiers that nobody configured are not said to be measured: %+v", s)
	}
}

// What ran beside a task is counted, and of tasks that were served.
func TestCompanyIsCounted(t *testing.T) {
	a := newTestAgent(4, Config{})
	a.Claimed(claim(5))
	for _, h := range []string{"x", "y", "z"} {
		a.Dispatch("math", dispatch(h))
	}
	ended := func(hold string, itl int64) {
		d := dispatch(hold)
		e := a.Begin(d).End(Answer{Finish: "stop", Usage: market.Usage{Prompt: 50, Output: 10}}, nil)
		e.Completion.ITLUS = itl
		a.Ended(d, &e)
	}
	ended("z", 1000) // began beside two, ended beside two
	var want congest.Line
	want.Learn(2, 1000, 10)
	if a.congest != want {
		t.Errorf("%+v, want %+v", a.congest, want)
	}
	ended("x", 1000) // began alone, ended beside one
	want.Learn(0.5, 1000, 10)
	if a.congest != want {
		t.Errorf("%+v, want %+v", a.congest, want)
	}
	before := a.congest
	d := dispatch("y")
	e := a.Begin(d).End(Answer{}, ErrTimeout)
	e.Completion.ITLUS = 1e9
	a.Ended(d, &e)
	if a.congest != before {
		t.Error("a failed task was taken for how fast the engine is")
	}
}
