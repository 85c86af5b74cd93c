package agentd

import (
	"testing"

	"souk/bus"
	"souk/market"
)

// A seal fits the ask that is said later, also after a call was repeated; and only the hub that has claimed
// the agent is told.
func TestAsks(t *testing.T) {
	cfg := AgentConfig{ID: "a-1", Model: "llama", Owner: "lab", Class: "h200", Ask: 7, Slots: 2,
		Domains: []bus.DomainScore{{Domain: "math"}}}
	a := NewAgent(cfg, Default(), Info{}, 1, [32]byte{1})
	call := &bus.Call{Agent: "a-1", Class: "h200", Epoch: 4, Lead: 9}
	if _, err := a.Ask("node", "math", call); err == nil {
		t.Error("an agent that nobody has claimed says its ask")
	}
	a.Claimed(&bus.Claim{Agent: "a-1", Domain: "math", Epoch: 9})
	said := func(c bus.Call) *bus.Ask {
		t.Helper()
		m, err := a.Ask("node", "math", &c)
		if err != nil || m.Validate() != nil {
			t.Fatal(m, err)
		}
		return m
	}
	sealed, again := said(*call), said(*call)
	open := *call
	open.Open = true
	opened := said(open)
	ask := market.Ask{Owner: "lab", Amount: opened.Amount, Nonce: [16]byte(opened.Nonce)}
	if ask.Seal("h200", 4) != [32]byte(sealed.Seal) || string(again.Seal) != string(sealed.Seal) ||
		opened.Amount != 7 || sealed.Amount != 0 || sealed.Nonce != nil || opened.Seal != nil {
		t.Errorf("sealed %+v, opened %+v", sealed, opened)
	}
	next := *call
	next.Epoch++
	if string(said(next).Seal) == string(sealed.Seal) {
		t.Error("two epochs with one seal")
	}
	for domain, c := range map[string]bus.Call{
		"law":  *call,
		"math": {Agent: "a-1", Class: "h200", Epoch: 4, Lead: 8},
		"":     {Agent: "a-1", Class: "l4", Epoch: 4, Lead: 9},
	} {
		if domain == "" {
			domain = "math"
		}
		if m, err := a.Ask("node", domain, &c); err == nil {
			t.Errorf("%s, %+v: told %+v", domain, c, m)
		}
	}
}
