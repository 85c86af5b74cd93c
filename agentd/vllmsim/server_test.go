package vllmsim

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func start(t testing.TB, cfg Config) *Server {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func post(t testing.TB, s *Server, path, body string) (int, string) {
	t.Helper()
	r, err := http.Post(s.URL()+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// said is an answer that is not streamed.
type said struct {
	Choices []struct {
		Message struct{ Content string }
		Finish  string   `json:"finish_reason"`
		Tokens  []uint32 `json:"token_ids"`
	}
	Usage struct {
		Prompt  int `json:"prompt_tokens"`
		Output  int `json:"completion_tokens"`
		Details struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
}

func (s *Server) say(t testing.TB, dialogue []Message, more string) said {
	t.Helper()
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	var list []message
	for _, m := range dialogue {
		list = append(list, message(m))
	}
	b, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	code, body := post(t, s, "/v1/chat/completions",
		fmt.Sprintf(`{"messages":%s,"return_token_ids":true%s}`, b, more))
	if code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	var a said
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// A known dialogue is answered as recorded, every turn of it, also when an earlier answer was cut.
func TestKnownDialogue(t *testing.T) {
	known := Answers{}
	one := []Message{{"system", "Be brief."}, {"user", "What is the capital of France?"}}
	two := append(one[:2:2], Message{"assistant", "Paris."}, Message{"user", "And of Spain?"})
	known.Add(one, "It is Paris, as it has been for most of the last thousand years.")
	known.Add(two, "Madrid — since 1561.")
	s := start(t, Config{Answers: known})
	if a := s.say(t, one, ""); a.Choices[0].Message.Content != known[Key(one)] ||
		a.Choices[0].Finish != "stop" {
		t.Errorf("first turn: %+v", a)
	}
	if a := s.say(t, one, `,"max_tokens":3`); a.Choices[0].Message.Content != "It is Paris" ||
		a.Choices[0].Finish != "length" {
		t.Errorf("first turn, three tokens: %+v", a)
	}
	two[2].Content = "It is Paris"
	if a := s.say(t, two, ""); a.Choices[0].Message.Content != known[Key(two)] {
		t.Errorf("second turn: %+v", a)
	}
	if a := s.say(t, one, `,"ignore_eos":true,"max_tokens":50`); a.Usage.Output != 50 ||
		!strings.HasPrefix(a.Choices[0].Message.Content, known[Key(one)]) {
		t.Errorf("with ignore_eos it goes on after the recorded answer: %+v", a)
	}
}

// Each turn of a dialogue finds the turns before it in the cache, the answers as well as the questions.
func TestDialogueHitsItsOwnAnswers(t *testing.T) {
	s := start(t, Config{})
	dialogue := []Message{{"system", "You are a patient librarian."}}
	before := 0
	for turn := range 5 {
		dialogue = append(dialogue, Message{"user", fmt.Sprintf("Question %d: and what then?", turn)})
		a := s.say(t, dialogue, "")
		// All full blocks of the last turn's prompt and answer; the answer's last token has no KV yet.
		if want := before / 16 * 16; a.Usage.Details.Cached != want {
			t.Errorf("turn %d: %d of %d prompt tokens cached, want %d", turn, a.Usage.Details.Cached,
				a.Usage.Prompt, want)
		}
		before = a.Usage.Prompt + a.Usage.Output - 1
		dialogue = append(dialogue, Message{"assistant", a.Choices[0].Message.Content})
	}
}

// The same prompt and seed give the same answer, on any server; another seed, prompt or choice gives another.
func TestAnswersAreSeeded(t *testing.T) {
	question := []Message{{"user", "Tell me something."}}
	a, b := start(t, Config{}), start(t, Config{Profile: Steady, Speedup: 100, NumGPUBlocks: 1000})
	text := func(x said, i int) string { return x.Choices[i].Message.Content }
	first := a.say(t, question, `,"seed":7`)
	if got := text(b.say(t, question, `,"seed":7`), 0); got != text(first, 0) {
		t.Errorf("the same seed: %q and %q", text(first, 0), got)
	}
	if got := text(a.say(t, question, `,"seed":8`), 0); got == text(first, 0) {
		t.Errorf("another seed, the same answer: %q", got)
	}
	if got := text(a.say(t, []Message{{"user", "Tell me nothing."}}, `,"seed":7`), 0); got == text(first, 0) {
		t.Errorf("another question, the same answer: %q", got)
	}
}

// A server that is full with requests serves them all, and is empty afterwards.
func TestManyAtOnce(t *testing.T) {
	s := start(t, Config{MaxNumSeqs: 8, NumGPUBlocks: 600})
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			body := fmt.Sprintf(`{"messages":[{"role":"user","content":"Question %d"}],"max_tokens":%d,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`, i%16, 20+i)
			code, text := post(t, s, "/v1/chat/completions", body)
			if n := strings.Count(text, `"delta":{"content":"`); code != 200 || n != 20+i ||
				!strings.Contains(text, fmt.Sprintf(`"completion_tokens":%d,`, 20+i)) {
				t.Errorf("request %d: %d, %d tokens", i, code, n)
			}
		})
	}
	all.Wait()
	if s.busy() != 0 || s.engine.Cache.Used() != 0 {
		t.Errorf("%d requests, %d blocks are left", s.busy(), s.engine.Cache.Used())
	}
}

func TestBadInput(t *testing.T) {
	for want, c := range map[string]Config{
		"max-num-seqs is -1":             {MaxNumSeqs: -1},
		"block-size is 128":              {BlockSize: 128},
		"speedup is -1":                  {Speedup: -1},
		"speedup is NaN":                 {Speedup: math.NaN()},
		"speedup is +Inf":                {Speedup: math.Inf(1)},
		"max-model-len is 8192, but 100": {NumGPUBlocks: 100},
		"max-num-queued-reqs":            {MaxNumQueuedReqs: -1},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want an error that says %q", c, err, want)
		}
	}
	small := start(t, Config{MaxModelLen: 20})
	for body, want := range map[string]string{
		`{"prompt":"a","n":2}`:       `The stand-in for vLLM does not do n`,
		`{"prompt":["a","b"]}`:       `The stand-in for vLLM does not do several prompts`,
		`{"prompt":[[300],[301,2]]}`: `The stand-in for vLLM does not do several prompts`,
		`{"prompt":"a","stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`: `The ` +
			`stand-in for vLLM does not do continuous_usage_stats`,
		`{"prompt":[300` + strings.Repeat(",300", 19) +
			`]}`: `max_tokens must be at least 1, got 0.`,
		`{"prompt":[300` + strings.Repeat(",300", 20) +
			`]}`: `maximum context length is 20 tokens`,
		`{"prompt":"` + strings.Repeat("word ", 50) +
			`","stream":true}`: `maximum context length is 20 tokens`,
		`{"prompt":"a","logit_bias":{"4":100}}`:                   `The stand-in for vLLM does not do logit_bias`,
		`{"prompt":"a","response_format":{"type":"json_object"}}`: `The stand-in for vLLM does not do response_format`,
	} {
		if code, text := post(t, small, "/v1/completions", body); code != 400 ||
			!strings.Contains(text, want) {
			t.Errorf("%s: %d %s, want 400 and %q", body, code, text, want)
		}
	}
	s := start(t, Config{MaxBody: 100})
	if code, body := post(t, s, "/v1/completions", `{"prompt":"`+strings.Repeat("x", 200)+`"}`); code != 413 {
		t.Errorf("a body that is too large: %d %s", code, body)
	}
}

// Close ends everything that New and Start began, also while answers are open.
func TestCloseLeavesNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s, err := New(Config{Profile: Steady})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	r, err := client.Post(s.URL()+"/v1/chat/completions", "application/json", strings.NewReader(longStream))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := io.Copy(io.Discard, r.Body); err == nil {
		t.Error("an open answer ended well")
	}
	_ = r.Body.Close()
	client.CloseIdleConnections()
	if err := s.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	if err := s.Start("127.0.0.1:0"); err == nil {
		t.Error("a closed server started")
	}
	goleak.VerifyNone(t, before)
}
