package economics

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"souk/market"
)

var small = Options{Seed: 7, Rounds: 20, Markets: 2}

func run(t *testing.T, o Options, names ...string) []Result {
	t.Helper()
	rs, err := Run(context.Background(), names, o)
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

// figure reads a cell of the row that begins with the given cells.
func figure(t *testing.T, table Table, column string, key ...any) float64 {
	t.Helper()
	c := slices.Index(table.Columns, column)
	if c < 0 {
		t.Fatalf("no column %q in %q", column, table.Columns)
	}
	for _, row := range table.Rows {
		if cmp.Equal(row[:len(key)], key) {
			switch v := row[c].(type) {
			case int:
				return float64(v)
			case float64:
				return v
			case Percent:
				return float64(v)
			}
			t.Fatalf("%v is no figure", row[c])
		}
	}
	t.Fatalf("no row %v", key)
	return 0
}

// The same seed gives the same figures, on one processor and on many; another seed gives others.
func TestSameFiguresOnAnyProcessors(t *testing.T) {
	names := []string{"truth", "settle", "private", "pricing", "clusters", "schemes"}
	few := small
	few.Rounds = 6
	want := run(t, few, names...)
	before := runtime.GOMAXPROCS(1)
	got := run(t, few, names...)
	runtime.GOMAXPROCS(before)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("on one processor other figures than on %d:\n%s", before, d)
	}
	other := few
	other.Seed++
	if again := run(t, other, want[0].Name); cmp.Equal(want[0].Tables, again[0].Tables) {
		t.Error("another seed gives the same figures")
	}
}

// Fig. 5: who tells the truth keeps most, in its own rounds and in a market where all strategies meet.
func TestTruthIsBest(t *testing.T) {
	o := small
	o.Rounds, o.Markets = 60, 4
	table := run(t, o, "truth")[0].Tables[0]
	for _, column := range []string{"alone: utility per client and round",
		"mixed: utility per client and round"} {
		honest := figure(t, table, column, "honest")
		for _, s := range []string{"aggressive", "conservative", "random"} {
			if u := figure(t, table, column, s); u >= honest {
				t.Errorf("%s: %s %v, honest %v", column, s, u, honest)
			}
			if n := figure(t, table, "lies that paid", s); n != 0 {
				t.Errorf("%v %s lies paid", n, s)
			}
			if n := figure(t, table, "lies tried", s); n < 1000 {
				t.Errorf("only %v %s lies tried", n, s)
			}
		}
	}
}

// Over many rounds each lie stands beside the truth, at each load, and the truth gains nothing.
func TestLiesOverManyRounds(t *testing.T) {
	o := small
	o.Markets = 1
	table := run(t, o, "lies")[0].Tables[0]
	if want := (len(lieLoads) + 1) * len(fixedLies); len(table.Rows) != want {
		t.Errorf("%d rows, want %d", len(table.Rows), want)
	}
	others := 0
	for _, load := range []string{"0.85", "1", "1.1", "all"} {
		if truth := figure(t, table, "by the truth", load, "the truth"); truth <= 0 {
			t.Errorf("at load %s the truth is worth %v a task", load, truth)
		}
		for _, column := range table.Columns[3:] {
			if g := figure(t, table, column, load, "the truth"); g != 0 {
				t.Errorf("at load %s the truth gains %v", load, g)
			}
		}
	}
	for _, row := range table.Rows {
		if g, ok := row[3].(string); ok && g != "+0.0 ± 0.0" {
			others++
		}
	}
	if others == 0 {
		t.Error("no lie changed anything")
	}
}

// However wrong the predictor, no round has a deficit; under metered an agent is due its card, under quoted
// it bears the error.
func TestSettlement(t *testing.T) {
	table := run(t, small, "settle")[0].Tables[0]
	for _, row := range table.Rows {
		if n := figure(t, table, "rounds with a deficit", row[0], row[1]); n != 0 {
			t.Errorf("%v, %v: %v rounds with a deficit", row[0], row[1], n)
		}
	}
	if g := figure(t, table, "agent gain", market.SettleMetered, "x 1"); g != 0 {
		t.Errorf("metered: an agent gains %v", g)
	}
	if g := figure(t, table, "agent gain", market.SettleQuoted, "x 10"); g <= 0 {
		t.Errorf("quoted at ten times the cost: an agent gains %v", g)
	}
	if g := figure(t, table, "agent gain", market.SettleQuoted, "x 0.1"); g >= 0 {
		t.Errorf("quoted at a tenth of the cost: an agent gains %v", g)
	}
}

// A client that knows the length of its answer gains by it where the length is billed, and only there.
func TestPrivateLengths(t *testing.T) {
	o := small
	o.Rounds, o.Markets = 75, 4
	table := run(t, o, "private")[0].Tables[0]
	if n := figure(t, table, "lies that paid", market.SettleMetered); n == 0 {
		t.Error("metered: no lie paid, so the test sees nothing")
	}
	if n := figure(t, table, "lies that paid", market.SettleQuoted); n != 0 {
		t.Errorf("quoted: %v lies paid", n)
	}
}

// Under vcg an owner gains by asking more than the truth; under a tariff or a posted price by nothing that it
// says. What clients, owners and surplus get adds up to the welfare.
func TestOwnersLies(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	o := small
	o.Rounds, o.Markets = 60, 4
	tables := run(t, o, "pricing")[0].Tables
	paid := map[any]int{}
	for _, row := range tables[1].Rows {
		paid[row[0]] += row[5].(int)
	}
	if paid[market.PricingVCG] == 0 || paid[market.PricingTariff] != 0 || paid[market.PricingPosted] != 0 {
		t.Errorf("lies that paid: %v, want some under vcg alone", paid)
	}
	selective := false
	for _, row := range tables[0].Rows {
		if row[8] != 0 {
			t.Errorf("%v: rounds with a deficit", row)
		}
		if d := row[3].(float64) - row[4].(float64) - row[5].(float64) - row[6].(float64); d > 1e-6 ||
			d < -1e-6 {
			t.Errorf("%v: %v micro-credits are nobody's", row, d)
		}
		selective = selective || row[1] == "tariff" && row[2].(float64) < float64(owners.agents)-1
	}
	if !selective {
		t.Error("the tariff never left an owner out: its selection was not tried")
	}
}

// Every rule keeps to slots and clusters, and serves no task twice; welfare is greatest under souk where
// nothing but the round counts.
func TestRulesKeepTheRules(t *testing.T) {
	src, err := load()
	if err != nil {
		t.Fatal(err)
	}
	for _, rl := range rules {
		s := newWorld(src, usual, 3, true)
		client, agent := s.divide(2, true, true, 3)
		s.allowed = func(p, a int) bool { return client[p] == agent[a] }
		for round := range 15 {
			ds := s.demands()
			places, err := rl.place(s, ds)
			if err != nil {
				t.Fatal(err)
			}
			best, err := placeSouk(s, ds)
			if err != nil {
				t.Fatal(err)
			}
			used, seen := make([]int, len(s.nodes)), map[int]bool{}
			for _, p := range places {
				used[p.agent]++
				if used[p.agent] > s.nodes[p.agent].slots || seen[p.task] ||
					!s.allowed(ds[p.task].person, p.agent) {
					t.Fatalf("%s, round %d: %+v: no slot, twice, or another cluster", rl.name, round, p)
				}
				seen[p.task] = true
			}
			if got, most := weight(ds, places), weight(ds, best); got > most {
				t.Errorf("%s, round %d: welfare %v, souk %v", rl.name, round, got, most)
			}
			s.serve(ds, places)
		}
	}
}

func weight(ds []demand, places []place) (w market.Credits) {
	for _, p := range places {
		w += ds[p.task].value[p.agent] - ds[p.task].quote[p.agent]
	}
	return w
}

// The paper's network as printed serves two for 6 where one alone is worth 10, and charges the second more
// than its worth.
func TestMaxFlowCounterexample(t *testing.T) {
	s := &sim{nodes: []node{{id: "A", slots: 1}, {id: "B", slots: 1}}, people: make([]person, 2)}
	zero := []market.Credits{0, 0}
	ds := []demand{{person: 0, value: []market.Credits{10, 1}, quote: zero},
		{person: 1, value: []market.Credits{5, 0}, quote: zero}}
	got, err := placeMaxFlow(s, ds)
	want := []place{{task: 0, agent: 1}, {task: 1, agent: 0, premium: 9}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

// What one client does never changes what another asks next.
func TestConversationsAreTheirOwn(t *testing.T) {
	src, err := load()
	if err != nil {
		t.Fatal(err)
	}
	a, b := newSim(src, usual, 5), newSim(src, usual, 5)
	for range 50 {
		a.next(0)
	}
	a.next(1)
	b.next(1)
	if !cmp.Equal(a.people[1].talk, b.people[1].talk, cmp.AllowUnexported(conversation{}, turn{})) {
		t.Error("client 0's conversations changed client 1's")
	}
}

// A session's prefix is found again in whole blocks, and gone once others filled the cache.
func TestCache(t *testing.T) {
	s := &sim{nodes: []node{{cacheSize: 100}}, caches: make([][]cached, 1)}
	s.keep(0, cached{1, 50})
	for prompt, want := range map[int]int{10: 0, 17: 16, 49: 48, 500: 48} {
		if got := s.overlap(0, 1, prompt); got != want {
			t.Errorf("prompt %d: %d tokens cached, want %d", prompt, got, want)
		}
	}
	s.keep(0, cached{2, 40})
	s.keep(0, cached{1, 60})
	s.keep(0, cached{3, 40})
	if s.overlap(0, 2, 500) != 0 || s.overlap(0, 1, 500) != 48 || s.overlap(0, 3, 500) != 32 {
		t.Errorf("cache holds %v, want sessions 1 and 3", s.caches[0])
	}
}

// Every experiment has its pictures and tables on the page.
func TestPage(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	o := small
	o.Rounds, o.Markets = 15, 1
	calls := 0
	o.Progress = func(_ string, done, total int) {
		if calls++; done < 1 || done > total {
			t.Errorf("progress: %d of %d", done, total)
		}
	}
	results := run(t, o, "all")
	if calls == 0 {
		t.Error("nobody was told of any progress")
	}
	p := Page("lab economics", results)
	html, err := p.HTML()
	if err != nil {
		t.Fatal(err)
	}
	if pictures := bytes.Count(html, []byte("<svg")); pictures < 9 || pictures != len(p.Plots) {
		t.Errorf("%d pictures of %d plots", pictures, len(p.Plots))
	}
	tables := 0
	for _, r := range results {
		tables += len(r.Tables)
		if !bytes.Contains(html, []byte("</h2>")) || !strings.Contains(p.Markdown(), "\n## "+r.Title+"\n") {
			t.Errorf("%s has no part of the page", r.Name)
		}
	}
	if n := bytes.Count(html, []byte("<table>")); n != tables {
		t.Errorf("%d tables on the page, want %d", n, tables)
	}
}

func TestBadOptions(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		ctx   context.Context
		names []string
		o     Options
		want  string
	}{
		{context.Background(), []string{"all"}, Options{Rounds: 0, Markets: 1}, "rounds is 0"},
		{context.Background(), []string{"all"}, Options{Rounds: 1, Markets: MaxMarkets + 1}, "markets is"},
		{context.Background(), []string{"truht"}, small,
			fmt.Sprintf("%q: there is none; use all, or some of truth", "truht")},
		{ctx, []string{"truth"}, small, "experiment truth: context canceled"},
		{ctx, []string{"clusters"}, small, "experiment clusters: context canceled"},
	} {
		if _, err := Run(c.ctx, c.names, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v %+v: %v, want %q", c.names, c.o, err, c.want)
		}
	}
}
