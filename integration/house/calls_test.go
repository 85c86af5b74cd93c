package house

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What calls what in a hub, as far as it can be read from its text: calls by an interface or a function's
// value lead nowhere, and a literal function's calls are those of the function that it stands in. These
// numbers only go down, to what is counted and a few more. A round is to reach 120 functions of package hub.
const (
	mostInCircle = 5   // files of package hub that call one another in a circle: no more than 8 may
	mostOfRound  = 605 // functions of this module's that a round reaches
	mostOwn      = 10  // of package hub's
)

// calls are the functions of packages that were read, with those that each calls.
type calls struct {
	fset  *token.FileSet
	std   types.Importer
	pkgs  map[string]*types.Package
	file  map[*types.Func]string
	calls map[*types.Func][]*types.Func
}

// readCalls reads a package of the module and all that it imports of it.
func readCalls(t *testing.T, pkg string) *calls {
	c := &calls{fset: token.NewFileSet(), std: importer.Default(), pkgs: map[string]*types.Package{},
		file: map[*types.Func]string{}, calls: map[*types.Func][]*types.Func{}}
	if _, err := c.std.Import("sync"); err != nil {
		t.Skipf("without the standard library's types, as under -trimpath, some calls cannot be read: %v", err)
	}
	if _, err := c.Import(module + pkg); err != nil {
		t.Fatal(err)
	}
	return c
}

// Import reads a package of the module from its text. Of others there is what a compiler has of them, if
// that is of the standard library.
func (c *calls) Import(path string) (*types.Package, error) {
	if p := c.pkgs[path]; p != nil {
		return p, nil
	}
	dir, ours := strings.CutPrefix(path, module)
	if !ours {
		p := types.NewPackage(path, path[strings.LastIndexByte(path, '/')+1:])
		if first, _, _ := strings.Cut(path, "/"); !strings.Contains(first, ".") {
			var err error
			if p, err = c.std.Import(path); err != nil {
				return nil, err
			}
		}
		p.MarkComplete()
		c.pkgs[path] = p
		return p, nil
	}
	names, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(dir), "*.go"))
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(c.fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return c.add(path, files)
}

// add reads a package's functions.
func (c *calls) add(path string, files []*ast.File) (*types.Package, error) {
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	check := types.Config{Importer: c, Error: func(error) {}} // of what is missing from other modules
	p, _ := check.Check(path, c.fset, files, info)
	c.pkgs[path] = p
	for _, file := range files {
		for _, d := range file.Decls {
			d, ok := d.(*ast.FuncDecl)
			if !ok || d.Body == nil {
				continue
			}
			f, ok := info.Defs[d.Name].(*types.Func)
			if !ok {
				continue
			}
			c.file[f] = filepath.Base(c.fset.Position(d.Pos()).Filename)
			ast.Inspect(d.Body, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					if g, ok := info.Uses[id].(*types.Func); ok {
						c.calls[f] = append(c.calls[f], g.Origin())
					}
				}
				return true
			})
		}
	}
	return p, nil
}

// reach returns the functions of the module that a function calls, and that these call.
func (c *calls) reach(from *types.Func) (all []*types.Func) {
	seen := map[*types.Func]bool{from: true}
	for next := []*types.Func{from}; len(next) > 0; next = next[1:] {
		for _, g := range c.calls[next[0]] {
			if c.file[g] != "" && !seen[g] {
				seen[g] = true
				all, next = append(all, g), append(next, g)
			}
		}
	}
	return all
}

// circle returns the most files of a package that call one another in a circle.
func (c *calls) circle(pkg string) (largest []string) {
	reaches := map[string]map[string]bool{}
	for f, file := range c.file {
		if f.Pkg().Path() != pkg {
			continue
		}
		if reaches[file] == nil {
			reaches[file] = map[string]bool{}
		}
		for _, g := range c.calls[f] {
			if g.Pkg() != nil && g.Pkg().Path() == pkg && c.file[g] != "" {
				reaches[file][c.file[g]] = true
			}
		}
	}
	for by := range reaches { // then whatever is reached by a file is reached at once
		for from := range reaches {
			if reaches[from][by] {
				maps.Copy(reaches[from], reaches[by])
			}
		}
	}
	for a := range reaches {
		var of []string
		for _, b := range slices.Sorted(maps.Keys(reaches)) {
			if a == b || reaches[a][b] && reaches[b][a] {
				of = append(of, b)
			}
		}
		if len(of) > len(largest) {
			largest = of
		}
	}
	return largest
}

func TestARoundFitsInOnesHead(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	c := readCalls(t, "hub")
	if files := c.circle(module + "hub"); len(files) > mostInCircle {
		t.Errorf("%d files of package hub call one another in a circle, at most %d may: %s", len(files),
			mostInCircle, strings.Join(files, ", "))
	}
	hub := c.pkgs[module+"hub"]
	rounds := hub.Scope().Lookup("rounds").Type()
	clears, _, _ := types.LookupFieldOrMethod(rounds, false, hub, "clear")
	of := map[string]int{}
	all := c.reach(clears.(*types.Func))
	for _, f := range all {
		of[strings.TrimPrefix(f.Pkg().Path(), module)]++
	}
	t.Logf("a round reaches %d functions: %v", len(all), of)
	if own := of["hub"]; own > mostOwn || own < 5 {
		t.Errorf("a round reaches %d functions of package hub, want 5 to %d", own, mostOwn)
	}
	if len(all) > mostOfRound || len(all) < 50 {
		t.Errorf("a round reaches %d functions of this module's, want 50 to %d", len(all), mostOfRound)
	}
}

// What is no more than a word that stands in a text is not called; a method of what is embedded is, and so is
// what a literal function calls.
func TestCallsAreRead(t *testing.T) {
	c := &calls{fset: token.NewFileSet(), std: importer.Default(), pkgs: map[string]*types.Package{},
		file: map[*types.Func]string{}, calls: map[*types.Func][]*types.Func{}}
	var files []*ast.File
	for name, text := range map[string]string{
		"a.go": "package p\nimport \"slices\"\ntype T struct{ in }\n" +
			"func (t *T) A() { t.b(); slices.Sort(t.list) }",
		"b.go": "package p\ntype in struct{ list []int }\nfunc (x in) b() { f := func() { c[int]() }; f() }",
		"c.go": "package p\nfunc c[X any]() { (&T{}).A() }\nfunc alone() { c[string]() }",
		"d.go": "package p\nfunc d() { var b, alone int; _, _ = b, alone; c[int]() }",
	} {
		f, err := parser.ParseFile(c.fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	p, err := c.add("p", files)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(c.circle("p"), " "); got != "a.go b.go c.go" {
		t.Errorf("in a circle are %q", got)
	}
	for name, want := range map[string]int{"d": 3, "alone": 3} {
		if got := c.reach(p.Scope().Lookup(name).(*types.Func)); len(got) != want {
			t.Errorf("%s reaches %v", name, got)
		}
	}
}
