package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/openai"
)

// response is an answer of /v1/responses, or an event of one.
type response struct {
	ID, Object, Status, Type string
	Created                  int64  `json:"created_at"`
	Completed                *int64 `json:"completed_at"`
	Number                   int    `json:"sequence_number"`
	Delta                    string
	Output                   []struct {
		ID, Type string
		Content  []struct{ Text string }
	}
	Usage    map[string]any
	Souk     map[string]any
	Response *response
	Error    map[string]any
}

func (r reply) response(t testing.TB) (o response) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.body), &o); err != nil {
		t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	return o
}

func responseEvents(t testing.TB, stream string) (out []response) {
	t.Helper()
	for line := range strings.Lines(stream) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			out = append(out, reply{body: data}.response(t))
		}
	}
	return out
}

func TestResponses(t *testing.T) {
	h := start(t, one)
	body := `{"model":"auto","input":"What is a souk?","max_output_tokens":20,"temperature":0%s}`
	r := h.do("POST", "/v1/responses", fmt.Sprintf(body, ""), h.key)
	o := r.response(t)
	if r.status != 200 || o.Object != "response" || o.Status != "incomplete" || len(o.Output) != 1 ||
		o.Output[0].Content[0].Text == "" || o.Usage["output_tokens"] != 20.0 || o.Souk["receipt"] == nil ||
		r.header.Get("X-Souk-Receipt") != o.Souk["receipt"] {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if o.Completed != nil {
		t.Errorf("an answer that was cut at its limit was completed at %d", *o.Completed)
	}
	came := time.Now().Unix()
	ended := h.do("POST", "/v1/responses", `{"input":"What is a souk?"}`, h.key).response(t)
	if at := ended.Completed; ended.Status != "completed" || at == nil || *at < max(came, ended.Created) ||
		*at > time.Now().Unix() {
		t.Errorf("%s, asked at %d, begun at %d, completed at %v", ended.Status, came, ended.Created, at)
	}
	stream := h.do("POST", "/v1/responses", fmt.Sprintf(body, `,"stream":true`), h.key)
	text := ""
	events := responseEvents(t, stream.body)
	for i, e := range events {
		if text += e.Delta; e.Number != i {
			t.Errorf("event %d is number %d", i, e.Number)
		}
	}
	last := events[len(events)-1]
	if text != o.Output[0].Content[0].Text || last.Type != "response.incomplete" ||
		last.Response.Usage["output_tokens"] != 20.0 || strings.Contains(stream.body, "[DONE]") {
		t.Errorf("%s", stream.body)
	}

	// what was answered may be named, by its own key alone, unless it was asked not to be kept
	follow := `{"input":[{"role":"user","content":"What is a souk?"},{"type":"item_reference","id":%q},` +
		`{"role":"user","content":"And a bazaar?"}],"max_output_tokens":5}`
	for _, id := range []string{o.Output[0].ID, last.Response.Output[0].ID} {
		named := h.do("POST", "/v1/responses", fmt.Sprintf(follow, id), h.key)
		if named.status != 200 {
			t.Errorf("%d %s", named.status, named.body)
		}
		whole := h.do("POST", "/v1/chat/completions", fmt.Sprintf(`{"messages":[{"role":"user","content":`+
			`"What is a souk?"},{"role":"assistant","content":%q},{"role":"user","content":"And a bazaar?"}],`+
			`"max_tokens":5}`, text), h.key).object(t)
		if a, b := named.response(t).Usage["input_tokens"], whole.Usage["prompt_tokens"]; a != b || a == 0.0 {
			t.Errorf("with the item named the prompt has %v tokens, written out %v", a, b)
		}
	}
	other := h.newKey(bus.APIKey{Client: "other"})
	unkept := h.do("POST", "/v1/responses", fmt.Sprintf(body, `,"store":false`), h.key).response(t)
	for id, key := range map[string]string{o.Output[0].ID: other, unkept.Output[0].ID: h.key} {
		r := h.do("POST", "/v1/responses", fmt.Sprintf(follow, id), key)
		if r.status != 400 || !strings.Contains(r.body, "send store: false") {
			t.Errorf("%d %s", r.status, r.body)
		}
	}

	// once and again: as a response, and not as the chat that asks the same
	once := func(path, body string) reply {
		return h.do("POST", path, body, h.key, "Idempotency-Key", "k")
	}
	a, b := once("/v1/responses", fmt.Sprintf(body, "")), once("/v1/responses", fmt.Sprintf(body, ""))
	if a.status != 200 || a.body != b.body {
		t.Errorf("%s\nand again %s", a.body, b.body)
	}
	for _, other := range []string{`,"store":false`, `,"metadata":{"a":"b"}`} { // which no engine is told
		r := once("/v1/responses", fmt.Sprintf(body, other))
		if r.status != http.StatusUnprocessableEntity || !strings.Contains(r.body, "id_conflict") {
			t.Errorf("with %s beside: %d %s", other, r.status, r.body)
		}
	}
	asked, _ := openai.ReadResponses([]byte(fmt.Sprintf(body, "")), nil)
	if r := once("/v1/chat/completions", string(asked.Chat)); r.status != http.StatusUnprocessableEntity {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestResponsesRefused(t *testing.T) {
	h := start(t, one)
	for _, c := range []struct {
		body string
		code int
		says string
	}{
		{`{"input":`, 400, "bad_request"},
		{`{"input":""}`, 400, `"param":"input","code":"empty_prompt"`},
		{`{"input":"x","model":"none-such"}`, 404, "model_not_found"},
		{`{"input":"x","previous_response_id":"resp_1"}`, 400, "previous_response_id"},
		{`{"input":"x","stream":true,"model":"none-such"}`, 404, "model_not_found"},
		{`{"input":"x","max_output_tokens":"many"}`, 400, `"param":"max_output_tokens"`},
	} {
		r := h.do("POST", "/v1/responses", c.body, h.key)
		if r.status != c.code || !strings.Contains(r.body, c.says) {
			t.Errorf("%s: %d %s", c.body, r.status, r.body)
		}
	}
	for _, path := range []string{"/v1/responses/resp_1", "/v1/responses"} {
		if r := h.do("GET", path, "", h.key); r.status != 404 ||
			r.object(t).Error.Code != "unsupported_endpoint" {
			t.Errorf("GET %s: %d %s", path, r.status, r.body)
		}
	}
}

// What a reader is told that leaves, or is displaced, is its own: whoever reads on has every event of the
// response, numbered without a gap, to its true end.
func TestAResponseGoesOn(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	h := start(t, slowly)
	for name, leaves := range map[string]bool{"its reader left": true, "its reader was displaced": false} {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		first, err := http.DefaultClient.Do(h.request(ctx, "POST", "/v1/responses",
			`{"input":"What is a souk?","stream":true,"max_output_tokens":60}`, h.key, "X-Souk-Resume", "on"))
		if err != nil {
			t.Fatal(err)
		}
		defer first.Body.Close()
		if _, err := io.ReadFull(first.Body, make([]byte, 500)); err != nil {
			t.Fatal(err)
		}
		if leaves {
			before := h.Gateway.Stats().Left
			leave()
			h.until("the gateway has seen it leave", func() bool { return h.Gateway.Stats().Left > before })
		}
		whole := h.do("GET", "/v1/streams/"+first.Header.Get("X-Souk-Task"), "", h.key)
		events := responseEvents(t, whole.body)
		for i, e := range events {
			if e.Number != i {
				t.Errorf("%s: event %d, %s, is number %d", name, i, e.Type, e.Number)
			}
		}
		last := events[len(events)-1]
		if last.Type != "response.incomplete" || last.Response.Status != "incomplete" ||
			len(last.Response.Output) != 1 {
			t.Errorf("%s: it ends with %+v", name, last)
		}
	}
}
