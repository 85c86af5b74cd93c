package hints

import (
	"fmt"
	"math"
	"strings"

	"souk/integration/lab/page"
	"souk/market"
)

// mostOnce bounds the gain by one lie, in per cent. A lie that is always told may gain nothing, as far as the
// runs can tell.
const mostOnce = 1.0

// Holds reports whether a lie gains no more than it may.
func (r *Row) Holds() bool {
	if r.Always {
		return r.Gain-r.Off <= 0
	}
	return r.Gain+r.Off <= mostOnce
}

const head = `A client says with its turns what comes next: [hints](../../deploy/api.md#hints). Here it lies in one of
them, in a market that hears them, by the policy kvcache. Everybody else tells the truth. The hub and the
agents are the real ones, in virtual time; engines are simulated; the sessions are recorded ones of coding
agents, with their recorded pauses, on two engines whose caches hold as much as the open sessions need. The liar has two sessions at a time. What it has is what its answers were worth to
it by its terms, at the time of the first token that it saw, less what it paid; **gain** is how much more
that is a turn than in a run of the same seed in which it tells the truth, in per cent of that. Where it
lies now and then, the gain is that of one lie. **others** is what the lie does to everybody else, in per
cent of what they have. ± says with 95 % how far the mean of the runs may be off.

Little acts on a hint. session_end frees a seat, role moves the forecast of how long answers are. back_ms,
next and parent reach the policy alone, whose scores no stock engine asks for, so their rows are nothing
exactly. Who always changes the names of its two roles about says the
same by other names: of that lie the row where it is told now and then says something. And who gives no hint
at all, silent, has what a truthful client has: here hints are worth nothing to who gives them. The hub
settles metered, as it does by default, and in further runs as quoted, where who pays what was forecast may
gain by a role whose answers are forecast to be shorter.
`

// Page is the page of rows, which a command has made.
func Page(command string, o Options, rows []Row) *page.Page {
	p := &page.Page{Name: "hints", Title: "What false hints are worth", Command: command,
		Plots: map[string]page.Plot{}}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nFor each row and for the truth there are %d runs from seeds of their own, with %d sessions at "+
		"a time and %d turns of the liar each.\n", head, o.Seeds, o.Callers, o.Turns)
	var bad []string
	for _, x := range []struct {
		settle string
		always bool
	}{{market.SettleMetered, true}, {market.SettleMetered, false}, {market.SettleQuoted, true},
		{market.SettleQuoted, false}} {
		title, what := "Always", "A persistent liar is to gain nothing: the mean less what it may be off is not above 0."
		if !x.always {
			title = "Now and then"
			what = fmt.Sprintf("One lie is to gain at most %.0f %%, and the mean with what it may be off does not.", mostOnce)
		}
		if x.settle == market.SettleQuoted {
			title += ", settled as quoted"
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", title, what)
		var table [][]string
		plot := page.Plot{Title: title, Y: "gain of the liar, % a turn", Series: []page.Series{{}}}
		for _, r := range rows {
			if r.Always != x.always || r.Settle != x.settle {
				continue
			}
			holds := "yes"
			if !r.Holds() {
				holds = "no"
				bad = append(bad, fmt.Sprintf("%s (%s)", r.Lie, strings.ToLower(title)))
			}
			about := ""
			for _, l := range Lies {
				if l.Name == r.Lie {
					about = l.About
				}
			}
			table = append(table, []string{r.Lie, about, fmt.Sprintf("%.0f", r.Told),
				fmt.Sprintf("%+.2f ± %s", r.Gain, digits(r.Off)), fmt.Sprintf("%+.2f", r.Others), holds})
			plot.Series[0].Add(float64(len(plot.Groups)), r.Gain, known(r.Off))
			plot.Groups = append(plot.Groups, r.Lie)
		}
		b.WriteString(page.Table([]string{"lie", "what it says", "told in a run", "gain %", "others %",
			"holds"}, table))
		if len(plot.Groups) > 0 {
			p.Plots[title] = plot
			b.WriteString(page.Place(title))
		}
	}
	if b.WriteString("\n"); len(bad) > 0 {
		fmt.Fprintf(&b, "Above its bound, or not told from it by so few runs: %s. See package market, on hints.\n",
			strings.Join(bad, ", "))
	} else {
		b.WriteString("No lie is above its bound.\n")
	}
	p.Text = b.String()
	return p
}

// known is an interval that a plot shows; one that nobody knows it does not.
func known(off float64) float64 {
	if math.IsNaN(off) {
		return 0
	}
	return off
}

func digits(x float64) string {
	if math.IsNaN(x) {
		return "unknown"
	}
	return fmt.Sprintf("%.2f", x)
}
