package main

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"lab": main})
}

// The command as people use it: testdata/script/*.txtar.
func TestScripts(t *testing.T) {
	data, err := filepath.Abs("../../classifier/data")
	if err != nil {
		t.Fatal(err)
	}
	samples, err := filepath.Abs("traces/testdata")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{Dir: "testdata/script", Setup: func(e *testscript.Env) error {
		e.Setenv("DATA", data)
		e.Setenv("TRACES", samples)
		return nil
	}})
}

var update = flag.Bool("update", false, "write the goldens of TestFigures anew")

// The figures of one seed, byte for byte, on every machine and by every build: who means to change nothing of
// the market changes none of them, and who changes something shows here what.
func TestFigures(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	for _, c := range []struct{ name, command, only, tasks string }{
		{"crowd", "crowd", "rag,long,crowd,spread,open,two-block,greedy-first:4,dynamo,market --loads 0.9", "300"},
		{"fleet", "crowd", "mtrag,greedy,posted,capped:30,market --fleet mixed --terms tempers --loads 1.1", "400"},
		{"cliff", "cliff", "ring,chat-2,two-block,market --engines 4 --loads 0.6,1.1", "100"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "figures.json")
			lab := root()
			lab.SetArgs(append([]string{c.command, "--seeds", "1", "--tasks", c.tasks, "--json", file,
				"--only"},
				strings.Fields(c.only)...))
			lab.SetOut(io.Discard)
			lab.SetErr(io.Discard)
			if err := lab.ExecuteContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", c.name+".json")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				was := filepath.Join(os.TempDir(), "souk-"+c.name+".json")
				_ = os.WriteFile(was, got, 0o644)
				t.Errorf("%s is not %s: compare the two; where the change is meant, go test -run Figures -update "+
					"writes it anew", was, golden)
			}
		})
	}
}
