package serve

import (
	"context"
	"time"

	"souk/agentd"
	"souk/bus"
	"souk/bus/follow"
)

// watchClaim follows which hub sells the slots.
func (a *agent) watchClaim(ctx context.Context) {
	var fence int64 // of the claim that the watch has named
	follow.Run(ctx, a.deps.Registry, bus.ClaimKey(a.cfg.ID), follow.Follower{
		Asked: func(err error) { a.asked("claims", "claims are not watched", err) },
		Set: func(kv bus.KV) {
			fence = kv.Create
			a.claimed(kv)
		},
		Gone: func(string) { a.with(func(core *agentd.Agent) { core.Unclaimed(fence) }) },
		// after an outage what was named may be older than what is known
		Synced: func() { a.readClaim(ctx, true) },
	})
}

// readClaim reads the claim from the registry. If there is none, the agent is unclaimed where trustNone is
// true; right after a dispatch the claim may only be on its way.
func (a *agent) readClaim(ctx context.Context, trustNone bool) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	kv, err := follow.Get(ctx, a.deps.Registry, bus.ClaimKey(a.cfg.ID))
	switch {
	case err != nil:
	case kv.Value != nil:
		a.mu.Lock()
		fence := a.core.Fence
		a.mu.Unlock()
		if kv.Create < fence {
			a.log.Warn("the registry has an older claim than one seen before, as if restored from a copy: "+
				"nothing is sold under it; start agentd anew", "fence", kv.Create, "seen", fence)
		}
		a.claimed(kv)
	case trustNone:
		a.with(func(core *agentd.Agent) { core.Claimed(nil) })
	}
}

func (a *agent) claimed(kv bus.KV) {
	var c bus.Claim
	if err := bus.DecodeEntry(kv.Value, &c); err != nil {
		a.log.Warn("claim cannot be read", "err", err)
		return
	}
	c.Fence = kv.Create
	a.with(func(core *agentd.Agent) { core.Claimed(&c) })
}

// afterClaim has the claim read from the registry and then calls f: a hub that has just claimed the agent
// may be faster than the watch. What comes during a reading waits for the next one: the dispatches of a round
// come together. It returns false, and f is not called, if as many wait as could run.
func (a *agent) afterClaim(f func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.unsure) >= a.cfg.Slots {
		return false
	}
	a.unsure = append(a.unsure, f)
	if !a.reading {
		a.reading = true
		a.reports.Go(a.readClaims)
	}
	return true
}

// readClaims reads the claim for those who wait for it, until nobody does.
func (a *agent) readClaims() {
	for {
		a.mu.Lock()
		wait := a.unsure
		a.unsure, a.reading = nil, len(wait) > 0
		a.mu.Unlock()
		if len(wait) == 0 {
			return
		}
		a.readClaim(context.Background(), false)
		for _, f := range wait {
			f()
		}
	}
}
