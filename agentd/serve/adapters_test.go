package serve

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"souk/agentd"
	"souk/agentd/policy"
	"souk/bus"
	"souk/bus/bustest"
	runtimepolicy "souk/bus/policy"
)

// Three agents of one engine sell an adapter each. After sessions have gone from one to the next a few times,
// the next one's adapter is asked for before its task comes, by one token that nobody pays for and that is
// counted. Without the policy no such token is asked for.
func TestTheNextAdapterIsLoaded(t *testing.T) {
	for _, name := range []string{"next", ""} {
		synctest.Test(t, func(t *testing.T) {
			agents := []string{"a1", "law", "tax"}
			o := newTown(t, func(c *agentd.Config) {
				c.Policies = policy.Params{Adapter: name}
				c.Agents[0].Engine.Adapters = 1
				for _, id := range agents[1:] {
					a := c.Agents[0]
					a.ID, a.Model = id, id
					c.Agents = append(c.Agents, a)
				}
			})
			o.engine.set(func() { o.engine.info.Models = []string{"tiny", "law", "tax"} })
			<-o.server.Ready()
			epoch := o.claimAll(agents...)
			synctest.Wait()
			for i := range 12 {
				for k, agent := range agents {
					d := dispatch(string(rune('a'+i)) + agent)
					d.Epoch, d.Task.ID, d.Task.Session = epoch, d.Hold, string(rune('a'+i))
					if d.Model = agent; k == 0 {
						d.Model = "tiny"
					}
					r, err := bustest.Hand(t.Context(), o.hub, "math", agent, o.under(agent, d), nil)
					if err != nil || r.Code != "" {
						t.Fatal(r, err)
					}
					pass(200 * time.Millisecond)
				}
			}
			loads, models := 0, map[string]int{}
			for _, r := range o.engine.asked {
				if r.MaxTokens == 1 && string(r.Body) == `{"prompt":"."}` {
					loads++
					models[r.Model]++
				}
			}
			counted := int64(0)
			for _, a := range o.server.Stats().Agents {
				if counted += a.Loads; a.InFlight != 0 || a.Done != 12 {
					t.Errorf("%s: %d tasks run, %d are done", a.Agent, a.InFlight, a.Done)
				}
			}
			if len(o.done()) != 36 || (loads > 15) != (name != "") || int64(loads) != counted {
				t.Errorf("policy %q: %d completions, %d tokens asked for adapters, %v, %d counted", name,
					len(o.done()), loads, models, counted)
			}
			o.close()
		})
	}
}

// An agent whose adapter the engine does not find waits for it, with the reason in its state, and is not
// offered. The others of its engine have theirs loaded as if it were not there, also where it is the first.
func TestOneMissingAdapterKeepsNoOtherFromTheirs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agents := []string{"lost", "law", "tax", "art"}
		o := newTown(t, func(c *agentd.Config) {
			c.Policies = policy.Params{Adapter: "next"}
			a := c.Agents[0]
			c.Agents = nil
			for _, id := range agents {
				a.ID, a.Model, a.Engine.Adapters = id, id, 1
				c.Agents = append(c.Agents, a)
			}
		})
		o.engine.set(func() { o.engine.info.Models = []string{"law", "tax", "art"} })
		pass(10 * time.Second)
		epoch := o.claimAll(agents[1:]...)
		synctest.Wait()
		for i := range 12 {
			for _, agent := range agents[1:] {
				d := dispatch(string(rune('a'+i)) + agent)
				d.Epoch, d.Task.ID, d.Task.Session, d.Model = epoch, d.Hold, string(rune('a'+i)), agent
				r, err := bustest.Hand(t.Context(), o.hub, "math", agent, o.under(agent, d), nil)
				if err != nil || r.Code != "" {
					t.Fatal(r, err)
				}
				pass(200 * time.Millisecond)
			}
		}
		loads := int64(0)
		for _, a := range o.server.Stats().Agents[1:] {
			loads += a.Loads
		}
		if loads <= 15 {
			t.Errorf("%d adapters were loaded before their tasks came", loads)
		}
		if s := o.server.Stats().Agents[0]; s.State != "booting" || !strings.Contains(s.Why, `not "lost"`) {
			t.Errorf("of the agent whose adapter is missing is said: %s, %q", s.State, s.Why)
		}
		o.close()
	})
}

// One adapter is loaded at a time, none where the engine has no sequence free; what is not done is counted.
func TestEffectsOfAnAgentAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newTown(t, func(c *agentd.Config) {
			c.Policies, c.Agents[0].Engine.Adapters = policy.Params{Adapter: "next"}, 1
		})
		<-o.server.Ready()
		o.engine.set(func() { o.engine.acts = []act{speak(time.Second, "so")} })
		d := dispatch("h")
		d.Epoch = o.claim()
		synctest.Wait()
		a, load := o.server.agents[0], runtimepolicy.Effect{Kind: runtimepolicy.Load,
			Agent: runtimepolicy.IDOf("a1")}
		for range 3 {
			a.do(&load)
		}
		synctest.Wait()
		if n := len(o.engine.asked); n != 1 {
			t.Errorf("%d at a time", n)
		}
		a.do(&runtimepolicy.Effect{Kind: runtimepolicy.KeepAlive, Agent: load.Agent})
		pass(2 * time.Second)
		a.do(&load)
		pass(2 * time.Second)
		if s := a.stats(); s.Loads != 2 || s.LoadsUndone != 3 {
			t.Errorf("%d done, %d undone, want 2 and 3", s.Loads, s.LoadsUndone)
		}
		for _, id := range []string{"x", "y"} { // all slots
			x := *d
			x.Hold, x.Task.ID = id, id
			o.dispatch(&x)
		}
		a.do(&load)
		if s := a.stats(); s.LoadsUndone != 4 || s.InFlight != 2 {
			t.Errorf("%d undone where all slots are taken, %d in flight", s.LoadsUndone, s.InFlight)
		}
		pass(3 * time.Second)
		o.close()
	})
}

// An agent that leaves does not wait for an adapter that its engine loads for long.
func TestALoadDoesNotKeepWhoLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newTown(t, func(c *agentd.Config) {
			c.Policies, c.Agents[0].Engine.Adapters = policy.Params{Adapter: "next"}, 1
		})
		<-o.server.Ready()
		o.claim()
		synctest.Wait()
		o.engine.set(func() {
			never := func(ctx context.Context, _ func(agentd.Chunk) error) (agentd.Answer, error) {
				<-ctx.Done()
				return agentd.Answer{}, context.Cause(ctx)
			}
			o.engine.acts = []act{never}
		})
		a := o.server.agents[0]
		a.do(&runtimepolicy.Effect{Kind: runtimepolicy.Load, Agent: runtimepolicy.IDOf("a1")})
		synctest.Wait()
		began := time.Now()
		if o.close(); time.Since(began) > 2*time.Second {
			t.Errorf("it left after %v", time.Since(began))
		}
		if s := a.stats(); s.Loads != 0 || s.LoadsUndone != 1 || s.InFlight != 0 {
			t.Errorf("%d loads, %d undone, %d in flight", s.Loads, s.LoadsUndone, s.InFlight)
		}
	})
}

// claimAll elects a hub and gives it agents.
func (o *town) claimAll(agents ...string) int64 {
	o.t.Helper()
	ctx := context.Background()
	lead, err := o.reg.Elect(ctx, bus.HubKey("math"), []byte(`{}`), 10*time.Second)
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { lead.Close(ctx) })
	for _, agent := range agents {
		value, _ := bus.EncodeEntry(&bus.Claim{Agent: agent, Domain: "math", Hub: "h1", Epoch: lead.Epoch()})
		if _, err := lead.Claim(ctx, bus.ClaimKey(agent), value); err != nil {
			o.t.Fatal(err)
		}
	}
	return lead.Epoch()
}

// An engine that cannot load an adapter is not asked for it at every event: after a second at first, then
// after twice as long as before, at most a minute, until it can again.
func TestALoadThatFailsIsNotAskedForAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newTown(t, func(c *agentd.Config) {
			c.Policies, c.Agents[0].Engine.Adapters = policy.Params{Adapter: "next"}, 1
		})
		<-o.server.Ready()
		o.claim()
		synctest.Wait()
		fails := func(context.Context, func(agentd.Chunk) error) (agentd.Answer, error) {
			return agentd.Answer{}, errors.New("404: there is no such adapter")
		}
		o.engine.set(func() { o.engine.acts = []act{fails} })
		a := o.server.agents[0]
		asked := func(since time.Duration) (n int) {
			o.engine.set(func() { n = -len(o.engine.asked) })
			for range since / (50 * time.Millisecond) {
				a.do(&runtimepolicy.Effect{Kind: runtimepolicy.Load, Agent: runtimepolicy.IDOf("a1")})
				pass(50 * time.Millisecond)
			}
			o.engine.set(func() { n += len(o.engine.asked) })
			return n
		}
		if n := asked(16 * time.Second); n < 3 || n > 5 { // after 1, 3, 7 and 15 s
			t.Errorf("it was asked %d times in 16 s, all of which failed", n)
		}
		if n := asked(10 * time.Minute); n < 9 || n > 12 {
			t.Errorf("it was asked %d times in ten minutes more", n)
		}
		o.engine.set(func() { o.engine.acts = []act{speak(time.Millisecond, "so")} })
		if asked(time.Minute); a.stats().Loads < 1 {
			t.Error("it is well again, and was not asked within a minute")
		}
		if n := asked(time.Second); n < 5 {
			t.Errorf("it is well again, and was asked %d times in a second", n)
		}
		o.close()
	})
}
