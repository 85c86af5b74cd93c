package virtual

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// PolicyRuns is how many runs [Policies] makes for each seed.
func PolicyRuns() int { return len(floodRows) + len(splitRates)*len(splitRows) }

var floodRows = []struct {
	times float64 // what the flood asks, of what all others ask
	rule  string
}{
	{0, "market"}, {0, "market:policies.place=fair"}, {2, "market"}, {2, "market:policies.place=fair"},
	{5, "market"}, {5, "market:policies.place=fair"}, {10, "market"}, {10, "market:policies.place=fair"},
}

var splitRates = []float64{8, 12, 16, 20}

var splitRows = []struct {
	fleet string
	pools []int
	rule  string
}{
	{"6 alone", nil, "market"},
	{"4 alone, 1P/1D", []int{1}, "market"}, {"4 alone, 1P/1D", []int{1}, "market:policies.place=pd"},
	{"3 alone, 2P/1D", []int{2}, "market"}, {"3 alone, 2P/1D", []int{2}, "market:policies.place=pd"},
}

const policiesHead = `# Policies that say which agents a task may go to

The market in virtual time, the real hub and agents on simulated engines (RTX PRO 6000, Llama 3.1 8B), each
policy on against off. A policy whose scores are replaced by a constant says the same of all agents, which is
nothing: that row is the one without it.

Made by ` + "`%s`" + `: medians of %d runs, ± half of the 95 %% interval of their mean.

## fair

Two engines of eight slots; dialogues of clients of their own begin at 1.7 a second, half of what there is
room for, and for 14 s those of one client at 2, 5 and 10 times that. What the **others** had of the market in
those seconds: time to first token in ms, tasks refused; and what became of the tasks of the flood.

| flood | policy | others: p50 | p99 | refused of | flood: served of |
|---|---|---|---|---|---|
`

const policiesSplit = `
## pd

Six cards; of the tasks one half reads 6,000 tokens that no cache has and answers 60, the other reads 100 and
answers 400, of twelve clients who declare their roles. Engines alone do both; 2P/1D are two that compute
prompts for one that answers, and hand keys and values over at 400 Gbit/s. **good** are tasks a second whose
first token came within 1 s and each further one within 15 ms on the mean; p99 is of first tokens, in ms.

| tasks/s | engines | policy | good | p99 |
|---|---|---|---|---|
`

// Policies plays fair and pd on against off and returns the page about it.
func Policies(command string, seeds []uint64, said func(runs int)) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, policiesHead, command, len(seeds))
	each := func(play func(seed uint64) ([]float64, error)) (out []Estimate, err error) {
		all, errs := make([][]float64, len(seeds)), make([]error, len(seeds))
		var runs sync.WaitGroup
		for i, seed := range seeds {
			runs.Go(func() { all[i], errs[i] = play(seed) })
		}
		runs.Wait()
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
		said(len(seeds))
		for k := range all[0] {
			var of []float64
			for i := range all {
				of = append(of, all[i][k])
			}
			out = append(out, NewEstimate(of))
		}
		return out, nil
	}
	policy := func(rule string) string {
		if _, name, on := strings.Cut(rule, "place="); on {
			return name
		}
		return "none"
	}
	for _, row := range floodRows {
		e, err := each(func(seed uint64) ([]float64, error) {
			s, err := flooded(2, 1.7, row.times)
			if err != nil {
				return nil, err
			}
			s.Seed, s.Length, s.Flood.From, s.Flood.To = seed, 30*time.Second, 8*time.Second, 22*time.Second
			f, err := playFlood(s, row.rule)
			return f.columns(), err
		})
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "| %.0f times | %s | %.0f ± %.0f | %.0f ± %.0f | %.0f of %.0f | %.0f of %.0f |\n",
			row.times, policy(row.rule), e[2].Median, e[2].Within, e[3].Median, e[3].Within, e[1].Median,
			e[0].Median, e[5].Median, e[4].Median)
	}
	b.WriteString(policiesSplit)
	for _, rate := range splitRates {
		for _, row := range splitRows {
			e, err := each(func(seed uint64) ([]float64, error) {
				s, err := mixed(6, row.pools, rate, seed)
				if err != nil {
					return nil, err
				}
				like, _, err := variant(row.rule)
				if err != nil {
					return nil, err
				}
				o := NewMarketOptions(s)
				o.Hub = like.Hub
				m, err := NewMarket(o)
				if err != nil {
					return nil, err
				}
				all, _, err := Run(s, m)
				if err == nil {
					_, err = m.Close()
				}
				return []float64{s.goodput(all), Measure(all, s.Engines).P99}, err
			})
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "| %.0f | %s | %s | %.1f ± %.1f | %.0f ± %.0f |\n", rate, row.fleet,
				policy(row.rule), e[0].Median, e[0].Within, e[1].Median, e[1].Within)
		}
	}
	return b.String(), nil
}
