package iemas

import (
	"cmp"
	"fmt"
	"slices"

	"souk/integration/lab/virtual"
	"souk/market"
)

// Figures sums up a run, of the tasks that were asked after its first tenth, in which predictors are
// seeded. A task that was refused counts for welfare alone, as nothing.
type Figures struct {
	Share   float64   // of prompt tokens, found in a cache
	Cost    float64   // of an answer, micro-credits
	P50     float64   // of first tokens from when it was asked, ms
	P99     float64   // of them
	Quality float64   // of an answer
	Welfare float64   // of a task: value as served less cost, micro-credits
	Second  float64   // the same a second, between the first and the last end
	Refused float64   // of tasks
	Grows   []float64 // welfare of the first tasks to end, together
}

// turns is the length of Fig. 4.
const turns = 160

// micro is a sum in micro-credits.
func micro(c market.Credits) float64 { return float64(c) * 1e6 / float64(market.Credit) }

// play runs a router in the world.
func (w *World) play(router string, seed uint64, callers, tasks int) (f Figures, err error) {
	s := w.setting(seed, callers, tasks)
	p, end, err := w.policy(router, s)
	if err != nil {
		return f, err
	}
	all, _, err := virtual.Run(s, p)
	if err == nil {
		err = end()
	}
	if err != nil {
		return f, fmt.Errorf("%s on %s, seed %d: %w", router, w.Name, seed, err)
	}
	return w.figures(all), nil
}

// policy makes a router by its name: the paper's, this market, or a rule of the table. end closes it.
func (w *World) policy(router string, s virtual.Setting) (p virtual.Policy, end func() error, err error) {
	end = func() error { return nil }
	switch router {
	case "iemas":
		return auctionOf(w).Play(s.Seed), end, nil
	case virtual.MarketName:
		m, err := virtual.NewMarket(virtual.NewMarketOptions(s))
		return m, func() error {
			_, err := m.Close()
			return err
		}, err
	}
	if p, err = virtual.NewRule(router, s.Seed); err == nil {
		p, err = w.reading(router, p)
	}
	return p, end, err
}

func (w *World) figures(all []*virtual.Request) (f Figures) {
	all = slices.Clone(all[len(all)/10:])
	slices.SortStableFunc(all, func(a, b *virtual.Request) int { return cmp.Compare(a.Done, b.Done) })
	var first []float64
	prompt, cached, sum := 0, 0, 0.0
	for n, q := range all {
		if q.Refused {
			f.Refused++
		} else {
			card := w.Fleet.Engines[q.Engine].Card
			quote := market.Quote{TTFT: q.First - q.Arrived, Quality: w.Score(q, modelOf(q.Engine)),
				Cost: card.Cost(market.Usage{Prompt: q.Prompt, Cached: q.Cached, Output: q.Output})}
			prompt, cached = prompt+q.Prompt, cached+q.Cached
			f.Cost, f.Quality = f.Cost+micro(quote.Cost), f.Quality+quote.Quality
			first = append(first, float64(quote.TTFT)/1e6)
			sum += micro(q.Terms.Value(quote) - quote.Cost)
		}
		if n < turns {
			f.Grows = append(f.Grows, sum)
		}
	}
	if n := len(all); n > 1 {
		f.Second = sum / max(1e-3, (all[n-1].Done-all[0].Done).Seconds())
	}
	served := float64(max(1, len(first)))
	f.Share, f.Cost, f.Quality = float64(cached)/float64(max(1, prompt)), f.Cost/served, f.Quality/served
	f.Welfare, f.Refused = sum/float64(max(1, len(all))), f.Refused/float64(max(1, len(all)))
	if slices.Sort(first); len(first) > 0 {
		f.P50, f.P99 = first[(len(first)-1)/2], first[(len(first)-1)*99/100]
	}
	return f
}
