package serve

import (
	"souk/agentd"
	"souk/bus"
	"souk/bus/metrics"
)

// what an operator sees of a node's agents; each has one model
var (
	families metrics.Set

	agentdState = families.Gauge("souk_agentd_state", "Always 1: label state says how the agent is: ready, draining, "+
		"unhealthy (its engine is), or booting.", "agent", "model", "state")
	agentdSlots = families.Gauge("souk_agentd_slots", "Slots: free, or held by a task.", "agent", "model", "state")
	agentdSold  = families.Gauge("souk_agentd_claimed", "1 where a hub sells the agent's slots, else 0.", "agent",
		"model")
	agentdAccepted = families.Counter("souk_agentd_dispatches_total", "Dispatches of hubs: accepted, ok, or refused, by "+
		"the reason.", "agent", "model", "code")
	agentdAnswers = families.Counter("souk_agentd_answers_total", "Answers that ended: ok, cancelled by their client, or "+
		"failed, by the reason.", "agent", "model", "code")
	agentdFirst = families.Seconds("souk_agentd_first_token_seconds", "From a dispatch until the engine's first token.",
		[]float64{.02, .05, .1, .25, .5, 1, 2.5, 10}, "agent", "model")
	agentdInter = families.Seconds("souk_agentd_inter_token_seconds", "Between tokens of the engine, the mean of an answer.",
		[]float64{.01, .02, .03, .05, .1, .2, .5}, "agent", "model")
	agentdTokens = families.Counter("souk_agentd_tokens_total", "Tokens of answers: prompt, those of it from cache, "+
		"output.", "agent", "model", "kind")
	agentdEarned = families.Counter("souk_agentd_earned_credits_total", "Costs claimed of hubs, acknowledged or not, in "+
		"credits.", "agent", "model")
	agentdPending = families.Gauge("souk_agentd_unacknowledged", "Completions that no hub has acknowledged yet.", "agent",
		"model")
	agentdLost = families.Counter("souk_agentd_unpaid_total", "Answers that nobody pays: late (the hold had ended), moved "+
		"(another agent served it), abandoned (never acknowledged).", "agent", "model", "why")
	agentdUnmetered = families.Counter("souk_agentd_unmetered_total", "Answers without the engine's usage.", "agent",
		"model")
	agentdDiffers = families.Counter("souk_agentd_usage_differs_total", "Answers whose engine's usage was not what their "+
		"token ids say.", "agent", "model")
	agentdCaught = families.Counter("souk_agentd_answers_caught_total", "Answers of all agents that held what a "+
		"policy looks for.")
	agentdPoliciesOff = families.Gauge("souk_agentd_policies_off", "Runtime policies of all agents that are off "+
		"for a while.")
	agentdBlocks = families.Gauge("souk_agentd_cache_blocks", "Blocks that the engine's cache is known to hold.", "agent",
		"model")
)

const booting = "booting" // the engine is not ready yet

// observe has a collector read what the node's agents count.
func (s *Server) observe() {
	s.first = families.Recorder(s.deps.Meter, agentdFirst)
	s.inter = families.Recorder(s.deps.Meter, agentdInter)
	families.Observe(s.deps.Meter, func(say metrics.Say) {
		for _, a := range s.Stats().Agents {
			one(say, &a)
		}
	})
}

func one(say metrics.Say, a *agentd.AgentStats) {
	count := func(f *metrics.Family, n int64, more ...string) {
		say(f, float64(n), append([]string{a.Agent, a.Model}, more...)...)
	}
	say(agentdState, 1, a.Agent, a.Model, a.State)
	count(agentdSlots, int64(max(0, a.Slots-a.InFlight)), "free")
	count(agentdSlots, int64(a.InFlight), "held")
	say(agentdSold, metrics.Bool(a.Domain != ""), a.Agent, a.Model)
	count(agentdAccepted, a.Accepted, metrics.Code(""))
	for code, n := range a.Refused {
		count(agentdAccepted, n, metrics.Code(code))
	}
	count(agentdAnswers, a.Done, metrics.Code(""))
	count(agentdAnswers, a.Cancelled, metrics.Code(bus.CodeCancelled))
	for code, n := range a.Failed {
		count(agentdAnswers, n, metrics.Code(code))
	}
	count(agentdTokens, a.Prompt, "prompt")
	count(agentdTokens, a.Cached, "cached")
	count(agentdTokens, a.Output, "output")
	say(agentdEarned, metrics.Credits(a.Earned), a.Agent, a.Model)
	count(agentdPending, int64(a.Pending))
	count(agentdLost, a.Late, "late")
	count(agentdLost, a.Moved, "moved")
	count(agentdLost, a.Abandoned, "abandoned")
	count(agentdUnmetered, a.Unmetered)
	count(agentdDiffers, a.Differs)
	caught, off := int64(0), 0
	for _, n := range a.Caught {
		caught += n
	}
	for _, p := range a.Policies {
		if p.Why != "" {
			off++
		}
	}
	say(agentdCaught, float64(caught))
	say(agentdPoliciesOff, float64(off))
	count(agentdBlocks, int64(a.Cache.Blocks))
}
