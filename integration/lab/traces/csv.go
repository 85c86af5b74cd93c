package traces

import (
	"encoding/csv"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"souk/cmd/replay"
)

// fields are the cells of a line.
func fields(line []byte) ([]string, error) {
	cells, err := csv.NewReader(strings.NewReader(string(line))).Read()
	var at *csv.ParseError
	if errors.As(err, &at) {
		err = at.Err // the line is said elsewhere
	}
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells, err
}

func hasColumns(column string) func([]byte, string) bool {
	return func(first []byte, _ string) bool {
		cells, err := fields(first)
		named := func(cell string) bool { return strings.EqualFold(cell, column) }
		return err == nil && slices.ContainsFunc(cells, named)
	}
}

// columns reads rows below a line that names their columns, of which these are known: the time, the tokens of
// the prompt and of the answer, and what says nothing of them. A request is a session of its own.
func (t *Trace) columns(lines *replay.Lines, known [3]string, beside []string,
	at func(cell string) (ms float64, err error)) error {
	t.Timed = true
	var place []int // of the three
	width, last, start := 0, 0.0, 0.0
	return t.each(lines, func(line []byte) error {
		cells, err := fields(line)
		if err != nil {
			return err
		}
		if place == nil {
			t.Rows-- // the names are no row
			width = len(cells)
			place, err = places(cells, known, beside)
			return err
		}
		if len(cells) != width {
			return fmt.Errorf("%d columns, and %d names of columns", len(cells), width)
		}
		ms, err := at(cells[place[0]])
		if err != nil {
			return fmt.Errorf("%s: %w", known[0], err)
		}
		var tokens [2]int
		for i := range tokens {
			x, err := strconv.ParseFloat(cells[place[1+i]], 64)
			if err != nil {
				return fmt.Errorf("%s: %.40q is no number", known[1+i], cells[place[1+i]])
			}
			if tokens[i] = int(max(-1, min(x, MaxTokens+1))); x != x {
				tokens[i] = 0
			}
		}
		if len(t.Chains) == 0 && len(t.Left) == 0 {
			start = ms
		}
		ms -= start
		if why := when(ms, last); why != "" {
			t.leave(why, lines.Number)
			return nil
		}
		if why := playable(tokens[0], tokens[1]); why != "" {
			t.leave(why, lines.Number)
			return nil
		}
		last = ms
		t.alone(ms, tokens[0], tokens[1])
		return nil
	})
}

// alone adds a request of which no other has a block.
func (t *Trace) alone(ms float64, in, out int) {
	t.Chains = append(t.Chains, Chain{ID: strconv.Itoa(len(t.Chains)), Block: 16, Timed: true,
		Turns: [][]int{{int(ms), in, out}}})
}

// places says where the known columns stand among all.
func places(cells []string, known [3]string, beside []string) (place []int, err error) {
	is := func(name string) func(string) bool {
		return func(cell string) bool { return strings.EqualFold(cell, name) }
	}
	for _, name := range known {
		i := slices.IndexFunc(cells, is(name))
		if i < 0 {
			return nil, fmt.Errorf("there is no column %s", name)
		}
		place = append(place, i)
	}
	for i, cell := range cells {
		if !slices.Contains(place, i) && !slices.ContainsFunc(beside, is(cell)) {
			return nil, fmt.Errorf("unknown column %.40q: a row has %s", cell,
				strings.Join(append(known[:], beside...), ", "))
		}
	}
	return place, nil
}

// azure reads Azure's LLM inference traces, of 2023 and of 2024.
func azure(t *Trace, lines *replay.Lines, _ string) error {
	layouts := []string{"2006-01-02 15:04:05.9999999", "2006-01-02 15:04:05.9999999Z07:00", time.RFC3339Nano}
	return t.columns(lines, [3]string{"TIMESTAMP", "ContextTokens", "GeneratedTokens"}, nil,
		func(cell string) (float64, error) {
			for _, layout := range layouts {
				if at, err := time.Parse(layout, cell); err == nil {
					return float64(at.UnixMicro()) / 1000, nil
				}
			}
			return 0, fmt.Errorf("%.40q is no time like 2023-11-16 18:17:03.97996", cell)
		})
}

func isServeGen(first []byte, file string) bool {
	return hasColumns("input_tokens")(first, file) || isRates(file)
}

// isRates says whether a file is named as ServeGen names the rates of a client.
func isRates(file string) bool {
	return strings.HasSuffix(strings.TrimSuffix(filepath.Base(file), ".gz"), ratesEnd)
}

// serveGen reads requests as ServeGen makes them, or draws them as it does from a client's rates and lengths.
func serveGen(t *Trace, lines *replay.Lines, file string) error {
	if isRates(file) {
		of, err := lengthsBeside(file)
		if err != nil {
			return err
		}
		return t.draw(lines, of, mostDrawn, 1)
	}
	return t.columns(lines, [3]string{"timestamp", "input_tokens", "output_tokens"}, []string{"request_id"},
		func(cell string) (float64, error) {
			s, err := strconv.ParseFloat(cell, 64)
			if err != nil {
				return 0, fmt.Errorf("%.40q is no number of seconds", cell)
			}
			return 1000 * s, nil
		})
}
