package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/bustest"
	"souk/cmd/local"
	"souk/market"
)

// one is a market with one hub and one agent of a few slots.
const one = `
listen: 127.0.0.1:0
domains: [{name: general, general: true, labels: [general, humanities, social, law, medicine, math, science, finance, code]}]
agents:
  - {id: only, model: gpt-oss-20b, price_row: fireworks/gpt-oss-20b, scores: [{domain: general, score: 0.7}], slots: 8, engine: {profile: steady}}
speedup: 20
clients: {dev: 10, other: 10, poor: 0.000001}
gateway: {max_body: 524288}
`

// house is a running market with its gateway, and what it has logged.
type house struct {
	*local.Market
	t   testing.TB
	dir string
	at  string // of its gateway
	key string
	log *bustest.Buffer
	// stops it and starts it again
	again func()
	// what no log may have
	canaries *[]string
}

func start(t testing.TB, yaml string) *house {
	t.Helper()
	cfg, err := local.ParseConfig("test.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, dir: t.TempDir(), log: new(bustest.Buffer), canaries: &[]string{"What is a souk"}}
	log := slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	begin := func() {
		h.Market, err = local.Start(t.Context(), local.Options{Dir: h.dir, Config: cfg, Log: log,
			Within: 4 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
	}
	begin()
	h.again = func() {
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		begin()
		h.at = h.State.HTTP
	}
	t.Cleanup(func() {
		if err := h.Err(); err != nil {
			t.Errorf("a part of the market failed: %v", err)
		}
		if err := h.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := local.CheckLedger(context.Background(), h.dir, io.Discard); err != nil {
			t.Errorf("ledger check: %v", err)
		}
		h.searchFiles()
		for _, c := range *h.canaries {
			if strings.Contains(h.log.String(), c) {
				t.Errorf("the log has %.20q...", c)
			}
		}
	})
	if h.key, err = local.ReadKey(h.KeyFile); err != nil {
		t.Fatal(err)
	}
	h.at = h.State.HTTP
	*h.canaries = append(*h.canaries, h.key[len("sk-souk-")+10:])
	return h
}

// searchFiles looks for keys in what the market keeps, where none is but in the file that is its own.
func (h *house) searchFiles() {
	texts, err := bustest.Files(h.dir)
	if err != nil {
		h.t.Error(err)
	}
	for path, text := range texts {
		for _, c := range (*h.canaries)[1:] {
			if path != h.KeyFile && bytes.Contains(text, []byte(c)) {
				h.t.Errorf("%s has a key", path)
			}
		}
	}
}

// newKey makes a key.
func (h *house) newKey(k bus.APIKey) string {
	h.t.Helper()
	secret, err := local.NewKey(h.t.Context(), h.Registry, h.Link.Budget, k)
	if err != nil {
		h.t.Fatal(err)
	}
	*h.canaries = append(*h.canaries, secret[len("sk-souk-")+len(k.ID):])
	return secret
}

func (h *house) until(what string, ok func() bool) {
	h.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(end) {
			h.t.Fatalf("a minute passed before %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// within wants one of five tries to take no longer than that: a machine may be busy with others in some.
func (h *house) within(what string, most time.Duration, try func() time.Duration) {
	h.t.Helper()
	var took []time.Duration
	for range 5 {
		if took = append(took, try()); took[len(took)-1] <= most {
			return
		}
	}
	h.t.Errorf("%s: after %v, want %v at most", what, took, most)
}

// reply is a response, read to its end.
type reply struct {
	status int
	header http.Header
	body   string
}

func (h *house) request(ctx context.Context, method, path, body, key string, header ...string) *http.Request {
	h.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, h.at+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func (h *house) do(method, path, body, key string, header ...string) reply {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 30*time.Second)
	defer cancel()
	r, err := http.DefaultClient.Do(h.request(ctx, method, path, body, key, header...))
	if err != nil {
		h.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return reply{r.StatusCode, r.Header, string(b)}
}

func chat(more string) string {
	return `{"model":"auto","messages":[{"role":"user","content":"What is a souk?"}],"max_tokens":20` + more + `}`
}

// object is an answer, whole or in events, as clients read it.
type object struct {
	ID, Object, Model string
	Choices           []struct {
		Index   int
		Text    string
		Message struct{ Role, Content string }
		Delta   struct{ Role, Content string }
		Finish  string `json:"finish_reason"`
		IDs     []int  `json:"token_ids"`
		Logs    any    `json:"logprobs"`
	}
	Usage map[string]any
	Souk  map[string]any
	Error *struct {
		Message, Type, Param, Code string
		Souk                       struct {
			Code, Task string
			RetryMS    int64 `json:"retry_ms"`
		}
	}
}

func (r reply) object(t testing.TB) (o object) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.body), &o); err != nil {
		t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	return o
}

// events reads a stream to its end; comments are left out.
func events(t testing.TB, stream string) (out []object, done bool) {
	t.Helper()
	s := bufio.NewScanner(strings.NewReader(stream))
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		data, ok := strings.CutPrefix(s.Text(), "data: ")
		switch {
		case !ok:
			if s.Text() != "" && !strings.HasPrefix(s.Text(), "id: ") && !strings.HasPrefix(s.Text(), ":") {
				t.Fatalf("line %q", s.Text())
			}
		case data == "[DONE]":
			done = true
		default:
			out = append(out, reply{body: data}.object(t))
		}
	}
	return out, done
}

func said(list []object) string {
	var b strings.Builder
	for _, e := range list {
		for _, c := range e.Choices {
			b.WriteString(c.Delta.Content + c.Text)
		}
	}
	return b.String()
}

func TestAWholeAnswer(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, one)
	r := h.do("POST", "/v1/chat/completions", chat(``), h.key)
	o := r.object(t)
	if r.status != 200 || o.Object != "chat.completion" || o.Model != "gpt-oss-20b" || len(o.Choices) != 1 ||
		o.Choices[0].Message.Content == "" || o.Choices[0].Message.Role != "assistant" ||
		o.Choices[0].Finish != "length" || o.Usage["completion_tokens"] != 20.0 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if r.header.Get("X-Souk-Receipt") != o.Souk["receipt"] || r.header.Get("X-Souk-Agent") != "only" ||
		r.header.Get("X-Souk-Hub") != "general" || r.header.Get("X-Souk-Task") != o.Souk["task"] ||
		r.header.Get("X-Souk-Paid") != fmt.Sprint(o.Souk["paid"]) && o.Souk["paid"] == 0.0 {
		t.Errorf("headers %v of %s", r.header, r.body)
	}
	text := h.do("POST", "/v1/completions", `{"prompt":"Once","max_tokens":5}`, h.key)
	if o := text.object(t); text.status != 200 || o.Object != "text_completion" || o.Choices[0].Text == "" {
		t.Errorf("%d %s", text.status, text.body)
	}
	if s := h.Gateway.Stats(); s.Wholes != 2 || s.Open != 0 {
		t.Errorf("%+v", s)
	}
}

func TestAStream(t *testing.T) {
	h := start(t, one)
	r := h.do("POST", "/v1/chat/completions", chat(`,"stream":true,"stream_options":{"include_usage":true},`+
		`"temperature":0`), h.key)
	if r.status != 200 || r.header.Get("Content-Type") != "text/event-stream" ||
		r.header.Get("X-Souk-Task") == "" {
		t.Fatalf("%d %v %s", r.status, r.header, r.body)
	}
	list, done := events(t, r.body)
	n := len(list)
	if !done || n < 3 || list[0].Choices[0].Delta.Role != "assistant" || said(list) == "" ||
		list[n-2].Choices[0].Finish != "length" || list[n-2].Souk["receipt"] == nil ||
		len(list[n-1].Choices) != 0 || list[n-1].Usage["completion_tokens"] != 20.0 {
		t.Fatalf("%s", r.body)
	}
	whole := h.do("POST", "/v1/chat/completions", chat(`,"temperature":0`), h.key).object(t)
	if whole.Choices[0].Message.Content != said(list) {
		t.Errorf("whole %q, in events %q", whole.Choices[0].Message.Content, said(list))
	}
	ids := h.do("POST", "/v1/chat/completions", chat(`,"stream":true,"return_token_ids":true`), h.key)
	count := 0
	list, _ = events(t, ids.body)
	for _, e := range list {
		for _, c := range e.Choices {
			count += len(c.IDs)
		}
	}
	if count != 20 {
		t.Errorf("%d token ids: %s", count, ids.body)
	}
}

// Several answers are several choices, and cost no more together than the terms say.
func TestSeveralAnswers(t *testing.T) {
	h := start(t, one)
	body := `{"prompt":["one","two"],"n":2,"max_tokens":8,"seed":7,"souk":{"terms":{"max_price":0.01}}%s}`
	r := h.do("POST", "/v1/completions", fmt.Sprintf(body, ""), h.key)
	o := r.object(t)
	if r.status != 200 || len(o.Choices) != 4 || o.Usage["completion_tokens"] != 32.0 ||
		len(o.Souk["tasks"].([]any)) != 4 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	var paid market.Credits
	if err := paid.UnmarshalJSON([]byte(r.header.Get("X-Souk-Paid"))); err != nil || paid <= 0 ||
		paid > market.Credits(1e7) {
		t.Errorf("paid %q: %v", r.header.Get("X-Souk-Paid"), err)
	}
	r = h.do("POST", "/v1/completions", fmt.Sprintf(body, `,"stream":true`), h.key)
	list, done := events(t, r.body)
	ends, texts := map[int]int{}, map[int]string{}
	for _, e := range list {
		for _, c := range e.Choices {
			if texts[c.Index] += c.Text; c.Finish != "" {
				ends[c.Index]++
			}
		}
	}
	for i, c := range o.Choices {
		if c.Index != i || ends[i] != 1 || texts[i] == "" {
			t.Errorf("choice %d: %+v, in events %q with %d ends", i, c, texts[i], ends[i])
		}
	}
	if !done {
		t.Errorf("%s", r.body)
	}
}

func TestWhatIsSoldAndWhatIsLeft(t *testing.T) {
	h := start(t, one)
	h.until("the hub is heard", func() bool {
		return strings.Contains(h.do("GET", "/v1/models", "", h.key).body, "gpt-oss-20b")
	})
	r := h.do("GET", "/v1/models", "", h.key)
	var list struct {
		Object string
		Data   []struct {
			ID   string
			Souk struct {
				Agents int
				Price  map[string][2]float64
			}
		}
	}
	if err := json.Unmarshal([]byte(r.body), &list); err != nil || len(list.Data) != 2 ||
		list.Data[0].ID != "auto" || list.Data[1].ID != "gpt-oss-20b" || list.Data[1].Souk.Agents != 1 ||
		list.Data[1].Souk.Price["out"][0] <= 0 {
		t.Errorf("%v: %s", err, r.body)
	}
	if r := h.do("GET", "/v1/models/gpt-oss-20b", "", h.key); r.status != 200 ||
		r.object(t).ID != "gpt-oss-20b" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := h.do("GET", "/v1/models/other/one", "", h.key); r.status != 404 ||
		r.object(t).Error.Code != "model_not_found" {
		t.Errorf("%d %s", r.status, r.body)
	}
	// a key that may not ask for it is told so, not that nobody sells it
	other := h.newKey(bus.APIKey{ID: "k9", Client: "dev", Models: []string{"other"}})
	if r := h.do("GET", "/v1/models/gpt-oss-20b", "", other); r.status != 404 ||
		!strings.Contains(r.body, "this key may ask for other") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := h.do("GET", "/v1/models", "", other); r.body != `{"object":"list","data":[]}` {
		t.Errorf("%d %s", r.status, r.body)
	}
	any := h.newKey(bus.APIKey{ID: "k8", Client: "dev", Models: []string{"auto"}})
	if r := h.do("POST", "/v1/chat/completions", chat(``), any); r.status != 200 {
		t.Errorf("a key that may ask for auto asks for it: %d %s", r.status, r.body)
	}
	if r := h.do("POST", "/v1/completions", `{"model":"gpt-oss-20b","prompt":"a"}`, any); r.status != 404 {
		t.Errorf("and for a model by name: %d %s", r.status, r.body)
	}
	if r := h.do("GET", "/v1/models", "", any); !strings.Contains(r.body, `"data":[{"id":"auto",`) ||
		strings.Contains(r.body, "gpt-oss-20b") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := h.do("GET", "/v1/balance", "", h.key); r.status != 200 ||
		!strings.Contains(r.body, `"client":"dev"`) {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := h.do("GET", "/health", "", ""); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// What a key's client has spent, and has left, is said over HTTP, too: of each hub that has money of it.
func TestABalanceSaysWhatIsSpent(t *testing.T) {
	h := start(t, one)
	slow := h.newKey(bus.APIKey{ID: "slow", Client: "dev", Rate: 0.01})
	paid := h.do("POST", "/v1/chat/completions", chat(``), h.key).paid(t)
	h.until("it is taken", func() bool { return h.captured("dev") == paid })
	type balance struct {
		Prepaid, Allotted market.Credits
		Hubs              []struct {
			Hub                              string
			Allotted, Available, Held, Spent *market.Credits
		}
	}
	var b balance
	r := h.do("GET", "/v1/balance?hubs=true", "", h.key)
	if err := json.Unmarshal([]byte(r.body), &b); err != nil || r.status != 200 || len(b.Hubs) != 1 {
		t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	hub := b.Hubs[0]
	if hub.Hub != "general" || paid == 0 || *hub.Spent != paid || *hub.Held != 0 ||
		*hub.Available+*hub.Spent != b.Allotted || b.Prepaid+*hub.Available+paid != 10*market.Credit {
		t.Errorf("%s was paid: %s", paid, r.body)
	}
	for query, want := range map[string]int{"": 200, "?hubs=false": 200, "?hubs=yes": 400, "?hubs=": 400,
		"?hubs=true&hubs=true": 400, "?hub=true": 200} {
		r := h.do("GET", "/v1/balance"+query, "", h.key)
		if r.status != want || strings.Contains(r.body, "spent") {
			t.Errorf("%q: %d %s", query, r.status, r.body)
		}
	}
	// hubs are asked: that counts as a request of the key
	if r := h.do("GET", "/v1/balance?hubs=true", "", slow); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := h.do("GET", "/v1/balance?hubs=true", "", slow); r.status != 429 {
		t.Errorf("%d %s", r.status, r.body)
	}
}
