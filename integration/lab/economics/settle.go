package economics

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"souk/integration/lab/page"
	"souk/market"
)

// biases are the predictors: how many times the unbiased cost they quote. The last draws its own for every
// task.
var biases = []float64{0.1, 0.5, 1, 2, 10, 0}

func biasName(b float64) string {
	if b == 0 {
		return "x 0.1 to 10, at random"
	}
	return fmt.Sprintf("x %g", b)
}

// books holds a market's flows of money, in micro-credits a served turn.
type books struct {
	served, below          int // below: served turns whose client paid more than it got
	deficits               int // rounds in which agents were due more than clients paid
	clients, agents, spare float64
	agentSquares           float64
	losses                 int // served turns at which an agent was due less than its card says
}

// settlement settles the same markets by the two rules, under predictors from honest to absurd.
func settlement(ctx context.Context, src *source, o Options) (Result, error) {
	type cell struct {
		settle string
		bias   float64
	}
	var cells []cell
	for _, settle := range []string{market.SettleMetered, market.SettleQuoted} {
		for _, b := range biases {
			cells = append(cells, cell{settle, b})
		}
	}
	runs, err := each(ctx, o, "settle", len(cells), func(i int) ([]books, error) {
		all := make([]books, o.Markets)
		for m := range all {
			if err := all[m].play(src, o.Rounds, o.seed(m), cells[i].settle, cells[i].bias); err != nil {
				return nil, err
			}
		}
		return all, nil
	})
	if err != nil {
		return Result{}, err
	}
	t := Table{
		Columns: []string{"settle", "predictor", "client utility", "agent gain", "agent gain, deviation",
			"agent paid too little", "surplus", "clients below zero", "rounds with a deficit"},
		Note: "Means over served turns, micro-credits. Agent gain: what it was paid less the price card on " +
			"real usage. Below zero: served turns for which the client paid more than the answer was " +
			"worth to it."}
	gains := map[string]*page.Series{market.SettleMetered: {Name: "metered"},
		market.SettleQuoted: {Name: "quoted"}}
	below := map[string]*page.Series{market.SettleMetered: {Name: "metered"},
		market.SettleQuoted: {Name: "quoted"}}
	deficits, rounds := 0, 0
	for i, c := range cells {
		var b books
		for m := range runs[i] {
			b.add(&runs[i][m])
		}
		n := float64(max(b.served, 1))
		mean := b.agents / n
		t.Rows = append(t.Rows,
			[]any{c.settle, biasName(c.bias), b.clients / n, mean,
				math.Sqrt(max(0, b.agentSquares/n-mean*mean)), Percent(float64(b.losses) / n), b.spare / n,
				Percent(float64(b.below) / n), b.deficits})
		deficits, rounds = deficits+b.deficits, rounds+o.Rounds*o.Markets
		if c.bias > 0 {
			gain := over(runs[i], func(b *books) float64 { return b.agents / float64(max(b.served, 1)) })
			loss := over(runs[i],
				func(b *books) float64 { return 100 * float64(b.below) / float64(max(b.served, 1)) })
			gains[c.settle].Add(c.bias, gain.Mean, gain.Within)
			below[c.settle].Add(c.bias, loss.Mean, loss.Within)
		}
	}
	return Result{
		About: []string{
			"Under metered, client and agent settle at the price card on what was really used, at most the " +
				"client's max_price; under quoted, at what was predicted. The same integer on both sides " +
				"either way. The predictor knows the mean length of a source's answers; here it is also " +
				"made to quote 0.1 to 10 times that cost.",
		},
		Findings: []string{
			fmt.Sprintf("%d of %d rounds had a deficit.", deficits, rounds),
			"Under quoted the agent carries the error of the prediction, under metered the client does.",
		},
		Tables: []Table{t},
		Plots: []page.Plot{
			{Title: "What an agent gains by errors of prediction",
				X: "cost as quoted, times the unbiased one", Y: "micro-credits a turn", LogX: true, OwnX: true,
				Series: []page.Series{*gains[market.SettleMetered], *gains[market.SettleQuoted]}},
			{Title: "Served turns that left their client below zero",
				X: "cost as quoted, times the unbiased one", Y: "% of served turns", LogX: true, OwnX: true,
				Series: []page.Series{*below[market.SettleMetered], *below[market.SettleQuoted]}},
		},
	}, nil
}

// add adds another market.
func (b *books) add(o *books) {
	b.served, b.below, b.deficits, b.losses = b.served+o.served, b.below+o.below, b.deficits+o.deficits,
		b.losses+o.losses
	b.clients, b.agents, b.spare = b.clients+o.clients, b.agents+o.agents, b.spare+o.spare
	b.agentSquares += o.agentSquares
}

// play plays a market.
func (b *books) play(src *source, rounds int, seed uint64, settle string, bias float64) error {
	s := newSim(src, usual, seed)
	s.bias = bias
	if bias == 0 {
		s.bias = 1
	}
	rng := rand.New(rand.NewPCG(seed, 0x62696173))
	for range rounds {
		ds := s.demands()
		if bias == 0 {
			for j := range ds {
				by := math.Pow(10, 2*rng.Float64()-1)
				for a := range ds[j].quote {
					ds[j].quote[a] = scale(ds[j].quote[a], by)
				}
			}
		}
		_, places, err := s.honest(ds, settle)
		if err != nil {
			return err
		}
		var paid, due market.Credits
		for _, p := range places {
			d := ds[p.task]
			most := s.people[d.person].terms.Cap()
			node := &s.nodes[p.agent]
			usage := market.Usage{Prompt: d.turn.prompt, Cached: d.overlap[p.agent], Output: d.turn.output}
			cost := market.Settle(settle, node.price, 0, d.quote[p.agent], usage, most-p.premium)
			paid, due = paid+cost+p.premium, due+cost
			keeps := d.value[p.agent] - cost - p.premium
			gained := micro(cost - node.price.Cost(usage))
			b.served++
			b.clients += micro(keeps)
			b.agents += gained
			b.agentSquares += gained * gained
			b.spare += micro(p.premium)
			if keeps < 0 {
				b.below++
			}
			if gained < 0 {
				b.losses++
			}
		}
		if paid < due {
			b.deficits++
		}
		s.serve(ds, places)
	}
	return nil
}
