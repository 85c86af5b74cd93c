package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"souk/cmd/replay"
	"souk/integration/lab/traces"
)

// questions reads RouteProfile's rows without their texts.
func questions(file string) (all []traces.Question, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines, err := replay.NewLines(f)
	if err != nil {
		return nil, err
	}
	for n := 1; ; n++ {
		line, err := lines.Next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		var row struct {
			Task   string
			Models map[string]struct {
				Score   float64
				In, Out float64
			}
		}
		if err := json.Unmarshal(line, &row); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", file, n, err)
		}
		q := traces.Question{Task: row.Task, Models: map[string][3]float64{}}
		for model, a := range row.Models {
			q.Models[model] = [3]float64{a.Score, a.In, a.Out}
		}
		all = append(all, q)
	}
}
