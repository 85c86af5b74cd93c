package vllmsim

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Adapters are models of their own: on the list, in answers, with a cache each. One that is not loaded makes
// a step longer, those used last stay loaded, and who needs one more than a step may have lets others pass.
func TestAdapters(t *testing.T) {
	s := start(t, Config{Adapters: Adapters{Names: []string{"law", "tax"}}})
	r, err := http.Get(s.URL() + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var list struct {
		Data []struct{ ID, Parent, Root string }
	}
	if err := json.NewDecoder(r.Body).Decode(&list); err != nil || len(list.Data) != 3 ||
		list.Data[1].ID != "law" || list.Data[1].Parent != "tiny" || list.Data[0].Parent != "" {
		t.Errorf("models: %+v, %v", list, err)
	}
	ask3 := func(model string) (string, int) {
		t.Helper()
		code, body := post(t, s, "/v1/completions", `{"model":"`+model+`","max_tokens":1,"prompt":"`+
			strings.Repeat("a word of many ", 20)+`"}`)
		var a struct {
			Model string
			Usage struct {
				Details struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
		}
		if err := json.Unmarshal([]byte(body), &a); err != nil || code != 200 {
			t.Fatal(code, body)
		}
		return a.Model, a.Usage.Details.Cached
	}
	for _, want := range []struct {
		model string
		hit   bool
	}{{"tiny", false}, {"law", false}, {"law", true}, {"tax", false}, {"tiny", true}} {
		if model, cached := ask3(want.model); model != want.model || cached > 0 != want.hit {
			t.Errorf("asked for %+v: answered by %s, %d tokens cached", want, model, cached)
		}
	}
	if code, _ := post(t, s, "/v1/completions", `{"model":"art","prompt":"x"}`); code != 404 {
		t.Errorf("an adapter that there is not: %d", code)
	}
	if page := string(s.page()); !strings.Contains(page,
		`vllm:lora_requests_info{max_lora="1",running_lora_adapters="",waiting_lora_adapters=""}`) {
		t.Error("adapters are not on the page")
	}

	using := func(id int, adapter int32) *sequence {
		q := ask(id, 8, 2)
		q.run.Adapter = adapter
		return q
	}
	e := newEngine(engineConfig{profile: Profile{Base: 1e6}, maxSeqs: 4, maxBatched: 64,
		adapters: Adapters{Names: []string{"a", "b", "c"}, AtOnce: 1, Loaded: 2, Load: 10 * time.Second}},
		100, 4, 1)
	if got, want := draw(e, using(1, 1), using(2, 2), using(3, 0), using(4, 1)),
		"tt\n..tt\ntt\ntt"; got != want {
		t.Errorf("one adapter in a step: got\n%s\nwant\n%s", got, want)
	}
	took := func(adapter int32) time.Duration {
		q := using(9, adapter)
		from := e.now
		e.add(q, from)
		wake, _ := e.step(from, nil)
		end := wake
		for !wake.IsZero() {
			end = wake
			wake, _ = e.step(wake, nil)
		}
		return end.Sub(from)
	}
	for i, want := range []struct {
		adapter int32
		load    time.Duration
	}{{1, 0}, {2, 0}, {3, 10}, {2, 0}, {1, 10}, {0, 0}} {
		if got := took(want.adapter); got != (2+want.load)*time.Second {
			t.Errorf("%d: adapter %d took %v", i, want.adapter, got)
		}
	}
}

func TestFlagsThatDoNotFit(t *testing.T) {
	for _, c := range []Config{
		{Adapters: Adapters{Names: []string{"tiny"}}}, {Adapters: Adapters{Names: []string{"a", "a"}}},
		{Adapters: Adapters{AtOnce: 3, Loaded: 2}}, {Adapters: Adapters{Load: -1}},
	} {
		if s, err := New(c); err == nil {
			_ = s.Close()
			t.Errorf("%+v was taken", c)
		}
	}
}
