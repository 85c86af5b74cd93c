package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"souk/integration/lab/learned"
)

// routing reads recorded answers of several models and writes what [learned] carries of them: rows.txt,
// without a text, and the encoder that turned the texts into sketches. The first file is a table of
// models. A question of which only the name of its benchmark is there is read as that name.
func routing(files []string, to string) error {
	type cell struct{ Score *float64 }
	type question struct {
		ID, Task, Dataset, Query string
		Scores                   map[string]*float64
		Models                   map[string]cell
	}
	var texts []string
	all := map[string][]question{}
	var table map[string]struct {
		Parameters float64
		Size       string  // as in 7B
		In         float64 `json:"input_price"`
		Out        float64 `json:"output_price"`
	}
	data, err := os.ReadFile(files[0])
	if err == nil {
		err = json.Unmarshal(data, &table)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", files[0], err)
	}
	files = files[1:]
	for _, file := range files {
		if err := rows(file, func(line []byte) error {
			var q question
			err := json.Unmarshal(line, &q)
			for model, c := range q.Models {
				if q.Scores == nil {
					q.Scores = map[string]*float64{}
				}
				q.Scores[model] = c.Score
			}
			if q.Query != "" {
				texts = append(texts, q.Query)
			}
			all[file] = append(all[file], q)
			return err
		}); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	slices.Sort(texts)
	encoder := learned.FitEncoder(slices.Compact(texts))
	if err := os.WriteFile(filepath.Join(to, "encoder.weights"), encoder.Encode(), 0o644); err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(to, "rows.txt"))
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, of := range all {
		for _, q := range of {
			for model := range q.Scores {
				known[model] = true
			}
		}
	}
	for _, model := range slices.Sorted(maps.Keys(known)) {
		c, ok := table[model]
		if !ok {
			continue
		}
		if c.Parameters == 0 {
			if c.Parameters, err = strconv.ParseFloat(strings.TrimRight(c.Size, "Bb"), 64); err != nil {
				return fmt.Errorf("%s: size %q", model, c.Size)
			}
		}
		fmt.Fprintln(out, "card", model, c.Parameters, c.In, c.Out)
	}
	for _, file := range files {
		name, _, _ := strings.Cut(filepath.Base(file), "_")
		set := learned.Set{Name: name}
		models := map[string]bool{}
		for _, q := range all[file] {
			for model := range q.Scores {
				models[model] = true
			}
		}
		set.Models = slices.Sorted(maps.Keys(models))
		for _, q := range all[file] {
			family, _, _ := strings.Cut(q.Dataset, "_")
			r := learned.Row{Task: strings.ReplaceAll(q.Task+family, " ", "_")}
			if q.Query != "" {
				r.Question, r.ID = encoder.Read(q.Query), learned.ID(q.Query)
			} else {
				r.Question, r.ID = learned.Named(q.Dataset), learned.ID(q.ID)
			}
			for _, model := range set.Models {
				if s := q.Scores[model]; s != nil {
					r.Scores = append(r.Scores, math.Round(*s*1e4)/1e4)
				} else {
					r.Scores = append(r.Scores, math.NaN())
				}
			}
			set.Rows = append(set.Rows, r)
		}
		if err := set.Write(out); err != nil {
			return err
		}
	}
	return out.Close()
}
