package traces

import (
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"souk/cmd/replay"
)

// The files keep the licences of their sources: data/NOTICE.md.
//
//go:embed data/*.jsonl.gz data/*.txt.gz data/*.csv.gz data/*.json.gz data/NOTICE.md
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

// Conversations are the requests of a chat service, Azure's of 2023: when they came, and how long they were.
func Conversations() (*Trace, error) {
	const file = "azure-conv.csv.gz"
	f, err := files.Open("data/" + file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := read(f, file, "azure")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return t, nil
}

// reasoners are clients of one hour of ServeGen's deepseek-r1.
var reasoners = []int{19, 20, 23, 38, 70}

// Reasoning are an hour's requests of five clients of a model that reasons, drawn from ServeGen's rates and
// lengths of each, as they come together.
func Reasoning() (*Trace, error) {
	all := &Trace{Name: "servegen", Format: "servegen", Timed: true, Drawn: true}
	for _, client := range reasoners {
		if err := all.drawFrom(client); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(all.Chains, func(a, b Chain) int { return a.Turns[0][0] - b.Turns[0][0] })
	for i := range all.Chains {
		all.Chains[i].ID = strconv.Itoa(i)
	}
	return all, nil
}

func (t *Trace) drawFrom(client int) error {
	file := fmt.Sprintf("chunk-%d", client)
	both, err := files.Open("data/" + file + lengthsEnd + ".gz")
	if err != nil {
		return err
	}
	defer both.Close()
	of, err := readLengths(both)
	if err != nil {
		return fmt.Errorf("%s%s: %w", file, lengthsEnd, err)
	}
	rates, err := files.Open("data/" + file + ratesEnd + ".gz")
	if err != nil {
		return err
	}
	defer rates.Close()
	lines, err := replay.NewLines(rates)
	if err == nil {
		err = t.draw(lines, of, len(t.Chains)+mostDrawn, uint64(client))
	}
	if err != nil {
		return fmt.Errorf("%s%s: %w", file, ratesEnd, err)
	}
	return nil
}
