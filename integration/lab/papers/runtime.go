package papers

import "slices"

// share refers to what a rule finds beyond lru on workloads, in points.
func share(rule string) []Ref {
	var all []Ref
	for _, w := range workloads {
		all = append(all, Ref{w, "cachesage", w, "over lru", rule, 0})
	}
	return all
}

// speed refers to what lru and a rule serve on workloads.
func speed(rule string) (all []Ref) {
	for _, w := range workloads {
		all = append(all, Ref{w + ": lru", "cachesage", w, "turns/s", "lru", 0},
			Ref{rule, "cachesage", w, "turns/s", rule, 0})
	}
	return all
}

var workloads = []string{"star-gsm8k", "star-humaneval", "star-hotpotqa", "star-coqa", "chain"}

// everywhere reports whether all numbers are at least so much.
func everywhere(least float64) func(x []float64) bool {
	return func(x []float64) bool { return slices.Min(x) >= least }
}

// faster reports whether every second number is at least so many times the one before.
func faster(times float64) func(x []float64) bool {
	return func(x []float64) bool {
		for pair := range slices.Chunk(x, 2) {
			if pair[1] < times*pair[0] {
				return false
			}
		}
		return true
	}
}

// lower reports whether so many numbers are at most so much.
func lower(count int, most float64) func(x []float64) bool {
	return func(x []float64) bool {
		return len(slices.DeleteFunc(slices.Clone(x), func(n float64) bool { return n > most })) >= count
	}
}

const (
	caches = "lab cachesage"
	logs   = "its logs are not published: the star is six roles on prompts of its kind, the chain twelve, at its numbers of blocks"
)

var runtimeClaims = []Claim{
	{Part: "Figs. 1 and 3", What: "drawings of the layer", Drawing: true},
	{Part: "Fig. 2",
		What:   "the share of prompts that sessions have in common, and how predictable the next agent is",
		Theirs: "0.34 to 0.52 of first prompts; 0.40 to 0.48",
		Why:    "logs of its five workloads are not published"},
	{Part: "Table 1: KV cache",
		What:    "`kvcache`: its rule finds 13 to 37 points more than the engine's (Fig. 4a)",
		Theirs:  "+13 to +37 points on five workloads",
		Ours:    share("paper"),
		Command: caches,
		Plot:    true,
		Held:    everywhere(13),
		Why:     logs},
	{Part: "Fig. 4a", What: "with prefetch, which it counts as found",
		Theirs:  "the same",
		Ours:    share("paper+prefetch"),
		Command: caches,
		Plot:    true,
		Held:    everywhere(13),
		Why:     "most of what is found then was computed ahead: column net of its page"},
	{Part: "Fig. 4a", What: "ours in its place",
		Theirs:  "-",
		Ours:    share("ours"),
		Command: caches,
		Plot:    true,
		Why:     "stock vLLM has no hook for a rule: a simulation of the cache alone"},
	{Part: "Fig. 4b", What: "latency a turn falls by 6 to 26 %",
		Theirs: "6 to 26 %",
		Why:    "the cache is simulated, not the engine: first tokens and prefill stand on [cachesage](cachesage.md)"},
	{Part: "Fig. 4c", What: "throughput rises by 6 to 14 %",
		Theirs:  "6 to 14 %",
		Ours:    speed("paper"),
		Command: caches,
		Held:    faster(1.06),
		Why:     "answers at 10 ms a token, no queue; " + logs},
	{Part: "Fig. 4a: Continuum", What: "pins for a time lose 9 to 23 points on three of four",
		Theirs:  "-9 to -23 points",
		Ours:    share("ttl-best"),
		Command: caches,
		Plot:    true,
		Held:    lower(3, -9),
		Why:     "here the best of six times, chosen afterwards"},
	{Part: "Table 1: tool-result memoization", What: "`memo`",
		Theirs: "an open challenge",
		Ours: labelled(cells("policies", "memo", "answered without the tool %", "none", "memo"),
			"calls answered without the tool, %: none", "memo"),
		Command: "lab policies"},
	{Part: "Table 1: batch shaping, admission",
		What:   "the market's admission of sessions, beside one by blocks",
		Theirs: "an open challenge",
		Ours: labelled(cells("cliff", "How every rule does", "welfare less by", "market", "capped",
			"two-block"),
			"welfare short of the greatest where caches are short: market", "admission by blocks", "none"),
		Command: "lab cliff",
		Why:     "it cannot be turned off in a market; batches are the market's rounds"},
	{Part: "Table 1: disaggregated P/D placement", What: "`pd`",
		Theirs: "an open challenge",
		Ours: labelled(cells("policies", "pd", "good", "12 | 6 alone | none", "12 | 3 alone, 2P/1D | none",
			"12 | 3 alone, 2P/1D | pd"), "good tasks a second at 12: all do both", "2P/1D without", "pd"),
		Command: "lab policies", Plot: true},
	{Part: "Table 1: speculative agent execution",
		What:    "`ahead`: the next prompt computed before it is asked",
		Theirs:  "an open challenge",
		Ours:    labelled(cells("ahead", "chat", "TTFT ms", "none", "ahead"), "TTFT, ms: none", "ahead"),
		Command: "lab ahead", Plot: true,
		Why: "prompts, not calls: nobody runs an agent's step ahead of its tool's answer"},
	{Part: "Table 1: adapters, drafters", What: "`adapter`",
		Theirs: "an open challenge",
		Ours: labelled(cells("policies", "adapter", "wait", "chain | none", "chain | next", "uniform | none",
			"uniform | next"), "waits for adapters, ms: chain, none", "next", "uniform, none", "next"),
		Command: "lab policies", Plot: true,
		Why: "no trace says which adapters agents use: one a role is assumed"},
	{Part: "Table 1: fairness", What: "`fair`",
		Theirs: "an open challenge",
		Ours: labelled(cells("policies", "fair", "p99", "10 times | none", "10 times | fair"),
			"others' p99 in a flood of ten times, ms: none", "fair"),
		Command: "lab policies", Plot: true},
	{Part: "Table 1: safety, guardrails", What: "`guard`",
		Theirs: "an open challenge",
		Ours: labelled(cells("policies", "guard", "found", "each piece by itself", "patterns"),
			"planted strings found: piece by piece", "guard"),
		Command: "lab policies"},
	{Part: "Table 1: failure hedging, retry", What: "`hedge`",
		Theirs: "an open challenge",
		Ours: labelled(cells("hedge", "", "first token", "none", "hedge"), "longest first token, s: none",
			"hedge"),
		Command: "lab hedge", Plot: true,
		Why: "by the clock"},
	{Part: "Cost", What: "1 us an observe, some us a score, 25 KB",
		Theirs: "1 us",
		Why:    "on [bench](bench.md), by `make bench`: by the clock"},
}
