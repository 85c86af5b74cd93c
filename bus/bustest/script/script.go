// Package script plays scripts: text that says what happens when, and what a machine makes of it. Tests of
// machines keep them in testdata, to be read as a manual; -update writes what a machine does now.
package script

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"souk/bus/bustest/golden"
)

// most bounds how often a scene is woken between two lines.
const most = 20_000

// Scene is a machine with its surroundings, for one script.
type Scene interface {
	// Wake returns when the scene wants to be woken, if that is before the next line, which is at to.
	Wake(to time.Time) time.Time
	Tick(now time.Time)
	Do(now time.Time, what string) // lets happen what a line says
}

// Say prints a line below the one that is played.
type Say func(format string, args ...any)

// Run plays the scripts in files. An empty line parts one script from the next. A line that begins with a
// time says what happens then, and the indented lines below it say what follows; where that follows later, it
// begins with its own time. Between two lines the clock runs, and the scene is woken when it wants to be.
// Other lines, a name or a comment, are for readers.
func Run(t *testing.T, files string, start time.Time, open func(t *testing.T, say Say) Scene) {
	paths, err := filepath.Glob(files)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts in %s: %v", files, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, want := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
			title, _, _ := strings.Cut(strings.TrimPrefix(want, "name: "), "\n")
			got := want
			t.Run(filepath.Base(path)+"/"+title, func(t *testing.T) {
				if got = play(t, want, start, open); got != want && !*golden.Update {
					t.Errorf("want\n%s\ngot\n%s", want, got)
				}
			})
			out = append(out, got)
		}
		if *golden.Update {
			if err := os.WriteFile(path, []byte(strings.Join(out, "\n\n")+"\n"), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func play(t *testing.T, text string, start time.Time, open func(*testing.T, Say) Scene) string {
	var out strings.Builder
	now, woken := start, false
	scene := open(t, func(format string, args ...any) {
		at := ""
		if woken {
			at = now.Sub(start).Round(time.Millisecond).String() + " "
		}
		fmt.Fprintf(&out, "  "+at+format+"\n", args...)
	})
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, " ") {
			continue // what followed when it was written
		}
		at, what, _ := strings.Cut(line, " ")
		after, err := time.ParseDuration(at)
		if err != nil {
			fmt.Fprintln(&out, line)
			continue
		}
		to := start.Add(after)
		woken = true
		for n := 0; ; n++ {
			wake := scene.Wake(to)
			if wake.IsZero() || wake.After(to) {
				break
			}
			if n > most {
				t.Fatalf("%s: woken without end at %v", line, wake.Sub(start))
			}
			if wake.After(now) {
				now = wake
			}
			scene.Tick(now)
		}
		now, woken = to, false
		fmt.Fprintln(&out, line)
		scene.Do(now, strings.TrimSpace(what))
	}
	return strings.TrimSpace(out.String())
}
