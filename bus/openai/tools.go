package openai

import (
	"encoding/json"
	"fmt"
)

// toolForm is how an API writes a tool of a request, a function that the client runs: its type, and the
// member that says what arguments it takes. What its maker's servers run, or models know, no other has.
type toolForm struct{ kind, schema string }

var (
	tools    = toolForm{`"function"`, "parameters"}
	ownTools = toolForm{`"custom"`, "input_schema"} // Anthropic's: a schema is needed, a type is not
)

// read writes the tools of a request as those of a chat. A body may have very many, so that each is looked at
// alone.
func (f toolForm) read(in map[string]json.RawMessage, out map[string]any) error {
	v, ok := in["tools"]
	if !ok {
		return nil
	}
	if v[0] != '[' {
		return bad("tools: a list of tools is expected")
	}
	o := Out("[")
	n, err := eachItem(v, func(i int, one json.RawMessage) (err error) {
		o, err = f.one(o, fmt.Sprintf("tools[%d]", i), one)
		return err
	})
	if n > 0 {
		o[len(o)-1] = ']'
		out["tools"] = json.RawMessage(o)
	}
	return err
}

// one writes a tool with a comma behind it.
func (f toolForm) one(o Out, at string, tool []byte) (Out, error) {
	names := []string{"name", "description", "strict", f.schema, "type", "function"}
	var is [6]json.RawMessage
	s := Scan(tool)
	again, ok := eachMember(&s, names, func(i int, _, v Span) {
		if i >= 0 && !isNothing(s.Text(v)) {
			is[i] = s.Text(v)
		}
	})
	switch kind, own := string(is[4]), f == ownTools; {
	case !ok:
		return o, bad("%s: an object is expected", at)
	case again != "":
		return o, bad("%s: member %s stands twice: send it once", at, again)
	case is[5] != nil:
		return o, bad("%s.function: name, description and %s stand in the tool itself here", at, f.schema)
	case kind == "" && !own:
		return o, bad("%s.type: %s is expected", at, f.kind)
	case kind != "" && kind != f.kind:
		return o, unsupported("%s.type: %.60s is not taken here: leave it out; tools of type %s are, with %s, "+
			"and whoever asks runs them", at, kind, f.kind[1:len(f.kind)-1], f.schema)
	case len(is[0]) < 3 || is[0][0] != '"':
		return o, bad("%s.name: a name is expected", at)
	case own && (len(is[3]) == 0 || is[3][0] != '{'):
		return o, bad("%s.%s: an object is expected", at, f.schema)
	}
	o = o.Raw(`{"type":"function","function":{"name":`).Raw(string(is[0]))
	for i, as := range []string{`,"description":`, `,"strict":`, `,"parameters":`} {
		if v := is[i+1]; v != nil {
			o = o.Raw(as).Raw(string(v))
		}
	}
	return o.Raw("}},"), nil
}
