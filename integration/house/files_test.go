package house

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// opens are the functions that open files by a name.
var opens = []string{"ReadFile", "Open", "OpenFile", "WriteFile", "Create"}

// own says who opens files by itself, and what: all others do it by bus/regular, as somebody may have laid
// anything in a file's place.
var own = map[string]string{
	"bus/regular":                      "all files",
	"bus/life/here_linux.go":           "what the system says of itself",
	"bus/natsauth/ca.go":               "a lock, judged before",
	"ledger/journal/journal.go":        "a segment that was just read",
	"ledger/journal/snapshot_write.go": "a directory, to sync it",
	"agentd/serve/spool.go":            "a directory, to sync it",
	"cmd/local/dir.go":                 "a lock, judged before",
	"cmd/souk/auth.go":                 "what is written where a command line says",
	"cmd/replay/dialogue.go":           "dialogues, named on a command line",
	"cmd/parts/parts.go":               "logs of parts that it starts",
	"bus/bustest/files.go":             "a market's files, for tests",
	"bus/bustest/script/script.go":     "a script, for tests",
	"bus/bustest/golden/golden.go":     "what a test expects",
}

// Every daemon opens files by bus/regular.
func TestFilesAreOpenedInOnePlace(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	used := map[string]bool{}
	for _, s := range load(t) {
		if s.test || strings.HasPrefix(s.path, "integration/") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.SelectorExpr)
			if !ok || !slices.Contains(opens, call.Sel.Name) {
				return true
			}
			if x, ok := call.X.(*ast.Ident); !ok || s.names[x.Name] != "os" {
				return true
			}
			for _, key := range []string{s.path, s.pkg} {
				if own[key] != "" {
					used[key] = true
					return true
				}
			}
			t.Errorf("%s: os.%s: a pipe or a terabyte of nothing may be there: use bus/regular", s.at(n),
				call.Sel.Name)
			return true
		})
	}
	for key, what := range own {
		if !used[key] {
			t.Errorf("%s is to open %s, and opens nothing: take it from the list", key, what)
		}
	}
}
