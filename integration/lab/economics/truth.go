package economics

import (
	"context"
	"fmt"
	"math/rand/v2"

	"souk/integration/lab/page"
	"souk/market"
)

// strategies lists the paper's: what a client claims where v is the truth.
var strategies = []struct {
	name  string
	claim func(rng *rand.Rand, v market.Credits) market.Credits
}{
	{"honest", func(_ *rand.Rand, v market.Credits) market.Credits { return v }},
	{"aggressive", func(_ *rand.Rand, v market.Credits) market.Credits { return v * 8 / 5 }},
	{"conservative", func(_ *rand.Rand, v market.Credits) market.Credits { return v * 3 / 5 }},
	{"random", func(rng *rand.Rand,
		v market.Credits) market.Credits {
		return v * market.Credits(2+rng.IntN(19)) / 10
	}},
}

// truths holds the results of one market: utilities by strategy, added up round by round.
type truths struct {
	mixed, alone [][]float64 // by strategy, by round; micro-credits
	served       []float64   // share of turns, by strategy, in the mixed market
	tried, pays  []int       // lies of one round, by strategy, and those that gained
}

// truth plays every strategy twice: all four side by side in one market, as the paper does, and one client at
// a time against an honest market, where the same round is cleared once for each strategy, so that nothing
// else differs.
func truth(ctx context.Context, src *source, o Options) (Result, error) {
	runs, err := each(ctx, o, "truth", o.Markets,
		func(i int) (truths, error) { return playTruth(src, o.Rounds, o.seed(i)) })
	if err != nil {
		return Result{}, err
	}
	r := Result{About: []string{
		fmt.Sprintf("%d markets of %d clients and %d slots over %d rounds, settled as quoted. Aggressive "+
			"clients claim 1.6 times what a task is worth to them, conservative ones 0.6 times, random "+
			"ones 0.2 to 2 times, drawn for every agent.",
			o.Markets, usual.clients, usual.agents*usual.slots, o.Rounds),
		"Left: a quarter of the clients plays each strategy, in one market (the paper's figure). Right: " +
			"every fifth client in turn lies alone and for one round, and the round is cleared again for " +
			"each strategy; utilities are of the same client in the same round.",
	}}
	t := Table{
		Columns: []string{"strategy", "mixed: utility per client and round", "mixed: turns served",
			"alone: utility per client and round", "lies tried", "lies that paid"},
		Note: "Utility is true value - cost - premium at the quote, in micro-credits."}
	mixed := page.Plot{Title: "All strategies in one market", X: "round",
		Y: "utility of a client, added up (milli-credits)"}
	alone := page.Plot{Title: "One liar among honest clients", X: "round",
		Y: "utility of a client, added up (milli-credits)"}
	perMixed := float64(usual.clients) / float64(len(strategies))
	perAlone := float64((usual.clients + 4) / 5)
	paid := 0
	for s, strategy := range strategies {
		var m, a, served float64
		tried, pays := 0, 0
		lineM, lineA := page.Series{Name: strategy.name}, page.Series{Name: strategy.name}
		for n := range o.Rounds {
			if (n+1)%max(1, o.Rounds/20) != 0 && n+1 < o.Rounds {
				continue // twenty points are a line
			}
			ofM := over(runs, func(run *truths) float64 { return run.mixed[s][n] / perMixed })
			ofA := over(runs, func(run *truths) float64 { return run.alone[s][n] / perAlone })
			m, a = ofM.Mean, ofA.Mean
			lineM.Add(float64(n+1), m/1000, ofM.Within/1000)
			lineA.Add(float64(n+1), a/1000, ofA.Within/1000)
		}
		for _, run := range runs {
			served += run.served[s] / float64(o.Markets)
			tried, pays = tried+run.tried[s], pays+run.pays[s]
		}
		paid += pays
		mixed.Series, alone.Series = append(mixed.Series, lineM), append(alone.Series, lineA)
		t.Rows = append(t.Rows,
			[]any{strategy.name, m / float64(o.Rounds), Percent(served), a / float64(o.Rounds), tried, pays})
	}
	r.Tables, r.Plots = []Table{t}, []page.Plot{mixed, alone}
	r.Findings = []string{fmt.Sprintf("%d of %d lies paid.", paid, sumInts(t, 4))}
	return r, nil
}

func sumInts(t Table, column int) (n int) {
	for _, row := range t.Rows {
		n += row[column].(int)
	}
	return n
}

func playTruth(src *source, rounds int, seed uint64) (truths, error) {
	var out truths
	n := len(strategies)
	out.mixed, out.alone = make([][]float64, n), make([][]float64, n)
	out.served, out.tried, out.pays = make([]float64, n), make([]int, n), make([]int, n)
	rng := rand.New(rand.NewPCG(seed, 0x6c6965))

	s := newSim(src, usual, seed)
	// Terms come in four kinds, in turn; strategies change after every four clients, so that each has all
	// kinds.
	plays := func(person int) int { return person / 4 % n }
	sum, asked := make([]float64, n), make([]float64, n)
	for range rounds {
		ds := s.demands()
		r := s.round(ds, market.SettleQuoted, func(j, a int) market.Credits {
			return strategies[plays(ds[j].person)].claim(rng, ds[j].value[a])
		})
		places, err := clear(r)
		if err != nil {
			return out, err
		}
		for _, d := range ds {
			asked[plays(d.person)]++
		}
		for _, p := range places {
			d := ds[p.task]
			sum[plays(d.person)] += micro(d.value[p.agent] - d.quote[p.agent] - p.premium)
			out.served[plays(d.person)]++
		}
		s.serve(ds, places)
		for k := range n {
			out.mixed[k] = append(out.mixed[k], sum[k])
		}
	}
	for k := range n {
		out.served[k] /= max(asked[k], 1)
	}

	s = newSim(src, usual, seed)
	sum = make([]float64, n)
	for number := range rounds {
		ds := s.demands()
		r, places, err := s.honest(ds, market.SettleQuoted)
		if err != nil {
			return out, err
		}
		for liar := number % 5; liar < len(ds); liar += 5 {
			truth := gain(ds, places, liar)
			sum[0] += micro(truth)
			out.tried[0]++ // a truth told is no lie, but shows how often it was compared
			for k := 1; k < n; k++ {
				places, err := lied(r, liar, func(_ int, v market.Credits) market.Credits {
					return strategies[k].claim(rng, v)
				})
				if err != nil {
					return out, err
				}
				got := gain(ds, places, liar)
				sum[k] += micro(got)
				out.tried[k]++
				if got > truth {
					out.pays[k]++
				}
			}
		}
		s.serve(ds, places)
		for k := range n {
			out.alone[k] = append(out.alone[k], sum[k])
		}
	}
	out.tried[0] = 0
	return out, nil
}

// gain is a task's true utility at the quote: 0 if it was left out.
func gain(ds []demand, places []place, task int) market.Credits {
	for _, p := range places {
		if p.task == task {
			return ds[task].value[p.agent] - ds[task].quote[p.agent] - p.premium
		}
	}
	return 0
}
