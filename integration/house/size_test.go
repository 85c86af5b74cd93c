package house

import (
	"bytes"
	"go/ast"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A house may grow no further but for what users ask for: whoever adds besides takes away as much.
const (
	mostProduct = 111_067
	mostHub     = 18_316
	mostRoot    = 1_398 // package hub itself, which wires its rooms
)

// size counts code: lines, those of comments and empty ones included, and statements.
type size struct{ files, lines, statements int }

// sizeOf counts a file. A block or a label counts by the statements in it alone.
func sizeOf(file *ast.File, text []byte) size {
	s := size{files: 1, lines: bytes.Count(text, []byte("\n"))}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.BlockStmt, *ast.LabeledStmt, *ast.EmptyStmt, *ast.CaseClause, *ast.CommClause:
		case ast.Stmt:
			s.statements++
		}
		return true
	})
	return s
}

func (s *size) add(t size) {
	s.files, s.lines, s.statements = s.files+t.files, s.lines+t.lines, s.statements+t.statements
}

// What people have to read of a market is counted without tests and without the lab, generated files and
// integration included; `make lint` shows it.
func TestSize(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	var product, hub, root, tests, measures size
	for _, s := range load(t) {
		text, err := os.ReadFile(filepath.Join("..", "..", s.path))
		if err != nil {
			t.Fatal(err)
		}
		of := &product
		switch {
		case s.test:
			of = &tests
		case strings.HasPrefix(s.path, lab+"/"):
			of = &measures
		case strings.HasPrefix(s.path, "hub/"):
			hub.add(sizeOf(s.file, text))
			if s.pkg == "hub" {
				root.add(sizeOf(s.file, text))
			}
		}
		of.add(sizeOf(s.file, text))
	}
	for _, row := range []struct {
		name  string
		of    size
		most  int // lines
		least int
	}{
		{"product, without tests and lab", product, mostProduct, 10_000}, {"of it hub and its parts", hub, mostHub, 1000},
		{"of these package hub itself", root, mostRoot, 500},
		{"lab", measures, 1 << 20, 1000}, {"tests of both", tests, 1 << 20, 10_000},
	} {
		t.Logf("%-31s %4d files %6d lines %6d statements", row.name, row.of.files, row.of.lines, row.of.statements)
		if row.of.lines > row.most || row.of.lines < row.least {
			t.Errorf("%s: %d lines, want %d to %d", row.name, row.of.lines, row.least, row.most)
		}
	}
	sample := "package p\n\n// f does it.\nfunc f() int {\n\tif x := 1; x > 0 {\n\t\treturn x\n\t}\n\tfor {\n\t}\n}\n"
	s, err := parse("hub/x.go", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	if got := sizeOf(s.file, []byte(sample)); got != (size{1, 10, 4}) {
		t.Errorf("the sample is counted as %+v", got)
	}
}

// What decides who begins where, and what a slot costs, fits in one's head.
func TestThePlanIsSmall(t *testing.T) {
	all := 0
	for _, s := range load(t) {
		if s.test || s.pkg != "hub/round" {
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", "..", s.path))
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.Count(text, []byte("\n"))
		if all += lines; lines > 300 {
			t.Errorf("%s: %d lines, want at most 300", s.path, lines)
		}
	}
	if all < 100 || all >= 1200 {
		t.Errorf("hub/round: %d lines, want 100 to 1199", all)
	}
}
