package economics

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"

	"souk/market"
)

// private asks what a client gains by knowing more than the mechanism does: its own length of answer, and by
// warming a cache with a prefill that nobody needs.
func private(ctx context.Context, src *source, o Options) (Result, error) {
	t := Table{
		Columns: []string{"settle", "lies tried", "lies that paid", "share", "mean gain of a lie",
			"largest gain"},
		Note: "One client in turn knows the length of its next answer and claims what makes the round " +
			"choose as if the predictor knew it too: value + quoted cost - real cost, on every agent. " +
			"Micro-credits."}
	var findings []string
	for _, settle := range []string{market.SettleMetered, market.SettleQuoted} {
		runs, err := each(ctx, o, "private: "+settle, o.Markets,
			func(i int) (lies, error) { return playLengths(src, o.Rounds, o.seed(i), settle) })
		if err != nil {
			return Result{}, err
		}
		sum := sumLies(runs)
		tried := float64(max(sum.tried, 1))
		t.Rows = append(t.Rows, []any{settle, sum.tried, sum.pays, Percent(float64(sum.pays) / tried),
			micro(sum.total) / tried, micro(sum.most)})
		findings = append(findings,
			fmt.Sprintf("Settled as %s, %d of %d lies by a client that knows its length paid.", settle,
				sum.pays, sum.tried))
	}
	d := Table{
		Columns: []string{"settle", "honest: utility a round", "with dummy prefills", "difference",
			"standard error"},
		Note: "One client in four sends, before each conversation, a prefill of its first prompt to the " +
			"agent that suits it, pays for it, and gives up that round; against the same clients of the " +
			"same seed without. Means over markets, micro-credits a client and round."}
	for _, settle := range []string{market.SettleMetered, market.SettleQuoted} {
		runs, err := each(ctx, o, "dummy prefills: "+settle, o.Markets, func(i int) ([2]float64, error) {
			honest, err := playDummies(src, o.Rounds, o.seed(i), settle, false)
			if err != nil {
				return [2]float64{}, err
			}
			lied, err := playDummies(src, o.Rounds, o.seed(i), settle, true)
			return [2]float64{honest, lied}, err
		})
		if err != nil {
			return Result{}, err
		}
		var honest, lied, diff []float64
		for _, r := range runs {
			honest, lied, diff = append(honest, r[0]), append(lied, r[1]), append(diff, r[1]-r[0])
		}
		mean, dev := stat.MeanStdDev(diff, nil)
		if len(diff) < 2 {
			dev = 0
		}
		d.Rows = append(d.Rows,
			[]any{settle, stat.Mean(honest, nil), stat.Mean(lied, nil), mean,
				dev / math.Sqrt(float64(len(diff)))})
	}
	return Result{
		About: []string{
			"No mechanism of one round covers what a client knows and the predictor does not, nor what it " +
				"does between rounds; this is how large both are here.",
		},
		Findings: findings,
		Tables:   []Table{t, d},
	}, nil
}

func playLengths(src *source, rounds int, seed uint64, settle string) (out lies, err error) {
	s := newSim(src, usual, seed)
	for number := range rounds {
		ds := s.demands()
		r, places, err := s.honest(ds, settle)
		if err != nil {
			return out, err
		}
		for liar := number % 5; liar < len(ds); liar += 5 {
			d := &ds[liar]
			got, err := lied(r, liar,
				func(a int, v market.Credits) market.Credits { return v + d.quote[a] - d.real[a] })
			if err != nil {
				return out, err
			}
			out.add(s.keeps(ds, got, liar, settle) - s.keeps(ds, places, liar, settle))
		}
		s.serve(ds, places)
	}
	return out, nil
}

// keeps returns a task's true utility to its client once settled.
func (s *sim) keeps(ds []demand, places []place, task int, settle string) market.Credits {
	for _, p := range places {
		if p.task != task {
			continue
		}
		d := ds[task]
		usage := market.Usage{Prompt: d.turn.prompt, Cached: d.overlap[p.agent], Output: d.turn.output}
		most := s.people[d.person].terms.Cap()
		return d.value[p.agent] - p.premium - market.Settle(settle, s.nodes[p.agent].price, 0,
			d.quote[p.agent], usage, most-p.premium)
	}
	return 0
}

// playDummies gives the utility of a client and round among those that may send dummies.
func playDummies(src *source, rounds int, seed uint64, settle string, send bool) (float64, error) {
	s := newSim(src, usual, seed)
	sends := func(p int) bool { return p/4%4 == 0 }
	if send {
		s.dummies = sends
	}
	var sum market.Credits
	n := 0
	for i := range s.people {
		if sends(i) {
			n++
		}
	}
	for range rounds {
		ds := s.demands()
		_, places, err := s.honest(ds, settle)
		if err != nil {
			return 0, err
		}
		for _, p := range places {
			if d := ds[p.task]; sends(d.person) {
				sum += s.keeps(ds, places, p.task, settle)
				if d.dummy {
					sum -= d.value[p.agent] // what it claimed; to the client a dummy is worth nothing
				}
			}
		}
		s.serve(ds, places)
	}
	return micro(sum) / float64(rounds) / float64(n), nil
}
