package house

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The packages that the Makefile tests without the race detector (ALONE) start no goroutine, nor do their
// tests. Those of which it tests a part with it (SIDE) start none outside tests but by runs.Each, and have
// such a part; those of LAB_BESIDE have it together, in package beside. Those that it tests with it in short
// (LONG) leave something out then.
func TestNoGoroutine(t *testing.T) {
	for _, pkg := range listed(t, "ALONE") {
		for path, code := range sources(t, pkg) {
			for _, where := range goroutines(t, path, code) {
				t.Errorf("%s: take %s out of ALONE in the Makefile", where, pkg)
			}
			if sideBySide.Match(code) {
				t.Errorf("%s has a test named SideBySide, which runs nowhere, as %s is in ALONE", path, pkg)
			}
		}
	}
	together, err := os.ReadFile(filepath.Join("../..", lab, "beside/beside_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	beside := words(t, "LAB_BESIDE")
	for i, pkg := range beside {
		beside[i] = lab + "/" + pkg
		if !bytes.Contains(together, []byte(`"souk/`+beside[i]+`"`)) {
			t.Errorf("package beside does not play %s: the race detector looks at none of it", beside[i])
		}
	}
	side := listed(t, "SIDE")
	for _, pkg := range append(side, beside...) {
		tested := false
		for path, code := range sources(t, pkg) {
			if strings.HasSuffix(path, "_test.go") {
				tested = tested || sideBySide.Match(code)
				continue
			}
			for _, where := range goroutines(t, path, code) {
				if !strings.HasSuffix(where, " runs.Each") {
					t.Errorf("%s: take %s out of SIDE in the Makefile", where, pkg)
				}
			}
		}
		if alone := slices.Contains(side, pkg); tested != alone {
			t.Errorf("%s has a test named SideBySide: %v, want %v: that one alone runs with the race detector", pkg,
				tested, alone)
		}
	}
	for _, pkg := range listed(t, "LONG") {
		short := false
		for path, code := range sources(t, pkg) {
			is := strings.HasSuffix(path, "_test.go") && bytes.Contains(code, []byte("testing.Short()"))
			short = short || is
			if sideBySide.Match(code) {
				t.Errorf("%s has a test named SideBySide, which runs with the race detector alone", path)
			}
		}
		if !short {
			t.Errorf("%s leaves nothing out of its short tests: take it out of LONG in the Makefile", pkg)
		}
	}
	heavy := map[string]bool{}
	for _, name := range words(t, "HEAVY") {
		heavy["func "+name+"("] = false
	}
	for _, pkg := range listed(t, "HEAVY_IN") {
		has := false
		for _, code := range sources(t, pkg) {
			for name := range heavy {
				if bytes.Contains(code, []byte(name)) {
					heavy[name], has = true, true
				}
			}
		}
		if !has {
			t.Errorf("%s has none of the tests of HEAVY: take it out of HEAVY_IN in the Makefile", pkg)
		}
	}
	for name, has := range heavy {
		if !has {
			t.Errorf("%s...): no package of HEAVY_IN in the Makefile has such a test, so it runs nowhere", name)
		}
	}
	for code, want := range map[string]int{
		"go f()":                           1,
		"var g sync.WaitGroup; g.Go(f)":    1,
		"t.Parallel()":                     1,
		"synctest.Test(t, f)":              1,
		"runs.Each(ctx, 2, 0, nil, f)":     1,
		"f(); node.Step(now, m)":           0,
		"b.RunParallel(f)":                 1,
		"func() { go func() { f() }() }()": 1,
	} {
		if got := goroutines(t, "x.go", []byte("package p\nfunc x() { "+code+" }")); len(got) != want {
			t.Errorf("%s: %v", code, got)
		}
	}
}

var sideBySide = regexp.MustCompile(`(?m)^func Test\w*SideBySide\(`)

// listed are the packages of a list in the Makefile, and of the lab's list of that name.
func listed(t *testing.T, list string) (packages []string) {
	packages = words(t, list)
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(makefile), "\nLAB_"+list+" ") {
		for _, pkg := range words(t, "LAB_"+list) {
			packages = append(packages, lab+"/"+pkg)
		}
	}
	return packages
}

// words returns a list of the Makefile, word by word.
func words(t *testing.T, list string) (all []string) {
	t.Helper()
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^` + list + ` [:+]= (.+)$`)
	for _, line := range lines.FindAllSubmatch(makefile, -1) {
		all = append(all, strings.Fields(string(line[1]))...)
	}
	if len(all) == 0 {
		t.Fatalf("the Makefile has no list %s", list)
	}
	return all
}

// sources are a package's files, by path.
func sources(t *testing.T, pkg string) map[string][]byte {
	files, err := filepath.Glob(filepath.Join("..", "..", pkg, "*.go"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%s: %d files, %v", pkg, len(files), err)
	}
	out := map[string][]byte{}
	for _, path := range files {
		if out[path], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// goroutines says where code starts one, or has its tests run at once, and by what.
func goroutines(t *testing.T, path string, code []byte) (where []string) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, code, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		by := ""
		switch n := n.(type) {
		case *ast.GoStmt:
			by = "a go statement"
		case *ast.SelectorExpr:
			name := n.Sel.Name
			if on, ok := n.X.(*ast.Ident); ok && (on.Name == "synctest" || on.Name == "runs") {
				by = on.Name + "." + name
			} else if name == "Go" || name == "Parallel" || name == "RunParallel" {
				by = name
			}
		}
		if by != "" {
			where = append(where, files.Position(n.Pos()).String()+" starts goroutines by "+by)
		}
		return true
	})
	return where
}
