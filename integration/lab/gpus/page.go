package gpus

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"souk/integration/lab/compare"
	"souk/integration/lab/page"
	"souk/integration/lab/virtual"
)

// shown are the players in the picture: those whose callers state what they want.
func shown() []Player {
	return slices.DeleteFunc(slices.Clone(Players), func(x Player) bool { return x.Silent })
}

// figures holds what the page has in its HTML: what the front page takes, and all that was found.
type figures struct {
	compare.Figure
	Cells []Cell `json:"cells"`
}

// Page is the page of results, which a command has made.
func (r *Results) Page(command string) *page.Page {
	f := figures{compare.Figure{Text: r.brief(), Plot: r.plot()}, r.Cells}
	p := &page.Page{Name: "gpus", Title: "GPUs saved", Command: command, Figures: f,
		Plots: map[string]page.Plot{"dollars": f.Plot}}
	p.Text = r.standing() + page.Place("dollars") + r.promise() + r.tables() + r.even() + r.fleet() +
		r.worlds() + r.terms()
	return p
}

// cell is a player on a trace.
func (r *Results) cell(world, player string) *Cell {
	return &r.Cells[slices.IndexFunc(r.Cells, func(c Cell) bool {
		return c.World == world && c.Player == player
	})]
}

// all are the dollars of a cell, by seed; short says from how many seeds no fleet kept the promise.
func (r *Results) all(c *Cell) (dollars []float64, short int) {
	for _, s := range c.Searches {
		dollars = append(dollars, r.dollars(s.Smallest))
		if s.Smallest == 0 {
			short++
		}
	}
	return dollars, short
}

// mean is a mean with half of its interval.
func mean(digits int, of []float64) string {
	e := virtual.NewEstimate(of)
	return fmt.Sprintf("%.*f ± %.*f", digits, e.Mean, digits, e.Within)
}

// price says what a cell costs: at least so much where some seeds have no fleet.
func (r *Results) price(c *Cell) string {
	of, short := r.all(c)
	switch {
	case short == len(of):
		return fmt.Sprintf("none up to %.2f", r.dollars(r.Most))
	case short > 0:
		return "at least " + mean(2, of)
	}
	return mean(2, of)
}

func (r *Results) plot() page.Plot {
	p := page.Plot{Title: "Dollars an hour for GPUs that keep the promise; shorter is better", Y: "dollars an hour",
		Bars: "$%.0f"}
	for _, w := range r.Worlds {
		for _, x := range shown() {
			of, short := r.all(r.cell(w.Name, x.Name))
			e := virtual.NewEstimate(of)
			p.Put(w.Name, x.Name, e.Mean, e.Within)
			s := p.Of(x.Name)
			s.Loose = x.Name != virtual.MarketName
			s.Points[len(s.Points)-1].Least = short > 0
		}
	}
	return p
}

// stand says how the market stands on a trace beside the rule that costs least there.
type stand struct {
	world, best, verdict string
	market, rival        *Cell
	more                 virtual.Estimate // dollars, by runs of the same seeds
	percent              float64
}

func (r *Results) stands() (all []stand) {
	for _, w := range r.Worlds {
		s := stand{world: w.Name, market: r.cell(w.Name, virtual.MarketName)}
		own, _ := r.all(s.market)
		least := 0.0
		for _, x := range shown() {
			of, _ := r.all(r.cell(w.Name, x.Name))
			m := virtual.NewEstimate(of).Mean
			if x.Name != virtual.MarketName && (s.best == "" || m < least) {
				s.best, s.rival, least = x.Name, r.cell(w.Name, x.Name), m
			}
		}
		theirs, _ := r.all(s.rival)
		var more []float64
		for i := range own {
			more = append(more, own[i]-theirs[i])
		}
		s.more = virtual.NewEstimate(more)
		s.percent = 100 * s.more.Mean / least
		switch {
		case s.more.Mean > s.more.Within:
			s.verdict = "**loses**"
		case s.more.Mean < -s.more.Within:
			s.verdict = "wins"
		default:
			s.verdict = "level"
		}
		all = append(all, s)
	}
	slices.SortStableFunc(all, func(a, b stand) int { return cmp.Compare(b.percent, a.percent) })
	return all
}

const promised = "99 of 100 first tokens come within a second beyond what their uncached prompt takes alone, and " +
	"99 of 100 later tokens within 50 ms of the one before"

// brief returns the text that stands above the picture on the front page.
func (r *Results) brief() string {
	var b strings.Builder
	fmt.Fprintf(&b, "**What GPUs cost an hour that keep a promise**, by who says where each request goes: %s. ", promised)
	var said []string
	for _, s := range r.stands() {
		own, _ := r.all(s.market)
		theirs, _ := r.all(s.rival)
		said = append(said, fmt.Sprintf("%s on %s: $%.0f, and $%.0f with %s", verb(s.verdict), s.world,
			virtual.NewEstimate(own).Mean, virtual.NewEstimate(theirs).Mean, s.best))
	}
	fmt.Fprintf(&b, "The market %s. [gpus](gpus.md) says of what, and how it was found.\n", strings.Join(said, "; "))
	return b.String()
}

func verb(verdict string) string {
	if verdict == "level" {
		return "is not told apart from the cheapest rule"
	}
	return verdict
}

func (r *Results) standing() string {
	var b strings.Builder
	fmt.Fprintf(&b, "The smallest mixed fleet that keeps a promise (%s), under this market and four rules, on arrivals of %s, in "+
		"virtual time. Figures are means over seeds %s, ± half of their 95 %% interval.\n\n", promised, names(r.Worlds),
		seeds(r.Seeds))
	var rows [][]string
	for _, s := range r.stands() {
		rows = append(rows, []string{s.world, s.verdict, r.price(s.market), s.best, r.price(s.rival),
			fmt.Sprintf("%+.2f ± %.2f", s.more.Mean, s.more.Within), fmt.Sprintf("%+.0f %%", s.percent)})
	}
	b.WriteString(page.Table([]string{"trace", "the market", "dollars an hour", "cheapest rule",
		"its dollars", "more", ""}, rows))
	b.WriteString("\n**more** is what the market costs beyond that rule, from runs of the same seeds.\n")
	return b.String()
}

func names(all []*World) string {
	var s []string
	for _, w := range all {
		s = append(s, w.Name)
	}
	return strings.Join(s, ", ")
}

func seeds(all []uint64) string {
	var s []string
	for _, x := range all {
		s = append(s, fmt.Sprint(x))
	}
	return strings.Join(s, ", ")
}

func (r *Results) promise() string {
	return fmt.Sprintf(`
## The promise

A **first token** is in time if it comes, as its caller sees it, within a second and what the engine that served it
takes for the tokens of the prompt that it had not cached, were it alone. A task that is refused has none in time. A
**later token** is in time if it comes within 50 ms of the one before; all tokens of all answers count together. Both
are kept for 99 in 100, of the tasks that are asked after the first tenth of a run of %d; each seed begins with
another request of the trace. Where a rule sends a prompt to an engine that holds less of it, the prompt may take
longer; the rule pays for it by what that engine then computes. A run ends as soon as it can keep the promise no
more.

No rule hears of gaps between tokens, and neither does the market: it prices first tokens and quality, and an engine
that computes long prompts keeps the answers beside them waiting. What an operator can do is to let an engine run
fewer requests at once. So each rule is played with %s of them, from the first %d seeds, and then with the number
with which it costs least there: **slots**.
`, r.Tasks, list(r.Slots), min(judging, len(r.Seeds)))
}

func list(all []int) string {
	var s []string
	for _, n := range all {
		s = append(s, fmt.Sprint(n))
	}
	last := len(s) - 1
	if last == 0 {
		return s[0]
	}
	return strings.Join(s[:last], ", ") + " and " + s[last]
}

func (r *Results) tables() string {
	var b strings.Builder
	b.WriteString("\n## Trace by trace\n\nOf the smallest fleet, on the mean. **first** and **later** are the shares of tokens in " +
		"time; **found** is the share of prompt tokens found in a cache, **quality** the mean score of the engines that " +
		"answered. **one less breaks** says from how many seeds a fleet of one engine less breaks the promise, of first tokens, " +
		"later ones or both. Where prompts have nothing in common two-block and lmetric both send a task to the engine with " +
		"the fewest. Where no fleet keeps the promise from some seed, that seed counts as one engine more than the largest, " +
		"which is the least that it can cost.\n")
	for _, w := range r.Worlds {
		fmt.Fprintf(&b, "\n### %s\n\n%s: %s\n\n", w.Name, w.About, w.Ours)
		var rows [][]string
		for _, x := range Players {
			c := r.cell(w.Name, x.Name)
			var sizes, gpus []float64
			why := map[string]int{}
			var of [6][]float64
			for _, s := range c.Searches {
				if s.Smallest == 0 {
					continue
				}
				sizes = append(sizes, float64(s.Smallest))
				n := 0
				for _, e := range r.Fleet[:s.Smallest] {
					n += e.Count
				}
				gpus = append(gpus, float64(n))
				why[s.Looked[s.Smallest-1].Why]++
				k := s.Looked[s.Smallest]
				for i, v := range []float64{k.First, k.Tokens, k.Refused, k.P99, k.Share, k.Quality} {
					of[i] = append(of[i], v)
				}
			}
			row := []string{"`" + x.Name + "`", r.price(c), fmt.Sprint(c.Slots)}
			if sizes == nil {
				rows = append(rows, append(row, "-", "-", "-", "-", "-", "-", "-", "-", "-"))
				continue
			}
			row = append(row, mean(1, sizes), mean(1, gpus))
			for i, digits := range []int{4, 4, 4, 0, 3, 3} {
				row = append(row, fmt.Sprintf("%.*f", digits, virtual.NewEstimate(of[i]).Mean))
			}
			var breaks []string
			for _, of := range []string{"first", "later", "both"} {
				if why[of] > 0 {
					breaks = append(breaks, fmt.Sprintf("%s %d", of, why[of]))
				}
			}
			rows = append(rows, append(row, strings.Join(breaks, ", ")))
		}
		b.WriteString(page.Table([]string{"rule", "dollars an hour", "slots", "engines", "GPUs", "first",
			"later", "refused", "p99 ms", "found", "quality", "one less breaks"}, rows))
	}
	return b.String()
}

// even says whether a larger fleet keeps what a smaller one keeps.
func (r *Results) even() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## Whether more engines always keep it\n\nA fleet is looked for from %d engines on, one engine after the "+
		"other, up to %d; where the first keeps the promise, below it until %d in a row do not. The next %d above the "+
		"smallest are looked at, too: from how many seeds one of them does not keep what the smaller fleet keeps, and "+
		"with how many engines. So **smallest** is not always the last that fails.\n\n", len(unit), r.Most, beyond, beyond)
	var rows [][]string
	for _, w := range r.Worlds {
		for _, x := range Players {
			broken, kept, at := 0, 0, []string{}
			c := r.cell(w.Name, x.Name)
			for i := range c.Searches {
				s := &c.Searches[i]
				if s.Smallest > 0 {
					kept++
				}
				if all := s.broken(); all != nil {
					broken++
					larger := strings.Trim(fmt.Sprint(all), "[]")
					at = append(at, fmt.Sprintf("%d, not %s", s.Smallest, larger))
				}
			}
			if broken > 0 {
				rows = append(rows, []string{w.Name, "`" + x.Name + "`",
					fmt.Sprintf("%d of %d", broken, kept), strings.Join(at, "; ")})
			}
		}
	}
	if rows == nil {
		b.WriteString("There was none.\n")
		return b.String()
	}
	b.WriteString(page.Table([]string{"trace", "rule", "seeds", "engines that keep it, and larger fleets that do not"},
		rows))
	return b.String()
}

func (r *Results) fleet() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## The fleet\n\nThe fleet `mixed` of other pages, which grows one engine after the other in this order, again and "+
		"again: any eight in a row are four with 8B, two with 32B and two with 70B, at providers' prices a token. Speeds "+
		"are those of measured GPUs, caches as measured or as memory leaves. "+
		"**dollars** are those of its GPUs an hour, by %s. **a step** is the number of tokens of prompts that it computes at "+
		"once; a token that waits beside more than **quick** of them comes after 50 ms.\n\n", r.Source)
	var rows [][]string
	for i, e := range r.Fleet[:len(unit)] {
		rows = append(rows, []string{fmt.Sprint(i + 1), e.Model, fmt.Sprintf("%d x %s", e.Count, e.GPU),
			fmt.Sprint(e.tokens), fmt.Sprint(e.step), fmt.Sprint(e.quick), fmt.Sprintf("%.2f", e.Score),
			fmt.Sprintf("%.2f", e.Dollars), fmt.Sprintf("%.2f", r.dollars(i+1))})
	}
	b.WriteString(page.Table([]string{"engine", "model", "GPUs", "cache, tokens", "a step", "quick", "score",
		"dollars", "fleet so far"}, rows))
	return b.String()
}

func (r *Results) worlds() string {
	var rows [][]string
	for _, w := range r.Worlds {
		in := 0
		for _, a := range w.asked {
			in += w.chains[a.chain].Turns[a.turn][1]
		}
		span := float64(w.asked[len(w.asked)-1].at-w.asked[0].at) / 1000 / w.Speed
		n := len(w.asked)
		rows = append(rows, []string{w.Name, fmt.Sprint(n), fmt.Sprintf("%.1f", float64(n)/span),
			fmt.Sprint(in / n), fmt.Sprint(w.output), fmt.Sprint(w.Left)})
	}
	return "\n## The traces\n\nRequests that a run may take, and how many come in a second on the mean as they are played. No " +
		"model's answers are computed: lengths are the trace's. Runs of several seeds may share requests.\n\n" +
		page.Table([]string{"trace", "requests", "a second", "tokens of a prompt", "of an answer",
			"left out, too long"}, rows)
}

func (r *Results) terms() string {
	var rows [][]string
	for _, w := range r.Worlds {
		for _, x := range shown() {
			row := []string{w.Name, "`" + x.Name + "`"}
			for _, n := range r.Slots {
				var s []string
				for _, k := range r.cell(w.Name, x.Name).Tried[n] {
					if k == 0 {
						s = append(s, "-")
						continue
					}
					s = append(s, fmt.Sprint(k))
				}
				row = append(row, strings.Join(s, ", "))
			}
			rows = append(rows, row)
		}
	}
	heading := []string{"trace", "rule"}
	for _, n := range r.Slots {
		heading = append(heading, fmt.Sprintf("%d slots", n))
	}
	return fmt.Sprintf(`
## What callers say

The market and greedy-first hear what an answer is worth to who asks; the other rules do not. Here callers want the
promise and say so: an answer is worth %d times what it costs at the fleet's dearest engine with nothing cached,
half of it for quality, and the other half is gone after twice as long as the promise lets them wait for a prompt
that an 8B computes whole. So an answer is worth next to nothing once the promise is broken, and there are no
terms that speak of gaps between tokens. They were chosen after a few others were tried from one seed. What it costs
where nobody says anything stands in the tables as `+"`market, no terms`"+`: a hub's usual terms follow the
cheapest engine's price, at which nobody pays for a 70B. greedy-first has its knob at 4 s.

**Why it needs more engines by these terms.** It sends each task where that leaves most beyond its price by the
card, and what a fleet costs an hour is on no card. So it sorts tasks by length: an answer is worth the same
however long its prompt is, beside the mean, and what a 70B asks more for a long one is more than its quality is
worth. Looked at from the first seed: of azure on 12 engines, 8 slots each, it has prompts of 1,520 tokens on the
mean computed on the 8Bs and of 530 on the H100s' 70Bs, where two-block has 1,300 and 1,340; the B200s, whose card
is dearest, have 31 tasks of 720, and 86 under two-block. So the 8Bs write a fifth more of the tokens, and
0.0103 of these are late, and 0.0073 under two-block. Of mooncake on 14 engines prompts of 17,800 tokens are on the
8Bs and of 2,800 on those 70Bs, and 8 of the 9 first tokens that are late are the 8Bs'; on 17 engines, of which more
are 8Bs, it is 21,100 tokens and again 8. Under dynamo it is 14,700 and 15,400. Worths of 32 times the cost in place
of 8 keep hardly more of azure's later tokens. Which of the engines alike a task has is even since the emptiest of equals
goes first; that alone gains 0.0006 of the tokens.

## Slots

Engines of the smallest fleet from the first seeds; -: none up to %d.

`, worthTimes, r.Most) + page.Table(heading, rows)
}
