package agentd

import "testing"

// Agents of one engine fill one cache: each counts on its part of it, by slots, and those of other engines
// take nothing of it.
func TestAgentsOfOneEngineHaveAPartEach(t *testing.T) {
	agents := []AgentConfig{oneAgent("law-1", 6), oneAgent("tax-1", 2), oneAgent("far-1", 8)}
	agents[1].Model = "tax"
	agents[2].Engine.URL = "http://127.0.0.1:2"
	limits := Config{Agents: agents}
	for i, want := range []int{750, 250, 1000} {
		info := Info{Models: []string{"tiny", "tax"}, BlockSize: 16, KVTokens: 1000}
		a := NewAgent(agents[i], limits, info, 7, [32]byte{1})
		if got := a.Registration("node").KVTokens; got != want {
			t.Errorf("%s registers %d tokens, want %d", agents[i].ID, got, want)
		}
		info.KVTokens = 0
		if err := a.Returned(info); err != nil || a.Registration("node").KVTokens != 0 {
			t.Errorf("%s: %d tokens of an engine that does not say how many there are, %v", agents[i].ID,
				a.Registration("node").KVTokens, err)
		}
		info.KVTokens = 2000
		if err := a.Returned(info); err != nil || a.Registration("node").KVTokens != 2*want {
			t.Errorf("%s registers %d tokens, want %d, %v", agents[i].ID, a.Registration("node").KVTokens,
				2*want, err)
		}
	}
}
