package integration

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"souk/agentd/vllmsim"
	"souk/bus"
	"souk/bus/bustest"
	"souk/cmd/local"
)

// Whatever a client sends, it is told what was wrong by a code that never changes, and nobody else notices.
func TestBadInputIsRefusedAtTheDoor(t *testing.T) {
	m := start(t, one)
	nc := raw(t, m)
	hello := `"messages":[{"role":"user","content":"Hello"}]`
	packed, err := bus.Encode(&bus.Task{Client: "dev", Kind: bus.KindChat, Body: []byte(`{` + hello + `}`)})
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name, client, body string
		want               bus.Code
		says               string
	}{
		{"no JSON", "dev", `{"messages":`, bus.CodeBadRequest, ""},
		{"no object", "dev", `[1,2]`, bus.CodeBadRequest, ""},
		{"nothing at all", "dev", ``, bus.CodeBadRequest, ""},
		{"more behind the end", "dev", `{` + hello + `}` + "\x00", bus.CodeBadRequest, "more follows"},
		{"words", "dev", "hello", bus.CodeBadRequest, "messages"},
		{"random bytes", "dev", "\xc1\xff\x00\x17", bus.CodeBadRequest, ""},
		{"truncated msgpack", "dev", string(packed[:len(packed)/2]), bus.CodeBadRequest, ""},
		{"msgpack that claims four billion fields", "dev", "\xdf\xff\xff\xff\xff", bus.CodeBadRequest, ""},
		{"msgpack nested without end", "dev", strings.Repeat("\x91", 100_000), bus.CodeBadRequest, ""},
		{"JSON nested without end", "dev", `{"messages":` + strings.Repeat("[", 100_000), bus.CodeBadRequest,
			""},
		{"messages that are no list", "dev", `{"messages":"Hello"}`, bus.CodeBadRequest, "messages"},
		{"a max_tokens of words", "dev", `{` + hello + `,"max_tokens":"many"}`, bus.CodeBadRequest,
			"max_tokens"},
		{"no messages", "dev", `{"messages":[]}`, bus.CodeEmptyPrompt, ""},
		{"an empty message", "dev", `{"messages":[{"role":"user","content":""}]}`, bus.CodeEmptyPrompt, ""},
		{"longer than any context", "dev", `{"messages":[{"role":"user","content":"` +
			strings.Repeat("many words ", 30_000) + `"}]}`, bus.CodePromptTooLong, ""},
		{"above 512 KB", "dev", `{"messages":[{"role":"user","content":"` + strings.Repeat("a", 513<<10) +
			`"}]}`, bus.CodeTooLarge, "524288"},
		{"two answers", "dev", `{` + hello + `,"n":2}`, bus.CodeUnsupportedField, "n"},
		{"embeddings", "dev", `{"model":"auto","input":"Hello"}`, bus.CodeUnknownModel, "/v1/embeddings"},
		{"unknown model", "dev", `{"model":"gpt-17",` + hello + `}`, bus.CodeUnknownModel, "gpt-17"},
		{"negative worth", "dev", `{` + hello + `,"souk":{"terms":{"worth":-1}}}`, bus.CodeBadTerms, "worth"},
		{"absurd worth", "dev", `{` + hello + `,"souk":{"terms":{"worth":1e30}}}`, bus.CodeBadTerms, "1e30"},
		{"delta above one", "dev", `{` + hello + `,"souk":{"terms":{"delta":1.5}}}`, bus.CodeBadTerms,
			"delta"},
		{"no patience", "dev", `{` + hello + `,"souk":{"terms":{"patience_ms":-5}}}`, bus.CodeBadTerms,
			"patience"},
		{"a price of nothing", "dev", `{` + hello + `,"souk":{"terms":{"max_price":0}}}`, bus.CodeBadTerms,
			"max_price"},
		{"an echo, which no engine would give", "dev", `{"prompt":"Hello","echo":true}`,
			bus.CodeUnsupportedField, "echo"},
		{"an unknown field of ours", "dev", `{` + hello + `,"souk":{"wurth":1}}`, bus.CodeBadRequest,
			"wurth"},
		{"past its deadline", "dev", `{` + hello + `,"souk":{"deadline_ms":1000}}`, bus.CodePastDeadline, ""},
		{"an id with a dot", "dev", `{` + hello + `,"souk":{"task":"a.b"}}`, bus.CodeBadRequest, "task"},
		{"a client nobody funded", "nobody", `{` + hello + `}`, bus.CodeUnknownClient, "nobody"},
		{"a client without money", "poor", `{` + hello + `}`, bus.CodeInsufficientFunds, ""},
		{"worth less than it costs", "dev", `{` + hello + `,"souk":{"terms":{"worth":0.000000001}}}`,
			bus.CodeNotWorthIt, ""},
	}
	before := snapshot(t, m)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := request(t, rawAs(t, m, c.client), bus.TaskSubject(c.client, ""), c.body)
			if r.Code != c.want || !strings.Contains(r.Message, c.says) || r.Message == "" {
				t.Errorf("got %s: %.300s\nwant %s and a message with %q", r.Code, r.Message, c.want, c.says)
			}
			if r.Cost != 0 || r.Premium != 0 || r.Receipt != nil {
				t.Errorf("a refusal cost %s and %s", r.Cost, r.Premium)
			}
		})
	}
	if diff := cmp.Diff(before, snapshot(t, m)); diff != "" {
		t.Errorf("refusals changed the books: before -, after +\n%s", diff)
	}
	if got := refusals(m); got < len(cases)-3 { // the last three are the hub's own
		t.Errorf("the door counted %d refusals of %d", got, len(cases))
	}
	if r := request(t, nc, bus.TaskSubject("dev", ""), `{`+hello+`,"max_tokens":5}`); r.Code != "" ||
		r.Text == "" {
		t.Errorf("after all that an ordinary task got %s: %s", r.Code, r.Message)
	}
}

// vLLM finds some mistakes only once its stream has begun. They are the request's all the same: it is
// refused, no other engine is asked, and no agent is the worse for it.
func TestWhatAnEngineRefusesWithinItsStream(t *testing.T) {
	engine, err := vllmsim.New(vllmsim.Config{Model: "gpt-oss-20b"})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	var asked atomic.Int32
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/chat/completions") {
			engine.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		asked.Add(1)
		if r.Body = io.NopCloser(bytes.NewReader(body)); !bytes.Contains(body, []byte("logit_bias")) {
			engine.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		io.WriteString(w, `data: {"error": {"message": "token_id(s) [99999999] in logit_bias contain out-of-vocab token ids.", "type": "BadRequestError", "param": "logit_bias", "code": 400}}`+
			"\n\ndata: [DONE]\n\n")
	}))
	defer front.Close()
	agent := `  - {id: %s, model: gpt-oss-20b, price_row: fireworks/gpt-oss-20b, scores: [{domain: general, score: 0.7}], slots: 2, engine: {url: "%s"}}` + "\n"
	head, rest, _ := strings.Cut(one, "agents:\n")
	_, rest, _ = strings.Cut(rest, "\n")
	m := start(t, head+"agents:\n"+fmt.Sprintf(agent, "first", front.URL)+
		fmt.Sprintf(agent, "second", front.URL)+rest)
	nc := raw(t, m)
	r := request(t, nc, bus.TaskSubject("dev", ""),
		`{"messages":[{"role":"user","content":"Hello"}],"max_tokens":5,"logit_bias":{"99999999":1}}`)
	if r.Code != bus.CodeEngineRefused || !strings.Contains(r.Message, "out-of-vocab") || r.Paid() != 0 {
		t.Errorf("got %s: %s, paid %s", r.Code, r.Message, r.Paid())
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("%d engines were asked", n)
	}
	if r := request(t, nc, bus.TaskSubject("dev", ""),
		`{"messages":[{"role":"user","content":"Hello"}],"max_tokens":5}`); r.Code != "" || r.Text == "" {
		t.Errorf("after that an ordinary task got %s: %s", r.Code, r.Message)
	}
}

// snapshot returns the balances of clients and agents, and the number of rounds.
func snapshot(t *testing.T, m *local.Market) map[string]string {
	t.Helper()
	books, err := books(m)
	if err != nil {
		t.Fatal(err)
	}
	s := map[string]string{}
	for _, b := range books {
		name := b.Journal().Journal
		for _, x := range b.Balances("*") {
			// An allotment may move between the treasury and a hub; it stays the client's.
			if !strings.HasSuffix(x.Account, ":avail") && !strings.HasSuffix(x.Account, ":prepaid") &&
				!strings.HasPrefix(x.Account, "clearing:") && x.Amount != 0 {
				s[name+" "+x.Account] = x.Amount.String()
			}
		}
		rounds, _ := b.LastRound()
		s[name+" rounds"] = fmt.Sprint(rounds)
	}
	return s
}

func refusals(m *local.Market) (n int) {
	for _, count := range m.Door.Stats().Refused {
		n += int(count)
	}
	return n
}

func TestATaskIdIsUsedOnce(t *testing.T) {
	m := start(t, one)
	nc := raw(t, m)
	ask := func(text string) bus.Result {
		return request(t, nc, bus.TaskSubject("dev", ""), `{"messages":[{"role":"user","content":"`+text+
			`"}],"max_tokens":5,"souk":{"task":"once"}}`)
	}
	first := ask("Hello")
	if first.Code != "" {
		t.Fatalf("first: %s: %s", first.Code, first.Message)
	}
	paid := balance(t, m, "dev")
	if r := ask("Something else"); r.Code != bus.CodeIDConflict {
		t.Errorf("same id, other content: got %q: %s; want %s", r.Code, r.Message, bus.CodeIDConflict)
	}
	for name, body := range map[string]string{
		"terms":      `,"max_tokens":5,"souk":{"task":"once","terms":{"worth":0.5}}`,
		"patience":   `,"max_tokens":5,"souk":{"task":"once","terms":{"patience_ms":77}}`,
		"session":    `,"max_tokens":5,"souk":{"task":"once","session":"s"}`,
		"role":       `,"max_tokens":5,"souk":{"task":"once","role":"critic"}`,
		"max_tokens": `,"max_tokens":6,"souk":{"task":"once"}`,
		"stream":     `,"max_tokens":5,"stream":true,"souk":{"task":"once"}`,
	} {
		if r := request(t, nc, bus.TaskSubject("dev", ""), `{"messages":[{"role":"user","content":"Hello"}]`+body+
			`}`); r.Code != bus.CodeIDConflict {
			t.Errorf("same id, other %s: got %q: %s; want %s", name, r.Code, r.Message, bus.CodeIDConflict)
		}
	}
	again := ask("Hello")
	if again.Code == "" && (again.Receipt == nil || !reflect.DeepEqual(again.Receipt, first.Receipt)) {
		t.Errorf("same id and content were served a second time: %+v", again)
	}
	if now := balance(t, m, "dev"); now != paid {
		t.Errorf("the repeats cost %s", paid-now)
	}
}

func TestMessagesBeyondThePayloadNeverEnter(t *testing.T) {
	m := start(t, one)
	nc := raw(t, m)
	share := bus.ShareOf(bus.RoleClient, 0).Payload
	bustest.Eventually(t, "the server says what its client may send", func() bool {
		return nc.MaxPayload() == int64(share)
	})
	if _, err := nc.Request(bus.TaskSubject("dev", ""), bytes.Repeat([]byte(" "), share+1),
		time.Second); err == nil {
		t.Error("a message beyond max_payload was taken")
	}
}
