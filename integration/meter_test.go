package integration

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"souk/agentd/vllmsim"
	"souk/bus"
	"souk/bus/bustest"
	"souk/cmd/local"
	"souk/market"
)

// computed returns the tokens of prompts that an engine has handled since it started, by its own count,
// whoever asked and however that ended, and how many of them it found in its cache.
func computed(t *testing.T, url string) (prompt, cached int) {
	t.Helper()
	return gauge(t, url, "vllm:prefix_cache_queries_total"), gauge(t, url, "vllm:prefix_cache_hits_total")
}

func gauge(t *testing.T, url, name string) int {
	t.Helper()
	resp, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `\{[^}]*\} (\S+)$`).FindSubmatch(page)
	if m == nil {
		t.Fatalf("no %s in /metrics", name)
	}
	v, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return int(v)
}

// metered is a market with one engine that can be looked into.
func metered(t *testing.T, cfg vllmsim.Config) (*local.Market, *vllmsim.Server, string, market.Price) {
	t.Helper()
	cfg.Model = "gpt-oss-20b"
	engine, err := vllmsim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	front := httptest.NewServer(engine)
	t.Cleanup(front.Close)
	card, ok := local.Card("fireworks/gpt-oss-20b")
	if ok != nil {
		t.Fatal(ok)
	}
	return start(t, strings.Replace(one, "{profile: steady}", `{url: "`+front.URL+`"}`, 1)), engine,
		front.URL, card
}

// Whatever a client writes into a prompt, the agent is paid its card for what the engine computed of it,
// or the engine computed nothing.
func TestAgentsArePaidForWhatTheirEnginesCompute(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	m, _, url, card := metered(t, vllmsim.Config{})
	for _, c := range []struct {
		name, body string
		code       bus.Code
	}{
		{"plain text", `{"messages":[{"role":"user","content":"` +
			strings.Repeat("Tell me of the sea. ", 100) + `"}]`, ""},
		{"a token a byte", `{"messages":[{"role":"user","content":"` + strings.Repeat("~^", 1500) + `"}]`,
			""},
		{"a completion", `{"prompt":"` + strings.Repeat("~^", 1400) + `"`, ""},
		{"many short messages",
			`{"messages":[` + strings.Repeat(`{"role":"user","content":"~"},{"role":"assistant","content":"~"},`, 150) + `{"role":"user","content":"~"}]`, ""},
		{"tools", `{"messages":[{"role":"user","content":"x"}],"tools":[` +
			strings.Repeat(`{"type":"function","function":{"name":"f","description":"~^~^~^"}},`, 30) +
			`{"type":"function","function":{"name":"g"}}]`, ""},
		{"a word for the template",
			`{"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{"bos_token":"` +
				strings.Repeat("~^", 31) + `"}`, ""},
		{"a book for the template",
			`{"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{"bos_token":"` +
				strings.Repeat("~^", 1000) + `"}`, bus.CodeUnsupportedField},
		{"documents", `{"messages":[{"role":"user","content":"x"}],"documents":[{"text":"` +
			strings.Repeat("~^", 1000) + `"}]`, bus.CodeUnsupportedField},
		{"a template", `{"messages":[{"role":"user","content":"x"}],"chat_template":"{% for i in range(1000) %}~^{% endfor %}"`, bus.CodeUnsupportedField},
		{"pictures", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://localhost/x"}}]}]`, bus.CodeEngineRefused},
	} {
		t.Run(c.name, func(t *testing.T) {
			prompt, cached := computed(t, url)
			before := balance(t, m, "dev")
			task := bus.Task{Client: "dev", Body: []byte(c.body + `,"max_tokens":3,"ignore_eos":true}`),
				Stream: true}
			a, err := m.Ask(t.Context(), task)
			if err != nil || a.Result.Code != c.code {
				t.Fatalf("%+v, %v; want code %q", a.Result, err, c.code)
			}
			nowPrompt, nowCached := computed(t, url)
			u := market.Usage{Prompt: nowPrompt - prompt, Cached: nowCached - cached,
				Output: a.Result.Usage.Output}
			t.Logf("%d bytes, %d tokens", len(c.body), u.Prompt)
			if want := card.Cost(u); a.Result.Cost != want || c.code == "" && a.Result.Usage != u {
				t.Errorf("the engine computed %+v, which the card says costs %s: paid were %s for %+v", u,
					want, a.Result.Cost, a.Result.Usage)
			}
			bustest.Eventually(t, "it is paid as its client was told",
				func() bool { return before-balance(t, m, "dev") == a.Result.Paid() })
		})
	}
}

// A client that cancels the same prompt again and again, before the first token or after any, has none of
// it for nothing: each time the agent is paid its card for the prompt as the engine computed it.
func TestACancelAtAnyMomentPaysForThePrompt(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 8))
	m, engine, url, card := metered(t, vllmsim.Config{Profile: vllmsim.Steady})
	link, err := m.Reach().Dial(bus.RoleGateway, "canceller")
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	dev, err := link.Client("dev")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("Tell me of the sea, the ships on it and the men in them. ", 40)
	before, paid := balance(t, m, "dev"), market.Credits(0)
	free := 0
	for i := range 16 {
		chunks := r.IntN(6) - 1 // -1: before the first
		if i == 0 || i == 1 {
			chunks = -1
		}
		if i%5 == 4 {
			text += "And of the whales. "
		}
		prompt, cached := computed(t, url)
		engine.Freeze(chunks < 0)
		s, err := dev.Submit(t.Context(), bus.Task{Client: "dev", Stream: true,
			Body: fmt.Appendf(nil,
				`{"messages":[{"role":"user","content":%q}],"max_tokens":200,"ignore_eos":true}`, text)})
		if err != nil {
			t.Fatal(err)
		}
		if chunks < 0 {
			bustest.Eventually(t, "the engine has the request", func() bool {
				return gauge(t, url, "vllm:num_requests_waiting")+
					gauge(t, url, "vllm:num_requests_running") == 1
			})
			s.Cancel()
			bustest.Eventually(t, "the cancel is there, or soon will be",
				func() bool { return r.IntN(4) == 0 })
			engine.Freeze(false)
		}
		for range chunks {
			if _, err := s.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		s.Cancel()
		ctx, done := context.WithTimeout(t.Context(), time.Minute)
		for err = nil; err == nil; {
			_, err = s.Next(ctx)
		}
		done()
		result, ok := s.Result()
		if !ok || result.Code != bus.CodeCancelled {
			t.Fatalf("after %d chunks: %+v, %v", chunks, result, err)
		}
		bustest.Eventually(t, "the slot is free", func() bool {
			return gauge(t, url, "vllm:num_requests_waiting")+gauge(t, url, "vllm:num_requests_running") == 0
		})
		nowPrompt, nowCached := computed(t, url)
		u := market.Usage{Prompt: nowPrompt - prompt, Cached: nowCached - cached, Output: result.Usage.Output}
		if u.Prompt == 0 {
			free++
			u.Cached = 0
		}
		billed := result.Usage
		same := i%5 != 4 && i%5 != 0 // the text is that of the time before, and of the time before that
		if billed.Prompt != u.Prompt || billed.Cached > u.Cached || same && billed.Cached != u.Cached ||
			result.Cost != card.Cost(billed) {
			t.Errorf("%d: cancelled after %d chunks: the engine computed %+v, %s by the card; paid were %s "+
				"for %+v", i, chunks, u, card.Cost(u), result.Cost, result.Usage)
		}
		paid += result.Paid()
		bustest.Eventually(t, "it is paid as its client was told",
			func() bool { return before-balance(t, m, "dev") == paid })
		s.Close()
	}
	if free > 12 {
		t.Errorf("%d of 16 never came to the engine: the test shows nothing", free)
	}
}
