package vllm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"souk/agentd"
	"souk/bus"
	"souk/market"
)

const noise = " openctionur choiceric solutionsgra least"

// What a real server streamed, and what we make of it.
func TestRecordedStreams(t *testing.T) {
	ids := []uint32{3723, 654, 350, 3285, 738, 2548, 1117, 2291}
	metered := func(prompt, output int) agentd.Answer {
		return agentd.Answer{Finish: "length", Usage: market.Usage{Prompt: prompt, Output: output}}
	}
	for _, c := range []struct {
		name string
		want said
	}{
		{"chat_stream_usage", said{Text: noise, Count: 8, Answer: metered(15, 8)}},
		{"chat_stream_token_ids",
			said{Text: noise, Tokens: ids, Count: 8, Prompt: 15, Answer: metered(15, 8)}},
		{"chat_stream_continuous_usage", said{Text: noise, Count: 8, Answer: metered(15, 8)}},
		{"chat_stream_per_request_metrics", said{Text: noise, Count: 8, Answer: metered(15, 8)}},
		{"completion_stream", said{Text: noise, Count: 8, Answer: metered(6, 8)}},
		// Without usage: counted from what came, and said so.
		{"chat_stream", said{Text: noise, Count: 8, Answer: agentd.Answer{Finish: "length",
			Usage: market.Usage{Output: 8}, Unmetered: true, NoCacheReport: true}}},
		// Usage without cached_tokens: absent is not zero.
		{"chat_stream_no_details", said{Text: noise, Count: 8, Answer: agentd.Answer{Finish: "length",
			Usage: market.Usage{Prompt: 15, Output: 8}, NoCacheReport: true}}},
		// Several tokens in an event, no ids: our count is a guess, usage is not.
		{"chat_interval4", said{Text: noise + "y David motiing", Count: 4, Answer: metered(15, 12)}},
		{"chat_max_tokens_1", said{Text: " open", Count: 1, Answer: metered(15, 1)}},
		{"chat_stop_stream", said{Text: " op", Count: 1,
			Answer: agentd.Answer{Finish: "stop", Stop: json.RawMessage(`"e"`),
				Usage: market.Usage{Prompt: 15, Output: 1}}}},
		{"keep_alive_comment", said{Text: " openction", Count: 2, Answer: metered(12, 2)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ask(t, engineAt(t, replay(t, recorded(t, c.name)).URL), hello)
			if got.Err != nil {
				t.Fatal(got.Err)
			}
			if got.Answer.TTFT <= 0 {
				t.Error("no TTFT")
			}
			got.Answer.TTFT, got.Answer.ITL = 0, 0
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %#v\nwant %#v", got, c.want)
			}
		})
	}
}

// Tool calls are not text: they are handed on as the engine wrote them.
func TestToolCallsAreExtra(t *testing.T) {
	r := recorded(t, "chat_tools_required_stream")
	got := ask(t, engineAt(t, replay(t, r).URL), hello)
	if got.Err != nil || got.Text != "" {
		t.Fatalf("text %q, error %v", got.Text, got.Err)
	}
	var arguments string
	for _, x := range got.Extra {
		var choice struct {
			Delta struct {
				ToolCalls []struct {
					Function struct{ Name, Arguments string }
				} `json:"tool_calls"`
			}
		}
		if err := json.Unmarshal([]byte(strings.TrimPrefix(x, "0 ")), &choice); err != nil {
			t.Fatal(err)
		}
		for _, call := range choice.Delta.ToolCalls {
			arguments += call.Function.Arguments
		}
	}
	whole := strings.Join(r.chunks(), "")
	if len(got.Extra) < 50 || !strings.HasPrefix(arguments, "1000") ||
		!strings.Contains(whole, got.Extra[7][2:]) {
		t.Errorf("%d extras, arguments %.40q", len(got.Extra), arguments)
	}
}

// The first event lists the prompt's ids, a megabyte of them for a long prompt. They are counted, and never
// handed on.
func TestLongPrompt(t *testing.T) {
	const n = 130_000
	ids := strings.Repeat("123456,", n-1) + "7"
	for _, c := range []struct{ name, event, extra string }{
		{"chat", `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"prompt_token_ids":[` + ids + `]}`, ""},
		{"completion", `data: {"choices":[{"index":0,"text":"a","prompt_token_ids":[` + ids + `]}]}`, ""},
		{"completion with logprobs", `data: {"choices":[{"index":0,"text":"a","prompt_token_ids":[` + ids +
			`],"logprobs":{"tokens":["a"]}}]}`,
			`0 {"index":0,"text":"a","logprobs":{"tokens":["a"]}}`},
		{"completion with logprobs and white space",
			`data: {"choices":[{"index":0,"text":"a","prompt_token_ids": [ ` + ids + `], "logprobs":{}}]}`,
			`0 {"index":0,"text":"a","logprobs":{}}`},
	} {
		got := ask(t, engineAt(t, events(t, false, c.event+"\n\n", finish, done).URL), hello)
		if got.Err != nil || got.Prompt != n || got.Answer.Usage.Prompt != n ||
			strings.Join(got.Extra, "|") != c.extra {
			t.Errorf("%s: %d ids, %d, extra %.200q, %v", c.name, got.Prompt, got.Answer.Usage.Prompt,
				got.Extra, got.Err)
		}
	}
}

// How engines die, as recorded, and how that is told.
func TestBrokenOff(t *testing.T) {
	for _, c := range []struct {
		fault, want string
		cut         bool
		tokens      int
	}{
		{"engine", "EngineCore encountered an issue", false, 2},
		// a clean end with usage: looks like success, is not
		{"sigterm", "the engine aborted the answer", false, 2},
		{"sigkill", "unexpected EOF", true, 4},
	} {
		t.Run(c.fault, func(t *testing.T) {
			got := ask(t, engineAt(t, events(t, c.cut, ends(t, c.fault)...).URL), hello)
			var e *agentd.EngineError
			if !errors.As(got.Err, &e) || e.Code != bus.CodeEngineFailed ||
				!strings.Contains(e.Error(), c.want) {
				t.Fatalf("error %v", got.Err)
			}
			if got.Count != c.tokens {
				t.Errorf("%d tokens before the end, want %d", got.Count, c.tokens)
			}
		})
	}
}

const (
	role   = `data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":[1,2,3]}` + "\n\n"
	word   = `data: {"id":"c","choices":[{"index":0,"delta":{"content":" so"},"logprobs":null,"finish_reason":null,"token_ids":[7]}]}` + "\n\n"
	finish = `data: {"id":"c","choices":[{"index":0,"delta":{"content":"."},"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":[8,2]}]}` + "\n\n"
	done   = "data: [DONE]\n\n"
)

func TestEndings(t *testing.T) {
	counted := agentd.Answer{Finish: "stop", Usage: market.Usage{Prompt: 3, Output: 3}, Unmetered: true,
		NoCacheReport: true}
	for _, c := range []struct {
		name   string
		cut    bool
		chunks []string
		want   agentd.Answer
		err    string
	}{
		{"finished, then the connection broke: it is an answer", true, []string{role, word, finish}, counted,
			""},
		{"finished, and [DONE] without usage", false, []string{role, word, finish, done}, counted, ""},
		{"finished, and the stream just ended", false, []string{role, word, finish}, counted, ""},
		{"everything in one read", false, []string{role + word + finish + done}, counted, ""},
		{"cut within an event", true, []string{role, word[:40]}, agentd.Answer{},
			"reading the engine's answer"},
		{"ended without a finish", false, []string{role, word}, agentd.Answer{}, "broke off"},
		{"[DONE] without a finish", false, []string{role, word, done}, agentd.Answer{},
			"without a finish_reason"},
		{"nothing at all", false, nil, agentd.Answer{}, "broke off"},
		{"not JSON", false, []string{"data: {]\n\n"}, agentd.Answer{}, "cannot be read"},
		{"CRLF and no space", false,
			[]string{strings.ReplaceAll(strings.ReplaceAll(role+word+finish+done, "\n", "\r\n"), "data: ",
				"data:")}, counted, ""},
		{"a line without end", false, []string{"data: " + strings.Repeat("x", 5<<20)}, agentd.Answer{},
			"more than 4194304 bytes"},
		{"negative usage", false, []string{`data: {"choices":[],"usage":{"prompt_tokens":-1}}` + "\n\n"},
			agentd.Answer{}, "a whole number is expected"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ask(t, engineAt(t, events(t, c.cut, c.chunks...).URL), hello)
			if c.err != "" {
				var e *agentd.EngineError
				if !errors.As(got.Err, &e) || e.Code != bus.CodeEngineFailed ||
					!strings.Contains(e.Error(), c.err) {
					t.Fatalf("error %v, want %q", got.Err, c.err)
				}
				return
			}
			got.Answer.TTFT, got.Answer.ITL = 0, 0
			if got.Err != nil || !reflect.DeepEqual(got.Answer, c.want) || got.Text != " so." {
				t.Errorf("got  %+v %q %v\nwant %+v", got.Answer, got.Text, got.Err, c.want)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name string
		code bus.Code
		want string
	}{
		{"error_queue_full_stream", bus.CodeNoSlot, "503: The engine is currently busy"},
		{"error_stream_too_long", bus.CodePromptTooLong,
			"400: This model's maximum context length is 8192 tokens"},
		{"error_bad_type", bus.CodeEngineRefused, "Input should be a valid integer"},
		{"error_unknown_model", bus.CodeUnknownModel, "404: The model `"},
		{"error_not_found", bus.CodeUnknownModel, "404: Not Found"},
		// the head was a 200
		{"error_within_stream", bus.CodeEngineRefused, "400: Requested sample logprobs of 21"},
		// the node's fault, not the client's
		{"error_no_key", bus.CodeEngineFailed, "401: Unauthorized"},
		{"models", bus.CodeEngineFailed, `"application/json" instead of a stream`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ask(t, engineAt(t, replay(t, recorded(t, c.name)).URL), hello)
			var e *agentd.EngineError
			if !errors.As(got.Err, &e) || e.Code != c.code || !strings.Contains(e.Error(), c.want) {
				t.Errorf("error %v, want %s %q", got.Err, c.code, c.want)
			}
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		l := listen(t)
		l.Close()
		got := ask(t, engineAt(t, "http://"+l.Addr().String()), hello)
		var e *agentd.EngineError
		if !errors.As(got.Err, &e) || e.Code != bus.CodeUnavailable ||
			!strings.Contains(e.Error(), "refused") {
			t.Errorf("error %v", got.Err)
		}
	})
}

func TestSilence(t *testing.T) {
	hang := func(chunks ...string) string {
		return serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			send(w, chunks...)
			for { // comments are no sign of life
				select {
				case <-r.Context().Done():
					return
				case <-time.After(5 * time.Millisecond):
					send(w, ": keep-alive\n\n")
				}
			}
		}).URL
	}
	quick := func(c *agentd.EngineConfig) {
		c.FirstEvent, c.Progress = 150*time.Millisecond,
			60*time.Millisecond
	}
	for _, c := range []struct {
		name, want string
		chunks     []string
	}{
		{"before the first event", "nothing for 150ms", nil},
		{"mid-stream", "nothing for 60ms", []string{role, word}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ask(t, engineAt(t, hang(c.chunks...), quick), hello)
			var e *agentd.EngineError
			if !errors.As(got.Err, &e) || !e.Stalled || !strings.Contains(e.Error(), c.want) {
				t.Errorf("error %v", got.Err)
			}
		})
	}
	t.Run("after the finish it is an answer", func(t *testing.T) {
		got := ask(t, engineAt(t, hang(role, word, finish), quick), hello)
		if got.Err != nil || got.Answer.Finish != "stop" || !got.Answer.Unmetered {
			t.Errorf("%+v", got)
		}
	})
}

// Whoever ends an answer, the connection is closed at once: that is what frees the engine's slot.
func TestEndedByUs(t *testing.T) {
	closed := make(chan struct{}, 8)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		send(w, role, word)
		<-r.Context().Done()
		closed <- struct{}{}
	}).URL
	e := engineAt(t, url)
	mine := errors.New("the client went away")

	t.Run("by the context", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(context.Background())
		a, err := e.Complete(ctx, hello, func(c agentd.Chunk) error {
			if c.Count > 0 {
				cancel(mine)
			}
			return nil
		})
		if err != mine || !a.Unmetered || a.Usage.Prompt != 3 || a.Usage.Output != 1 {
			t.Errorf("%+v %v", a, err)
		}
		<-closed
	})
	t.Run("by the token function", func(t *testing.T) {
		a, err := e.Complete(context.Background(), hello, func(c agentd.Chunk) error {
			if c.Count > 0 {
				return mine
			}
			return nil
		})
		if err != mine || a.Usage.Output != 1 {
			t.Errorf("%+v %v", a, err)
		}
		<-closed
	})
}

// What one read yields is one chunk, however many events it held.
func TestOneReadOneChunk(t *testing.T) {
	var got []string
	e := engineAt(t, events(t, false, role, word+word+word+finish+done).URL)
	_, err := e.Complete(context.Background(), hello, func(c agentd.Chunk) error {
		got = append(got, fmt.Sprintf("%d:%s", c.Events, c.Text))
		return nil
	})
	joined := strings.Join(got, "|")
	if err != nil || joined != "1:|4: so so so." && joined != "5: so so so." {
		t.Errorf("%q %v", joined, err)
	}
}

// A server may close an idle connection in the moment it is used again; the request is asked again,
// and the caller notices nothing.
func TestRacedIdleConnection(t *testing.T) {
	l := listen(t)
	var requests, connections atomic.Int32
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			first := connections.Add(1) == 1
			go func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for n := 0; ; n++ {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					requests.Add(1)
					io.Copy(io.Discard, r.Body)
					if first && n == 1 {
						return // closed before a byte of an answer
					}
					body := role + word + finish + done
					fmt.Fprintf(conn,
						"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s",
						len(body), body)
				}
			}()
		}
	}()
	e := engineAt(t, "http://"+l.Addr().String())
	for i := range 2 {
		got := ask(t, e, hello)
		if got.Err != nil || got.Text != " so." {
			t.Fatalf("request %d: %+v", i, got)
		}
		e.drains.Wait() // the connection is idle again
	}
	if requests.Load() != 3 || connections.Load() != 2 {
		t.Errorf("%d requests on %d connections, want 3 on 2", requests.Load(), connections.Load())
	}
}

func TestRequestAsSent(t *testing.T) {
	var got *http.Request
	var body []byte
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		send(w, role, finish, done)
	}).URL
	e := engineAt(t, url, func(c *agentd.EngineConfig) { c.APIKey = "secret"; c.URL += "/" })
	r := hello
	r.Trace = bus.Trace{Parent: "00-aa-bb-01"}
	r.Kind = bus.KindCompletion
	if s := ask(t, e, r); s.Err != nil {
		t.Fatal(s.Err)
	}
	for name, want := range map[string]string{"Authorization": "Bearer secret", "X-Request-Id": "math-1-0",
		"Traceparent": "00-aa-bb-01"} {
		if got.Header.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, got.Header.Get(name), want)
		}
	}
	if _, sent := got.Header["Idempotency-Key"]; sent || got.URL.Path != "/v1/completions" {
		t.Errorf("%s %v", got.URL.Path, got.Header)
	}
	want := `{"model":"tiny","stream":true,"stream_options":{"include_usage":true},"return_token_ids":true,"max_tokens":8,"messages":[{"role":"user","content":"Hello there"}]}`
	if string(body) != want {
		t.Errorf("body %s", body)
	}
}
