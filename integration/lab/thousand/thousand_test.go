package thousand

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/integration/lab/page"
)

// small is a run of which every play takes a part of a second.
func small() Options {
	o := DefaultOptions()
	o.Engines, o.Length, o.Thought = 24, 10*time.Second, 50
	return o
}

// Every round is verified, whatever is played is on the page, and the same seed gives the same figures: of a
// clock, too, nothing goes by it.
func TestPage(t *testing.T) {
	o := small()
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	alone, err := Play(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Duration(0)
	o.Clock = func() func() time.Duration {
		return func() time.Duration { now += time.Millisecond; return now }
	}
	r, err := Play(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range r.Rows {
		other := alone.Rows[i]
		if m := row.Market; m != nil {
			if m.Verified != m.Recorded || m.Recorded == 0 || m.Held < m.Recorded || m.Record < 100 ||
				m.Round < m.Record {
				t.Errorf("%s: %+v", row.Play, *m)
			}
			if c := row.Clocks; c == nil || c.P50 < 1 || c.Most < c.P99 || c.Busy <= 0 || c.Audit < 1000 {
				t.Errorf("%s: %+v", row.Play, row.Clocks)
			}
		}
		if row.Clocks = nil; text(t, row) != text(t, other) {
			t.Errorf("%s: with a clock %s, and without %s", row.Play, text(t, row), text(t, other))
		}
	}
	p := r.Page("lab experiment thousand")
	if _, err := p.HTML(); err != nil {
		t.Error(err)
	}
	said := p.Markdown()
	for _, part := range []string{"| 20 hubs |", "| `greedy` |", "## By the clock", "hubs pay"} {
		if !strings.Contains(said, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
	if strings.Contains(said, "NaN") || strings.Contains(said, "Inf") {
		t.Error("a figure is none")
	}
	if strings.Contains(alone.Page("lab").Markdown(), "## By the clock") {
		t.Error("without a clock nothing is by it")
	}
	keeps(t, r)
}

// Plays side by side are what each is alone.
func TestPlaysBesideOthers(t *testing.T) {
	o := small()
	o.Engines, o.Plays = 8, []string{"1-hub", "3-hubs", "greedy"}
	all, err := Play(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	o.Plays = o.Plays[1:2]
	if alone, err := Play(t.Context(), o); err != nil || text(t, alone.Rows[0]) != text(t, all.Rows[1]) {
		t.Errorf("%v: alone %s, beside others %s", err, text(t, alone), text(t, all))
	}
}

// keeps sees that a page made in pieces is the page.
func keeps(t *testing.T, r *Results) {
	t.Helper()
	dir, p := t.TempDir(), r.Page("lab")
	if err := p.Write(dir); err != nil {
		t.Fatal(err)
	}
	part := &Results{World: r.World, Rows: slices.Clone(r.Rows[2:3])}
	var before Results
	if ok, err := page.Load(dir, "thousand", &before); !ok || err != nil {
		t.Fatal(err)
	}
	part.Keep(&before)
	if text(t, part) != text(t, r) {
		t.Errorf("in pieces %s, at once %s", text(t, part), text(t, r))
	}
	other := &Results{World: World{Engines: 7}}
	if other.Keep(&before); len(other.Rows) > 0 {
		t.Error("what was played of another world stays")
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// What is short comes first, and who cannot be told from a bar is open.
func TestBars(t *testing.T) {
	row := func(play string, hubs int, welfare ...float64) Row {
		x := Row{Play: play, Welfare: welfare}
		if hubs > 0 {
			x.Market = &Market{Hubs: hubs, Recorded: 5, Verified: 5}
		}
		return x
	}
	r := &Results{Rows: []Row{row(oneHub, 1, 94, 95, 96), row(threeHubs, 3, 100, 101, 102),
		row("greedy", 0, 80, 110, 95), row("power-of-two", 0, 50, 51, 52)}}
	r.Rows[1].Market.Verified = 4
	said := r.bars()
	for _, line := range []string{"3 hubs: every recorded round is verified | 4 of 5 | **short**",
		"three hubs', or better | -5.9 ± 0.0 % | **short**", "`greedy` | +0.0 ± 38.0 % | open",
		"`power-of-two` | +86.3 ± 0.0 % | holds"} {
		if !strings.Contains(said, line) {
			t.Errorf("no %q in\n%s", line, said)
		}
	}
	if strings.LastIndex(said, "short") > strings.Index(said, "open") ||
		strings.Index(said, "open") > strings.Index(said, "holds") {
		t.Errorf("in another order:\n%s", said)
	}
}

// Hubs pay from where one has no more time, and those are named that have.
func TestFromWhereOnHubsPay(t *testing.T) {
	row := func(play string, hubs int, busy float64) Row {
		return Row{Play: play, Welfare: []float64{1, 2}, Tasks: 48, Market: &Market{Hubs: hubs},
			Clocks: &Clocks{P50: 11, Busy: busy}}
	}
	r := &Results{World: World{Engines: 9, Length: time.Minute},
		Rows: []Row{row(oneHub, 1, 0.5), row(threeHubs, 3, 1.2), row("6-hubs", 6, 0.7)}}
	if said := r.pays(); !strings.Contains(said, "needs 0.50 for 1 tasks a second") ||
		!strings.Contains(said, "no more time at 2:") {
		t.Error(said)
	}
	r.Rows[0].Clocks.Busy = 2
	if said := r.pays(); !strings.Contains(said, "enough for 0,") || strings.Contains(said, "3 hubs") ||
		!strings.Contains(said, "6 hubs are the fewest of which none needs a whole one: the busiest 0.70") {
		t.Error(said)
	}
	if said := r.bars(); !strings.Contains(said, "| 2.00 | **short** |") ||
		!strings.Contains(said, "| 11.00 ms | **short** |") {
		t.Error(said)
	}
}

func TestOptions(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"no engines":    func(o *Options) { o.Engines = 0 },
		"too many":      func(o *Options) { o.Engines = most + 1 },
		"no load":       func(o *Options) { o.Load = 0 },
		"no time":       func(o *Options) { o.Length = 0 },
		"no reasoning":  func(o *Options) { o.Thought = -1 },
		"hubs for none": func(o *Options) { o.Engines = 8 },
	} {
		o := DefaultOptions()
		if change(&o); o.Validate() == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
