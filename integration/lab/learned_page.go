package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"souk/bus/regular"
	"souk/integration/lab/learned"
	"souk/integration/lab/page"
	"souk/integration/lab/virtual"
)

// learnedWorlds names the traces of the page: one trace whose answers have recorded scores, and
// one of conversations that caches can serve.
var learnedWorlds = []string{"routed", "mtrag"}

// learnedRivals names the other rules of the page.
var learnedRivals = []string{"random", "best", "cheapest", "least-loaded", "two-block", "greedy-first",
	virtual.MarketName}

func routersCommand() *cobra.Command {
	o := virtual.CrowdOptions{Loads: []float64{0.6, 0.9}, Rules: append(learned.Names(), learnedRivals...),
		Traces: learnedWorlds, World: virtual.World{Terms: virtual.Tempers, Callers: virtual.OwnKeys}}
	seeds, seed, file := []uint{5}, uint64(1), ""
	var out output
	c := &cobra.Command{
		Use:   "routers",
		Short: "Judge routers that have learned, beside the best single model, and play them as rivals",
		Long: `Has the routers mf, graph, gmt and dual-contrastive choose a model for each recorded question that they have not
learned from, beside the best single model and who knows all answers; and plays them on a mixed fleet beside
other rules and the market. Their weights are built in: lab learn makes them anew. The same seeds give
the same figures on any machine.`,
		Example: "  lab routers --out integration/results\n" +
			"  lab learn --seed 2 --out other.weights && lab routers --weights other.weights",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if o.Seeds, err = seedsOf(seeds); err != nil {
				return err
			}
			if err := withFleet(&o.World, "mixed"); err != nil {
				return err
			}
			if file != "" {
				data, err := regular.Read(file, learned.MostBytes)
				if err != nil {
					return err
				}
				decode := func(group string) ([]*learned.Router, error) { return learned.Decode(data, group) }
				j, err := judge(decode, seed)
				if err != nil {
					return fmt.Errorf("%s: %w", file, err)
				}
				_, err = io.WriteString(c.OutOrStdout(), j.text.String())
				return err
			}
			o.Progress = progressOf("rules")
			p, err := routersPage(c.Context(), made(c), o, seed)
			if err != nil {
				return err
			}
			return out.put(c, p)
		},
	}
	f := c.Flags()
	out.flag(f, "routers")
	f.UintSliceVar(&seeds, "seeds", seeds,
		"how many runs of each rule, from seeds 1, 2, ...; or several seeds: 3,7,9")
	f.IntVar(&o.Tasks, "tasks", 1500, "tasks of one run")
	f.Uint64Var(&seed, "seed", seed, "of the samples of questions that intervals are of")
	f.StringVar(&file, "weights", "",
		"judge these, made by lab learn, and play nothing; the built-in ones if not given")
	o.Engines = 8
	return c
}

const routersHead = `Four published routers learn from recorded answers which model answers a question best. Each learns from four
fifths of the questions and chooses for those of the fifth that is left, five times over, so every figure below
is of questions that it has not learned from. What a question is called, which benchmark it is of and how long
its answers are, no router is told: it reads a *sketch* of the text, 64 numbers that say which n-grams are in
it. The best single model is found in the same four fifths. Brackets hold what the middle 95 of 100 samples of
as many questions come to (bootstrap, %d samples, seed %d). **beside** is how much more that is than what the
best single model has of the same questions; how all of them learn was chosen by what came of two of the five
parts, so **in three parts** is the same of the others alone. *Size* is the mean size of the models chosen, in thousands of
millions of parameters, where a table has it.
`

const routersHow = `
## What was simplified

| router | as published | here |
|---|---|---|
| mf | RouteLLM's matrix factorisation, 2024: a strong and a weak model, 128 numbers each, people's preferences, a text embedding of 1,536 numbers | all models, 32 numbers each; of two answers the one with the higher score is preferred; the sketch for the embedding |
| graph | GraphRouter, ICLR 2025: a graph of tasks, questions and models; texts of tasks and models read by a language model; learned anew for each weight of the cost; batches are normalised | the same graph and layers; a task is the mean sketch that is nearest, a model its size and price; learned once, for how good answers are; nothing is normalised |
| gmt | GMTRouter, 2025: users, sessions, turns and ratings, in two layers of attention over the whole graph, then one from model to user and question | the data has no users, sessions or turns: a benchmark stands for a user, eight of its questions for that user's past, and who asks is the benchmark whose mean sketch is nearest; one layer over the past |
| dual-contrastive | RouterDC, NeurIPS 2024: a language model (mDeBERTa v3) is tuned by two contrasts | no language model: a layer and a small network over the sketch are tuned by the same two contrasts; cosines are divided by 0.2, not 1 |

All learn alike: 15 times over the questions, in batches of 64, at one rate and decay, which were chosen by what
came of the first two of the five parts. The directions of
sketches were found in the questions' texts, those of held-out questions among them, without a score, as
a published embedding may have read the benchmarks that it is judged on; found anew for each part without its
texts, when these weights were made, they changed llmrouter's figures by 0.003 at most, up or down, and lowered
routeprofile's by up to 0.008. With the weights of another seed llmrouter's figures moved by 0.006 at most, and the four
stood in another order: nothing here tells them apart. A published embedding knows more: what is
said here is of the methods with what the data has, not of the published programs. Questions of llmrouter and
routeprofile are learned together, as 309 are in both; of routerarena's only the name of the benchmark is known, and that
is what is read. Weights are %d kB, %s makes them again, and their sources are in
[package learned](../lab/learned/doc.go) and the [notice](../lab/learned/data/NOTICE.md).
`

const routersWorld = `
## In the virtual world

Here they are rivals, on eight engines of three models: four with the scores of llama-3.1-8b-instruct, two of
mistral-small-24b and two of llama-3.3-70b, at providers' prices, before clients of four tempers. They are blind to load, as
published: a task goes at once to an engine, by lot, of the model that the router chooses, however long the line
is there. Each question is answered by weights that were not learned from it. In *routed* answers are as good
as was recorded for that question and model, and no prompt is found in a cache. In *mtrag* an answer is as good
as its engine's score, and most prompts begin as one before. A rule with a knob stands there with the value at
which welfare was greatest. ± is half of the 95 %% interval over %d seeds, 1 to %d. welfare is a second, in
thousandths of a credit; p50 and p99 are of the first token, in ms; share is of prompt tokens found in a cache.
On fleets whose engines are all alike, or of models that nobody has scores of, a learned router is the rule random.
`

// judged holds what routers come to on the sets of recorded answers.
type judged struct {
	text    strings.Builder
	plot    page.Plot
	figures map[string][]learned.Line
	left    [][]string // what was left out, by set
}

// judge judges the routers of each group, found by its name.
func judge(find func(group string) ([]*learned.Router, error), seed uint64) (*judged, error) {
	data, err := learned.Recorded()
	if err != nil {
		return nil, err
	}
	j := &judged{plot: page.Plot{Title: "quality beside the best single model",
		Y: "points of 100, and 95 % of samples"},
		figures: map[string][]learned.Line{}}
	for _, g := range learned.Groups {
		routers, err := find(g.Name)
		if err != nil {
			return nil, err
		}
		_, both, err := data.Join(&g)
		if err != nil {
			return nil, err
		}
		for _, name := range g.Sets {
			set := data.Set(name)
			lines, err := learned.Judge(data, set, routers, seed)
			if err != nil {
				return nil, err
			}
			j.figures[name] = lines
			fmt.Fprintf(&j.text, "\n## %s: %d models, %d questions\n\n", name, len(set.Models), len(set.Rows))
			j.text.WriteString(page.Table([]string{"who chooses", "quality", "beside", "in three parts",
				"size"},
				lineCells(lines)))
			j.text.WriteString("\n" + said(lines))
			unknown := 0
			for _, m := range set.Models {
				if _, ok := data.Cards[m]; !ok {
					unknown++
				}
			}
			for _, l := range lines {
				if l.Router {
					j.plot.Put(l.Who, name, 100*l.More, 50*(l.MoreHigh-l.MoreLow))
				}
			}
			j.left = append(j.left, []string{name, fmt.Sprint(len(set.Rows)), fmt.Sprint(set.Doubled),
				fmt.Sprint(set.Empty), fmt.Sprint(set.Missing), fmt.Sprint(both), fmt.Sprint(unknown)})
		}
	}
	return j, nil
}

func routersPage(ctx context.Context, command string, o virtual.CrowdOptions, seed uint64) (*page.Page,
	error) {
	j, err := judge(learned.Routers, seed)
	if err != nil {
		return nil, err
	}
	p := &page.Page{Name: "routers", Title: "Routers that learn", Command: command, Figures: j.figures,
		Plots: map[string]page.Plot{"beside": j.plot}}
	var b strings.Builder
	fmt.Fprintf(&b, routersHead, learned.Samples, seed)
	b.WriteString(j.text.String() + page.Place("beside"))
	b.WriteString("\n## What was left out\n\nOf rows with one text all but the first are left out, as are rows without a " +
		"score. A score that two sets have of one question and model is learned from as their mean, and judged as each " +
		"set has it.\n\n")
	b.WriteString(page.Table([]string{"set", "questions", "doubled rows", "empty rows", "missing scores",
		"scores in two sets", "models no table has"}, j.left))
	fmt.Fprintf(&b, routersHow, (learned.WeightBytes()+500)/1000, "`lab learn`")
	rows, err := virtual.Crowd(ctx, o)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(&b, routersWorld, len(o.Seeds), len(o.Seeds))
	for _, trace := range o.Traces {
		about := ""
		var cells [][]string
		chart := page.Plot{Title: trace + ", welfare a second", Y: "thousandths of a credit"}
		for i := range rows {
			r := &rows[i]
			if r.Trace != trace {
				continue
			}
			about = r.About
			cells = append(cells, worldCells(r))
			chart.Put(r.Rule, fmt.Sprintf("load %.1f", r.Load), r.All["welfare"].Mean,
				r.All["welfare"].Within)
		}
		fmt.Fprintf(&b, "\n### %s on mixed\n\nPlayed are %s.\n\n", trace, about)
		b.WriteString(page.Table([]string{"load", "rule", "welfare", "p50", "p99", "refused", "quality",
			"share"}, cells))
		p.Plots[trace] = chart
		b.WriteString(page.Place(trace))
	}
	p.Text = b.String()
	return p, nil
}

func lineCells(lines []learned.Line) (cells [][]string) {
	for _, l := range lines {
		size := ""
		if l.Size > 0 {
			size = fmt.Sprintf("%.0f", l.Size)
		}
		beside := fmt.Sprintf("%+.3f [%+.3f, %+.3f]", l.More, l.MoreLow, l.MoreHigh)
		unseen := fmt.Sprintf("%+.3f [%+.3f, %+.3f]", l.Unseen[0], l.Unseen[1], l.Unseen[2])
		if l.Who == learned.Single {
			beside, unseen = "", ""
		}
		cells = append(cells, []string{l.Who, fmt.Sprintf("%.3f [%.3f, %.3f]", l.Quality, l.Low, l.High),
			beside, unseen,
			size})
	}
	return cells
}

// said says which routers are beyond the best single model, and which are below.
func said(lines []learned.Line) string {
	var above, below, level []string
	oracle, most := 0.0, math.Inf(-1)
	for _, l := range lines {
		switch {
		case l.Who == learned.Oracle:
			oracle = l.More
		case !l.Router:
		case l.MoreLow > 0:
			above, most = append(above, l.Who), max(most, l.More)
		case l.MoreHigh < 0:
			below = append(below, l.Who)
		default:
			level = append(level, l.Who)
		}
	}
	var parts []string
	for _, x := range []struct {
		of   []string
		what string
	}{{above, "Above the best single model"}, {level, "Not told from it"}, {below, "Below it"}} {
		if len(x.of) > 0 {
			parts = append(parts, x.what+": "+strings.Join(x.of, ", "))
		}
	}
	text := strings.Join(parts, ". ") + "."
	if most > 0 && oracle > 0 {
		text += fmt.Sprintf(" The best of them goes %.0f %% of the way to who knows all answers.",
			100*most/oracle)
	}
	return text + "\n"
}

func worldCells(r *virtual.Row) []string {
	cells := []string{fmt.Sprintf("%.1f", r.Load), r.Label()}
	for _, name := range []string{"welfare", "p50", "p99", "refused", "quality", "share"} {
		i := slices.IndexFunc(virtual.Columns, func(c virtual.Column) bool { return c.Name == name })
		e := r.All[name]
		cells = append(cells, fmt.Sprintf("%.*f ± %.*f", virtual.Columns[i].Digits, e.Mean,
			virtual.Columns[i].Digits,
			e.Within))
	}
	return cells
}
