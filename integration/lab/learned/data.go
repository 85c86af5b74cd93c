package learned

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/base64"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Row is a question of a set, and how good each model's answer was.
type Row struct {
	Question
	ID     uint64
	Task   string    // the benchmark that it is of; no router is told
	Scores []float64 // by model of its set, 0 to 1; NaN: nobody knows
}

// Set is a set of recorded answers.
type Set struct {
	Name   string
	Models []string
	Rows   []Row

	Doubled int // rows left out, as one with the same text stands before them
	Empty   int // rows left out, as no model has a score
	Missing int // scores that rows lack
}

// mostRows bounds what is read.
const mostRows = 1 << 18

// Data is recorded answers, and what a table says of models.
type Data struct {
	Sets  []*Set
	Cards map[string]Card // by model
}

// Card is a model's size and price.
type Card struct {
	Size    float64 // parameters, in thousands of millions
	In, Out float64 // dollars a million tokens
}

// ReadData reads recorded answers. A line "card MODEL SIZE IN OUT" is of a model. A line "set NAME
// MODEL..." begins a set; below it stands a line for each question: the hash of its text, its task, its
// sketch, and a score of each model, or - where there is none. What is wrong is said with its line.
func ReadData(r io.Reader) (*Data, error) {
	data := &Data{Cards: map[string]Card{}}
	var of *Set
	seen := map[uint64]bool{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<16)
	n := 1
	for ; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		if words[0] == "card" {
			var c Card
			if _, err := fmt.Sscan(strings.Join(words[min(2, len(words)):], " "), &c.Size, &c.In,
				&c.Out); err != nil ||
				len(words) != 5 || !(c.Size > 0 && c.In >= 0 && c.Out >= 0) {
				return nil, fmt.Errorf("line %d: a card has a model, its size and two prices", n)
			}
			data.Cards[words[1]] = c
			continue
		}
		if words[0] == "set" {
			if len(words) < 4 {
				return nil, fmt.Errorf("line %d: a set has a name and two models", n)
			}
			of = &Set{Name: words[1], Models: words[2:]}
			if slices.ContainsFunc(data.Sets, func(s *Set) bool { return s.Name == of.Name }) {
				return nil, fmt.Errorf("line %d: there are two sets %s", n, of.Name)
			}
			data.Sets, seen = append(data.Sets, of), map[uint64]bool{}
			continue
		}
		if of == nil || n > mostRows {
			return nil, fmt.Errorf("line %d: it is of no set, or beyond %d", n, mostRows)
		}
		row, missing, err := of.read(words)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		switch {
		case seen[row.ID]:
			of.Doubled++
		case missing == len(of.Models):
			of.Empty++
		default:
			of.Missing += missing
			of.Rows = append(of.Rows, row)
		}
		seen[row.ID] = true
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", n, err)
	}
	if len(data.Sets) == 0 {
		return nil, fmt.Errorf("there is no set")
	}
	return data, nil
}

func (s *Set) read(words []string) (r Row, missing int, err error) {
	if want := 3 + len(s.Models); len(words) != want {
		return r, 0, fmt.Errorf("%d words, where set %s has %d", len(words), s.Name, want)
	}
	if r.ID, err = strconv.ParseUint(words[0], 16, 64); err != nil {
		return r, 0, err
	}
	sketch, err := base64.RawStdEncoding.DecodeString(words[2])
	if err != nil || len(sketch) != Size {
		return r, 0, fmt.Errorf("%q is no sketch of %d bytes", words[2], Size)
	}
	r.Task, r.Fold = words[1], FoldOf(r.ID)
	for d, x := range sketch {
		r.Sketch[d] = int8(x)
	}
	for _, w := range words[3:] {
		x := math.NaN()
		if w == "-" {
			missing++
		} else if x, err = strconv.ParseFloat(w, 64); err != nil || !(x >= 0 && x <= 1) {
			return r, 0, fmt.Errorf("%q is no score from 0 to 1", w)
		}
		r.Scores = append(r.Scores, x)
	}
	return r, missing, nil
}

// Write writes a set so that [ReadData] reads it.
func (s *Set) Write(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, "set", s.Name, strings.Join(s.Models, " "))
	for _, r := range s.Rows {
		sketch := make([]byte, Size)
		for d, x := range r.Sketch {
			sketch[d] = byte(x)
		}
		fmt.Fprintf(b, "%016x %s %s", r.ID, r.Task, base64.RawStdEncoding.EncodeToString(sketch))
		for _, x := range r.Scores {
			if math.IsNaN(x) {
				b.WriteString(" -")
			} else {
				b.WriteString(" " + strconv.FormatFloat(x, 'f', -1, 64))
			}
		}
		b.WriteByte('\n')
	}
	return b.Flush()
}

// Best is the model that does best on rows of which something is true.
func (s *Set) Best(is func(*Row) bool) int {
	sums := make([]float64, len(s.Models))
	for i := range s.Rows {
		for m, x := range s.Rows[i].Scores {
			if is(&s.Rows[i]) && x > 0 {
				sums[m] += x
			}
		}
	}
	return slices.Index(sums, slices.Max(sums))
}

// The file keeps the licences of its sources: data/NOTICE.md.
//
//go:embed data/rows.txt.gz
var packedRows []byte

// Recorded reads the rows that lie beside the code; data/NOTICE.md says where they come from.
var Recorded = sync.OnceValues(func() (*Data, error) {
	z, err := gzip.NewReader(bytes.NewReader(packedRows))
	if err != nil {
		return nil, err
	}
	return ReadData(z)
})

// Groups are sets that share questions, which are learned from together. What models answer is learned in
// none but their own.
var Groups = []Group{{"texts", []string{"llmrouter", "routeprofile"}}, {"names", []string{"routerarena"}}}

// Group names sets.
type Group struct {
	Name string
	Sets []string
}

// Join is one set of all questions and models of a group. A score that two sets have is their mean; both says
// how many there are.
func (d *Data) Join(g *Group) (all *Set, both int, err error) {
	all = &Set{Name: g.Name}
	at := map[uint64]int{}
	for _, name := range g.Sets {
		of := d.Set(name)
		if of == nil {
			return nil, 0, fmt.Errorf("there is no set %s", name)
		}
		place := make([]int, len(of.Models))
		for m, name := range of.Models {
			if place[m] = slices.Index(all.Models, name); place[m] < 0 {
				place[m] = len(all.Models)
				all.Models = append(all.Models, name)
				for i := range all.Rows {
					all.Rows[i].Scores = append(all.Rows[i].Scores, math.NaN())
				}
			}
		}
		for _, r := range of.Rows {
			k, ok := at[r.ID]
			if !ok {
				k = len(all.Rows)
				at[r.ID] = k
				row := r
				row.Scores = slices.Repeat([]float64{math.NaN()}, len(all.Models))
				all.Rows = append(all.Rows, row)
			}
			for m, x := range r.Scores {
				to := &all.Rows[k].Scores[place[m]]
				if math.IsNaN(*to) {
					*to = x
				} else if !math.IsNaN(x) {
					both++
					*to = (*to + x) / 2
				}
			}
		}
	}
	return all, both, nil
}

// Set is a set by its name; nil: there is none.
func (d *Data) Set(name string) *Set {
	for _, s := range d.Sets {
		if s.Name == name {
			return s
		}
	}
	return nil
}
