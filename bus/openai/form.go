package openai

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"unicode/utf8"

	"souk/bus"
)

// Form is what a body asks of the answer's form: that it is JSON, perhaps by a schema, or that tools are
// called with arguments by theirs. It takes in an answer as it comes, and says whether it kept to that. Who
// asks for a form has no use for an answer that broke it.
type Form struct {
	schema json.RawMessage // of the text, which is to be a JSON object
	json   bool            // it is
	tools  json.RawMessage // that may be called
	calls  bool            // one of them must

	text []byte
	made []madeCall // by index
	long bool       // there is more of it than is looked at
}

// madeCall is a tool call of the answer.
type madeCall struct {
	name string
	args []byte
}

const (
	mostFormed = 256 << 10 // bytes of an answer that are looked at
	mostSteps  = 200_000   // of comparing one with a schema
	mostDepth  = 64
)

// FormOf reads it in a chat's body; nil where the body asks for none, or for one that is not looked at. The
// body is kept.
func FormOf(kind string, body []byte) *Form {
	if kind != bus.KindChat ||
		!bytes.Contains(body, []byte(`"response_format"`)) && !bytes.Contains(body, []byte(`"tools"`)) {
		return nil
	}
	var format, tools, choice json.RawMessage
	s := Scan(body)
	s.NotNumbers = true
	if !s.Object(func(key Span) bool {
		value, ok := s.Value()
		switch string(s.Text(key)) {
		case `"response_format"`:
			format = s.Text(value)
		case `"tools"`:
			tools = s.Text(value)
		case `"tool_choice"`:
			choice = s.Text(value)
		}
		return ok
	}) {
		return nil
	}
	var f Form
	var of struct {
		Type   string
		Schema struct{ Schema json.RawMessage } `json:"json_schema"`
	}
	if len(format) > 0 && json.Unmarshal(format, &of) == nil {
		f.json, f.schema = of.Type == "json_object" || of.Type == "json_schema", of.Schema.Schema
	}
	if !isOne(tools, "", "null", "[]") && !isOne(choice, `"none"`) {
		f.tools = tools
		f.calls = isOne(choice, `"required"`) || bytes.HasPrefix(choice, []byte("{"))
	}
	if !f.json && f.tools == nil {
		return nil
	}
	return &f
}

// Add takes in a piece of the answer.
func (f *Form) Add(text string, extra []bus.Extra) {
	if f.json {
		f.text = f.grow(f.text, text)
	}
	if f.tools == nil {
		return
	}
	for _, x := range extra {
		var choice struct {
			Delta struct {
				Calls []struct {
					Index    int
					Function struct{ Name, Arguments string }
				} `json:"tool_calls"`
			}
		}
		if json.Unmarshal(x.Choice, &choice) != nil {
			continue
		}
		for _, c := range choice.Delta.Calls {
			if c.Index < 0 || c.Index >= bus.MaxCalls {
				f.long = true
				continue
			}
			for len(f.made) <= c.Index {
				f.made = append(f.made, madeCall{})
			}
			m := &f.made[c.Index]
			m.name += c.Function.Name
			m.args = f.grow(m.args, c.Function.Arguments)
		}
	}
}

func (f *Form) grow(dst []byte, s string) []byte {
	if len(dst)+len(s) > mostFormed {
		f.long = true
		return dst
	}
	return append(dst, s...)
}

// Kept reports whether the answer kept to the form, once it has ended by itself. ok is false where that
// cannot be told: it was cut, or called no tool where it need not.
func (f *Form) Kept(finish string) (kept, ok bool) {
	if f.long || finish != "stop" && finish != "tool_calls" {
		return false, false
	}
	budget := mostSteps
	var tools map[string]*schema
	if len(f.made) > 0 {
		tools = readTools(f.tools)
	}
	for i := range f.made {
		m := &f.made[i]
		of, known := tools[m.name]
		args := m.args
		if len(bytes.TrimSpace(args)) == 0 {
			args = []byte("{}") // of a tool without any
		}
		if !known || !fitsObject(args, of, &budget) {
			return false, budget > 0
		}
	}
	switch {
	case len(f.made) > 0:
		return true, true
	case f.calls:
		return false, true
	case f.json:
		kept = fitsObject(f.text, readSchema(f.schema), &budget)
		return kept, kept || budget > 0
	}
	return false, false
}

// readTools are the schemas of tools' arguments, by the tools' names.
func readTools(data json.RawMessage) map[string]*schema {
	var list []struct {
		Function struct {
			Name       string
			Parameters json.RawMessage
		}
	}
	if json.Unmarshal(data, &list) != nil {
		return nil
	}
	tools := map[string]*schema{}
	for _, t := range list {
		tools[t.Function.Name] = readSchema(t.Function.Parameters)
	}
	return tools
}

// fitsObject reports whether data is one JSON object that fits a schema.
func fitsObject(data []byte, s *schema, budget *int) bool {
	var v any
	if json.Unmarshal(data, &v) != nil {
		return false
	}
	if s == nil {
		_, object := v.(map[string]any)
		return object
	}
	return s.fits(v, budget)
}

// schema is as much of a JSON schema as is looked at. What else stands in one is taken to be kept to.
type schema struct {
	never    bool
	types    []string
	members  map[string]*schema
	required []string
	closed   bool // no other members
	items    *schema
	enum     []any
	anyOf    []*schema

	least, most          *float64 // of a number
	minLength, maxLength *float64
	minItems, maxItems   *float64
}

// readSchema reads one; nil where it says nothing that is looked at.
func readSchema(data json.RawMessage) *schema {
	var v any
	if len(data) == 0 || json.Unmarshal(data, &v) != nil {
		return nil
	}
	return schemaOf(v, 0)
}

func schemaOf(v any, depth int) *schema {
	if no, ok := v.(bool); ok && !no {
		return &schema{never: true}
	}
	m, ok := v.(map[string]any)
	if !ok || depth >= mostDepth || m["$ref"] != nil {
		return nil
	}
	s := &schema{closed: m["additionalProperties"] == false && m["patternProperties"] == nil}
	switch t := m["type"].(type) {
	case string:
		s.types = []string{t}
	case []any:
		for _, x := range t {
			if name, ok := x.(string); ok {
				s.types = append(s.types, name)
			}
		}
	}
	if members, ok := m["properties"].(map[string]any); ok {
		s.members = map[string]*schema{}
		for name, x := range members {
			s.members[name] = schemaOf(x, depth+1)
		}
	}
	if list, ok := m["required"].([]any); ok {
		for _, x := range list {
			if name, ok := x.(string); ok {
				s.required = append(s.required, name)
			}
		}
	}
	s.items = schemaOf(m["items"], depth+1)
	s.enum, _ = m["enum"].([]any)
	if x, ok := m["const"]; ok {
		s.enum = []any{x}
	}
	if list, ok := m["anyOf"].([]any); ok {
		for _, x := range list {
			s.anyOf = append(s.anyOf, schemaOf(x, depth+1))
		}
	}
	for name, at := range map[string]**float64{"minimum": &s.least, "maximum": &s.most,
		"minLength": &s.minLength, "maxLength": &s.maxLength, "minItems": &s.minItems,
		"maxItems": &s.maxItems} {
		if x, ok := m[name].(float64); ok {
			*at = &x
		}
	}
	return s
}

// fits reports whether a value fits; false once budget is used up.
func (s *schema) fits(v any, budget *int) bool {
	if *budget--; *budget <= 0 {
		return false
	}
	if s == nil {
		return true
	}
	typed := func(t string) bool { return isOf(v, t) }
	if s.never || len(s.types) > 0 && !slices.ContainsFunc(s.types, typed) {
		return false
	}
	if len(s.enum) > 0 && !slices.ContainsFunc(s.enum, func(x any) bool { return equal(x, v, budget) }) {
		return false
	}
	if len(s.anyOf) > 0 && !slices.ContainsFunc(s.anyOf, func(x *schema) bool { return x.fits(v, budget) }) {
		return false
	}
	within := func(x float64, least, most *float64) bool {
		return (least == nil || x >= *least) && (most == nil || x <= *most)
	}
	switch v := v.(type) {
	case float64:
		return within(v, s.least, s.most)
	case string:
		return within(float64(utf8.RuneCountInString(v)), s.minLength, s.maxLength)
	case []any:
		if !within(float64(len(v)), s.minItems, s.maxItems) {
			return false
		}
		return s.items == nil || !slices.ContainsFunc(v, func(x any) bool { return !s.items.fits(x, budget) })
	case map[string]any:
		for _, name := range s.required {
			if _, ok := v[name]; !ok {
				return false
			}
		}
		for name, x := range v {
			of, known := s.members[name]
			if !known && s.closed || known && !of.fits(x, budget) {
				return false
			}
		}
	}
	return true
}

func isOf(v any, t string) bool {
	switch v := v.(type) {
	case nil:
		return t == "null"
	case bool:
		return t == "boolean"
	case string:
		return t == "string"
	case []any:
		return t == "array"
	case map[string]any:
		return t == "object"
	case float64:
		return t == "number" || t == "integer" && v == math.Trunc(v)
	}
	return false
}

// equal compares two values of JSON.
func equal(a, b any, budget *int) bool {
	if *budget--; *budget <= 0 {
		return false
	}
	switch a := a.(type) {
	case []any:
		list, ok := b.([]any)
		return ok && slices.EqualFunc(a, list, func(x, y any) bool { return equal(x, y, budget) })
	case map[string]any:
		m, ok := b.(map[string]any)
		if !ok || len(a) != len(m) {
			return false
		}
		for name, x := range a {
			if y, ok := m[name]; !ok || !equal(x, y, budget) {
				return false
			}
		}
		return true
	}
	return a == b
}
