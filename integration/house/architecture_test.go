package house

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "correct the line numbers of ARCHITECTURE's links, and end lines of prose")

// link is a function named in ARCHITECTURE: [package.Type.Method](path/file.go#L12), or
// [package.Function](...).
var link = regexp.MustCompile(`\[([a-z]+(?:\.[A-Za-z]+)+)\]\(([A-Za-z_/]+\.go)#L([0-9]+)\)`)

// The way of a task is a list of functions. Each link points at the line where its function is declared.
func TestArchitectureLinks(t *testing.T) {
	const page = "../../ARCHITECTURE.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	fixed := link.ReplaceAllStringFunc(string(text), func(s string) string {
		found++
		m := link.FindStringSubmatch(s)
		line, err := declared(filepath.Join("..", "..", m[2]), m[1])
		if err != nil {
			t.Errorf("%s: %v", s, err)
			return s
		}
		if got := fmt.Sprint(line); got != m[3] {
			if !*update {
				t.Errorf("%s: it is in line %s; go test ./integration/house -run ArchitectureLinks -update "+
					"corrects all", s, got)
			}
			return fmt.Sprintf("[%s](%s#L%s)", m[1], m[2], got)
		}
		return s
	})
	if found < 20 {
		t.Errorf("%d links to functions: the way of a task has more", found)
	}
	if *update {
		if err := os.WriteFile(page, []byte(fixed), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Files and tests that ARCHITECTURE names are there: `hub/round/{kept,toll}.go` is two files.
func TestArchitectureNamesWhatIsThere(t *testing.T) {
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	err = filepath.WalkDir("../..", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		code, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(code, -1) {
			tests[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	names := 0
	for _, m := range regexp.MustCompile("`((?:Test|Fuzz|Benchmark)\\w+)`").FindAllSubmatch(text, -1) {
		if names++; !tests[string(m[1])] {
			t.Errorf("it names %s, and there is no such test", m[1])
		}
	}
	for _, m := range regexp.MustCompile("`([a-z/]+/[a-z_/{},]+\\.go)`").FindAllSubmatch(text, -1) {
		for _, file := range drawnPackages("    " + string(m[1])) {
			if _, err := os.Stat(filepath.Join("../..", file)); err != nil {
				t.Errorf("it names %s: %v", file, err)
			}
			names++
		}
	}
	if names < 100 {
		t.Errorf("it names %d files and tests: there are more", names)
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

// ARCHITECTURE draws the floors as the floors' test has them, each below those above, and its table of rooms
// names every package but commands, which README and deploy/README show, and packages within one of them.
func TestArchitectureDrawsTheFloors(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n## Floors\n")
	drawn, rest, _ := strings.Cut(rest, "\n## Rooms\n")
	rooms, _, _ := strings.Cut(rest, "\n## ")
	for _, complaint := range misdrawn(floors, drawnPackages(drawn)) {
		t.Error(complaint)
	}
	files := load(t)
	for _, pkg := range roomless(files, rooms) {
		t.Errorf("package %s has no row in ARCHITECTURE's table of rooms", pkg)
	}
	for _, pkg := range gone(files, rooms) {
		t.Errorf("ARCHITECTURE's table of rooms has a row of %s, and there is no such package", pkg)
	}
}

func TestArchitectureDrawsTheFloorsComplains(t *testing.T) {
	house := []floor{{packages: []string{"cmd/..."}}, {packages: []string{"hub", "agentd"}},
		{packages: []string{"bus/x", "bus/y"}}}
	for drawn, want := range map[string]string{
		"\n    cmd/*           flags\n    hub  agentd     machines, hub first\n    bus/{x,y}\n":  "",
		"\n    cmd/*           flags\n    hub             machines\n    bus/{x,y}\n":             "agentd is not drawn",
		"\n    cmd/*           flags\n    hub  bus/x      machines\n    agentd  bus/y\n":         "agentd is drawn below bus/x",
		"\n    cmd/*           flags\n    hub  agentd  z  machines\n    bus/{x,y}\n":             "z is drawn and stands on no floor",
		"\n    {hub,agentd}/serve  cmd/*\n    hub  agentd     machines\n    bus/{x,y}   flags\n": "hub/serve is drawn and stands on no floor",
	} {
		if got := strings.Join(misdrawn(house, drawnPackages(drawn)), "\n"); !strings.Contains(got, want) ||
			want == "" && got != "" {
			t.Errorf("%s\ngot %q, want %q", drawn, got, want)
		}
	}
	s, err := parse("hub/x.go", []byte("package hub"))
	if err != nil {
		t.Fatal(err)
	}
	if got := roomless([]*source{s}, "| `bus` | of the `hub` |"); len(got) != 1 || got[0] != "hub" {
		t.Errorf("without a row: %v", got)
	}
	if got := gone([]*source{s}, "| `hub` `bus` | of the `ledger` |"); len(got) != 1 || got[0] != "bus" {
		t.Errorf("of no package: %v", got)
	}
}

// drawnPackages are the packages in the left column of a drawing, from the top down: {a,b}/c is a/c and b/c.
func drawnPackages(drawing string) (all []string) {
	for line := range strings.Lines(drawing) {
		if !strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "     ") {
			continue
		}
		left, _, _ := strings.Cut(strings.TrimSpace(line), "   ")
		for _, name := range strings.Fields(left) {
			before, rest, several := strings.Cut(name, "{")
			within, after, _ := strings.Cut(rest, "}")
			if !several {
				all = append(all, name)
				continue
			}
			for _, one := range strings.Split(within, ",") {
				all = append(all, before+one+after)
			}
		}
	}
	return all
}

// misdrawn complains of packages that are missing in a drawing, in too high a place, or on no floor.
func misdrawn(house []floor, drawn []string) (complaints []string) {
	place := map[string]int{}
	for i, pkg := range drawn {
		place[strings.Replace(pkg, "/*", "/...", 1)] = i
	}
	lowest, below, known := -1, "", map[string]bool{}
	for _, f := range house {
		next, name := lowest, below
		for _, pkg := range f.packages {
			known[pkg] = true
			at, ok := place[pkg]
			switch {
			case !ok:
				complaints = append(complaints, pkg+" is not drawn")
			case at > next:
				next, name = at, pkg
			}
			if ok && at < lowest {
				complaints = append(complaints, fmt.Sprintf("%s is drawn below %s", below, pkg))
			}
		}
		lowest, below = next, name
	}
	for pkg := range place {
		if !known[pkg] {
			complaints = append(complaints, pkg+" is drawn and stands on no floor")
		}
	}
	return complaints
}

// rowsOf are the packages that rows of a table begin with.
func rowsOf(rooms string) map[string]bool {
	named := map[string]bool{}
	for line := range strings.Lines(rooms) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, name := range regexp.MustCompile("`([a-z/]+)`").FindAllStringSubmatch(cells[1], -1) {
				named[name[1]] = true
			}
		}
	}
	return named
}

// gone are the packages that rows of a table begin with, and that there are none of.
func gone(files []*source, rooms string) (all []string) {
	for pkg := range rowsOf(rooms) {
		if !slices.ContainsFunc(files, func(s *source) bool { return s.pkg == pkg }) {
			all = append(all, pkg)
		}
	}
	return all
}

// roomless are the packages that no row of a table begins with; of cmd and integration, that are not within
// one that has a row either.
func roomless(files []*source, rooms string) (all []string) {
	named := rowsOf(rooms)
	seen := map[string]bool{}
	for _, s := range files {
		if seen[s.pkg] || s.file.Name.Name == "main" {
			continue
		}
		seen[s.pkg] = true
		within := named[s.pkg]
		folders := under(s.pkg, []string{"cmd/...", "integration/..."})
		for pkg := s.pkg; folders && path.Dir(pkg) != "."; pkg = path.Dir(pkg) {
			within = within || named[pkg]
		}
		if !within {
			all = append(all, s.pkg)
		}
	}
	return all
}

// A test that passes whatever a link says would keep nothing.
func TestArchitectureLinksComplain(t *testing.T) {
	for name, file := range map[string]string{
		"house.TestArchitectureLinks": "architecture_test.go",
	} {
		if line, err := declared(file, name); err != nil || line < 20 {
			t.Errorf("%s: line %d, %v", name, line, err)
		}
	}
	for name, file := range map[string]string{
		"house.NoSuchFunction":             "architecture_test.go",
		"hub.TestArchitectureLinks":        "architecture_test.go",
		"house.Type.TestArchitectureLinks": "architecture_test.go",
		"house.Gone":                       "no_such_file.go",
	} {
		if _, err := declared(file, name); err == nil {
			t.Errorf("%s in %s: no complaint", name, file)
		}
	}
}
