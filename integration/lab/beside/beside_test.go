// Package beside plays experiments side by side under the race detector.
package beside

import (
	"fmt"
	"testing"
	"time"

	"souk/integration/lab/cachesage"
	"souk/integration/lab/economics"
	"souk/integration/lab/forecast"
	"souk/integration/lab/gpus"
	"souk/integration/lab/hints"
	"souk/integration/lab/learned"
	"souk/integration/lab/thousand"
	"souk/integration/lab/virtual"
)

// Runs of an experiment that go side by side share nothing: the race detector looks at a few small ones of
// each. That they give what they give alone, each experiment's own tests see.
func TestExperimentsShareNothing(t *testing.T) {
	for name, play := range map[string]func(t *testing.T) (runs int, err error){
		"virtual": func(t *testing.T) (int, error) {
			o := virtual.CrowdOptions{Traces: []string{"small"}, Seeds: []uint64{3, 9},
				Rules: []string{"two-block", virtual.MarketName},
				World: virtual.World{Engines: 2, Tasks: 60}, Progress: func(int, int) {}}
			rows, err := virtual.Crowd(t.Context(), o)
			return len(rows) * len(o.Seeds), err
		},
		"cachesage": func(t *testing.T) (int, error) {
			seeds := []uint64{5, 6}
			rows, err := cachesage.Compare(t.Context(), cachesage.Panels()[1:2], []string{"ours"}, seeds,
				func(int) {})
			return len(rows) * len(seeds), err
		},
		"economics": func(t *testing.T) (int, error) {
			o := economics.Options{Seed: 7, Rounds: 6, Markets: 2}
			all, err := economics.Run(t.Context(), []string{"truth", "settle", "private", "pricing",
				"clusters", "schemes"}, o)
			return len(all) * o.Markets, err
		},
		"forecast": func(t *testing.T) (int, error) {
			o := forecast.DefaultOptions()
			o.Streams, o.Seeds, o.Tasks = []string{"short", "azure"}, []uint64{7}, 500
			all, err := forecast.Judge(t.Context(), o)
			return len(all), err
		},
		"gpus": func(t *testing.T) (int, error) {
			w, err := gpus.Bring("../traces/testdata/azure.csv", 4)
			if err != nil {
				return 0, err
			}
			o := gpus.DefaultOptions()
			if o.Prices, err = gpus.Published(); err != nil {
				return 0, err
			}
			o.Worlds, o.Seeds, o.Tasks, o.Most, o.Slots = []*gpus.World{w}, []uint64{2}, 100, 8, []int{8}
			all := gpus.Players
			t.Cleanup(func() { gpus.Players = all })
			gpus.Players = all[:2] // the market, and a rule
			r, err := gpus.Play(t.Context(), o)
			if err != nil {
				return 0, err
			}
			return len(r.Cells), nil
		},
		"hints": func(t *testing.T) (int, error) {
			o := hints.Options{Callers: 2, Turns: 3, Seeds: 1}
			rows, err := hints.Compare(t.Context(), o, hints.Lies[:1])
			return len(rows), err
		},
		"learned": func(t *testing.T) (int, error) {
			weights, err := learned.Train(answers(6), 3)
			return len(weights), err
		},
		"thousand": func(t *testing.T) (int, error) {
			o := thousand.DefaultOptions()
			o.Engines, o.Length, o.Thought = 8, 10*time.Second, 50
			o.Plays = []string{"1-hub", "3-hubs", "greedy"}
			r, err := thousand.Play(t.Context(), o)
			if err != nil {
				return 0, err
			}
			return len(r.Rows), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			if n, err := play(t); err != nil || n < 2 {
				t.Errorf("%d runs, %v", n, err)
			}
		})
	}
}

// answers makes recorded answers of two models to n questions of each set: one is right, the other is not.
func answers(n int) *learned.Data {
	d := &learned.Data{Cards: map[string]learned.Card{"a": {Size: 7, In: 1, Out: 1}}}
	for _, g := range learned.Groups {
		for _, name := range g.Sets {
			set := &learned.Set{Name: name, Models: []string{"a", "b"}}
			for i := range n {
				id := learned.ID(fmt.Sprint(name, i))
				r := learned.Row{Question: learned.Named("fruit"), ID: id, Task: "fruit",
					Scores: []float64{float64(i % 2), float64(1 - i%2)}}
				r.Fold = learned.FoldOf(id)
				set.Rows = append(set.Rows, r)
			}
			d.Sets = append(d.Sets, set)
		}
	}
	return d
}
