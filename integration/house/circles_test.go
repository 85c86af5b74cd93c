package house

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// The folders of the top level import one another one way, tests included, but for what is made for tests
// alone; and none imports the lab, which is a module of its own: who runs a market links and fetches nothing
// that only measures one.
func TestFoldersAreNoCircle(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	for _, complaint := range circles(load(t)) {
		t.Error(complaint)
	}
	for _, file := range []string{"../../go.mod", "../../go.sum"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, drawing := range []string{"gonum.org/v1/plot", "go-fonts", "go-pdf", "freetype"} {
			if strings.Contains(string(text), drawing) {
				t.Errorf("%s has %s: what draws is of %s", file, drawing, lab)
			}
		}
	}
}

func TestFoldersAreNoCircleComplains(t *testing.T) {
	var files []*source
	for path, text := range map[string]string{
		"hub/x.go":             "package hub\nimport _ \"souk/ledger\"\nimport _ \"souk/hub/queue\"",
		"ledger/a/x_test.go":   "package a\nimport _ \"souk/bus\"",
		"bus/x.go":             "package bus\nimport _ \"souk/hub/seat\"",
		"cmd/x/x.go":           "package main\nimport _ \"souk/hub\"\nimport _ \"souk/integration/lab/page\"",
		"integration/x.go":     "package integration\nimport _ \"souk/bus\"",
		"integration/lab/x.go": "package main\nimport _ \"souk/cmd/x\"\nimport _ \"souk/integration/lab/page\"",
	} {
		s, err := parse(path, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, s)
	}
	got := strings.Join(circles(files), "\n")
	want := strings.Join([]string{
		"a circle: bus imports hub (bus/x.go:2), hub imports ledger (hub/x.go:2), ledger imports bus " +
			"(ledger/a/x_test.go:2)",
		"cmd/x/x.go:3: imports souk/integration/lab/page: the lab is a module of its own",
	}, "\n")
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// circles complains of each circle of folders, and of whoever imports the lab from without.
func circles(files []*source) (complaints []string) {
	imports := map[string]map[string]string{} // by folder: where it imports which
	for _, s := range files {
		if under(s.pkg, []string{lab + "/..."}) {
			continue
		}
		from, _, _ := strings.Cut(s.pkg, "/")
		for _, spec := range s.file.Imports {
			imported, ours := strings.CutPrefix(importPath(spec), module)
			if !ours || s.test && slices.Contains(forTests, imported) {
				continue
			}
			if under(imported, []string{lab + "/..."}) {
				complaints = append(complaints, fmt.Sprintf("%s: imports %s%s: the lab is a module of its own",
					s.at(spec), module, imported))
				continue
			}
			if to, _, _ := strings.Cut(imported, "/"); to != from {
				if imports[from] == nil {
					imports[from] = map[string]string{}
				}
				if was := imports[from][to]; was == "" || s.at(spec) < was {
					imports[from][to] = s.at(spec)
				}
			}
		}
	}
	done := map[string]bool{}
	var visit func(folder string, way []string)
	visit = func(folder string, way []string) {
		begin := slices.Index(way, folder)
		way = append(way[:len(way):len(way)], folder)
		if begin >= 0 {
			var edges []string
			for i, from := range way[begin : len(way)-1] {
				to := way[begin+i+1]
				edges = append(edges, fmt.Sprintf("%s imports %s (%s)", from, to, imports[from][to]))
			}
			complaints = append(complaints, "a circle: "+strings.Join(edges, ", "))
			return
		}
		if !done[folder] {
			for _, next := range slices.Sorted(maps.Keys(imports[folder])) {
				visit(next, way)
			}
		}
		done[folder] = true
	}
	for _, folder := range slices.Sorted(maps.Keys(imports)) {
		visit(folder, nil)
	}
	slices.Sort(complaints)
	return complaints
}
