package vllm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"souk/agentd"
)

// twin is a false server of one kind: what it says at a path, and which events it streams.
type twin struct {
	says   map[string]string // "501 ..." has another status than 200; what is not here is 404
	strict bool              // it refuses members that it does not list
	knows  []string          // these
	stream []string
	asked  []string // paths, in order
	body   map[string]json.RawMessage
}

func (s *twin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked = append(s.asked, r.URL.Path)
	if r.Method == http.MethodGet {
		body, there := s.says[r.URL.Path]
		status := http.StatusNotFound
		if there {
			if status = http.StatusOK; len(body) > 3 && body[3] == ' ' {
				fmt.Sscanf(body, "%d", &status)
			}
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
		return
	}
	s.body = nil
	if r.URL.Path != "/v1/chat/completions" || json.NewDecoder(r.Body).Decode(&s.body) != nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	for name := range s.body {
		if s.strict && !slices.Contains(s.knows, name) {
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprintf(w, `{"object":"error","message":"%s: Extra inputs are not permitted","code":422}`, name)
			return
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range s.stream {
		send(w, "data: "+e+"\n\n")
	}
}

func listing(owner, more string) string {
	return `{"object":"list","data":[{"id":"m","object":"model","owned_by":"` + owner + `"` + more + `}]}`
}

// OpenAPI documents, as servers on FastAPI make them of what they read.
func documented(members ...string) string {
	all := `{"messages":{}`
	for _, m := range members {
		all += fmt.Sprintf(`,%q:{}`, m)
	}
	return `{"components":{"schemas":{"ChatCompletionRequest":{"properties":` + all + `}},"CompletionRequest":` +
		`{"properties":` + all + `}}}}}`
}

var (
	standard = []string{"model", "messages", "stream", "stream_options", "max_tokens"}
	spoken   = []string{`{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`,
		`{"choices":[{"index":0,"delta":{"content":"so it"}}]}`,
		`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`}
	counted = append(slices.Clone(spoken),
		`{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}}`, `[DONE]`)
	hits = append(slices.Clone(spoken), `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,`+
		`"prompt_tokens_details":{"cached_tokens":8}},"timings":{"cache_n":8,"prompt_n":1}}`, `[DONE]`)
)

// Servers as they are, with their usual flags and without: each is told apart, looked at again and again,
// sent nothing that it would refuse, and its answer is understood.
func TestServersOfAllKinds(t *testing.T) {
	const declares = "cache_salt"
	for name, c := range map[string]struct {
		twin
		kind, version string
		context       int
		shared        bool
		count         int64  // -1: none
		lacks         string // first words of each
		sent          string // members that it is sent beside OpenAI's
		cached        int    // -1: not reported
		unmetered     bool
	}{
		"sglang": {twin{says: map[string]string{"/health": "",
			"/v1/models": listing("sglang", `,"max_model_len":32`), "/server_info": `{"version":"0.5.9","max_total_num_tokens":7}`}, stream: counted},
			"sglang", "0.5.9", 32, true, -1, "no /metrics|no counter|no token ids|no cache_salt", "", -1, false},
		"sglang --enable-metrics --enable-cache-report": {twin{says: map[string]string{"/health": "",
			"/v1/models": listing("sglang", `,"max_model_len":32`), "/get_server_info": `{"version":"0.5.2"}`,
			"/metrics":      "sglang:generation_tokens_total{model_name=\"m\"} 12.0\n",
			"/openapi.json": documented(append(slices.Clone(standard), declares)...)}, stream: hits},
			"sglang", "0.5.2", 32, true, 12, "no counter|no token ids|no cache_salt", "cache_salt", 8, false},
		"llama.cpp": {twin{says: map[string]string{"/health": `{"status":"ok"}`,
			"/v1/models": listing("llamacpp", `,"meta":{"n_ctx":1024,"n_ctx_train":2048}`),
			"/metrics":   "501 no", "/props": `{"build_info":"b7000"}`}, stream: hits},
			"llamacpp", "b7000", 1024, true, -1, "no /metrics|no counter|no token ids|no cache_salt", "", 8, false},
		"llama.cpp --metrics": {twin{says: map[string]string{"/health": `{"status":"ok"}`,
			"/v1/models": listing("llamacpp", `,"meta":{"n_ctx_train":2048}`),
			"/metrics":   "llamacpp:tokens_predicted_total 5\n",
			"/props":     `{"build_info":"b4000","default_generation_settings":{"n_ctx":512}}`}, stream: counted},
			"llamacpp", "b4000", 512, true, 5, "no counter|no token ids|no cache_salt", "", -1, false},
		"ollama": {twin{says: map[string]string{"/": "Ollama is running",
			"/v1/models": listing("library", ""), "/api/version": `{"version":"0.14.0"}`}, stream: counted},
			"openai", "0.14.0", 0, true, -1,
			"no /health|no /metrics|no counter|no token ids|no cache_salt|no context", "", -1, false},
		"tgi": {twin{says: map[string]string{"/health": "", "/v1/models": listing("m", ""),
			"/info":    `{"version":"3.3.6","max_total_tokens":4096}`,
			"/metrics": "tgi_request_generated_tokens_sum 3\n"}, stream: counted},
			"openai", "3.3.6", 4096, true, 3, "no counter|no token ids|no cache_salt", "", -1, false},
		"lmdeploy": {twin{says: map[string]string{"/health": "{}", "/v1/models": listing("lmdeploy", ""),
			"/metrics":      "lmdeploy:generation_tokens_total 7.0\n",
			"/openapi.json": documented(append(slices.Clone(standard), "return_token_ids")...)},
			stream: hits},
			"openai", "", 0, true, 7, "no counter|no token ids|no cache_salt|no context", "", 8, false},
		"one that refuses what it does not know": {twin{says: map[string]string{"/health": "",
			"/v1/models": listing("tensorrt_llm", ""), "/version": `{"version":"1.2.0"}`},
			strict: true, knows: standard, stream: counted},
			"openai", "1.2.0", 0, true, -1,
			"no /metrics|no counter|no token ids|no cache_salt|no context", "", -1, false},
		"one that refuses stream_options, too": {twin{says: map[string]string{"/v1/models": listing("me", ""),
			"/openapi.json": documented("model", "stream", "max_tokens")},
			strict: true, knows: []string{"model", "messages", "stream", "max_tokens"}, stream: spoken},
			"openai", "", 0, true, -1, "no /health|no /metrics|no counter|no token ids|no cache_salt|" +
				"no stream_options|no context", "", -1, true},
		"vllm behind a proxy": {twin{says: map[string]string{
			"/v1/models": listing("vllm", `,"max_model_len":64`)}, stream: hits},
			"vllm", "", 64, false, -1, "no /health|no /metrics|no counter", "cache_salt return_token_ids",
			8, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := engineAt(t, serve(t, c.ServeHTTP).URL)
			info, err := e.Info(t.Context())
			if err != nil || info.Kind != c.kind || info.Version != c.version ||
				info.MaxModelLen != c.context || info.Shared != c.shared {
				t.Errorf("%+v, %v", info, err)
			}
			want := strings.Split(c.lacks, "|")
			if len(info.Lacks) != len(want) {
				t.Errorf("it lacks %q", info.Lacks)
			} else {
				for i, w := range want {
					if !strings.HasPrefix(info.Lacks[i], w) {
						t.Errorf("lacks %q, want %q", info.Lacks[i], w)
					}
				}
			}
			c.asked = nil
			for range 2 {
				load, err := e.Load(t.Context())
				switch {
				case err != nil:
					t.Error(err)
				case c.count < 0 && load.Generated != nil, c.count >= 0 &&
					(load.Generated == nil || *load.Generated != c.count):
					t.Errorf("generated %v, want %d", load.Generated, c.count)
				}
			}
			if c.kind == "sglang" && slices.Contains(c.asked, "/health") {
				t.Errorf("a look has it make a token: %q", c.asked)
			}
			r := hello
			r.Model, r.Salt = "m", "salted"
			got := ask(t, e, r)
			var more []string
			for m := range c.body {
				if !slices.Contains(standard, m) {
					more = append(more, m)
				}
			}
			slices.Sort(more)
			a := got.Answer
			if got.Err != nil || got.Text != "so it" || a.Finish != "stop" || a.Unmetered != c.unmetered ||
				strings.Join(more, " ") != c.sent || a.NoCacheReport != (c.cached < 0) ||
				a.Usage.Cached != max(0, c.cached) ||
				!c.unmetered && (a.Usage.Prompt != 9 || a.Usage.Output != 4) {
				t.Errorf("%+v; sent %q", got, more)
			}
			r.Resume = &agentd.Resume{Tokens: []uint32{1}, Text: "so", Whole: 8}
			if c.kind != "vllm" {
				if got := ask(t, e, r); got.Err == nil || !strings.Contains(got.Err.Error(), "kind "+c.kind) {
					t.Errorf("an answer went on: %+v", got)
				}
			}
		})
	}
}

// Another kind of server at the same address is seen by the next look, and asked anew.
func TestAServerBecomesAnother(t *testing.T) {
	vllm := &twin{says: map[string]string{"/health": "", "/v1/models": listing("vllm", ""),
		"/version": `{"version":"0.32.0"}`, "/metrics": "vllm:generation_tokens_total 1\n"}}
	sglang := &twin{says: map[string]string{"/health": "", "/v1/models": listing("sglang", "")}}
	llama := &twin{says: map[string]string{"/health": "", "/v1/models": listing("llamacpp", "")}}
	lmdeploy := &twin{says: map[string]string{"/health": "", "/v1/models": listing("lmdeploy", ""),
		"/metrics": "lmdeploy:generation_tokens_total 1\n"}}
	boots := &twin{says: map[string]string{"/health": `503 {"error":{"message":"Loading model"}}`}}
	gateway := &twin{says: map[string]string{"/v1/models": listing("souk", "")}}
	var now atomic.Pointer[twin]
	now.Store(vllm)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { now.Load().ServeHTTP(w, r) }).URL
	e := engineAt(t, url)
	if _, err := e.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	ollama := &twin{says: map[string]string{"/v1/models": listing("library", "")}}
	silent := &twin{says: map[string]string{"/health": "", "/v1/models": listing("vllm", "")}}
	for _, next := range []*twin{sglang, llama, vllm, lmdeploy, sglang, vllm, ollama, vllm, silent} {
		now.Store(next)
		if _, err := e.Load(t.Context()); !errors.Is(err, agentd.ErrAnother) {
			t.Errorf("%q: it is not asked anew: %v", next.says, err)
		}
		if info, err := e.Info(t.Context()); err != nil || info.Kind != "openai" &&
			next.says["/v1/models"] != listing(info.Kind, "") {
			t.Errorf("%q: %+v, %v", next.says, info, err)
		}
		if _, err := e.Load(t.Context()); err != nil {
			t.Errorf("%q: %v", next.says, err)
		}
	}
	for _, bad := range []*twin{boots, gateway} {
		now.Store(bad)
		if info, err := e.Info(t.Context()); err == nil {
			t.Errorf("%q: %+v", bad.says, info)
		}
	}
	now.Store(llama) // by its configuration, whatever it says
	e = engineAt(t, url, func(c *agentd.EngineConfig) { c.Kind = agentd.KindOpenAI })
	if info, err := e.Info(t.Context()); err != nil || info.Kind != "openai" {
		t.Errorf("%+v, %v", info, err)
	}
	now.Store(lmdeploy)
	if _, err := e.Load(t.Context()); err != nil {
		t.Error(err)
	}
}

// Ollama loads a model when it is first asked for anything: that it answers late then is no fault.
func TestAServerThatLoadsAtTheFirstRequest(t *testing.T) {
	ollama := twin{says: map[string]string{"/v1/models": listing("library", "")}}
	var loads atomic.Int64
	e := engineAt(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			loads.Add(1)
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
			return
		}
		ollama.ServeHTTP(w, r)
	}).URL, func(c *agentd.EngineConfig) { c.Probe = 300 * time.Millisecond })
	if info, err := e.Info(t.Context()); err != nil || info.Pools != "" || loads.Load() == 0 {
		t.Errorf("%+v, %v, asked %d times", info, err, loads.Load())
	}
}
