package integration

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var updateLinks = flag.Bool("update", false, "correct the line numbers of ARCHITECTURE's links")

// link is a function named in ARCHITECTURE: [package.Type.Method](path/file.go#L12), or
// [package.Function](...).
var link = regexp.MustCompile(`\[([a-z]+(?:\.[A-Za-z]+)+)\]\(([A-Za-z_/]+\.go)#L([0-9]+)\)`)

// The way of a task is a list of functions. Each link points at the line where its function is declared.
func TestArchitectureLinks(t *testing.T) {
	const page = "../ARCHITECTURE.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	fixed := link.ReplaceAllStringFunc(string(text), func(s string) string {
		found++
		m := link.FindStringSubmatch(s)
		line, err := declared(filepath.Join("..", m[2]), m[1])
		if err != nil {
			t.Errorf("%s: %v", s, err)
			return s
		}
		if got := fmt.Sprint(line); got != m[3] {
			if !*updateLinks {
				t.Errorf("%s: it is in line %s; go test ./integration -run ArchitectureLinks -update "+
					"corrects all", s, got)
			}
			return fmt.Sprintf("[%s](%s#L%s)", m[1], m[2], got)
		}
		return s
	})
	if found < 20 {
		t.Errorf("%d links to functions: the way of a task has more", found)
	}
	if *updateLinks {
		if err := os.WriteFile(page, []byte(fixed), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// declared is the line of a function's declaration in a file of the package that its name begins with.
func declared(path, name string) (int, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return 0, err
	}
	parts := strings.Split(name, ".")
	if f.Name.Name != parts[0] {
		return 0, fmt.Errorf("the file is of package %s", f.Name.Name)
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Name.Name != parts[len(parts)-1] {
			continue
		}
		receiver := ""
		if fn.Recv != nil {
			receiver = strings.Trim(receiverName(fn.Recv.List[0].Type), "*")
		}
		if len(parts) == 2 && receiver == "" || len(parts) == 3 && receiver == parts[1] {
			return fset.Position(fn.Pos()).Line, nil
		}
	}
	return 0, fmt.Errorf("there is no such function")
}

func receiverName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiverName(x.X)
	case *ast.IndexExpr:
		return receiverName(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// A test that passes whatever a link says would keep nothing.
func TestArchitectureLinksComplain(t *testing.T) {
	for name, path := range map[string]string{
		"integration.TestArchitectureLinks": "architecture_test.go",
	} {
		if line, err := declared(path, name); err != nil || line < 20 {
			t.Errorf("%s: line %d, %v", name, line, err)
		}
	}
	for name, path := range map[string]string{
		"integration.NoSuchFunction":             "architecture_test.go",
		"hub.TestArchitectureLinks":              "architecture_test.go",
		"integration.Type.TestArchitectureLinks": "architecture_test.go",
		"integration.Gone":                       "no_such_file.go",
	} {
		if _, err := declared(path, name); err == nil {
			t.Errorf("%s in %s: no complaint", name, path)
		}
	}
}
