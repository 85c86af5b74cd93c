package daemon

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// field is one yaml field of a struct.
type field struct {
	name  string
	t     reflect.Type
	index []int
}

// fields lists a struct's fields by their yaml names, those of inlined structs included.
func fields(t reflect.Type) (out []field) {
	for _, f := range reflect.VisibleFields(t) {
		tag, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if f.IsExported() && tag != "-" && !strings.Contains(options, "inline") {
			out = append(out, field{cmp.Or(tag, strings.ToLower(f.Name)), f.Type, f.Index})
		}
	}
	return out
}

// nested reports whether a type's fields are looked into: structs that do not read themselves.
func nested(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	p := reflect.PointerTo(t)
	return !p.Implements(reflect.TypeFor[yaml.BytesUnmarshaler]()) &&
		!p.Implements(reflect.TypeFor[yaml.InterfaceUnmarshaler]()) &&
		!p.Implements(reflect.TypeFor[yaml.NodeUnmarshaler]()) &&
		!p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// everyField names the paths of a type's fields, without indices.
func everyField(t reflect.Type, at string, visit func(path string)) {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if !nested(t) {
		return
	}
	for _, f := range fields(t) {
		path := strings.TrimPrefix(at+"."+f.name, ".")
		visit(path)
		everyField(f.t, path, visit)
	}
}

// variable names the environment variable of a path: agents[0].engine.url is SOUK_AGENTS_0_ENGINE_URL.
func variable(path string) string {
	return "SOUK_" + strings.ToUpper(strings.NewReplacer(".", "_", "[", "_", "]", "").Replace(path))
}

// everyValue visits what a variable can set: all fields of v, and of each element of its lists.
func everyValue(v reflect.Value, at string, visit func(path string, v reflect.Value)) {
	if v.Kind() == reflect.Slice {
		for i := range v.Len() {
			if nested(v.Type().Elem()) {
				everyValue(v.Index(i), fmt.Sprintf("%s[%d]", at, i), visit)
			}
		}
		return
	}
	if !nested(v.Type()) {
		return
	}
	for _, f := range fields(v.Type()) {
		path, value := strings.TrimPrefix(at+"."+f.name, "."), v.FieldByIndex(f.index)
		if !nested(f.t) {
			visit(path, value)
		}
		everyValue(value, path, visit)
	}
}

// override sets fields from variables, and says which variable set which path. A variable of one of the
// file's sections that names no field is an error.
func override(section string, environ []string, cfg Config) (map[string]string, error) {
	set := map[string]string{}
	for _, e := range environ {
		if name, value, ok := strings.Cut(e, "="); ok && strings.HasPrefix(name, "SOUK_") {
			set[name] = value
		}
	}
	from := map[string]string{}
	if len(set) == 0 {
		return from, nil
	}
	root := reflect.ValueOf(cfg).Elem()
	var errs []error
	// A list set as a whole comes before its elements.
	everyValue(root, "", func(path string, v reflect.Value) {
		name := variable(path)
		value, ok := set[name]
		if !ok {
			return
		}
		delete(set, name)
		if err := assign(v, value); err != nil {
			errs = append(errs, fmt.Errorf("%s=%.200q: cannot be read as %s: %w", name, value, path, err))
		}
		from[path] = name
	})
	var known []string
	everyValue(root, "", func(path string, _ reflect.Value) { known = append(known, variable(path)) })
	for _, name := range slices.Sorted(maps.Keys(set)) {
		for _, f := range fields(root.Type()) {
			if !strings.HasPrefix(name, variable(f.name)+"_") || !nested(f.t) {
				continue
			}
			best, least := "", slip(name[len(variable(f.name)):])
			for _, k := range known {
				if d := distance(name, k); d <= least {
					best, least = "is it "+k+"? If not, ", d-1
				}
			}
			errs = append(errs,
				fmt.Errorf("%s: no field has this name: %sunset it, or see %s --help", name, best, section))
			break
		}
	}
	return from, errors.Join(errs...)
}

// assign reads a variable's text: plain text for strings, items separated by commas for lists of them, YAML
// for all else.
func assign(v reflect.Value, text string) error {
	switch {
	case v.Kind() == reflect.String:
		v.SetString(text)
		return nil
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.String &&
		!strings.HasPrefix(strings.TrimSpace(text), "["):
		list := reflect.MakeSlice(v.Type(), 0, 4)
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				list = reflect.Append(list, reflect.ValueOf(item).Convert(v.Type().Elem()))
			}
		}
		v.Set(list)
		return nil
	}
	fresh := reflect.New(v.Type())
	if err := yaml.UnmarshalWithOptions([]byte(text), fresh.Interface(), yaml.Strict()); err != nil {
		return errors.New(rather(v.Type(), err))
	}
	v.Set(fresh.Elem())
	return nil
}

// environmentHelp documents every variable with its default.
func environmentHelp(name string, cfg Config) string {
	var b strings.Builder
	fmt.Fprintf(&b, `
Every field can be set from the environment, which comes before the file: SOUK_, the sections and the field,
joined by '_'. Lists take items separated by commas, or YAML; items of lists are counted from 0, as in
SOUK_AGENTD_AGENTS_0_ENGINE_URL.
The fields of %s and their defaults:

`, name)
	everyValue(reflect.ValueOf(cfg).Elem(), "", func(path string, v reflect.Value) {
		text, err := yaml.MarshalWithOptions(v.Interface(), yaml.Flow(true), yaml.JSON())
		if err != nil {
			text = nil
		}
		value := strings.TrimSpace(string(text))
		if slices.Contains(hidden, path[strings.LastIndexByte(path, '.')+1:]) || value == `""` ||
			value == "null" {
			value = ""
		}
		fmt.Fprintf(&b, "  %s=%s\n", variable(path), strings.Trim(value, `"`))
	})
	return strings.TrimRight(b.String(), "\n")
}
