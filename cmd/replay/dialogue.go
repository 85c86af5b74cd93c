// Package replay plays recorded dialogues through a running market: it reads them, asks them turn by
// turn as many clients with different terms, and reports what was served, how fast and for how much.
package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Dialogue is one conversation, asked turn by turn by one client.
type Dialogue struct {
	ID string `json:"id,omitempty"`
	// what it is about, for the report; the market finds out by itself
	Domain string `json:"domain,omitempty"`
	System string `json:"system,omitempty"` // system prompt
	Turns  []Turn `json:"turns"`
}

// Turn holds the user's text and, where the source has one, the recorded answer.
type Turn struct {
	User   string `json:"user"`
	Answer string `json:"answer,omitempty"`
}

// UnmarshalJSON reads a turn from a bare string, which is the user's text, or from an object.
func (t *Turn) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*t = Turn{}
		return json.Unmarshal(b, &t.User)
	}
	type plain Turn
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode((*plain)(t))
}

// Limits of what is read, so that a wrong file is an error and not a full memory.
const (
	MaxTurns     = 1000    // of one dialogue
	MaxDialogues = 100_000 // of one file
)

// Reader yields the dialogues of a file one after another.
type Reader struct {
	lines  *Lines
	decode func(row []byte) (Dialogue, error)
	n      int
	seen   map[string]int // id -> line, to refuse a second use
}

// NewReader reads rows of the given format from r, plain or packed by gzip.
func NewReader(r io.Reader, f Format) (*Reader, error) {
	lines, err := NewLines(r)
	if err != nil {
		return nil, err
	}
	return ReadLines(lines, f)
}

// ReadLines reads rows of the given format, from the next line on.
func ReadLines(lines *Lines, f Format) (*Reader, error) {
	decode := f.decoder()
	if decode == nil {
		return nil, fmt.Errorf("unknown format %q: use one of %s", string(f),
			strings.Join(FormatNames(), ", "))
	}
	return &Reader{lines: lines, decode: decode, seen: map[string]int{}}, nil
}

// Next returns the next dialogue, or io.EOF. Any other error names the line, and the field where one is
// at fault; reading cannot go on after it. Empty lines are passed over.
func (r *Reader) Next() (Dialogue, error) {
	for {
		row, err := r.lines.Next()
		if err != nil {
			return Dialogue{}, err
		}
		if len(row) == 0 {
			continue
		}
		if r.n++; r.n > MaxDialogues {
			return Dialogue{},
				fmt.Errorf("line %d: more than %d dialogues: split the file", r.lines.Number, MaxDialogues)
		}
		d, err := r.decode(row)
		if err == nil {
			err = d.check()
		}
		if err != nil {
			return Dialogue{}, fmt.Errorf("line %d: %w", r.lines.Number, err)
		}
		if d.ID == "" {
			d.ID = fmt.Sprintf("line-%d", r.lines.Number)
		}
		if first, twice := r.seen[d.ID]; twice {
			return Dialogue{},
				fmt.Errorf("line %d: id: %.80q was used on line %d already", r.lines.Number, d.ID, first)
		}
		r.seen[d.ID] = r.lines.Number
		return d, nil
	}
}

// check judges a dialogue whatever format it came from.
func (d Dialogue) check() error {
	if len(d.Turns) == 0 {
		return errors.New("turns: missing or empty; a dialogue needs at least one")
	}
	if len(d.Turns) > MaxTurns {
		return fmt.Errorf("turns: %d, more than %d", len(d.Turns), MaxTurns)
	}
	for i, t := range d.Turns {
		if strings.TrimSpace(t.User) == "" {
			return fmt.Errorf("turns[%d]: the user says nothing", i)
		}
	}
	return nil
}

// ReadFile reads all dialogues of a file, plain or packed by gzip.
func ReadFile(path string, f Format) ([]Dialogue, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	ds, err := ReadAll(file, f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return ds, nil
}

// ReadAll reads all dialogues. A source without any is an error.
func ReadAll(src io.Reader, f Format) ([]Dialogue, error) {
	r, err := NewReader(src, f)
	if err != nil {
		return nil, err
	}
	var ds []Dialogue
	for {
		d, err := r.Next()
		if err == io.EOF {
			if len(ds) == 0 {
				return nil, errors.New("no dialogue in it")
			}
			return ds, nil
		}
		if err != nil {
			return nil, err
		}
		ds = append(ds, d)
	}
}
