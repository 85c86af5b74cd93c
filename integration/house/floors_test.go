// Package integration holds what concerns the house as a whole: its floors, and scenarios with every
// part in them.
package house

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
	"sync"
	"testing"
)

const module = "souk/"

// lab is the folder of the module that measures markets.
const lab = "integration/lab"

// floors lists the packages from the top floor down. A package may import only packages of the floors below
// its own; on one floor nobody imports a neighbour, unless the floor says so. The packages of a pure floor
// are values in, values out: time and randomness are arguments, and whatever waits, locks, sends, writes or
// logs is in the shell that runs them.
var floors = []floor{
	{name: "cmd and integration", packages: []string{"cmd/...", "integration/..."}, neighbours: true},
	{name: "who reads journals", packages: []string{"ledger/inspect"}},
	{name: "the gateway, which runs the client", packages: []string{"bus/gateway"}},
	{name: "the stand-in engine", packages: []string{"agentd/vllmsim"}},
	{name: "drivers and shells", packages: []string{
		"bus/natsbus", "bus/etcdreg", "bus/membus", "bus/embedded", "agentd/vllm", "agentd/vllm/zmtp",
		"ledger/journal",
		"hub/serve", "agentd/serve", "classifier/serve", "ledger/treasury/serve", "bus/client",
	}},
	{name: "what drivers share, and shells", packages: []string{
		"bus/rawconn", "bus/follow", "bus/etcdlog", "bus/natsauth",
		"bus/life", "bus/sight", "ledger/witness/serve",
	}},
	{name: "what an operator sees", packages: []string{"bus/metrics"}},
	{name: "how files are opened; a connection that tests cut", packages: []string{"bus/regular",
		"bus/bustest/proxy"}},
	{name: "the machines", packages: []string{
		"hub", "classifier", "agentd", "ledger/treasury", "ledger/witness",
	}, pure: true},
	{name: "the reader, which the client and the door run", packages: []string{"bus/reader"}, pure: true},
	{name: "where a hub's tasks meet its agents", packages: []string{"hub/meeting"}, pure: true},
	{name: "what an engine holds, by its events", packages: []string{"agentd/holdings"}, pure: true},
	{name: "what a hub is told, and what it counts", packages: []string{"hub/config", "hub/report"}, pure: true},
	{name: "hosts of policies, and policies", packages: []string{"hub/policy", "agentd/policy"}, pure: true},
	{name: "what policies learn, and look for", packages: []string{
		"hub/policy/kvcache", "hub/policy/ahead", "hub/policy/fair", "hub/policy/pd", "hub/regime/router",
		"agentd/policy/guard", "agentd/policy/adapter",
	}, pure: true},
	{name: "rooms of a hub that record and speak", packages: []string{
		"hub/account", "hub/admission", "hub/fleet", "hub/prewarm", "hub/queue", "hub/regime",
		"hub/settle", "hub/status", "hub/tariff",
	}, pure: true},
	{name: "what the rooms of a hub share", packages: []string{"hub/turn"}, pure: true},
	{name: "a room of a hub that is made of parts", packages: []string{"hub/forecast"}, pure: true},
	{name: "parts of a machine", packages: []string{
		"hub/round", "hub/prefix", "hub/predict", "hub/predict/tree", "hub/quality",
		"agentd/kvevent", "agentd/vllmsim/sched", "classifier/model",
	}, pure: true},
	{name: "values that rooms of a hub hand to one another", packages: []string{"hub/estimate"}, pure: true},
	{name: "bodies of requests, and what a policy sees", packages: []string{"bus/openai", "bus/policy"},
		pure: true},
	{name: "the language", packages: []string{"bus"}, pure: true},
	{name: "the ledger", packages: []string{"ledger"}, pure: true},
	{name: "how far a journal is", packages: []string{"bus/tip", "ledger/checkpoint"}, pure: true},
	{name: "the mechanism", packages: []string{"market"}, pure: true},
	{name: "leaves on plain numbers", packages: []string{
		"market/flow", "market/certify", "bus/bounded", "bus/exact", "bus/learned", "bus/likeness",
		"bus/packed", "agentd/vllmsim/kv", "ledger/tree",
	}, pure: true},
}

// testing only: packages that tests of any floor may import, and that may import what they test.
var forTests = []string{"bus/bustest", "bus/bustest/golden", "bus/bustest/script", "bus/bustest/servers"}

type floor struct {
	name       string
	packages   []string // "x/..." is x and all below it
	neighbours bool     // packages of the floor may import one another
	pure       bool
}

// ports has the types of what shells wait on, and so may name channels.
const ports = "bus/port.go"

// owners says who alone may import a module, or a package with what lies in it, beside tests.
var owners = map[string][]string{
	"github.com/nats-io/nats-server": {"bus/embedded"},
	"github.com/nats-io/jwt":         {"bus/natsauth", "bus/embedded", "integration/lab/bench"},
	"github.com/nats-io/nkeys":       {"bus/natsauth", "integration/lab/bench"},
	"go.etcd.io/etcd/server":         {"bus/embedded", "ledger/journal"},
	"github.com/nats-io/nats.go": {"bus/natsbus", "bus/embedded", "integration/lab/bench/floor",
		"integration/lab/flood"},
	"go.etcd.io/etcd/client": {"bus/etcdreg", "bus/embedded", "ledger/journal", "bus/life",
		"integration/lab/flood"},
	"github.com/vmihailenco/msgpack": {"bus", "agentd/vllmsim"},
	// shells and drivers make spans, of which pure packages know nothing; the daemons alone send them
	"go.opentelemetry.io/otel/trace": {"bus", "bus/sight", "bus/gateway", "classifier/serve", "hub/serve",
		"agentd/serve", "agentd/vllm"},
	"go.opentelemetry.io/otel/sdk":        {"cmd/daemon"},
	"go.opentelemetry.io/otel/exporters":  {"cmd/daemon"},
	"go.opentelemetry.io/proto":           {"cmd/daemon"},
	"go.opentelemetry.io/otel/metric":     {"bus/metrics", "cmd/daemon"},
	"github.com/prometheus/client_golang": {"cmd/daemon", "agentd/vllmsim"},
	"souk/bus/rawconn":                    {"bus/natsbus", "agentd/vllm", "bus/gateway"},
	"souk/bus/reader":                     {"bus/client", "classifier", "classifier/serve"},
	"gonum.org/v1/plot":                   {"integration/lab/page"},
	"charm.land/bubbletea":                {"cmd/souk"},
	"souk/agentd/vllmsim":                 {"cmd/local", "cmd/souk", "integration/..."},
	"souk/cmd/local":                      {"cmd/souk", "cmd/web", "integration/..."},
	"souk/cmd/web":                        {"cmd/souk"},
	"souk/cmd/replay":                     {"cmd/local", "cmd/souk", "integration/..."},
	"souk/hub/policy/ahead":               {"cmd/choices", "integration/..."},
	"souk/hub/policy/kvcache":             {"cmd/choices", "integration/..."},
	"souk/hub/policy/fair":                {"cmd/choices", "integration/..."},
	"souk/hub/policy/pd":                  {"cmd/choices", "integration/..."},
	"souk/hub/predict/tree":               {"cmd/choices", "integration/..."},
	"souk/hub/regime/router":              {"cmd/choices", "integration/..."},
}

// drivers are made by cmd and integration alone, and handed to whoever needs one as a port; who reads
// journals where they lie is the one other who knows a driver.
var drivers = map[string][]string{
	"bus/natsbus": nil, "bus/etcdreg": nil, "bus/membus": nil, "bus/embedded": nil, "agentd/vllm": nil,
	"ledger/journal": {"ledger/inspect"},
}

// effects lists the names that a pure package may not use, by import path. An empty list forbids the whole
// package, but for what is harmless.
var effects = map[string][]string{
	"time": {
		"Now", "Since", "Until", "Sleep", "After", "NewTimer", "NewTicker", "AfterFunc", "Tick", "Timer",
		"Ticker",
	},
	"context": {
		"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause",
		"WithCancel", "WithCancelCause", "AfterFunc",
	},
	"sync":            nil,
	"sync/atomic":     nil,
	"os":              nil,
	"os/exec":         nil,
	"os/signal":       nil,
	"io/ioutil":       nil,
	"net":             nil,
	"net/http":        nil,
	"log":             nil,
	"log/slog":        nil,
	"syscall":         nil,
	"crypto/rand":     nil,
	"hash/maphash":    {"MakeSeed"},
	"runtime":         {"Gosched", "GC"},
	"path/filepath":   {"Walk", "WalkDir", "Glob", "EvalSymlinks", "Abs"},
	"math/rand":       nil,
	"math/rand/v2":    nil,
	"fmt":             {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
	module + "bus":    {"Bus", "Registry", "Lease", "Leadership", "Subscription"},
	module + "ledger": {"Journal"},
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

// complaintsOf returns what there is to say against a file.
func complaintsOf(s *source) []string {
	return slices.Concat(importsDown(s), importsOwned(s), importsDrivers(s), pure(s), decodesOnce(s),
		optional(s))
}

func TestFloors(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	files := load(t)
	if len(files) < 20 {
		t.Fatalf("only %d Go files found: is this the module?", len(files))
	}
	for _, s := range files {
		for _, complaint := range complaintsOf(s) {
			t.Error(complaint)
		}
	}
}

// A rule that never complains would keep nothing: each must name file, line and rule.
func TestFloorsComplain(t *testing.T) {
	for _, test := range []struct{ path, text, want string }{
		{"hub/x.go", "package hub\nimport _ \"souk/agentd\"", "hub/x.go:2: hub may not import souk/agentd"},
		{"hub/x.go", "package hub\nimport _ \"souk/bus/natsbus\"",
			"hub/x.go:2: hub may not import souk/bus/natsbus"},
		{"hub/account/x.go", "package account\nimport _ \"souk/hub\"",
			"hub/account/x.go:2: hub/account may not import souk/hub"},
		{"hub/queue/x.go", "package queue\nimport _ \"souk/hub\"",
			"hub/queue/x.go:2: hub/queue may not import souk/hub"},
		{"market/x.go", "package market\nimport _ \"souk/bus\"",
			"market/x.go:2: market may not import souk/bus"},
		{"market/flow/x.go", "package flow\nimport _ \"souk/market\"",
			"market/flow/x.go:2: market/flow may not import souk/market"},
		{"market/certify/x.go", "package certify\nimport _ \"souk/market/flow\"",
			"market/certify/x.go:2: market/certify may not import souk/market/flow"},
		{"bus/membus/x.go", "package membus\nimport _ \"souk/bus/natsbus\"",
			"bus/membus/x.go:2: bus/membus may not import souk/bus/natsbus"},
		{"hub/x.go", "package hub\nimport _ \"souk/bus/bustest\"", "it is for tests"},
		{"kitchen/x.go", "package kitchen", "stands on no floor"},
		{"hub/serve/x.go", "package serve\nimport _ \"github.com/nats-io/nats-server/v2/server\"",
			"hub/serve/x.go:2: only bus/embedded may import"},
		{"hub/serve/x.go", "package serve\nimport _ \"souk/bus/rawconn\"",
			"hub/serve/x.go:2: only bus/natsbus and agentd/vllm and bus/gateway may"},
		{"hub/serve/x.go", "package serve\nimport _ \"go.opentelemetry.io/otel/sdk/trace\"",
			"hub/serve/x.go:2: only cmd/daemon may import"},
		{"hub/round/x.go", "package round\nimport _ \"go.opentelemetry.io/otel/trace\"",
			"hub/round/x.go:2: only bus and bus/sight and"},
		{"hub/serve/x.go", "package serve\nimport _ \"go.opentelemetry.io/otel/sdk/metric\"",
			"hub/serve/x.go:2: only cmd/daemon may import"},
		{"bus/gateway/x.go", "package gateway\nimport _ \"go.opentelemetry.io/otel/exporters/prometheus\"",
			"bus/gateway/x.go:2: only cmd/daemon may import"},
		{"hub/x.go", "package hub\nimport _ \"souk/bus/metrics\"\nimport _ \"go.opentelemetry.io/otel/metric\"",
			"hub/x.go:3: only bus/metrics and cmd/daemon may import"},
		{"hub/x.go", "package hub\nimport _ \"souk/hub/policy/fair\"",
			"hub/x.go:2: only cmd/choices and integration/... may import"},
		{"ledger/x.go", "package ledger\nimport _ \"go.etcd.io/etcd/server/v3/storage/wal\"",
			"ledger/x.go:2: only bus/embedded and ledger/journal may import"},
		{"hub/x.go", "package hub\nimport \"time\"\nvar t = time.Now()", "hub/x.go:3: uses time.Now"},
		{"hub/x.go", "package hub\nimport clock \"time\"\nvar t = clock.Now()", "hub/x.go:3: uses clock.Now"},
		{"bus/x.go", "package bus\nfunc f() { go f() }", "bus/x.go:2: starts a goroutine"},
		{"bus/x.go", "package bus\nimport \"os\"\nvar _, _ = os.ReadFile(\"x\")",
			"bus/x.go:3: uses os.ReadFile"},
		{"bus/x.go", "package bus\nimport \"log/slog\"\nfunc f() { slog.Info(\"x\") }",
			"bus/x.go:3: uses slog.Info"},
		{"bus/x.go", "package bus\nimport \"math/rand/v2\"\nvar n = rand.IntN(3)",
			"bus/x.go:3: uses rand.IntN"},
		{"market/server.go", "package market\nfunc f() { go f() }", "market/server.go:2: starts a goroutine"},
		{"market/x.go", "package market\nimport . \"time\"", "market/x.go:2: imports time without a name"},
		{"hub/x.go", "package hub\nimport _ \"souk/hub/serve\"",
			"hub/x.go:2: hub may not import souk/hub/serve"},
		{"hub/x.go", "package hub\nimport \"souk/bus\"\nvar r bus.Registry", "hub/x.go:3: uses bus.Registry"},
		{"hub/serve/x.go", "package serve\nimport _ \"souk/bus/natsbus\"",
			"hub/serve/x.go:2: hub/serve may not import souk/bus/natsbus"},
		{"hub/serve/x.go", "package serve\nimport _ \"souk/agentd/serve\"",
			"hub/serve/x.go:2: hub/serve may not import souk/agentd/serve"},
		{"bus/natsbus/x.go", "package natsbus\nimport _ \"souk/hub/serve\"",
			"bus/natsbus/x.go:2: bus/natsbus may not import souk/hub/serve"},
		{"bus/follow/x.go", "package follow\nimport _ \"souk/hub/serve\"",
			"bus/follow/x.go:2: bus/follow may not import souk/hub/serve"},
		{"bus/port.go", "package bus\nimport \"sync\"\nvar m sync.Mutex", "bus/port.go:3: uses sync.Mutex"},
		{"bus/client/x.go", "package client\nimport _ \"souk/bus/gateway\"",
			"bus/client/x.go:2: bus/client may not import souk/bus/gateway"},
		{"bus/gateway/x.go", "package gateway\nimport _ \"souk/cmd/local\"",
			"bus/gateway/x.go:2: bus/gateway may not import souk/cmd/local"},
		{"bus/gateway/x.go", "package gateway\nimport _ \"github.com/nats-io/nats.go\"",
			"bus/gateway/x.go:2: only bus/natsbus and bus/embedded"},
		{"bus/openai/x.go", "package openai\nimport \"net/http\"\nvar c http.Client",
			"bus/openai/x.go:3: uses http.Client"},
		{"bus/reader/x.go", "package reader\nimport _ \"souk/bus/client\"",
			"bus/reader/x.go:2: bus/reader may not import souk/bus/client"},
		{"bus/reader/x.go", "package reader\nimport \"time\"\nvar t = time.Now()",
			"bus/reader/x.go:3: uses time.Now"},
		{"bus/gateway/x.go", "package gateway\nimport _ \"souk/bus/natsbus\"",
			"bus/gateway/x.go:2: bus/gateway may not import souk/bus/natsbus: drivers are handed over"},
		{"ledger/inspect/x.go", "package inspect\nimport _ \"souk/bus/membus\"", "drivers are handed over"},
		{"hub/serve/x.go", "package serve\nimport _ \"souk/bus/reader\"",
			"hub/serve/x.go:2: only bus/client and classifier"},
		{"hub/serve/x.go", "package serve\nfunc f(x any) { _, _ = x.(interface{ Rush() }) }",
			"hub/serve/x.go:2: asks a value whether it is an interface of its own"},
		{"hub/serve/x.go", "package serve\nimport \"souk/bus\"\nfunc f(x any) { _, _ = x.(bus.Lease) }",
			"hub/serve/x.go:3: asks a value whether it is bus.Lease"},
		{"bus/x.go", "package bus\nimport \"github.com/vmihailenco/msgpack/v5\"\nvar f = msgpack.Unmarshal",
			"bus/x.go:3: uses msgpack.Unmarshal"},
	} {
		s, err := parse(test.path, []byte(test.text))
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(complaintsOf(s), "\n")
		if !strings.Contains(got, test.want) {
			t.Errorf("%s:\n%s\ngot %q, want %q", test.path, test.text, got, test.want)
		}
	}
	for path, text := range map[string]string{
		"hub/serve/x.go": "package serve\nimport _ \"souk/bus/follow\"\nimport \"time\"\nvar t = " +
			"time.Now()\nfunc f() { go f() }",
		"bus/port.go":          "package bus\ntype Lease interface { Lost() <-chan struct{} }",
		"market/x.go":          "package market\nimport \"sync\"\nvar p sync.Pool",
		"bus/client/client.go": "package client\nfunc f() { go f() }",
		"bus/natsbus/x.go": "package natsbus\nimport _ \"github.com/nats-io/nats.go\"\nfunc f() { " +
			"go f() }",
		"hub/x.go": "package hub\nimport (\n\"time\"\n_ \"souk/hub/queue\"\n_ " +
			"\"souk/ledger\")\nvar d = time.Second",
		"ledger/inspect/x.go": "package inspect\nimport _ \"souk/ledger/journal\"",
		"bus/gateway/x.go": "package gateway\nfunc f(x any) { _, _ = x.(interface{ SetWriteBuffer(int) error }) " +
			"}",
		"market/certify_x.go": "package market\nimport _ \"souk/market/certify\"",
		"bus/x.go": "package bus\nimport \"math/rand/v2\"\nvar r = " +
			"rand.New(rand.NewPCG(1, 2))",
		"cmd/souk/x.go": "package main\nimport _ \"souk/cmd/replay\"",
	} {
		s, err := parse(path, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := complaintsOf(s); got != nil {
			t.Errorf("%s:\n%s\ngot %q, want no complaint", path, text, got)
		}
	}
}

// Whatever a pure package may not have is planted in a copy of each one's own text: it is named, with file
// and line.
func TestFloorsComplainOfWhatIsPlanted(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	plants := []struct{ imports, text, want string }{
		{"sync", "var plantedLock planted.Mutex", "uses planted.Mutex"},
		{"sync", "var plantedOnce = planted.OnceValue(func() int { return 1 })", "uses planted.OnceValue"},
		{"sync/atomic", "var plantedCount planted.Int64", "uses planted.Int64"},
		{"time", "var plantedTime = planted.Now()", "uses planted.Now"},
		{"time", "func plantedWait() { planted.Sleep(1) }", "uses planted.Sleep"},
		{"", "func plantedGo() { go plantedGo() }", "starts a goroutine"},
		{"log", "func plantedLine() { planted.Println() }", "uses planted.Println"},
		{"log/slog", "func plantedLine(l *planted.Logger) { l.Info(\"x\") }", "uses planted.Logger"},
		{"", "func plantedPrint() { println() }", "calls println"},
		{"", "var plantedType <-chan int", "has a channel"},
		{"", "var plantedMade = make(chan int)", "has a channel"},
		{"", "func plantedSend() { plantedTo <- 1 }", "sends on a channel"},
		{"", "func plantedReceive() int { return <-plantedFrom }", "receives from a channel"},
		{"", "func plantedSelect() { select {} }", "selects among channels"},
		{"math/rand/v2", "var plantedLot = planted.N(10)", "uses planted.N"},
		{"crypto/rand", "var plantedText = planted.Text()", "uses planted.Text"},
		{"os", "var plantedFile, _ = planted.Open(\"x\")", "uses planted.Open"},
		{"net", "var plantedConn planted.Conn", "uses planted.Conn"},
		{"souk/cmd/local", "", "may not import souk/cmd/local"},
		{"souk/hub/serve", "", "may not import souk/hub/serve"},
	}
	planted := map[string]bool{}
	for _, s := range load(t) {
		if planted[s.pkg] || s.test || !isPure(s.pkg) || s.path == ports {
			continue
		}
		planted[s.pkg] = true
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(s.path)))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range plants {
			clause := s.fset.Position(s.file.Name.End())
			changed, line := string(text), clause.Line
			if p.text != "" {
				changed = strings.TrimRight(changed, "\n") + "\n" + p.text + "\n"
				line = strings.Count(changed, "\n")
			}
			if p.imports != "" {
				added := "; import planted " + strconv.Quote(p.imports)
				changed = changed[:clause.Offset] + added + changed[clause.Offset:]
			}
			copied, err := parse(s.path, []byte(changed))
			if err != nil {
				t.Fatalf("%s with %q: %v", s.path, p.text, err)
			}
			got := slices.Concat(importsDown(copied), pure(copied))
			want := fmt.Sprintf("%s:%d: ", s.path, line)
			if len(got) != 1 || !strings.HasPrefix(got[0], want) || !strings.Contains(got[0], p.want) {
				t.Errorf("%s with %q and %q planted: got %q, want one complaint %q... %q",
					s.path, p.imports, p.text, got, want, p.want)
			}
		}
	}
	for _, pkg := range []string{
		"market", "market/flow", "market/certify", "ledger", "bus", "bus/openai", "bus/reader",
		"hub", "hub/queue", "agentd", "agentd/kvevent", "classifier", "classifier/model", "ledger/treasury",
	} {
		if !planted[pkg] {
			t.Errorf("nothing was planted in %s", pkg)
		}
	}
}

// load returns all Go files of the house, read once for all tests.
func load(t *testing.T) []*source {
	t.Helper()
	files, err := readHouse()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var readHouse = sync.OnceValues(func() (out []*source, err error) {
	const root = "../.."
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != root &&
				(name == "testdata" || name == "vendor" || strings.HasPrefix(name, ".") ||
					strings.HasPrefix(name, "_")) {
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
	return out, err
})

// parse reads one file; nil for what is not part of the program.
func parse(path string, text []byte) (*source, error) {
	if !strings.Contains(path, "/") ||
		bytes.Contains(text[:bytes.Index(text, []byte("package "))+1], []byte("//go:build ignore")) {
		return nil, nil // dependency pins, and programs that only generate
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	s := &source{path: path, pkg: path[:strings.LastIndexByte(path, '/')],
		test: strings.HasSuffix(path, "_test.go"), file: file, fset: fset, names: map[string]string{}}
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
		return []string{fmt.Sprintf("%s: package %s stands on no floor: give it one in "+
			"integration/house/floors_test.go", s.path, s.pkg)}
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
			complaints = append(complaints,
				fmt.Sprintf("%s: %s may not import %s%s: it is for tests", s.at(spec), s.pkg, module,
					imported))
		case to > from, to == from && floors[from].neighbours:
		// a package and its own part, as classifier and classifier/x
		case to == from && parent(s.pkg, imported):
		default:
			complaints = append(complaints,
				fmt.Sprintf("%s: %s may not import %s%s: %s may import only what is below", s.at(spec), s.pkg,
					module, imported, floors[from].name))
		}
	}
	return complaints
}

// parent reports whether b lies within a.
func parent(a, b string) bool { return strings.HasPrefix(b, a+"/") }

// importsDrivers checks that nobody but cmd and integration makes a driver.
func importsDrivers(s *source) (complaints []string) {
	if s.test || slices.Contains(forTests, s.pkg) || under(s.pkg, []string{"cmd/...", "integration/..."}) {
		return nil
	}
	for _, spec := range s.file.Imports {
		imported, _ := strings.CutPrefix(importPath(spec), module)
		who, ok := drivers[imported]
		if ok && !slices.Contains(who, s.pkg) && level(imported) > level(s.pkg) {
			complaints = append(complaints, fmt.Sprintf("%s: %s may not import %s%s: drivers are handed over as "+
				"ports, by cmd", s.at(spec), s.pkg, module, imported))
		}
	}
	return complaints
}

// library are methods of the standard library's that a value may have or not.
var library = []string{"SetWriteBuffer", "Unwrap"}

// optional checks that nobody asks a value whether it can do more than its port declares.
func optional(s *source) (complaints []string) {
	if s.test || slices.Contains(forTests, s.pkg) || under(s.pkg, []string{"cmd/...", "integration/..."}) {
		return nil
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		a, ok := n.(*ast.TypeAssertExpr)
		if !ok || a.Type == nil {
			return true
		}
		asked := ""
		switch x := a.Type.(type) {
		case *ast.InterfaceType:
			for _, m := range x.Methods.List {
				if len(m.Names) != 1 || !slices.Contains(library, m.Names[0].Name) {
					asked = "an interface of its own"
				}
			}
		case *ast.SelectorExpr:
			if of, ok := x.X.(*ast.Ident); ok && slices.Contains(effects[s.names[of.Name]], x.Sel.Name) &&
				strings.HasPrefix(s.names[of.Name], module) {
				asked = of.Name + "." + x.Sel.Name
			}
		}
		if asked != "" {
			complaints = append(complaints,
				fmt.Sprintf("%s: asks a value whether it is %s: what a port can do, it declares", s.at(n), asked))
		}
		return true
	})
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
			if (imported == owned || strings.HasPrefix(imported, owned+"/")) &&
				!under(s.pkg, append(owners[owned], strings.TrimPrefix(owned, module)+"/...")) {
				complaints = append(complaints,
					fmt.Sprintf("%s: only %s may import %s", s.at(spec), strings.Join(owners[owned], " and "),
						owned))
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

// isPure reports whether a package is one of values and machines.
func isPure(pkg string) bool {
	on := level(pkg)
	return on >= 0 && floors[on].pure && !slices.Contains(forTests, pkg)
}

// pure checks that a file of a pure package does no I/O, reads no clock, starts no goroutine, has no lock and
// no channel, draws no lots and does not log.
func pure(s *source) (complaints []string) {
	if s.test || !isPure(s.pkg) {
		return nil
	}
	complain := func(n ast.Node, what string) {
		complaints = append(complaints, fmt.Sprintf(
			"%s: %s, and %s is pure: take it as an argument, or do it in the shell that runs it", s.at(n),
			what, s.pkg))
	}
	channel := func(n ast.Node, what string) {
		if s.path != ports {
			complain(n, what)
		}
	}
	for _, spec := range s.file.Imports {
		names, known := effects[importPath(spec)]
		if known && spec.Name != nil && (spec.Name.Name == "." || spec.Name.Name == "_" && names == nil) {
			complain(spec, "imports "+importPath(spec)+" without a name")
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			complain(n, "starts a goroutine")
		case *ast.ChanType:
			channel(n, "has a channel")
		case *ast.SendStmt:
			channel(n, "sends on a channel")
		case *ast.SelectStmt:
			channel(n, "selects among channels")
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				channel(n, "receives from a channel")
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "print" || f.Name == "println") {
				complain(n, "calls "+f.Name)
			}
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if !ok {
				break
			}
			from, name := s.names[x.Name], n.Sel.Name
			names, known := effects[from]
			whole := names == nil && ast.IsExported(name) && !harmless(from, name)
			if known && (whole || slices.Contains(names, name)) {
				complain(n, "uses "+x.Name+"."+name)
			}
		}
		return true
	})
	return complaints
}

// harmless are names of forbidden packages that do nothing: errors, parsers, seeded sources, and a pool of
// scratch memory.
func harmless(pkg, name string) bool {
	switch pkg {
	case "sync":
		return name == "Pool"
	case "math/rand", "math/rand/v2": // a source is made of a seed, which is an argument
		seeded := []string{"New", "Rand", "Source", "NewSource", "PCG", "NewPCG", "ChaCha8", "NewChaCha8"}
		return slices.Contains(seeded, name)
	case "os":
		return strings.HasPrefix(name, "Err")
	case "net":
		return strings.HasPrefix(name, "Err") || name == "SplitHostPort" || name == "JoinHostPort" ||
			name == "ParseIP"
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
		if x, ok := sel.X.(*ast.Ident); ok &&
			strings.HasPrefix(s.names[x.Name], "github.com/vmihailenco/msgpack") {
			switch sel.Sel.Name {
			case "Unmarshal", "NewDecoder", "GetDecoder", "Decoder", "RawMessage":
				complaints = append(complaints,
					fmt.Sprintf("%s: uses msgpack.%s: only bus/codec.go may decode; call bus.Decode",
						s.at(sel), sel.Sel.Name))
			}
		}
		return true
	})
	return complaints
}
