package vllm

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"souk/agentd"
	"souk/bus"
)

// What is not a task tells the engine that it can wait, where the engine goes by that; a task tells nothing.
func TestPriorityIsTold(t *testing.T) {
	for _, on := range []bool{true, false} {
		var told []string
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			told = append(told, r.Header.Get("X-Vllm-Priority"))
			w.WriteHeader(http.StatusBadRequest)
		}))
		t.Cleanup(s.Close)
		e := New(agentd.EngineConfig{URL: s.URL, Priority: on})
		t.Cleanup(e.Close)
		for _, p := range []int{agentd.PriorityTask, agentd.PriorityLoad} {
			_, _ = e.Complete(context.Background(), agentd.Request{Kind: bus.KindCompletion, Model: "m",
				MaxTokens: 1, Body: json.RawMessage(`{"prompt":"x"}`), Priority: p},
				func(agentd.Chunk) error { return nil })
		}
		want := [2]string{"", "2"}
		if !on {
			want = [2]string{}
		}
		if len(told) != 2 || [2]string(told) != want {
			t.Errorf("priority %v: told %q, want %q", on, told, want)
		}
	}
}

// An engine that watches its blocks tells how long nobody had asked for those that it gives up; one that does
// not tells nothing.
func TestTheAgeOfWhatIsGivenUp(t *testing.T) {
	const of = `{engine="0",model_name="m"} `
	for page, want := range map[string]agentd.Load{
		"vllm:kv_block_idle_before_evict_seconds_count" + of + "5.0\n" +
			"vllm:kv_block_idle_before_evict_seconds_sum" + of + "120.0\n": {Evicted: 5, Idle: 120},
		"": {},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/metrics":
				_, _ = io.WriteString(w, "vllm:generation_tokens_total"+of+"6.0\n"+page)
			case "/v1/models":
				_, _ = io.WriteString(w, `{"data":[{"id":"tiny"},{"id":"law","parent":"tiny"}]}`)
			}
		}))
		t.Cleanup(s.Close)
		e := New(agentd.EngineConfig{URL: s.URL})
		t.Cleanup(e.Close)
		load, err := e.Load(t.Context())
		if err != nil || load.Generated == nil || *load.Generated != 6 || load.Evicted != want.Evicted ||
			load.Idle != want.Idle || !slices.Equal(load.Models, []string{"tiny", "law"}) {
			t.Errorf("%q: %+v, %v", page, load, err)
		}
	}
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
