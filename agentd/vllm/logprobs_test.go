package vllm

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"souk/agentd"
	"souk/bus"
)

// choicesOf are the events of a recording that have log probabilities: choices[0] of each.
func choicesOf(t *testing.T, name string) (out []json.RawMessage) {
	t.Helper()
	for _, chunk := range recorded(t, name).Response.Chunks {
		for line := range strings.Lines(chunk[1].(string)) {
			var e struct {
				Choices []json.RawMessage
			}
			if data, ok := strings.CutPrefix(line, "data: {"); !ok ||
				json.Unmarshal([]byte("{"+data), &e) != nil || len(e.Choices) == 0 {
				continue
			}
			var c struct{ Logprobs json.RawMessage }
			if err := json.Unmarshal(e.Choices[0], &c); err != nil {
				t.Fatal(err)
			}
			if !null(c.Logprobs) {
				out = append(out, e.Choices[0])
			}
		}
	}
	if len(out) < 20 {
		t.Fatalf("%s: %d events", name, len(out))
	}
	return out
}

func askLogs(t *testing.T, kind, body, before string) *logs {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &members); err != nil {
		t.Fatal(err)
	}
	l, err := askedLogs(kind, members, before)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A real server gave the same tokens as a chat and as a completion of the chat's prompt: the latter's events
// become the former's.
func TestLogprobsOfACompletionBecomeThoseOfAChat(t *testing.T) {
	chat, completion := choicesOf(t, "chat_logprobs_stream"), choicesOf(t, "completion_logprobs_stream")
	if len(chat) != len(completion) {
		t.Fatalf("%d events and %d", len(chat), len(completion))
	}
	l := askLogs(t, bus.KindChat, `{"logprobs":true,"top_logprobs":4}`, "")
	read := func(data []byte) (v map[string]any) {
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	alike := 0
	for i := range chat {
		got, err := l.choice(completion[i], read(completion[i])["text"].(string), "")
		if err != nil {
			t.Fatal(err)
		}
		want, have := read(chat[i]), read(got)
		for k, content := range want["logprobs"].(map[string]any)["content"].([]any) {
			entry := content.(map[string]any)
			one := have["logprobs"].(map[string]any)["content"].([]any)[k].(map[string]any)
			// Parts of characters read alike: of those the completion has one.
			seen, all := map[string]bool{}, entry["top_logprobs"].([]any)
			var distinct []any
			for _, c := range all {
				if text := c.(map[string]any)["token"].(string); !seen[text] {
					seen[text], distinct = true, append(distinct, c)
				}
			}
			top := one["top_logprobs"].([]any)
			if len(distinct) < len(all) || len(top) < len(all) {
				alike++
				entry["top_logprobs"], one["top_logprobs"] = distinct[:min(len(distinct), len(top))],
					top[:min(len(distinct), len(top))]
			}
		}
		if !reflect.DeepEqual(have, want) {
			t.Errorf("event %d:\n%s, want\n%s", i, got, chat[i])
		}
	}
	if alike > len(chat)/4 {
		t.Errorf("%d of %d events were compared in part", alike, len(chat))
	}
}

// A completion's events keep their shape; characters are counted from the answer's own beginning.
func TestLogprobsOfACompletionCountOn(t *testing.T) {
	const before = "Ein Café: "
	l := askLogs(t, bus.KindCompletion, `{"logprobs":4}`, before)
	for i, raw := range choicesOf(t, "completion_logprobs_stream") {
		got, err := l.choice(raw, "said", "")
		if err != nil {
			t.Fatal(err)
		}
		var have, want struct {
			Text     string
			Logprobs completionLogs
			Tokens   []int `json:"token_ids"`
		}
		if json.Unmarshal(got, &have) != nil || json.Unmarshal(raw, &want) != nil {
			t.Fatalf("%s", got)
		}
		want.Text = "said"
		want.Logprobs.Offsets[0] += utf8.RuneCountInString(before)
		if !reflect.DeepEqual(have, want) {
			t.Errorf("event %d: %+v, want %+v", i, have, want)
		}
	}
}

// An answer that we end at a stop string says so in its last event.
func TestLogprobsOfTheEventThatStops(t *testing.T) {
	raw := json.RawMessage(`{"index":0,"text":"x","logprobs":{"text_offset":[0],"token_logprobs":[null],"tokens":["é"],"top_logprobs":[null]},"finish_reason":null,"stop_reason":null,"token_ids":[5]}`)
	got, err := askLogs(t, bus.KindChat, `{"logprobs":true}`, "").choice(raw, "", "end")
	want := `{"index":0,"delta":{"content":""},"logprobs":{"content":[{"token":"é","logprob":-9999.0,"bytes":[195,169],"top_logprobs":[]}]},"finish_reason":"stop","stop_reason":"end","token_ids":[5]}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v, want\n%s", got, err, want)
	}
}

func TestLogprobsAsked(t *testing.T) {
	for _, c := range []struct {
		kind, body string
		top        int // -1: none
		ok         bool
	}{
		{bus.KindChat, `{}`, -1, true},
		{bus.KindChat, `{"logprobs":false,"top_logprobs":3}`, -1, true},
		{bus.KindChat, `{"logprobs":true}`, 0, true},
		{bus.KindChat, `{"logprobs":true,"top_logprobs":3}`, 3, true},
		{bus.KindChat, `{"logprobs":true,"top_logprobs":null}`, -1, true}, // as vLLM takes it
		{bus.KindChat, `{"logprobs":3}`, 0, false},
		{bus.KindCompletion, `{"logprobs":null}`, -1, true},
		{bus.KindCompletion, `{"logprobs":0}`, 0, true},
		{bus.KindCompletion, `{"logprobs":5}`, 5, true},
		{bus.KindCompletion, `{"logprobs":true}`, 0, false},
	} {
		var members map[string]json.RawMessage
		if err := json.Unmarshal([]byte(c.body), &members); err != nil {
			t.Fatal(err)
		}
		l, err := askedLogs(c.kind, members, "")
		if (err == nil) != c.ok || c.ok && (l != nil) != (c.top >= 0) || l != nil && l.top != c.top {
			t.Errorf("%s %s: %+v, %v", c.kind, c.body, l, err)
		}
		if l == nil || !c.ok {
			continue
		}
		data, err := completion(agentd.Request{}, members, []uint32{1}, 1, 1, l)
		var q struct{ Logprobs *int }
		if err != nil || json.Unmarshal(data, &q) != nil || q.Logprobs == nil || *q.Logprobs != c.top {
			t.Errorf("%s %s: asks %s, %v", c.kind, c.body, data, err)
		}
	}
	for _, bad := range []string{`[]`,
		`{"logprobs":{"tokens":["a"],"token_logprobs":[],"top_logprobs":[null],"text_offset":[0]}}`,
		`{"logprobs":{"tokens":["a"],"token_logprobs":[0],"top_logprobs":[[1]],"text_offset":[0]}}`} {
		if got, err := (&logs{chat: true, top: 2}).choice(json.RawMessage(bad), "", ""); !errors.As(err,
			new(*agentd.EngineError)) {
			t.Errorf("%s: %s, %v", bad, got, err)
		}
	}
}

// An answer that broke off under log probabilities goes on with them, in the shape of a chat.
func TestAnAnswerGoesOnWithItsLogprobs(t *testing.T) {
	r := recorded(t, "completion_logprobs_stream")
	var asked struct{ Logprobs *int }
	server := serve(t, func(w http.ResponseWriter, q *http.Request) {
		switch q.URL.Path {
		case "/tokenize":
			io.WriteString(w, `{"tokens":[1,2]}`)
		case "/detokenize":
			io.WriteString(w, `{"prompt":"so"}`)
		default:
			if err := json.NewDecoder(q.Body).Decode(&asked); err != nil {
				t.Error(err)
			}
			w.Header().Set("Content-Type", "text/event-stream")
			for _, c := range r.Response.Chunks {
				io.WriteString(w, c[1].(string))
			}
		}
	})
	var text string
	n := 0
	request := agentd.Request{Kind: bus.KindChat, Model: "tiny", MaxTokens: 25,
		Body:   json.RawMessage(`{"messages":[{"role":"user","content":"Hi"}],"logprobs":true,"top_logprobs":4}`),
		Resume: &agentd.Resume{Tokens: []uint32{7}, Text: "so", Whole: 25}}
	a, err := engineAt(t, server.URL).Complete(t.Context(), request, func(c agentd.Chunk) error {
		text += c.Text
		for _, x := range c.Extra {
			var choice struct {
				Delta    struct{ Content *string }
				Logprobs struct{ Content []chatLog }
			}
			if err := json.Unmarshal(x.Choice, &choice); err != nil || choice.Delta.Content == nil ||
				*choice.Delta.Content != c.Text || len(choice.Logprobs.Content) != 1 || x.At != 0 {
				t.Errorf("beside %q at %d: %s, %v", c.Text, x.At, x.Choice, err)
			}
			n++
		}
		return nil
	})
	if err != nil || n != 24 || asked.Logprobs == nil || *asked.Logprobs != 4 || a.Finish != "length" ||
		text == "" {
		t.Errorf("%d events, %q, %+v, %v; asked %+v", n, text, a, err, asked)
	}
}
