package vllm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"souk/agentd"
	"souk/bus"
)

// parsed is an answer with reasoning, text and two tool calls, and what a real server's parsers said of each
// of its tokens.
type parsed struct {
	Chat   map[string]any
	Prompt []uint32
	Tokens []uint32
	Events []json.RawMessage
	Last   json.RawMessage
}

func recordedParse(t *testing.T) (p parsed) {
	t.Helper()
	data, err := os.ReadFile("testdata/parsed.json")
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err != nil || len(p.Events) != len(p.Tokens) {
		t.Fatalf("%d events of %d tokens, %v", len(p.Events), len(p.Tokens), err)
	}
	return p
}

type parsedChoice struct {
	Delta struct {
		Content   string       `json:"content"`
		Reasoning string       `json:"reasoning"`
		Calls     []parsedCall `json:"tool_calls"`
	} `json:"delta"`
	Finish *string `json:"finish_reason"`
}

type parsedCall struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// told collects events as a reader does.
type told struct {
	text, reasoning string
	calls           map[int]string
	ids             []string
}

func tell(t *testing.T, events ...json.RawMessage) (x told) {
	t.Helper()
	x.calls = map[int]string{}
	for _, raw := range events {
		if null(raw) {
			continue
		}
		var c parsedChoice
		if err := json.Unmarshal(raw, &c); err != nil {
			t.Fatal(err)
		}
		x.text += c.Delta.Content
		x.reasoning += c.Delta.Reasoning
		for _, call := range c.Delta.Calls {
			if call.ID != "" {
				x.ids = append(x.ids, call.ID)
			}
			x.calls[call.Index] += call.Function.Name + call.Function.Arguments
		}
	}
	return x
}

// lending is a server that lends its parsers: it streams the recorded answer's tokens as a completion, and
// says of tokens what the recording says.
type lending struct {
	t        *testing.T
	p        parsed
	off      bool // not started with --enable-scale-out
	plain    bool // it has no parser
	asked    int  // of derender
	fewest   int  // tokens of a question but the last
	requests int
}

func (l *lending) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/metrics" { // beside others, where the machine is busy and its words come late
		return
	}
	l.requests++
	body, err := io.ReadAll(r.Body)
	if err != nil {
		l.t.Error(err)
	}
	switch {
	case l.off && r.URL.Path != "/v1/completions":
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, `{"error":{"message":"Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them."}}`)
	case r.URL.Path == "/v1/chat/completions/render":
		if strings.Contains(string(body), `"stream`) || !strings.Contains(string(body), `"tools"`) {
			l.t.Errorf("render was asked %s", body)
		}
		json.NewEncoder(w).Encode(map[string]any{"token_ids": l.p.Prompt})
	case r.URL.Path == "/v1/chat/completions/derender":
		l.derender(w, body)
	case r.URL.Path == "/v1/completions":
		l.complete(w, body)
	default:
		l.t.Errorf("%s was asked", r.URL.Path)
	}
}

func (l *lending) derender(w http.ResponseWriter, body []byte) {
	var q struct {
		Stream bool
		Model  string
		Chat   map[string]any `json:"chat_request"`
		Prompt []uint32       `json:"prompt_token_ids"`
		State  struct {
			Role   bool     `json:"role_sent"`
			Tokens []uint32 `json:"output_token_ids"`
			Pieces []int    `json:"output_chunk_lens"`
			Tools  bool     `json:"tools_streamed"`
			Calls  []string `json:"last_tool_call_ids"`
		} `json:"stream_state"`
		Chunk struct {
			Choices []struct {
				Tokens []uint32 `json:"token_ids"`
				Finish *string  `json:"finish_reason"`
			}
		} `json:"generate_chunk"`
	}
	if err := json.Unmarshal(body, &q); err != nil || len(q.Chunk.Choices) != 1 {
		l.t.Fatalf("derender was asked %s: %v", body, err)
	}
	n, more, sum := len(q.State.Tokens), q.Chunk.Choices[0].Tokens, 0
	for _, k := range q.State.Pieces {
		sum += k
	}
	if !q.Stream || q.Model != "m" || !q.State.Role || q.Chat["tools"] == nil || q.Chat["model"] != "m" ||
		q.Chat["stream"] != nil || !slices.Equal(q.Prompt, l.p.Prompt) ||
		sum != n || n+len(more) > len(l.p.Tokens) ||
		!slices.Equal(append(slices.Clone(q.State.Tokens), more...), l.p.Tokens[:n+len(more)]) {
		l.t.Fatalf("derender was asked %s", body)
	}
	l.asked++
	events := slices.Clone(l.p.Events[n : n+len(more)])
	finish := q.Chunk.Choices[0].Finish
	if finish != nil {
		events = append(events, l.p.Last)
	} else {
		l.fewest = min(l.fewest, len(more))
	}
	x := tell(l.t, events...)
	if before := tell(l.t, l.p.Events[:n]...); !slices.Equal(before.ids, q.State.Calls) ||
		q.State.Tools != (len(before.ids) > 0) {
		l.t.Errorf("after %d tokens the calls are %q, want %q", n, q.State.Calls, before.ids)
	}
	delta := map[string]any{}
	if x.text != "" {
		delta["content"] = x.text
	}
	if x.reasoning != "" {
		delta["reasoning"] = x.reasoning
	}
	var calls []json.RawMessage
	for _, raw := range events {
		var c struct {
			Delta struct {
				Calls []json.RawMessage `json:"tool_calls"`
			}
		}
		if !null(raw) && json.Unmarshal(raw, &c) == nil {
			calls = append(calls, c.Delta.Calls...)
		}
	}
	if calls != nil {
		delta["tool_calls"] = calls
	}
	reason := finish
	if finish != nil {
		var c parsedChoice
		json.Unmarshal(l.p.Last, &c)
		reason = c.Finish
	}
	tokens, pieces := l.p.Tokens[:n+len(more)], q.State.Pieces
	if len(more) > 0 {
		pieces = append(pieces, len(more))
	}
	if l.plain {
		tokens = q.State.Tokens
	}
	json.NewEncoder(w).Encode(map[string]any{
		"chunk": map[string]any{"choices": []any{map[string]any{"index": 0, "delta": delta, "logprobs": nil,
			"finish_reason": reason, "stop_reason": nil, "token_ids": more}}},
		"stream_state": map[string]any{"role_sent": true, "output_token_ids": tokens,
			"output_chunk_lens":  pieces,
			"tools_streamed":     q.State.Tools || len(x.ids) > 0,
			"last_tool_call_ids": append(slices.Clone(q.State.Calls), x.ids...)},
	})
}

func (l *lending) complete(w http.ResponseWriter, body []byte) {
	var q struct {
		Prompt []uint32
		Max    int `json:"max_tokens"`
	}
	if err := json.Unmarshal(body, &q); err != nil || len(q.Prompt) < len(l.p.Prompt) {
		l.t.Fatalf("a completion was asked as %s: %v", body, err)
	}
	kept := len(q.Prompt) - len(l.p.Prompt)
	if !slices.Equal(q.Prompt, append(slices.Clone(l.p.Prompt), l.p.Tokens[:kept]...)) {
		l.t.Errorf("a completion goes on from %d, not from the prompt and the answer's first %d", q.Prompt,
			kept)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	rest := l.p.Tokens[kept:]
	for i, id := range rest[:min(len(rest), q.Max)] {
		prompt, finish := "null", "null"
		if i == 0 {
			prompt = fmt.Sprint(strings.Join(strings.Fields(fmt.Sprint(q.Prompt)), ","))
		}
		if i == len(rest)-1 {
			finish = `"stop"`
		} else if i == q.Max-1 {
			finish = `"length"`
		}
		fmt.Fprintf(w, `data: {"id":"c","choices":[{"index":0,"text":"raw","logprobs":null,"finish_reason":%s,"stop_reason":null,"token_ids":[%d],"prompt_token_ids":%s}]}`+"\n\n", finish, id, prompt)
		w.(http.Flusher).Flush()
	}
	fmt.Fprintf(w, `data: {"id":"c","choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":32}}}`+"\n\ndata: [DONE]\n\n", len(q.Prompt), min(len(rest), q.Max))
}

func (l *lending) goesOn(k, left int, members map[string]any) (x told, tokens []uint32, first agentd.Chunk,
	a agentd.Answer, err error) {
	chat := map[string]any{"stream": true, "stream_options": map[string]any{"include_usage": true}}
	for name, v := range l.p.Chat {
		chat[name] = v
	}
	for name, v := range members {
		chat[name] = v
	}
	body, _ := json.Marshal(chat)
	had := tell(l.t, l.p.Events[:k]...)
	r := agentd.Request{Kind: bus.KindChat, Body: body, Model: "m", MaxTokens: left, Prompt: 100,
		Resume: &agentd.Resume{Tokens: l.p.Tokens[:k], Text: had.text, Reasoning: had.reasoning,
			Calls: had.ids, Whole: 1000}}
	var events []json.RawMessage
	n, ended := 0, false
	a, err = engineAt(l.t, serve(l.t, l.ServeHTTP).URL).Complete(context.Background(), r,
		func(c agentd.Chunk) error {
			if n++; n == 1 {
				first = c
			}
			if ended {
				l.t.Error("a chunk after the last")
			}
			ended = c.Finish
			tokens = append(tokens, c.Tokens...)
			x.text += c.Text
			for _, e := range c.Extra {
				events = append(events, e.Choice)
				if !strings.Contains(c.Text, tell(l.t, e.Choice).text) {
					l.t.Errorf("text %q beside %s", c.Text, e.Choice)
				}
			}
			return nil
		})
	if err == nil && !ended {
		l.t.Error("no chunk said that it was the last")
	}
	y := tell(l.t, events...)
	y.text = x.text
	return y, tokens, first, a, err
}

// An answer of reasoning, text and tool calls that broke off after any token goes on exactly: in the middle
// of a character, of the reasoning, between the markers, in a call's arguments.
func TestAnAnswerWithToolCallsGoesOnAtEveryToken(t *testing.T) {
	p := recordedParse(t)
	for k := 1; k < len(p.Tokens); k++ {
		l := &lending{t: t, p: p, fewest: len(p.Tokens)}
		got, tokens, first, a, err := l.goesOn(k, 1000, nil)
		want := tell(t, p.Events[k:]...)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) || !slices.Equal(tokens, p.Tokens[k:]) {
			t.Fatalf("after %d tokens: %+v, want\n%+v; %d tokens, %v", k, got, want, len(tokens), err)
		}
		if first.Base != len(p.Prompt) || first.Kept != k || a.Finish != "tool_calls" || a.Unmetered ||
			a.Usage.Prompt != len(p.Prompt)+k || a.Usage.Output != len(p.Tokens)-k {
			t.Errorf("after %d tokens: %+v, %+v", k, first, a)
		}
		if l.fewest < parseLeast/2 || l.asked > len(p.Tokens)/(parseLeast/2)+1 {
			t.Errorf("after %d tokens: %d questions, of %d tokens at the least", k, l.asked, l.fewest)
		}
	}
}

// The limit of the whole answer holds, also where nothing is left of it.
func TestAnAnswerWithToolCallsHasItsLimit(t *testing.T) {
	p := recordedParse(t)
	for _, left := range []int{0, 3} {
		l := &lending{t: t, p: p, fewest: len(p.Tokens)}
		_, tokens, _, a, err := l.goesOn(20, left, nil)
		if err != nil || len(tokens) != left || a.Usage.Output != left {
			t.Errorf("%d left: %d tokens, %+v, %v", left, len(tokens), a, err)
		}
	}
}

func TestAnswersThatNoParserContinues(t *testing.T) {
	p := recordedParse(t)
	for name, c := range map[string]struct {
		server  lending
		members map[string]any
		why     string
	}{
		"not lent":          {lending{off: true}, nil, "--enable-scale-out"},
		"no parser there":   {lending{plain: true}, nil, "no parser"},
		"a stop string":     {lending{}, map[string]any{"stop": "x"}, "stop"},
		"log probabilities": {lending{}, map[string]any{"logprobs": true}, "logprobs"},
		"a required call":   {lending{}, map[string]any{"tool_choice": "required"}, "tool_choice"},
	} {
		t.Run(name, func(t *testing.T) {
			l := c.server
			l.t, l.p = t, p
			_, tokens, _, a, err := l.goesOn(20, 1000, c.members)
			var e *agentd.EngineError
			if !errors.As(err, &e) || e.Code != bus.CodeAgentFailed ||
				!strings.Contains(err.Error(), c.why) ||
				len(tokens) > 0 {
				t.Errorf("%d tokens, %+v, %v", len(tokens), a, err)
			}
		})
	}
}

// Reasoning that has ended needs no parser: what follows is text, at an engine that lends nothing as well.
func TestTextAfterReasoningGoesOn(t *testing.T) {
	p := recordedParse(t)
	p.Chat = map[string]any{"messages": p.Chat["messages"]}
	k := 0
	for tell(t, p.Events[:k]...).text != "Let me see:" {
		k++
	}
	had := tell(t, p.Events[:k]...)
	l := &lending{t: t, p: p}
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/tokenize":
			json.NewEncoder(w).Encode(map[string]any{"tokens": p.Prompt})
		case "/detokenize":
			json.NewEncoder(w).Encode(map[string]any{"prompt": had.reasoning + "</think>" + had.text})
		default:
			l.ServeHTTP(w, r)
		}
	}).URL
	text := ""
	body, _ := json.Marshal(p.Chat)
	a, err := engineAt(t, url).Complete(context.Background(),
		agentd.Request{Kind: bus.KindChat, Body: body, Model: "m", MaxTokens: 3,
			Resume: &agentd.Resume{Tokens: p.Tokens[:k], Text: had.text, Reasoning: had.reasoning,
				Whole: 1000}}, func(c agentd.Chunk) error {
			text += c.Text
			return nil
		})
	if err != nil || text != "rawrawraw" || a.Finish != "length" || l.requests != 1 {
		t.Errorf("%q, %+v, %v; %d requests", text, a, err, l.requests)
	}
}
