package integration

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The packages that the Makefile tests without the race detector start no goroutine, nor do their tests.
func TestNoGoroutine(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	var alone []string
	for _, line := range regexp.MustCompile(`(?m)^ALONE [:+]= (.+)$`).FindAllSubmatch(makefile, -1) {
		alone = append(alone, strings.Fields(string(line[1]))...)
	}
	if len(alone) == 0 {
		t.Fatal("the Makefile has no list ALONE")
	}
	for _, pkg := range alone {
		files, err := filepath.Glob(filepath.Join("..", pkg, "*.go"))
		if err != nil || len(files) < 2 {
			t.Fatalf("%s: %d files, %v", pkg, len(files), err)
		}
		for _, path := range files {
			code, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, where := range goroutines(t, path, code) {
				t.Errorf("%s starts a goroutine: take %s out of ALONE in the Makefile", where, pkg)
			}
		}
	}
	for code, want := range map[string]int{
		"go f()":                           1,
		"var g sync.WaitGroup; g.Go(f)":    1,
		"t.Parallel()":                     1,
		"synctest.Test(t, f)":              1,
		"f(); node.Step(now, m)":           0,
		"b.RunParallel(f)":                 1,
		"func() { go func() { f() }() }()": 1,
	} {
		if got := goroutines(t, "x.go", []byte("package p\nfunc x() { "+code+" }")); len(got) != want {
			t.Errorf("%s: %v", code, got)
		}
	}
}

// goroutines returns where code starts one, or has its tests run at once.
func goroutines(t *testing.T, path string, code []byte) (where []string) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, code, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		starts := false
		switch n := n.(type) {
		case *ast.GoStmt:
			starts = true
		case *ast.SelectorExpr:
			on, _ := n.X.(*ast.Ident)
			starts = n.Sel.Name == "Go" || n.Sel.Name == "Parallel" || n.Sel.Name == "RunParallel" ||
				on != nil && on.Name == "synctest"
		}
		if starts {
			where = append(where, files.Position(n.Pos()).String())
		}
		return true
	})
	return where
}
