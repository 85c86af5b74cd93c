package daemon

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// unfit lists the keys that a type has no field for and the values that a field cannot take, each with what
// to write instead. line is that of the node's key.
func unfit(path string, n ast.Node, t, root reflect.Type, at string, line int) (complaints []error) {
	if t.Kind() == reflect.Pointer {
		return unfit(path, n, t.Elem(), root, at, line)
	}
	if why := misfit(n, t); why != "" {
		return []error{fmt.Errorf("%s:%d: %s: %.80q: %s", path, line, cmp.Or(at, "the file"),
			plain(n).GetToken().Value, why)}
	}
	if list, ok := plain(n).(*ast.SequenceNode); ok && t.Kind() == reflect.Slice {
		for i, v := range list.Values {
			complaints = append(complaints,
				unfit(path, v, t.Elem(), root, fmt.Sprintf("%s[%d]", at, i), v.GetToken().Position.Line)...)
		}
	}
	if !nested(t) {
		return complaints
	}
	known := fields(t)
	for _, e := range entries(n) {
		i := slices.IndexFunc(known, func(f field) bool { return f.name == e.key })
		where := strings.TrimPrefix(at+"."+e.key, ".")
		if i < 0 {
			complaints = append(complaints,
				fmt.Errorf("%s:%d: unknown field %q: %s", path, e.line, where,
					instead(e.key, at, known, root)))
			continue
		}
		complaints = append(complaints, unfit(path, e.value, known[i].t, root, where, e.line)...)
	}
	return complaints
}

// misfit says what to write for a plain value that a type cannot take; "" where it can, or where there is
// none.
func misfit(n ast.Node, t reflect.Type) string {
	switch n := plain(n).(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.LiteralNode,
		*ast.InfinityNode, *ast.NanNode:
		if nested(t) {
			var names []string
			for _, f := range fields(t) {
				names = append(names, f.name)
			}
			return "write its fields under it: " + strings.Join(names, ", ")
		}
		if err := yaml.NodeToValue(n, reflect.New(t).Interface()); err != nil {
			return rather(t, err)
		}
	}
	return ""
}

// rather says what a field of a type wants, after err has said that it cannot take what it got.
func rather(t reflect.Type, err error) string {
	switch k := t.Kind(); {
	case t == reflect.TypeFor[time.Duration]():
		return "write a duration with its unit, as 10s or 1m30s"
	case reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()),
		reflect.PointerTo(t).Implements(reflect.TypeFor[yaml.BytesUnmarshaler]()):
	case k == reflect.Bool:
		return "write true or false"
	case k >= reflect.Int && k <= reflect.Uint64:
		return "write a whole number"
	case k == reflect.Float64 || k == reflect.Float32:
		return "write a number"
	case k == reflect.Slice:
		return "write a list, as [a, b]"
	}
	return yaml.FormatError(err, false, false)
}

// instead says what to write for a key that is not known.
func instead(key, at string, known []field, root reflect.Type) string {
	best, least := "", slip(key)
	for _, f := range known {
		if d := distance(key, f.name); d <= least {
			best, least = f.name, d-1
		}
	}
	if best != "" {
		return fmt.Sprintf("write %s", best)
	}
	var elsewhere []string
	everyField(root, "", func(path string) {
		if path[strings.LastIndexByte(path, '.')+1:] == key && path != key {
			elsewhere = append(elsewhere, path)
		}
	})
	if len(elsewhere) > 0 {
		return fmt.Sprintf("its place is %s", strings.Join(elsewhere, " or "))
	}
	names := make([]string, len(known))
	for i, f := range known {
		names[i] = f.name
	}
	return fmt.Sprintf("%s has %s", cmp.Or(at, "the file"), strings.Join(names, ", "))
}

// slip counts the letters of a name that may be wrong in another that is taken for it.
func slip(name string) int { return max(1, len(name)/4) }

// distance is the least number of letters inserted, left out, replaced or swapped with their neighbour that
// turns a into b.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// place adds to each line of a verdict the file and line, or the variable, of the field it is about, or else
// of the nearest parent that the file has. A verdict begins with the steps to its field, from its section or
// from the top: prior and base are those of "prior: base: -1ms is".
func place(section, path string, body ast.Node, from map[string]string, err error) error {
	if err == nil {
		return nil
	}
	var out []error
	for line := range strings.SplitSeq(err.Error(), "\n") {
		line = strings.TrimPrefix(line, section+": ")
		where := cmp.Or(path, "without --config")
		steps := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(".: ", r) })
		at, found := along(body, append([]string{section}, steps...))
		top, more := along(body, steps)
		if found--; more > max(found, 0) { // the section itself says nothing
			at, found = top, more
		}
		if path != "" && found > 0 {
			where = fmt.Sprintf("%s:%d", path, at)
		}
		for k := range steps {
			name := strings.Join(steps[:k+1], ".")
			where = cmp.Or(from[section+"."+name], from[name], where)
		}
		out = append(out, fmt.Errorf("%s: %s", where, line))
	}
	return errors.Join(out...)
}

// along follows steps like agents[0] and engine as far as the file has them, and returns the line of the last
// and how many there are.
func along(n ast.Node, steps []string) (line, found int) {
	for _, step := range steps {
		name, index, listed := strings.Cut(strings.TrimSuffix(step, "]"), "[")
		all := entries(n)
		at := slices.IndexFunc(all, func(e entry) bool { return e.key == name })
		if at < 0 {
			break
		}
		n, line = all[at].value, all[at].line
		found++
		if listed {
			list, ok := plain(n).(*ast.SequenceNode)
			i, err := strconv.Atoi(index)
			if err != nil || !ok || i < 0 || i >= len(list.Values) {
				break
			}
			n = list.Values[i]
			line = n.GetToken().Position.Line
		}
	}
	return line, found
}
