package virtual

import (
	"bytes"
	"encoding/json"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/cmd/choices"
	"souk/hub"
)

// Figures are the same however many processors there are, and a row that names nothing else is the market as
// it is delivered.
func TestSameRowsOnAnyProcessors(t *testing.T) {
	o := CrowdOptions{Traces: []string{"small"}, Seeds: []uint64{3, 9}, World: World{Engines: 2, Tasks: 150},
		Rules: []string{"two-block", "market", "market:max_agents=1024"}, Progress: func(int, int) {}}
	rows := func(processors int) []byte {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
		rows, err := Crowd(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) != 3 || len(rows[0].Seeds) != 2 ||
			reflect.DeepEqual(rows[0].Seeds[0], rows[0].Seeds[1]) {
			t.Errorf("%+v", rows)
		}
		if f := rows[1].Seeds[0]; f.Bound < f.Share || f.Bound >= 1 || f.Journal < 100 {
			t.Errorf("%+v", f)
		}
		if !reflect.DeepEqual(rows[1].Seeds, rows[2].Seeds) {
			t.Error("a setting that is what it was before makes a difference")
		}
		data, err := json.Marshal(rows)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	if one, four := rows(1), rows(4); !bytes.Equal(one, four) {
		t.Errorf("on one processor\n%s\non four\n%s", one, four)
	}
}

// A market's settings are those of its hub's file.
func TestVariant(t *testing.T) {
	for rule, want := range map[string]func(*hub.Config, *bool){
		"market":                  func(*hub.Config, *bool) {},
		"market:named":            func(_ *hub.Config, named *bool) { *named = true },
		"market:terms.second=0.5": func(c *hub.Config, _ *bool) { c.Terms.Second = 0.5 },
		"market:named:status_every=2s:terms.multiple=2.5": func(c *hub.Config, named *bool) {
			c.StatusEvery, c.Terms.Multiple, *named = 2*time.Second, 2.5, true
		},
		"market:max_waiting=7": func(c *hub.Config, _ *bool) { c.MaxWaiting = 7 },
	} {
		expected, expectedNames := choices.Hub(), false
		complete(&expected)
		want(&expected, &expectedNames)
		o, ok, err := variant(rule)
		cfg, names := o.Hub, o.Named
		cfg.Parts, expected.Parts = hub.Parts{}, hub.Parts{} // functions, which do not compare
		if err != nil || !ok || names != expectedNames || !reflect.DeepEqual(cfg, expected) {
			t.Errorf("%s: %v, named %v, %v\ngot  %+v\nwant %+v", rule, ok, names, err, cfg, expected)
		}
	}
	for _, rule := range []string{"market:", "market:terms.worth=1", "market:terms", "market:max_open=0",
		"market:terms.second=soon", "market:terms=1", "market:a: b=1",
		"market:room=0.8", "market:unsized"} {
		if _, _, err := variant(rule); err == nil || !strings.Contains(err.Error(), rule) {
			t.Errorf("%s: %v", rule, err)
		}
	}
	for _, o := range []CrowdOptions{{Rules: []string{"tea-leaves"}}, {Rules: []string{"market:tea=1"}},
		{Traces: []string{"tea"}}} {
		if _, err := Crowd(t.Context(), o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}

// Recorded arrivals begin where the seed says, and all come.
func TestRecordedArrivals(t *testing.T) {
	s, err := Traces[slices.Index(TraceNames(), "bursts")].setting(8)
	if err != nil {
		t.Fatal(err)
	}
	a, b := from(s.Arrive, 1), from(s.Arrive, 2)
	for _, got := range [][]time.Duration{a, b} {
		if len(got) != 4409 || got[0] != 0 || !slices.IsSorted(got) || got[4408] > s.Arrive[4408] {
			t.Errorf("%d arrivals, %v to %v", len(got), got[0], got[len(got)-1])
		}
	}
	if slices.Equal(a, b) {
		t.Error("two seeds begin in one place")
	}
	if from(nil, 1) != nil {
		t.Error("arrivals out of nothing")
	}
}

// The bound is what the best of caches finds: by hand, three plays of two turns in six blocks.
func TestBound(t *testing.T) {
	script := &Script{}
	ask := func(play, turn int) *Request {
		// two full blocks of prompt, three with the answer; then four and five
		return &Request{Play: play, Turn: turn, script: script,
			Job: Job{Prompt: 33 + turn*32, Output: 16}}
	}
	all := []*Request{ask(1, 0), ask(2, 0), ask(3, 0), ask(2, 1), ask(3, 1), ask(1, 1)}
	cfg := EngineConfig{Blocks: 4, BlockSize: 16} // one of which is reserved
	// Two engines hold six blocks. The third play needs three: those of the first go, asked for last.
	two, three := &Setting{Engines: 2, Engine: cfg}, &Setting{Engines: 3, Engine: cfg}
	if got, want := Bound(all, two), float64(6*16)/float64(3*33+3*65); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := Bound(all, three), float64(9*16)/float64(3*33+3*65); got != want {
		t.Errorf("of nine blocks: %v, want %v", got, want)
	}
	// One block that all begin with: the first finds nothing, and it is held once.
	script.common = 1
	if got, want := Bound(all, two), float64(10*16)/float64(3*33+3*65); got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// Where sessions share recorded blocks no more of these are found than there is room for.
func TestBoundOfSharedBlocks(t *testing.T) {
	script := func(first uint64) *Script {
		return &Script{turns: []turn{{prompt: 65, output: 1}}, common: everyBlock,
			chains: [][]uint64{{first, first + 1, first + 2, first + 3}}}
	}
	a, b := script(1), script(5)
	s := &Setting{Engines: 1, Scripts: []*Script{a, b}, Engine: EngineConfig{Blocks: 3, BlockSize: 16}}
	var all []*Request
	for i, x := range []*Script{a, b, a} {
		all = append(all, &Request{Play: i, script: x, Job: Job{Prompt: 65, Output: 1}})
	}
	for blocks, found := range map[int]int{2: 1, 3: 2, 4: 3, 5: 4, 9: 4} {
		s.Engine.Blocks = blocks
		if got, want := Bound(all, s), float64(16*found)/float64(3*65); got != want {
			t.Errorf("%d blocks: %v, want %v: %d blocks are found again", blocks-1, got, want, found)
		}
	}
	all[2].Group = 1 // whose blocks are others
	if got := Bound(all, s); got != 0 {
		t.Errorf("%v is found of another group", got)
	}
}
