package vllmsim

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"souk/bus/openai"
)

var bodies = []string{
	`{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":5,"stream":true,"stream_options":{"include_usage":true}}`,
	`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}],"stop":["x","y"],"n":2,"temperature":0.5}`,
	`{"prompt":[1,2,3],"stop":"x","seed":"7","top_p":1}`, `{"prompt":[[1],[2,3]]}`,
	`{"prompt":["a","b"],"max_tokens":null}`,
	`{"prompt":"\u00e9\ud83d\ude42\ud83d \\ \" \n"}`, `{}`, `[]`, `null`, `"x"`, `1`, ``, ` `, `{`, `{"a"`,
	`{"a":`, `{"a":1`, `{"a":1,`, `{"a":1}x`, `{"a":tru}`, `{"a":01}`, `{"a":1.}`,
	`{"a":"` + "\x01" + `"}`, `{"a":"\x"}`, `{"a":"\u12"}`, `{"messages":"hello"}`, `{"messages":[1]}`,
	`{"messages":[{"content":1}]}`, `{"messages":[{}]}`, `{"prompt":{"a":1}}`, `{"stop":{}}`,
	`{"stop_token_ids":"x"}`,
	`{"max_tokens":1.5}`, `{"max_tokens":true}`, `{"stream":"maybe"}`, `{"temperature":"hot"}`,
	`{"stream_options":7}`, `{"cache_salt":3}`, strings.Repeat("[", 2000),
	`{"a":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`,
	`{"prompt":[-1,99999999999]}`, `{"a":NaN}`, `{"tools":[{"type":"function"}]}`,
}

// A body is read exactly when encoding/json reads it, nesting within limits; then it says the same.
func FuzzParse(f *testing.F) {
	for _, b := range bodies {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, body string) {
		s := scan([]byte(body))
		s.Value()
		s.End()
		if wrong, _ := s.Wrong(); (wrong == "") != json.Valid([]byte(body)) &&
			!strings.HasPrefix(wrong, openai.TooDeep) {
			t.Fatalf("%q: %q, encoding/json says otherwise", body, wrong)
		}
		for _, chat := range []bool{true, false} {
			c, p := parse([]byte(body), chat)
			if (c == nil) == (p == nil) {
				t.Fatalf("%q: %v, %v", body, c, p)
			}
			if p != nil && !json.Valid(p.body()) {
				t.Fatalf("%q: the answer %s is no JSON", body, p.body())
			}
			if p == nil {
				_ = c.check("m", 100)
			}
		}
	})
}

func TestStringsAsEncodingJSON(t *testing.T) {
	for _, text := range []string{"", "plain", "é北🙂", "\"\\/\b\f\n\r\t\x01\x1f\x7f", "\xff broken \xc3",
		"\u2028<>&"} {
		var back string
		if err := json.Unmarshal(openai.Out(nil).Str(text), &back); err != nil ||
			back != strings.ToValidUTF8(text, "\uFFFD") {
			t.Errorf("%q is written %s, read back %q (%v)", text, openai.Out(nil).Str(text), back, err)
		}
		b, _ := json.Marshal(text)
		if got, _ := scan(b).str(); got != strings.ToValidUTF8(text, "\uFFFD") {
			t.Errorf("%s is read as %q", b, got)
		}
	}
	for _, raw := range []string{`"\ud83d\ude42"`, `"\ud83d"`, `"\ud83d\ud83d\ude42"`, `"\ude42x"`,
		`"\u0041\/"`} {
		var want string
		if err := json.Unmarshal([]byte(raw), &want); err != nil {
			t.Fatal(err)
		}
		if got, _ := scan([]byte(raw)).str(); got != want {
			t.Errorf("%s is read as %q, want %q", raw, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	c, p := parse([]byte(bodies[0]), true)
	if p != nil || c.model != "m" || !reflect.DeepEqual(c.messages, []Message{{"user", "hi"}}) ||
		c.maxTokens != (optional{5, true}) || !c.stream || !c.options.Usage {
		t.Errorf("%+v, %v", c, p)
	}
	c, p = parse([]byte(bodies[1]), true)
	if p != nil || c.messages[0].Content != "a\nb" || !reflect.DeepEqual(c.stop, texts{"x", "y"}) ||
		c.unsupported != "n" || c.temperature != 0.5 {
		t.Errorf("%+v, %v", c, p)
	}
	c, p = parse([]byte(`{"prompt":[[1],[2,3]],"max_tokens":9,"max_completion_tokens":4}`), false)
	if p != nil || !reflect.DeepEqual(c.ids, [][]uint32{{1}, {2, 3}}) || c.maxTokens.n != 4 ||
		c.unsupported != "several prompts" {
		t.Errorf("%+v, %v", c, p)
	}
}
