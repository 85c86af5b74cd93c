package policies

import (
	"context"
	"fmt"
	"strings"

	"souk/integration/lab/page"
	"souk/integration/lab/runs"
	"souk/integration/lab/virtual"
)

// Runs returns the number of runs that [Page] makes for each seed.
func Runs() int {
	return virtual.PolicyRuns() + len(AdapterPanels())*len(AdapterRules)
}

const head = `Figures are medians of %d runs, ± half of the 95 %% interval of their mean. Each of the eight has its
default here, and the page of its figures. **Constant** is the policy with all that it scores,
predicts and wants replaced by a constant. One whose constant does as well as it does has no effect on its page,
says so and is off.

| policy | default | worth, against the simpler rule | constant |
|---|---|---|---|
`

// of the others' pages
const elsewhere = `| ` + "`kvcache`" + ` | off: ` + "`policies.keep`" + ` | on stock vLLM, where it can have texts used again, against ` +
	`nothing: nothing ([engines](engines.md)). Its score, where an engine asked it, against LRU: ` +
	`[cachesage](cachesage.md), stand-in | LRU: of equal scores an engine drops what was used longest ago |
| ` + "`ahead`" + ` | off: ` + "`policies.keep`" + ` | where templates drop reasoning, against nothing: [ahead](ahead.md) | its rows ` +
	"`none` |\n" + "| `hedge` | on | a task whose engine falls silent, by the clock: [hedge](hedge.md) | `hedge: {on: false}` |\n"

const fairHead = `
## fair

Two engines of eight slots, in virtual time; dialogues of clients of their own begin at 1.7 a second, half of what
there is room for, and for 14 s those of one client at 2, 5 and 10 times that. What the **others** had of the market
in those seconds: time to first token in ms, tasks refused; and what became of the tasks of the flood. A policy of
this place that says the same of all agents says nothing, so its constant is the row without it, byte for byte
(` + "`TestSilentPoliciesChangeNoRecord`" + `); the same holds of pd.

| flood | policy | others: p50 | p99 | refused of | flood: served of |
|---|---|---|---|---|---|
`

const pdHead = `
## pd

Six cards (RTX PRO 6000, Llama 3.1 8B), in virtual time; of the tasks one half reads 6,000 tokens that no cache has
and answers 60, the other reads 100 and answers 400, of twelve clients who declare their roles. Engines alone do
both; 2P/1D are two that compute prompts for one that answers, and hand keys and values over at 400 Gbit/s. The
simpler rule is six engines that do both. **good** are tasks a second whose first token came within 1 s and each
further one within 15 ms on the mean; p99 is of first tokens, in ms.

| tasks/s | engines | policy | good | p99 |
|---|---|---|---|---|
`

const adapterHead = `
## adapter

An engine (RTX PRO 6000, Llama 3.1 8B) that serves an adapter for each role and keeps fewer ready, in a simulation
of the engine alone, with the policy ` + "`next`" + ` and its host as an agent has them. A step that needs one which is not
ready takes 200 ms longer, for everybody. **wait** is how long a turn's first token waited for adapters to be loaded,
in ms, **stall** how long its answer stood still for that; **loads** and **ahead** are of 100 turns: adapters loaded,
and tokens that the policy asked for to have one loaded or used again. *none* is the engine, which drops what was
used longest ago; *most used* has those ready that were asked for most; *told* knows each session's next two turns.
No trace says which adapters agents use: that each role has one is assumed.

| workload | rule | wait | stall | loads | ahead |
|---|---|---|---|---|---|
`

// Page plays all and returns the page about it, which a command has asked for.
func Page(ctx context.Context, command string, seeds []uint64, said func(runs int)) (*page.Page, error) {
	p := &page.Page{Name: "policies", Title: "Runtime policies, on against off", Command: command,
		Plots: map[string]page.Plot{}}
	var rows, text strings.Builder
	fmt.Fprintf(&rows, head, len(seeds))
	rows.WriteString(elsewhere)

	floods, err := virtual.Floods(ctx, seeds, said)
	if err != nil {
		return nil, err
	}
	text.WriteString(fairHead)
	plot := page.Plot{Title: "What the others had of a flooded market", X: "the flood, times all others",
		Y: "p99 of first tokens, ms", LogY: true}
	for _, r := range floods {
		plot.Of(r.Policy).Add(r.Times, r.P99.Median, r.P99.Within)
		fmt.Fprintf(&text, "| %.0f times | %s | %.0f ± %.0f | %.0f ± %.0f | %.0f of %.0f | %.0f of %.0f |\n",
			r.Times, r.Policy, r.P50.Median, r.P50.Within, r.P99.Median, r.P99.Within, r.Refused.Median,
			r.Tasks.Median, r.FloodServed.Median, r.FloodOf.Median)
	}
	p.Plots["fair"] = plot
	text.WriteString(page.Place("fair"))
	off, on := floods[len(floods)-2], floods[len(floods)-1]
	fmt.Fprintf(&rows, "| `fair` | off: `policies.place` | a flood of ten times all others leaves these a p99 of %.0f ms in "+
		"place of %.0f, against first come, first served | as none, byte for byte |\n", on.P99.Median, off.P99.Median)

	splits, err := virtual.Splits(ctx, seeds, said)
	if err != nil {
		return nil, err
	}
	text.WriteString(pdHead)
	var worth []string
	var alone []float64 // by seed, of the engines that do both, at this rate
	plot = page.Plot{Title: "Prompts computed apart", X: "tasks a second that come",
		Y: "tasks a second served well"}
	for _, r := range splits {
		plot.Of(strings.TrimSuffix(r.Fleet+", "+r.Policy, ", none")).Add(r.Rate, r.Good.Median, r.Good.Within)
		fmt.Fprintf(&text, "| %.0f | %s | %s | %.1f ± %.1f | %.0f ± %.0f |\n", r.Rate, r.Fleet, r.Policy,
			r.Good.Median, r.Good.Within, r.P99.Median, r.P99.Within)
		switch {
		case r.Fleet == "6 alone":
			alone = r.Goods
		case r.Policy == "pd" && r.Fleet == "3 alone, 2P/1D":
			var more []float64
			for i := range alone {
				more = append(more, 100*(r.Goods[i]/alone[i]-1))
			}
			e := virtual.NewEstimate(more)
			worth = append(worth, fmt.Sprintf("%+.0f ± %.0f %% at %.0f/s", e.Mean, e.Within, r.Rate))
		}
	}
	p.Plots["pd"] = plot
	text.WriteString(page.Place("pd"))
	fmt.Fprintf(&rows, "| `pd` | off: `policies.place` | good tasks a second on three engines and 2P/1D against six engines "+
		"that do both, from paired runs: %s. Worth it where the six are too few | as none, byte for byte |\n",
		strings.Join(worth, ", "))

	plot = page.Plot{Title: "Adapters", Y: "ms that a turn waits for them"}
	part, adapted, err := adapterPage(ctx, seeds, said, &plot)
	if err != nil {
		return nil, err
	}
	p.Plots["adapter"] = plot
	text.WriteString(part + page.Place("adapter"))
	fmt.Fprintf(&rows, "| `adapter` | off: agentd's `policies.adapter: next` | waits for adapters against the engine's own "+
		"rule: %s | as none |\n", adapted)

	part, gain, err := memoPage()
	if err != nil {
		return nil, err
	}
	text.WriteString(part)
	effect := "of 10 that would be worth it"
	if gain.Mean <= gain.Within {
		effect = "not told from nothing: it has no effect here, and is off"
	}
	fmt.Fprintf(&rows, "| `memo` | off: a program asks for it | %.1f ± %.1f %% of calls on tau-bench, %s | remembers "+
		"nothing |\n", gain.Mean, gain.Within, effect)
	if part, err = guardPage(seeds); err != nil {
		return nil, err
	}
	text.WriteString(part)
	rows.WriteString("| `guard` | off: agentd's `policies.guard: patterns` | every planted string, none without cause, " +
		"against looking at each piece by itself | finds nothing |\n")
	p.Text = rows.String() + text.String()
	return p, nil
}

// adapterPage is the section about adapters, and what the policy is worth by workload.
func adapterPage(ctx context.Context, seeds []uint64, said func(runs int), plot *page.Plot) (text,
	worth string,
	err error) {
	text = adapterHead
	var all []string
	for _, p := range AdapterPanels() {
		waits := map[string]virtual.Estimate{}
		for _, rule := range AdapterRules {
			figures, err := runs.Each(ctx, len(seeds), 0, nil,
				func(i int) (AdapterFigures, error) { return PlayAdapters(p, rule, seeds[i]) })
			if err != nil {
				return "", "", err
			}
			said(len(seeds))
			line := fmt.Sprintf("| %s | %s |", p.Name, rule)
			for k := range figures[0].columns() {
				var of []float64
				for i := range figures {
					of = append(of, figures[i].columns()[k])
				}
				e := virtual.NewEstimate(of)
				if k == 0 {
					waits[rule] = e
					plot.Put(p.Name, rule, e.Median, e.Within)
				}
				line += fmt.Sprintf(" %.1f ± %.1f |", e.Median, e.Within)
			}
			text += line + "\n"
		}
		all = append(all, fmt.Sprintf("%s %+.0f %%", p.Name, 100*(waits["next"].Mean/waits["none"].Mean-1)))
	}
	text += "\n"
	for _, p := range AdapterPanels() {
		text += fmt.Sprintf("* %s: %s.\n", p.Name, p.About)
	}
	return text, strings.Join(all, ", "), nil
}
