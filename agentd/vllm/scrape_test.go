package vllm

import (
	"context"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"

	"souk/agentd"
	"souk/bus"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

func page(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/metrics/" + name + ".prom")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestLoad(t *testing.T) {
	ptr := func(n int64) *int64 { return &n }
	share := 0.05862237420615535
	want := bus.Load{Running: ptr(6), Waiting: ptr(0), KVUsage: &share, Preempted: ptr(0),
		PrefixQueries: ptr(6890), PrefixHits: ptr(2464), Generated: ptr(2348)}
	if got := load(page(t, "busy")); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	// Absent is not zero: names of other versions are not ours.
	old := strings.NewReplacer("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc",
		"vllm:num_requests_waiting{", "vllm:num_requests_swapped{").Replace(string(page(t, "busy")))
	if got := load([]byte(old)); got.KVUsage != nil || got.Waiting != nil || got.Running == nil {
		t.Errorf("old names: %+v", got)
	}
	// Two engines behind one server.
	two := []byte("vllm:num_requests_running{engine=\"0\"} " +
		"2\nvllm:num_requests_running{engine=\"1\",x=\"}\\\"\"} 3.0 1700000000\nvllm:kv_cache_usage_perc " +
		"0.5\nvllm:kv_cache_usage_perc 0.25\n" +
		"vllm:generation_tokens_total NaN\nvllm:num_preemptions_total{a=\"\nvllm:num_requests_waiting " +
		"-1\nvllm:prefix_cache_hits_total{} \n")
	half := 0.5
	if got, want := load(two), (bus.Load{Running: ptr(5), KVUsage: &half}); !reflect.DeepEqual(got, want) {
		t.Errorf("two engines: %+v", got)
	}
}

// Our line reader against Prometheus' own parser, over whole pages.
func TestSamplesAgreeWithExpfmt(t *testing.T) {
	for _, name := range []string{"busy", "idle"} {
		data := page(t, name)
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(string(data)))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		samples(data, func(name, labels []byte, v float64) {
			f := families[string(name)]
			if f == nil { // a histogram's part
				return
			}
			for _, m := range f.Metric {
				same := true
				for _, l := range m.Label {
					same = same && label(labels, l.GetName()) == l.GetValue()
				}
				if same {
					n++
					if got := m.GetGauge().GetValue() + m.GetCounter().GetValue(); got != v {
						t.Errorf("%s%s = %v, want %v", name, labels, v, got)
					}
				}
			}
		})
		if n < 50 {
			t.Errorf("%s: only %d samples compared", name, n)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(page(f, "idle"))
	f.Add([]byte("vllm:cache_config_info{block_size=\"16\\\",num_gpu_blocks=\"4\"} 1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		l := load(data)
		for _, n := range []*int64{l.Running, l.Waiting, l.Generated} {
			if n != nil && *n < 0 {
				t.Errorf("negative count from %q", data)
			}
		}
		cacheConfig(data)
	})
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
	want := agentd.Info{Models: []string{"tiny"}, Version: "0.32.0", MaxModelLen: 8192, BlockSize: 32,
		KVTokens: 65504}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v %v", got, err)
	}
	if l, err := e.Load(context.Background()); err != nil || l.Running == nil || *l.Running != 0 {
		t.Errorf("load %+v %v", l, err)
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
		t.Error("load of an unhealthy engine")
	}
}
