package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"souk/integration/lab/virtual"
)

// stranger is a rule as anybody may add one, in a file of its own: it sends every task to the last engine
// that takes its prompt.
type stranger struct{ virtual.Plain }

func init() {
	virtual.Add(virtual.Rule{Name: "stranger", About: "the last engine", Source: "this file",
		New: func(uint64, float64) virtual.Policy { return stranger{} }})
}

// Arrive implements virtual.Policy.
func (stranger) Arrive(_ time.Time, _ *virtual.Request, v *virtual.View) int {
	able := v.Able()
	return able[len(able)-1]
}

// A rule that was added stands in the table of every page that compares rules, and in its help.
func TestAStrangersRuleIsOnPages(t *testing.T) {
	for _, line := range []string{
		"crowd --only open,routed --loads 0.5 --tasks 30 --seeds 1 --engines 2",
		"cliff --only ring --tasks 30 --seeds 1 --engines 2",
		"frontier --loads 0.5 --tasks 30 --seeds 1 --engines 2",
		"crowd --help", "cliff --help", "frontier --help",
	} {
		t.Run(line, func(t *testing.T) {
			var out strings.Builder
			lab := root()
			lab.SetArgs(strings.Fields(line))
			lab.SetOut(&out)
			lab.SetErr(io.Discard)
			if err := lab.ExecuteContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			rules, tables := strings.Count(out.String(), "stranger "), 1
			if strings.Contains(line, ",") {
				tables = 2
			}
			if rules != tables {
				t.Errorf("the rule stands %d times in %d tables:\n%s", rules, tables, &out)
			}
			for _, name := range append(virtual.RuleNames(), virtual.MarketName) {
				if !strings.Contains(out.String(), name) {
					t.Errorf("%s is missing", name)
				}
			}
		})
	}
}

// It stands on the pages themselves, too, and where anybody's trace is played.
func TestAStrangersRuleIsWritten(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	dir := t.TempDir()
	for name, command := range map[string]string{
		"crowd":    "crowd --only mtrag --loads 0.5 --tasks 20 --seeds 1 --out " + dir,
		"cliff":    "cliff --only ring --loads 0.5 --tasks 20 --seeds 1 --out " + dir,
		"frontier": "frontier --loads 0.5 --tasks 20 --seeds 1 --out " + dir,
		"games":    "games --only rules --seeds 1 --out " + dir,
	} {
		lab := root()
		lab.SetArgs(strings.Fields(command))
		lab.SetOut(io.Discard)
		lab.SetErr(io.Discard)
		if err := lab.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		page, err := os.ReadFile(filepath.Join(dir, name+".md"))
		if err != nil || !bytes.Contains(page, []byte("| stranger |")) {
			t.Errorf("%s does not have the stranger's rule: %v", name, err)
		}
	}
	lab, out := root(), &bytes.Buffer{}
	lab.SetArgs(strings.Fields("replay traces/testdata/azure.csv --tasks 20 --seeds 1"))
	lab.SetOut(out)
	if err := lab.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), "\nstranger ") {
		t.Errorf("a replay does not have the stranger's rule: %v\n%s", err, out)
	}
}
