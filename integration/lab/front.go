package main

import "souk/integration/lab/compare"

// entries are the pages of results, as the front page lists them.
var entries = []compare.Entry{
	{Name: "gpus", About: "what GPUs cost an hour that keep first tokens and gaps in time, under each rule",
		Command: "`lab experiment gpus`", Gives: true},
	{Name: "crowd", About: "the market beside every rule where slots are short; fleets, terms, callers, cache groups",
		Command: "`lab crowd`", Standings: true},
	{Name: "cliff", About: "the same where open sessions need more than the caches hold", Command: "`lab cliff`",
		Standings: true},
	{Name: "frontier", About: "welfare against first tokens, each rule over its own knob, from a third of what " +
		"engines can serve to a quarter above it", Command: "`lab frontier`", Standings: true},
	{Name: "games", About: "the experiments of the paper on the price of anarchy, its router, and every rule",
		Command: "`lab games`"},
	{Name: "forecast", About: "what a hub expects of its agents, beside what came", Command: "`lab forecast`"},
	{Name: "cachesage", About: "which blocks of agents' prompts an engine should keep", Command: "`lab cachesage`"},
	{Name: "routers", About: "routers that learn, beside the best single model, and as rivals", Command: "`lab routers`"},
	{Name: "policies", About: "runtime policies, on against off, beside the simpler rule",
		Command: "`lab policies`"},
	{Name: "economics", About: "the market as a game: lies, settlement, pricings, clusters",
		Command: "`lab economics`"},
	{Name: "hints", About: "what a client gains that lies in one of its hints", Command: "`lab hints`"},
	{Name: "ahead", About: "answers computed ahead where templates drop reasoning", Command: "`lab ahead`"},
	{Name: "iemas", About: "the market paper's tables and figures, made again: its router and this market",
		Command: "`lab experiment iemas`"},
	{Name: "truth", About: "what lies cost, the market's pricings beside rules that believe what they are told",
		Command: "`lab experiment truth`"},
	{Name: "papers", About: "every router, table and figure of the three papers, theirs beside ours, and what held",
		Command: "`lab experiment papers`"},
	{Name: "thousand", About: "a thousand engines: one market, several hubs, rules; rounds and records",
		Command: "`lab experiment thousand`", Clock: true},
	{Name: "hedge", About: "a task whose engine falls silent", Command: "`lab hedge`", Clock: true},
	{Name: "clock", About: "the market and rules over HTTP, beside virtual time", Command: "`lab crowd --real`",
		Clock: true},
	{Name: "bench", About: "what the market costs, and where the time goes", Command: "`make bench`", Clock: true},
	{Name: "load", About: "a market under load", Command: "named there", Clock: true},
	{Name: "fit", About: "stand-ins of running vLLM servers, and how far off they are", Command: "`lab fit --vllm`",
		Clock: true},
	{Name: "servers", About: "the market and rules on running vLLM servers, on a CPU",
		Command: "`lab crowd --real --vllm`", Clock: true},
	{Name: "engines", About: "belief at real vLLM servers, on a CPU", Command: "a test, named there", Clock: true},
}

// front makes the front page of a directory anew.
func front(dir string) error {
	p, err := compare.Front(dir, entries)
	if err != nil {
		return err
	}
	return p.Write(dir)
}
