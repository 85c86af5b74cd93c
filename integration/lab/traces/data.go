package traces

import (
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"souk/cmd/replay"
)

// The files keep the licences of their sources: data/NOTICE.md.
//
//go:embed data/*.jsonl.gz data/*.txt.gz data/NOTICE.md
var files embed.FS

// bundled reads one of the packed files, of a value in JSON a line.
func bundled[T any](file string) (all []T, err error) {
	err = eachLine(file, func(line []byte) error {
		var one T
		err := json.Unmarshal(line, &one)
		all = append(all, one)
		return err
	})
	return all, err
}

func eachLine(file string, take func(line []byte) error) error {
	f, err := files.Open("data/" + file)
	if err != nil {
		return err
	}
	defer f.Close()
	lines, err := replay.NewLines(f)
	for err == nil {
		var line []byte
		if line, err = lines.Next(); err == nil {
			err = take(line)
		}
	}
	if err == io.EOF {
		return nil
	}
	return fmt.Errorf("%s: %w", file, err)
}

// Arrivals returns when requests came to a real service, in bursts, from the first one on.
func Arrivals() (out []time.Duration, err error) {
	at := time.Duration(0)
	err = eachLine("azure-code.txt.gz", func(line []byte) error {
		after, err := strconv.Atoi(string(line))
		at += time.Duration(after) * time.Millisecond
		out = append(out, at)
		return err
	})
	return out, err
}
