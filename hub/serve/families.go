package serve

import (
	"cmp"
	"strings"

	"souk/bus"
	"souk/bus/metrics"
	"souk/hub"
	"souk/hub/report"
	"souk/ledger"
	"souk/market"
)

// What an operator sees of a hub; label hub is its domain.
var (
	families = metrics.Set{Labels: []string{"hub"}}

	hubLeading = families.Gauge("souk_hub_leading", "1 where the process leads its domain, else 0: it stands by, or "+
		"nobody leads.")
	hubFaults = families.Counter("souk_hub_faults_total", "What must not happen and did: a fault of the hub's own.")

	hubTasks     = families.Counter("souk_hub_tasks_total", "Last words to tasks, by outcome: ok is served.", "code")
	hubOpenTasks = families.Gauge("souk_hub_open_tasks", "Tasks in hand: waiting for a slot or money, or held, with an "+
		"agent.", "state")
	hubWaitSeconds = families.Seconds("souk_hub_wait_seconds", "From a task's arrival until it was dispatched, of all "+
		"that were: its time in the queue.", waits)
	hubDecisionSeconds = families.Seconds("souk_hub_decision_seconds", "The same, of tasks that found slot and money "+
		"free: the hub's own time.", quick)

	hubRounds  = families.Counter("souk_hub_rounds_total", "Rounds that were cleared.")
	hubStopped = families.Counter("souk_hub_rounds_stopped_total", "Rounds that were cleared at posted prices, as "+
		"their solve took too long.")
	hubAwards       = families.Counter("souk_hub_awards_total", "Tasks that rounds gave a slot.")
	hubRoundSeconds = families.Seconds("souk_hub_round_seconds", "Time that a round takes: quotes, clearing, check and "+
		"records.", quick)
	hubQuotes       = families.Counter("souk_hub_quotes_total", "Quotes given, ok, and refused, by the reason.", "code")
	hubQuoteSeconds = families.Seconds("souk_hub_quote_seconds", "Time that a quote takes, for which a round may wait.",
		quick)

	hubAgents = families.Gauge("souk_hub_agents", "Agents whose slots the hub sells, by state: open, or why one is "+
		"given nothing: silent, dead, draining, not_ready, sells_nothing, left_alone.", "model", "state")
	hubSlots = families.Gauge("souk_hub_slots", "Their slots: free, or held.", "model", "state")
	hubPrice = families.Gauge("souk_hub_slot_second_credits", "Price of a second of a slot now, in credits: the mean over "+
		"the model's agents. 0: nobody else wants it.", "model")
	hubServed = families.Counter("souk_hub_served_total", "Tasks that were served and charged.", "model")
	hubTokens = families.Counter("souk_hub_tokens_total", "Tokens charged: prompt, those of it from cache, output.",
		"model", "kind")
	hubCost = families.Counter("souk_hub_cost_credits_total", "Credits due to agents for tasks, by their price cards.",
		"model")
	hubPremium = families.Counter("souk_hub_premium_credits_total", "Credits paid beside the cost, the flat fee included.",
		"model")
	hubVoids  = families.Counter("souk_hub_voids_total", "Holds that ended without payment, by the reason.", "code")
	hubFailed = families.Counter("souk_hub_agent_failures_total", "What agents did not do as they should: refused, "+
		"unanswered, failed, expired, dead (nobody listened any more), differing (a claim that the rule does not bear "+
		"out).", "kind")
	hubMoved = families.Counter("souk_hub_moved_total", "Tasks that another agent got: as theirs failed before anything "+
		"was delivered, or as its first token was late (hedged).", "why")
	hubBalance = families.Gauge("souk_hub_credits", "Credits in the hub's book: available to clients' tasks and held for "+
		"them, payable to agents, surplus of premiums, flat fees.", "account")

	hubRegime = families.Gauge("souk_hub_saturation_state", "Regime of the domain: 0 below the knee, 1 in transition, 2 "+
		"saturated.")
	hubTemperature = families.Gauge("souk_hub_router_temperature", "Temperature by which agents are drawn; 0: the best is "+
		"taken.")
	hubRho = families.Gauge("souk_hub_rho", "Tokens of tasks that run and wait, by those that the agents' caches have "+
		"room for.")
	hubSlowdown    = families.Gauge("souk_hub_slowdown", "Times to first tokens by what idle agents take, the mean of late.")
	hubPoliciesOff = families.Gauge("souk_hub_policies_off", "Runtime policies that are off for a while.")

	hubRejected = families.Counter("souk_hub_rejected_total", "Messages that meant nothing to the hub.")
	hubDropped  = families.Counter("souk_hub_dropped_total", "Messages that found its queue full.")
)

// Upper bounds of histograms, in seconds: of the hub's own work, and of what tasks wait.
var (
	quick = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .1, .5}
	waits = []float64{.001, .005, .02, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
)

// observe has a collector read what the hub counts.
func (s *Server) observe() {
	families.Observe(s.deps.Meter, func(say metrics.Say) {
		var sums ledger.Totals
		s.with(func(n *hub.Node) { sums = n.Book().Totals() })
		sayAll(say, s.Leading(), s.Stats(), sums)
	}, s.cfg.Domain)
}

func sayAll(say metrics.Say, leads bool, st Stats, sums ledger.Totals) {
	count := func(f *metrics.Family, n int64, labels ...string) { say(f, float64(n), labels...) }
	codes := func(f *metrics.Family, of map[bus.Code]int64) {
		for code, n := range of {
			count(f, n, metrics.Code(code))
		}
	}
	credits := func(f *metrics.Family, c market.Credits, labels ...string) {
		say(f, metrics.Credits(c), labels...)
	}

	say(hubLeading, metrics.Bool(leads))
	count(hubFaults, st.Faults)
	count(hubTasks, 0, metrics.Code(""))
	codes(hubTasks, st.Tasks)
	say(hubOpenTasks, float64(st.Open-st.Holds), "waiting")
	say(hubOpenTasks, float64(st.Holds), "held")
	count(hubRounds, st.Stats.Rounds)
	count(hubStopped, st.Stopped)
	count(hubAwards, st.Awards)
	codes(hubQuotes, st.Quotes)
	for _, m := range st.Models {
		count(hubServed, m.Tasks, m.Model)
		say(hubTokens, float64(m.Usage.Prompt), m.Model, "prompt")
		say(hubTokens, float64(m.Usage.Cached), m.Model, "cached")
		say(hubTokens, float64(m.Usage.Output), m.Model, "output")
		credits(hubCost, m.Cost, m.Model)
		credits(hubPremium, m.Premium, m.Model)
	}
	codes(hubVoids, st.Voids)
	sayAgents(say, st.Agents)
	count(hubMoved, st.Moved-st.Hedged, "failed")
	count(hubMoved, st.Hedged, "hedged")
	credits(hubBalance, sums.Avail, "available")
	credits(hubBalance, sums.Held, "held")
	credits(hubBalance, sums.Payable, "payable")
	credits(hubBalance, sums.Surplus, "surplus")
	credits(hubBalance, sums.Fee, "fee")

	say(hubRegime, float64(st.Regime.Level))
	say(hubTemperature, st.Regime.Temperature)
	say(hubRho, st.Regime.Rho)
	say(hubSlowdown, st.Regime.Slowdown)
	off := 0
	for _, p := range st.Policies {
		if p.Why != "" {
			off++
		}
	}
	say(hubPoliciesOff, float64(off))
	count(hubRejected, st.Rejected)
	count(hubDropped, st.Dropped)
}

// sayAgents says what the agents have now, by model, and what they did not do as they should.
func sayAgents(say metrics.Say, all []report.AgentStats) {
	type sum struct {
		seconds market.Credits
		n       int64
	}
	prices := map[string]sum{}
	for _, a := range all {
		say(hubFailed, float64(a.Refused), "refused")
		say(hubFailed, float64(a.Unanswered), "unanswered")
		say(hubFailed, float64(a.Failed), "failed")
		say(hubFailed, float64(a.Expired), "expired")
		say(hubFailed, float64(a.Dead), "dead")
		say(hubFailed, float64(a.Differing), "differing")
		if a.State == "gone" || a.Agent == "" {
			continue
		}
		say(hubAgents, 1, a.Model, cmp.Or(strings.ReplaceAll(a.State, " ", "_"), "open"))
		say(hubSlots, float64(a.Free), a.Model, "free")
		say(hubSlots, float64(a.Running), a.Model, "held")
		p := prices[a.Model]
		prices[a.Model] = sum{p.seconds + a.Second, p.n + 1}
	}
	for model, p := range prices {
		say(hubPrice, metrics.Credits(p.seconds/market.Credits(p.n)), model)
	}
}
