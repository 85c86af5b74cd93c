package virtual

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"souk/agentd/vllmsim"
	"souk/cmd/replay"
)

func profile(t testing.TB, name string) vllmsim.Profile {
	t.Helper()
	p, err := vllmsim.ProfileNamed(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// arrival is a job and when it comes; what was said of it is filled in.
type arrival struct {
	at          time.Duration
	job         Job
	first, last time.Duration
}

// serve has an engine serve all, and returns how often it was advanced. single has it take one step at a
// time.
func serve(t interface{ Fatal(...any) }, e *Engine, all []*arrival, single bool) (steps int) {
	byJob := map[*Job]*arrival{}
	for next := 0; ; {
		at, busy := e.Next()
		switch {
		case next < len(all) && (!busy || all[next].at <= at):
			a := all[next]
			next++
			byJob[&a.job] = a
			e.Ask(a.at, &a.job)
			at = a.at
		case !busy:
			return steps
		}
		steps++
		for _, s := range e.Advance(at, nil) {
			if s.First {
				byJob[s.Job].first = at
			}
			if s.Last {
				byJob[s.Job].last = at
			}
		}
		if single && len(e.Batch) > 0 {
			e.step.n = 1
		}
		if steps > 1e6 {
			t.Fatal("the engine does not come to an end")
		}
	}
}

func ask(t *testing.T, url string, messages []vllmsim.Message) (prompt, cached, output int) {
	t.Helper()
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	body := map[string]any{"max_tokens": 4000}
	var out []message
	for _, m := range messages {
		out = append(out, message(m))
	}
	body["messages"] = out
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.Post(url+"/v1/chat/completions", "application/json", bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	data, err = io.ReadAll(r.Body)
	if err != nil || r.StatusCode != 200 {
		t.Fatalf("%s: %s, %v", r.Status, data, err)
	}
	var a struct {
		Usage struct {
			Prompt  int `json:"prompt_tokens"`
			Output  int `json:"completion_tokens"`
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err := json.Unmarshal(data, &a); err != nil {
		t.Fatal(err)
	}
	return a.Usage.Prompt, a.Usage.Details.Cached, a.Usage.Output
}

// The same requests find the same in the cache of an engine here as in the stand-in's: dialogues in turn
// about on a cache that is too small for them.
func TestEngineCachesAsTheStandIn(t *testing.T) {
	for _, file := range []string{"mtrag.jsonl.gz", "tau.jsonl.gz"} {
		t.Run(file, func(t *testing.T) {
			ds, err := replay.BundledSet(file)
			if err != nil {
				t.Fatal(err)
			}
			scripts := NewScripts(ds[:24], file == "tau.jsonl.gz", 16)
			answers := vllmsim.Answers{}
			for play, s := range scripts {
				for turn := range s.turns {
					answers.Add(s.messages(play, turn), s.said[turn].Answer)
				}
			}
			const blocks = 650
			server, err := vllmsim.New(vllmsim.Config{Profile: vllmsim.Instant, NumGPUBlocks: blocks,
				Answers: answers})
			if err != nil {
				t.Fatal(err)
			}
			if err := server.Start("127.0.0.1:0"); err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			engine := NewEngine(EngineConfig{Profile: vllmsim.Instant, Slots: 8, MaxBatched: 65536,
				Blocks: blocks, BlockSize: 16})
			hits, lost := 0, 0
			for turn := range 10 {
				for play, s := range scripts {
					if turn >= len(s.turns) {
						continue
					}
					a := &arrival{job: Job{Hashes: s.hashesOf(play), Prompt: s.turns[turn].prompt,
						Output: s.turns[turn].output}}
					serve(t, engine, []*arrival{a}, false)
					prompt, cached, output := ask(t, server.URL(), s.messages(play, turn))
					if prompt != a.job.Prompt || cached != a.job.Cached || output != a.job.Output {
						t.Errorf("play %d, turn %d: prompt %d, cached %d, output %d; "+
							"the stand-in has %d, %d, %d", play, turn, a.job.Prompt, a.job.Cached,
							a.job.Output, prompt, cached, output)
					}
					if cached > 0 {
						hits++
					}
					if turn > 0 && cached < s.turns[turn-1].prompt-16 {
						lost++
					}
				}
			}
			if hits < 8 || lost < 4 {
				t.Errorf("%d hits, and %d found less than was there: this shows too little", hits, lost)
			}
		})
	}
}

// An engine takes as long as the measured one: 300 requests that a real vLLM served under overload.
func TestEngineTakesWhatWasMeasured(t *testing.T) {
	p := profile(t, "rtxpro6000-llama-3.1-8b")
	data, err := os.ReadFile("../../../agentd/vllmsim/testdata/perf/" + p.Name + ".csv")
	if err != nil {
		t.Fatal(err)
	}
	var all []*arrival
	var measured [][2]float64
	for line := range strings.Lines(string(data)) {
		var queued, scheduled, first, last float64
		a := &arrival{}
		if n, _ := fmt.Sscanf(strings.ReplaceAll(line, ",", " "), "%d %d %f %f %f %f", &a.job.Prompt,
			&a.job.Output, &queued, &scheduled, &first, &last); n < 6 {
			continue
		}
		a.at = time.Duration(queued * 1e9)
		for i := range (a.job.Prompt + a.job.Output) / 16 {
			a.job.Hashes = append(a.job.Hashes, mix(uint64(len(all))<<32|uint64(i)))
		}
		all, measured = append(all, a), append(measured, [2]float64{first, last})
	}
	e := NewEngine(EngineConfig{Profile: p, Slots: p.MaxNumSeqs, MaxBatched: p.MaxNumBatchedTokens,
		Blocks: p.NumGPUBlocks, BlockSize: 16})
	steps := serve(t, e, all, false)
	var latency, itl []float64
	ended, end := 0.0, 0.0
	for i, a := range all {
		first, last := a.first.Seconds(), a.last.Seconds()
		latency = append(latency, math.Abs((last-a.at.Seconds())/(measured[i][1]-a.at.Seconds())-1))
		itl = append(itl, math.Abs((last-first)/(measured[i][1]-measured[i][0])-1))
		ended, end = max(ended, last), max(end, measured[i][1])
	}
	slices.Sort(latency)
	slices.Sort(itl)
	t.Logf("%d requests in %d steps: median error of latency %.3f, of ITL %.3f; length %.1f s, "+
		"measured %.1f s", len(all), steps, latency[len(all)/2], itl[len(all)/2], ended, end)
	if len(all) != 300 || latency[150] > 0.1 || itl[150] > 0.1 || math.Abs(ended/end-1) > 0.1 {
		t.Error("that is more than a tenth from what was measured")
	}
}

// Taking equal steps at once changes nothing, to the nanosecond: with arrivals at any moment, prompts in
// pieces, common prefixes, full slots and a cache that runs out.
func TestEqualStepsAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := EngineConfig{
			Profile:    vllmsim.Profile{Base: 900.5, Prefill: 3.25, Decode: 11.125, Resident: 0.1296},
			Late:       rapid.SampledFrom([]time.Duration{915e3, 925e3, 950e3, 2e6}).Draw(t, "late"),
			Slots:      rapid.IntRange(1, 6).Draw(t, "slots"),
			MaxBatched: rapid.IntRange(8, 100).Draw(t, "batched"),
			Blocks:     rapid.IntRange(40, 120).Draw(t, "blocks"), BlockSize: 4}
		n := rapid.IntRange(1, 12).Draw(t, "jobs")
		type shape struct{ at, prompt, output, text int }
		var shapes []shape
		at := 0
		for range n {
			at += rapid.SampledFrom([]int{0, 1, 999, 100_000, 5_000_000, 40_000_000}).Draw(t, "after")
			shapes = append(shapes, shape{at, rapid.IntRange(1, 90).Draw(t, "prompt"),
				rapid.IntRange(1, 60).Draw(t, "output"), rapid.IntRange(0, 2).Draw(t, "text")})
		}
		draw := func() (all []*arrival) {
			for _, s := range shapes {
				a := &arrival{at: time.Duration(s.at), job: Job{Prompt: s.prompt, Output: s.output}}
				for i := range (s.prompt + s.output) / 4 {
					a.job.Hashes = append(a.job.Hashes, mix(uint64(s.text)<<32|uint64(i)))
				}
				all = append(all, a)
			}
			return all
		}
		fast, slow := draw(), draw()
		e, f := NewEngine(cfg), NewEngine(cfg)
		few, many := serve(t, e, fast, false), serve(t, f, slow, true)
		for i := range fast {
			a, b := fast[i], slow[i]
			if a.first != b.first || a.last != b.last || a.job.Cached != b.job.Cached ||
				a.job.Late != b.job.Late {
				t.Errorf("job %d: first %v, last %v, cached %d, late %d; step by step %v, %v, %d, %d", i, a.first,
					a.last, a.job.Cached, a.job.Late, b.first, b.last, b.job.Cached, b.job.Late)
			}
			if a.last == 0 {
				t.Errorf("job %d has no end", i)
			}
		}
		if few > many || e.Cache.Used() != 0 || e.Preempted != f.Preempted {
			t.Errorf("%d advances, %d step by step; %d blocks still held; %d and %d preempted", few, many,
				e.Cache.Used(), e.Preempted, f.Preempted)
		}
	})
}

// A batch's step is longer the more decode in it and the more tokens their caches hold, and a prompt is
// computed in pieces of the budget.
func TestEngineSlowsWithLoad(t *testing.T) {
	p := vllmsim.Profile{Base: 1000, Prefill: 10, Decode: 100, Resident: 1}
	cfg := EngineConfig{Profile: p, Slots: 4, MaxBatched: 64, Blocks: 100, BlockSize: 16}
	hashes := func(text int) (h []uint64) {
		for i := range 20 {
			h = append(h, mix(uint64(text)<<32|uint64(i)))
		}
		return h
	}
	one := &arrival{job: Job{Hashes: hashes(1), Prompt: 100, Output: 2}}
	serve(t, NewEngine(cfg), []*arrival{one}, false)
	// 64 tokens; then 36 beside 64 in the cache; then one beside 100
	first := (1000+640)*time.Microsecond + (1000+360+64)*time.Microsecond
	if want := first + (1000+100+100)*time.Microsecond; one.first != first || one.last != want {
		t.Errorf("alone: first %v, last %v, want %v, %v", one.first, one.last, first, want)
	}
	two := []*arrival{{job: Job{Hashes: hashes(1), Prompt: 16, Output: 3}},
		{job: Job{Hashes: hashes(2), Prompt: 16, Output: 3}}}
	e := NewEngine(cfg)
	e.Ask(0, &two[0].job)
	e.Ask(0, &two[1].job)
	end := time.Duration(0)
	for at, busy := e.Next(); busy; at, busy = e.Next() {
		e.Advance(at, nil)
		end = at
	}
	if want := (1000 + 320 + 2*1000 + 2*200 + 32 + 34) * time.Microsecond; end != want {
		t.Errorf("two together end after %v, want %v", end, want)
	}
}

// A token is late that waits for another's prompt, and so are those of steps that have come to take too long;
// the first one is not, however long its prompt takes.
func TestLateTokens(t *testing.T) {
	p := vllmsim.Profile{Base: 49_000, Resident: 100}
	cfg := EngineConfig{Profile: p, Slots: 4, MaxBatched: 64, Blocks: 100, BlockSize: 16,
		Late: 50 * time.Millisecond}
	var hashes []uint64
	for i := range 20 {
		hashes = append(hashes, mix(uint64(i)))
	}
	slows := &arrival{job: Job{Hashes: hashes, Prompt: 5, Output: 20}}
	serve(t, NewEngine(cfg), []*arrival{slows}, false)
	// the n-th token comes with 3 + n tokens in the cache, of which ten are not too many
	if slows.job.Late != 13 {
		t.Errorf("%d tokens are late, want those from the eighth to the twentieth", slows.job.Late)
	}
	cfg.Profile = vllmsim.Profile{Base: 10_000, Prefill: 1000}
	waits := &arrival{job: Job{Hashes: hashes, Prompt: 5, Output: 20}}
	other := &arrival{at: 55 * time.Millisecond, job: Job{Hashes: hashes[10:], Prompt: 120, Output: 3}}
	serve(t, NewEngine(cfg), []*arrival{waits, other}, false)
	// of steps with 63 and with 57 tokens of that prompt
	if waits.job.Late != 2 || other.job.Late != 0 {
		t.Errorf("%d tokens are late beside a prompt, and %d behind it, want 2 and none", waits.job.Late,
			other.job.Late)
	}
	s := Setting{Engines: 1, Engine: cfg}
	r := &Request{Job: Job{Prompt: 120, Cached: 16}}
	if got, want := s.Alone(r), (2*10+104)*time.Millisecond; got != want {
		t.Errorf("104 tokens in two steps take %v alone, want %v", got, want)
	}
	cfg.Profile.Resident = 10
	s.Engine = cfg
	if got, want := s.Alone(r), 124*time.Millisecond+(16+80)*10*time.Microsecond; got != want {
		t.Errorf("beside what is cached, %v, want %v", got, want)
	}
}

// A prompt that attends to what came before takes longer by the square of its length, in pieces or not, and
// one that is cached attends to it nonetheless.
func TestAttentionOfAPrompt(t *testing.T) {
	p := vllmsim.Profile{Base: 1000, Prefill: 10, Attention: 0.5}
	cfg := EngineConfig{Profile: p, Slots: 4, MaxBatched: 64, Blocks: 100, BlockSize: 16}
	var hashes []uint64
	for i := range 20 {
		hashes = append(hashes, mix(uint64(i)))
	}
	e := NewEngine(cfg)
	one := &arrival{job: Job{Hashes: hashes, Prompt: 100, Output: 1}}
	serve(t, e, []*arrival{one}, false)
	// 64 tokens, each beside half of them; then 36 beside those and half of themselves
	want := (1000+640+64*32/2)*time.Microsecond + (1000+360+(36*64+36*18)/2)*time.Microsecond
	if one.last != want || cfg.alone(100, 0) != want {
		t.Errorf("it takes %v, by itself %v, want %v", one.last, cfg.alone(100, 0), want)
	}
	again := &arrival{at: time.Second, job: Job{Hashes: hashes, Prompt: 100, Output: 1}}
	serve(t, e, []*arrival{again}, false)
	want = time.Second + (1000+40+(4*96+8)/2)*time.Microsecond
	if again.job.Cached != 96 || again.last != want {
		t.Errorf("with %d tokens cached it ends at %v, want %v", again.job.Cached, again.last, want)
	}
}
