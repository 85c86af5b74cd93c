package virtual

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"souk/integration/lab/learned"
	"souk/integration/lab/traces"
)

// threeModels is a view of an engine of a model that nobody has scores of, and two each of three that some
// have.
func threeModels() *View {
	var of []FleetEngine
	for i, model := range []string{"", "llama-3.1-8b-instruct", "mistral-small-24b-instruct-2501-bf16",
		"llama-3.3-70b-instruct"} {
		for range min(2, i+1) {
			e := FleetEngine{Score: 0.5, Recorded: model, Card: card(0.1*float64(i+1), 0.1*float64(i+1))}
			of = append(of, e)
		}
	}
	return fleetView(of...)
}

// Routers that have learned choose a model by the question: by the scores of package learned, whatever is in
// flight, and one of its engines by lot. A model that nobody has scores of is left out, unless there is no
// other.
func TestLearnedRules(t *testing.T) {
	data, err := learned.Recorded()
	if err != nil {
		t.Fatal(err)
	}
	rows := data.Set("routeprofile").Rows
	for _, name := range learned.Names() {
		models := map[string]bool{}
		for i := range rows[:100] {
			chosen := map[int]bool{}
			v := threeModels()
			router := learned.Texts()[name]
			scores, best := router.Score(&rows[i].Question), ""
			for k := range v.Engines {
				at := slices.Index(router.Models, v.Engines[k].Recorded)
				if at >= 0 && (best == "" || scores[at] > scores[slices.Index(router.Models, best)]) {
					best = v.Engines[k].Recorded
				}
			}
			models[best] = true
			for seed := range uint64(20) {
				if seed == 10 {
					for k := range v.Engines {
						v.Engines[k].InFlight = 100 * k
					}
				}
				p, err := NewRule(name, seed)
				if err != nil {
					t.Fatal(err)
				}
				r := prompt(i, 9)
				r.ID, r.asked = i, &reading{all: []learned.Question{rows[i].Question}}
				chosen[p.Arrive(Start, r, v)] = true
			}
			for k := range chosen {
				if v.Engines[k].Recorded != best {
					t.Errorf("%s: question %d goes to engine %d of %q, want one of %s", name, i, k,
						v.Engines[k].Recorded,
						best)
				}
			}
			if len(chosen) != 2 {
				t.Errorf("%s: question %d goes to %d engines of %s, want both", name, i, len(chosen), best)
			}
		}
		if len(models) < 2 {
			t.Errorf("%s sends a hundred questions to one model", name)
		}
		unknown := fleetView(FleetEngine{Score: 0.5, Card: card(1, 1)}, FleetEngine{Score: 0.9,
			Card: card(1, 1)})
		all := map[int]bool{}
		for seed := range uint64(20) {
			p, err := NewRule(name, seed)
			if err != nil {
				t.Fatal(err)
			}
			all[p.Arrive(Start, prompt(1, 9), unknown)] = true // a text that nobody knows
		}
		if len(all) != 2 {
			t.Errorf("%s: of models that nobody has scores of it takes %v, want any", name, all)
		}
	}
}

// The more a knob says that cost counts, the less is paid.
func TestLearnedRulesAndCost(t *testing.T) {
	data, err := learned.Recorded()
	if err != nil {
		t.Fatal(err)
	}
	rows := data.Set("routeprofile").Rows
	for _, c := range []struct{ free, thrifty string }{{"mf:0.5", "mf:0.9"}, {"graph:0", "graph:0.5"}} {
		paid := map[string]float64{}
		for _, rule := range []string{c.free, c.thrifty} {
			p, err := NewRule(rule, 1)
			if err != nil {
				t.Fatal(err)
			}
			v := threeModels()
			for i := range rows[:200] {
				r := prompt(i, 9)
				r.ID, r.asked = i, &reading{all: []learned.Question{rows[i].Question}}
				paid[rule] += float64(v.Cost(p.Arrive(Start, r, v), r))
			}
		}
		if paid[c.thrifty] > 0.9*paid[c.free] {
			t.Errorf("%v", paid)
		}
	}
}

// What routers read of the trace routed is of the same questions as the scores of its answers.
func TestRoutersReadTheQuestionsThatArePlayed(t *testing.T) {
	data, err := learned.Recorded()
	if err != nil {
		t.Fatal(err)
	}
	set := data.Set("routeprofile")
	asked, err := traces.Questions()
	if err != nil || len(asked) != len(set.Rows) {
		t.Fatalf("%d questions, %d rows, %v", len(asked), len(set.Rows), err)
	}
	for i, q := range asked {
		for m, model := range set.Models {
			if x := set.Rows[i].Scores[m]; set.Rows[i].Task != q.Task ||
				math.Abs(x-q.Models[model][0]) > 1e-4 {
				t.Fatalf("row %d: %s of %s has %v, the trace %v of %s", i, model, set.Rows[i].Task, x,
					q.Models[model][0],
					q.Task)
			}
		}
	}
	w := World{Trace: traceOf(t, "routed"), Tasks: 200, Seed: 1}
	s, err := w.Setting()
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]bool{}
	for _, r := range playedBy(t, s, "random") {
		read[fmt.Sprint(*r.Read())] = true
	}
	if len(read) < 100 {
		t.Errorf("of 200 questions %d differ", len(read))
	}
	for _, r := range playedBy(t, small(t, 1), "random") { // dialogues have texts
		if *r.Read() != learned.Reader().Read(r.script.said[r.Turn].User) {
			t.Fatalf("turn %d is read as something else", r.Turn)
		}
	}
}
