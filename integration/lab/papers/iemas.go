package papers

import (
	"fmt"
	"slices"

	"souk/integration/lab/iemas"
)

const experiment = "lab experiment iemas"

func iemasClaims() (all []Claim) {
	own := iemas.Routers[slices.IndexFunc(iemas.Routers,
		func(r iemas.Router) bool { return r.Name == "iemas" })]
	for _, r := range iemas.Routers {
		if r.Paper == "" {
			continue
		}
		c := Claim{Part: "Table 1",
			What:    r.Paper + ", `" + r.Name + "`: KV share, cost by IEMAS's, first token p50",
			Command: experiment,
			Why:     "the number of its engines, its load and the unit of its cost are not said"}
		for i, set := range iemas.Sets {
			t := r.Theirs[i]
			cell := func(label, column string) Ref {
				return Ref{label, "iemas", set.Name, column, r.Name, 0}
			}
			c.Theirs += fmt.Sprintf("%s: KV %.3f; cost %.2f; ms %.1f. ", set.Name, t.Share,
				t.Cost/own.Theirs[i].Cost, t.First)
			c.Ours = append(c.Ours, cell(set.Name+": KV", "KV"), cell("cost", "cost by IEMAS"), cell("ms",
				"p50"))
		}
		all = append(all, c)
	}
	truth, deficit := "Does lying about values pay?", "Who bears the errors of prediction?"
	return append(all,
		Claim{Part: "Figs. 1, 2, 8", What: "drawings of the system", Drawing: true},
		Claim{Part: "Fig. 5",
			What:    "who tells the truth has more than aggressive, conservative and random bidders",
			Theirs:  "a line above the others over 100 rounds",
			Command: "lab economics --only truth", Plot: true,
			Ours: cells("economics", truth, "mixed: utility per client and round", "honest", "aggressive",
				"conservative", "random"),
			Held: func(x []float64) bool { return x[0] > max(x[1], x[2], x[3]) },
			Why:  "micro-credits a round; its profit has no unit"},
		Claim{Part: "Fig. 5, Thm. 4.2", What: "truth is a client's dominant strategy: no lie pays",
			Theirs: "a theorem",
			Ours: labelled(cells("economics", truth, "lies that paid", "aggressive", "conservative",
				"random"),
				"lies that paid: aggressive", "conservative", "random"),
			Held:    func(x []float64) bool { return x[0]+x[1]+x[2] == 0 },
			Command: "lab economics --only truth",
			Why:     "in one round, at the quote; over many rounds see the same page"},
		Claim{Part: "Thm. 4.1", What: "min-cost max-flow maximises welfare: no less than the greatest weight",
			Theirs: "a theorem",
			Ours: labelled(cells("economics", "Which clusters?", "welfare a turn", "Ideal | max-flow",
				"Ideal | souk"), "max-flow", "greatest weight"),
			Command: "lab economics --only schemes",
			Held:    func(x []float64) bool { return x[0] >= x[1] },
			Why:     "few rounds are so short that it shows; the counterexample is `market/testdata/max-flow.txt`"},
		Claim{Part: "Thm. 4.3", What: "no round has a deficit",
			Theirs: "a theorem, at predicted cost",
			Ours: labelled(cells("economics", deficit, "rounds with a deficit", "metered | x 0.1",
				"metered | x 1", "metered | x 10", "quoted | x 0.1", "quoted | x 1", "quoted | x 10"),
				"metered x 0.1", "x 1", "x 10", "quoted x 0.1", "x 1", "x 10"),
			Held:    func(x []float64) bool { return x[0]+x[1]+x[2]+x[3]+x[4]+x[5] == 0 },
			Command: "lab economics --only settle",
			Why:     "here both sides settle at one integer; as printed, a client that pays the quote of an agent that is paid what it used runs into deficits"},
		Claim{Part: "Fig. 6", What: "clusters by domain cost little welfare",
			Theirs: "marginal",
			Plot:   true,
			Ours: labelled(cells("economics", "How many clusters?", "of K = 1", "6 | by domain",
				"20 | by domain",
				"6 | at random", "20 | at random"), "6 by domain", "20", "6 at random", "20"),
			Command: "lab economics --only clusters",
			Held:    func(x []float64) bool { return x[0] >= 95 && x[1] >= 95 },
			Why:     "marginal is taken as a twentieth; its axis has no numbers in the text"},
		Claim{Part: "Fig. 6", What: "solver latency falls sharply with clusters",
			Theirs: "sharply",
			Ours: labelled(cells("thousand", "By the clock", "a round p50, ms", "1 hub", "3 hubs", "6 hubs",
				"20 hubs"), "1 hub, ms", "3 hubs", "6 hubs", "20 hubs"),
			Command: "lab experiment thousand", Plot: true,
			Held: func(x []float64) bool { return 2*x[1] < x[0] && 2*x[2] < x[1] && 2*x[3] < x[2] },
			Why: "a whole round of 1,000 engines, by processor time, so that figures differ from run to run; sharply is " +
				"taken as by half at each step; `go test -bench Solve ./market/flow` has solves alone"},
		Claim{Part: "Fig. 7", What: "Ideal does about as well as Full-Mix, and one-sided clusters lose",
			Theirs:  "bars without numbers in the text",
			Command: "lab economics --only schemes", Plot: true,
			Ours: labelled(cells("economics", "Which clusters?", "welfare a turn", "Full-Mix | souk",
				"Ideal | souk", "Task-Mix | souk", "Agent-Mix | souk"), "Full-Mix", "Ideal", "Task-Mix",
				"Agent-Mix"),
			Held: func(x []float64) bool { return x[1] >= 0.98*x[0] && max(x[2], x[3]) < x[0] }},
		Claim{Part: "Fig. 7", What: "one-sided clusters leave more clients below zero",
			Theirs: "more",
			Ours: labelled(cells("economics", "Which clusters?", "clients below zero", "Full-Mix | souk",
				"Task-Mix | souk", "Agent-Mix | souk"), "Full-Mix", "Task-Mix", "Agent-Mix"),
			Command: "lab economics --only schemes",
			Held:    func(x []float64) bool { return min(x[1], x[2]) > x[0] }})
}
