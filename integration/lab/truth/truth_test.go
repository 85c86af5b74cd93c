package truth

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/integration/lab/runs"
	"souk/integration/lab/virtual"
	"souk/market"
)

// A lie that pays is found, one that does not is given up, and who cannot tell tells the truth. Each thing is
// learned beside the others.
func TestLearnsWhatPays(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 1))
	l := newLearner(rand.New(rand.NewPCG(7, 2)), []int{3, 2, 2})
	paid := [][]float64{{0, 0.5, -0.5}, {0, -0.5}, {0, 0}}
	for range 10 {
		for range 100 {
			said := l.choose()
			x := random.NormFloat64() * 0.5
			for i, k := range said {
				x += paid[i][k]
			}
			l.learn(said, x)
		}
		l.judge()
	}
	if !slices.Equal(l.best, []int{1, 0, 0}) || !l.of[0][2].gone || !l.of[1][1].gone || l.of[0][0].gone {
		t.Errorf("it says %v in the end, and has given up %+v", l.best, l.of)
	}
	for range 100 {
		if said := l.choose(); said[0] == 2 || said[1] == 1 {
			t.Fatalf("it says %v, and had given that up", said)
		}
	}
	// the truth is never given up, and comes back once the lie does not pay any more
	for range 40 {
		for range 100 {
			said := l.choose()
			l.learn(said, random.NormFloat64()*0.5-float64(said[0]))
		}
		l.judge()
	}
	if l.best[0] != 0 {
		t.Errorf("it says %v, which has paid less than the truth for long", l.best)
	}
}

// The first of what is said of each thing is the truth, and every other changes something.
func TestLiesAndTruth(t *testing.T) {
	all, err := worlds([]float64{1})
	if err != nil {
		t.Fatal(err)
	}
	all[0].Length = time.Second
	s, err := all[0].Setting()
	if err != nil {
		t.Fatal(err)
	}
	truth := s.True(0)
	for _, asks := range []bool{false, true} {
		if o := offer(truth, make([]int, len(owners)), asks); o != truth {
			t.Errorf("the truth of an owner: %+v, want %+v", o, truth)
		}
		for i, thing := range owners {
			for k := 1; k < len(thing.Said); k++ {
				said := make([]int, len(owners))
				said[i] = k
				o := offer(truth, said, asks)
				below := asks && prices[k] < 1 && i == 0 // no ask is below 0
				if (o == truth) != below || asks && o.Card != truth.Card {
					t.Errorf("asks %v, %s %s: %+v", asks, thing.Name, thing.Said[k], o)
				}
			}
		}
	}
	p, err := virtual.NewRule("random", 1)
	if err != nil {
		t.Fatal(err)
	}
	s.Clients = clients
	asked, _, err := virtual.Run(s, p)
	if err != nil || len(asked) == 0 {
		t.Fatalf("%d tasks, %v", len(asked), err)
	}
	changes := map[string]bool{}
	for _, r := range asked {
		honest := word(r, make([]int, len(callers)))
		if honest.Terms != r.Terms.Terms || (honest.Role == "short") != (r.Output < shortAnswer) {
			t.Fatalf("the truth of a caller: %+v, want %+v", honest, r.Terms)
		}
		for i, thing := range callers {
			for k := 1; k < len(thing.Said); k++ {
				said := make([]int, len(callers))
				said[i] = k
				lie := thing.Name + " " + thing.Said[k]
				changes[lie] = changes[lie] || word(r, said) != honest
			}
		}
	}
	for lie, is := range changes {
		if !is {
			t.Errorf("%s says what is true", lie)
		}
	}
}

// In one round of vcg no lie about terms leaves its caller more than the truth. Where it pays what it claims,
// saying less does, so that the lies are large enough to be seen.
func TestNoLieOfOneRoundPaysUnderVCG(t *testing.T) {
	const seed = 11
	random := rand.New(rand.NewPCG(seed, 3))
	tried, first := 0, 0
	for round := range 40 {
		r := market.Round{Domain: "truth", Number: uint64(round + 1), Rule: market.DefaultRule}
		for _, id := range []market.AgentID{"a", "b"} {
			r.Agents = append(r.Agents, market.Supply{Agent: id, Seats: []market.Seat{{Slots: 2}}})
		}
		var asked []*virtual.Request
		quotes := [2]market.Quote{}
		for task := range 6 {
			id := string(rune('p' + task))
			r.Tasks = append(r.Tasks, market.Task{ID: market.TaskID(id), Client: id})
			asked = append(asked, new(virtual.Request))
			asked[task].Terms.Terms = market.Terms{Worth: market.Credits(100_000 + random.IntN(900_000)),
				Delta: 0.4 + 0.4*random.Float64(), Patience: time.Duration(1+random.IntN(15)) * time.Second}
		}
		for a := range quotes {
			quotes[a] = market.Quote{TTFT: time.Duration(random.IntN(1000)) * time.Millisecond,
				Cost: market.Credits(10_000 + random.IntN(30_000)), Quality: 0.6 + 0.2*random.Float64()}
		}
		// by its true terms, under vcg and where it pays what it claims
		has := func(said [3]int) (vcg, claimed market.Credits) {
			x := r
			x.Edges = nil
			terms := func(task int) market.Terms {
				q := asked[task].Terms.Terms
				if task == 0 {
					q = told(q, said[0], said[1], said[2])
				}
				return q
			}
			for task := range asked {
				for a := range quotes {
					x.Edges = append(x.Edges, market.Edge{Task: task, Agent: a,
						Value: terms(task).Value(quotes[a]), Cost: quotes[a].Cost})
				}
			}
			out, err := market.Clear(x)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range out.Awards {
				if w.Task == r.Tasks[0].ID {
					a := slices.IndexFunc(r.Agents, func(s market.Supply) bool { return s.Agent == w.Agent })
					worth := asked[0].Terms.Terms.Value(quotes[a])
					return worth - w.Cost - w.Premium, worth - max(w.Cost, terms(0).Value(quotes[a]))
				}
			}
			return 0, 0
		}
		honest, _ := has([3]int{})
		for w := range worths {
			for s := range seconds {
				for p := range patiences {
					got, claimed := has([3]int{w, s, p})
					if tried++; got > honest {
						t.Errorf("seed %d, round %d: worth %s, a second %s, patience %s leave %s, the truth %s", seed, round,
							callers[0].Said[w], callers[1].Said[s], callers[2].Said[p], got, honest)
					}
					if claimed > 0 {
						first++
					}
				}
			}
		}
	}
	if tried < 1000 || first < 100 {
		t.Errorf("%d lies were tried, and %d paid where who is served pays what it claims", tried, first)
	}
}

// small are plays that show much in little time.
func small(i int) (*Outcome, error) {
	all, err := worlds([]float64{1})
	if err != nil {
		return nil, err
	}
	w := []Way{markets[2], {Name: "posted:3", rule: "posted:3"}}[i]
	return w.play(all[0], Shares[3], 1, judges, judges)
}

// Plays that go side by side share nothing: one of the same seed gives the same beside it.
func TestPlaysSideBySide(t *testing.T) {
	posted := func(int) (*Outcome, error) { return small(1) }
	side, err := runs.Each(t.Context(), 2, 2, nil, posted)
	if err != nil || !reflect.DeepEqual(side[0], side[1]) {
		t.Errorf("side by side %+v, %v", side, err)
	}
}

// So is a market's, which others play beside.
func TestPlaysBesideAMarket(t *testing.T) {
	side, err := runs.Each(t.Context(), 2, 2, nil, small)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range side {
		if i > 0 { // one market is enough
			if alone, err := small(i); err != nil || !reflect.DeepEqual(o, alone) {
				t.Errorf("side by side %+v, alone %+v, %v", o, alone, err)
			}
		}
		tasks := 0
		for _, n := range o.Tasks {
			tasks += n
		}
		if o.Welfare <= 0 || tasks < 300 || o.Least < 0 || o.Account < 0 {
			t.Errorf("%+v", o)
		}
	}
}

// made are results of plays that nobody played.
func made() *Results {
	r := &Results{Options: DefaultOptions()}
	random := rand.New(rand.NewPCG(5, 5))
	fill := func(c *cell) {
		for range r.Seeds {
			o := &Outcome{Welfare: 50 + random.Float64(), Had: make([]float64, clients),
				Tasks: make([]int, clients), Profits: make([]float64, 8),
				Callers: [][]int{{0, 1, 0, 0}, {0, 0, 0, 0}, {5, 0, 3, 0}, {0, 0, 0, 3}},
				Owners:  [][]int{{2, 0, 1}, nil, {0, 0, 0}, nil, {5, 0, 0}, {0, 0, 0}, nil, {0, 0, 0}}}
			for i := range o.Had {
				o.Had[i] = random.Float64()
			}
			for range 13 {
				o.Curve = append(o.Curve, 50+random.Float64())
			}
			c.all = append(c.all, o)
		}
	}
	r.list()
	for i := range r.believers {
		fill(&r.believers[i])
	}
	r.plan()
	for i := range r.cells {
		fill(&r.cells[i])
	}
	return r
}

// The page says what came out, also where the market loses, and is the same again.
func TestPage(t *testing.T) {
	r := made()
	lost := r.find(1, "vcg", "a third")
	lost.all[0].Welfare, lost.all[1].Account = 20, -1
	text := r.Page("lab experiment truth").Markdown()
	for _, part := range []string{"at most 3 % less was asked: reached",
		"The market **loses**, at 1.00 where a third lies", "The account had a deficit in 1 of ",
		"worth x 4, patience x 4", "price x 1.25 (5 of 10), cached x 0 (5 of 10)", "| vcg | owners alone |"} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), part) {
			t.Errorf("it does not say %q", part)
		}
	}
	html, err := r.Page("lab experiment truth").HTML()
	if err != nil || strings.Count(string(html), "<svg") != len(r.Loads)+1 {
		t.Errorf("%d plots, %v", strings.Count(string(html), "<svg"), err)
	}
	if again := r.Page("lab experiment truth").Markdown(); again != text {
		t.Error("the same results make another page")
	}
	for _, o := range r.find(1, "vcg", "nobody").all {
		for i := range o.Curve {
			o.Curve[i] = 30
		}
	}
	if text := r.Page("lab experiment truth").Markdown(); !strings.Contains(text, "**not reached**") {
		t.Error("a bar that is missed is not said to be")
	}
}

func TestOptions(t *testing.T) {
	good := DefaultOptions()
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Options){
		"no seed":          func(o *Options) { o.Seeds = nil },
		"no load":          func(o *Options) { o.Loads = nil },
		"no epoch":         func(o *Options) { o.Epochs = 0 },
		"part of a stage":  func(o *Options) { o.Epochs = 150 },
		"nothing measured": func(o *Options) { o.Measured = 0 },
		"load of nothing":  func(o *Options) { o.Loads = []float64{0} },
		"no number":        func(o *Options) { o.Loads = []float64{math.NaN()} },
	} {
		o := DefaultOptions()
		change(&o)
		if err := o.Validate(); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
