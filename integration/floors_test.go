// Package integration holds what concerns the house as a whole: its floors, and scenarios with every
// part in them.
package integration

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "souk/"

// floors lists the packages from the top floor down. A package may import only packages of the floors
// below its own; on one floor nobody imports a neighbour, unless the floor says so.
var floors = []floor{
	{name: "cmd and integration", packages: []string{"cmd/...", "integration/..."}, neighbours: true},
	{name: "who reads journals", packages: []string{"ledger/inspect"}},
	{name: "drivers", packages: []string{"bus/natsbus", "bus/etcdreg", "bus/membus", "bus/embedded", "bus/openai", "agentd/vllm", "ledger/journal"}},
	{name: "what drivers and shells share", packages: []string{"bus/rawconn"}},
	{name: "shells", packages: []string{"classifier/serve", "ledger/treasury/serve"}},
	{name: "what shells share", packages: []string{"bus/follow"}},
	{name: "the processes and the client", packages: []string{"hub", "classifier", "classifier/train", "agentd", "ledger/treasury", "bus/client"}},
	{name: "the reader, which the client and the door run", packages: []string{"bus/reader"}},
	{name: "parts of a process", packages: []string{"hub/batch", "hub/prefix", "hub/predict", "hub/regime", "hub/policy", "agentd/policy/...", "classifier/model"}},
	{name: "the language", packages: []string{"bus/policy"}},
	{name: "the language", packages: []string{"bus"}},
	{name: "the ledger", packages: []string{"ledger"}},
	{name: "the mechanism", packages: []string{"market"}},
	{name: "leaves on plain integers", packages: []string{"market/flow", "market/certify"}},
}

// testing only: packages that tests of any floor may import, and that may import what they test.
var forTests = []string{"bus/bustest"}

type floor struct {
	name       string
	packages   []string // "x/..." is x and all below it
	neighbours bool     // packages of the floor may import one another
}

// impure are the files outside drivers and cmd that may do I/O, read a clock, start a goroutine or log.
var impure = []string{"server.go", "file.go", "metrics.go"}

// impureToo are single files with the same right.
var impureToo = []string{"bus/client/client.go", "bus/client/stream.go"}

// spotless are packages without any such file.
var spotless = []string{"market", "market/flow", "market/certify", "ledger", "bus/reader"}

// owners says who alone may import a module, beside tests.
var owners = map[string][]string{
	"github.com/nats-io/nats-server": {"bus/embedded"},
	"go.etcd.io/etcd/server":         {"bus/embedded", "ledger/journal"},
	"github.com/nats-io/nats.go":     {"bus/natsbus", "bus/embedded", "integration/bench/floor"},
	"go.etcd.io/etcd/client":         {"bus/etcdreg", "bus/embedded", "ledger/journal"},
	"github.com/vmihailenco/msgpack": {"bus"},
	"souk/bus/rawconn":               {"bus/natsbus", "agentd/vllm"},
	"gonum.org/v1/plot":              {"integration/economics"},
}

// effects are calls that only impure files may make: of a package, by import path, which functions. An
// empty list forbids the whole package.
var effects = map[string][]string{
	"time":          {"Now", "Since", "Until", "Sleep", "After", "NewTimer", "NewTicker", "AfterFunc", "Tick"},
	"os":            nil,
	"os/exec":       nil,
	"os/signal":     nil,
	"net":           nil,
	"net/http":      nil,
	"log":           nil,
	"log/slog":      nil,
	"syscall":       nil,
	"crypto/rand":   nil,
	"path/filepath": {"Walk", "WalkDir", "Glob", "EvalSymlinks", "Abs"},
	"math/rand":     {"Int", "Intn", "Int31", "Int31n", "Int63", "Int63n", "Uint32", "Uint64", "Float32", "Float64", "ExpFloat64", "NormFloat64", "Perm", "Shuffle", "Read", "Seed"},
	"math/rand/v2":  {"Int", "IntN", "Int32", "Int32N", "Int64", "Int64N", "Uint", "UintN", "Uint32", "Uint32N", "Uint64", "Uint64N", "N", "Float32", "Float64", "ExpFloat64", "NormFloat64", "Perm", "Shuffle"},
	"fmt":           {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
}

// source is one file of the module.
type source struct {
	path  string // "hub/node.go"
	pkg   string // "hub"
	test  bool
	file  *ast.File
	fset  *token.FileSet
	names map[string]string // import path by the name that it has in the file
}

func (s *source) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", s.path, s.fset.Position(n.Pos()).Line)
}

func TestFloors(t *testing.T) {
	files := load(t, "..")
	if len(files) < 20 {
		t.Fatalf("only %d Go files found: is this the module?", len(files))
	}
	for _, s := range files {
		for _, complaint := range slices.Concat(importsDown(s), importsOwned(s), pure(s), decodesOnce(s)) {
			t.Error(complaint)
		}
	}
}

// A rule that never complains would keep nothing: each must name file, line and rule.
func TestFloorsComplain(t *testing.T) {
	for _, test := range []struct{ path, text, want string }{
		{"hub/x.go", "package hub\nimport _ \"souk/agentd\"", "hub/x.go:2: hub may not import souk/agentd"},
		{"hub/x.go", "package hub\nimport _ \"souk/bus/natsbus\"", "hub/x.go:2: hub may not import souk/bus/natsbus"},
		{"hub/batch/x.go", "package batch\nimport _ \"souk/hub\"", "hub/batch/x.go:2: hub/batch may not import souk/hub"},
		{"market/x.go", "package market\nimport _ \"souk/bus\"", "market/x.go:2: market may not import souk/bus"},
		{"market/flow/x.go", "package flow\nimport _ \"souk/market\"", "market/flow/x.go:2: market/flow may not import souk/market"},
		{"market/certify/x.go", "package certify\nimport _ \"souk/market/flow\"", "market/certify/x.go:2: market/certify may not import souk/market/flow"},
		{"bus/membus/x.go", "package membus\nimport _ \"souk/bus/natsbus\"", "bus/membus/x.go:2: bus/membus may not import souk/bus/natsbus"},
		{"hub/x.go", "package hub\nimport _ \"souk/bus/bustest\"", "it is for tests"},
		{"kitchen/x.go", "package kitchen", "stands on no floor"},
		{"hub/server.go", "package hub\nimport _ \"github.com/nats-io/nats-server/v2/server\"", "hub/server.go:2: only bus/embedded may import"},
		{"hub/server.go", "package hub\nimport _ \"souk/bus/rawconn\"", "hub/server.go:2: only bus/natsbus and agentd/vllm may import"},
		{"ledger/x.go", "package ledger\nimport _ \"go.etcd.io/etcd/server/v3/storage/wal\"", "ledger/x.go:2: only bus/embedded and ledger/journal may import"},
		{"hub/x.go", "package hub\nimport \"time\"\nvar t = time.Now()", "hub/x.go:3: uses time.Now"},
		{"hub/x.go", "package hub\nimport clock \"time\"\nvar t = clock.Now()", "hub/x.go:3: uses clock.Now"},
		{"bus/x.go", "package bus\nfunc f() { go f() }", "bus/x.go:2: starts a goroutine"},
		{"bus/x.go", "package bus\nimport \"os\"\nvar _, _ = os.ReadFile(\"x\")", "bus/x.go:3: uses os.ReadFile"},
		{"bus/x.go", "package bus\nimport \"log/slog\"\nfunc f() { slog.Info(\"x\") }", "bus/x.go:3: uses slog.Info"},
		{"bus/x.go", "package bus\nimport \"math/rand/v2\"\nvar n = rand.IntN(3)", "bus/x.go:3: uses rand.IntN"},
		{"market/server.go", "package market", "market has no server.go"},
		{"bus/reader/server.go", "package reader", "bus/reader has no server.go"},
		{"bus/reader/x.go", "package reader\nimport _ \"souk/bus/client\"", "bus/reader/x.go:2: bus/reader may not import souk/bus/client"},
		{"bus/reader/x.go", "package reader\nimport \"time\"\nvar t = time.Now()", "bus/reader/x.go:3: uses time.Now"},
		{"ledger/file.go", "package ledger", "ledger has no file.go"},
		{"bus/x.go", "package bus\nimport \"github.com/vmihailenco/msgpack/v5\"\nvar f = msgpack.Unmarshal", "bus/x.go:3: uses msgpack.Unmarshal"},
	} {
		s, err := parse(test.path, []byte(test.text))
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(slices.Concat(importsDown(s), importsOwned(s), pure(s), decodesOnce(s)), "\n")
		if !strings.Contains(got, test.want) {
			t.Errorf("%s:\n%s\ngot %q, want %q", test.path, test.text, got, test.want)
		}
	}
	for path, text := range map[string]string{
		"hub/server.go":            "package hub\nimport \"time\"\nvar t = time.Now()\nfunc f() { go f() }",
		"bus/client/client.go":     "package client\nfunc f() { go f() }",
		"bus/natsbus/x.go":         "package natsbus\nimport _ \"github.com/nats-io/nats.go\"\nfunc f() { go f() }",
		"hub/x.go":                 "package hub\nimport (\n\"time\"\n_ \"souk/hub/batch\"\n_ \"souk/ledger\")\nvar d = time.Second",
		"market/certify_x.go":      "package market\nimport _ \"souk/market/certify\"",
		"bus/x.go":                 "package bus\nimport \"math/rand/v2\"\nvar r = rand.New(rand.NewPCG(1, 2))",
		"integration/vllmsim/x.go": "package vllmsim\nimport _ \"souk/integration/replay\"",
	} {
		s, err := parse(path, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Concat(importsDown(s), importsOwned(s), pure(s), decodesOnce(s)); got != nil {
			t.Errorf("%s:\n%s\ngot %q, want no complaint", path, text, got)
		}
	}
}

// load reads all Go files below a directory.
func load(t *testing.T, root string) []*source {
	var out []*source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != root && (name == "testdata" || name == "vendor" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		s, err := parse(filepath.ToSlash(rel), text)
		if err == nil && s != nil {
			out = append(out, s)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// parse reads one file; nil for what is not part of the program.
func parse(path string, text []byte) (*source, error) {
	if !strings.Contains(path, "/") || bytes.Contains(text[:bytes.Index(text, []byte("package "))+1], []byte("//go:build ignore")) {
		return nil, nil // dependency pins, and programs that only generate
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	s := &source{path: path, pkg: path[:strings.LastIndexByte(path, '/')], test: strings.HasSuffix(path, "_test.go"), file: file, fset: fset, names: map[string]string{}}
	for _, spec := range file.Imports {
		imported := importPath(spec)
		name := imported[strings.LastIndexByte(imported, '/')+1:]
		if len(name) > 1 && name[0] == 'v' && strings.Trim(name[1:], "0123456789") == "" { // .../rand/v2
			rest := imported[:strings.LastIndexByte(imported, '/')]
			name = rest[strings.LastIndexByte(rest, '/')+1:]
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		s.names[name] = imported
	}
	return s, nil
}

func importPath(spec *ast.ImportSpec) string {
	path, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		panic("floors: the parser let an import path pass that is no string")
	}
	return path
}

// under reports whether a package is one of a list.
func under(pkg string, list []string) bool {
	return slices.ContainsFunc(list, func(p string) bool {
		if root, ok := strings.CutSuffix(p, "/..."); ok {
			return pkg == root || strings.HasPrefix(pkg, root+"/")
		}
		return pkg == p
	})
}

// level is the index of a package's floor: the most particular entry counts. -1 if it has none.
func level(pkg string) int {
	found, longest := -1, -1
	for i, f := range floors {
		for _, p := range f.packages {
			if under(pkg, []string{p}) && len(p) > longest {
				found, longest = i, len(p)
			}
		}
	}
	return found
}

// importsDown checks that a file imports only what is below its package.
func importsDown(s *source) (complaints []string) {
	from := level(s.pkg)
	if from < 0 && !slices.Contains(forTests, s.pkg) {
		return []string{fmt.Sprintf("%s: package %s stands on no floor: give it one in integration/floors_test.go", s.path, s.pkg)}
	}
	if s.test || slices.Contains(forTests, s.pkg) {
		return nil // tests may use real components of any floor
	}
	for _, spec := range s.file.Imports {
		imported, ours := strings.CutPrefix(importPath(spec), module)
		if !ours || imported == s.pkg {
			continue
		}
		to := level(imported)
		switch {
		case slices.Contains(forTests, imported):
			complaints = append(complaints, fmt.Sprintf("%s: %s may not import %s%s: it is for tests", s.at(spec), s.pkg, module, imported))
		case to > from, to == from && floors[from].neighbours:
		case to == from && parent(s.pkg, imported): // a package and its own part, as classifier and classifier/x
		default:
			complaints = append(complaints, fmt.Sprintf("%s: %s may not import %s%s: %s may import only what is below", s.at(spec), s.pkg, module, imported, floors[from].name))
		}
	}
	return complaints
}

// parent reports whether b lies within a.
func parent(a, b string) bool { return strings.HasPrefix(b, a+"/") }

// lab is what each command may link of integration, packages within them included; a command that is not listed: nothing.
var lab = map[string][]string{
	"cmd/lab":  {"integration/..."},
	"cmd/souk": {"integration/vllmsim/...", "integration/replay/...", "integration/load/..."},
}

// Who runs a market links nothing that only measures one; and nobody needs a command for a package that he could have below it.
func TestCommandsLinkTheirOwn(t *testing.T) {
	for _, complaint := range linked(load(t, "..")) {
		t.Error(complaint)
	}
}

func TestCommandsLinkTheirOwnComplains(t *testing.T) {
	var files []*source
	for path, text := range map[string]string{
		"cmd/souk/x.go":              "package main\nimport _ \"souk/cmd/local\"\nimport _ \"souk/integration/load\"",
		"cmd/local/x.go":             "package local\nimport _ \"souk/integration/vllmsim\"",
		"integration/load/x.go":      "package load\nimport _ \"souk/integration/load/proc\"\nimport _ \"souk/integration/economics\"",
		"integration/load/proc/x.go": "package proc",
		"integration/fleet/x.go":     "package fleet\nimport _ \"souk/cmd/ledger/cli\"\nimport _ \"souk/cmd/local\"",
		"cmd/hub/x.go":               "package main\nimport _ \"souk/integration/replay\"",
		"cmd/lab/x.go":               "package main\nimport _ \"souk/integration/fleet\"",
	} {
		s, err := parse(path, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, s)
	}
	got := strings.Join(linked(files), "\n")
	want := strings.Join([]string{
		"cmd/hub links souk/integration/replay, which is none of its own",
		"cmd/souk links souk/integration/economics, which is none of its own",
		"integration/fleet imports souk/cmd/ledger/cli: integration may import souk/cmd/local of cmd alone",
	}, "\n")
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// linked complains of packages of integration that a command's imports reach, and of commands' packages that integration imports.
func linked(files []*source) (complaints []string) {
	imports, commands := map[string][]string{}, map[string]bool{}
	for _, s := range files {
		if s.test {
			continue
		}
		if s.file.Name.Name == "main" && strings.HasPrefix(s.pkg, "cmd/") {
			commands[s.pkg] = true
		}
		for _, spec := range s.file.Imports {
			imported, ours := strings.CutPrefix(importPath(spec), module)
			if !ours {
				continue
			}
			imports[s.pkg] = append(imports[s.pkg], imported)
			if under(s.pkg, []string{"integration/..."}) && strings.HasPrefix(imported, "cmd/") && imported != "cmd/local" {
				complaints = append(complaints, fmt.Sprintf("%s imports %s%s: integration may import %scmd/local of cmd alone", s.pkg, module, imported, module))
			}
		}
	}
	for command := range commands {
		reached := map[string]bool{}
		for todo := []string{command}; len(todo) > 0; {
			pkg := todo[0]
			todo = todo[1:]
			if !reached[pkg] {
				reached[pkg] = true
				todo = append(todo, imports[pkg]...)
			}
		}
		for pkg := range reached {
			if strings.HasPrefix(pkg, "integration/") && !under(pkg, lab[command]) {
				complaints = append(complaints, fmt.Sprintf("%s links %s%s, which is none of its own", command, module, pkg))
			}
		}
	}
	slices.Sort(complaints)
	return complaints
}

// importsOwned checks that modules with one owner are imported by nobody else.
func importsOwned(s *source) (complaints []string) {
	if s.test {
		return nil
	}
	for _, spec := range s.file.Imports {
		for _, owned := range slices.Sorted(keysOf(owners)) {
			imported := importPath(spec)
			if (imported == owned || strings.HasPrefix(imported, owned+"/")) && !slices.Contains(owners[owned], s.pkg) {
				complaints = append(complaints, fmt.Sprintf("%s: only %s may import %s", s.at(spec), strings.Join(owners[owned], " and "), owned))
			}
		}
	}
	return complaints
}

func keysOf[V any](m map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// pure checks that a file does no I/O, reads no clock, starts no goroutine and does not log, unless its
// name or its floor says that it may.
func pure(s *source) (complaints []string) {
	name := s.path[strings.LastIndexByte(s.path, '/')+1:]
	switch {
	case s.test, level(s.pkg) <= 5: // cmd, integration, who reads journals, drivers and what they share, and what is only for tests
		return nil
	case slices.Contains(spotless, s.pkg):
		if slices.Contains(impure, name) {
			return []string{fmt.Sprintf("%s: %s has no %s: it is values in, values out throughout", s.path, s.pkg, name)}
		}
	case slices.Contains(impure, name), slices.Contains(impureToo, s.path):
		return nil
	}
	hint := fmt.Sprintf("only %s may; take it as an argument", strings.Join(impure, ", "))
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			complaints = append(complaints, fmt.Sprintf("%s: starts a goroutine: %s", s.at(n), hint))
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if !ok {
				break
			}
			functions, known := effects[s.names[x.Name]]
			if known && (functions == nil && ast.IsExported(n.Sel.Name) && !harmless(s.names[x.Name], n.Sel.Name) || slices.Contains(functions, n.Sel.Name)) {
				complaints = append(complaints, fmt.Sprintf("%s: uses %s.%s: %s", s.at(n), x.Name, n.Sel.Name, hint))
			}
		}
		return true
	})
	return complaints
}

// harmless are names of forbidden packages that do nothing: types and errors.
func harmless(pkg, name string) bool {
	switch pkg {
	case "log/slog":
		return name == "Logger" || name == "Attr" || name == "Value" || name == "LogValuer"
	case "os":
		return strings.HasPrefix(name, "Err")
	case "net":
		return strings.HasPrefix(name, "Err") || name == "SplitHostPort" || name == "JoinHostPort" || name == "ParseIP"
	case "net/http":
		return strings.HasPrefix(name, "Status")
	}
	return false
}

// decodesOnce checks that messages are decoded by bus/codec.go alone, behind the check for hostile bytes.
func decodesOnce(s *source) (complaints []string) {
	if s.test || s.path == "bus/codec.go" {
		return nil
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && strings.HasPrefix(s.names[x.Name], "github.com/vmihailenco/msgpack") {
			switch sel.Sel.Name {
			case "Unmarshal", "NewDecoder", "GetDecoder", "Decoder", "RawMessage":
				complaints = append(complaints, fmt.Sprintf("%s: uses msgpack.%s: only bus/codec.go may decode; call bus.Decode", s.at(sel), sel.Sel.Name))
			}
		}
		return true
	})
	return complaints
}
