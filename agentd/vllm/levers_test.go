package vllm

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"souk/agentd"
)

// A count is the sum of what has the name, as far as that is an amount.
func TestTotals(t *testing.T) {
	for page, want := range map[string]float64{"x 1\nx{engine=\"0\"} 3\n": 4, "y 1\n": 0, "x NaN\n": 0,
		"x -1\n": 0, "x +Inf\n": 0} {
		if got, _ := total([]byte(page), "x"); got != want {
			t.Errorf("%q: %v, want %v", page, got, want)
		}
	}
}

// An adapter that the engine does not serve is loaded when it is looked at, and again after it was started
// anew; one that loads none by demand says what to do.
func TestAnAdapterIsLoaded(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		var loaded atomic.Bool
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/health":
			case r.URL.Path == "/v1/models" && loaded.Load():
				_, _ = io.WriteString(w, `{"data":[{"id":"tiny"},{"id":"law","parent":"tiny"}]}`)
			case r.URL.Path == "/v1/models":
				_, _ = io.WriteString(w, `{"data":[{"id":"tiny"}]}`)
			case r.URL.Path == "/v1/load_lora_adapter" && allowed:
				var asked struct{ Lora_name, Lora_path string }
				if json.NewDecoder(r.Body).Decode(&asked) != nil || asked.Lora_name != "law" ||
					asked.Lora_path != "/adapters/law" || loaded.Swap(true) {
					w.WriteHeader(http.StatusBadRequest)
				}
			default:
				w.WriteHeader(http.StatusNotFound)
			}
		}))
		t.Cleanup(s.Close)
		e := New(agentd.EngineConfig{URL: s.URL, Adapter: agentd.Adapter{Name: "law", Path: "/adapters/law"}})
		t.Cleanup(e.Close)
		for i := range 3 { // the second time it is there, the third the engine was started anew
			if i == 2 {
				loaded.Store(false)
			}
			info, err := e.Info(t.Context())
			if !allowed {
				if err == nil || !strings.Contains(err.Error(), "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1") {
					t.Errorf("%v", err)
				}
				continue
			}
			if err != nil || !slices.Equal(info.Models, []string{"tiny", "law"}) ||
				!slices.Equal(info.Adapters, []string{"law"}) {
				t.Errorf("%d: %+v, %v", i, info, err)
			}
		}
	}
}
