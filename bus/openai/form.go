package openai

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"unicode/utf8"

	"souk/bus"
)

// Form is the form that a body asks of its answer: JSON, perhaps by a schema, or calls of tools with
// arguments by theirs. It reads an answer as it comes, and reports whether it has that form. An answer
// without it is of no use to the client.
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
				Calls []callPart `json:"tool_calls"`
			}
		}
		if json.Unmarshal(x.Choice, &choice) != nil {
			continue
		}
		for _, c := range choice.Delta.Calls {
			i := c.at()
			if i < 0 || i >= bus.MaxCalls {
				f.long = true
				continue
			}
			for len(f.made) <= i {
				f.made = append(f.made, madeCall{})
			}
			m := &f.made[i]
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
	var tools map[string]any
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
func readTools(data json.RawMessage) map[string]any {
	var list []struct {
		Function struct {
			Name       string
			Parameters json.RawMessage
		}
	}
	if json.Unmarshal(data, &list) != nil {
		return nil
	}
	tools := map[string]any{}
	for _, t := range list {
		tools[t.Function.Name] = readSchema(t.Function.Parameters)
	}
	return tools
}

// readSchema reads a JSON schema; nil where it says nothing that is looked at.
func readSchema(data json.RawMessage) (schema any) {
	if json.Unmarshal(data, &schema) == nil && (schema == false || rulesOf(schema, 0) != nil) {
		return schema
	}
	return nil
}

// rulesOf returns a schema's rules; nil if there is nothing to check.
func rulesOf(schema any, depth int) map[string]any {
	m, ok := schema.(map[string]any)
	if !ok || depth >= mostDepth || m["$ref"] != nil {
		return nil
	}
	return m
}

// fitsObject reports whether data is one JSON object that fits a schema.
func fitsObject(data []byte, schema any, budget *int) bool {
	var v any
	if json.Unmarshal(data, &v) != nil {
		return false
	}
	if schema == nil {
		_, object := v.(map[string]any)
		return object
	}
	return fits(schema, v, 0, budget)
}

// fits reports whether a value fits a schema, as far as that is looked at: types, members, items, enum,
// const, anyOf and bounds. What else stands in one is taken to be kept to. False once budget is used up.
func fits(schema, v any, depth int, budget *int) bool {
	if *budget--; *budget <= 0 || schema == false {
		return false
	}
	m := rulesOf(schema, depth)
	if m == nil {
		return true
	}
	list := func(name string) []any { all, _ := m[name].([]any); return all }
	inner := func(schema, v any) bool { return fits(schema, v, depth+1, budget) }
	is := func(t any) bool { name, ok := t.(string); return !ok || isOf(v, name) }
	same := func(x any) bool { return equal(x, v, budget) }
	taken := func(s any) bool { return inner(s, v) }
	if x, ok := m["const"]; ok && !same(x) || !is(m["type"]) ||
		len(list("type")) > 0 && !slices.ContainsFunc(list("type"), is) ||
		len(list("enum")) > 0 && !slices.ContainsFunc(list("enum"), same) ||
		len(list("anyOf")) > 0 && !slices.ContainsFunc(list("anyOf"), taken) {
		return false
	}
	within := func(x float64, least, most string) bool {
		from, below := m[least].(float64)
		to, above := m[most].(float64)
		return (!below || x >= from) && (!above || x <= to)
	}
	switch v := v.(type) {
	case float64:
		return within(v, "minimum", "maximum")
	case string:
		return within(float64(utf8.RuneCountInString(v)), "minLength", "maxLength")
	case []any:
		return within(float64(len(v)), "minItems", "maxItems") && (m["items"] == nil ||
			!slices.ContainsFunc(v, func(x any) bool { return !inner(m["items"], x) }))
	case map[string]any:
		for _, name := range list("required") {
			if name, ok := name.(string); ok && !has(v, name) {
				return false
			}
		}
		members, _ := m["properties"].(map[string]any)
		closed := m["additionalProperties"] == false && m["patternProperties"] == nil
		for name, x := range v {
			of, known := members[name]
			if !known && closed || known && !inner(of, x) {
				return false
			}
		}
	}
	return true
}

func has(m map[string]any, name string) bool { _, ok := m[name]; return ok }

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
