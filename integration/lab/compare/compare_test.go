package compare

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"souk/integration/lab/page"
	"souk/integration/lab/virtual"
)

// row is a rule in a world, with the welfare and the p99 of each seed.
func row(world, rule string, welfare, p99 []float64) virtual.Row {
	r := virtual.Row{Trace: world, Rule: rule, All: map[string]virtual.Estimate{}}
	for i := range welfare {
		r.Seeds = append(r.Seeds, virtual.Measures{Welfare: welfare[i], P99: p99[i]})
	}
	for _, c := range virtual.Columns {
		var of []float64
		for i := range r.Seeds {
			of = append(of, c.Of(&r.Seeds[i]))
		}
		r.All[c.Name] = virtual.NewEstimate(of)
	}
	return r
}

var rows = []virtual.Row{
	// wins by what each seed has more, though the seeds differ more than that
	row("wins", "two-block", []float64{100, 200, 300}, []float64{50, 50, 50}),
	row("wins", "market", []float64{110, 211, 309}, []float64{90, 90, 90}),
	// loses a tenth
	row("loses", "greedy", []float64{100, 101, 102}, []float64{50, 50, 50}),
	row("loses", "sticky", []float64{50, 50, 50}, []float64{20, 20, 20}),
	row("loses", "market", []float64{90, 91, 92}, []float64{50, 50, 50}),
	// is as good, and is waited for longer
	row("later", "greedy", []float64{100, 102, 101}, []float64{50, 51, 52}),
	row("later", "market", []float64{102, 100, 101}, []float64{80, 81, 82}),
	row("level", "greedy", []float64{100, 102, 101}, []float64{50, 51, 52}),
	row("level", "market", []float64{102, 100, 101}, []float64{53, 52, 54}),
	row("alone", "market", []float64{1}, []float64{1}),
}

func TestLossesComeFirst(t *testing.T) {
	want := []struct {
		world   string
		verdict Verdict
		best    string
	}{{"loses", Loses, "greedy"}, {"later", Loses, "greedy"}, {"level", Level, "greedy"},
		{"wins", Wins, "two-block"}}
	all := Standings(rows)
	if len(all) != len(want) {
		t.Fatalf("%d standings, want %d: %+v", len(all), len(want), all)
	}
	for i, w := range want {
		s := &all[i]
		if !strings.HasPrefix(s.World, w.world) || s.Verdict() != w.verdict || s.Best != w.best {
			t.Errorf("place %d: %s %s beside %s, want %+v", i, s.World, s.Verdict(), s.Best, w)
		}
	}
	if s := all[0]; s.Soonest != "sticky" || s.LeastP99 != 20 || s.More > -9.8 || s.More < -10 ||
		s.Within > 0.001 {
		t.Errorf("the loss is %+v, want a tenth of greedy, and sticky as the soonest", s)
	}
}

// Nobody wins by sooner first tokens who has less welfare on the mean, however wide the interval is.
func TestSoonerIsNoWinWhereWelfareIsLess(t *testing.T) {
	for worth, want := range map[float64]Verdict{60: Level, 110: Wins} {
		all := Standings([]virtual.Row{row("wide", "greedy", []float64{100, 100, 100}, []float64{90, 91, 92}),
			row("wide", "market", []float64{worth, 100, 101}, []float64{10, 11, 12})})
		if len(all) != 1 || all[0].Verdict() != want {
			t.Errorf("welfare %v of 100 at one seed: %+v, want %s", worth, all, want)
		}
	}
}

// Where callers do not outnumber the slots by half, welfare says who asked: first tokens alone count.
func TestAClosedLoopIsJudgedByWaits(t *testing.T) {
	of := []virtual.Row{row("few", "greedy", []float64{100, 100}, []float64{10, 11}),
		row("few", "slow", []float64{900, 900}, []float64{90, 90}), row("few", "market", []float64{50, 50},
			[]float64{5, 6})}
	for i := range of {
		for k := range of[i].Seeds {
			of[i].Seeds[k].Uncounted = true
		}
	}
	all := Standings(of)
	if len(all) != 1 || all[0].Best != "greedy" || !all[0].Waits || all[0].Verdict() != Wins {
		t.Errorf("%+v; want the market to win beside greedy, by waits", all)
	}
	m := Made{Name: "x", Title: "X", Command: "lab x", Rows: of}
	if md := m.Page().Markdown(); strings.Contains(md, "900.0") {
		t.Errorf("welfare that says who asked is on the page:\n%s", md)
	}
}

// The front page is made of the pages that lie there, and says which do not.
func TestFrontPage(t *testing.T) {
	dir := t.TempDir()
	m := Made{Name: "crowd", Title: "When slots are short", Command: "lab crowd", Rows: rows,
		Sections: []Section{{Title: "More", About: "Text.", Rows: rows[:2]}}}
	if err := m.Page().Write(dir); err != nil {
		t.Fatal(err)
	}
	p, err := Front(dir, []Entry{{Name: "crowd", About: "slots", Command: "`lab crowd`", Standings: true},
		{Name: "cliff", About: "caches", Command: "`lab cliff`", Standings: true}})
	if err != nil {
		t.Fatal(err)
	}
	md := p.Markdown()
	for _, want := range []string{"Of 4 worlds the market loses 2, is level in 1 and wins 1", "Not made yet: cliff.",
		"| [crowd: loses](crowd.md#loses) | **loses** | -9.9 ± 0.0 %",
		"| loses | 1 | 0 | 0 | -9.9 ± 0.0 % beside greedy |", "| [crowd](crowd.md) | slots |"} {
		if !strings.Contains(md, want) {
			t.Errorf("no %q on the front page:\n%s", want, md)
		}
	}
	if strings.Index(md, "Where the market loses") > strings.Index(md, "Where the market wins") {
		t.Error("losses are not first")
	}
	if err := p.Write(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"README.md", "index.html"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "cliff.html"), []byte("<html>"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Front(dir, []Entry{{Name: "cliff", Standings: true}}); err == nil ||
		!strings.Contains(err.Error(), "cliff.html: it has no figures: make it anew") {
		t.Errorf("a page without figures: %v", err)
	}
}

// Worlds that differ in load alone stand below one heading, with those rows that matter; all others are
// folded away in the HTML, and each rule is in the table of all worlds.
func TestLoadsStandTogether(t *testing.T) {
	var all []virtual.Row
	for _, load := range []float64{0.6, 1.1} {
		for i, rule := range []string{"a", "b", "c", "d", "soon", "market"} {
			r := row("w", rule, []float64{10 - float64(i), 11 - float64(i)}, []float64{99, 99})
			if rule == "soon" {
				r = row("w", rule, []float64{1, 1}, []float64{10, 10})
			}
			r.Load, r.Rate = load, 10*load
			all = append(all, r)
		}
	}
	m := Made{Name: "x", Title: "X", Command: "lab x", About: "Text.", Rows: all}
	p := m.Page()
	md := p.Markdown()
	for want, times := range map[string]int{"\n## w\n": 1, "| 0.60 | a |": 1, "| 1.10 | c |": 1,
		"| 0.60 | d |": 0, "| 1.10 | soon |": 1, "| 0.60 | market |": 1, "\n| d | 28.": 1,
		"0.60 (6.00 a second), 1.10 (11.00 a second)": 1, "[w at 0.60](#w)": 1} {
		if got := strings.Count(md, want); got != times {
			t.Errorf("%q stands there %d times, want %d:\n%s", want, got, times, md)
		}
	}
	html, err := p.HTML()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(html), "<summary>All rules</summary>") ||
		strings.Count(string(html), "<svg") != 2 {
		t.Errorf("want a fold, and two plots over loads:\n%s", html)
	}
}

func TestFrontier(t *testing.T) {
	of := []virtual.Row{row("w", "posted", []float64{10, 11}, []float64{20, 20}),
		row("w", "posted", []float64{12, 13}, []float64{40, 40}),
		row("w", "random", []float64{1, 1}, []float64{90, 90}),
		row("w", "market", []float64{9, 9}, []float64{10, 10})}
	of[0].Knob, of[1].Knob = "posted:1", "posted:2"
	p := Frontier("lab frontier", of)
	html, err := p.HTML()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"posted:2", ">others</text>", ">market</text>", `"best":"posted:2"`} {
		if !strings.Contains(string(html), want) {
			t.Errorf("no %q on the page", want)
		}
	}
	var back []Standing
	dir := t.TempDir()
	if err := p.Write(dir); err != nil {
		t.Fatal(err)
	}
	if ok, err := page.Load(dir, "frontier", &back); !ok || err != nil || len(back) != 1 {
		t.Errorf("standings read back: %v, %v, %v", back, ok, err)
	}
}

// Where nobody says terms what is short of a bar is marked, and where none was asked nothing is.
func TestBarsWhereNobodySaysTerms(t *testing.T) {
	world := func(trace string, load float64, longest, work float64) (of []virtual.Row) {
		for _, rule := range []string{"two-block", "market"} {
			r := row(trace, rule, []float64{10, 10}, []float64{20, 20})
			r.Load = load
			r.All["tasks/s"], r.All["longest"] = virtual.Estimate{Mean: 40}, virtual.Estimate{Mean: 100}
			if rule == "market" {
				r.All["p99"], r.All["work"] = virtual.Estimate{Mean: 30}, virtual.Estimate{Mean: work}
				r.All["share"] = virtual.Estimate{Mean: -0.025}
				r.All["longest"] = virtual.Estimate{Mean: longest}
			}
			of = append(of, r)
		}
		return of
	}
	said := silent(slices.Concat(world("mtrag", 0.6, 140, 1.1), world("small", 0.9, 160, 1.3),
		world("rag", 0.9, 160, 1.3), world("quac", 0.6, 200, 1.3)))
	for _, want := range []string{
		"| mtrag at 0.60 | **-0.025** | +0.0 % | 1.10 | **1.50** | 1.40 |",
		"| small at 0.90 | -0.025 | +0.0 % | **1.30** | 1.50 | **1.60** |",
		"| rag at 0.90 | **-0.025** | +0.0 % | 1.30 | 1.50 | **1.60** |",
		"| quac at 0.60, shown | -0.025 | +0.0 % | 1.30 | 1.50 | 2.00 |"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	if silent(rows) != "" {
		t.Error("there is a section of traces that have no bars")
	}
}

// Beside the best rule the temper stands with which the market does worst.
func TestTheWorstTemper(t *testing.T) {
	tempered := func(rule string, hurried, thrifty float64) virtual.Row {
		r := row("w", rule, []float64{10, 10, 10}, []float64{20, 20, 20})
		for i := range r.Seeds {
			r.Seeds[i].Tempers = []virtual.Group{{Name: "hurried", Welfare: hurried},
				{Name: "thrifty", Welfare: thrifty}}
		}
		return r
	}
	m, rival := tempered("market", 9, 11), tempered("greedy", 10, 10)
	if got := worstTemper(&m, &rival); got[0] != "-10.0 ± 0.0 %, hurried" || got[1] != "**short**" {
		t.Errorf("%q", got)
	}
	m = tempered("market", 9.9, 12)
	if got := worstTemper(&m, &rival); got[0] != "-1.0 ± 0.0 %, hurried" || got[1] != "holds" {
		t.Errorf("%q", got)
	}
}

// The front page begins with the figure that a page gives to it.
func TestFrontPageHasAFigure(t *testing.T) {
	dir := t.TempDir()
	plot := page.Plot{Title: "Dollars", Bars: "$%.0f"}
	plot.Put("azure", "market", 68, 5)
	gives := page.Page{Name: "gpus", Title: "GPUs", Text: "Text.\n",
		Figures: struct{ Figure }{Figure{"The market **loses**.\n", plot}}}
	if err := gives.Write(dir); err != nil {
		t.Fatal(err)
	}
	p, err := Front(dir, []Entry{{Name: "gpus", About: "GPUs", Command: "`lab`", Gives: true},
		{Name: "none", Gives: true}})
	if err != nil {
		t.Fatal(err)
	}
	html, err := p.HTML()
	if err != nil || strings.Count(string(html), "<svg") != 1 ||
		!strings.Contains(string(html), ">$68 market<") ||
		!strings.HasPrefix(p.Text, "The market **loses**.") {
		t.Errorf("%v: %s", err, html)
	}
}
