package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"souk/bus"
	"souk/bus/client"
	"souk/bus/natsauth"
	"souk/bus/natsbus"
)

// lines are the lines of requests in the log, once there are so many.
func (h *house) lines(n int) (out []map[string]string) {
	h.t.Helper()
	h.until(fmt.Sprintf("the log has lines of %d requests", n), func() bool {
		out = nil
		for text := range strings.Lines(h.log.String()) {
			if strings.Contains(text, " msg=request ") &&
				!strings.Contains(text, "/v1/models") { // which newKey asks
				out = append(out, fields(text))
			}
		}
		return len(out) >= n
	})
	if len(out) != n {
		h.t.Fatalf("%d lines, want %d: %v", len(out), n, out)
	}
	return out
}

// fields reads a line of slog's text.
func fields(line string) map[string]string {
	out := map[string]string{}
	for line = strings.TrimSpace(line); line != ""; {
		name, rest, _ := strings.Cut(line, "=")
		value, left, _ := strings.Cut(rest, " ")
		if quoted, ok := strings.CutPrefix(rest, `"`); ok {
			end := 0
			for end < len(quoted) && quoted[end] != '"' {
				if quoted[end] == '\\' {
					end++
				}
				end++
			}
			value, left = quoted[:end], strings.TrimPrefix(quoted[end:], `"`)
		}
		out[name], line = value, strings.TrimLeft(left, " ")
	}
	return out
}

func TestALineForEachRequest(t *testing.T) {
	h := start(t, one)
	h.log.Take()
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	whole := h.do("POST", "/v1/chat/completions", chat(``), h.key, "X-Request-Id", "mine-1",
		"Traceparent", "00-"+trace+"-00f067aa0ba902b7-00")
	n := h.lines(1)[0]
	for field, want := range map[string]string{
		"request": "mine-1", "trace": trace, "client": "dev", "route": "POST /v1/chat/completions",
		"status": "200", "hub": "general", "agent": "only", "model": "gpt-oss-20b", "out": "20", "code": "",
		"paid": whole.header.Get("X-Souk-Paid"), "task": whole.header.Get("X-Souk-Task"),
		"receipt": whole.header.Get("X-Souk-Receipt"),
	} {
		if n[field] != want {
			t.Errorf("%s is %q, want %q in %v", field, n[field], want, n)
		}
	}
	u := whole.object(t).Usage
	if n["tokens_in"] != fmt.Sprint(u["prompt_tokens"]) || n["key"] == "" ||
		n["first_ms"] == "" || n["ms"] == "" {
		t.Errorf("%v of %v", n, u)
	}
	h.log.Take()
	stream := h.do("POST", "/v1/chat/completions", chat(`,"stream":true`), h.key)
	n = h.lines(1)[0]
	if n["status"] != "200" || n["out"] != "20" || n["first_ms"] == "" || n["paid"] == "" ||
		n["request"] != stream.header.Get("X-Request-Id") || n["trace"] != "" {
		t.Errorf("a stream: %v", n)
	}
	other := h.newKey(bus.APIKey{ID: "slow", Client: "dev", Rate: 0.001, Models: []string{"gpt-oss-20b"}})
	h.log.Take()
	const completions = "/v1/chat/completions"
	named := func(model string) string { return strings.Replace(chat(``), "auto", model, 1) }
	for i, test := range []struct {
		path, body, key      string
		status, code, client string
	}{
		{completions, chat(``), "sk-souk-none-of-ours", "401", "invalid_api_key", ""},
		{completions, "", "", "401", "invalid_api_key", ""},
		{completions, chat(`,"x":"` + strings.Repeat("x", 600<<10) + `"`), h.key, "413",
			"too_large", "dev"},
		{completions, `{"model":"\u001b[2J\nevil","messages":[]}`, h.key, "400", "empty_prompt", "dev"},
		{completions, named(`\u001b[2J\nlevel=ERROR`), h.key, "400", "bad_request", "dev"},
		{completions, named("another"), h.key, "404", "unknown_model", "dev"},
		{completions, named("gpt-oss-20b"), other, "200", "", "dev"},
		{completions, named("gpt-oss-20b"), other, "429", "rate_limit_exceeded", "dev"},
		{"/v1/nothing", "", h.key, "404", "unsupported_endpoint", ""},
		{"/v1/quote", chat(``), h.key, "200", "", "dev"},
	} {
		r := h.do("POST", test.path, test.body, test.key)
		n := h.lines(i + 1)[i]
		if fmt.Sprint(r.status) != test.status || n["status"] != test.status || n["code"] != test.code ||
			n["client"] != test.client || n["level"] != "INFO" || strings.Contains(n["model"], "\x1b") {
			t.Errorf("%s, answered %d %.200s: %v, want %+v", test.path, r.status, r.body, n, test)
		}
	}
	h.do("GET", "/health", "", "")
	h.lines(10) // load balancers ask too often
}

// A request that is repeated, or whose client leaves, has its line, which says what came of it.
func TestLinesOfRequestsThatAreRepeatedOrLeft(t *testing.T) {
	h := start(t, one)
	h.log.Take()
	first := h.do("POST", "/v1/chat/completions", chat(``), h.key, "Idempotency-Key", "a")
	again := h.do("POST", "/v1/chat/completions", chat(``), h.key, "Idempotency-Key", "a")
	lines := h.lines(2)
	if task := first.header.Get("X-Souk-Task"); lines[0]["task"] != task || lines[0]["paid"] == "" ||
		lines[1]["task"] != task || lines[1]["paid"] != "" || lines[1]["status"] != "200" ||
		again.status != 200 {
		t.Errorf("repeated: %v", lines)
	}
	h.log.Take()
	long := strings.Replace(chat(`,"stream":true`), `"max_tokens":20`, `"max_tokens":4000`, 1)
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.DefaultClient.Do(h.request(ctx, "POST", "/v1/chat/completions", long, h.key))
	if err != nil {
		t.Fatal(err)
	}
	bufio.NewReader(r.Body).ReadString('\n')
	leave()
	r.Body.Close()
	n := h.lines(1)[0]
	if n["code"] != "cancelled" || n["status"] != "200" || n["paid"] == "" || n["out"] == "" ||
		n["out"] == "4000" {
		t.Errorf("left: %v", n)
	}
}

// Who asks by NATS has a line by the door; what a gateway asks for has its own alone.
func TestALineForATaskByNATS(t *testing.T) {
	h := start(t, one)
	b, err := natsbus.Connect(natsbus.Config{URL: h.State.NATS, Name: "dev",
		Creds: natsauth.File(h.CredsFile)})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	c, err := client.New(client.Config{ID: "dev"}, b)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	h.log.Take()
	if _, err := c.Ask(t.Context(), bus.Task{ID: "by-nats", Body: []byte(chat(``))}); err != nil {
		t.Fatal(err)
	}
	n := h.lines(1)[0]
	if n["route"] != "task" || n["task"] != "by-nats" || n["client"] != "dev" || n["agent"] != "only" ||
		n["code"] != "" || n["paid"] != "" {
		t.Errorf("%v", n)
	}
	_, err = c.Ask(t.Context(), bus.Task{ID: "bad", Body: []byte(`{"messages":[]}`)})
	if n = h.lines(2)[1]; err == nil || n["code"] != string(bus.CodeEmptyPrompt) || n["hub"] != "" {
		t.Errorf("%v, %v", err, n)
	}
	m, err := b.Request(t.Context(), bus.Msg{Subject: bus.TaskSubject("dev", ""), Data: []byte(chat(``))})
	if err != nil {
		t.Fatal(err)
	}
	var said bus.Result
	if err := json.Unmarshal(m.Data, &said); err != nil {
		t.Fatal(err)
	}
	if n = h.lines(3)[2]; n["out"] != "20" || n["paid"] != said.Paid().String() || n["first_ms"] == "" ||
		n["receipt"] != said.Receipt.ID {
		t.Errorf("whole: %v of %s", n, m.Data)
	}
}
