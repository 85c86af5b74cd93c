package fleet

import (
	"context"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/follow"
)

// soak makes some scenes longer: a hub dies fifty times rather than three.
var soak = os.Getenv("SOUK_SOAK") != ""

// whole skips scenes of outages, which last as long as leases and reconnections do: make fleet plays them
// all, make test the deaths alone.
func whole(t *testing.T) {
	t.Helper()
	if !soak && os.Getenv("SOUK_FLEET") == "" {
		t.Skip("make fleet plays this scene")
	}
}

// after waits for a moment between nothing and most, drawn from r.
func after(ctx context.Context, r *rand.Rand, most time.Duration) {
	t := time.NewTimer(time.Duration(r.Int64N(int64(most))))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// A hub is killed at random moments under load, and started again. It sells at once, and every task has one
// end.
func TestAHubDiesUnderLoad(t *testing.T) {
	whole(t)
	t.Parallel()
	f, ctx := begin(t, Plan{Agents: 2, Slots: 8, Speedup: 4})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	crowd, err := f.Crowd(ctx, "dev", 12, 40)
	must(t, err)
	must(t, crowd.Served(ctx, 20))
	times := 3
	if soak {
		times = 50
	}
	hub := f.Part("hub-general")
	var slowest time.Duration
	for range times {
		after(ctx, random, 400*time.Millisecond)
		must(t, hub.Kill())
		after(ctx, random, 200*time.Millisecond)
		begun := time.Now()
		must(t, hub.Start())
		must(t, crowd.Served(ctx, 1)) // perhaps by an agent that had it before
		must(t, hub.Ready(ctx))
		slowest = max(slowest, time.Since(begun))
		must(t, crowd.Served(ctx, 24))
	}
	t.Logf("started again, a hub was ready and a task was served within %v", slowest.Round(time.Millisecond))
	words := crowd.Stop()
	unknown := end(t, ctx, f, words)
	t.Logf("%d clients paid for what they were told nobody knows of", unknown)
	passing(t, words)
}

// A hub that was asleep for longer than its lease wakes up and thinks that it leads. Another leads by then:
// whatever the sleeper still sends is refused, it says that it is not ready, and it settles what it had
// awarded before.
func TestAHubSleepsPastItsLease(t *testing.T) {
	whole(t)
	t.Parallel()
	f, ctx := begin(t, Plan{Agents: 2, Slots: 8, Speedup: 1, Hub: "  lease_ttl: 2s\n"})
	crowd, err := f.Crowd(ctx, "dev", 8, 100)
	must(t, err)
	must(t, crowd.Served(ctx, 8))
	other, err := f.AddHub("hub-other", "general", true, f.Hub)
	must(t, err)
	must(t, other.Start())
	bustest.Eventually(t, "the other hub stands by", func() bool {
		err := other.Readiness(ctx)
		return err != nil && strings.Contains(err.Error(), "standing by")
	})
	sleeper := f.Part("hub-general")
	must(t, pause(sleeper))
	must(t, other.Ready(ctx))
	must(t, crowd.Served(ctx, 16))
	must(t, resume(sleeper))
	bustest.Eventually(t, "the sleeper is not ready", func() bool {
		err := sleeper.Readiness(ctx)
		return err != nil && strings.Contains(err.Error(), "standing by")
	})
	must(t, crowd.Served(ctx, 16))
	if other.Readiness(ctx) != nil {
		t.Error("the other hub does not lead any more")
	}
	words := crowd.Stop()
	passing(t, words)
	end(t, ctx, f, words)
}

// A hub sleeps for longer than its holds live. What was served meanwhile was served in time, and is paid.
func TestAHubSleepsPastItsHolds(t *testing.T) {
	whole(t)
	t.Parallel()
	f, ctx := begin(t, Plan{Agents: 1, Slots: 8, Grace: time.Second, Slowest: 20 * time.Millisecond})
	done, _ := streams(t, ctx, f, 6, 60)
	hub := f.Part("hub-general")
	must(t, pause(hub))
	words := done()
	follow.Pause(ctx, 10*time.Second)
	must(t, resume(hub))
	served(t, words)
	end(t, ctx, f, words)
}

// The treasury is killed under load and started again: it proves by its journal's lock that its own old lease
// is nobody's, and does not wait for it. Hubs sell on from what they were allotted, and no money is lost.
func TestTheTreasuryDies(t *testing.T) {
	whole(t)
	t.Parallel()
	f, ctx := begin(t, Plan{Agents: 1, Slots: 8, Speedup: 4})
	crowd, err := f.Crowd(ctx, "dev", 4, 40)
	must(t, err)
	must(t, crowd.Served(ctx, 4))
	treasury := f.Part(Treasury)
	must(t, treasury.Kill())
	begun := time.Now()
	must(t, treasury.Start())
	must(t, treasury.Ready(ctx))
	t.Logf("ready %v after its start", time.Since(begun).Round(time.Millisecond))
	if said := treasury.Said(); !strings.Contains(said, "earlier life of this treasury is ended") ||
		strings.Contains(said, "waiting to be the market's only treasury") {
		t.Errorf("it waited for its own lease:\n%s", treasury.Tail(10))
	}
	c, err := f.Client("other") // whom no hub has any money of
	must(t, err)
	must(t, crowd.Served(ctx, 4))
	word := Ask(ctx, c, "other", Task("other", 20), func(bus.Chunk) {})
	words := append(crowd.Stop(), word)
	passing(t, words)
	end(t, ctx, f, words)
}

// The treasury is stopped for longer than its lease lasts, and goes on then: what came meanwhile it answers
// under no epoch that is over, and it is elected anew. No money is lost.
func TestTheTreasurySleepsPastItsLease(t *testing.T) {
	whole(t)
	t.Parallel()
	f, ctx := begin(t, Plan{Agents: 1, Slots: 8, Speedup: 4})
	crowd, err := f.Crowd(ctx, "dev", 4, 40)
	must(t, err)
	must(t, crowd.Served(ctx, 4))
	treasury := f.Part(Treasury)
	must(t, pause(treasury))
	follow.Pause(ctx, 8*time.Second)
	must(t, resume(treasury))
	bustest.Eventually(t, "it is elected anew", func() bool {
		return strings.Count(treasury.Said(), "treasury open") == 2
	})
	c, err := f.Client("other") // whom no hub has any money of
	must(t, err)
	must(t, crowd.Served(ctx, 4))
	word := Ask(ctx, c, "other", Task("other", 20), func(bus.Chunk) {})
	words := append(crowd.Stop(), word)
	passing(t, words)
	end(t, ctx, f, words)
}
