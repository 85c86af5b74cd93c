package gpus

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"souk/integration/lab/traces"
	"souk/integration/lab/virtual"
	"souk/market"
)

// of is a search before fleets of which those of so many engines keep the promise.
func of(t *testing.T, most int, keep ...int) (s Search, looked int) {
	t.Helper()
	s, err := search(most, func(n int) (Kept, error) {
		looked++
		k := Kept{First: 0.98, Tokens: 1}
		for _, x := range keep {
			if n == x {
				k.First = 0.99
			}
		}
		return k, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, looked
}

// The smallest is found from either side, whether or not larger fleets keep what it keeps, and no fleet is
// played twice.
func TestTheSmallestIsFound(t *testing.T) {
	for _, c := range []struct {
		keep             []int
		smallest, looked int
		broken           int // larger fleets that do not keep it
	}{
		{[]int{11, 12, 13, 14}, 11, 6, 0},
		{[]int{11, 13, 14}, 11, 6, 1},
		{[]int{6, 7, 8, 9, 10}, 6, 5, 0},
		{[]int{6, 8}, 6, 5, 1},
		{[]int{1, 2, 3, 4, 5, 6, 7, 8, 9}, 1, 8, 0},
		{[]int{16}, 16, 9, 0},
		{nil, 0, 9, 0},
	} {
		s, looked := of(t, 16, c.keep...)
		if s.Smallest != c.smallest || looked != c.looked || len(s.broken()) != c.broken {
			t.Errorf("where %v keep it: %d, %d looked at, %v broken; want %+v", c.keep, s.Smallest, looked,
				s.broken(), c)
		}
	}
}

// Eight engines are the fleet mixed, whichever eight in a row, and a fleet's price is that of its GPUs.
func TestTheFleetGrowsInProportion(t *testing.T) {
	prices, err := Published()
	if err != nil {
		t.Fatal(err)
	}
	all, err := engines(20, prices)
	if err != nil {
		t.Fatal(err)
	}
	f := virtual.Fleet{Name: "grown"}
	for i := range all {
		f.Engines = append(f.Engines, all[i].FleetEngine)
	}
	if err := f.Validate(); err != nil {
		t.Error(err)
	}
	for from := range 13 {
		models, dollars := map[string]int{}, 0.0
		for _, e := range all[from : from+8] {
			models[e.Model]++
			dollars += e.Dollars
		}
		// 4 x 1.69, 2 x 1.69, 2 x 2.29, 4 x 2.29 and 4 x 4.89
		if models["llama-3.1-8b"] != 4 || models["qwen3-32b"] != 2 || models["llama-3.1-70b"] != 2 ||
			dollars < 43.439 || dollars > 43.441 {
			t.Errorf("engines %d to %d: %v, %v dollars", from+1, from+8, models, dollars)
		}
	}
}

// What is wrong with a file of prices is said with its line.
func TestBadPrices(t *testing.T) {
	good := "# mine\ngpu,dollars\nRTX PRO 6000,2\nH100,3\nB200,6\n"
	if p, err := readPrices(strings.NewReader(good)); err != nil || p["H100"] != 3 {
		t.Fatalf("%v, %v", p, err)
	}
	for from, to := range map[string]string{
		"gpu,dollars": "gpu,euros", "H100,3": "H100", "B200,6": "B200,-6",
		"RTX PRO 6000,2": "RTX PRO 6000,dear",
		"H100,3\n":       "H100,3\nH100,4\n", "\nH100,3": "", "B200": `"B200`, ",6": ",NaN",
	} {
		_, err := readPrices(strings.NewReader(strings.Replace(good, from, to, 1)))
		if err == nil || !strings.Contains(err.Error(), "line ") &&
			!strings.Contains(err.Error(), "no price of") {
			t.Errorf("%q in place of %q: %v", to, from, err)
		}
	}
	file := filepath.Join(t.TempDir(), "mine.csv")
	if err := os.WriteFile(file, []byte("gpu,dollars\nH100,0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadPrices(file); err == nil || !strings.Contains(err.Error(), "mine.csv: line 2: ") {
		t.Errorf("a price of 0: %v", err)
	}
}

// What cannot be played is an error.
func TestBadOptions(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"no seed":      func(o *Options) { o.Seeds = nil },
		"few tasks":    func(o *Options) { o.Tasks = 99 },
		"few engines":  func(o *Options) { o.Most = 7 },
		"many engines": func(o *Options) { o.Most = 257 },
	} {
		o := DefaultOptions()
		change(&o)
		if err := o.Validate(); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	long := &World{chains: []traces.Chain{{ID: "a", Block: 16, Turns: [][]int{{0, 200_000, 10}}}}}
	if err := long.ready(); err == nil || !strings.Contains(err.Error(), "longer than an engine's context") {
		t.Errorf("a trace of one long request: %v", err)
	}
	if _, err := Bring(filepath.Join("..", "traces", "testdata", "kv-cache-tester.jsonl"), 1); err == nil ||
		!strings.Contains(err.Error(), "does not say when requests came") {
		t.Errorf("a trace without times: %v", err)
	}
}

// light is a trace of so many short requests, one every so many ms.
func light(t *testing.T, n, every int) *World {
	w := &World{Name: "light", About: "made up", Ours: "All of it.", Speed: 1}
	for i := range n {
		w.chains = append(w.chains, traces.Chain{ID: "s", Block: 16, Timed: true,
			Turns: [][]int{{i * every, 100, 20}}})
	}
	if err := w.ready(); err != nil {
		t.Fatal(err)
	}
	return w
}

// refusing serves nobody.
type refusing struct {
	virtual.Plain
	place []virtual.Placed
}

func (p *refusing) Arrive(_ time.Time, r *virtual.Request, _ *virtual.View) int {
	p.place = append(p.place, virtual.Placed{Request: r, Engine: virtual.Wait})
	return virtual.Wait
}

func (p *refusing) Wake(time.Time) (place []virtual.Placed, next time.Time) {
	place, p.place = p.place, nil
	return place, next
}

// Who is refused has no first token in time, whoever refuses, and a run in which it is clear ends early. With
// engines enough every token of a light load is in time, under any rule.
func TestARefusalIsAMiss(t *testing.T) {
	virtual.Add(virtual.Rule{Name: "refusing",
		New: func(uint64, float64) virtual.Policy { return &refusing{} }})
	prices, err := Published()
	if err != nil {
		t.Fatal(err)
	}
	fleet, err := engines(8, prices)
	if err != nil {
		t.Fatal(err)
	}
	w := light(t, 200, 50)
	k, err := w.play(Player{Name: "refusing", Rule: "refusing", Slots: 8}, 1, fleet, 200)
	if err != nil || k.Keeps() || !k.Broken || k.First != 0 || k.Refused != 1 || k.Why != "first" {
		t.Errorf("%+v, %v", k, err)
	}
	for _, x := range shown() {
		x.Slots = 8
		k, err := w.play(x, 1, fleet, 200)
		if err != nil || !k.Keeps() || k.First != 1 || k.Why != "" {
			t.Errorf("%s: %+v, %v", x.Name, k, err)
		}
	}
	// far more than one engine has slots for
	if k, err := light(t, 400, 2).play(Players[1], 1, fleet[:1], 400); err == nil {
		t.Errorf("engines without slots are taken: %+v", k)
	}
	one := Player{Name: "two-block", Rule: "two-block", Slots: 2}
	if k, err := light(t, 400, 2).play(one, 1, fleet[:1], 400); err != nil || k.Keeps() || !k.Broken {
		t.Errorf("one engine for five hundred requests a second: %+v, %v", k, err)
	}
}

// Callers state what is worth next to nothing once the promise is broken, at the dearest engine.
func TestTermsSayThePromise(t *testing.T) {
	prices, err := Published()
	if err != nil {
		t.Fatal(err)
	}
	fleet, err := engines(8, prices)
	if err != nil {
		t.Fatal(err)
	}
	w := light(t, 100, 10)
	s, tokens, err := w.setting(Player{Slots: 4}, 1, fleet, 50)
	if err != nil || s.Tasks != 50 || tokens != 50*19 {
		t.Fatalf("%d tasks, %d tokens, %v", s.Tasks, tokens, err)
	}
	terms := s.State(1000, 20)
	card := fleet[7].Card
	cost := card.Cost(market.Usage{Prompt: 1000, Output: 20})
	alone := 9443*time.Microsecond + 34_660*time.Microsecond
	if terms.Worth != 8*cost || terms.Patience != 2*(time.Second+alone) {
		t.Errorf("%+v, want eight times %v and twice a second and %v", terms, cost, alone)
	}
	late := terms.Value(market.Quote{TTFT: time.Second + alone, Quality: 0.62})
	if early := terms.Value(market.Quote{TTFT: alone, Quality: 0.62}); late <= 0 || late > terms.Worth/16 ||
		early < terms.Worth/4 {
		t.Errorf("worth %v at once and %v when the promise breaks, of %v", early, late, terms.Worth)
	}
}

// brief plays a light world, which shows something soon.
func brief(t *testing.T, seeds []uint64, slots ...int) *Results {
	t.Helper()
	o := DefaultOptions()
	var err error
	if o.Prices, err = Published(); err != nil {
		t.Fatal(err)
	}
	o.Seeds, o.Tasks, o.Most, o.Slots = seeds, 100, 8, slots
	o.Worlds = []*World{light(t, 150, 30)}
	r, err := Play(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Searches that run beside one another share nothing: what came of a rule is what comes of it alone.
func TestSearchesBesideOthers(t *testing.T) {
	beside := brief(t, []uint64{2}, 8)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	alone := brief(t, []uint64{2}, 8)
	for i, c := range beside.Cells {
		if !reflect.DeepEqual(c.Searches, alone.Cells[i].Searches) {
			t.Errorf("%+v beside others, %+v alone", c.Searches, alone.Cells[i].Searches)
		}
	}
}

// Played twice, searches make the same page, to the byte.
func TestTheSamePageTwice(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	var pages [2][]byte
	for i := range pages {
		var err error
		r := brief(t, []uint64{1, 2, 3}, 4, 8)
		if pages[i], err = r.Page("lab experiment gpus").HTML(); err != nil {
			t.Fatal(err)
		}
		c := r.cell("light", "market")
		if len(c.Searches) != 3 || c.Searches[2].Smallest == 0 || c.Slots == 0 {
			t.Errorf("%+v", c)
		}
	}
	if !bytes.Equal(pages[0], pages[1]) {
		t.Error("two pages of the same seeds differ")
	}
	for _, want := range []string{"GPUs saved", " market<", "<td>light"} {
		if !strings.Contains(string(pages[0]), want) {
			t.Errorf("no %q on the page", want)
		}
	}
}
