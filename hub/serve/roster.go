package serve

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/hub"
)

// claimEvery is the pause before an agent is claimed anew that another hub still holds.
const claimEvery = 500 * time.Millisecond

// roster follows the registrations of agents whose first domain is served here, and claims each before it is
// sold: exactly one hub sells an agent.
type roster struct {
	s       *Server
	l       bus.Leadership
	wanted  map[string]*bus.Registration // by agent
	claimed map[string]int64             // by agent: the fence of our claim
}

func (s *Server) watch(ctx context.Context, l bus.Leadership) {
	r := &roster{s: s, l: l, wanted: map[string]*bus.Registration{}, claimed: map[string]int64{}}
	follow.Run(ctx, s.deps.Registry, bus.AgentsPrefix, follow.Follower{
		Set:    func(kv bus.KV) { r.take(ctx, kv) },
		Gone:   func(key string) { r.drop(ctx, bus.LastElement(key)) },
		Synced: func() { s.isReady.Do(func() { close(s.ready) }) },
		Tick: func() {
			for _, agent := range slices.Sorted(maps.Keys(r.wanted)) {
				if r.claimed[agent] == 0 {
					r.claim(ctx, agent)
				}
			}
		},
		Every: claimEvery,
		Asked: func(err error) { s.asked("agents", "agents are not watched: those known are sold", err) },
	})
}

// take takes in what an agent says of itself in the registry.
func (r *roster) take(ctx context.Context, kv bus.KV) {
	agent := bus.LastElement(kv.Key)
	reg := new(bus.Registration)
	err := bus.DecodeEntry(kv.Value, reg)
	if err == nil && reg.Agent != agent {
		err = fmt.Errorf("it names %s", reg.Agent)
	}
	if err != nil {
		r.s.measures.bad.Add(1)
		r.s.log.Warn("registration not understood", "agent", agent, "err", err)
		r.drop(ctx, agent)
		return
	}
	if !r.s.cfg.Serves(reg.Domains[0].Domain) {
		r.drop(ctx, agent)
		return
	}
	r.wanted[agent] = reg
	r.claim(ctx, agent)
}

// claim claims an agent if that has not been done, and has it sold.
func (r *roster) claim(ctx context.Context, agent string) {
	if r.claimed[agent] == 0 {
		var fence int64
		c := bus.Claim{Agent: agent, Domain: r.s.cfg.Domain, Hub: r.s.cfg.Hub, Epoch: r.l.Epoch()}
		data, err := bus.EncodeEntry(&c)
		if err == nil {
			short, cancel := context.WithTimeout(ctx, r.s.cfg.LeaseTTL)
			fence, err = r.l.Claim(short, bus.ClaimKey(agent), data)
			cancel()
		}
		if err != nil {
			r.s.log.Debug("agent not claimed", "agent", agent, "err", err)
			return
		}
		r.claimed[agent] = fence
	}
	r.wanted[agent].Fence = r.claimed[agent]
	at, reg := time.Now(), *r.wanted[agent]
	r.s.pass(ctx, func(n *hub.Node) {
		if err := n.Join(at, reg); err != nil {
			r.s.log.Warn("agent not sold", "err", err)
			return
		}
		r.s.log.Info("agent joined", "agent", agent, "model", reg.Model, "slots", reg.Slots, "boot", reg.Boot)
	})
}

func (r *roster) drop(ctx context.Context, agent string) {
	if r.wanted[agent] == nil {
		return
	}
	delete(r.wanted, agent)
	if r.claimed[agent] == 0 {
		return
	}
	delete(r.claimed, agent)
	at := time.Now()
	r.s.pass(ctx, func(n *hub.Node) {
		n.Leave(at, agent)
		r.s.log.Info("agent left", "agent", agent)
	})
	short, cancel := context.WithTimeout(ctx, r.s.cfg.LeaseTTL)
	defer cancel()
	if err := r.l.Release(short, bus.ClaimKey(agent)); err != nil {
		r.s.log.Debug("claim not released", "agent", agent, "err", err)
	}
}

// heed follows the domain's settings in the registry until ctx ends. An entry that is not understood leaves
// those in force.
func (s *Server) heed(ctx context.Context) {
	key := bus.MarketKey(s.cfg.Domain)
	apply := func(m *bus.MarketConfig) {
		at := time.Now()
		s.pass(ctx, func(n *hub.Node) {
			if err := n.Configure(at, m); err != nil {
				s.log.Warn("settings not applied", "err", err)
				return
			}
			c := n.Config()
			s.log.Info("settings", "max_batch", c.Batch.MaxBatch, "max_wait", c.Batch.MaxWait,
				"eager", c.Batch.Eager, "pricing", c.Pricing, "settle", c.Settle, "clarke", c.Clarke)
		})
	}
	follow.Run(ctx, s.deps.Registry, key, follow.Follower{
		Set: func(kv bus.KV) {
			c := new(bus.MarketConfig)
			if err := bus.DecodeEntry(kv.Value, c); err != nil {
				s.measures.bad.Add(1)
				s.log.Warn("settings not understood", "key", key, "err", err)
				return
			}
			apply(c)
		},
		Gone:  func(string) { apply(nil) },
		Asked: func(err error) { s.asked("settings", "settings are not watched: those in force stay", err) },
	})
}
