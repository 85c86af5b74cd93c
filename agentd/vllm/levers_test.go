package vllm

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"souk/agentd"
	"souk/agentd/vllmsim"
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
		for _, p := range []int{agentd.PriorityTask, agentd.PriorityPrefetch, agentd.PriorityLoad} {
			_, _ = e.Complete(context.Background(), agentd.Request{Kind: bus.KindCompletion, Model: "m",
				MaxTokens: 1, Body: json.RawMessage(`{"prompt":"x"}`), Priority: p},
				func(agentd.Chunk) error { return nil })
		}
		want := [3]string{"", "1", "2"}
		if !on {
			want = [3]string{}
		}
		if len(told) != 3 || [3]string(told) != want {
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
			if r.URL.Path == "/metrics" {
				_, _ = io.WriteString(w, "vllm:generation_tokens_total"+of+"6.0\n"+page)
			}
		}))
		t.Cleanup(s.Close)
		e := New(agentd.EngineConfig{URL: s.URL})
		t.Cleanup(e.Close)
		load, err := e.Load(t.Context())
		if err != nil || load.Generated == nil || *load.Generated != 6 || load.Evicted != want.Evicted ||
			load.Idle != want.Idle {
			t.Errorf("%q: %+v, %v", page, load, err)
		}
	}
	for page, want := range map[string]float64{"x 1\nx{engine=\"0\"} 3\n": 4, "y 1\n": 0, "x NaN\n": 0,
		"x -1\n": 0, "x +Inf\n": 0} {
		if got := total([]byte(page), "x"); got != want {
			t.Errorf("%q: %v, want %v", page, got, want)
		}
	}
}

// An adapter that the engine does not serve is loaded when it is looked at, and again after it was started
// anew; one that loads none by demand says what to do.
func TestAnAdapterIsLoaded(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		s, err := vllmsim.New(vllmsim.Config{Adapters: vllmsim.Adapters{Updates: allowed}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		if err := s.Start("127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		e := New(agentd.EngineConfig{URL: s.URL(), Adapter: agentd.Adapter{Name: "law",
			Path: "/adapters/law"}})
		t.Cleanup(e.Close)
		for range 2 { // the second time it is there
			info, err := e.Info(t.Context())
			if !allowed {
				if err == nil || !strings.Contains(err.Error(), "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1") {
					t.Errorf("%v", err)
				}
				continue
			}
			if err != nil || !slices.Equal(info.Models, []string{"tiny", "law"}) {
				t.Errorf("%+v, %v", info, err)
			}
		}
		if !allowed {
			continue
		}
		if err := s.Restart(0); err != nil {
			t.Fatal(err)
		}
		if info, err := e.Info(t.Context()); err != nil || len(info.Models) != 2 {
			t.Errorf("started anew: %+v, %v", info, err)
		}
		r := agentd.Request{Kind: bus.KindCompletion, Model: "law", MaxTokens: 1,
			Body: json.RawMessage(`{"prompt":"."}`)}
		if a, err := e.Complete(t.Context(), r, func(agentd.Chunk) error { return nil }); err != nil {
			t.Errorf("%+v, %v", a, err)
		}
	}
}
