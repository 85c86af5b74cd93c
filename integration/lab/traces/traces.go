// Package traces has what was asked of models elsewhere, to be asked again. It reads files of others:
// dialogues with their text, and traces that say when a request came, how long it was and which blocks its
// prompt had. And it brings recorded sessions along, without their text.
package traces

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"souk/cmd/replay"
)

// Limits of a trace: a row beyond them is left out, or the file refused.
const (
	MaxRows   = 1_000_000
	MaxTokens = 4 << 20 // of a prompt or an answer; no model has room for more
)

// Trace is a trace as read. It has dialogues or chains.
type Trace struct {
	Name, Format string
	Dialogues    []replay.Dialogue
	Chains       []Chain
	Timed        bool // it says when each request came
	Paused       bool // it says how long each session paused
	Drawn        bool // requests were drawn here from the rates and lengths that it has
	Rows         int  // that were read, those left out among them
	Left         []Left
}

// Left is rows that were left out for one reason.
type Left struct {
	Why   string `json:"why"`
	Rows  int    `json:"rows"`
	First int    `json:"first_line,omitempty"`
}

func (t *Trace) leave(why string, line int) {
	for i := range t.Left {
		if t.Left[i].Why == why {
			t.Left[i].Rows++
			return
		}
	}
	t.Left = append(t.Left, Left{why, 1, line})
}

// Sessions returns the number of sessions.
func (t *Trace) Sessions() int { return len(t.Dialogues) + len(t.Chains) }

// form is a way to write a trace.
type form struct {
	name, about string
	is          func(first []byte, file string) bool // by the first line that is not empty
	read        func(t *Trace, lines *replay.Lines, file string) error
}

var forms = []form{
	{"mooncake", "a request a line: timestamp in ms, input_length, output_length, hash_ids of blocks of 512 " +
		"tokens", hasKeys("input_length", "hash_ids"), mooncake},
	{"kv-cache-tester", "a session a line: block_size and requests, each with in, out, think_time, and " +
		"hash_ids or hash_ranges", hasKeys("block_size", "requests"), kvCacheTester},
	{"azure", "CSV with TIMESTAMP, ContextTokens, GeneratedTokens", hasColumns("contexttokens"), azure},
	{"servegen", "CSV with timestamp in seconds, input_tokens, output_tokens; or chunk-N-trace.csv beside " +
		"chunk-N-dataset.json, from which requests are drawn", isServeGen, serveGen},
}

// Formats lists every way to write a trace, each with what it is.
func Formats() (names, abouts []string) {
	for _, f := range forms {
		names, abouts = append(names, f.name), append(abouts, f.about)
	}
	for _, name := range replay.FormatNames() {
		names, abouts = append(names, name), append(abouts, "dialogues, as souk replay reads them")
	}
	return names, abouts
}

// ReadFile reads a file, plain or packed by gzip. Format "" is whichever its first line is written in. A line
// that is none of the format is an error that names it. A row that cannot be played is left out and counted.
func ReadFile(path, format string) (*Trace, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := read(f, path, format)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

func read(r io.Reader, path, format string) (*Trace, error) {
	lines, err := replay.NewLines(r)
	if err != nil {
		return nil, err
	}
	first, err := firstLine(lines)
	if err != nil {
		return nil, err
	}
	t := &Trace{Name: filepath.Base(path)}
	if t.Format = cmp.Or(format, formatOf(first, path)); t.Format == "" {
		names, _ := Formats()
		return nil, fmt.Errorf("line %d: written in no way that is known here: %.60q; --format says which of %s "+
			"it is", lines.Number, first, strings.Join(names, ", "))
	}
	if i := slices.IndexFunc(forms, func(f form) bool { return f.name == t.Format }); i >= 0 {
		err = forms[i].read(t, lines, path)
	} else {
		err = dialogues(t, lines)
	}
	if err != nil {
		return nil, err
	}
	if t.Sessions() == 0 {
		said := append([]string{"no request in it that can be played"}, t.Why()...)
		return nil, errors.New(strings.Join(said, "; "))
	}
	return t, nil
}

// Why says of each reason how many rows were left out for it, and which was the first.
func (t *Trace) Why() (all []string) {
	for _, l := range t.Left {
		said := fmt.Sprintf("%d left out: %s", l.Rows, l.Why)
		if l.First > 0 {
			said += fmt.Sprintf(" (the first on line %d)", l.First)
		}
		all = append(all, said)
	}
	return all
}

func firstLine(lines *replay.Lines) ([]byte, error) {
	for {
		line, err := lines.Next()
		if err == io.EOF {
			return nil, errors.New("it is empty")
		}
		if err != nil || len(line) > 0 {
			lines.Back()
			return line, err
		}
	}
}

// formatOf is the format of a first line, "" if it is none's.
func formatOf(first []byte, file string) string {
	for _, f := range forms {
		if f.is(first, file) {
			return f.name
		}
	}
	for _, name := range replay.FormatNames() {
		if r, err := replay.NewReader(bytes.NewReader(first), replay.Format(name)); err == nil {
			if _, err := r.Next(); err == nil {
				return name
			}
		}
	}
	return ""
}

func hasKeys(keys ...string) func([]byte, string) bool {
	return func(first []byte, _ string) bool {
		var row map[string]json.RawMessage
		if json.Unmarshal(first, &row) != nil {
			return false
		}
		for _, key := range keys {
			if row[key] == nil {
				return false
			}
		}
		return true
	}
}

// each hands the rows of a file on.
func (t *Trace) each(lines *replay.Lines, row func(line []byte) error) error {
	for {
		line, err := lines.Next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case len(line) == 0:
			continue
		}
		if t.Rows++; t.Rows > MaxRows {
			return fmt.Errorf("line %d: more than %d rows: split the file", lines.Number, MaxRows)
		}
		if err := row(line); err != nil {
			return fmt.Errorf("line %d: %w", lines.Number, err)
		}
	}
}

func dialogues(t *Trace, lines *replay.Lines) error {
	r, err := replay.ReadLines(lines, replay.Format(t.Format))
	for err == nil {
		var d replay.Dialogue
		if d, err = r.Next(); err == nil {
			t.Dialogues = append(t.Dialogues, d)
		}
	}
	if t.Rows = len(t.Dialogues); err == io.EOF {
		return nil
	}
	return err
}

// playable says why a row of these lengths cannot be played; "": it can. An answer of no tokens is played as
// one of one token, which is the least that an engine gives.
func playable(in, out int) string {
	switch {
	case in < 1:
		return "its prompt has no tokens"
	case out < 0:
		return "its answer has fewer than no tokens"
	case in > MaxTokens || out > MaxTokens:
		return fmt.Sprintf("its prompt or answer has more than %d tokens", MaxTokens)
	}
	return ""
}
