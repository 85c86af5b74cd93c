// Package traces has recorded sessions without their text: which blocks prompts had, how long messages were,
// and when they came.
package traces

import (
	"bufio"
	"compress/gzip"
	"embed"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"souk/cmd/replay"
)

// The files keep the licences of their sources: data/NOTICE.md.
//
//go:embed data/*.jsonl.gz data/*.txt.gz data/NOTICE.md
var files embed.FS

// read reads one of the packed files, of a value in JSON a line.
func read[T any](file string) (all []T, err error) {
	f, err := files.Open("data/" + file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, replay.MaxLine)
	for lines.Scan() {
		var one T
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, one)
	}
	return all, lines.Err()
}

// Arrivals returns when requests came to a real service, in bursts, from the first one on.
func Arrivals() (out []time.Duration, err error) {
	f, err := files.Open("data/azure-code.txt.gz")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	at := time.Duration(0)
	for lines := bufio.NewScanner(text); ; {
		if !lines.Scan() {
			return out, lines.Err()
		}
		after, err := strconv.Atoi(lines.Text())
		if err != nil {
			return nil, err
		}
		at += time.Duration(after) * time.Millisecond
		out = append(out, at)
	}
}
