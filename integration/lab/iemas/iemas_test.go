package iemas

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"souk/hub/predict/tree"
	"souk/integration/lab/learned"
	"souk/integration/lab/runs"
	"souk/integration/lab/traces"
	"souk/integration/lab/virtual"
)

func row(task string, scores map[string]float64) traces.Question {
	q := traces.Question{Task: task, Models: map[string][3]float64{}}
	for m, s := range scores {
		q.Models[m] = [3]float64{s, 10, 20}
	}
	return q
}

// Rows that lack a model's score, or come a second time, are left out and counted; a score that is no share
// is an error, and so is a set of which nothing is left.
func TestRowsThatCannotBeUsed(t *testing.T) {
	both := map[string]float64{"a": 1, "b": 0.5}
	rows := []traces.Question{row("x", both), row("y", both), row("x", map[string]float64{"a": 1}),
		row("x", both), row("other", both), row("x", map[string]float64{"a": 0, "b": 1, "c": 1})}
	r, err := record(rows, []string{"x", "y"}, []string{"a", "b"})
	if err != nil || r.Rows != 5 || r.Missing != 1 || r.Doubled != 1 || r.Kept() != 3 {
		t.Fatalf("%+v, %v: want 5 rows, of which 1 lacks a score and 1 is doubled", r, err)
	}
	if !slices.Equal(r.kind, []int{0, 1, 0}) || r.mean(0) != 2.0/3 || r.mean(1) != 2.0/3 {
		t.Errorf("kinds %v and means %v, %v", r.kind, r.mean(0), r.mean(1))
	}
	for name, rows := range map[string][]traces.Question{
		"above 1":         {row("x", both), row("x", map[string]float64{"a": 1.01, "b": 0})},
		"below 0":         {row("x", map[string]float64{"a": -0.1, "b": 0})},
		"no number":       {row("x", map[string]float64{"a": math.NaN(), "b": 0})},
		"of no such kind": {row("z", both)},
		"all lack one":    {row("x", map[string]float64{"a": 1})},
	} {
		if r, err := record(rows, []string{"x"}, []string{"a", "b"}); err == nil {
			t.Errorf("%s: taken as %+v", name, r)
		} else {
			t.Log(err)
		}
	}
}

// The network as printed serves as many as it can, even where that is worth less: with t1 worth 10 on A and 1
// on B, and t2 worth 5 on A, both are served for 6. What is worth nothing is not served, nor who finds no
// slot.
func TestMaxFlowAsPrinted(t *testing.T) {
	view := func(engines int) *virtual.View {
		s := virtual.Setting{Engines: engines,
			Engine: virtual.EngineConfig{Slots: 1, Blocks: 100, BlockSize: 16}}
		return virtual.NewView(&s)
	}
	for _, c := range []struct {
		weights [][]int64
		want    []int32
	}{
		{[][]int64{{10, 1}, {5, 0}}, []int32{1, 0}},
		{[][]int64{{10, 1}, {0, -3}}, []int32{0, -1}},
		{[][]int64{{3, 0}, {4, 0}}, []int32{-1, 0}},
		{[][]int64{{7, 8}, {6, 6}}, []int32{1, 0}},
	} {
		if got := maxFlow(c.weights, view(2)); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.weights, got, c.want)
		}
	}
	full := view(2)
	full.Engines[0].InFlight = 1
	if got := maxFlow([][]int64{{10, 1}, {5, 0}}, full); !slices.Equal(got, []int32{1, -1}) {
		t.Errorf("with A full: %v", got)
	}
}

func world(t *testing.T, set int) *World {
	t.Helper()
	w, err := NewWorld(Sets[set])
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Every engine's cache and weights fit into the share of its card's memory, and hold more than a context.
func TestCachesAreOfTheCard(t *testing.T) {
	for _, m := range models {
		bytes := float64(m.blocks()*blockSize*2*m.layers*m.keys) + 2e9*m.size + working*1e9
		if most := memory * m.card * 1e9; bytes > most || bytes < 0.99*most || m.blocks()*blockSize < tokens {
			t.Errorf("%s: %.1f GB of %.1f, %d blocks", m.name, bytes/1e9, most/1e9, m.blocks())
		}
	}
}

// A run is the same again, and predictors that watch it change nothing.
func TestWhoWatchesChangesNothing(t *testing.T) {
	w := world(t, 0)
	for _, router := range []string{"random", "iemas", virtual.MarketName} {
		play := func(watched bool) string {
			s := w.setting(3, 36, 200)
			p, end, err := w.policy(router, s)
			if err != nil {
				t.Fatal(err)
			}
			heard := 0
			if watched {
				p = newWatch(w, p, func(_ *virtual.Request, says []expected, came expected) {
					heard++
					if len(says) != len(Ways) || came.latency <= 0 || came.cost <= 0 {
						t.Errorf("%s: expected %v, came %v", router, says, came)
					}
				})
			}
			all, _, err := virtual.Run(s, p)
			if err == nil {
				err = end()
			}
			if err != nil {
				t.Fatal(err)
			}
			served := 0
			var b strings.Builder
			for _, q := range all {
				fmt.Fprintln(&b, q.Caller, q.Turn, q.Engine, q.First, q.Done, q.Refused)
				if !q.Refused {
					served++
				}
			}
			if watched && heard != served {
				t.Errorf("%s: predictors heard of %d ends of %d", router, heard, served)
			}
			return b.String()
		}
		if alone := play(false); alone != play(false) || alone != play(true) {
			t.Errorf("%s: runs of one seed differ", router)
		}
	}
}

// Routers that play side by side play as each does alone, in whatever order they are played.
func TestRoutersPlaySideBySide(t *testing.T) {
	w, routers := world(t, 0), []string{"iemas", "market", "mf", "greedy-first:4"}
	play := func(most int) []string {
		all, err := runs.Each(t.Context(), len(routers), most, func(int) {}, func(i int) (string, error) {
			f, err := w.play(routers[i], 1, Loads[0], 40)
			return fmt.Sprint(f), err
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if side, alone := play(4), play(1); !slices.Equal(side, alone) {
		t.Errorf("side by side %v, alone %v", side, alone)
	}
}

// What the paper's router learns of, it finds again: dialogues stay where they are cached more often than by
// lot, and no engine has more than its slots.
func TestTheRouterAsPrinted(t *testing.T) {
	w := world(t, 0)
	own, err := w.play("iemas", 1, Loads[0], 600)
	if err != nil {
		t.Fatal(err)
	}
	lot, err := w.play("random", 1, Loads[0], 600)
	if err != nil || own.Share < lot.Share+0.1 || own.Cost > lot.Cost {
		t.Errorf("share %.3f, by lot %.3f; cost %.1f and %.1f; %v", own.Share, lot.Share, own.Cost, lot.Cost,
			err)
	}
	if len(own.Grows) != turns || own.Grows[turns-1] <= 0 {
		t.Errorf("welfare of %d turns is %v", turns, own.Grows)
	}
	if _, err := w.play("iemas", 1, Loads[2], 400); err != nil { // where slots are short
		t.Error(err)
	}
}

// Routers that have learned read the question for which a turn stands: the row of their own set has the same
// scores.
func TestWhatLearnedRoutersRead(t *testing.T) {
	data, err := learned.Recorded()
	if err != nil {
		t.Fatal(err)
	}
	set := data.Set("routeprofile")
	for i := range Sets {
		w := world(t, i)
		for k, n := range w.row {
			for m, name := range names() {
				if got := set.Rows[n].Scores[slices.Index(set.Models, name)]; got != w.scores[k][m] {
					t.Fatalf("%s: question %d of row %d: %s has %v, and %v in the set", w.Name, k, n, name,
						w.scores[k][m],
						got)
				}
			}
		}
	}
	w := world(t, 0)
	for _, name := range learned.Names() {
		s := w.setting(1, Loads[0], 100)
		p, _, err := w.policy(name, s)
		if err != nil {
			t.Fatal(err)
		}
		all, _, err := virtual.Run(s, p)
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range all {
			if *q.Read() != p.(*reads).rows[w.row[w.question(q)]].Question {
				t.Fatalf("%s: turn %d of caller %d is read otherwise", name, q.Turn, q.Caller)
			}
		}
	}
}

// An agent's trees learn of its own tasks alone, each of its own quality, and expect what came.
func TestTreesOfAnAgent(t *testing.T) {
	p, x := newEq5(tree.Default(), 2), make([]float64, features)
	for range 50 {
		p.ended(0, x, expected{1, 10, 0.5})
	}
	if got := p.expect(0, x); math.Abs(got.latency-1)+math.Abs(got.cost-10)+math.Abs(got.quality-0.5) > 0.1 {
		t.Errorf("of what came 50 times it expects %+v", got)
	}
	if got := p.expect(1, x); got != (expected{}) {
		t.Errorf("the other agent, which did nothing, expects %+v", got)
	}
}

// Errors count by tasks, by turns' means, and by squares.
func TestErrors(t *testing.T) {
	var e Errors
	e.add(1, expected{2, 30, 0.5}, expected{1, 20, 1})
	e.add(1, expected{1, 10, 0.5}, expected{2, 20, 0})
	e.add(25, expected{1, 10, 1}, expected{2, 20, 1})
	for k, want := range [measures][2]float64{{3.0 / 5, 1.0 / 3.5}, {30.0 / 60, 10.0 / 40}, {1.0 / 2, 0}} {
		got := [2]float64{e.NMAE(k), e.Mean(k)}
		if math.Abs(got[0]-want[0])+math.Abs(got[1]-want[1]) > 1e-12 {
			t.Errorf("%s: %v, want %v", MeasureNames[k], got, want)
		}
	}
	if got := e.Brier(); math.Abs(got-0.5/3) > 1e-12 {
		t.Errorf("square %v", got)
	}
	if e.Turn(mostTurn, latency) != 0.5 || e.Turn(2, latency) != 0 {
		t.Errorf("by turn %v, %v: what comes later is of the last turn", e.Turn(mostTurn, latency),
			e.Turn(2, latency))
	}
}

// The page has every router of the paper, and every plot that it names.
func TestPage(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	o := Options{Seeds: []uint64{1}, Tasks: 2 * turns, Stream: 2 * turns, Progress: func(int, int) {}}
	r, err := Play(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	p := r.Page("lab experiment iemas")
	if _, err := p.HTML(); err != nil {
		t.Error(err)
	}
	text := p.Markdown()
	for _, x := range Routers {
		if strings.Count(text, "`"+x.Name+"`") < 3 {
			t.Errorf("%s is not on the page", x.Name)
		}
	}
	if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
		t.Error("a figure is none")
	}
	o.Tasks = turns
	if _, err := Play(t.Context(), o); err == nil {
		t.Errorf("%d tasks are fewer than Fig. 4 has", o.Tasks)
	}
}
