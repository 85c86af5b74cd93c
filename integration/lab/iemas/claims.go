package iemas

import (
	"fmt"
	"slices"
	"strings"

	"souk/integration/lab/page"
	"souk/integration/lab/virtual"
)

// What becomes of a claim.
const (
	holds = "holds"
	fails = "**does not hold**"
	apart = "not told apart"
)

func word(held bool) string {
	if held {
		return holds
	}
	return fails
}

// claims lists what the paper says of its experiments, and what came of it here.
func (r *Results) claims() string {
	var rows [][]string
	say := func(claim, theirs, here, held string) {
		rows = append(rows, []string{claim, theirs, here, held})
	}
	share, cost, first := columns[0], columns[1], columns[2]
	for n, w := range r.Worlds {
		t := iemasRow().Theirs[n]
		here, held := r.against(w.Name, share.digits, share.of, more)
		say("IEMAS finds most in caches, "+w.Name, fmt.Sprintf("%.3f", t.Share), here, held)
		if w.Name != "quac" { // where its own table has MFRouter below it
			here, held = r.against(w.Name, cost.digits, cost.of, less)
			say("IEMAS costs least, "+w.Name, fmt.Sprintf("%.3f of the next", t.Cost/next(n)), here, held)
		}
		if w.Name != "coqa" { // where its own table has GMTRouter below it
			here, held = r.against(w.Name, first.digits, first.of, less)
			say("IEMAS has the soonest first token, "+w.Name, fmt.Sprintf("%.1f ms", t.First), here, held)
		}
	}
	ratio, beside := 0.0, ""
	for _, w := range r.Worlds {
		for _, x := range Routers {
			if x.Paper == "" || x.Name == "iemas" {
				continue
			}
			other := virtual.NewEstimate(r.of(w.Name, x.Name, Loads[0], first.of)).Mean
			if t := other / virtual.NewEstimate(r.of(w.Name, "iemas", Loads[0], first.of)).Mean; t > ratio {
				ratio, beside = t, x.Name+" on "+w.Name
			}
		}
	}
	say("first tokens up to 2.9 times as soon as the others'", "2.9, GMTRouter on quac",
		fmt.Sprintf("%.2f, %s", ratio, beside), word(ratio >= 2.9))
	for k, name := range MeasureNames {
		errs := func(of func(*Errors) float64) []float64 {
			return r.errs(Sets[0].Name, Placers[0], Loads[0], eq5Way, of)
		}
		of := errs(func(e *Errors) float64 { return e.NMAE(k) })
		means := errs(func(e *Errors) float64 { return e.Mean(k) })
		held := word(virtual.NewEstimate(of).Mean <= theirNMAE[k])
		if m := virtual.NewEstimate(means); held == fails && m.Mean-m.Within <= theirNMAE[k] {
			held = "cannot be told: not of tasks, of turns' means alone" // the paper does not say which
		}
		said := fmt.Sprintf("%.3f", theirNMAE[k])
		say("its trees' NMAE of "+name+" is "+said, said, cellOf(3, of)+"; of turns' means "+cellOf(3, means),
			held)
	}
	for _, w := range r.Worlds {
		here, held := r.against(w.Name, 0, func(f *Figures) float64 { return f.at(turns) }, more)
		say(fmt.Sprintf("IEMAS has most welfare after %d turns, %s", turns, w.Name),
			"its figure's highest line", here, held)
	}
	part := 0.0
	for _, w := range r.Worlds {
		at := func(router string) float64 {
			return virtual.NewEstimate(r.of(w.Name, router, Loads[0],
				func(f *Figures) float64 { return f.at(turns) })).Mean
		}
		part = max(part, at("random")/at("iemas"))
	}
	say("random routing makes no welfare worth speaking of", "its figure's lowest line",
		fmt.Sprintf("at most %.2f of IEMAS's", part), word(part < 0.1))
	return "\n## What held\n\nBeside all other routers of its Table 1, by runs of the same seeds; behind the market " +
		"stands what it has, which no claim of the paper speaks of.\n\n" +
		page.Table([]string{"the paper's claim", "theirs", "here", ""}, rows)
}

// against holds IEMAS's figure against those of the paper's other routers, and says the market's beside. The
// claim holds if it is on the wanted side of each.
func (r *Results) against(set string, digits int, of func(*Figures) float64, want int) (here, held string) {
	own := r.of(set, "iemas", Loads[0], of)
	held = holds
	var other []string
	none := true
	for _, x := range Routers {
		if x.Paper == "" || x.Name == "iemas" {
			continue
		}
		fig := r.of(set, x.Name, Loads[0], of)
		none = none && slices.Max(fig) == 0
		switch v := verdict(own, fig); {
		case v == level && held == holds:
			held = apart
		case v != level && v != want:
			held = fails
		}
		other = append(other, x.Name+" "+cellOf(digits, fig))
	}
	if none && slices.Max(own) == 0 {
		held = "cannot be told: there is nothing"
	}
	return fmt.Sprintf("%s; %s; market %s", cellOf(digits, own), strings.Join(other, ", "),
		cellOf(digits, r.of(set, virtual.MarketName, Loads[0], of))), held
}

// stands says where this market has more welfare than the best other router, and where less.
func (r *Results) stands() string {
	var rows [][]string
	for _, callers := range Loads {
		by, of := "task", func(f *Figures) float64 { return f.Welfare }
		if callers > slots*each*len(models) { // who waits for a slot asks the later
			by, of = "second", func(f *Figures) float64 { return f.Second }
		}
		for _, w := range r.Worlds {
			own, best := r.of(w.Name, virtual.MarketName, callers, of), ""
			var most []float64
			for _, x := range Routers {
				fig := r.of(w.Name, x.Name, callers, of)
				if x.Name != virtual.MarketName &&
					(best == "" || virtual.NewEstimate(fig).Mean > virtual.NewEstimate(most).Mean) {
					best, most = x.Name, fig
				}
			}
			iemas := r.of(w.Name, "iemas", callers, of)
			rows = append(rows, []string{w.Name, fmt.Sprint(callers), by, cellOf(0, own), "`" + best + "`",
				cellOf(0, most), standing[verdict(own, most)], cellOf(0, iemas), standing[verdict(own,
					iemas)]})
		}
	}
	return "\n## How this market stands\n\nIts welfare, micro-credits a task or a second, beside the best of all other " +
		"routers here and beside IEMAS, by runs of the same seeds.\n\n" + page.Table([]string{"set",
		"callers", "by",
		"market", "best other", "its", "the market", "IEMAS", "beside it the market"}, rows)
}

// standing says how the market stands by a verdict.
var standing = [...]string{less: "**loses**", level: "level", more: "wins"}

func iemasRow() *Router {
	return &Routers[slices.IndexFunc(Routers, func(x Router) bool { return x.Name == "iemas" })]
}

// next is the least cost of its other routers, in the paper's table.
func next(set int) float64 {
	least := 0.0
	for _, x := range Routers {
		if x.Theirs != nil && x.Name != "iemas" && (least == 0 || x.Theirs[set].Cost < least) {
			least = x.Theirs[set].Cost
		}
	}
	return least
}

const elsewhere = `
## Figs. 5, 6 and 7

They are made by ` + "`lab economics`" + `: strategies of liars (Fig. 5), the number of clusters (Fig. 6) and
how they are cut (Fig. 7), each beside the paper's max-flow where that decides: [economics](economics.md). All
papers' figures stand on [papers](papers.md).

`

const corrections = `## Where this market differs from the paper, and why

| of the paper | what is wrong with it | here |
|---|---|---|
| Theorem 4.1: min-cost max-flow maximises welfare | It is false for the network as printed: a *max*-flow serves as many as can be. With t1 worth 10 on A and 1 on B, and t2 worth 5 on A, it serves both for 6, where t1 on A alone is worth 10; and then charges t2 9 for a value of 5. | every task may stay out at no weight: the greatest weight (` + "`market/flow`" + `) |
| Eq. 8, solved again without each task | right where the allocation is, at N + 1 solves | one pass for the least prices, the same integers, which a stranger checks without solving (` + "`market/certify`" + `) |
| Theorem 4.2: truth is dominant for a client | true of one task a client and a round, at the predicted cost. Of several tasks at once it is manipulable task by task; across rounds no theorem speaks | the externality of all tasks of a client together (` + "`clarke: client`" + `); what lies gain over many rounds is measured, on [economics](economics.md) |
| Theorem 4.3: no deficit | true at predicted cost alone. If the client pays the quote and the agent what it used, errors of prediction make deficits | the same integer on both sides, metered or quoted |
| which of several optima | not said, and solvers differ | a second word of each weight, by a seed that is fixed before: an auditor on another machine finds the same awards |
| agents' costs are honest | assumed, not shown; under VCG an agent gains by asking more | ` + "`pricing: tariff`" + ` and ` + "`posted`" + `, where no owner's lie pays in a round |
| Eq. 1 adds a share and seconds | they have no common unit | worth, delta and patience make it money, exact in whole nano-credits |
| congestion is a feature of the predictor alone | all of one batch see the same idle engine and go there | later slots of an engine carry a toll, which is part of the weight and is paid |
| a batch of 16 or 10 ms | who finds a slot free waits for nothing | a task that meets a free slot is cleared at once |
| Fig. 5: strategies of whole groups over 100 rounds | a group's profit is no proof of dominance | every client in turn lies alone, in one round, and the round is cleared again |

`

// beyond says what cannot be compared.
func (r *Results) beyond() string {
	return fmt.Sprintf(`## What cannot be compared

* **Cost** has no unit in the paper; ratios to IEMAS's are all that can be held against each other. It says 35
  %% less than the next on CoQA, which is MFRouter's; RouterDC stands between them in its own table, and
  beside that it is %.0f %%.
* **First tokens**: its engines are RTX 4090 and RTX 6000 under a load that it does not say; these are
  simulated, of a faster card, and hold no client's HTTP. Orders can be compared, not milliseconds.
* **KV share on HotpotQA**: a question a dialogue, over paragraphs of its own, and here no two dialogues have
  a block in common; what it finds there (%.3f and less) are templates and passages that questions share.
* **Number of engines**: it decides what random routing finds in caches, and the paper does not say it.
* **The paper's routers** but random and its own learn from recorded answers, as [routers](routers.md) judges
  them. Here they are small and know other answers than the paper's, so their figures are not those of its
  authors' models; that they are blind to load and caches is as published.
* **Payments** (Eq. 8) move no task, so the paper's router is played without them; who pays what is on
  [economics](economics.md).
* The market's plan and queue know of seats to come; the paper's router knows of those that are free.
`, 100*(1-iemasRow().Theirs[0].Cost/next(0)), iemasRow().Theirs[2].Share)
}
