package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// family is a metric as its package declares it: in a variable, by a method of a metrics.Set.
type family struct {
	name, kind, help string
	labels           []string
}

// row is the family's row in the manual.
func (f family) row() string {
	return fmt.Sprintf("| `%s` | %s | %s | %s |\n", f.name, f.kind, strings.Join(f.labels, ", "), f.help)
}

// kinds are the methods that declare families, with how many arguments they take before the labels.
var kinds = map[string]struct {
	kind   string
	before int
}{"Gauge": {"gauge", 2}, "Counter": {"counter", 2}, "Seconds": {"histogram", 3}}

// familiesOf returns what a file declares, with the labels of its sets first.
func familiesOf(s *source) (all []family, complaints []string) {
	text := func(x ast.Expr) string {
		value, ok := literal(x)
		if !ok {
			complaints = append(complaints, s.at(x)+": write it as a literal, so that the manual can have it")
		}
		return value
	}
	texts := func(list []ast.Expr) (out []string) {
		for _, x := range list {
			out = append(out, text(x))
		}
		return out
	}
	sets := map[string][]string{}
	for _, d := range s.file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, spec := range g.Specs {
			v := spec.(*ast.ValueSpec)
			if isSet(s, v.Type) {
				sets[v.Names[0].Name] = nil
			}
			if len(v.Values) != 1 {
				continue
			}
			switch x := v.Values[0].(type) {
			case *ast.CompositeLit:
				if isSet(s, x.Type) && len(x.Elts) == 1 {
					labels := x.Elts[0].(*ast.KeyValueExpr).Value.(*ast.CompositeLit)
					sets[v.Names[0].Name] = texts(labels.Elts)
				}
			case *ast.CallExpr:
				method, ok := x.Fun.(*ast.SelectorExpr)
				if !ok {
					continue
				}
				set, ok := method.X.(*ast.Ident)
				if !ok {
					continue
				}
				own, isOne := sets[set.Name]
				k, declares := kinds[method.Sel.Name]
				if !isOne || !declares {
					continue
				}
				all = append(all, family{text(x.Args[0]), k.kind, text(x.Args[1]),
					slices.Concat(own, texts(x.Args[k.before:]))})
			}
		}
	}
	return all, complaints
}

// isSet reports whether a type is metrics.Set.
func isSet(s *source, x ast.Expr) bool {
	sel, ok := x.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != "Set" {
		return false
	}
	pkg, ok := sel.X.(*ast.Ident)
	return ok && s.names[pkg.Name] == module+"bus/metrics"
}

// literal is a string that stands in the source, in one piece or more.
func literal(x ast.Expr) (string, bool) {
	switch x := x.(type) {
	case *ast.BasicLit:
		value, err := strconv.Unquote(x.Value)
		return value, err == nil
	case *ast.BinaryExpr:
		a, isText := literal(x.X)
		b, isToo := literal(x.Y)
		return a + b, isText && isToo && x.Op == token.ADD
	}
	return "", false
}

// The manual lists each metric that the packages declare, with its labels, as they declare it; names follow
// Prometheus's conventions, and no two families have one name.
func TestTheManualListsTheMetrics(t *testing.T) {
	const page = "../../deploy/metrics.md"
	var all []family
	for _, s := range load(t) {
		if s.test {
			continue
		}
		declared, complaints := familiesOf(s)
		for _, c := range complaints {
			t.Error(c)
		}
		all = append(all, declared...)
	}
	slices.SortFunc(all, func(a, b family) int { return strings.Compare(a.name, b.name) })
	var rows strings.Builder
	name := regexp.MustCompile(`^souk_[a-z0-9]+(_[a-z0-9]+)*$`)
	for i, f := range all {
		rows.WriteString(f.row())
		switch {
		case !name.MatchString(f.name), strings.HasSuffix(f.name, "_total") != (f.kind == "counter"),
			f.kind == "histogram" && !strings.HasSuffix(f.name, "_seconds"):
			t.Errorf("%s, a %s: another name by Prometheus's conventions", f.name, f.kind)
		case i > 0 && all[i-1].name == f.name:
			t.Errorf("%s is declared twice", f.name)
		case strings.ContainsAny(f.help, "|\n"), f.help == "":
			t.Errorf("%s: its help %q is no cell of a table", f.name, f.help)
		}
	}
	if len(all) < 100 {
		t.Fatalf("%d metrics found: have declarations another form now?", len(all))
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const table = "| metric | kind | labels | what it says |\n|---|---|---|---|\n"
	head, rest, ok := strings.Cut(string(text), table)
	if !ok {
		t.Fatalf("%s has no table with the head %q", page, table)
	}
	tail := regexp.MustCompile("^(\\|.*\n)*").ReplaceAllString(rest, "")
	switch want := head + table + rows.String() + tail; {
	case want == string(text):
	case *update:
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		for _, f := range all {
			if !strings.Contains(rest, f.row()) {
				t.Errorf("%s: not in it: %s", page, f.row())
			}
		}
		t.Errorf("%s lists other metrics than packages declare, or in another order; go test ./integration/house "+
			"-run TheManualListsTheMetrics -update corrects the table", page)
	}
}

// What is read of a declaration is what stands there, and what cannot be read is named.
func TestTheManualListsTheMetricsComplains(t *testing.T) {
	s, err := parse("hub/serve/families.go", []byte(`package serve

import m "souk/bus/metrics"

var (
	plain m.Set
	set   = m.Set{Labels: []string{"hub"}}

	a = set.Gauge("souk_a", "How "+
		"many.", "model", "state")
	b    = plain.Counter("souk_b_total", "B.")
	c    = set.Seconds("souk_c_seconds", "C.", bounds)
	d    = set.Gauge(name, "D.")
	none = other.Gauge("souk_none", "None.")
)
`))
	if err != nil {
		t.Fatal(err)
	}
	all, complaints := familiesOf(s)
	rows := ""
	for _, f := range all[:3] {
		rows += f.row()
	}
	want := "| `souk_a` | gauge | hub, model, state | How many. |\n" +
		"| `souk_b_total` | counter |  | B. |\n| `souk_c_seconds` | histogram | hub | C. |\n"
	if rows != want || len(all) != 4 || len(complaints) != 1 ||
		!strings.HasPrefix(complaints[0], "hub/serve/families.go:13:") {
		t.Errorf("%s%d families, complaints %q", rows, len(all), complaints)
	}
}
