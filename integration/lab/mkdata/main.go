// Command mkdata makes one of the bundled files from a public set: it reads the set's own rows, keeps a
// deterministic selection, and writes it in the form of souk replay or of package traces. The NOTICE.md
// beside the files has the commands.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strings"

	"souk/cmd/replay"
)

func main() {
	format := flag.String("format", "souk", "one of "+strings.Join(replay.FormatNames(), ", ")+
		"; or chains or lmcache, traces of blocks; or whowhen or taubench-calls, logs of agents; or "+
		"questions, of RouteProfile; or routing, of RouteProfile, LLMRouter and RouterArena")
	n := flag.Int("n", 50, "dialogues to keep: those with the smallest hash of their id, in that order")
	maxBytes := flag.Int("max-bytes", 8000, "pass over dialogues with more text than this")
	answers := flag.Bool("answers", true, "keep the recorded answers")
	system := flag.String("system", "", "system prompt for dialogues without one")
	flag.Parse()
	if *format == "routing" && flag.NArg() > 1 {
		files := flag.Args()
		if err := routing(files[1:], files[0]); err != nil {
			fmt.Fprintln(os.Stderr, "mkdata:", err)
			os.Exit(1)
		}
		return
	}
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: mkdata [flags] FILE > data/NAME.jsonl")
		os.Exit(2)
	}
	switch *format {
	case "chains":
		write(chains(flag.Arg(0), *n))
		return
	case "lmcache":
		write(calls(flag.Arg(0)))
		return
	case "whowhen", "taubench-calls":
		write(workflows(flag.Arg(0), *format))
		return
	}
	if *format == "questions" {
		write(questions(flag.Arg(0)))
		return
	}
	ds, err := replay.ReadFile(flag.Arg(0), replay.Format(*format))
	if err != nil {
		fmt.Fprintln(os.Stderr, "mkdata:", err)
		os.Exit(1)
	}
	ds = slices.DeleteFunc(ds, func(d replay.Dialogue) bool { return size(d) > *maxBytes })
	slices.SortFunc(ds, func(a, b replay.Dialogue) int {
		return cmp.Or(cmp.Compare(hash(a.ID), hash(b.ID)), cmp.Compare(a.ID, b.ID))
	})
	out := bufio.NewWriter(os.Stdout)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for _, d := range ds[:min(*n, len(ds))] {
		if d.System == "" {
			d.System = *system
		}
		if !*answers {
			for i := range d.Turns {
				d.Turns[i].Answer = ""
			}
		}
		if err := enc.Encode(d); err != nil {
			fmt.Fprintln(os.Stderr, "mkdata:", err)
			os.Exit(1)
		}
	}
	if err := out.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "mkdata:", err)
		os.Exit(1)
	}
}

// write writes one of a list a line.
func write[T any](all []T, err error) {
	enc := json.NewEncoder(os.Stdout)
	for i := 0; i < len(all) && err == nil; i++ {
		err = enc.Encode(all[i])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mkdata:", err)
		os.Exit(1)
	}
}

func size(d replay.Dialogue) int {
	n := len(d.System)
	for _, t := range d.Turns {
		n += len(t.User) + len(t.Answer)
	}
	return n
}

func hash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}
