package grafana

// rate is a rate by some labels, over the interval that Grafana chooses.
func rate(metric, by string) string {
	if by == "" {
		return "sum(rate(" + metric + "[$__rate_interval]))"
	}
	return "sum by (" + by + ") (rate(" + metric + "[$__rate_interval]))"
}

// quantiles shows the median and the 99th percentile of a histogram, by a label.
func quantiles(metric, filter, by string) []Line {
	var all []Line
	for _, q := range []struct{ name, of string }{{"p50", "0.5"}, {"p99", "0.99"}} {
		labels, name := "le", q.name
		if by != "" {
			labels, name = "le, "+by, q.name+" {{"+by+"}}"
		}
		by := rate(metric+"_bucket"+filter, labels)
		all = append(all, Line{name, "histogram_quantile(" + q.of + ", " + by + ")"})
	}
	return all
}

const (
	ofHub   = `{hub=~"$hub"}`
	ofAgent = `{agent=~"$agent"}`
)

// Dashboards returns those of a market, the overview first.
func Dashboards() []Dashboard { return []Dashboard{overview(), hubs(), nodes(), gateways(), money()} }

func overview() Dashboard {
	return Dashboard{Name: "market", Title: "Souk: market",
		Text: "Is the market well, how much does it serve, and what do clients get.",
		Rows: []Row{
			{"Now", []Panel{
				{"Domains led", "Hubs that lead; one for each domain.", Number, Plain,
					[]Line{{"", "sum(souk_hub_leading)"}}},
				{"Treasury", "1: one leads.", Number, Plain, []Line{{"", "sum(souk_treasury_leading)"}}},
				{"Not ready", "Processes whose /readyz says no.", Number, Plain,
					[]Line{{"", "count(souk_ready == 0) or vector(0)"}}},
				{"Agents open", "Agents that tasks are given to.", Number, Plain,
					[]Line{{"", `sum(souk_hub_agents{state="open"})`}}},
				{"Slots free", "Of all slots that are sold.", Number, Share,
					[]Line{{"", `sum(souk_hub_slots{state="free"}) / sum(souk_hub_slots)`}}},
				{"Failed", "Answers that fail for a reason that is not their client's.", Number, Share,
					[]Line{{"", "souk_gateway_answers:failed_share or vector(0)"}}},
			}},
			{"What clients get", []Panel{
				{"Answers", "Answers a second, by outcome.", Lines, PerSecond,
					[]Line{{"{{code}}", rate("souk_gateway_answers_total", "code")}}},
				{"First token", "From a request until the first token of its answer.", Lines, Seconds,
					quantiles("souk_gateway_first_token_seconds", "", "")},
				{"Inter-token", "Between tokens of a stream.", Lines, Seconds,
					quantiles("souk_gateway_inter_token_seconds", "", "")},
			}},
			{"What it takes", []Panel{
				{"Slots", "Held and free, by domain.", Lines, Plain,
					[]Line{{"{{hub}} {{state}}", "sum by (hub, state) (souk_hub_slots)"}}},
				{"Tokens", "A second, of answers: prompt, of it from cache, output.", Lines, PerSecond,
					[]Line{{"{{kind}}", rate("souk_hub_tokens_total", "kind")}}},
				{"Bills beside the card", "1: clients pay the price card alone; beyond, what slots are worth to others.",
					Lines, Plain, []Line{{"{{hub}}", "hub:souk_hub_bill:of_card"}}},
			}},
			{"Processes", []Panel{
				{"Versions", "What runs, and of which version.", Table, Plain,
					[]Line{{"", "sum by (part, version, instance) (souk_build_info)"}}},
				{"Connections", "0: cut off from NATS or etcd.", Table, Plain,
					[]Line{{"", "min by (instance, to) (souk_connected)"}}},
			}},
		}}
}

func hubs() Dashboard {
	return Dashboard{Name: "hub", Title: "Souk: hub", Text: "Rounds of a domain: who waits, how long, and for what.",
		Filters: []Filter{{"hub", "souk_hub_leading"}},
		Rows: []Row{
			{"Tasks", []Panel{
				{"Tasks", "Last words a second, by outcome.", Lines, PerSecond,
					[]Line{{"{{hub}} {{code}}", rate("souk_hub_tasks_total"+ofHub, "hub, code")}}},
				{"In hand", "Tasks that wait, and that agents have.", Lines, Plain,
					[]Line{{"{{hub}} {{state}}", "sum by (hub, state) (souk_hub_open_tasks" + ofHub + ")"}}},
				{"Queue wait", "From arrival until dispatch.", Lines, Seconds,
					quantiles("souk_hub_wait_seconds", ofHub, "hub")},
				{"Failures of agents", "A second, by kind.", Lines, PerSecond,
					[]Line{{"{{kind}}", rate("souk_hub_agent_failures_total"+ofHub, "kind")}}},
				{"Moved", "Tasks that another agent got: failed, or hedged.", Lines, PerSecond,
					[]Line{{"{{why}}", rate("souk_hub_moved_total"+ofHub, "why")}}},
				{"Voids", "Holds that ended without payment, by reason.", Lines, PerSecond,
					[]Line{{"{{code}}", rate("souk_hub_voids_total"+ofHub, "code")}}},
			}},
			{"Rounds", []Panel{
				{"Rounds", "A second, and tasks that they gave a slot.", Lines, PerSecond,
					[]Line{{"rounds {{hub}}", rate("souk_hub_rounds_total"+ofHub, "hub")},
						{"awards {{hub}}", rate("souk_hub_awards_total"+ofHub, "hub")}}},
				{"Time of a round", "Quotes, clearing, check and records.", Lines, Seconds,
					quantiles("souk_hub_round_seconds", ofHub, "hub")},
				{"Cleared at posted prices", "Rounds a second whose solve took too long.", Lines, PerSecond,
					[]Line{{"{{hub}}", rate("souk_hub_rounds_stopped_total"+ofHub, "hub")}}},
			}},
			{"Models", []Panel{
				{"Slots", "By model and state.", Lines, Plain,
					[]Line{{"{{model}} {{state}}", "sum by (model, state) (souk_hub_slots" + ofHub + ")"}}},
				{"Price of a slot's second", "In credits: 0 where nobody else wants it.", Lines, Plain,
					[]Line{{"{{model}}", "max by (model) (souk_hub_slot_second_credits" + ofHub + ")"}}},
				{"From cache", "Share of prompt tokens.", Lines, Share,
					[]Line{{"{{hub}}", "hub:souk_hub_tokens:cached_share" + ofHub}}},
			}},
			{"Saturation", []Panel{
				{"Regime", "0 below the knee, 1 in transition, 2 saturated.", Lines, Plain,
					[]Line{{"{{hub}}", "souk_hub_saturation_state" + ofHub}}},
				{"Slowdown", "First tokens by what idle agents take.", Lines, Plain,
					[]Line{{"{{hub}}", "souk_hub_slowdown" + ofHub}}},
				{"Faults", "What must not happen, and did.", Lines, Plain,
					[]Line{{"{{hub}}", "souk_hub_faults_total" + ofHub}}},
			}},
		}}
}

func nodes() Dashboard {
	return Dashboard{Name: "node", Title: "Souk: node", Text: "Agents of GPU nodes and their engines.",
		Filters: []Filter{{"agent", "souk_agentd_slots"}},
		Rows: []Row{
			{"Agents", []Panel{
				{"State", "Of each agent.", Table, Plain,
					[]Line{{"", "max by (agent, model, state) (souk_agentd_state" + ofAgent + ")"}}},
				{"Sold", "0: no hub sells its slots.", Table, Plain,
					[]Line{{"", "max by (agent, model) (souk_agentd_claimed" + ofAgent + ")"}}},
				{"Slots held", "Share of its slots.", Lines, Share, []Line{{"{{agent}}",
					`sum by (agent) (souk_agentd_slots{agent=~"$agent",state="held"}) / ` +
						`sum by (agent) (souk_agentd_slots{agent=~"$agent"})`}}},
				{"Answers", "A second, by outcome.", Lines, PerSecond,
					[]Line{{"{{agent}} {{code}}", rate("souk_agentd_answers_total"+ofAgent, "agent, code")}}},
				{"Unpaid", "Answers served that nobody pays.", Lines, PerSecond,
					[]Line{{"{{agent}} {{why}}", rate("souk_agentd_unpaid_total"+ofAgent, "agent, why")}}},
			}},
			{"Engines", []Panel{
				{"First token", "From a dispatch until the engine's first token.", Lines, Seconds,
					quantiles("souk_agentd_first_token_seconds", ofAgent, "agent")},
				{"Inter-token", "Mean of an answer.", Lines, Seconds,
					quantiles("souk_agentd_inter_token_seconds", ofAgent, "agent")},
				{"Tokens", "A second.", Lines, PerSecond,
					[]Line{{"{{agent}} {{kind}}", rate("souk_agentd_tokens_total"+ofAgent, "agent, kind")}}},
				{"Cache", "Blocks that the engine is known to hold.", Lines, Plain,
					[]Line{{"{{agent}}", "souk_agentd_cache_blocks" + ofAgent}}},
				{"Usage that differs", "Answers whose engine billed other tokens than it sent.", Lines, PerSecond,
					[]Line{{"{{agent}}", rate("souk_agentd_usage_differs_total"+ofAgent, "agent")}}},
			}},
			{"Earned", []Panel{
				{"Credits an hour", "Costs claimed of hubs.", Lines, Plain, []Line{{"{{agent}}",
					"3600 * " + rate("souk_agentd_earned_credits_total"+ofAgent, "agent")}}},
				{"Not acknowledged", "Completions that no hub has acknowledged yet.", Lines, Plain,
					[]Line{{"{{agent}}", "sum by (agent) (souk_agentd_unacknowledged" + ofAgent + ")"}}},
			}},
		}}
}

func gateways() Dashboard {
	return Dashboard{Name: "gateway", Title: "Souk: gateway", Text: "HTTP, and the doors behind it.",
		Filters: []Filter{{"model", "souk_gateway_first_token_seconds_count"}},
		Rows: []Row{
			{"Answers", []Panel{
				{"Requests", "A second, by endpoint and outcome.", Lines, PerSecond,
					[]Line{{"{{route}} {{code}}", rate("souk_gateway_requests_total", "route, code")}}},
				{"Answers", "A second, by outcome.", Lines, PerSecond,
					[]Line{{"{{code}}", rate("souk_gateway_answers_total", "code")}}},
				{"Models", "Answers a second that had a first token.", Lines, PerSecond,
					[]Line{{"{{model}}", rate(`souk_gateway_first_token_seconds_count{model=~"$model"}`, "model")}}},
				{"First token", "By model.", Lines, Seconds,
					quantiles("souk_gateway_first_token_seconds", `{model=~"$model"}`, "model")},
				{"Inter-token", "Between tokens of a stream.", Lines, Seconds,
					quantiles("souk_gateway_inter_token_seconds", "", "")},
				{"Whole answers", "From a request until the end of its answer.", Lines, Seconds,
					quantiles("souk_gateway_answer_seconds", "", "")},
				{"Left", "Answers whose client left before their end.", Lines, PerSecond,
					[]Line{{"left", rate("souk_gateway_left_total", "")}}},
			}},
			{"Load", []Panel{
				{"Open", "Answers that are open, and connections.", Lines, Plain,
					[]Line{{"answers", "sum(souk_gateway_open_answers)"},
						{"connections", "sum(souk_gateway_connections)"}}},
				{"Memory", "Of requests and answers, beside the limit.", Lines, Bytes,
					[]Line{{"{{instance}}", "souk_gateway_memory_bytes"}, {"limit", "min(souk_gateway_memory_limit_bytes)"}}},
				{"Bytes", "A second.", Lines, Rate,
					[]Line{{"{{way}}", rate("souk_gateway_bytes_total", "way")}}},
			}},
			{"Doors", []Panel{
				{"Tasks", "A second, by outcome.", Lines, PerSecond,
					[]Line{{"{{code}}", rate("souk_door_tasks_total", "code")}}},
				{"Placed", "A second, by hub.", Lines, PerSecond,
					[]Line{{"{{hub}}", rate("souk_door_placed_total", "hub")}}},
				{"Time to place", "The wait for a slot is in it.", Lines, Seconds,
					quantiles("souk_door_place_seconds", "", "")},
				{"Labels", "What the classifier says, a second.", Lines, PerSecond,
					[]Line{{"{{label}}", rate("souk_door_labelled_total", "label")}}},
			}},
		}}
}

func money() Dashboard {
	return Dashboard{Name: "money", Title: "Souk: money", Text: "What clients pay, who earns it, and that it is written down.",
		Filters: []Filter{{"hub", "souk_hub_leading"}},
		Rows: []Row{
			{"Flow", []Panel{
				{"Cost an hour", "Credits due to agents, by model.", Lines, Plain, []Line{{"{{model}}",
					"3600 * " + rate("souk_hub_cost_credits_total"+ofHub, "model")}}},
				{"Premiums an hour", "Credits paid beside the cost, by model.", Lines, Plain, []Line{{"{{model}}",
					"3600 * " + rate("souk_hub_premium_credits_total"+ofHub, "model")}}},
				{"Bills beside the card", "1: the price card alone.", Lines, Plain,
					[]Line{{"{{hub}}", "hub:souk_hub_bill:of_card" + ofHub}}},
			}},
			{"Balances", []Panel{
				{"At hubs", "Credits by account.", Lines, Plain,
					[]Line{{"{{hub}} {{account}}", "sum by (hub, account) (souk_hub_credits" + ofHub + ")"}}},
				{"At the treasury", "Prepaid, and with hubs.", Lines, Plain,
					[]Line{{"{{account}}", "sum by (account) (souk_treasury_credits)"}}},
				{"Clients by balance", "Of those that the treasury knows.", Lines, Plain,
					[]Line{{"{{balance}}", "sum by (balance) (souk_treasury_clients)"}}},
			}},
			{"The record", []Panel{
				{"Sync", "Until frames are durable.", Lines, Seconds,
					quantiles("souk_journal_sync_seconds", "", "journal")},
				{"Written", "Bytes a second.", Lines, Rate,
					[]Line{{"{{journal}}", rate("souk_journal_bytes_total", "journal")}}},
				{"Disk free", "Beside what it needs.", Lines, Bytes,
					[]Line{{"{{journal}} free", "souk_journal_disk_free_bytes"},
						{"{{journal}} needed", "souk_journal_disk_needed_bytes"}}},
				{"Not cosigned", "For how long something signed has waited for witnesses.", Lines, Seconds,
					[]Line{{"{{journal}}", "souk_checkpoint_uncosigned_seconds"}}},
				{"Requests to the treasury", "A second, by what was asked and the outcome.", Lines, PerSecond,
					[]Line{{"{{op}} {{code}}", rate("souk_treasury_requests_total", "op, code")}}},
			}},
		}}
}
