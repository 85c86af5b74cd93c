package vllm

import (
	"fmt"
	"testing"
)

// reading shows what an event was taken to say.
func reading(b *batch, payload []byte, read func([]byte, *event) bool) string {
	b.text, b.ids = b.text[:0], b.ids[:0]
	var e event
	if !read(payload, &e) {
		return ""
	}
	return fmt.Sprintf("text %q ids %v finish %q stop %q usage %+v %v prompt %d extra %q err %v",
		b.text, b.ids, e.finish, e.stop, e.usage, e.metered, e.prompt, e.extra, e.err)
}

func slowly(payload []byte) string {
	b := &batch{}
	return reading(b, payload, func(p []byte, e *event) bool { return b.decode(p, e) == nil })
}

var streams = []string{"chat_stream", "chat_stream_usage", "chat_stream_token_ids",
	"chat_stream_continuous_usage", "chat_stream_no_details",
	"completion_stream", "chat_interval4", "keep_alive_comment", "chat_stream_per_request_metrics",
	"chat_stop_stream", "chat_max_tokens_1",
	"chat_tools_required_stream", "chat_n2_stream"}

// The quick way and encoding/json read recorded events alike, and the quick way reads all that are plain.
func TestScanReadsRecordings(t *testing.T) {
	for _, name := range streams {
		quick, all := 0, 0
		b := &batch{}
		for _, p := range payloads(recorded(t, name).chunks()) {
			all++
			got := reading(b, []byte(p), b.scan)
			if want := slowly([]byte(p)); want == "" || got != "" && got != want {
				t.Errorf("%s: %s\nquickly %s\nslowly  %s", name, p, got, want)
			}
			if got != "" {
				quick++
			}
		}
		least := all
		switch name {
		case "chat_tools_required_stream", "chat_n2_stream":
			least = 1
		case "chat_stream_per_request_metrics":
			least = all - 1 // the last chunk has metrics
		}
		if quick < least {
			t.Errorf("%s: %d of %d events read quickly, want %d", name, quick, all, least)
		}
	}
}

// Two events of one stream: whatever the quick way accepts, encoding/json reads the same, also after it has
// learnt what the stream's events begin with.
func FuzzScan(f *testing.F) {
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
		`{"choices":[{"delta":{"content":"a","content":null},"token_ids":[01]}]}`,
		"{\"choices\":[{\"text\":\"\xff\"}]}",
		`{"choices":[{"prompt_token_ids":[1]}],"prompt_token_ids":[1,2]}`,
	} {
		f.Add([]byte(s), []byte(s))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		b := &batch{}
		for _, p := range [][]byte{first, second} {
			got := reading(b, p, b.scan)
			if got == "" {
				continue
			}
			if want := slowly(p); got != want {
				t.Errorf("%q\nquickly %s\nslowly  %s", p, got, want)
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
