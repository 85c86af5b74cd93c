package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"souk/agentd/vllmsim"
	"souk/bus"
	"souk/bus/gateway"
)

// A body of more bytes than a message has reaches the engine as it was sent, also for several answers: one
// with a picture, of which this engine says itself that it reads none, and one that is mostly white space.
func TestALargeBodyReachesTheEngine(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, strings.Replace(one, "max_body: 524288", "max_body: 2000000", 1))
	for _, size := range []int{20_000, 1_200_000} {
		r := h.do("POST", "/v1/chat/completions", `{"max_tokens":5,"messages":[{"role":"user","content":[`+
			`{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,`+strings.Repeat("A", size)+`"}}]}]}`,
			h.key)
		if r.status != 400 || !strings.Contains(r.body, "the engine answered 400: At most 0 image(s)") {
			t.Errorf("%d bytes: %d %.300s", size, r.status, r.body)
		}
	}
	for _, more := range []string{"", `"stream":true,`} {
		r := h.do("POST", "/v1/chat/completions", "{"+more+`"n":2,"max_tokens":5,"messages":[`+
			strings.Repeat(" ", 1_200_000)+`{"role":"user","content":"What is a souk?"}]}`, h.key)
		if r.status != 200 || strings.Count(r.body, `"finish_reason":"length"`) != 2 {
			t.Errorf("%s: %d %.300s", more, r.status, r.body)
		}
	}
}

// A prompt of 175,000 tokens reaches an engine that has room for 262,144, by the limit that a gateway has of
// itself.
func TestALongPromptReachesALongContext(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	engine, err := vllmsim.New(vllmsim.Config{Model: "gpt-oss-20b", MaxModelLen: 262_144})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	server := httptest.NewServer(engine)
	t.Cleanup(server.Close)
	h := start(t, strings.NewReplacer("{profile: steady}", `{url: "`+server.URL+`"}`,
		"gateway: {max_body: 524288}", "").Replace(one))
	*h.canaries = append(*h.canaries, "information information")
	const word = " information" // one token of twelve bytes
	r := h.do("POST", "/v1/chat/completions", `{"max_tokens":3,"messages":[{"role":"user","content":"`+
		strings.Repeat(word, 175_000)+`"}]}`, h.key)
	if r.status != 200 || r.object(t).Usage["prompt_tokens"].(float64) < 175_000 {
		t.Errorf("%d %.300s", r.status, r.body)
	}
}

// A quote for a body that has come in pieces is that of the task: at a gateway, and for a client on the bus.
func TestAQuoteForALargeBody(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, strings.Replace(one, "max_body: 524288", "max_body: 2000000", 1))
	body := `{"max_tokens":5,"messages":[` + strings.Repeat(" ", 1_200_000) +
		`{"role":"user","content":"What is a souk?"}]}`
	r := h.quote(body, h.key)
	if r.status != 200 || !strings.Contains(r.body, `"would_win":true`) {
		t.Errorf("%d %.300s", r.status, r.body)
	}
	c, err := h.Link.Client("dev")
	if err != nil {
		t.Fatal(err)
	}
	q, err := c.Quote(t.Context(), bus.Task{Body: []byte(body)})
	if err != nil || len(q.Hubs) != 1 || len(q.Hubs[0].Models) != 1 {
		t.Errorf("%+v, %v", q, err)
	}
	if _, err = c.Quote(t.Context(), bus.Task{Body: make([]byte, bus.MaxLarge+1)}); bus.CodeOf(err) !=
		bus.CodeTooLarge {
		t.Errorf("more than anybody takes: %v", err)
	}
}

// The gateway takes a body up to its limit and says which that is. A large one stays with it until its answer
// has ended, and whoever was given the task has it piece by piece.
func TestALargeBodyStaysWithTheGateway(t *testing.T) {
	onStage(t, func(c *gateway.Config) { c.MaxBody = 2 << 20 }, func(t *testing.T, st *stage) {
		sent := large(bus.MaxBody+bus.MaxBody/2, "")
		pieces := make(chan []byte, 8)
		if _, err := st.them.Subscribe(bus.PieceSubject("them", "*", "gate"), "", func(m bus.Msg) {
			var p bus.BodyPiece
			if err := bus.Decode(m.Data, &p); err != nil {
				t.Error(err)
			}
			pieces <- p.Data
		}); err != nil {
			t.Fatal(err)
		}
		ask := func(l *bus.Large, at int) []byte {
			data, err := bus.Encode(&bus.BodyAsk{SHA256: l.SHA256, At: at, Token: "x"})
			if err != nil {
				t.Fatal(err)
			}
			err = st.them.Publish(bus.Msg{Subject: bus.BodySubject("gate", "them"), Data: data})
			if err != nil {
				t.Fatal(err)
			}
			return <-pieces
		}
		was := make(chan *bus.Large, 1)
		st.will(func(j *job) {
			if len(j.Body) > 0 || j.Large == nil || j.Large.Bytes != len(sent) {
				t.Errorf("%d bytes came with the task, %+v", len(j.Body), j.Large)
			}
			if got := string(ask(j.Large, 0)) + string(ask(j.Large, bus.MaxBody)); got != sent {
				t.Errorf("%d bytes came of %d", len(got), len(sent))
			}
			was <- j.Large
			j.accept()
			j.say("x")
			j.end("")
		})
		if r := st.do("/v1/chat/completions", sent); r.status != 200 {
			t.Fatalf("%d %.200s", r.status, r.body)
		}
		synctest.Wait()
		if got := ask(<-was, 0); len(got) > 0 {
			t.Errorf("after the answer's end %d bytes of it are there", len(got))
		}
		r := st.do("/v1/chat/completions", large(2<<20, ""))
		var o struct{ Error struct{ Message string } }
		if err := json.Unmarshal([]byte(r.body), &o); err != nil || r.status != 413 ||
			!strings.Contains(o.Error.Message, fmt.Sprintf("at most %d are taken", 2<<20)) {
			t.Errorf("a body beyond the limit: %d %.200s", r.status, r.body)
		}
	})
}

// Counting tokens costs its asker nothing, so that a key has so many bytes counted in a while, though it has
// no rate of its own; another key is not kept from it.
func TestManyLargeCountsWait(t *testing.T) {
	onStage(t, func(c *gateway.Config) { c.MaxBody = bus.MaxLarge }, func(t *testing.T, st *stage) {
		half := strings.Repeat(" ", bus.MaxLarge/2+1)
		for i, want := range []int{400, 429} { // of nothing
			if r := st.do("/v1/messages/count_tokens", half); r.status != want {
				t.Errorf("%d: %d %.200s, want %d", i, r.status, r.body, want)
			}
		}
		st.key = st.other
		if r := st.do("/v1/messages/count_tokens", half); r.status != 400 {
			t.Errorf("another key: %d %.200s", r.status, r.body)
		}
	})
}
