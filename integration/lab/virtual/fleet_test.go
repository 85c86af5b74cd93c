package virtual

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"souk/market"
)

// Each fleet that has a name can be played, and a file may say the same.
func TestFleets(t *testing.T) {
	for _, f := range Fleets[1:] {
		if err := f.Validate(); err != nil || len(f.Engines) != 8 || f.About == "" {
			t.Errorf("%s: %d engines, %v", f.Name, len(f.Engines), err)
		}
	}
	models := map[string]int{}
	mixed, err := FleetNamed("mixed")
	for _, e := range mixed.Engines {
		models[e.Model]++
	}
	if err != nil || models["llama-3.1-8b"] != 4 || models["qwen3-32b"] != 2 || models["llama-3.1-70b"] != 2 {
		t.Errorf("mixed has %v, %v", models, err)
	}
	file := filepath.Join(t.TempDir(), "two.json")
	text := `{"about": "two sorts", "engines": [
		{"name": "a", "count": 2, "profile": "h100x2-qwen3-32b", "slots": 4, "score": 0.5,
		 "card": {"miss": 0.02, "out": 0.05}},
		{"name": "b", "model": "m", "context": 4096, "blocks": 900, "score": 1, "recorded": "r",
		 "card": {"miss": 1, "hit": 0, "out": 2}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := FleetNamed(file)
	if err != nil || f.Name != "two" || len(f.Engines) != 3 {
		t.Fatalf("%+v, %v", f, err)
	}
	micro := market.Credit / 1_000_000
	want := []FleetEngine{
		{Name: "a-1", Profile: "h100x2-qwen3-32b", Slots: 4, Score: 0.5,
			Card: market.Price{Miss: 20_000 * micro, Hit: 2_000 * micro, Out: 50_000 * micro}},
		{Name: "b", Model: "m", Context: 4096, Blocks: 900, Score: 1, Recorded: "r",
			Card: market.Price{Miss: market.Credit, Out: 2 * market.Credit}}}
	if f.Engines[0] != want[0] || f.Engines[2] != want[1] || f.Engines[1].Name != "a-2" {
		t.Errorf("%+v", f.Engines)
	}
}

// What is wrong with a fleet is said with its file and the field, or the line.
func TestBadFleets(t *testing.T) {
	one := `{"engines": [{"name": "a", "score": 0.5, "card": {"miss": 1, "out": 1}}]}`
	with := func(field string) string { return strings.Replace(one, `"name": "a"`, `"name": "a", `+field, 1) }
	for what, c := range map[string]struct{ text, says string }{
		"nothing":        {``, "line 1: EOF"},
		"no engine":      {`{"engines": []}`, "engines: there is none"},
		"no engines":     {`{}`, "engines: there is none"},
		"NaN":            {"{\"engines\": [\n{\"name\": \"a\", \"score\": NaN}]}", "line 2: invalid character 'N'"},
		"a text":         {with(`"slots": "8"`), "line 1: engines.slots: string is not a int"},
		"a field":        {with(`"slot": 8`), `unknown field "slot"`},
		"two cards":      {`{"engines": [` + card1("a", 1) + `,` + card1("a", 2) + `]}`, `engines[1].name: "a" is that of engines[0], too: one name has one card`},
		"two of a name":  {`{"engines": [` + card1("a", 1) + `,` + card1("a", 1) + `]}`, "each engine has a name of its own"},
		"no name":        {`{"engines": [` + card1("", 1) + `]}`, "engines[0].name: it has none"},
		"no card":        {`{"engines": [{"name": "a", "score": 0.5}]}`, "engines[0].card: it has none"},
		"a low price":    {`{"engines": [` + card1("a", -1) + `]}`, "engines[0].card.miss: -1 is no price"},
		"a huge price":   {`{"engines": [` + card1("a", 1e30) + `]}`, "engines[0].card.miss: 1e+30 is no price"},
		"a dear hit":     {`{"engines": [{"name": "a", "score": 0.5, "card": {"miss": 1, "hit": 2, "out": 1}}]}`, "engines[0].card: "},
		"a score":        {strings.Replace(one, "0.5", "1.5", 1), "engines[0].score: 1.5 is not"},
		"no score":       {strings.Replace(one, `"score": 0.5, `, "", 1), "engines[0].score: 0 is not"},
		"a profile":      {with(`"profile": "abacus"`), `engines[0].profile: vllmsim: profile "abacus" is none of`},
		"slots":          {with(`"slots": -1`), "engines[0].slots: -1 is not from 0"},
		"blocks":         {with(`"blocks": 1000000000`), "engines[0].blocks: 1000000000 is not from 0"},
		"context":        {with(`"context": -5`), "engines[0].context: -5 is not"},
		"a count":        {with(`"count": 0`), "engines[0].count: 0 is not from 1"},
		"a huge count":   {with(`"count": 1000000000`), "engines[0].count: 1000000000 is not"},
		"something more": {one + ` {}`, "something follows the fleet"},
	} {
		file := filepath.Join(t.TempDir(), "fleet.json")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := FleetNamed(file)
		if err == nil || !strings.Contains(err.Error(), c.says) ||
			!strings.HasPrefix(err.Error(), file+": ") {
			t.Errorf("%s: %v, want %q", what, err, c.says)
		}
	}
	for name, says := range map[string]string{"luck": `fleet "luck" is none of [alike mixed two-speeds ` +
		`dear-and-cheap], and no file`, t.TempDir(): "no fleet"} {
		if _, err := FleetNamed(name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	f := Fleet{Engines: []FleetEngine{small8B.named("a")}}
	for _, score := range []float64{math.NaN(), math.Inf(1), -1} {
		f.Engines[0].Score = score
		if f.Validate() == nil {
			t.Errorf("a score of %v", score)
		}
	}
}

func card1(name string, miss float64) string {
	return `{"name": "` + name + `", "score": 0.5, "card": {"miss": ` + fmtFloat(miss) + `, "out": 1}}`
}

// What is read as a fleet is one, whatever the file says.
func FuzzFleet(f *testing.F) {
	f.Add([]byte(`{"engines": [` + card1("a", 1) + `, {"name": "b", "count": 3, "score": 1, "card": {"miss": 1}}]}`))
	f.Add([]byte(`{"engines": [{"card": {}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		fleet, err := parseFleet(data)
		if err != nil {
			return
		}
		if err := fleet.Validate(); err != nil || len(fleet.Engines) == 0 ||
			len(fleet.Engines) > mostEngines {
			t.Errorf("%d engines, %v", len(fleet.Engines), err)
		}
	})
}

// A task goes to no engine for which its prompt is too long; one that fits none is refused.
func TestContextsAreKept(t *testing.T) {
	f := Fleet{Name: "short", Engines: []FleetEngine{small8B.named("a"), small8B.named("b")}}
	f.Engines[0].Context = 400
	long := 0
	for _, rule := range append(RuleNames(), MarketName) {
		w := World{Trace: traceOf(t, "mtrag"), Fleet: f, Rate: 2, Tasks: 60, Seed: 4, Terms: Tempers}
		s, err := w.Setting()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range playedBy(t, s, rule) {
			if r.Engine == 0 && r.Prompt >= 400 {
				t.Errorf("%s sends %d tokens to an engine that takes 400", rule, r.Prompt)
			}
			if r.Prompt >= 400 {
				long++
			}
		}
	}
	if long == 0 {
		t.Error("no prompt was too long")
	}
	f.Engines[0].Context, f.Engines[1].Context = 100, 100
	w := World{Trace: traceOf(t, "mtrag"), Fleet: f, Rate: 2, Tasks: 20, Seed: 4}
	for _, rule := range []string{"greedy", "random", "market"} {
		m, err := Play(w, rule)
		if err != nil || m.Refused < 0.1 {
			t.Errorf("%s: %.2f are refused, %v", rule, m.Refused, err)
		}
	}
}

// An engine that is twice as fast as its profile says takes half the time for the same.
func TestAFasterEngine(t *testing.T) {
	first := func(faster float64) float64 {
		s := small(t, 1)
		s.Callers, s.Tasks = 1, 1
		s.Engines = 1
		s.Fleet = []FleetEngine{{Name: "a", Profile: "rtxpro6000-llama-3.1-8b", Faster: faster, Score: 0.5,
			Card: Card, Slots: s.Engine.Slots, Blocks: s.Engine.Blocks}}
		s.Hop = 0
		p, err := NewRule("random", 1)
		if err != nil {
			t.Fatal(err)
		}
		all, _, err := Run(s, p)
		if err != nil {
			t.Fatal(err)
		}
		return millis(all[0].First - all[0].Arrived)
	}
	if plain, twice := first(0), first(2); math.Abs(plain-2*twice) > 1e-3 || plain <= 0 {
		t.Errorf("%v ms, and %v twice as fast", plain, twice)
	}
	for _, faster := range []float64{-1, 0.001, 1e6, math.NaN()} {
		f := Fleet{Engines: []FleetEngine{{Name: "a", Faster: faster, Score: 0.5, Card: Card}}}
		if err := f.Validate(); err == nil || !strings.Contains(err.Error(), "faster") {
			t.Errorf("%v: %v", faster, err)
		}
	}
}
