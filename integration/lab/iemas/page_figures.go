package iemas

import (
	"fmt"
	"strings"

	"souk/integration/lab/page"
	"souk/integration/lab/virtual"
)

// theirNMAE holds the paper's errors, of Fig. 3.
var theirNMAE = [measures]float64{0.101, 0.090, 0.069}

// fig3 says what predictors expected, by turn.
func (r *Results) fig3(p *page.Page) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## Fig. 3: what is expected, and what came\n\nAll ways hear of the same tasks, %d of a stream, whoever "+
		"places them; they say what they expect when a task is sent, and learn once it has ended. NMAE is the sum of what "+
		"they were off by the sum of what came. The paper does not say whether its errors are of tasks or of the turns' "+
		"means that its figure draws, so both stand here.\n\n", r.Stream)
	var rows [][]string
	for _, w := range Ways {
		rows = append(rows, []string{"`" + w.Name + "`", w.About})
	}
	b.WriteString(page.Table([]string{"way", "what"}, rows))
	set, callers, placer := Sets[0].Name, Loads[0], Placers[0]
	fmt.Fprintf(&b, "\n### %s by turn\n\n%d callers, placed by `%s`, as the paper has it.\n", set, callers, placer)
	for k, name := range MeasureNames {
		plot := page.Plot{Title: fmt.Sprintf("Error of %s by turn, %s", name, set), X: "turn", Y: "NMAE"}
		for i, way := range Ways {
			for turn := 1; turn <= mostTurn; turn++ {
				e := virtual.NewEstimate(r.errs(set, placer, callers, i,
					func(e *Errors) float64 { return e.Turn(turn, k) }))
				plot.Of(way.Name).Add(float64(turn), e.Mean, e.Within)
			}
		}
		p.Plots["fig3-"+name] = plot
		b.WriteString(page.Place("fig3-" + name))
	}
	rows = nil
	heading := []string{"turn"}
	for _, name := range MeasureNames {
		heading = append(heading, name+": eq5", "hub")
	}
	for turn := 1; turn <= mostTurn; turn++ {
		row := []string{fmt.Sprint(turn)}
		for k := range MeasureNames {
			for _, i := range []int{eq5Way, hubWay} {
				row = append(row, cellOf(3, r.errs(set, placer, callers, i,
					func(e *Errors) float64 { return e.Turn(turn, k) })))
			}
		}
		rows = append(rows, row)
	}
	b.WriteString(page.Table(heading, rows))
	for k, name := range MeasureNames {
		fmt.Fprintf(&b, "\n### NMAE of %s\n\nThe paper: %.3f. Of tasks, and behind it of turns' means.", name, theirNMAE[k])
		if k == graded {
			b.WriteString(" An answer is right or wrong, and who says a chance is off either way; who says nothing but 0 " +
				"and 1 can err less by this measure and be the worse for it. So the mean square (Brier's) stands behind them.")
		}
		b.WriteString("\n\n")
		b.WriteString(r.ways(k))
	}
	b.WriteString(r.beside())
	return b.String()
}

// ways is the table of a measure: every stream, every way.
func (r *Results) ways(k int) string {
	heading := []string{"set", "callers", "placed by"}
	for _, w := range Ways {
		heading = append(heading, "`"+w.Name+"`", "turns")
		if k == graded {
			heading = append(heading, "square")
		}
	}
	var rows [][]string
	r.each(func(set, placer string, callers int) {
		row := []string{set, fmt.Sprint(callers), "`" + placer + "`"}
		for i := range Ways {
			means := r.errs(set, placer, callers, i, func(e *Errors) float64 { return e.Mean(k) })
			row = append(row, cellOf(3, r.errs(set, placer, callers, i,
				func(e *Errors) float64 { return e.NMAE(k) })),
				fmt.Sprintf("%.3f", virtual.NewEstimate(means).Mean))
			if k == graded {
				row = append(row, cellOf(3, r.errs(set, placer, callers, i, (*Errors).Brier)))
			}
		}
		rows = append(rows, row)
	})
	return page.Table(heading, rows)
}

// each calls do for every stream, in the order of tables.
func (r *Results) each(do func(set, placer string, callers int)) {
	for _, w := range r.Worlds {
		for _, callers := range Loads {
			for _, placer := range Placers {
				do(w.Name, placer, callers)
			}
		}
	}
}

// Ways that are held against each other.
const (
	eq5Way = 0
	hubWay = 2
)

// beside says where the hub's errors are less than the paper's trees', and where not, by runs of the same
// seed.
func (r *Results) beside() string {
	var b strings.Builder
	b.WriteString("\n### Where ours is better, and where not\n\nThe hub's way beside the paper's trees on the same streams: less, " +
		"level or more where the 95 % interval of the difference by seed says so.\n\n")
	var rows [][]string
	worse := ""
	for k := range measures + 1 {
		name, of := "quality, mean square", (*Errors).Brier
		if k < measures {
			name, of = MeasureNames[k], func(e *Errors) float64 { return e.NMAE(k) }
		}
		var count [3]int
		r.each(func(set, placer string, callers int) {
			v := verdict(r.errs(set, placer, callers, eq5Way, of), r.errs(set, placer, callers, hubWay, of))
			count[v]++
			if v == less && k != graded { // of which the square says more
				worse += fmt.Sprintf("* %s: %s, %d callers, placed by `%s`: %s against %s of the trees\n",
					name, set, callers, placer, cellOf(3, r.errs(set, placer, callers, hubWay, of)),
					cellOf(3, r.errs(set, placer, callers, eq5Way, of)))
			}
		})
		rows = append(rows, []string{name, fmt.Sprint(count[more]), fmt.Sprint(count[level]),
			fmt.Sprint(count[less])})
	}
	b.WriteString(page.Table([]string{"error of", "the hub's is less", "level", "the hub's is more"}, rows))
	if worse != "" {
		b.WriteString("\nWhere it is more, but for quality, of which the square says more:\n\n" + worse)
	}
	return b.String()
}

// What the difference of two rows of figures of the same seeds says of the first: it is less, level or more.
const (
	less = iota
	level
	more
)

func verdict(a, b []float64) int {
	var d []float64
	for i := range a {
		d = append(d, a[i]-b[i])
	}
	switch e := virtual.NewEstimate(d); {
	case e.Mean > e.Within:
		return more
	case e.Mean < -e.Within:
		return less
	}
	return level
}

// fig4 is welfare over the first turns.
func (r *Results) fig4(p *page.Page) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## Fig. 4: welfare over %d turns\n\nWelfare of the first turns to end after the first tenth of a run, "+
		"together, in micro-credits; %d callers. The paper's axis has no unit that could be compared.\n", turns, Loads[0])
	for _, w := range r.Worlds {
		fmt.Fprintf(&b, "\n### Welfare on %s\n", w.Name)
		plot := page.Plot{Title: "Welfare over turns, " + w.Name, X: "turns", Y: "micro-credits"}
		heading := []string{"router"}
		var rows [][]string
		for _, x := range Routers {
			row := []string{"`" + x.Name + "`"}
			for n := 0; n <= turns; n += 10 {
				of := r.of(w.Name, x.Name, Loads[0], func(f *Figures) float64 { return f.at(n) })
				e := virtual.NewEstimate(of)
				plot.Of(x.Name).Add(float64(n), e.Mean, 0)
				if n > 0 && n%40 == 0 {
					row = append(row, cellOf(0, of))
				}
			}
			rows = append(rows, row)
		}
		for n := 40; n <= turns; n += 40 {
			heading = append(heading, fmt.Sprintf("after %d", n))
		}
		p.Plots["fig4-"+w.Name] = plot
		b.WriteString(page.Place("fig4-"+w.Name) + page.Table(heading, rows))
	}
	return b.String()
}

// at is the welfare of the first n turns.
func (f *Figures) at(n int) float64 {
	if n == 0 {
		return 0
	}
	return f.Grows[min(n, len(f.Grows))-1]
}
