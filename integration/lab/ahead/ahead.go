// Package ahead measures the runtime policy ahead: what it is worth to have an answer computed as the next
// prompt will have it, on engines whose template leaves reasoning out.
package ahead

import (
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"souk/integration/lab/page"
	"souk/integration/lab/virtual"
	"souk/market"
)

// Options say how much is played.
type Options struct {
	Callers, Thought, Tasks, Seeds int
	Said                           func() // hears of each run; may be nil
}

// DefaultOptions returns the page's options.
func DefaultOptions() Options { return Options{Callers: 8, Thought: 300, Tasks: 1500, Seeds: 5} }

// Figures counts over the turns of a run that are not their session's first.
type Figures struct {
	TTFT, P99 float64 // ms
	Cached    float64 // share of the tokens of prompts
	Made      float64 // texts computed ahead, a turn
	Cost      float64 // of these by the card, in per cent of what clients pay
}

func (f *Figures) all() []*float64 {
	return []*float64{&f.TTFT, &f.P99, &f.Cached, &f.Made, &f.Cost}
}

// Row holds the figures of a trace under one policy of the hook keep.
type Row struct {
	Trace, About, Policy string
	Mean, Off            Figures // Off: how far the mean may be off (95 %)
	Gain, GainOff        float64 // of TTFT against no policy, in per cent, from paired runs
}

// policies are compared: none first.
var policies = []string{"", "ahead"}

// Runs returns the number of runs.
func (o *Options) Runs() int { return o.Seeds * len(policies) * len(virtual.AheadSettings(0, 0)) }

// Compare plays all traces with and without the policy.
func Compare(o Options) (rows []Row, err error) {
	for _, t := range virtual.AheadSettings(o.Callers, o.Thought) {
		var base []float64
		for _, p := range policies {
			row := Row{Trace: t.Name, About: t.About, Policy: p}
			var runs []Figures
			var gains []float64
			for seed := range o.Seeds {
				f, err := o.play(&t, p, uint64(seed+1))
				if err != nil {
					return nil, err
				}
				if runs = append(runs, f); p == "" {
					base = append(base, f.TTFT)
				}
				gains = append(gains, 100*(base[seed]-f.TTFT)/base[seed])
			}
			for i := range row.Mean.all() {
				var all []float64
				for k := range runs {
					all = append(all, *runs[k].all()[i])
				}
				e := virtual.NewEstimate(all)
				*row.Mean.all()[i], *row.Off.all()[i] = e.Mean, e.Within
			}
			gain := virtual.NewEstimate(gains)
			row.Gain, row.GainOff = gain.Mean, gain.Within
			rows = append(rows, row)
		}
	}
	return rows, nil
}

func (o *Options) play(t *virtual.Trace, policy string, seed uint64) (f Figures, err error) {
	s, err := t.Setting(2)
	if err != nil {
		return f, err
	}
	s.Seed, s.Warm, s.Length, s.Tasks = seed, 0, 0, o.Tasks
	all, v, err := virtual.PlayKept(s, policy, func(m *virtual.MarketOptions) {
		m.Wishes = true
	})
	if err != nil {
		return f, fmt.Errorf("ahead: %s: %w", t.Name, err)
	}
	if o.Said != nil {
		o.Said()
	}
	var waits []float64
	prompt, cached, paid := 0, 0, market.Credits(0)
	for _, r := range all {
		paid += virtual.Card.Cost(market.Usage{Prompt: r.Prompt, Cached: r.Cached, Output: r.Output})
		if r.Turn == 0 || r.Refused {
			continue
		}
		waits = append(waits, float64((r.First-r.Arrived).Microseconds())/1000)
		prompt, cached = prompt+r.Prompt, cached+r.Cached
	}
	slices.Sort(waits)
	f = Figures{TTFT: stat.Mean(waits, nil), P99: stat.Quantile(0.99, stat.Empirical, waits, nil),
		Cached: float64(cached) / float64(prompt), Made: float64(v.Wished) / float64(len(all)),
		Cost: 100 * float64(v.WishCost) / float64(paid)}
	return f, nil
}

const head = `Where a chat template leaves reasoning out of later prompts, what an engine holds of an answer follows that
reasoning, and the session's next prompt finds none of it. The policy ` + "`ahead`" + ` has prompt and answer
computed as the next prompt will have them, once, within a second of a turn's end. A hub that runs it says so
(` + "`Wanted`" + ` in its ` + "`/stats`" + `) and has nobody do it: only here engines do, where a slot is free and nobody waits,
and nobody pays. The real hub and agents play recorded sessions in virtual time, with simulated engines, once
without a policy and once with it. **TTFT** is of turns that are not their session's first, from the question to
the first token; **cached** is of the tokens of these prompts; **ahead** is what the texts
computed ahead would cost, in per cent of what clients pay by the card; **gain** is of TTFT, from paired runs;
± says with 95 % how far the mean may be off.
`

// Page is the page of rows, which a command has made.
func Page(command string, o Options, rows []Row) *page.Page {
	p := &page.Page{Name: "ahead", Title: "Answers computed ahead", Command: command,
		Plots: map[string]page.Plot{}}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nOf each there are %d runs of %d turns, with %d sessions at a time on two engines and %d tokens "+
		"of reasoning before each answer.\n", head, o.Seeds, o.Tasks, o.Callers, o.Thought)
	var worth []string
	for from := 0; from < len(rows); {
		trace := rows[from].Trace
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n\n", trace, rows[from].About)
		plot := page.Plot{Title: trace, Y: "mean first token, ms", Series: []page.Series{{}}}
		var table [][]string
		for ; from < len(rows) && rows[from].Trace == trace; from++ {
			r := &rows[from]
			name, gain := "none", "-"
			if r.Policy != "" {
				name, gain = r.Policy, fmt.Sprintf("%+.1f ± %.1f", r.Gain, r.GainOff)
				if r.Gain-r.GainOff >= 10 {
					worth = append(worth, r.Trace)
				}
			}
			table = append(table, []string{name, fmt.Sprintf("%.1f ± %.1f", r.Mean.TTFT, r.Off.TTFT),
				fmt.Sprintf("%.0f ± %.0f", r.Mean.P99, r.Off.P99), fmt.Sprintf("%.3f", r.Mean.Cached),
				fmt.Sprintf("%.2f", r.Mean.Made), fmt.Sprintf("%.2f", r.Mean.Cost), gain})
			plot.Series[0].Add(float64(len(plot.Groups)), r.Mean.TTFT, r.Off.TTFT)
			plot.Groups = append(plot.Groups, name)
		}
		b.WriteString(page.Table([]string{"keep", "TTFT ms", "p99 ms", "cached", "texts a turn", "ahead %",
			"gain %"},
			table))
		p.Plots[trace] = plot
		b.WriteString(page.Place(trace))
	}
	b.WriteString("\nIt is worth it where TTFT falls by a tenth: ")
	if len(worth) == 0 {
		b.WriteString("on none of these. It is off by default.\n")
	} else {
		fmt.Fprintf(&b, "on %s. It is off by default, since it is the template that decides.\n",
			strings.Join(worth, " and "))
	}
	p.Text = b.String()
	return p
}
