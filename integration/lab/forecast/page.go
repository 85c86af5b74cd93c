package forecast

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"souk/integration/lab/page"
	"souk/integration/lab/virtual"
)

// Said holds the content of a page of results.
type Said struct {
	Options Options
	Results []Result
}

// over is a figure over seeds; false where a way forecast nothing of a stream.
func over(results []Result, stream, way string, of func(Score) float64) (virtual.Estimate, bool) {
	var all []float64
	for _, r := range results {
		for _, s := range r.Scores {
			if r.Stream == stream && s.Name == way {
				all = append(all, of(s))
			}
		}
	}
	if all == nil {
		return virtual.Estimate{}, false
	}
	return virtual.NewEstimate(all), true
}

func cell(results []Result, stream, way string, of func(Score) float64) string {
	e, ok := over(results, stream, way, of)
	switch {
	case !ok:
		return "-"
	case e.Within == 0:
		return fmt.Sprintf("%.3f", e.Mean)
	}
	return fmt.Sprintf("%.3f ± %.3f", e.Mean, e.Within)
}

// plot has a series for each stream, a group for each way.
func (p Said) plot(title string, of func(Score) float64) page.Plot {
	out := page.Plot{Title: title, Y: "NMAE"}
	streams, ways := names(p.Results)
	out.Groups = ways
	for _, stream := range streams {
		s := page.Series{Name: stream}
		for i, way := range ways {
			if e, ok := over(p.Results, stream, way, of); ok {
				s.Add(float64(i), e.Mean, e.Within)
			}
		}
		out.Series = append(out.Series, s)
	}
	return out
}

func names(results []Result) (streams, ways []string) {
	for _, r := range results {
		if !slices.Contains(streams, r.Stream) {
			streams = append(streams, r.Stream)
		}
		for _, s := range r.Scores {
			if !slices.Contains(ways, s.Name) {
				ways = append(ways, s.Name)
			}
		}
	}
	return streams, ways
}

func row(w io.Writer, cells ...string) { fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")) }

func heading(w io.Writer, cells ...string) {
	row(w, cells...)
	row(w, slices.Repeat([]string{"---"}, len(cells))...)
}

// byWay prints a table of ways by streams.
func (p Said) byWay(w io.Writer, of func(Score) float64) {
	streams, ways := names(p.Results)
	heading(w, append([]string{""}, streams...)...)
	for _, way := range ways {
		cells := []string{"`" + way + "`"}
		for _, s := range streams {
			cells = append(cells, cell(p.Results, s, way, of))
		}
		row(w, cells...)
	}
	fmt.Fprintln(w)
}

// gains returns by how many per cent a way errs less than the baseline, over all streams that nothing was
// tuned on.
func (p Said) gains(way string, of func(Score) float64) (least, greatest float64, known bool) {
	for _, s := range Streams {
		base, ok1 := Figure(p.Results, s.Name, Baseline, of)
		own, ok2 := Figure(p.Results, s.Name, way, of)
		if s.Tuned || !ok1 || !ok2 {
			continue
		}
		gain := 100 * (1 - own/base)
		if !known {
			least, greatest = gain, gain
		}
		least, greatest, known = min(least, gain), max(greatest, gain), true
	}
	return least, greatest, known
}

// pays says in words what a way is worth beside the baseline.
func (p Said) pays(way string, of func(Score) float64) string {
	least, greatest, known := p.gains(way, of)
	switch {
	case !known:
		return "not measured on a stream that nothing was tuned on"
	case least == 0 && greatest == 0:
		return "the same"
	case least > 0:
		return fmt.Sprintf("**pays** on all: %.0f to %.0f %% less", least, greatest)
	case greatest > 0:
		return fmt.Sprintf("pays on some: from %.0f %% more to %.0f %% less", -least, greatest)
	default:
		return fmt.Sprintf("**does not pay**: %.0f to %.0f %% more", -greatest, -least)
	}
}

func ttftOf(s Score) float64 { return s.TTFT }
func costOf(s Score) float64 { return s.Cost }

// Page is the page that a command has made.
func (p Said) Page(command string) *page.Page {
	var text strings.Builder
	p.write(&text)
	made := &page.Page{Name: "forecast", Title: "What a hub expects, and what came", Command: command,
		Text: text.String(), Plots: map[string]page.Plot{
			"ttft": p.plot("First tokens: error of each way", ttftOf),
			"cost": p.plot("Cost: error of each way", costOf)}}
	return made
}

func (p Said) write(w io.Writer) {
	o := p.Options
	fmt.Fprintf(w, `Each stream is %d tasks on %d simulated engines (Llama 3.1 8B on an RTX PRO 6000, as measured), at a load that is drawn
anew every 45 s from 0.2 to 1.2 times what the engines bear; %.0f %% of the tasks go to an agent by lot, the others to
the one that should begin first. All ways hear of the same tasks: they forecast when one is sent, and learn once
it has ended. NMAE is the sum of what forecasts were off, by the sum of what came; of several seeds (here %d) the mean,
± half of its 95 %% interval. A prompt's tokens are known before; what is cached of it is believed, by a
mirror of what was sent. All of it is in virtual time.

`, o.Tasks, o.Agents, 100*o.Explore, len(o.Seeds))
	heading(w, "stream", "what", "formulas chosen on it", "TTFT, mean", "prompt, mean", "cached")
	streams, _ := names(p.Results)
	for _, s := range Streams {
		if !slices.Contains(streams, s.Name) {
			continue
		}
		var ttft, prompt, cached, n float64
		for _, r := range p.Results {
			if r.Stream == s.Name {
				ttft, prompt, cached, n = ttft+r.TTFT, prompt+r.Prompt, cached+r.Cached, n+1
			}
		}
		tuned := "no"
		if s.Tuned {
			tuned = "yes"
		}
		row(w, "`"+s.Name+"`", s.About, tuned, fmt.Sprintf("%.3f s", ttft/n), fmt.Sprintf("%.0f tokens",
			prompt/n),
			fmt.Sprintf("%.2f", cached/n))
	}
	fmt.Fprintln(w)
	heading(w, "way", "what")
	for _, way := range Ways {
		row(w, "`"+way.Name+"`", way.About)
	}
	if o.Python != "" {
		row(w, "`river`", "Eq. 5 by the river library, behind its scaler (`integration/lab/forecast/river/eq5.py`)")
	}
	fmt.Fprintln(w)
	if o.Python == "" {
		fmt.Fprint(w, "Eq. 5 by the river library is left out: `--python` names a Python that has it.\n\n")
	}
	fmt.Fprint(w, "## Time to the first token: NMAE\n\n")
	fmt.Fprint(w, page.Place("ttft"))
	p.byWay(w, ttftOf)
	p.least(w)
	fmt.Fprint(w, "## Cost: NMAE\n\n")
	fmt.Fprint(w, page.Place("cost"))
	p.byWay(w, costOf)
	p.verdicts(w)
	p.intervals(w)
	p.gates(w)
	p.gaps(w)
	p.belief(w)
}

// least says what no way can be better than.
func (p Said) least(w io.Writer) {
	fmt.Fprint(w, "## What chance leaves\n\nOf first tokens: a task waits for the end of the step that its engine "+
		"is at. Who knows all else, but not where that\nstands, is off by so much where all that is in the step answers: "+
		"by a quarter of it on the mean. The engines of\nthese streams always take the same for a step with the same "+
		"tasks in it; where that varies, less is known. Of cost:\nlengths of answers are drawn, and who knows how, the median of "+
		"the role, the session's answers before and what is cached, is\noff by so much with the guess that errs least; no "+
		"forecast can be expected to be better than that. `told` is `hub`\nif it had known what was cached; the rest is "+
		"belief, which is by a mirror of what was sent, a twentieth smaller\nthan the cache. By seed; -: lengths are "+
		"recorded.\n\n")
	heading(w, "stream", "seed", "first token: step not known", "`"+asHub+"`", "cost: chance", "told",
		"`"+asHub+"`")
	for _, r := range p.Results {
		for _, s := range r.Scores {
			if s.Name != asHub {
				continue
			}
			cost := "-"
			if r.LeastCost > 0 {
				cost = fmt.Sprintf("%.3f", r.LeastCost)
			}
			row(w, "`"+r.Stream+"`", fmt.Sprint(r.Seed), fmt.Sprintf("%.3f", r.LeastTTFT),
				fmt.Sprintf("%.3f", s.TTFT), cost, fmt.Sprintf("%.3f", r.ToldCost),
				fmt.Sprintf("%.3f", s.Cost))
		}
	}
	fmt.Fprintln(w)
}

func (p Said) verdicts(w io.Writer) {
	fmt.Fprintf(w, "## What pays\n\nBeside `%s`, on the streams that nothing was tuned on. A part that does not pay "+
		"has no place in a hub.\n\n", Baseline)
	_, ways := names(p.Results)
	heading(w, "", "first token", "cost")
	for _, way := range ways {
		if way != Baseline {
			row(w, "`"+way+"`", p.pays(way, ttftOf), p.pays(way, costOf))
		}
	}
	fmt.Fprintln(w)
}

func (p Said) intervals(w io.Writer) {
	fmt.Fprint(w, "## Intervals of 90 %\n\nShare covered, by the ratio of what came to what was forecast, of the last 200 "+
		"in three groups by\nforecast, the level adapted by 0.01; and of windows of 500 tasks the share in which 0.86 to "+
		"0.94 were covered. Last, by the intervals that a hub says itself: the same way, as it learns.\n\n")
	streams, ways := names(p.Results)
	ways = slices.DeleteFunc(ways, func(way string) bool { return way == "river" })
	heading(w, append([]string{""}, streams...)...)
	for _, way := range ways {
		cells := []string{"`" + way + "`"}
		for _, s := range streams {
			covered, _ := Figure(p.Results, s, way, func(s Score) float64 { return s.Covered })
			windows, _ := Figure(p.Results, s, way, func(s Score) float64 { return s.Windows })
			cells = append(cells, fmt.Sprintf("%.3f; %.2f", covered, windows))
		}
		row(w, cells...)
	}
	cells := []string{"`" + asHub + "`, itself"}
	for _, s := range streams {
		covered, _ := Figure(p.Results, s, asHub, func(s Score) float64 { return s.OwnCovered })
		windows, _ := Figure(p.Results, s, asHub, func(s Score) float64 { return s.OwnWindows })
		cells = append(cells, fmt.Sprintf("%.3f; %.2f", covered, windows))
	}
	row(w, cells...)
	fmt.Fprintln(w)
}

func (p Said) gates(w io.Writer) {
	fmt.Fprint(w, "## Gates\n\nHow often the gates of a hub and of `gated` opened in a stream, and the share of tasks for "+
		"which that of first tokens was open.\n\n")
	heading(w, "stream", "seed", "way", "first tokens", "open", "lengths of answers")
	for _, r := range p.Results {
		for _, s := range r.Scores {
			if s.Name == asHub || s.Name == "gated" {
				row(w, "`"+r.Stream+"`", fmt.Sprint(r.Seed), "`"+s.Name+"`", fmt.Sprint(s.Openings),
					fmt.Sprintf("%.2f", s.Open), fmt.Sprint(s.Lengths))
			}
		}
	}
	fmt.Fprintln(w)
}

func (p Said) gaps(w io.Writer) {
	if !p.Options.Gap {
		return
	}
	fmt.Fprintf(w, "## Who is chosen\n\nWhoever is chosen for a promise was over-estimated. Each way placed the tasks itself, "+
		"but for %.0f %% by lot, with the first seed: mean error\n(forecast less what came, by what came, in per cent) "+
		"of agents that it chose, "+
		"of those by lot, and the gap in points.\n\n", 100*lots)
	heading(w, append([]string{"stream"}, chosen...)...)
	streams, _ := names(p.Results)
	for _, stream := range streams {
		cells := []string{"`" + stream + "`"}
		for _, way := range chosen {
			var awarded, all, n float64
			for _, r := range p.Results {
				for _, g := range r.Gaps {
					if r.Stream == stream && g.Name == way {
						awarded, all, n = awarded+g.Awarded, all+g.All, n+1
					}
				}
			}
			if n == 0 {
				cells = append(cells, "-")
				continue
			}
			cells = append(cells, fmt.Sprintf("%+.1f %+.1f: %+.1f", 100*awarded/n, 100*all/n,
				100*(awarded-all)/n))
		}
		row(w, cells...)
	}
	fmt.Fprintln(w)
}

func (p Said) belief(w io.Writer) {
	fmt.Fprint(w, "## Belief\n\nTokens of a task by which what the hub believed cached was off what the engine reported. "+
		"By the mirror of what\nwas sent; and what the engine held when the task was sent, which is the best that events "+
		"could say: what goes\nbetween then and the first step no event tells in time. A hub that hears events is not in "+
		"this table yet.\n\n")
	heading(w, "stream", "mirror", "held by the engine", "events")
	streams, _ := names(p.Results)
	for _, stream := range streams {
		var belief, held, n float64
		for _, r := range p.Results {
			if r.Stream == stream {
				belief, held, n = belief+r.Belief, held+r.Held, n+1
			}
		}
		row(w, "`"+stream+"`", fmt.Sprintf("%.1f", belief/n), fmt.Sprintf("%.1f", held/n), "-")
	}
}
