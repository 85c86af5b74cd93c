package serve

import (
	"strings"
	"testing"

	"souk/agentd"
	"souk/bus/metrics"
	"souk/bus/policy"
)

// Policies that are off and answers that were caught are summed over a node's agents; what an engine counted
// otherwise than it sent, and slots, are each agent's own.
func TestGauges(t *testing.T) {
	all := make([]agentd.AgentStats, 2)
	all[0].Agent, all[1].Agent = "a", "b"
	all[0].Policies = []policy.State{{Hook: "guard", Why: "it panicked"}, {Hook: "adapter"}}
	all[0].Caught, all[1].Caught = map[string]int64{"x": 2, "y": 1}, map[string]int64{"x": 4}
	all[0].Differs, all[1].Differs = 2, 3
	all[0].Slots, all[0].InFlight = 2, 3 // its engine has fewer now than it runs
	got := map[string]float64{}
	say := func(f *metrics.Family, v float64, labels ...string) {
		got[strings.Join(append([]string{f.Name}, labels...), " ")] += v
	}
	for i := range all {
		one(say, &all[i])
	}
	for name, want := range map[string]float64{"souk_agentd_policies_off": 1,
		"souk_agentd_answers_caught_total": 7, "souk_agentd_usage_differs_total a ": 2,
		"souk_agentd_usage_differs_total b ": 3, "souk_agentd_slots a  free": 0, "souk_agentd_slots a  held": 3} {
		if v, there := got[name]; !there || v != want {
			t.Errorf("%s is %v (there: %v), want %v", name, v, there, want)
		}
	}
}
