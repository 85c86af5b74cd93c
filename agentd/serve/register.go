package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"souk/bus"
	"souk/bus/follow"
)

// asked notes whether a part of the agent has an answer from the registry; each tries again.
func (a *agent) asked(part, bad string, err error) {
	a.trouble.Note(a.log, part, err == nil, bad+"; trying on", "the registry answers again", "err", err)
}

// register keeps the agent in the registry: it registers it, updates the entry when it has changed, and
// registers again after a lost lease. It fails if the id belongs to another.
func (a *agent) register(ctx context.Context) error {
	key := bus.AgentKey(a.cfg.ID)
	pause := 100 * time.Millisecond
	var taken time.Time // since when the key is another's
	var over bus.Outage
	for {
		for a.isGone() {
			select {
			case <-ctx.Done():
				return nil
			case <-a.changed:
			}
		}
		entry, err := a.entry()
		if err != nil {
			return fmt.Errorf("agent %s: %w", a.cfg.ID, err)
		}
		lease, err := a.deps.Registry.Register(ctx, key, entry, a.Server.cfg.LeaseTTL)
		switch {
		case ctx.Err() != nil:
			if err == nil {
				follow.Release(a.log, "lease", lease)
			}
			return nil
		case errors.Is(err, bus.ErrExists):
			ended, why := a.evictOwn(ctx, key)
			if ended {
				continue
			}
			other, mine := a.holder(ctx, key)
			if taken.IsZero() {
				taken = time.Now()
				if mine {
					a.awaited.Add(1)
					a.log.Warn("waiting for the lease of another process of this node: nothing proves that it has "+
						"ended. If it has, its lease ends by itself; if not, this one ends",
						"within", a.Server.cfg.LeaseTTL, "why", why, "registered_by", other)
				}
			}
			// The lease of this node's earlier life expires by itself.
			if !mine || time.Since(taken) > a.Server.cfg.LeaseTTL+2*time.Second {
				select {
				case <-a.registered: // this one was there first, and lost its lease for a while
					if over.Failed(time.Now(), registration) {
						a.log.Error("agent id was taken over: nothing is sold here until that one is gone",
							"by", other)
					}
				default:
					return fmt.Errorf("agent %s: the id is already registered by %s: "+
						"ids are unique in a market, so call one of the two otherwise", a.cfg.ID, other)
				}
			}
			pause = min(2*pause, time.Second)
		case err != nil:
			a.asked(registration, "not registered: the registry does not answer", err)
			pause = min(2*pause, 3*time.Second)
		default:
			taken, pause = time.Time{}, 100*time.Millisecond
			a.lease.Store(&lease)
			if !follow.Closed(a.registered) {
				a.log.Info("registered", "model", a.coreModel(), "slots", a.cfg.Slots)
				close(a.registered)
			}
			a.asked(registration, "", nil)
			if a.holdLease(ctx, lease) {
				return nil
			}
			pause = time.Second // with jitter: all agents may have lost theirs at once
		}
		if !follow.Pause(ctx, follow.Jitter(pause)) {
			return nil
		}
	}
}

// registration names the part of an agent that keeps it in the registry.
const registration = "registration"

const leaseLost = "lease lost: nothing is sold here until it is registered again"

func (a *agent) entry() ([]byte, error) {
	a.mu.Lock()
	r := a.core.Registration(a.Server.cfg.Node)
	r.Life, r.Lives = a.deps.Home.Life(), a.deps.Home.Boots()
	a.listed = r.State
	a.mu.Unlock()
	return bus.EncodeEntry(r)
}

// evictOwn ends a lease of this node under which the id is still registered. Either this process lost the
// lease in an outage and the registry still keeps it; or the lease belongs to an earlier life of the node,
// which has ended, since this process holds that life's lock. It reports whether it ended one, or why nothing
// proves that it may.
func (a *agent) evictOwn(ctx context.Context, key string) (ended bool, why string) {
	var former bool
	var boot int64
	var err error
	ended, err = follow.Evict(ctx, a.deps.Registry, key, func(kv bus.KV) bool {
		var r bus.Registration
		if json.Unmarshal(kv.Value, &r) != nil {
			return false
		}
		former, why = a.deps.Home.Ended(r.Life)
		boot = r.Boot
		return former || r.Node == a.Server.cfg.Node && r.Boot == a.boot && r.Life == a.deps.Home.Life()
	})
	if err != nil {
		a.asked(registration, "an old lease of this node is not ended", err)
	}
	if ended && former {
		a.log.Info("the lease of an earlier life of this node is ended", "started", started(boot))
	}
	return ended, why
}

func started(boot int64) string { return time.UnixMilli(boot).UTC().Format(time.RFC3339) }

// holder names who is registered under the key, and reports whether that is an earlier life of this node.
func (a *agent) holder(ctx context.Context, key string) (string, bool) {
	kv, err := follow.Get(ctx, a.deps.Registry, key)
	if err != nil {
		return "an unknown node", true
	}
	var r bus.Registration
	if kv.Value == nil || json.Unmarshal(kv.Value, &r) != nil {
		return "a node that has just gone", true
	}
	mine := r.Node == a.Server.cfg.Node && r.Boot != a.boot // clocks may be set back
	return fmt.Sprintf("node %q (model %s, started %s)", r.Node, r.Model, started(r.Boot)), mine
}

// holdLease updates the entry as it changes. It returns true when ctx has ended and the lease is closed, and
// false when the lease was lost, or given back as the engine has lost the model.
func (a *agent) holdLease(ctx context.Context, lease bus.Lease) bool {
	for {
		select {
		case <-ctx.Done():
			follow.Release(a.log, "lease", lease)
			return true
		case <-lease.Lost():
			a.asked(registration, leaseLost, bus.ErrLost)
			return false
		case <-a.changed:
			if a.isGone() {
				follow.Release(a.log, "lease", lease)
				return false
			}
			entry, err := a.entry()
			if err == nil {
				err = lease.Update(ctx, entry)
			}
			if errors.Is(err, bus.ErrLost) {
				a.asked(registration, leaseLost, err)
				return false
			}
			if ctx.Err() == nil {
				a.asked(registration, "registration not updated", err)
				if err != nil && follow.Pause(ctx, follow.Jitter(time.Second)) {
					follow.Nudge(a.changed)
				}
			}
		}
	}
}

// leased reports whether the agent's lease holds, as far as the registry has said. Without one another may
// have the id, which this one would speak for: it takes nothing on, and says nothing of what it has not. What
// it has begun goes on to its reader.
func (a *agent) leased() bool {
	lease := a.lease.Load()
	return lease != nil && !follow.Closed((*lease).Lost())
}
