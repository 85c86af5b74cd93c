package virtual

import (
	"context"
	"slices"
	"strings"
	"time"

	"souk/integration/lab/runs"
)

// PolicyRuns returns the number of runs that [Floods] and [Splits] make for each seed.
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

// FloodRow holds the others' results in a market that one client flooded.
type FloodRow struct {
	Times                float64 // what the flood asked, of what all others asked
	Policy               string
	P50, P99             Estimate // of the others' first tokens, ms
	Tasks, Refused       Estimate // of the others
	FloodServed, FloodOf Estimate
}

// SplitRow holds the results of a fleet of six cards with tasks of two kinds.
type SplitRow struct {
	Rate          float64 // tasks a second
	Fleet, Policy string
	Good, P99     Estimate  // tasks a second that were served well; first tokens, ms
	Goods         []float64 // Good of each seed
}

// Floods plays the policy fair on against off.
func Floods(ctx context.Context, seeds []uint64, said func(runs int)) (rows []FloodRow, err error) {
	for _, row := range floodRows {
		e, err := eachSeed(ctx, seeds, said, func(seed uint64) ([]float64, error) {
			s, err := flooded(2, 1.7, row.times)
			if err != nil {
				return nil, err
			}
			s.Seed, s.Length, s.Flood.From, s.Flood.To = seed, 30*time.Second, 8*time.Second, 22*time.Second
			f, err := playFlood(s, row.rule)
			return f.columns(), err
		})
		if err != nil {
			return nil, err
		}
		rows = append(rows, FloodRow{Times: row.times, Policy: placed(row.rule), Tasks: e[0], Refused: e[1],
			P50: e[2], P99: e[3], FloodOf: e[4], FloodServed: e[5]})
	}
	return rows, nil
}

// Splits plays the policy pd on against off.
func Splits(ctx context.Context, seeds []uint64, said func(runs int)) (rows []SplitRow, err error) {
	for _, rate := range splitRates {
		for _, row := range splitRows {
			goods := make([]float64, len(seeds))
			e, err := eachSeed(ctx, seeds, said, func(seed uint64) ([]float64, error) {
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
				all, _, _, err := playMarket(s, o)
				if err != nil {
					return nil, err
				}
				good := s.goodput(all)
				goods[slices.Index(seeds, seed)] = good
				return []float64{good, s.Measure(all).P99}, nil
			})
			if err != nil {
				return nil, err
			}
			rows = append(rows, SplitRow{Rate: rate, Fleet: row.fleet, Policy: placed(row.rule), Good: e[0],
				P99: e[1], Goods: goods})
		}
	}
	return rows, nil
}

// placed is the policy of a rule, "none" if it has none.
func placed(rule string) string {
	if _, name, on := strings.Cut(rule, "place="); on {
		return name
	}
	return "none"
}

// eachSeed plays a run from each seed, side by side.
func eachSeed(ctx context.Context, seeds []uint64, said func(runs int),
	play func(seed uint64) ([]float64, error)) (out []Estimate, err error) {
	all, err := runs.Each(ctx, len(seeds), 0, nil, func(i int) ([]float64, error) { return play(seeds[i]) })
	if err != nil {
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
