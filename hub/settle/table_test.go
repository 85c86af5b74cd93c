package settle

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"souk/bus/bustest/golden"
)

// States, events and effects, as their constants are declared.
var (
	states  = declared[State]("State")
	events  = declared[Event]("Event")
	effects = declared[Effect]("Effect")
)

func declared[T ~string](of string) (all []T) {
	f, err := parser.ParseFile(token.NewFileSet(), "table.go", nil, 0)
	if err != nil {
		panic(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if c, ok := n.(*ast.ValueSpec); ok && len(c.Values) == 1 {
			if id, ok := c.Type.(*ast.Ident); ok && id.Name == of {
				text, err := strconv.Unquote(c.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					panic(err)
				}
				all = append(all, T(text))
			}
		}
		return true
	})
	return all
}

// The table of all states and events is text in testdata, and each pair is in it: either something comes of
// it, or it says why nothing does.
func TestTable(t *testing.T) {
	var b strings.Builder
	for _, s := range states {
		name := string(s)
		if s == None {
			name = "none"
		}
		fmt.Fprintf(&b, "\n%s\n", name)
		why := map[string][]string{}
		var order []string
		for _, e := range events {
			r := s.On(e)
			if (r.Not == "") != (len(r.Then) > 0) || r.Not != "" && r.To != s {
				t.Errorf("%s, %s: %+v", name, e, r)
			}
			if r.Not != "" {
				if why[r.Not] == nil {
					order = append(order, r.Not)
				}
				why[r.Not] = append(why[r.Not], string(e))
				continue
			}
			then := make([]string, len(r.Then))
			for i, x := range r.Then {
				then[i] = string(x)
			}
			fmt.Fprintf(&b, "  %-24s %-11s %s\n", e, r.To, strings.Join(then, "; "))
		}
		for _, not := range order {
			fmt.Fprintf(&b, "  nothing, as %s: %s\n", not, strings.Join(why[not], ", "))
		}
	}
	golden.Check(t, "table", strings.TrimSpace(b.String()))
}

// What the table has to be, whatever is in it: who begins can end, and who has ended does nothing more; what
// ends says what becomes of the task, and nothing else does; who has not ended waits for something. Each row
// counts for some state, and each effect is one of something.
func TestTableIsSound(t *testing.T) {
	if len(states) < 7 || len(events) < 20 || len(effects) < 11 {
		t.Fatalf("%d states, %d events, %d effects are declared", len(states), len(events), len(effects))
	}
	for i, r := range rows {
		if !slices.ContainsFunc(r.from, func(s State) bool {
			return !slices.ContainsFunc(rows[:i], func(before row) bool {
				return before.event == r.event && slices.Contains(before.from, s)
			})
		}) {
			t.Errorf("row %d, of %s, counts for no state", i, r.event)
		}
	}
	used := map[Effect]bool{}
	tasks := []Effect{Move, Again, End}
	for _, s := range states {
		for _, e := range events {
			r := s.On(e)
			last := !s.Ended() && r.To.Ended()
			if n := len(r.Then); last && (n == 0 || r.Then[n-1] != End) {
				t.Errorf("%s, %s: the task may neither end nor go on: %v", s, e, r.Then)
			}
			for _, x := range r.Then {
				used[x] = true
				if slices.Contains(tasks, x) != last {
					t.Errorf("%s, %s: %s, and it is %s then", s, e, x, r.To)
				}
			}
			if s.Ended() && (r.To != s || len(r.Then) > 0) {
				t.Errorf("%s, %s: something comes of it: %+v", s, e, r)
			}
			if waits := []Effect{Dispatch, AwaitEnd, Withdraw}; r.To != s && !last &&
				!slices.ContainsFunc(r.Then, func(x Effect) bool { return slices.Contains(waits, x) }) {
				t.Errorf("%s, %s: nothing is waited for: %v", s, e, r.Then)
			}
		}
		if !s.Ended() && s != None && s.On(Expired).To != Void {
			t.Errorf("%s: its time does not end it", s)
		}
		if s.Taken() && s.May(Refuses) {
			t.Errorf("%s: its agent may refuse it", s)
		}
	}
	for _, x := range effects {
		if !used[x] {
			t.Errorf("nothing has %q follow", x)
		}
	}
}
