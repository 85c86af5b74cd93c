package vllm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"souk/agentd"
	"souk/bus"
	"souk/bus/openai"
)

// counter is a server that counts prompts as tokens says: not at all where that is false, and it fails below
// 0.
func counter(t *testing.T, tokens func(q map[string]any, body string) (int, bool)) *Engine {
	return engineAt(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		var q map[string]any
		if r.URL.Path != "/tokenize" || json.NewDecoder(r.Body).Decode(&q) != nil {
			http.NotFound(w, r)
			return
		}
		text, _ := q["prompt"].(string)
		n, ok := tokens(q, text)
		switch {
		case n < 0:
			w.WriteHeader(http.StatusInternalServerError)
			return
		case !ok:
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		ids := make([]uint32, n)
		for i := range min(n, len(text)) {
			ids[i] = uint32(text[i])
		}
		json.NewEncoder(w).Encode(map[string]any{"count": n, "tokens": ids})
	}).URL)
}

// chatML is the size of a chat as a plain template writes it.
func chatML(q map[string]any, header, each int) (n int) {
	n = header
	if tools, ok := q["tools"]; ok {
		data, _ := json.MarshalIndent(tools, "", "    ")
		n += 150 + len(data)
	}
	if args, ok := q["chat_template_kwargs"].(map[string]any); ok && args["enable_thinking"] == false {
		n += 4 * len(q["messages"].([]any))
	}
	for _, m := range q["messages"].([]any) {
		m := m.(map[string]any)
		n += each
		if s, ok := m["content"].(string); ok {
			n += len(s)
		}
		if c, ok := m["tool_calls"]; ok {
			data, _ := json.MarshalIndent(c, "", " ")
			n += 12*len(c.([]any)) + len(data)
		}
	}
	return n
}

// Whatever a client writes, its prompt has no more tokens than the measured template and its bytes say.
func TestTemplatesAreMeasured(t *testing.T) {
	e := counter(t, func(q map[string]any, text string) (int, bool) {
		if _, ok := q["messages"]; !ok {
			return len(text), true
		}
		return chatML(q, 9, 5), true
	})
	template := e.template(context.Background())
	if template == nil || template.Tools < 0 || template.Wide != 1 || template.Fixed > 100 ||
		template.Each > 30 {
		t.Fatalf("measured %+v", template)
	}
	for _, body := range []string{
		`{"messages":[{"role":"user","content":"` + strings.Repeat("!?", 3000) + `"}]}`,
		`{"messages":[` + strings.Repeat(`{"role":"user","content":"."},{"role":"assistant","content":""},`,
			200) + `{"role":"user","content":"."}],"chat_template_kwargs":{"enable_thinking":false}}`,
		`{"messages":[{"role":"user","content":"."}],"tools":[` +
			strings.Repeat(`{"type":"function","function":{"name":"f","parameters":{"a":{"b":{"c":[1,2,{"d":null}]}}}}},`, 40) + `{"type":"function","function":{"name":"f"}}]}`,
		`{"messages":[{"role":"user","content":"."},{"role":"assistant","tool_calls":[` +
			strings.Repeat(`{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}},`, 40) +
			`{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]}]}`,
	} {
		p, err := openai.Measure([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		var q map[string]any
		if err := json.Unmarshal([]byte(body), &q); err != nil {
			t.Fatal(err)
		}
		bound, ok := template.Bound(&p)
		if n := chatML(q, 9, 5); !ok || bound < n {
			t.Errorf("bound %d (%v), the engine counts %d: %.200s", bound, ok, n, body)
		}
	}
}

func TestTemplatesThatCannotBeMeasured(t *testing.T) {
	for name, count := range map[string]func(q map[string]any, text string) (int, bool){
		"a server that does not count": func(map[string]any, string) (int, bool) { return 0, false },
		"a server that fails once": func() func(q map[string]any, text string) (int, bool) {
			n := 0
			return func(q map[string]any, text string) (int, bool) {
				if n++; n == 40 {
					return -1, false
				}
				if _, ok := q["messages"]; !ok {
					return len(text), true
				}
				return chatML(q, 9, 5), true
			}
		}(),
		"a template that writes a message twice": func(q map[string]any, text string) (int, bool) {
			if _, ok := q["messages"]; !ok {
				return len(text), true
			}
			return 2 * chatML(q, 9, 5), true
		},
		"a template that says the system prompt with every message": func(q map[string]any, text string) (int,
			bool) {
			if _, ok := q["messages"]; !ok {
				return len(text), true
			}
			n := chatML(q, 9, 5)
			all := q["messages"].([]any)
			if m := all[0].(map[string]any); m["role"] == "system" {
				n += len(m["content"].(string)) * len(all)
			}
			return n, true
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := counter(t, count).template(context.Background()); got != nil {
				t.Errorf("measured %+v", got)
			}
		})
	}
	t.Run("a template that writes tools twice", func(t *testing.T) {
		got := counter(t, func(q map[string]any, text string) (int, bool) {
			if _, ok := q["messages"]; !ok {
				return len(text), true
			}
			n := chatML(q, 9, 5)
			if tools, ok := q["tools"]; ok {
				data, _ := json.Marshal(tools)
				n += len(data)
			}
			return n, true
		}).template(context.Background())
		if got == nil || got.Tools >= 0 {
			t.Errorf("measured %+v", got)
		}
	})
}

// Tokenizers that normalise text count what they make of it.
func TestNormalFormsAreFound(t *testing.T) {
	for want, forms := range map[int][]string{1: nil, 3: {"\U0001D160", "\U0001D158\U0001D165\U0001D16E"},
		11: {"\uFDFA", "صلى الله عليه وسلم"}} {
		e := counter(t, func(q map[string]any, text string) (int, bool) {
			if _, ok := q["messages"]; !ok {
				return len(text), true
			}
			return chatML(q, 9, 5), true
		})
		if forms != nil {
			e = engineAt(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
				var q map[string]any
				json.NewDecoder(r.Body).Decode(&q)
				n := 0
				text, _ := q["prompt"].(string)
				if text = strings.ReplaceAll(text, forms[0], forms[1]); text != "" {
					n = len(text)
				} else {
					n = chatML(q, 9, 5)
				}
				ids := make([]uint32, n)
				for i := range text {
					ids[i] = uint32(text[i])
				}
				json.NewEncoder(w).Encode(map[string]any{"tokens": ids})
			}).URL)
		}
		if got := e.template(context.Background()); got == nil || got.Wide != want {
			t.Errorf("measured %+v, want %d tokens a byte", got, want)
		}
	}
}

// A prompt that its bytes do not bound is counted before the engine computes anything.
func TestCountedBeforeItIsComputed(t *testing.T) {
	asked := 0
	e := engineAt(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/tokenize":
			fmt.Fprint(w, `{"count":5,"tokens":[1,2,3,4,5]}`)
		default:
			asked++
			http.NotFound(w, r)
		}
	}).URL)
	refused := fmt.Errorf("too long")
	r := agentd.Request{Kind: bus.KindChat,
		Body:      []byte(`{"messages":[{"role":"user","content":"hi"}],"chat_template_kwargs":{"x":"y"}}`),
		MaxTokens: 1, Count: true}
	_, err := e.Complete(context.Background(), r, func(c agentd.Chunk) error {
		if c.Counted != 5 || c.Events != 0 {
			t.Errorf("%+v", c)
		}
		return refused
	})
	if err != refused || asked != 0 {
		t.Errorf("error %v, the engine was asked %d times", err, asked)
	}
}

// What is left of the context behind a counted prompt bounds max_tokens; where nothing is, the engine says
// so.
func TestCountedForWhatIsLeft(t *testing.T) {
	for context, want := range map[int]string{0: "50", 60: "50", 12: "7", 5: "1", 4: "1"} {
		told := ""
		e := engineAt(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/tokenize" {
				fmt.Fprint(w, `{"count":5,"tokens":[1,2,3,4,5]}`)
				return
			}
			var q struct {
				Most json.Number `json:"max_tokens"`
			}
			json.NewDecoder(r.Body).Decode(&q)
			told = q.Most.String()
			http.Error(w, `{"error":{"message":"the context length is 5"}}`, http.StatusBadRequest)
		}).URL)
		_, err := e.Complete(t.Context(), agentd.Request{Kind: bus.KindChat, MaxTokens: 50, Count: true,
			Context: context, Body: []byte(`{"messages":[{"role":"user","content":"hi"}]}`)},
			func(agentd.Chunk) error { return nil })
		var no *agentd.EngineError
		if told != want || !errors.As(err, &no) || no.Code != bus.CodePromptTooLong {
			t.Errorf("of %d the engine is told %s, want %s: %v", context, told, want, err)
		}
	}
}

// A template that counts an earlier answer's reasoning keeps it; one that counts none forgets it; of a server
// that does not count nothing is said.
func TestATemplateThatForgetsReasoning(t *testing.T) {
	for name, c := range map[string]struct {
		each int // tokens for each byte of reasoning
		ok   bool
		want bool
	}{"forgets": {0, true, true}, "keeps": {1, true, false}, "does not count": {0, false, false}} {
		e := counter(t, func(q map[string]any, _ string) (int, bool) {
			n := 0
			for _, m := range q["messages"].([]any) {
				thought, _ := m.(map[string]any)["reasoning"].(string)
				n += 4 + c.each*len(thought)
			}
			return n, c.ok
		})
		if got := e.forgets(context.Background()); got != c.want {
			t.Errorf("one that %s: forgets %v", name, got)
		}
	}
}
