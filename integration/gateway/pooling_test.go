package gateway_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"souk/market"
)

// pooling is a market with a model that chats and one that embeds and reranks.
const pooling = `
listen: 127.0.0.1:0
domains: [{name: general, general: true, labels: [general, humanities, social, law, medicine, math, science, finance, code]}]
agents:
  - {id: talks, model: gpt-oss-20b, price_row: fireworks/gpt-oss-20b, scores: [{domain: general, score: 0.7}], slots: 8, engine: {profile: instant}}
  - {id: pools, model: bge-m3, price: {miss: 1, hit: 0.5, out: 3}, scores: [{domain: general, score: 0.7}], slots: 8, engine: {profile: instant, pooling: true}}
clients: {dev: 10}
gateway: {max_body: 524288}
`

// vectors is an answer to a request for embeddings.
type vectors struct {
	Data []struct {
		Index     int
		Embedding json.RawMessage
	}
	Usage struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	}
	Results []struct {
		Index int
		Score float64 `json:"relevance_score"`
	}
	Souk struct {
		Agent   string
		Paid    market.Credits
		Receipt string
	}
}

// pool asks at a route, and reads what it is answered.
func (h *house) pool(route, body string) (v vectors, r reply) {
	h.t.Helper()
	r = h.do("POST", route, body, h.key)
	if err := json.Unmarshal([]byte(r.body), &v); err != nil {
		h.t.Fatalf("%s: %d %.300s: %v", body, r.status, r.body, err)
	}
	return v, r
}

// Embeddings come in every form that clients ask them in, and scores at every route; they cost their prompt's
// tokens.
func TestEmbeddingsAndScores(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, pooling)
	for _, x := range []struct {
		input string
		n     int
	}{{`"What is a souk?"`, 1}, {`["a market","a bazaar","a fish"]`, 3}, {`[1,2,3]`, 1}, {`[[1,2,3],[4]]`, 2}} {
		for _, more := range []string{``, `,"model":"auto"`, `,"model":"bge-m3","user":"u"`} {
			v, r := h.pool("/v1/embeddings", `{"input":`+x.input+more+`}`)
			cost := market.Price{Miss: market.Credit}.Cost(market.Usage{Prompt: v.Usage.Prompt})
			if r.status != 200 || len(v.Data) != x.n || v.Usage.Prompt == 0 || v.Souk.Paid != cost ||
				v.Souk.Agent != "pools" || v.Souk.Receipt == "" ||
				r.header.Get("X-Souk-Paid") != cost.String() {
				t.Errorf("%s%s: %d, paid %s for %d tokens, which cost %s: %.300s", x.input, more, r.status, v.Souk.Paid,
					v.Usage.Prompt, cost, r.body)
			}
		}
	}
	plain, _ := h.pool("/v1/embeddings", `{"input":"a market"}`)
	coded, _ := h.pool("/v1/embeddings", `{"input":"a market","encoding_format":"base64"}`)
	var want []float32
	var code []byte
	if json.Unmarshal(plain.Data[0].Embedding, &want) != nil ||
		json.Unmarshal(coded.Data[0].Embedding, &code) != nil || len(code) != 4*len(want) {
		t.Fatalf("%s and %s", plain.Data[0].Embedding, coded.Data[0].Embedding)
	}
	for i, x := range want {
		if got := math.Float32frombits(binary.LittleEndian.Uint32(code[4*i:])); got != x {
			t.Errorf("number %d: %v in base64, %v else", i, got, x)
		}
	}
	ask := `{"query":"fish market","documents":["a car","the fish market","a market"]`
	for _, route := range []string{"/rerank", "/v1/rerank", "/v2/rerank"} {
		v, r := h.pool(route, ask+`}`)
		first, _ := h.pool(route, ask+`,"top_n":1,"model":"bge-m3"}`)
		if r.status != 200 || len(v.Results) != 3 || v.Results[0].Index != 1 || v.Souk.Paid == 0 ||
			len(first.Results) != 1 || first.Results[0] != v.Results[0] {
			t.Errorf("%s: %d %s, and one: %+v", route, r.status, r.body, first)
		}
	}
	if r := h.do("POST", "/v1/quote", `{"input":"a market","model":"bge-m3"}`, h.key); r.status != 200 ||
		!strings.Contains(r.body, `"bge-m3"`) {
		t.Errorf("a quote: %d %s", r.status, r.body)
	}
	var list struct {
		Data []struct {
			ID   string
			Souk struct{ Routes []string }
		}
	}
	if err := json.Unmarshal([]byte(h.do("GET", "/v1/models", "", h.key).body), &list); err != nil {
		t.Fatal(err)
	}
	routes := ""
	for _, m := range list.Data {
		routes += fmt.Sprint(m.ID, m.Souk.Routes)
	}
	if want := "auto[]bge-m3[/v1/embeddings /v1/rerank]" +
		"gpt-oss-20b[/v1/chat/completions /v1/completions /v1/responses /v1/messages]"; routes != want {
		t.Errorf("models: %s", routes)
	}
	long := strings.Repeat(`"x",`, 10_000) + `"x"`
	for _, x := range []struct {
		route, body string
		status      int
		want        string
	}{
		{"/v1/embeddings", `{"input":""}`, 400, "input: it is empty"},
		{"/v1/embeddings", `{"input":[]}`, 400, "input: it is empty"},
		{"/v1/embeddings", `{"input":["a",""]}`, 400, "input[1]: it is empty"},
		{"/v1/embeddings", `{"input":[[1],[]]}`, 400, "input[1]: it is empty"},
		{"/v1/embeddings", `{"input":[-1]}`, 400, "from 0 on"},
		{"/v1/embeddings", `{"input":[1.5]}`, 400, "from 0 on"},
		{"/v1/embeddings", `{"input":7}`, 400, "a list of texts is expected"},
		{"/v1/embeddings", `{"input":[` + long + `]}`, 400, "10001 texts, at most 2048"},
		{"/v1/embeddings", `{"input":"` + strings.Repeat("x", 1<<20) + `"}`, 413, "at most"},
		{"/v1/embeddings", `{"input":"a","stream":true}`, 400, "stream"},
		{"/v1/embeddings", `{"input":"a","encoding_format":"bytes"}`, 400, "float or base64"},
		{"/v1/embeddings", `{"input":"a","dimensions":-1}`, 400, "dimensions"},
		{"/v1/embeddings", `{"messages":[{"role":"user","content":"a"}]}`, 400, "input"},
		{"/v1/embeddings", `{"input":"a","model":"gpt-oss-20b"}`, 404, "/v1/chat/completions"},
		{"/v1/embeddings", `{"input":"a","model":"nobody"}`, 404, "bge-m3"},
		{"/v1/chat/completions", strings.Replace(chat(""), `"auto"`, `"bge-m3"`, 1), 404, "/v1/embeddings"},
		{"/v1/chat/completions", `{"input":"a"}`, 400, "/v1/embeddings"},
		{"/v1/rerank", `{"query":"a","documents":[]}`, 400, "documents: it is empty"},
		{"/v1/rerank", `{"query":"","documents":["a"]}`, 400, "query: it is empty"},
		{"/v1/rerank", `{"query":"a"}`, 400, "documents"},
		{"/v1/rerank", `{"query":"a","documents":[{"text":"b"}]}`, 400, "documents[0]"},
		{"/v1/rerank", `{"input":"a"}`, 400, "query and documents"},
	} {
		r := h.do("POST", x.route, x.body, h.key)
		if r.status != x.status || !strings.Contains(r.body, x.want) {
			t.Errorf("%s %.80s: %d %s, want %d with %q", x.route, x.body, r.status, r.body, x.status, x.want)
		}
	}
	if v, r := h.pool("/v1/embeddings", `{"input":"a","model":"auto"}`); len(v.Data) != 1 {
		t.Errorf("auto: %d %s", r.status, r.body)
	}
	if r := h.do("POST", "/v1/chat/completions", chat(""), h.key); r.status != 200 ||
		!strings.Contains(r.body, `"talks"`) {
		t.Errorf("a chat: %d %s", r.status, r.body)
	}
}

// An answer of many megabytes, far more than a message of the bus or what is kept of one, comes whole.
func TestManyVectors(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	h := start(t, pooling)
	const texts, dimensions = 2048, 1024
	input := strings.Repeat(`"a market",`, texts-1) + `"a fish"`
	v, r := h.pool("/v1/embeddings", fmt.Sprintf(`{"encoding_format":"base64","dimensions":%d,"input":[%s]}`, dimensions,
		input))
	if r.status != 200 || len(v.Data) != texts || v.Data[texts-1].Index != texts-1 || len(r.body) < 10<<20 {
		t.Fatalf("%d: %d vectors in %d bytes: %.300s", r.status, len(v.Data), len(r.body), r.body)
	}
	if n := base64.StdEncoding.EncodedLen(4*dimensions) + 2; len(v.Data[texts-1].Embedding) != n {
		t.Errorf("the last has %d bytes, want %d", len(v.Data[texts-1].Embedding), n)
	}
}

// Vectors for which a gateway has no room are refused in words that help: there is no stream of them.
func TestVectorsBeyondMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a second")
	}
	h := start(t, strings.Replace(pooling, "gateway: {", "gateway: {max_memory: 8388608, max_conns: 16, "+
		"max_kept: 0, max_items: 0, ", 1))
	_, r := h.pool("/v1/embeddings", `{"encoding_format":"base64","dimensions":1024,"input":[`+
		strings.Repeat(`"a",`, 999)+`"a"]}`)
	if r.status != 424 || !strings.Contains(r.body, "send fewer texts at once") {
		t.Errorf("%d: %.300s", r.status, r.body)
	}
}

// twoPools is a market with two agents of one pooling model.
const twoPools = `
listen: 127.0.0.1:0
domains: [{name: general, general: true, labels: [general, humanities, social, law, medicine, math, science, finance, code]}]
agents:
  - {id: bad, model: bge-m3, price: {miss: 1}, scores: [{domain: general, score: 0.9}], slots: 8, engine: {url: BAD}}
  - {id: good, model: bge-m3, price: {miss: 1}, scores: [{domain: general, score: 0.7}], slots: 8, engine: {profile: instant, pooling: true}}
clients: {dev: 10}
`

// falsePool is a server of a pooling model that answers a probe as it should, and all else as it is told; it
// counts what else it is asked.
func falsePool(t *testing.T) (url string, says *atomic.Pointer[string], asked *atomic.Int32) {
	says, asked = new(atomic.Pointer[string]), new(atomic.Int32)
	m := http.NewServeMux()
	m.HandleFunc("/v1/models", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"data":[{"id":"bge-m3","max_model_len":512}]}`)
	})
	for _, path := range []string{"/health", "/version", "/metrics"} {
		m.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{}`) })
	}
	m.HandleFunc("/v1/embeddings", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"input":"a"`) {
			io.WriteString(w, vectorsOf(oneVector, 1))
			return
		}
		if asked.Add(1); *says.Load() == "" {
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, *says.Load())
	})
	engine := httptest.NewServer(m)
	t.Cleanup(engine.Close)
	return engine.URL, says, asked
}

const oneVector = `{"index":0,"object":"embedding","embedding":[0.5,-0.5]}`

func vectorsOf(data string, tokens int) string {
	return fmt.Sprintf(`{"object":"list","data":[%s],"model":"bge-m3","usage":{"prompt_tokens":%d}}`, data, tokens)
}

// What an engine answers that gives other vectors than it was asked for is its fault, nobody pays it, and
// another serves the task.
func TestFalseVectors(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	engine, says, asked := falsePool(t)
	h := start(t, strings.Replace(twoPools, "BAD", engine, 1))
	fewer := vectorsOf(oneVector, 4)
	says.Store(&fewer)
	h.until("both agents are there", func() bool {
		return strings.Contains(h.do("GET", "/v1/models", "", h.key).body, `"agents":2`)
	})
	v, r := h.pool("/v1/embeddings", `{"input":["x","y"]}`)
	if r.status != 200 || v.Souk.Agent != "good" || len(v.Data) != 2 || asked.Load() != 1 {
		t.Errorf("the first was asked %d times: %d %s", asked.Load(), r.status, r.body)
	}
}

// Of the tokens that an engine counts nobody pays more than texts of so many bytes can have, and where it
// counts none, for as many as they are thought to have.
func TestFalseCounts(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	engine, says, _ := falsePool(t)
	alone := strings.Replace(strings.Replace(twoPools, "BAD", engine, 1), "  - {id: good", "  # {id: good", 1)
	h := start(t, alone)
	for _, x := range []struct{ said, least, most int }{{4, 4, 4}, {0, 4, 20}, {1 << 20, 66, 66}} {
		said := vectorsOf(oneVector+","+strings.Replace(oneVector, "0", "1", 1), x.said)
		says.Store(&said)
		v, r := h.pool("/v1/embeddings", `{"input":["x","y"]}`)
		cost := func(tokens int) market.Credits {
			return market.Price{Miss: market.Credit}.Cost(market.Usage{Prompt: tokens})
		}
		if paid := v.Souk.Paid; r.status != 200 || paid < cost(x.least) || paid > cost(x.most) {
			t.Errorf("an engine that counts %d tokens is paid %s, want %s to %s: %d %s", x.said, paid, cost(x.least),
				cost(x.most), r.status, r.body)
		}
	}
}
