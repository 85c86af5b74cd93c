package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/bustest"
	"souk/cmd/local"
	"souk/cmd/replay"
	"souk/ledger"
)

// turnsAsked is the number of turns of real dialogues at which belief is judged on real engines.
const turnsAsked = 200

var cacheHits = regexp.MustCompile(`(?m)^vllm:prefix_cache_hits_total\{.*\} ([0-9.e+]+)$`)

// hits returns the prompt tokens that a server has found in its cache since it began.
func hits(t *testing.T, server string) int {
	r, err := http.Get(server + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	m := cacheHits.FindSubmatch(text)
	if m == nil {
		t.Fatalf("%s says nothing of prefix_cache_hits_total", server)
	}
	n, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// One or more vLLM servers that publish what they cache, named by VLLM_URLS, play 200 turns of real
// dialogues, twelve side by side: what the hub believes to be cached is off by less than a block a turn, and
// hardly ever more than a block above what is found, as it takes a turn or two to learn that a text which is
// read again has other tokens than those that were written: the text of a model without weights is noise.
// Half-way the first server drops its cache, which /reset_prefix_cache does where it is offered; at three
// quarters it is started again by VLLM_RESTART, a shell command that ends when it serves. With few blocks,
// --num-gpu-blocks-override 600 of 32 tokens, they evict. Where VLLM_MODELS names models that a server has,
// such as LoRA adapters, each is an agent, and every second dialogue has a cache_salt of its own.
func TestBeliefAtRealEngines(t *testing.T) {
	if os.Getenv("VLLM_KV_EVENTS") == "" {
		t.Skip("VLLM_KV_EVENTS names no vLLM server that publishes what it caches")
	}
	urls := strings.Split(os.Getenv("VLLM_URLS"), ",")
	models := strings.Split(os.Getenv("VLLM_MODELS"), ",")
	yaml := `
listen: 127.0.0.1:0
domains: [{name: general, general: true, labels: [general, humanities, social, law, medicine, math, science, finance, code]}]
clients: {dev: 1000}
agents:
`
	var at []string // of each agent, its server
	for _, u := range urls {
		for _, model := range models {
			yaml += fmt.Sprintf("  - {id: a%d, price_row: fireworks/gpt-oss-20b, scores: [{domain: general, "+
				"score: 0.9}], slots: 8, model: %q, engine: {url: %q}}\n", len(at), model, u)
			at = append(at, u)
		}
	}
	dir := t.TempDir()
	cfg, err := local.ParseConfig("test.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	m, err := local.Start(t.Context(), local.Options{Dir: dir, Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := errors.Join(m.Err(), m.Close(), local.CheckLedger(context.Background(), dir, t.Output()))
		if err != nil {
			t.Error(err)
		}
	})
	free := func() bool { return m.Free() == 8*len(at) }

	all, err := replay.BundledSet("mtrag.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	type dialogue struct {
		id     string
		salted bool
		said   []message
		left   []replay.Turn
	}
	var open [12]dialogue
	found := map[string]int{} // by hold
	served := make([]int, len(at))
	for i := range turnsAsked {
		switch i {
		case turnsAsked / 2:
			if r, err := http.Post(urls[0]+"/reset_prefix_cache", "", nil); err != nil {
				t.Fatal(err)
			} else if r.Body.Close(); r.StatusCode != http.StatusOK {
				t.Logf("/reset_prefix_cache: %s", r.Status)
			}
		case turnsAsked * 3 / 4:
			if again := os.Getenv("VLLM_RESTART"); again != "" {
				if out, err := exec.Command("sh", "-c", again).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
		}
		d := &open[i*5%len(open)]
		if len(d.left) == 0 {
			d.id, d.said, d.left, all = fmt.Sprintf("from-turn-%d", i), nil, all[0].Turns,
				append(all[1:], all[0])
			d.salted = os.Getenv("VLLM_MODELS") != "" && i%2 == 0
		}
		d.said, d.left = append(d.said, message{"user", d.left[0].User}), d.left[1:]
		bustest.Eventually(t, "all agents are free", free)
		said := map[string]any{"messages": d.said, "max_tokens": 60, "ignore_eos": true}
		if d.salted {
			said["cache_salt"] = d.id
		}
		body, _ := json.Marshal(said)
		if i == turnsAsked/2 || i == turnsAsked*3/4 { // an agent says four times a second what has changed
			time.Sleep(time.Second)
		}
		before := map[string]int{}
		for _, u := range urls {
			before[u] = hits(t, u)
		}
		a, err := m.AskWith(t.Context(), bus.Task{Client: "dev", Kind: bus.KindChat, Body: body, Stream: true,
			Session: d.id}, func(bus.Chunk) {})
		if err != nil || a.Result.Code != "" {
			t.Fatalf("turn %d: %+v, %v", i, a.Result, err)
		}
		d.said = append(d.said, message{"assistant", a.Text})
		for i, u := range at {
			if a.Result.Agent == fmt.Sprintf("a%d", i) {
				found[a.Result.Receipt.ID] = hits(t, u) - before[u]
				served[i]++
			}
		}
	}
	bustest.Eventually(t, "the journal has every turn", func() bool {
		n := 0
		err := Captured(dir, func(*ledger.Hold, *ledger.Capture, bool) { n++ })
		return err == nil && n == turnsAsked
	})

	judged, sum, believed, both, over, events := 0, 0, 0, 0, 0, 0
	err = Captured(dir, func(h *ledger.Hold, c *ledger.Capture, told bool) {
		found := found[c.Hold]
		judged, sum, believed, both = judged+1, sum+found, believed+h.Cached, both+min(found, h.Cached)
		if told {
			events++
		}
		if h.Cached > found+32 {
			over++
			t.Logf("hold %s, of %d tokens: %d believed to be cached at %s, %d were", c.Hold, c.Usage.Prompt,
				h.Cached, h.Agent, found)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d turns at %d engines, %v by agent: %d tokens were found, %d believed to be there, %d of them; %d "+
		"turns with "+
		"more than a block too much; %d with the engine's events for evidence", judged, len(urls), served, sum,
		believed,
		both, over, events)
	if judged != turnsAsked || over > turnsAsked/20 || sum+believed-2*both > 32*judged ||
		events < turnsAsked*8/10 {
		t.Error("belief is not the truth")
	}
}
