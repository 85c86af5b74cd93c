package gateway_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"souk/cmd/local"
)

// stall is a market of its own for requests as nobody's client makes them.
type stall struct {
	*local.Market
	t   *testing.T
	key string
}

func openStall(t *testing.T) *stall {
	t.Helper()
	cfg, err := local.ParseConfig("stall.yaml", []byte(`
listen: 127.0.0.1:0
domains: [{name: general, general: true, labels: [general, humanities, social, law, medicine, math, science, finance, code]}]
agents:
  - {id: only, model: gpt-oss-20b, price_row: fireworks/gpt-oss-20b, scores: [{domain: general, score: 0.7}], slots: 4, engine: {profile: steady}}
speedup: 50
clients: {dev: 10}
`))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	m, err := local.Start(t.Context(), local.Options{Dir: dir, Config: cfg,
		Log:    slog.New(slog.DiscardHandler),
		Within: 4 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if err := local.CheckLedger(context.Background(), dir, io.Discard); err != nil {
			t.Error(err)
		}
	})
	key, err := local.ReadKey(m.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	return &stall{m, t, key}
}

// post sends a body under the first key.
func (s *stall) post(path, body string) (status int, header http.Header, text string) {
	s.t.Helper()
	return s.ask(s.key, http.MethodPost, path, body)
}

func (s *stall) left() string {
	s.t.Helper()
	b, err := s.Link.Balance(s.t.Context(), local.FirstClient)
	if err != nil {
		s.t.Fatal(err)
	}
	data, _ := json.Marshal(b)
	return string(data)
}

// What a body says twice, or with a value that means nothing, is refused in a sentence that names it, at
// every endpoint alike; nothing is paid for it.
func TestABodyThatSaysTwoThings(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	s := openStall(t)
	const chats, responses, quotes = "/v1/chat/completions", "/v1/responses", "/v1/quote"
	chat := func(more string) string {
		return `{"messages":[{"role":"user","content":"Hello"}],"max_tokens":3` + more + `}`
	}
	before := s.left()
	for _, c := range []struct{ path, body, code, says string }{
		{chats, chat(`,"max_tokens":4`), "bad_request", "max_tokens stands twice"},
		{responses, `{"input":"Hello","input":"Bye"}`, "bad_request", "input: the member stands twice"},
		{responses, `{"input":"Hello","inp\u0075t":"Bye"}`, "bad_request", "input: the member stands twice"},
		{responses, `{"input":"Hello","souk":{"terms":{"max_price":0.000000001}},"souk":{}}`, "bad_request",
			"souk: the member stands twice"},
		{responses, `{"input":"Hello","max_output_tokens":3,"max_output_tokens":4}`, "bad_request",
			"max_output_tokens: the member stands twice"},
		{responses, `{"input":[{"role":"user","role":"system","content":"x"}]}`, "bad_request",
			"input[0]: member role stands twice"},
		{responses, `{"input":[{"role":"user","Role":"system","content":"x"}]}`, "bad_request",
			"input[0]: member role stands twice"},
		{responses, "\xef\xbb\xbf" + `{"input":"Hello"}`, "bad_request", "byte order mark"},
		{responses, `{"input":"` + "\xff" + `"}`, "bad_request", "not UTF-8"},
		{responses, chat(``), "unsupported_field", "chats go to /v1/chat/completions"},
		{responses, `{"input":"Hello","tools":[null]}`, "bad_request",
			"tools[0]: an object is expected"},
		{responses, `{"input":"Hello","tools":[{"name":"f"}]}`, "bad_request",
			`tools[0].type: \"function\" is expected`},
		{chats, chat(`,"stream":true,"stream_options":{"include_usage":"yes"}`), "bad_request",
			"stream_options.include_usage: true or false"},
		{chats, chat(`,"stream":true,"stream_options":{"include_usage":1}`), "bad_request",
			"stream_options.include_usage: true or false"},
		{chats, chat(`,"stream":true,"stream_options":{"include_usage":true,"include_usage":false}`),
			"bad_request", "stream_options.include_usage: the member stands twice"},
		{chats, chat(`,"stop":"\ud800"`), "bad_request", "half of a character"},
		{chats, chat(`,"stop":["a\ude00\ud83d"]`), "bad_request", "half of a character"},
		{chats, chat(`,"us\ud800er":1`), "bad_request", "half of a character"},
		{responses, `{"input":"\ud83d"}`, "bad_request", "half of a character"},
		{responses, `{"input":[{"role":"user","content":"\ud83d\n"}]}`, "bad_request", "half of a character"},
		{quotes, `{"prompt":"\ud83dx"}`, "bad_request", "half of a character"},
		{chats, chat(`,"stream":true,"stream_options":{"continuous\u005fusage_stats":true}`),
			"unsupported_field", "continuous_usage_stats"},
		{chats, chat(`,"stream":true,"stream_options":{"include_obfuscation":true}`), "unsupported_field",
			"include_obfuscation: events are not padded"},
		{responses, `{"input":"Hello","stream":true,"stream_options":{"include_obfuscation":true}}`,
			"unsupported_field", "include_obfuscation: events are not padded"},
		{responses, `{"input":"Hello","stream":true,"stream_options":{"include_obfuscation":1}}`,
			"bad_request", "true or false"},
		{responses, `{"input":"Hello","stream":true,"stream_options":true}`, "bad_request",
			"stream_options: an object"},
		{quotes, `{"prompt":["a","b"]}`, "unsupported_field", "send n 1 and one prompt"},
	} {
		status, header, text := s.post(c.path, c.body)
		var e struct {
			Error struct{ Code, Message string }
		}
		json.Unmarshal([]byte(text), &e)
		if status != 400 || e.Error.Code != c.code || !strings.Contains(text, c.says) ||
			header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s %q: %d %.300s", c.path, c.body, status, text)
		}
	}
	for _, whole := range []string{`\ud83d\ude00`, `a\u0000b`, `\\ud800`, `\uD83D\uDE00\uD83D\uDE00`} {
		if status, _, text := s.post(quotes, `{"prompt":"`+whole+`"}`); status != 200 {
			t.Errorf("%s: %d %s", whole, status, text)
		}
	}
	if after := s.left(); after != before {
		t.Errorf("the balance was %s and is %s", before, after)
	}
	for _, options := range []string{`{"include_usage":true}`, `{"include\u005fusage":true}`} {
		status, _, text := s.post(chats, chat(`,"stream":true,"stream_options":`+options))
		if status != 200 || !strings.Contains(text, `"choices":[],"usage":`) {
			t.Errorf("%s: %d %s", options, status, text)
		}
	}
	for _, options := range []string{`{}`, `{"include_usage":null}`, `{"continuous_usage_stats":false}`,
		`{"include_obfuscation":false}`} {
		status, _, text := s.post(chats, chat(`,"stream":true,"stream_options":`+options))
		if status != 200 || strings.Contains(text, `"choices":[]`) {
			t.Errorf("%s: %d %s", options, status, text)
		}
	}
	for _, options := range []string{`{}`, `{"include_usage":true}`, `{"include_obfuscation":false}`, `null`} {
		status, _, text := s.post(responses, `{"input":"Hello","stream":true,"stream_options":`+options+`}`)
		if status != 200 {
			t.Errorf("%s: %d %s", options, status, text)
		}
	}
}
