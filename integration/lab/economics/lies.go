package economics

import (
	"context"
	"fmt"
	"strings"

	"souk/bus"
	"souk/integration/lab/virtual"
	"souk/market"
)

// A lie is what a client says of every task, beside its true terms; the first is the truth.
type lie struct {
	name string
	tell func(*bus.Terms)
}

var fixedLies = []lie{{"the truth", func(*bus.Terms) {}},
	{"worth x 1/2", worthTimes(1, 2)}, {"worth x 2/3", worthTimes(2, 3)},
	{"worth x 3/2", worthTimes(3, 2)}, {"worth x 2", worthTimes(2, 1)},
	{"a second x 1/2", secondTimes(0.5)}, {"a second x 2", secondTimes(2)},
	{"patience x 1/2", patienceTimes(1, 2)}, {"patience x 2", patienceTimes(2, 1)}}

func worthTimes(by, of market.Credits) func(*bus.Terms) {
	return func(t *bus.Terms) { said := *t.Worth * by / of; t.Worth = &said }
}

// secondTimes multiplies what time weighs beside quality, (1 - delta) / delta.
func secondTimes(x float64) func(*bus.Terms) {
	return func(t *bus.Terms) { said := *t.Delta / (*t.Delta + x*(1-*t.Delta)); t.Delta = &said }
}

func patienceTimes(by, of int64) func(*bus.Terms) {
	return func(t *bus.Terms) { said := *t.PatienceMS * by / of; t.PatienceMS = &said }
}

var (
	lieFleets = []string{"mixed", "two-speeds"}
	lieLoads  = []float64{0.85, 1, 1.1}
	// all, and each alone; see [souk/cmd/replay.Mix]
	lieTempers = []string{"all", "hurried", "exacting", "balanced", "thrifty"}
)

const (
	everyLiar  = 8 // of the clients one in so many
	mostOfLies = 2 // per cent that a lie may gain
)

// told holds the tasks of the clients that lie, by play and turn.
type told struct {
	got    map[[2]int]virtual.Got
	rounds uint64
}

// manyRounds plays each lie about terms over a whole run of arrivals, beside the truth from the same seed.
func manyRounds(ctx context.Context, _ *source, o Options) (Result, error) {
	var worlds []virtual.World // by fleet, then by load
	for _, name := range lieFleets {
		w := virtual.World{Terms: virtual.Tempers}
		var err error
		if w.Trace, err = virtual.TraceNamed("mtrag"); err == nil {
			w.Fleet, err = virtual.FleetNamed(name)
		}
		if err != nil {
			return Result{}, err
		}
		at, err := w.At(lieLoads)
		if err != nil {
			return Result{}, err
		}
		worlds = append(worlds, at...)
	}
	seeds, tasks, n := max(o.Markets*2/3, 1), 6*o.Rounds, len(fixedLies)
	all, err := each(ctx, o, "lies", len(worlds)*seeds*n, func(i int) (told, error) {
		w, seed := worlds[i/(seeds*n)], i/n%seeds
		w.Seed, w.Tasks = o.seed(seed), tasks
		liar := func(client int) bool { return client/4%everyLiar == seed%everyLiar } // two of each temper
		got, rounds, err := virtual.PlayLie(w, liar, fixedLies[i%n].tell)
		by := map[[2]int]virtual.Got{}
		for _, g := range got {
			by[[2]int{g.Play, g.Turn}] = g
		}
		return told{by, rounds}, err
	})
	if err != nil {
		return Result{}, err
	}
	least := all[0].rounds
	for i := range all {
		least = min(least, all[i].rounds)
	}
	t := Table{Columns: append([]string{"load", "said", "by the truth", "gain a task", "gain"},
		lieTempers[1:]...),
		Note: "By the truth: utility a task of the clients that lie, of the tasks that both runs have, in " +
			"micro-credits. Gain: by how much they have more, with the 95 % interval of the mean over seeds, in " +
			"micro-credits and in per cent of that; and the same of those of each temper."}
	var pay, open []string
	figures, gain, lose := 0, 0, 0
	for k := range len(lieLoads) + 1 {
		load, in := "all", float64(len(worlds)) // in so many worlds
		if k < len(lieLoads) {
			load, in = fmt.Sprint(lieLoads[k]), float64(len(lieFleets))
		}
		for l, said := range fixedLies {
			row := []any{load, said.name}
			for _, temper := range lieTempers {
				truth, more := make([]float64, seeds), make([]float64, seeds) // of its worlds
				for i, w := range worlds {
					for seed := range seeds {
						if at := (i*seeds + seed) * n; load == "all" || load == fmt.Sprint(w.Load) {
							u, g := compared(all[at].got, all[at+l].got, temper)
							truth[seed], more[seed] = truth[seed]+u/in, more[seed]+g/in
						}
					}
				}
				u, g := virtual.NewEstimate(truth), virtual.NewEstimate(more)
				if temper == lieTempers[0] {
					row = append(row, u.Mean, fmt.Sprintf("%+.1f ± %.1f", g.Mean, g.Within))
				}
				if l == 0 {
					row[3] = 0.0
					row = append(row, g.Mean)
					continue
				}
				part := 100 / max(u.Mean, 1)
				percent, within := part*g.Mean, part*g.Within
				row = append(row, fmt.Sprintf("%+.1f ± %.1f %%", percent, within))
				figures++
				if percent > within {
					gain++
				} else if percent < -within {
					lose++
				}
				what := fmt.Sprintf("%s (%s, load %s: %+.1f ± %.1f %%)", said.name, temper, load, percent,
					within)
				switch {
				case percent-within > mostOfLies:
					pay = append(pay, what)
				case percent > max(mostOfLies, within):
					open = append(open, what)
				}
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return Result{
		About: []string{
			fmt.Sprintf("%d tasks of mtrag come at random at 0.85, 1 and 1.1 times what a fleet can serve (mixed "+
				"and two-speeds, as on the page [frontier](frontier.md)), from %d clients of four tempers, in the "+
				"market itself in virtual time, over at least %d rounds; seeds: %d. Two clients of each temper, "+
				"one in %d of all, say all along what the row says: worth, or what a second weighs beside quality, "+
				"(1 - delta) / delta, or patience, times a number. Each run stands beside the one from its seed in "+
				"which they tell the truth, task by task. Utility is by true terms: worth at the first token that "+
				"there was, less the payment; 0 of a refused task. A dialogue goes on after a refused turn, so "+
				"both runs ask the same.", tasks, virtual.Asking, least, seeds, everyLiar),
			"One liar alone would be exact, and needs as many runs as there are clients. Eight who lie alike also " +
				"meet one another's lies, and move prices eight times as far. Coming again, or under several " +
				"names, is not played. What can gain: a seat to come is no promise, so a task whose seconds are " +
				"cheap is put off for others, and begins sooner for little if it says that they are dear."},
		Findings: []string{
			fmt.Sprintf("Gains whose whole interval is above %d %%: %s.", mostOfLies, listed(pay)),
			fmt.Sprintf("Gains above %d %% whose whole interval is above 0: %s.", mostOfLies, listed(open)),
			fmt.Sprintf("Of %d gains %d have their whole interval above 0, and %d below. Where no lie changed "+
				"anything, chance alone would put some %.0f above, and as many below.", figures, gain, lose,
				float64(figures)*0.025),
		},
		Tables: []Table{t},
	}, nil
}

func listed(all []string) string {
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

// compared returns the mean utility under the truth of the tasks that both runs have, in micro-credits, and
// by how much more the lie gave.
func compared(truth, lied map[[2]int]virtual.Got, temper string) (utility, more float64) {
	var sum, gained market.Credits
	tasks := 0
	for name, was := range truth {
		if is, ok := lied[name]; ok && (temper == lieTempers[0] || temper == was.Temper) {
			tasks, sum, gained = tasks+1, sum+was.Utility, gained+is.Utility-was.Utility
		}
	}
	return micro(sum) / float64(max(tasks, 1)), micro(gained) / float64(max(tasks, 1))
}
