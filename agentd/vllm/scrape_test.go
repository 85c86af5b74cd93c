package vllm

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"

	"souk/agentd"
)

func page(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/metrics/" + name + ".prom")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestGenerated(t *testing.T) {
	busy := page(t, "busy")
	if n := dialectOf("vllm").generated(busy); n == nil || *n != 2348 {
		t.Errorf("%v tokens", n)
	}
	// Absent is not zero: names of other versions are not ours.
	old := bytes.ReplaceAll(busy, []byte("vllm:generation_tokens_total"), []byte("vllm:generation_tokens"))
	if n := dialectOf("vllm").generated(old); n != nil {
		t.Errorf("another name: %d tokens", *n)
	}
	for says, want := range map[string]*int64{
		// two engines behind one server
		"vllm:generation_tokens_total{engine=\"0\"} 2\n" +
			"vllm:generation_tokens_total{engine=\"1\",x=\"}\\\"\"} 3.0 1700000000\n": new(int64(5)),
		"vllm:generation_tokens_total NaN\n":    nil,
		"vllm:generation_tokens_total{a=\"\n 1": nil,
		"vllm:generation_tokens_total -1\n":     nil,
		"vllm:generation_tokens_total{} \n":     nil,
	} {
		if got := dialectOf("vllm").generated([]byte(says)); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v", says, got)
		}
	}
}

func FuzzMetrics(f *testing.F) {
	f.Add(page(f, "idle"))
	f.Add([]byte("vllm:cache_config_info{block_size=\"16\\\",num_gpu_blocks=\"4\"} 1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if n := dialectOf("vllm").generated(data); n != nil && *n < 0 {
			t.Errorf("negative count from %q", data)
		}
		cacheConfig(data)
	})
}

// A vLLM that would keep no cache apart is not served, be it one between releases; one of which nothing is
// known is taken at its word.
func TestAnEngineThatReadsNoSalt(t *testing.T) {
	for version, old := range map[string]bool{"0.9.2": true, "0.10.0": true, "0.8.5.post1": true,
		"0.10.1": false, "0.10.1rc1": false, "0.11.0": false, "0.32.0": false, "1.0.0": false,
		"0.1.dev1+g1234": false, "0.9.2.dev7": true, "0.10.0.dev12+gabc": true, "0.10.2.dev3": false,
		"": false, "sglang": false, "0.9": false} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/v1/models":
				io.WriteString(w, `{"data":[{"id":"m","max_model_len":100}]}`)
			case "/version":
				fmt.Fprintf(w, `{"version":%q}`, version)
			case "/health":
			default:
				w.WriteHeader(http.StatusNotFound)
			}
		})
		info, err := engineAt(t, s.URL).Info(t.Context())
		if (err != nil) != old || old && !strings.Contains(err.Error(), "cache_salt") ||
			info.Version != version {
			t.Errorf("%q: %v, %+v", version, err, info)
		}
	}
}

func TestInfo(t *testing.T) {
	healthy, lends := true, http.StatusForbidden
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/health":
			if !healthy {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		case "/v1/models", "/version":
			w.Write([]byte(recorded(t, r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]).Response.Body))
		case "/metrics":
			w.Write(page(t, "idle"))
		case derenderPath:
			w.WriteHeader(lends)
		}
	}).URL
	e := engineAt(t, url)
	got, err := e.Info(context.Background())
	want := agentd.Info{Kind: "vllm", Models: []string{"tiny"}, Version: "0.32.0", MaxModelLen: 8192,
		BlockSize: 32,
		KVTokens:  65504}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v %v", got, err)
	}
	if l, err := e.Load(context.Background()); err != nil || l.Generated == nil || *l.Generated != 0 {
		t.Errorf("%+v, %v", l, err)
	}
	for status, want := range map[int]bool{http.StatusBadRequest: true, http.StatusUnprocessableEntity: true,
		http.StatusNotFound: false, http.StatusForbidden: false, http.StatusInternalServerError: false} {
		lends = status
		if got, err := e.Info(context.Background()); err != nil || got.Parsers != want {
			t.Errorf("a server that answers %d: %+v, %v", status, got, err)
		}
	}
	healthy = false
	if _, err := e.Info(context.Background()); err == nil ||
		!strings.Contains(err.Error(), "/health: the engine answered 503") {
		t.Errorf("unhealthy: %v", err)
	}
	if _, err := e.Load(context.Background()); err == nil {
		t.Error("an unhealthy engine is taken for well")
	}
}
