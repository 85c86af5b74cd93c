package serve

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/bustest"
)

// A dispatch names the claim under which it is sent: the revision at which the registry has the claim's key,
// and a later one once the agent was away and is claimed anew.
func TestDispatchesCarryTheirClaimsFence(t *testing.T) {
	tn := newTown(t)
	got := make(chan bus.Dispatch, 2)
	serve := func(d bus.Dispatch) bool { got <- d; return true }
	lease := tn.agent("a-1", 1, serve)
	joined := &lines{level: slog.LevelInfo, word: "agent joined"}
	tn.log = slog.New(joined)
	tn.hub(nil)
	bustest.Eventually(t, "the agent is sold", func() bool { return joined.n.Load() == 1 })
	last := int64(0)
	for i := range 2 {
		kvs, err := tn.world.Registry().Get(t.Context(), bus.ClaimKey("a-1"))
		if err != nil || len(kvs) != 1 {
			t.Fatalf("claims %+v, %v", kvs, err)
		}
		tn.ask(request(fmt.Sprint("t-", i)))
		if d := <-got; d.Fence != kvs[0].Create || d.Fence <= last {
			t.Errorf("claim %d: fence %d, the claim was made at %d, the one before at %d", i, d.Fence,
				kvs[0].Create,
				last)
		}
		last = kvs[0].Create
		if i > 0 {
			break
		}
		if err := lease.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		bustest.Eventually(t, "the agent is released", func() bool {
			kvs, _ := tn.world.Registry().Get(t.Context(), bus.ClaimKey("a-1"))
			return len(kvs) == 0
		})
		reg := registration("a-1", 1)
		data, _ := bus.EncodeEntry(&reg)
		if _, err := tn.world.Registry().Register(t.Context(), bus.AgentKey("a-1"), data,
			5*time.Second); err != nil {
			t.Fatal(err)
		}
		bustest.Eventually(t, "the agent is sold again", func() bool { return joined.n.Load() == 2 })
	}
}
