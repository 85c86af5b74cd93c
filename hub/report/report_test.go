package report

import (
	"fmt"
	"testing"

	"souk/bus"
	"souk/hub/quality"
	"souk/hub/settle"
	"souk/ledger"
	"souk/market"
)

// Agents are counted one by one up to a bound, and the rest together, so that nothing is lost; a copy changes
// no more.
func TestCountsOfAgentsAreBounded(t *testing.T) {
	s := New()
	hold := ledger.Hold{Model: "llama", Premium: 3, Fee: 1}
	c := bus.Completion{Usage: market.Usage{Prompt: 10, Cached: 4, Output: 2}, TTFTUS: 7}
	paid := func(agent string) {
		hold.Agent = agent
		s.Ended(&hold, settle.Ending{Event: settle.Served, Capture: &ledger.Capture{Cost: 5}, Account: &c})
	}
	for i := range 2 * mostAgents {
		paid(fmt.Sprintf("a-%05d", i))
	}
	s.Voids[bus.CodeTimeout] = 1
	x := s.Copy(func(a *AgentStats) { a.Scores = []quality.Scored{{Domain: "of " + a.Agent}} })
	paid("a-00000")
	s.Voids[bus.CodeTimeout] = 2
	if len(x.Agents) != mostAgents+1 || x.Captured != 2*mostAgents || x.Cost != 10*mostAgents ||
		x.Voids[bus.CodeTimeout] != 1 {
		t.Fatalf("%d agents, %d captured, %v, %v", len(x.Agents), x.Captured, x.Cost, x.Voids)
	}
	rest, first := x.Agents[0], x.Agents[1]
	if rest.Agent != "" || rest.Tasks != mostAgents || rest.Scores[0].Domain != "of " {
		t.Errorf("together: %+v", rest)
	}
	if first.Agent != "a-00000" || first.Tasks != 1 || first.Usage != c.Usage || first.Model != "llama" ||
		first.Premium != 3 || first.TTFTUS != 7 {
		t.Errorf("the first: %+v", first)
	}
}
