package thousand

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"souk/integration/lab/page"
	"souk/integration/lab/virtual"
)

// World says what was played.
type World struct {
	Engines int           `json:"engines"`
	Load    float64       `json:"load"`
	Length  time.Duration `json:"length"`
	Thought int           `json:"thought"`
	Seed    uint64        `json:"seed"`
	Rate    float64       `json:"rate"` // dialogues that begin in a second
}

// Results holds the figures of a page.
type Results struct {
	World World `json:"world"`
	Rows  []Row `json:"rows"`
}

// Keep takes what was played before of the same world, where it was not played again.
func (r *Results) Keep(before *Results) {
	if r.World != before.World {
		return
	}
	for _, row := range before.Rows {
		if r.row(row.Play) == nil && slices.Contains(Plays, row.Play) {
			r.Rows = append(r.Rows, row)
		}
	}
	slices.SortFunc(r.Rows, func(a, b Row) int {
		return slices.Index(Plays, a.Play) - slices.Index(Plays, b.Play)
	})
}

// row finds that of a play; nil: it was not played.
func (r *Results) row(play string) *Row {
	i := slices.IndexFunc(r.Rows, func(x Row) bool { return x.Play == play })
	if i < 0 {
		return nil
	}
	return &r.Rows[i]
}

// beside finds how much more welfare a has than b, in per cent of this, by the same parts of the run.
func beside(a, b *Row) virtual.Estimate {
	var more []float64
	base := virtual.NewEstimate(b.Welfare).Mean
	for i := range a.Welfare {
		more = append(more, 100*(a.Welfare[i]-b.Welfare[i])/base)
	}
	return virtual.NewEstimate(more)
}

// Page is the page of results, which a command has made.
func (r *Results) Page(command string) *page.Page {
	p := &page.Page{Name: "thousand", Title: "A thousand engines", Command: command, Figures: r,
		Clock: "what stands under *By the clock*, and the bars in ms and processors, differ from run to run and by the " +
			"machine, and all else is the same on any", Plots: map[string]page.Plot{}}
	p.Text = r.about() + r.bars() + r.welfare(p) + r.records() + r.clocks(p) + left
	return p
}

func (r *Results) about() string {
	w := &r.World
	return fmt.Sprintf(`%d engines, half of them with Llama 8B, a quarter each with Qwen 32B and Llama 70B, at providers' prices and as
fast as was measured of RTX PRO 6000, H100 and B200; %d requests at once on each. Played are %.0f s of virtual time, in which %.0f
conversations of mtRAG begin in a second, each its caller's own and turn by turn, %.2f of what the engines can serve;
as many as they then run are under way when it begins, somewhere in their middle. Before each answer stand %d tokens
of reasoning, which the next prompt leaves out. Callers are hurried, exacting, balanced and thrifty in turn, and say
so. Seed %d. The command plays ten minutes where --length does not say otherwise, which takes an hour or two of
processor time.

**Hubs** are the market as it is delivered but for their number: of each kind of engine every hub has as many as any
other, or one fewer. A session goes to one hub, with all of its turns, by a hash, and never to another: a door would
choose by what hubs publish, and have another asked where one is full. All messages pass the codec and take 0.3 ms a
hop, and records take 1 ms to be durable. A hub computes a round for %.1f us for each of its agents, and %.2f us for each
pair of one that waits and an agent, as was measured of it, and does nothing else meanwhile; between rounds of
competing tasks it leaves twice as long, as its process does. What it takes here stands under
[By the clock](#by-the-clock). **Rules** see what a hub sees, and take no time.

Welfare is what answers were worth to who asked, as they were served, less what they cost by the card, in
thousandths of a credit a second. Figures are of what came after the first %d of %d equal parts of the run; the
intervals are 95 %% by the parts, and of differences by the same parts of two runs. There is one run of each.
`, w.Engines, slots, w.Length.Seconds(), w.Rate, w.Load, w.Thought, w.Seed,
		ofAgent/1e3, ofPair/1e3, warm, parts)
}

// The bars of the page.
const (
	mostRound = 10 // ms of a processor, the median
	mostLess  = 3  // per cent of welfare that one hub may have less than three
)

// bars says what was to be reached, and whether it was: what falls short first.
func (r *Results) bars() string {
	var short, open, held [][]string
	say := func(bar, came string, ok, known bool) {
		switch {
		case !known:
			open = append(open, []string{bar, came, "open"})
		case ok:
			held = append(held, []string{bar, came, "holds"})
		default:
			short = append(short, []string{bar, came, "**short**"})
		}
	}
	say(fmt.Sprintf("%.0f s are played", DefaultOptions().Length.Seconds()),
		fmt.Sprintf("%.0f s", r.World.Length.Seconds()), r.World.Length >= DefaultOptions().Length, true)
	one, three := r.row(oneHub), r.row(threeHubs)
	if one != nil && one.Clocks != nil {
		say(fmt.Sprintf("a round of one hub takes under %d ms of a processor, the median", mostRound),
			fmt.Sprintf("%.2f ms", one.Clocks.P50), one.Clocks.P50 < mostRound, true)
		say("one hub keeps up: its node needs less than one processor", fmt.Sprintf("%.2f", one.Clocks.Busy),
			one.Clocks.Busy < 1, true)
	}
	for _, x := range r.Rows {
		if m := x.Market; m != nil {
			say(x.name()+": every recorded round is verified", fmt.Sprintf("%d of %d", m.Verified, m.Recorded),
				m.Verified == m.Recorded && m.Recorded > 0, true)
		}
	}
	if one != nil && three != nil {
		e := beside(one, three)
		say(fmt.Sprintf("welfare of one hub is within %d %% of three hubs', or better", mostLess), percent(e),
			e.Mean-e.Within >= -mostLess, e.Mean-e.Within >= -mostLess || e.Mean+e.Within < -mostLess)
	}
	for _, x := range r.Rows {
		if one != nil && x.Market == nil {
			e := beside(one, &x)
			say("welfare of one hub is above that of `"+x.Play+"`", percent(e), e.Mean > e.Within,
				e.Mean > e.Within || e.Mean < -e.Within)
		}
	}
	return "\n## What was to be reached\n\n" +
		page.Table([]string{"bar", "came", ""}, slices.Concat(short, open, held))
}

func percent(e virtual.Estimate) string { return fmt.Sprintf("%+.1f ± %.1f %%", e.Mean, e.Within) }

// name is a play in tables.
func (x *Row) name() string {
	if x.Market != nil {
		return strings.ReplaceAll(x.Play, "-", " ")
	}
	return "`" + x.Play + "`"
}

func (r *Results) welfare(p *page.Page) string {
	plot := page.Plot{Title: "Welfare a second", Y: "thousandths of a credit"}
	var rows [][]string
	one := r.row(oneHub)
	for i := range r.Rows {
		x := &r.Rows[i]
		e, more := virtual.NewEstimate(x.Welfare), ""
		if one != nil && x != one {
			more = percent(beside(x, one))
		}
		plot.Put(strings.ReplaceAll(x.Play, "-", " "), "", e.Mean, e.Within)
		rows = append(rows, []string{x.name(), fmt.Sprintf("%.1f ± %.1f", e.Mean, e.Within), more,
			fmt.Sprint(x.Tasks), fmt.Sprintf("%.2f", 100*x.Refused), fmt.Sprintf("%.0f", x.P50),
			fmt.Sprintf("%.0f", x.P99), fmt.Sprintf("%.3f", x.Share), fmt.Sprintf("%.3f", x.Quality),
			fmt.Sprintf("%.2f", x.Bill)})
	}
	p.Plots["welfare"] = plot
	return "\n## Welfare\n" + page.Place("welfare") + page.Table([]string{"", "welfare", "beside one hub",
		"tasks", "refused, %", "first token p50, ms", "p99", "cached share", "quality", "bill"}, rows) +
		"\n**Bill** is what was paid, by the card; **cached share** is of prompt tokens.\n"
}

func (r *Results) records() string {
	var rows [][]string
	for i := range r.Rows {
		if m := r.Rows[i].Market; m != nil {
			row := []string{r.Rows[i].name()}
			for _, n := range []int{m.Held, m.Recorded, m.Verified} {
				row = append(row, fmt.Sprint(n))
			}
			for _, x := range []float64{m.Awards, m.Records} {
				row = append(row, fmt.Sprintf("%.2f", x))
			}
			for _, x := range []float64{m.Round, m.Record, m.Task} {
				row = append(row, fmt.Sprintf("%.0f", x))
			}
			rows = append(rows, row)
		}
	}
	if rows == nil {
		return ""
	}
	return "\n## Rounds and records\n\nEvery frame is audited at all levels as it is written, as `ledger check` does it: each " +
		"round's matching and prices are proven by `market/certify`, without the solver, its tolls by the rounds before, and " +
		"every sum is added up again. The hub proves them, too, before anything leaves. A round in which nobody is given " +
		"a slot is not recorded.\n\n" + page.Table([]string{"", "rounds held", "recorded", "verified",
		"awards a round", "records a task",
		"bytes of a round's frame", "bytes a record", "bytes a task"}, rows) +
		"\nA frame has a round and its holds. Of a round there stands what could change its outcome, however large the " +
		"fleet. What clients have at several hubs needs a record at each.\n"
}

func (r *Results) clocks(p *page.Page) string {
	plot := page.Plot{Title: "A round", X: "hubs", Y: "ms of a processor", LogX: true, OwnX: true, LogY: true}
	var rows [][]string
	for i := range r.Rows {
		x := &r.Rows[i]
		c := x.Clocks
		if c == nil {
			continue
		}
		a := r.World.second(x)
		plot.Of("median").Add(float64(x.Market.Hubs), c.P50, 0)
		plot.Of("p99").Add(float64(x.Market.Hubs), c.P99, 0)
		rows = append(rows, []string{x.name(), fmt.Sprintf("%.2f", c.P50), fmt.Sprintf("%.2f", c.P99),
			fmt.Sprintf("%.1f", c.Most), fmt.Sprintf("%.0f", c.Task), fmt.Sprintf("%.2f", c.Busy),
			fmt.Sprintf("%.0f", a), fmt.Sprintf("%.0f", a/c.Busy), fmt.Sprintf("%.0f", c.Audit)})
	}
	if rows == nil {
		return ""
	}
	p.Plots["rounds"] = plot
	return "\n## By the clock\n\nProcessor time of the thread that computes, on the machine that made this page, whatever " +
		"else ran there. A round is all that a hub does for it: what tasks would have of each agent, the plan, its prices, " +
		"their proof, and the record. **Busy** is the busiest hub's share of one processor, all that its node does counted, " +
		"and neither NATS nor the disk; **full at** is how many tasks a second would take all of that processor, or of one " +
		"for each hub, if each took as much.\n" + page.Place("rounds") + page.Table([]string{"", "a round p50, ms", "p99",
		"most", "us a task", "busy", "tasks a second", "full at", "audit, us a round"}, rows) + r.pays()
}

// second counts the tasks that came in a second.
func (w *World) second(x *Row) float64 {
	return float64(x.Tasks) / (w.Length.Seconds() * (parts - warm) / parts)
}

// pays says from where on hubs pay.
func (r *Results) pays() string {
	one := r.row(oneHub)
	if one == nil || one.Clocks == nil {
		return ""
	}
	a := r.World.second(one)
	said := fmt.Sprintf("\n**From where on hubs pay.** A node computes on one processor. One hub of %d engines needs %.2f for "+
		"%.0f tasks a second here, ", r.World.Engines, one.Clocks.Busy, a)
	if one.Clocks.Busy < 1 {
		return said + fmt.Sprintf("and so would have no more time at %.0f: from there on it takes several.\n",
			a/one.Clocks.Busy)
	}
	said += fmt.Sprintf("and so has enough for %.0f, if each takes as much: from there on it takes several.", a/one.Clocks.Busy)
	for i := range r.Rows {
		if x := &r.Rows[i]; x.Clocks != nil && x.Clocks.Busy < 1 {
			said += fmt.Sprintf(" Of what was played %s are the fewest of which none needs a whole one: the busiest %.2f.",
				x.name(), x.Clocks.Busy)
			break
		}
	}
	return said + " A round weighs every task that waits against every agent, so its pairs fall with the square of how many " +
		"share both; and each end of an answer has all of them looked at again.\n"
}

const left = `
## What this leaves out

* How long a hub computes in virtual time was measured of 208 engines, in a few seconds. What it took here stands
  above. Where that is more, a hub's process would hold fewer and larger rounds, and first tokens would come later
  than in the tables.
* A hub's node is measured, and not its process: what NATS, the codec's other side, the journal's disk and etcd take
  stands on [bench](bench.md) and [load](load.md), of fewer engines.
* One run: the intervals are of its parts, which are not independent of one another, and say nothing of other seeds.
`
