package games

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"souk/hub/regime"
	"souk/integration/lab/page"
	"souk/integration/lab/virtual"
)

// Behind a real hub twice the knee is seen within 15 s, whatever comes before, by few slots as by many.
func TestTwiceTheKneeIsSeenByTheHub(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	for _, c := range []Crowd{Pair, Four, Eight} {
		for seed := range uint64(2) {
			if after, err := c.Detection(seed); err != nil || after <= 0 || after > 15*time.Second {
				t.Errorf("%v, seed %d: seen after %v: %v", c, seed, after, err)
			}
		}
	}
}

// A detector that says nothing at all is not the fastest one.
func TestWhatIsNeverSeenIsLate(t *testing.T) {
	for name, c := range map[string]struct {
		seen []float64
		want time.Duration
	}{
		"seen":  {[]float64{7.5}, 7500 * time.Millisecond},
		"never": {nil, kneeSeen},
	} {
		if got := detected([]Row{{Seen: c.seen}}); got != c.want {
			t.Errorf("%s: after %v, want %v", name, got, c.want)
		}
	}
}

// Behind a real hub nothing calls 0.8 of the knee more than that, however few the slots are.
func TestNothingChangesBelowTheKneeOfTheHub(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	j := Pair.job("", times{0.8, 10 * time.Minute})
	rows, err := j.run(1)
	if err != nil {
		t.Fatal(err)
	}
	if worst := regime.State(rows[0].Worst[0]); worst != regime.Below {
		t.Errorf("%s, first after %.0f s", worst, rows[0].Seen)
	}
}

// The paper's router takes the least of its costs, or draws by them.
func TestTheRouterDraws(t *testing.T) {
	costs := []float64{30, 10, 20}
	share := func(tau float64) (of [3]float64) {
		d := newDynamo(3, regime.Params{Temperature: tau, Overlap: 1}, 1)
		for range 20_000 {
			of[d.draw(costs)] += 1.0 / 20_000
		}
		return of
	}
	if got := share(0); got[1] < 0.999 {
		t.Errorf("at temperature 0: %v", got)
	}
	got := share(0.5)
	a, b, c := math.Exp(-1/0.5), 1.0, math.Exp(-0.5/0.5)
	for i, want := range []float64{a, b, c} {
		if want /= a + b + c; math.Abs(got[i]-want) > 0.02 {
			t.Errorf("at temperature 0.5: %v, want %v of engine %d", got, want, i)
		}
	}
}

// The paper's controller goes up on a sustained rise, and down again.
func TestThePublishedController(t *testing.T) {
	a := &adaptive{}
	now := virtual.Start
	feed := func(first time.Duration, readings int) regime.State {
		for range readings {
			for range 50 {
				a.first(first)
			}
			now = now.Add(regime.Every)
			a.read(now)
		}
		return a.state
	}
	a.read(now)
	if s := feed(50*time.Millisecond, 20); s != regime.Below {
		t.Errorf("%s at 50 ms", s)
	}
	if s := feed(time.Second, 1); s != regime.Below {
		t.Errorf("%s after one reading above", s)
	}
	if s := feed(time.Second, 8); s != regime.Transition {
		t.Errorf("%s at a second", s)
	}
	if s := feed(10*time.Second, 8); s != regime.Saturated {
		t.Errorf("%s at ten", s)
	}
	if s := feed(50*time.Millisecond, 30); s != regime.Below {
		t.Errorf("%s at 50 ms again", s)
	}
}

// The window of the paper's estimate explains its plateaus: 2.46 s an answer are 7.5 with two engines and
// 14.8 with five.
func TestThePlateausOfThePaper(t *testing.T) {
	for engines, want := range map[int]float64{2: 7.47, 5: 14.7} {
		var done []*virtual.Request
		for i := range 320 {
			r := &virtual.Request{ID: i, Engine: i % engines, Done: 2460 * time.Millisecond}
			r.Prompt, r.Cached = 128, 128
			done = append(done, r)
		}
		if got := counted(done, engines); math.Abs(got/want-1) > 0.02 {
			t.Errorf("%d engines: %.2f, the paper has %v", engines, got, want)
		}
	}
}

// Runs that go side by side share nothing: they give what they give one after the other.
func TestRunsSideBySide(t *testing.T) {
	short := job{topology: Five, rule: theirs, load: "16", setting: Five.steady(16, 5*time.Second),
		parts: []part{{"", span{ramp, ramp + 5*time.Second}}}, watched: span{0, ramp}}
	e := Experiment{Name: "short", jobs: func() []job { return []job{short} }}
	side, err := e.Run(t.Context(), []uint64{1, 2}, func(int) {}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	var alone []Row
	for seed := uint64(1); seed <= 2; seed++ {
		rows, err := short.run(seed)
		if err != nil {
			t.Fatal(err)
		}
		alone = append(alone, rows...)
	}
	alone[0].join(&alone[1])
	if !reflect.DeepEqual(side, alone[:1]) {
		t.Errorf("side by side %+v, alone %+v", side, alone[:1])
	}
}

// The same seed gives the same figures, and the page has a table of what was played.
func TestARunIsThePagesTable(t *testing.T) {
	job := job{topology: Five, rule: theirs, load: "16", setting: Five.steady(16, 20*time.Second),
		parts: []part{{"", span{ramp, ramp + 20*time.Second}}}, watched: span{0, ramp}}
	one, err := job.run(1)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := job.run(1); err != nil || !reflect.DeepEqual(one, again) {
		t.Errorf("the same seed gives %+v and %+v: %v", one, again, err)
	}
	if f := one[0].Seeds[0]; math.Abs(f.InFlight-16) > 0.2 || math.Abs(f.Rate*f.Latency-16) > 0.5 ||
		f.PoA < 1 {
		t.Errorf("by Little's law %+v is not of 16 callers", f)
	}
	p, err := Page("lab games", map[string]*Made{"2": {Command: "lab games --only 2", Seeds: 1, Rows: one}})
	if err != nil {
		t.Fatal(err)
	}
	if md := p.Markdown(); !strings.Contains(md, "| 1P/5D | dynamo, adaptive | 16 |") ||
		!strings.Contains(md, "lab games --only 2") || !strings.Contains(md, notPlayed) {
		t.Errorf("the page has no such row:\n%s", md)
	}
	if html, err := p.HTML(); err != nil || !strings.Contains(string(html), "Experiment 2: first tokens by load") {
		t.Errorf("the page has no plot: %v", err)
	}
	dir, back := t.TempDir(), map[string]*Made{}
	if err := p.Write(dir); err != nil {
		t.Fatal(err)
	}
	if ok, err := page.Load(dir, p.Name, &back); !ok || err != nil || len(back["2"].Rows) != len(one) {
		t.Errorf("the page that is made in pieces lost some: %v, %v", back, err)
	}
}

// Every figure that a sentence of the page has is of a row that is played.
func TestFiguresOfSentencesArePlayed(t *testing.T) {
	made := map[string]*Made{}
	for _, e := range Experiments {
		m := &Made{Command: "lab games", Seeds: 1}
		for _, j := range e.jobs() {
			name := j.name
			if name == "" {
				name = j.topology.String()
			}
			for _, part := range j.parts {
				m.Rows = append(m.Rows, Row{Topology: name, Rule: j.rule.name, Load: j.load, Part: part.name,
					Seeds: []Figures{{TTFT99: 1}}})
			}
		}
		if e.Name != "chance" {
			made[e.Name] = m
		}
	}
	p, err := Page("lab games", made)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(p.Text) {
		if strings.Contains(line, noFigure) {
			t.Errorf("a figure of no row: %s", line)
		}
	}
}
