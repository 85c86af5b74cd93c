package truth

import (
	"fmt"
	"slices"
	"strings"

	"souk/integration/lab/page"
	"souk/integration/lab/virtual"
)

// A market that is told the truth may be worth so many per cent less than the best rule that believes.
const most = 3

// Page is the page of the results, which a command has made.
func (r *Results) Page(command string) *page.Page {
	p := &page.Page{Name: "truth", Title: "The price of truth", Command: command,
		Plots: map[string]page.Plot{}}
	var b strings.Builder
	fmt.Fprintf(&b, head, loads(r.Loads), len(tempers), clients, r.Epochs, epoch, r.Measured, holds,
		short(ceiling), numbers(r.Seeds))
	b.WriteString("\n## What this says\n\n" + strings.Join(r.findings(), "\n") + "\n")
	b.WriteString(r.told())
	for _, load := range r.Loads {
		fmt.Fprintf(&b, "\n## Who lies, at %s of capacity\n\n%s", short(load), lied)
		b.WriteString(page.Place("lies"+short(load)) + r.lied(load))
		p.Plots["lies"+short(load)] = r.bars(load)
	}
	b.WriteString("\n## While they learn\n\nAll lie, at " + short(r.Loads[0]) + " of capacity: welfare in each " +
		fmt.Sprint(judges) + " epochs beside the same epochs told the truth, from the same seeds.\n")
	b.WriteString(page.Place("learning"))
	p.Plots["learning"] = r.learning()
	b.WriteString("\n## Who ends where\n\n" + ends)
	for _, load := range r.Loads {
		fmt.Fprintf(&b, "\n### Callers, at %s\n\n%s\n### Owners, at %s\n\n%s", short(load), r.callersEnd(load),
			short(load), r.ownersEnd(load))
	}
	b.WriteString("\n" + aside)
	p.Text = b.String()
	return p
}

const head = `What a market is worth, and what rules are that believe what they are told, when callers and owners of engines
say what pays them best. The hub and the agents are the real ones, in virtual time; engines are simulated; a rule is one
of the table of rules, which takes terms, prices and scores as it is told them. Played are conversations of mtRAG on the
fleet mixed, eight engines of five kinds, at %s of what it can serve; callers are of %d tempers, %d in all, who ask
turn by turn; a dialogue goes on after a refused turn, so that nobody asks other things for having lied.

**Lies.** A caller says of each task its worth, what a second weighs beside quality ((1 - delta) / delta) and its
patience, each times a number, and hints: whether its answer will be long, and whether the session ends. An owner says
its engine's price, its score (at most 1) and how many tokens it found cached, which is what is billed. One that tells
the truth asks what serving costs it, so it earns nothing under vcg.

**Learning.** Liars learn for %d epochs of %s, some four or five tasks each, of one play, and say what has paid best in another, of
other arrivals before empty engines, of which %d epochs are measured once caches are full. All liars of a temper learn together, an owner by itself, about each thing apart: half of the time one says what has paid
best of a thing, else any lie about it that was not given up. A lie is given up, or taken for the best, every 100 epochs,
where its mean is two standard errors below the best's, or above the truth's; so who cannot tell that a lie pays tells the
truth. A caller hears after each task what it was worth to it, less what it paid. An owner says the same for %d epochs and
hears what it was paid beyond true costs for the tasks that it was sent in them.

**Welfare** is what answers were worth by true terms, as they were served, less true costs, in thousandths of a credit a
second. ± is half of the 95 %% interval over the seeds, of which differences are of the same one. Under tariff an owner
asks at most %s of a usual task's cost beside the card; who has no rival in its class gets all of that. Seeds: %s.
`

const lied = `**By truth** is beside the same way told the truth, **by the best** beside the best believer told the truth. **Callers** is
what all callers have a second, by their true terms; **liars** and **honest** are what those have beside what the same
callers have where all tell the truth, which under first price is nothing. **Owners** is what owners are paid a second
beyond true costs. **Account** is what callers pay a second beyond what owners
are paid: less than 0 would be a deficit, and **least** is the least of it for a task. **In the red** are
callers and owners that end with less than nothing, of all seeds together.
`

const ends = `What liars say in the end: each lie, and from how many seeds where that is not all. Not named is the truth.
`

const aside = `## What is not played

Liars of a temper learn as one, and each thing apart from the others: lies that pay together only are not found, nor are
those of less than some per cent where few try them. Nobody lies in one turn and not in the next, splits its name, or
agrees with others. Nobody judges answers, so that no way corrects a score; a hub that hears feedback does. Under tariff a class's card is taken as given, and the ask alone is the owner's: who may change its card has the lies
of vcg. Rules hear no hints: where one ends with a lie in hints, chance looked like a gain, as it may in any
other row, too.
`

func short(x float64) string { return fmt.Sprintf("%.2f", x) }

func numbers(all []uint64) string {
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(all)), ", "), "[]")
}

func loads(all []float64) string {
	var said []string
	for _, x := range all {
		said = append(said, short(x))
	}
	return strings.Join(said, " and ")
}

func percent(x []float64) string {
	e := virtual.NewEstimate(x)
	if len(x) < 2 {
		return fmt.Sprintf("%+.1f %%", e.Mean)
	}
	return fmt.Sprintf("%+.1f ± %.1f %%", e.Mean, e.Within)
}

func amount(x []float64) string {
	e := virtual.NewEstimate(x)
	if len(x) < 2 {
		return fmt.Sprintf("%.2f", e.Mean)
	}
	return fmt.Sprintf("%.2f ± %.2f", e.Mean, e.Within)
}

// whole is the welfare of all epochs but the first hundred, in which caches fill.
func whole(o *Outcome) float64 {
	sum := 0.0
	for _, x := range o.Curve[1:] {
		sum += x / float64(len(o.Curve)-1)
	}
	return sum
}

func (r *Results) findings() (all []string) {
	say := func(format string, args ...any) { all = append(all, "* "+fmt.Sprintf(format, args...)) }
	for _, load := range r.Loads {
		best := r.believer(load)
		d := r.find(load, markets[0].Name, Shares[0].Name).against(best, whole)
		e := virtual.NewEstimate(d)
		word := "reached"
		if e.Mean < -most {
			word = "**not reached**"
		}
		say("Told the truth, at %s of capacity, the market is worth %s beside %s, the best rule that believes; at most %d %% "+
			"less was asked: %s.", short(load), percent(d), best.way.Name, most, word)
	}
	for _, load := range r.Loads {
		for _, w := range r.ways(load) {
			var said []string
			for _, s := range Shares[1:4] {
				if c := r.find(load, w, s.Name); c != nil {
					d := c.against(r.find(load, w, Shares[0].Name), welfare)
					said = append(said, fmt.Sprintf("%s where %s", percent(d), s.who()))
				}
			}
			say("At %s, %s beside itself told the truth: %s.", short(load), w, strings.Join(said, "; "))
		}
	}
	for _, load := range r.Loads {
		for _, s := range Shares[1:] {
			c := r.find(load, markets[0].Name, s.Name)
			if c == nil {
				continue
			}
			var than []string
			for _, w := range r.ways(load) {
				o := r.find(load, w, s.Name)
				if o == nil || o == c {
					continue
				}
				if e := virtual.NewEstimate(c.against(o, welfare)); e.Mean < 0 {
					than = append(than, fmt.Sprintf("%s (%s)", w, percent(c.against(o, welfare))))
				}
			}
			if len(than) > 0 {
				say("The market **loses**, at %s where %s, beside %s with as many liars.", short(load), s.who(),
					strings.Join(than, ", "))
			}
		}
	}
	deficits := 0
	for i := range r.cells {
		for _, o := range r.cells[i].all {
			if o.Account < 0 || o.Least < 0 {
				deficits++
			}
		}
	}
	say("The account had a deficit in %d of %d plays, over all tasks or for one.", deficits, len(r.cells)*len(r.Seeds))
	return all
}

// below counts those that are less than nothing.
func below(all []float64) (n int) {
	for _, x := range all {
		if x < 0 {
			n++
		}
	}
	return n
}

// who says who lies.
func (s Share) who() string {
	if s.Name == "a tenth" || s.Name == "a third" {
		return s.Name + " lies"
	}
	return s.Name + " lie"
}

// ways are the names of those that are played at a load, in order.
func (r *Results) ways(load float64) (names []string) {
	for i := range r.cells {
		if c := &r.cells[i]; c.load == load && !slices.Contains(names, c.way.Name) {
			names = append(names, c.way.Name)
		}
	}
	return names
}

// told is the table of all ways told the truth.
func (r *Results) told() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## All tell the truth\n\nOver all epochs but the first %d, in which caches fill. Rules are those of the "+
		"table that believe what they are told, with each value of their knobs; of posted that is the price that all ask, times "+
		"the card.\n", judges)
	for _, load := range r.Loads {
		best := r.believer(load)
		var rows [][]string
		before := ""
		row := func(c *cell) {
			about := c.way.About
			refused := c.of(func(o *Outcome) float64 { return 100 * o.Refused })
			if about == before {
				about = ""
			} else {
				before = about
			}
			rows = append(rows, []string{c.way.Name, amount(c.of(whole)), percent(c.against(best, whole)),
				fmt.Sprintf("%.1f %%", virtual.NewEstimate(refused).Mean), about})
		}
		for i := range r.cells {
			if c := &r.cells[i]; c.load == load && c.way.rule == "" && c.share == Shares[0] {
				row(c)
			}
		}
		for i := range r.believers {
			if c := &r.believers[i]; c.load == load {
				row(c)
			}
		}
		fmt.Fprintf(&b, "\n### At %s of capacity\n\n%s", short(load),
			page.Table([]string{"way", "welfare a second", "by the best", "refused", "what it does"}, rows))
	}
	return b.String()
}

// had compares what some callers have a second with what the same have in another cell, in per cent, by seed;
// it is empty where there are no such callers.
func (c *cell) had(truth *cell, seeds []uint64, liars bool) (x []float64) {
	for i, o := range c.all {
		var is, was float64
		for caller := range o.Had {
			if lies(c.share.Callers, caller/len(tempers), seeds[i]) == liars {
				is, was = is+o.Had[caller], was+truth.all[i].Had[caller]
			}
		}
		if was != 0 {
			x = append(x, 100*(is-was)/max(was, -was))
		}
	}
	return x
}

func (r *Results) lied(load float64) string {
	var rows [][]string
	best := r.believer(load)
	for i := range r.cells {
		c := &r.cells[i]
		if c.load != load {
			continue
		}
		truth := r.find(load, c.way.Name, Shares[0].Name)
		side := func(liars bool) string {
			x := c.had(truth, r.Seeds, liars)
			if c == truth || c.way.first || len(x) == 0 {
				return "-"
			}
			return percent(x)
		}
		by := "-"
		if c != truth {
			by = percent(c.against(truth, welfare))
		}
		callersRed, ownersRed, least := 0, 0, 0.0
		for k, o := range c.all {
			callersRed, ownersRed = callersRed+below(o.Had), ownersRed+below(o.Profits)
			if k == 0 || o.Least < least {
				least = o.Least
			}
		}
		total := func(of func(*Outcome) []float64) string {
			return amount(c.of(func(o *Outcome) (sum float64) {
				for _, x := range of(o) {
					sum += x
				}
				return sum
			}))
		}
		rows = append(rows, []string{c.way.Name, c.share.Name, amount(c.of(welfare)), by,
			percent(c.against(best, welfare)), total(func(o *Outcome) []float64 { return o.Had }), side(true),
			side(false), total(func(o *Outcome) []float64 { return o.Profits }),
			amount(c.of(func(o *Outcome) float64 { return o.Account })), fmt.Sprintf("%.4f", least),
			fmt.Sprintf("%d and %d", callersRed, ownersRed)})
	}
	return page.Table([]string{"way", "who lies", "welfare", "by truth", "by the best", "callers", "liars",
		"honest", "owners", "account", "least", "in the red"}, rows)
}

// bars are the welfare of each way by who lies, beside the best believer told the truth.
func (r *Results) bars(load float64) page.Plot {
	best := r.believer(load)
	p := page.Plot{Title: "Welfare by who lies, at " + short(load) + " of capacity",
		Y: "% of " + best.way.Name + " told the truth"}
	for i := range r.cells {
		c := &r.cells[i]
		if c.load != load {
			continue
		}
		e := virtual.NewEstimate(c.against(best, welfare))
		p.Put(c.way.Name, c.share.Name, e.Mean, e.Within)
	}
	return p
}

func (r *Results) learning() page.Plot {
	p := page.Plot{Title: "Welfare while all learn to lie", X: "epochs", Y: "% beside the truth"}
	load := r.Loads[0]
	for _, w := range r.ways(load) {
		c, truth := r.find(load, w, Shares[3].Name), r.find(load, w, Shares[0].Name)
		line := page.Series{Name: w}
		for k := range c.all[0].Curve {
			e := virtual.NewEstimate(c.against(truth, func(o *Outcome) float64 { return o.Curve[k] }))
			line.Add(float64((k+1)*judges), e.Mean, e.Within)
		}
		p.Series = append(p.Series, line)
	}
	return p
}

// said lists the lies about things, with how many of the seeds end with each.
func said(of []thing, all [][]int) string {
	var out []string
	for i, t := range of {
		for k := 1; k < len(t.Said); k++ {
			n := 0
			for _, x := range all {
				if x[i] == k {
					n++
				}
			}
			if n == 0 {
				continue
			}
			s := t.Name + " " + t.Said[k]
			if n < len(all) {
				s += fmt.Sprintf(" (%d of %d)", n, len(all))
			}
			out = append(out, s)
		}
	}
	if out == nil {
		return "the truth"
	}
	return strings.Join(out, ", ")
}

func (r *Results) callersEnd(load float64) string {
	var rows [][]string
	for i := range r.cells {
		c := &r.cells[i]
		if c.load != load || c.share.Callers == 0 {
			continue
		}
		row := []string{c.way.Name, c.share.Name}
		for t := range tempers {
			var all [][]int
			for _, o := range c.all {
				all = append(all, o.Callers[t])
			}
			row = append(row, said(callers, all))
		}
		rows = append(rows, row)
	}
	return page.Table(append([]string{"way", "who lies"}, tempers...), rows)
}

func (r *Results) ownersEnd(load float64) string {
	kinds := [][]int{{0, 1, 2, 3}, {4}, {5}, {6}, {7}}
	heading := []string{"way", "who lies", "four llama-8b", "qwen-32b-rtx", "qwen-32b-h100",
		"llama-70b-h100", "llama-70b-b200"}
	var rows [][]string
	for i := range r.cells {
		c := &r.cells[i]
		if c.load != load || c.share.Owners == 0 {
			continue
		}
		row := []string{c.way.Name, c.share.Name}
		for _, engines := range kinds {
			var all [][]int
			for _, o := range c.all {
				for _, e := range engines {
					if o.Owners[e] != nil {
						all = append(all, o.Owners[e])
					}
				}
			}
			if all == nil {
				row = append(row, "-")
				continue
			}
			row = append(row, said(owners, all))
		}
		rows = append(rows, row)
	}
	return page.Table(heading, rows)
}
