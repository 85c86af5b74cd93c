package openai

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"

	"souk/bus"
)

// Responses is a request to /v1/responses. The market answers chats: such a request is read as a chat of the
// same meaning, and the answer is written as a response ([Response]).
type Responses struct {
	Chat  []byte    // the body of a chat that asks the same
	Store bool      // later requests may name what is answered, by its items' ids
	Tags  []bus.Tag // of its metadata, which no chat is told

	echo map[string]json.RawMessage // what the answer repeats of the request
}

// MaxEcho bounds what an answer repeats of its request, in bytes; beyond that it says what is said of
// requests without such members.
const MaxEcho = 16 << 10

// passed are members of a request that mean the same to a chat.
var passed = []string{"model", "stream", "temperature", "top_p", "parallel_tool_calls", "prompt_cache_key",
	"souk", "user", "seed", "stop", "top_k", "min_p", "presence_penalty", "frequency_penalty",
	"repetition_penalty", "logit_bias", "chat_template_kwargs", "top_logprobs", "cache_salt"}

// ignored are members that change nothing of an answer here.
var ignored = []string{"store", "metadata", "service_tier", "safety_identifier", "prompt_cache_retention",
	"prompt_cache_options", "stream_options", "max_tool_calls", "include", "verbosity"}

// read are all members that are known.
var read = slices.Concat(passed, ignored, []string{"previous_response_id", "conversation", "background",
	"truncation", "prompt", "input", "instructions", "max_output_tokens", "tools", "tool_choice", "text",
	"reasoning"})

// echoed are members that an answer repeats, and what it says where the request has none.
var echoed = []struct{ name, without string }{
	{"frequency_penalty", "0"}, {"instructions", "null"}, {"max_output_tokens", "null"}, {"metadata", "{}"},
	{"parallel_tool_calls", "true"}, {"presence_penalty", "0"}, {"prompt_cache_key", "null"},
	{"reasoning", `{"effort":null,"summary":null}`}, {"temperature", "1"},
	{"text", `{"format":{"type":"text"}}`}, {"tool_choice", `"auto"`}, {"tools", "[]"}, {"top_logprobs", "0"},
	{"top_p", "1"}, {"user", "null"},
}

// ReadResponses reads the body of a request. known finds an item of an earlier answer by its id.
//
// What would need a store of answers, or tools that somebody else than the client runs, is
// CodeUnsupportedField. Reasoning of earlier answers goes back to the engine as far as it is plain text.
func ReadResponses(data []byte, known func(id string) ([]byte, bool)) (*Responses, *bus.Error) {
	r := &Responses{Store: true}
	if err := r.read(data, known); err != nil {
		return nil, asError(err)
	}
	return r, nil
}

func (r *Responses) read(data []byte, known func(id string) ([]byte, bool)) error {
	in, again, err := readMembers(data, read, `{"model": "auto", "input": "Hello"}`)
	if err != nil {
		return err
	}
	if err := r.refuse(in); err != nil {
		return err
	}
	if again != "" {
		return bad("%s: the member stands twice: send it once", again)
	}
	c := &conversation{known: known}
	if v, ok := in["instructions"]; ok {
		if v[0] != '"' {
			return bad("instructions: a string is expected")
		}
		c.add(chatMessage{Role: "system", Content: v})
	}
	if err := c.input(in["input"]); err != nil {
		return err
	}
	switch n := len(c.messages); {
	case n == 0:
		return bad("input: the list is empty: send a string or an item at least")
	case n > bus.MaxMessages:
		return unsupported("input: more than %d messages; send fewer", bus.MaxMessages)
	case c.silent():
		return refusal(bus.CodeEmptyPrompt, "input: it is empty: give it some text")
	}
	out := map[string]any{"messages": c.messages}
	for _, name := range passed {
		if v, ok := in[name]; ok {
			out[name] = v
		}
	}
	if err := mostTokens("max_output_tokens", in, out); err != nil {
		return err
	}
	err = r.rest(in, out)
	if err == nil {
		err = toolChoice(in, out)
	}
	if err != nil {
		return err
	}
	if r.Chat, err = encodeJSON(out); err != nil {
		return bad("the body: %v", err)
	}
	r.Tags = metadata(nil, in["metadata"])
	r.keepEcho(in)
	return nil
}

// readMembers reads the members of a body, without those that say nothing; again is the first of the names
// that stands there twice.
func readMembers(data []byte, names []string, example string) (in map[string]json.RawMessage, again string,
	err error) {
	if err := isText(data); err != nil {
		return nil, "", err
	}
	s := Scan(data)
	s.Deepest, s.Paired = deepest, true
	if s.Next() != '{' {
		return nil, "", bad("the body is not a JSON object: send one like %s", example)
	}
	in = map[string]json.RawMessage{}
	again, ok := eachMember(&s, names, func(_ int, key, v Span) {
		if name := string(s.Name(key)); isNothing(s.Text(v)) {
			delete(in, name)
		} else {
			in[name] = s.Text(v)
		}
	})
	if !ok || !s.End() {
		return nil, "", asError(s.Err())
	}
	return in, again, nil
}

// eachMember reads an object; each is called with every member, with its number among the names, -1 for
// others. again is the first name that stands there twice: nobody can know which is meant. Some readers
// ignore case in names, so names that differ in case alone count as the same.
func eachMember(s *Scanner, names []string, each func(i int, key, v Span)) (again string, ok bool) {
	seen := make([]bool, len(names))
	ok = s.Object(func(key Span) bool {
		v, ok := s.Value()
		if !ok {
			return false
		}
		name := s.Name(key)
		i := slices.IndexFunc(names, func(n string) bool { return n == string(name) })
		if i < 0 {
			i = slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, string(name)) })
		}
		switch {
		case i < 0:
		case seen[i] && again == "":
			again = names[i]
		default:
			seen[i] = true
		}
		each(i, key, v)
		return true
	})
	return again, ok
}

// mostTokens reads the member that bounds the answer.
func mostTokens(name string, in map[string]json.RawMessage, out map[string]any) error {
	v, ok := in[name]
	if !ok {
		return nil
	}
	var most float64 // 64.0, as engines take it
	if json.Unmarshal(v, &most) != nil || most != math.Trunc(most) || most < 1 || most > bus.MaxTokens {
		return bad("%s: %.40s is not a whole number from 1 to %d", name, v, bus.MaxTokens)
	}
	out["max_completion_tokens"] = int(most)
	return nil
}

// isNothing reports whether a member says nothing.
func isNothing(v []byte) bool { return string(v) == "null" }

// refuse names what is not served here.
func (r *Responses) refuse(in map[string]json.RawMessage) error {
	if _, ok := in["messages"]; ok {
		return unsupported("messages: this endpoint takes input; chats go to /v1/chat/completions")
	}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		v := in[name]
		switch {
		case name == "previous_response_id" || name == "conversation":
			return unsupported("%s: answers are not stored here: send the whole conversation as input", name)
		case name == "background" && string(v) != "false":
			return unsupported("background: answers are not stored here: ask with stream: true")
		case name == "truncation" && string(v) != `"disabled"`:
			return unsupported("truncation: %.40s; an input is taken whole or refused: leave it out", v)
		case name == "prompt":
			return unsupported("prompt: templates are not stored here: send instructions and input")
		case !slices.Contains(read, name):
			return unsupported("%.60s: this endpoint does not know it: leave it out", name)
		}
	}
	return nil
}

// rest reads members that are said otherwise to a chat, or have something in them that is not served.
func (r *Responses) rest(in map[string]json.RawMessage, out map[string]any) error {
	var (
		stream struct {
			Obfuscation bool `json:"include_obfuscation"` // usage always comes
		}
		cache struct{ Prewarm bool } // of what else is there engines decide
		text  struct {
			Format map[string]json.RawMessage `json:"format"`
		}
		reasoning struct{ Effort *string }
		include   []string
	)
	for _, m := range []struct {
		name string
		to   any
		want string
	}{
		{"store", &r.Store, "true or false"},
		{"text", &text, "an object with a format"}, {"reasoning", &reasoning, "an object with an effort"},
		{"include", &include, "a list of names"},
		{"stream_options", &stream, "an object, in which include_obfuscation is true or false,"},
		{"prompt_cache_options", &cache, "an object, in which prewarm is true or false,"},
	} {
		if v, ok := in[m.name]; ok && json.Unmarshal(v, m.to) != nil {
			return bad("%s: %s is expected", m.name, m.want)
		}
	}
	switch {
	case stream.Obfuscation:
		return errObfuscation
	case cache.Prewarm: // it would be given an answer, and pay it
		return unsupported("prompt_cache_options.prewarm: every request is given an answer here: leave it out")
	case reasoning.Effort != nil:
		out["reasoning_effort"] = *reasoning.Effort
	}
	if _, ok := in["top_logprobs"]; ok || slices.Contains(include, "message.output_text.logprobs") {
		out["logprobs"] = true
	}
	if err := tools.read(in, out); err != nil {
		return err
	}
	return format(text.Format, out)
}

// keepEcho keeps what the answer repeats.
func (r *Responses) keepEcho(in map[string]json.RawMessage) {
	r.echo = map[string]json.RawMessage{}
	size := 0
	for _, e := range echoed {
		v, ok := in[e.name]
		r.echo[e.name] = json.RawMessage(e.without)
		if size += len(v); ok && size <= MaxEcho {
			line := Out(nil).compact(v) // a line's end would end a line of events
			if size += max(0, len(line)-len(v)); size <= MaxEcho {
				r.echo[e.name] = json.RawMessage(line)
			}
		}
	}
}

func toolChoice(in map[string]json.RawMessage, out map[string]any) error {
	v, ok := in["tool_choice"]
	switch {
	case !ok:
		return nil
	case v[0] == '"':
		out["tool_choice"] = v
		return nil
	}
	var choice struct{ Type, Name string }
	if json.Unmarshal(v, &choice) != nil || choice.Type != "function" || choice.Name == "" {
		return unsupported("tool_choice: %.60s; none, auto, required, or a function by its name", v)
	}
	out["tool_choice"] = map[string]any{"type": "function",
		"function": map[string]string{"name": choice.Name}}
	return nil
}

// format is the shape of the answer's text.
func format(of map[string]json.RawMessage, out map[string]any) error {
	switch kind := string(of["type"]); {
	case of == nil || kind == `"text"`:
	case kind == `"json_object"`:
		out["response_format"] = map[string]string{"type": "json_object"}
	case kind == `"json_schema"`:
		delete(of, "type")
		out["response_format"] = map[string]any{"type": "json_schema", "json_schema": of}
	default:
		return unsupported("text.format.type: %.40s is none of text, json_object and json_schema", kind)
	}
	return nil
}
