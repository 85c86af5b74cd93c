package train

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strings"

	"souk/classifier/model"
)

// Row is one prompt with the domain a person or a source gave it: a line of a JSONL file.
type Row struct {
	Source string `json:"source"`
	Domain string `json:"domain"`
	System string `json:"system"`
	Prompt string `json:"prompt"`
}

// Limits of a file of rows: far above any that this model is made for, and below what would exhaust a
// machine.
const (
	maxLine = 4 << 20
	maxRows = 1 << 20
)

// Read reads JSONL, gzipped or not. Errors name the line.
func Read(r io.Reader) ([]Row, error) {
	in := bufio.NewReader(r)
	if head, _ := in.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		in = bufio.NewReader(z)
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	var rows []Row
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var row Row
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if row.Domain == "" || row.Prompt == "" {
			return nil, fmt.Errorf(`line %d: a row needs "domain" and "prompt"`, n)
		}
		if len(rows) == maxRows {
			return nil, fmt.Errorf("line %d: more than %d rows", n, maxRows)
		}
		rows = append(rows, row)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return rows, nil
}

// Parts of the rows, by a hash of the prompt alone: a prompt that appears twice is on one side.
const (
	TestShare = 15 // percent of rows that no training, tuning or calibration ever sees
	Folds     = 5  // of the rest, for cross-validation
)

// IsTest reports whether a row is held out of the shipped model.
func IsTest(r Row) bool { return hash(r)%100 < TestShare }

// Fold is the part of the training rows that a row is left out with.
func Fold(r Row) int { return int(hash(r) / 100 % Folds) }

func hash(r Row) uint64 {
	h := fnv.New64a()
	io.WriteString(h, strings.TrimSpace(r.Prompt))
	return h.Sum64()
}

// Split divides rows into those for training and those held out.
func Split(rows []Row) (training, test []Row) {
	test, training = part(rows, IsTest)
	return training, test
}

// part divides rows into those of which something is true and the others.
func part(rows []Row, is func(Row) bool) (those, others []Row) {
	for _, r := range rows {
		if is(r) {
			those = append(those, r)
		} else {
			others = append(others, r)
		}
	}
	return those, others
}

// inFold returns a filter for the rows that are left out with a fold.
func inFold(fold int) func(Row) bool { return func(r Row) bool { return Fold(r) == fold } }

// LabelsOf lists the domains of rows, sorted.
func LabelsOf(rows []Row) []string { return distinct(rows, func(r Row) string { return r.Domain }) }

// distinct lists what rows have of something, sorted.
func distinct(rows []Row, of func(Row) string) []string {
	have := map[string]bool{}
	for _, r := range rows {
		have[of(r)] = true
	}
	return slices.Sorted(maps.Keys(have))
}

// greetings are system prompts that say nothing of a domain. Some rows are learned with one, so that its
// words come to mean nothing.
var greetings = []string{
	"You are a helpful assistant.",
	"You are a helpful, respectful and honest assistant. Answer as helpfully as possible.",
	"You are an AI assistant that follows instructions well. Think step by step and be concise.",
	"Answer the user's question. If you do not know the answer, say so.",
	"Use the context below to answer the question.",
}

// Samples turns rows into what Fit learns from. All labels count the same, however many rows they have, as
// they do in macro-F1. A label has many rows because its source was large, not because tasks of it are
// frequent. A multiple-choice question is learned in part without its choices, as people ask it, and every
// fifth row in part behind a greeting.
func Samples(rows []Row, labels []string) []Sample {
	var scratch model.Scratch
	var out []Sample
	add := func(r Row, prompt, system string, weight float64) {
		f := slices.Clone(scratch.Extract(system, prompt))
		out = append(out, Sample{f, slices.Index(labels, r.Domain), weight})
	}
	of := map[string]int{}
	for _, r := range rows {
		of[r.Domain]++
	}
	for _, r := range rows {
		whole := float64(len(rows)) / float64(len(labels)*of[r.Domain])
		weight := whole
		if bare, _, ok := strings.Cut(r.Prompt, "\nA. "); ok &&
			strings.HasSuffix(strings.TrimSpace(r.Prompt), "Answer:") {
			add(r, bare, r.System, whole/4)
			weight -= whole / 4
		}
		if h := hash(r); r.System == "" && h>>32%5 == 0 {
			add(r, r.Prompt, greetings[h>>40%uint64(len(greetings))], whole/4)
			weight -= whole / 4
		}
		add(r, r.Prompt, r.System, weight)
	}
	return out
}
