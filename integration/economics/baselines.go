package economics

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// baselines plays the same worlds under every rule, from half empty to twice full.
func baselines(ctx context.Context, src *source, o Options) (Result, error) {
	slots := usual.agents * usual.slots
	loads := []int{slots / 2, slots * 3 / 4, slots, slots * 5 / 4, slots * 3 / 2, slots * 2}
	rounds := max(o.Rounds/2, 1)
	n := len(loads) * len(everyRule)
	runs, err := each(ctx, o, "baselines", n*o.Markets, func(i int) (score, error) {
		cell := i / o.Markets
		sh := usual
		sh.clients = loads[cell/len(everyRule)]
		return newSim(src, sh, o.seed(i%o.Markets)).play(everyRule[cell%len(everyRule)], rounds)
	})
	if err != nil {
		return Result{}, err
	}
	t := Table{Name: "rules", Columns: []string{"clients per slot", "rule", "welfare a turn asked",
		"client utility", "premiums", "turns lost", "cached share", "TTFT mean (ms)", "TTFT p99 (ms)",
		"served below zero", "clients below zero"},
		Note: "As things came to be: times include the line of prefills on an agent, costs are metered. " +
			"Money in micro-credits a turn asked. Below zero: the client paid more than the answer was " +
			"worth to it; clients: over the whole run."}
	welfare := Plot{Title: "Welfare", X: "clients per slot", Y: "micro-credits a turn asked", Marks: true}
	below := Plot{Title: "Served turns below zero", X: "clients per slot", Y: "% of served turns",
		Marks: true}
	hits := Plot{Title: "Prompt tokens found in a cache", X: "clients per slot",
		Y: "% of served prompt tokens", Marks: true}
	for _, r := range everyRule {
		for _, p := range []*Plot{&welfare, &below, &hits} {
			p.Lines = append(p.Lines, Line{Name: r.name})
		}
	}
	var findings []string
	for l, clients := range loads {
		x := float64(clients) / float64(slots)
		reached := make([]float64, len(everyRule))
		for k, rl := range everyRule {
			cell := l*len(everyRule) + k
			s := sumScores(runs[cell*o.Markets : (cell+1)*o.Markets])
			asked, served := float64(max(s.asked, 1)), float64(max(s.served, 1))
			slices.Sort(s.ttft)
			p99 := 0.0
			if len(s.ttft) > 0 {
				p99 = stat.Quantile(0.99, stat.Empirical, s.ttft, nil)
			}
			t.Rows = append(t.Rows,
				[]any{x, rl.name, s.welfare / asked, s.utility / asked, s.premiums / asked,
					Percent(float64(s.lost) / asked), Percent(float64(s.hit) / float64(max(s.prompt, 1))),
					1000 * stat.Mean(s.ttft, nil), 1000 * p99, Percent(float64(s.below) / served),
					Percent(float64(s.unhappy) / float64(s.clients))})
			welfare.Lines[k].add(x, s.welfare/asked)
			below.Lines[k].add(x, 100*float64(s.below)/served)
			hits.Lines[k].add(x, 100*float64(s.hit)/float64(max(s.prompt, 1)))
			reached[k] = s.welfare / asked
		}
		more := func(k int) float64 { return 100 * (reached[0]/reached[k] - 1) }
		findings = append(findings,
			fmt.Sprintf("At %.2f clients per slot souk reaches %+.1f %% of welfare against max-flow, %+.1f "+
				"%% greedy, %+.1f %% posted + sticky, %+.1f %% two lines, %+.1f %% least loaded.", x, more(1),
				more(2), more(3), more(4), more(5)))
	}
	lies, lied, err := ruleLies(ctx, src, o)
	if err != nil {
		return Result{}, err
	}
	findings = append(findings, lied...)
	about := []string{fmt.Sprintf("%d markets of %d slots over %d rounds for each load and rule, the same "+
		"conversations and agents under all of them. Rules that ask nobody serve whoever comes while a "+
		"slot is free; the others leave out whom serving would cost more than it gives.", o.Markets, slots,
		rounds)}
	about = append(about, "In this world nearly every client gains by every agent, so that the greatest "+
		"weight is a greatest number too and max-flow seldom differs; where a task suits few agents it "+
		"does (market/testdata/max-flow.txt). Greedy comes close in welfare as long as nobody lies.")
	for _, r := range everyRule {
		about = append(about, r.name+": "+r.about+".")
	}
	return Result{About: about, Findings: findings, Tables: []Table{t, lies},
		Plots: []Plot{welfare, below, hits}}, nil
}

// ruleLies asks of every rule that listens to clients what the strategies of Fig. 5 gain under it, one liar
// and one round at a time.
func ruleLies(ctx context.Context, src *source, o Options) (Table, []string, error) {
	rules := []rule{souk, maxFlow, greedy, sticky}
	rounds := max(o.Rounds/10, 1)
	n := len(rules) * o.Markets
	runs, err := each(ctx, o, "lies under every rule", n, func(i int) (out lies, err error) {
		rl, seed := rules[i/o.Markets], o.seed(i%o.Markets)
		s := newSim(src, usual, seed)
		rng := rand.New(rand.NewPCG(seed, 0x72756c65))
		for number := range rounds {
			ds := s.demands()
			place := func(ds []demand) ([]place, error) {
				s.rng = rand.New(rand.NewPCG(seed, uint64(number))) // the same line for truth and lie
				return rl.place(s, ds)
			}
			honest, err := place(ds)
			if err != nil {
				return out, err
			}
			for liar := number % 5; liar < len(ds); liar += 5 {
				for _, strategy := range strategies[1:] {
					told := slices.Clone(ds)
					told[liar].value = slices.Clone(ds[liar].value)
					for a, v := range ds[liar].value {
						told[liar].value[a] = strategy.claim(rng, v)
					}
					lied, err := place(told)
					if err != nil {
						return out, err
					}
					out.add(gain(ds, lied, liar) - gain(ds, honest, liar))
				}
			}
			s.serve(ds, honest)
		}
		return out, nil
	})
	if err != nil {
		return Table{}, nil, err
	}
	t := Table{Name: "lies", Columns: []string{"rule", "lies tried", "lies that paid", "share",
		"mean gain of those", "largest gain"},
		Note: "One client at a time lies for one round as in Fig. 5, at 1.5 clients per slot; at the " +
			"quote, micro-credits. Rules that ask nobody cannot be lied to."}
	var findings []string
	for k, rl := range rules {
		sum := sumLies(runs[k*o.Markets : (k+1)*o.Markets])
		t.Rows = append(t.Rows, []any{rl.name, sum.tried, sum.pays, sum.paid(),
			micro(sum.won) / float64(max(sum.pays, 1)), micro(sum.most)})
		findings = append(findings, fmt.Sprintf("Under %s %d of %d lies paid.", rl.name, sum.pays, sum.tried))
	}
	return t, findings, nil
}
