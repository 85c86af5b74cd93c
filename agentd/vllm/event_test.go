package vllm

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"souk/agentd"
	"souk/bus/openai"
)

// reading shows what an event was taken to say; "" if it cannot be read.
func reading(b *batch, payload []byte, read func([]byte, *event) error) string {
	b.text, b.ids = b.text[:0], b.ids[:0]
	var e event
	err := read(payload, &e)
	if own := (*agentd.EngineError)(nil); err != nil && !errors.As(err, &own) {
		return ""
	}
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("text %q ids %v finish %q stop %q usage %+v %v prompt %d extra %q thinks %v",
		b.text, b.ids, e.finish, e.stop, e.usage, e.metered, e.prompt, e.extra, e.thinks)
}

type members = map[string]json.RawMessage

// slowly reads an event by encoding/json.
func slowly(payload []byte) string {
	b := &batch{}
	return reading(b, payload, func(p []byte, e *event) error {
		var top, u, details members
		var choices []json.RawMessage
		var err error
		into := func(v json.RawMessage, to any) {
			if len(v) > 0 && err == nil {
				err = json.Unmarshal(v, to)
			}
		}
		into(p, &top)
		if into(top["choices"], &choices); !null(top["error"]) {
			return brokenOff(top["error"], p)
		}
		into(top["prompt_token_ids"], &e.prompt)
		if into(top["usage"], &u); u != nil {
			e.metered, e.usage.Cached = true, -1
			into(u["prompt_tokens"], &e.usage.Prompt)
			into(u["completion_tokens"], &e.usage.Output)
			into(u["prompt_tokens_details"], &details)
			if !null(details["cached_tokens"]) {
				into(details["cached_tokens"], &e.usage.Cached)
			}
		}
		for _, raw := range choices {
			var c, delta members
			var index int
			var text, content, finish string
			var ids, prompt []uint32
			into(raw, &c)
			into(c["index"], &index)
			into(c["delta"], &delta)
			into(c["text"], &text)
			into(delta["content"], &content)
			into(c["finish_reason"], &finish)
			into(c["token_ids"], &ids)
			into(c["prompt_token_ids"], &prompt)
			plain := null(c["logprobs"])
			for name, v := range delta {
				plain = plain && (name == "role" || name == "content" || null(v))
				if name == "reasoning" || name == "reasoning_content" {
					e.thinks = e.thinks || !null(v) && string(v) != `""`
				}
			}
			switch {
			case index != 0:
				e.extra = append(e.extra, raw)
				continue
			case !plain && len(prompt) > 0:
				e.extra = append(e.extra, without(raw, "prompt_token_ids"))
			case !plain:
				e.extra = append(e.extra, raw)
			}
			b.text, b.ids = append(append(b.text, text...), content...), append(b.ids, ids...)
			if len(prompt) > 0 {
				e.prompt = prompt
			}
			if finish != "" {
				if e.finish, e.stop = finish, c["stop_reason"]; null(e.stop) {
					e.stop = nil
				}
			}
		}
		return err
	})
}

// twice reports whether an object within a value has two members of one name: which of them counts is open.
func twice(s *openai.Scanner) (found bool) {
	switch s.Next() {
	case '{':
		names := map[string]bool{}
		s.Object(func(key openai.Span) bool {
			name := string(s.Name(key))
			found = found || names[name]
			names[name] = true
			found = twice(s) || found
			return s.Err() == nil
		})
	case '[':
		s.Array(func() bool {
			found = twice(s) || found
			return s.Err() == nil
		})
	default:
		s.Value()
	}
	return found
}

var streams = []string{"chat_stream", "chat_stream_usage", "chat_stream_token_ids",
	"chat_stream_continuous_usage", "chat_stream_no_details",
	"completion_stream", "chat_interval4", "keep_alive_comment", "chat_stream_per_request_metrics",
	"chat_stop_stream", "chat_max_tokens_1",
	"chat_tools_required_stream", "chat_n2_stream"}

// Recorded events are read, and as encoding/json reads them.
func TestEventsReadRecordings(t *testing.T) {
	for _, name := range streams {
		b := &batch{}
		for _, p := range payloads(recorded(t, name).chunks()) {
			got := reading(b, []byte(p), b.read)
			if want := slowly([]byte(p)); want == "" || got != want {
				t.Errorf("%s: %s\ngot  %s\nwant %s", name, p, got, want)
			}
		}
	}
}

// Two events of one stream: whatever is accepted, encoding/json reads the same, also after it is known what
// the stream's events begin with.
func FuzzEvents(f *testing.F) {
	for _, name := range streams {
		for _, p := range payloads(recorded(f, name).chunks()) {
			f.Add([]byte(p), []byte(p))
		}
	}
	for _, s := range []string{
		`{"choices":[{"index":0,"text":"\ud83d\ude00\ud83dx\u00e9\n\"\\\/","finish_reason":"stop","stop_reason":2}]}`,
		`{"usage":{"prompt_tokens":3},"choices":[]}`,
		`{"id":"a","choices":[],"choices":[]}`,
		`{"id":"a","id":"b","choices":[]}`,
		`{"choices":[{"stop_reason":"x","finish_reason":null,"delta":{"content":"a"},"text":"b"}]}`,
		`{"choices":[{"delta":{"content":"a","reasoning":""},"token_ids":[01]}]}`,
		"{\"choices\":[{\"text\":\"\xff\"}]}",
		`{"choices":[{"prompt_token_ids":[1]}],"prompt_token_ids":[1,2]}`,
		`{"choices":[{"index":1,"text":"x","token_ids":[3]},{"logprobs":{},"prompt_token_ids":[1]}]}`,
		`{"usage":{"prompt_tokens_details":null},"error":{"code":400}}`,
	} {
		f.Add([]byte(s), []byte(s))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		b := &batch{}
		for _, p := range [][]byte{first, second} {
			got := reading(b, p, b.read)
			s := openai.Scan(p)
			if got == "" || twice(&s) {
				continue
			}
			if want := slowly(p); got != want {
				t.Errorf("%q\ngot  %s\nwant %s", p, got, want)
			}
		}
	})
}

// A stream cut into reads anywhere says the same.
func FuzzStream(f *testing.F) {
	f.Add([]byte(role+word+word+finish+done), 7)
	f.Add([]byte(": keep-alive\r\n\r\n"+role+finish+done), 1)
	f.Add([]byte("data: {]\n\ndata:\n\n"), 3)
	f.Fuzz(func(t *testing.T, body []byte, step int) {
		if step < 1 || len(body) > 4096 {
			return
		}
		read := func(step int) string {
			s := stream{body: &stepReader{body, step}, buf: make([]byte, 16), max: 1 << 10}
			var text string
			var ids []uint32
			for {
				_, err := s.next()
				c := s.batch.take()
				text += c.Text
				ids = append(ids, c.Tokens...)
				if err != nil || s.done {
					return fmt.Sprintf("%q %v %v %q %v", s.batch.finish, s.done, err, text, ids)
				}
			}
		}
		if got, want := read(step), read(len(body)+1); got != want {
			t.Errorf("in steps of %d: %s\nat once: %s", step, got, want)
		}
	})
}

// Of the tokens of an answer that reasons, those up to its first words or tool call are reasoning: markers
// and empty lines between the two are of neither, and no later prompt has them.
func TestTokensOfReasoning(t *testing.T) {
	for name, c := range map[string]struct {
		deltas []string // one token each
		want   int
	}{
		"words": {[]string{`{"content":"so"}`, `{"content":" it"}`}, 0},
		"reasoning": {[]string{`{"reasoning":"a"}`, `{"reasoning":"b"}`, `{"content":"\n\n"}`,
			`{"content":"so"}`}, 3},
		"as it was": {[]string{`{"reasoning_content":"a"}`, `{}`, `{"content":"so"}`,
			`{"content":"\n"}`}, 2},
		"then a call":    {[]string{`{"reasoning":"a"}`, `{"tool_calls":[{"index":0,"function":{"name":"f"}}]}`, `{}`}, 1},
		"nothing else":   {[]string{`{"reasoning":"a"}`, `{"reasoning":"b"}`}, 2},
		"empty, of each": {[]string{`{"content":"so","reasoning":""}`, `{"content":" it","reasoning":null}`}, 0},
	} {
		for _, together := range []bool{true, false} {
			b, got := &batch{}, 0
			for i, d := range c.deltas {
				payload := fmt.Sprintf(`{"choices":[{"index":0,"delta":%s,"token_ids":[%d]}]}`, d, i)
				if err := b.add([]byte(payload)); err != nil {
					t.Fatal(err)
				}
				if !together {
					got += b.take().Thought
				}
			}
			if got += b.take().Thought; got != c.want {
				t.Errorf("%s, in one read %v: %d tokens, want %d", name, together, got, c.want)
			}
		}
	}
}
