package integration

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/bustest"
	"souk/cmd/local"
	"souk/cmd/replay"
	"souk/ledger"
	"souk/ledger/journal"
)

// What a file of recorded workflows comes to at real engines, as these report it.
type workflowsServed struct {
	turns, prompt, cached  int
	first                  []time.Duration // tokens, at the agent
	touches, found, missed int64
	named                  int // of these, paid by who named the session
	again, lost            int // tokens of touches, and of these what was computed anew
}

func (s *workflowsServed) String() string {
	if s.turns == 0 {
		return "nothing was served"
	}
	slices.Sort(s.first)
	return fmt.Sprintf("%d turns, %d prompt tokens, %.3f of them cached, net of what touches computed %.3f; "+
		"first token %v at the median, %v in the 99th percentile; %d touches, %d at the expense of who named "+
		"the session, %d found and %d missed",
		s.turns, s.prompt, float64(s.cached)/float64(max(1, s.prompt)),
		float64(s.cached-s.lost)/float64(max(1, s.prompt)), s.first[len(s.first)/2].Round(time.Millisecond),
		s.first[len(s.first)*99/100].Round(time.Millisecond), s.touches, s.named, s.found, s.missed)
}

// Two or three vLLM servers of few blocks, named by VLLM_TOUCH_URLS, play recorded logs of agents that work
// together, eight logs side by side and a second between two steps, with touches off and on: of each log
// every role is a session, which has all that was said before behind what its role begins with, and names
// who comes next. Prompts have an eighth of the recorded tokens, and logs of more than 600 are left out, or
// they would not fit: what is meant is --num-gpu-blocks-override 96 --max-model-len 2976, of 32 tokens a
// block. Nothing may fail, touches are paid by nobody but the hub's own client and who named the session,
// and what they compute anew stays little.
func TestTouchesAtRealEngines(t *testing.T) {
	if os.Getenv("VLLM_TOUCH_URLS") == "" {
		t.Skip("VLLM_TOUCH_URLS names no vLLM servers")
	}
	urls := strings.Split(os.Getenv("VLLM_TOUCH_URLS"), ",")
	for _, file := range []string{"whowhen-generated.jsonl.gz", "tau-calls.jsonl.gz"} {
		for _, on := range []bool{false, true} {
			name := fmt.Sprintf("%s/touches %v", strings.TrimSuffix(file, ".jsonl.gz"), on)
			t.Run(name, func(t *testing.T) {
				for _, u := range urls {
					if r, err := http.Post(u+"/reset_prefix_cache", "", nil); err != nil {
						t.Fatal(err)
					} else if r.Body.Close(); r.StatusCode != http.StatusOK {
						t.Fatalf("/reset_prefix_cache: %s: the server wants VLLM_SERVER_DEV_MODE=1", r.Status)
					}
				}
				s := playWorkflows(t, urls, file, on)
				t.Log(s)
				if on != (s.touches > 0) {
					t.Errorf("%d touches", s.touches)
				}
				if s.lost > s.again/10 {
					t.Errorf("touches computed %d tokens of %d anew", s.lost, s.again)
				}
			})
		}
	}
}

func playWorkflows(t *testing.T, urls []string, file string, touches bool) *workflowsServed {
	yaml := fmt.Sprintf(`
listen: 127.0.0.1:0
domains: [{name: general, general: true, labels: [general, humanities, social, law, medicine, math, science, finance, code]}]
clients: {dev: 1000, probe-general: 100}
hub: {seats: {sessions: true, touches: %v}, policies: {keep: %s}}
agents:
`, touches, map[bool]string{false: `""`, true: "kvcache"}[touches])
	for i, u := range urls {
		yaml += fmt.Sprintf("  - {id: a%d, price_row: fireworks/gpt-oss-20b, scores: [{domain: general, "+
			"score: 0.9}], slots: 8, engine: {url: %q}, agentd: {touches: %v}}\n", i, u, touches)
	}
	dir := t.TempDir()
	m := startIn(t, dir, yaml)
	all, err := replay.BundledWorkflows(file)
	if err != nil {
		t.Fatal(err)
	}
	const most = 400 // turns
	next := make(chan replay.Workflow, len(all))
	for turns, i := 0, 0; i < len(all) && turns < most; i++ {
		longest := 0
		for _, s := range all[i].Steps {
			longest += s.Tokens / scale
		}
		if longest < 600 {
			next <- all[i]
			turns += len(all[i].Steps)
		}
	}
	close(next)
	var served workflowsServed
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range beside {
		pauses := rand.New(rand.NewPCG(uint64(i), 1))
		wg.Go(func() {
			for w := range next {
				if err := playWorkflow(t, m, &w, pauses, func(r *bus.Result) {
					mu.Lock()
					defer mu.Unlock()
					served.turns++
					served.prompt += r.Usage.Prompt
					served.cached += r.Usage.Cached
					served.first = append(served.first, time.Duration(r.TTFTUS)*time.Microsecond)
				}); err != nil {
					t.Errorf("%s: %v", w.ID, err)
					return
				}
			}
		})
	}
	wg.Wait()
	sold := 8
	if touches {
		sold = 7
	}
	bustest.Eventually(t, "all agents are free", func() bool { return m.Free() == sold*len(urls) })
	for _, h := range m.Hubs() {
		s := h.Stats()
		served.touches += s.Touches
		served.found, served.missed = served.found+s.Touched.Found, served.missed+s.Touched.Missed
	}
	paths, err := journal.Find(dir)
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	touched := map[string]string{} // who pays, by hold
	for _, path := range paths {
		err := journal.Read(path, func(f ledger.Frame) error {
			for i := range f.Records {
				switch r := &f.Records[i]; {
				case r.Hold != nil && r.Hold.Kind == bus.DispatchPrefetch:
					touched[r.ID] = r.Hold.Client
				case r.Capture != nil && touched[r.Capture.Hold] != "":
					served.again += r.Capture.Usage.Prompt
					served.lost += r.Capture.Usage.Prompt - r.Capture.Usage.Cached
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for hold, client := range touched {
		switch client {
		case "dev":
			served.named++
		case "probe-general":
		default:
			t.Errorf("%s paid for the touches of hold %s", client, hold)
		}
	}
	return &served
}

// scale is how many recorded tokens one stands for, beside the workflows that run side by side.
const scale, beside = 8, 8

// words are so many tokens of text, other ones for each name.
func words(name string, tokens int) string {
	const list = "market agent session prompt engine cache answer price block token worker plan result page table"
	all := strings.Fields(list)
	h := uint64(14695981039346656037)
	var b strings.Builder
	fmt.Fprintf(&b, "%s:", name)
	for i := range tokens {
		h = (h ^ uint64(name[i%len(name)])) * 1099511628211
		b.WriteString(" " + all[h>>33%uint64(len(all))])
	}
	return b.String()
}

// session is what a role of a workflow is to the market: an id, which names of roles need not be.
func session(w *replay.Workflow, role string) string {
	sum := sha256.Sum256([]byte(w.ID + "/" + role))
	return hex.EncodeToString(sum[:8])
}

func playWorkflow(t *testing.T, m *local.Market, w *replay.Workflow, pauses *rand.Rand,
	served func(*bus.Result)) error {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	type turn struct{ role, said string }
	var said []turn
	for i, s := range w.Steps {
		if s.Role == "" {
			said = append(said, turn{"", words(fmt.Sprint("somebody ", i), s.Tokens/scale)})
			continue
		}
		prompt := []message{{"system", words(s.Role, max(100, w.Anchors[s.Role])/scale)}}
		for _, x := range said {
			if x.role == s.Role {
				prompt = append(prompt, message{"assistant", x.said})
			} else {
				prompt = append(prompt, message{"user", x.said})
			}
		}
		body, err := json.Marshal(map[string]any{"messages": prompt,
			"max_tokens": min(40, max(4, s.Tokens/scale)), "ignore_eos": true})
		if err != nil {
			return err
		}
		task := bus.Task{Client: "dev", Kind: bus.KindChat, Body: body, Stream: true,
			Session: session(w, s.Role), Role: s.Role, Declared: true}
		for _, after := range w.Steps[i+1:] {
			if after.Role != "" {
				task.Next = session(w, after.Role)
				break
			}
		}
		time.Sleep(time.Duration(pauses.ExpFloat64() * float64(time.Second)))
		a, err := m.AskWith(t.Context(), task, func(bus.Chunk) {})
		if err != nil {
			return err
		}
		if a.Result.Code != "" {
			return fmt.Errorf("step %d: %s: %s", i, a.Result.Code, a.Result.Message)
		}
		served(&a.Result)
		said = append(said, turn{s.Role, a.Text})
	}
	return nil
}
