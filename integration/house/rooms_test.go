package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// rooms are the packages that a hub's Node wires: each owns its state, and knows no other.
var rooms = []string{"hub/account", "hub/admission", "hub/fleet", "hub/policy", "hub/prewarm",
	"hub/queue", "hub/regime", "hub/round", "hub/settle", "hub/status", "hub/tariff"}

// shared lists the packages of the hub that a room may import: what it runs on, and values that it is handed.
var shared = []string{"hub/turn", "hub/estimate"}

// What a Node has: its rooms, and what they need of one another. These numbers only go down.
const (
	nodeMethods = 34
	nodeFields  = 19
)

// What any other type of a hub may have, but for those that have more, whose numbers only go down.
const (
	mostMethods = 60
	mostFields  = 40
)

var large = map[string]shape{
	"hub/prefix.Cache": {methods: 64, fields: mostFields},
	"hub/serve.Server": {methods: 64, fields: mostFields},
}

// shape counts the methods and fields of a type.
type shape struct{ methods, fields, exported int }

// shapes counts the methods and fields of the types that files declare, by package and name. An embedded type
// is one field.
func shapes(files []*source) map[string]*shape {
	all := map[string]*shape{}
	of := func(pkg, name string) *shape {
		name = pkg + "." + name
		if all[name] == nil {
			all[name] = &shape{}
		}
		return all[name]
	}
	for _, s := range files {
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					of(s.pkg, receiver(d.Recv.List[0].Type)).methods++
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					t, ok := spec.(*ast.TypeSpec)
					if !ok {
						continue
					}
					if st, ok := t.Type.(*ast.StructType); ok {
						x := of(s.pkg, t.Name.Name)
						for _, f := range st.Fields.List {
							x.fields += max(1, len(f.Names))
							for _, name := range f.Names {
								if token.IsExported(name.Name) {
									x.exported++
								}
							}
						}
					}
				}
			}
		}
	}
	return all
}

// receiver names the type of a method.
func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// walls are the complaints of rooms that know one another, or that grow together in one type.
func walls(files []*source, node shape) (complaints []string) {
	var hub []*source
	for _, s := range files {
		if s.test || !under(s.pkg, []string{"hub/..."}) {
			continue
		}
		hub = append(hub, s)
		if !slices.Contains(rooms, s.pkg) {
			continue
		}
		for _, spec := range s.file.Imports {
			imported, _ := strings.CutPrefix(importPath(spec), module)
			if under(imported, []string{"hub/..."}) && !slices.Contains(shared, imported) {
				complaints = append(complaints, fmt.Sprintf("%s: room %s imports %s: of the hub it may know %s alone, and "+
					"is told the rest as values", s.at(spec), s.pkg, imported, strings.Join(shared, " and ")))
			}
		}
	}
	all := shapes(hub)
	for _, name := range slices.Sorted(keysOf(all)) {
		x, most := all[name], shape{methods: mostMethods, fields: mostFields}
		if l, ok := large[name]; ok {
			most = l
		}
		if name == "hub.Node" {
			most = node
		}
		if x.methods > most.methods || x.fields > most.fields {
			complaints = append(complaints, fmt.Sprintf("%s has %d methods and %d fields, and may have %d and %d: a "+
				"room of its own takes what belongs together", name, x.methods, x.fields, most.methods, most.fields))
		}
		if pkg, ok := strings.CutSuffix(name, ".Room"); ok && slices.Contains(rooms, pkg) && x.exported > 0 {
			complaints = append(complaints, fmt.Sprintf("%s has %d exported fields: nobody else writes a room's state",
				name, x.exported))
		}
	}
	return complaints
}

func TestRoomsHaveWalls(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	files := load(t)
	for _, complaint := range walls(files, shape{methods: nodeMethods, fields: nodeFields}) {
		t.Error(complaint)
	}
	product := slices.DeleteFunc(slices.Clone(files), func(s *source) bool { return s.test })
	if node := shapes(product)["hub.Node"]; node == nil || node.methods < nodeMethods-5 ||
		node.fields < nodeFields-2 {
		t.Errorf("hub.Node has %+v, of %d methods and %d fields: lower the bounds", node, nodeMethods, nodeFields)
	}
}

// Each room is tested by itself, without a Node.
func TestRoomsHaveTests(t *testing.T) {
	tests := map[string]int{}
	for _, s := range load(t) {
		if !s.test {
			continue
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				tests[s.pkg]++
			}
		}
		for _, spec := range s.file.Imports {
			if slices.Contains(rooms, s.pkg) && importPath(spec) == module+"hub" {
				t.Errorf("%s: a test of room %s runs a Node", s.at(spec), s.pkg)
			}
		}
	}
	for _, room := range rooms {
		if tests[room] < 3 {
			t.Errorf("room %s has %d tests of its own", room, tests[room])
		}
	}
}

func TestRoomsHaveWallsComplains(t *testing.T) {
	var files []*source
	for path, text := range map[string]string{
		"hub/x.go": "package hub\ntype Node struct { a, b int; c string }\nfunc (n *Node) A() {}\n" +
			"func (n Node) B() {}",
		"hub/account/x.go": "package account\nimport _ \"souk/hub/round\"\nimport _ \"souk/hub/turn\"\n" +
			"type Room struct { Open int }",
	} {
		s, err := parse(path, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, s)
	}
	got := strings.Join(walls(files, shape{methods: 1, fields: 3}), "\n")
	want := strings.Join([]string{
		"hub/account/x.go:2: room hub/account imports hub/round: of the hub it may know hub/turn and " +
			"hub/estimate alone, and is told the rest as values",
		"hub.Node has 2 methods and 3 fields, and may have 1 and 3: a room of its own takes what belongs together",
		"hub/account.Room has 1 exported fields: nobody else writes a room's state",
	}, "\n")
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if got := walls(files, shape{methods: 2, fields: 3}); len(got) != 2 {
		t.Errorf("a Node within its bounds is complained of: %v", got)
	}
}
