package vllmsim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/bus/policy"
)

func urgent(q *sequence, priority int) *sequence {
	q.run.Priority = priority
	return q
}

// By priority who waits goes the lower first, then by arrival; who runs is not pushed out for that, and where
// there is no room the last of those that run is, whoever asks. The first case is what a real server did with
// six streams of priorities 5, 4, 3, 2, 1, 0 on two slots (0.32.0, --scheduling-policy priority): 0 and 1
// ended first, then 5, 4, 3, 2.
func TestPriority(t *testing.T) {
	six := make([]*sequence, 6)
	for i := range six {
		six[i] = urgent(ask(i+1, 8, 2), 5-i)
	}
	first := func(e *engine) *engine { e.ByPriority = true; return e }
	for _, c := range []struct {
		name string
		e    *engine
		all  []*sequence
		want string
	}{
		{"as recorded", first(small(100, 2, 64)), six,
			// they come at once here: the two of least priority begin
			"....tt\n....tt\n..tt\n..tt\ntt\ntt"},
		{"equals by arrival", first(small(100, 1, 64)), []*sequence{urgent(ask(1, 8, 2), 1),
			urgent(ask(2, 8, 2), 1), urgent(ask(3, 8, 2), 0)}, "..tt\n....tt\ntt"},
		{"no room: who matters least is pushed out, though it came first", first(small(7, 4, 64)),
			[]*sequence{urgent(ask(1, 8, 9), 1), urgent(ask(2, 8, 9), 0)}, "ttttt....tttt\nttttttttt"},
		{"without the policy a priority is nothing", small(100, 1, 64),
			[]*sequence{urgent(ask(1, 8, 2), 9), urgent(ask(2, 8, 2), 0)}, "tt\n..tt"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := draw(c.e, c.all...); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
	e := first(small(100, 2, 64)) // as recorded: one after the other
	now, done := time.Unix(0, 0), []int(nil)
	var wake time.Time
	var all []*sequence
	for i := range 6 {
		q := urgent(ask(i+1, 8, 20), 5-i)
		q.index = i
		all = append(all, q)
		e.add(q, now)
		wake, _ = e.step(now, nil)
		now = wake
	}
	for out := []*sequence(nil); len(done) < 6; {
		wake, out = e.step(wake, out[:0])
		for _, q := range out {
			if q.ended {
				done = append(done, q.index)
			}
		}
	}
	if want := []int{0, 1, 5, 4, 3, 2}; !slices.Equal(done, want) {
		t.Errorf("they end in the order %v, want %v", done, want)
	}
}

// The header goes before the field; what is no number says nothing.
func TestPriorityOfARequest(t *testing.T) {
	for _, c := range []struct {
		field, header string
		want          int
	}{{"", "", 0}, {`,"priority":3`, "", 3}, {`,"priority":3`, "-7", -7}, {`,"priority":3`, "soon", 3}} {
		call, p := parse([]byte(`{"prompt":"x"`+c.field+`}`), false)
		if p != nil {
			t.Fatal(p)
		}
		h := http.Header{}
		if c.header != "" {
			h.Set("X-Vllm-Priority", c.header)
		}
		if call.headers(h); call.priority.or(0) != c.want {
			t.Errorf("%q, %q: priority %d, want %d", c.field, c.header, call.priority.or(0), c.want)
		}
	}
}

// opinion is a policy that says what its function does, and notes what it hears.
type opinion struct {
	of    func(i policy.Item) float64
	heard []policy.Event
}

func (o *opinion) Observe(e policy.Event)                   { o.heard = append(o.heard, e) }
func (o *opinion) Score(_ time.Time, i policy.Item) float64 { return o.of(i) }
func (o *opinion) Predict(_ time.Time, _ time.Duration, to []policy.Forecast) []policy.Forecast {
	return to
}
func (o *opinion) Act(_ time.Time, _ policy.Room, to []policy.Effect) []policy.Effect { return to }

// A policy without an opinion, and one that panics, give up what engines give up, whatever comes.
func TestNoOpinionIsByAge(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for name, of := range map[string]func(policy.Item) float64{
		"none": func(policy.Item) float64 { return 0 }, "all alike": func(policy.Item) float64 { return 1 },
		"never": func(policy.Item) float64 { return policy.Never },
		"panic": func(policy.Item) float64 { panic("x") },
	} {
		rng := rand.New(rand.NewPCG(seed, 1))
		run := func(p policy.Policy) string {
			rng = rand.New(rand.NewPCG(seed, 1))
			cfg := engineConfig{profile: Profile{Base: 1e6}, maxSeqs: 3, maxBatched: 64, evict: p}
			e := newEngine(cfg, 24, 4, 1)
			var log strings.Builder
			now := time.Unix(0, 0)
			for range 300 {
				if rng.IntN(2) == 0 {
					e.add(ask(1+rng.IntN(6), 1+rng.IntN(30), 1+rng.IntN(9)), now)
				}
				var out []*sequence
				_, out = e.step(now, nil)
				for _, q := range out {
					fmt.Fprintln(&log, q.root, q.run.Cached, q.output())
				}
				now = now.Add(time.Second)
			}
			return log.String()
		}
		if got, want := run(&opinion{of: of}), run(nil); got != want {
			t.Errorf("%s: the engine gives up other blocks than without a policy", name)
		}
	}
}

// Blocks of the session that a policy wants stay, however old; those of others go, the end of a prompt before
// its beginning; and where all are wanted the least goes.
func TestAPolicySaysWhatStays(t *testing.T) {
	p := &opinion{of: func(i policy.Item) float64 {
		switch i.Session {
		case 1:
			return 5
		case 2:
			return 1e-3
		}
		return 0
	}}
	e := newEngine(engineConfig{profile: Profile{Base: 1e6}, maxSeqs: 3, maxBatched: 64, evict: p}, 21, 4, 1)
	now := time.Unix(0, 0)
	serve := func(session, prompt int) int {
		q := ask(session, prompt, 1)
		q.session = policy.ID(session)
		e.add(q, now)
		for !q.ended {
			now = now.Add(time.Second)
			e.step(now, nil)
		}
		return q.run.Cached
	}
	held := func(session, prompt int) int {
		q := ask(session, prompt, 1)
		q.block = 4
		return 4 * e.Cache.Match(q.Prefix(prompt/4))
	}
	serve(1, 32)
	serve(2, 32)
	for i := range 10 {
		serve(3+i, 24)
	}
	if one, two := held(1, 32), held(2, 32); one != 32 || two == 32 || two%4 != 0 {
		t.Errorf("of the session that is worth most %d tokens are there, of the other %d", one, two)
	}
	if got := serve(1, 33); got != 32 {
		t.Errorf("it finds %d tokens", got)
	}
	kinds := ""
	for _, h := range p.heard[:4] {
		kinds += h.Kind.String() + " "
	}
	if kinds != "arrived served arrived served " {
		t.Errorf("the policy heard %s", kinds)
	}
	before := held(1, 32)
	e.add(ask(99, 76, 1), now) // takes nearly all
	for range 5 {
		now = now.Add(time.Second)
		e.step(now, nil)
	}
	if after := held(1, 32); before != 32 || after != 4 {
		t.Errorf("where all is needed %d tokens of 32 are left: want the beginning of the prompt", after)
	}
}

// The stand-in tells roles and sessions by what vLLM reads: system message, session_id, X-Session-ID.
func TestAPolicyHearsOfSessions(t *testing.T) {
	p := &opinion{of: func(policy.Item) float64 { return 0 }}
	s := start(t, Config{Evict: p})
	s.say(t, []Message{{"system", "Be brief."}, {"user", "One?"}}, `,"session_id":"a","max_tokens":1`)
	s.say(t, []Message{{"system", "Be brief."}, {"user", "Two?"}}, `,"session_id":"b","max_tokens":1`)
	s.say(t, []Message{{"user", "Three?"}}, `,"max_tokens":1`)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(p.heard) != 6 || p.heard[0].Role == 0 || p.heard[0].Role != p.heard[2].Role ||
		p.heard[0].Session == p.heard[2].Session || p.heard[0].Session != nameID("a") ||
		p.heard[4].Role != 0 || p.heard[4].Session != 0 || p.heard[1].Usage.Output != 1 {
		t.Errorf("heard %+v", p.heard)
	}
}

// What --kv-cache-metrics shows: of each block that is given up how long ago it was asked for last, and not
// how long ago it was let go (vllm/v1/core/kv_cache_metrics.py).
func TestIdleBeforeEviction(t *testing.T) {
	e := newEngine(engineConfig{profile: Profile{Base: 1e6}, maxSeqs: 1, maxBatched: 64, watched: 1}, 9, 4, 1)
	now := time.Unix(0, 0)
	serve := func(id int) {
		q := ask(id, 17, 2)
		e.add(q, now)
		for !q.ended {
			now, _ = e.step(now, nil)
			if now.IsZero() {
				now = e.now
			}
		}
	}
	serve(1) // taken at 0 s, done at 2 s
	now = time.Unix(10, 0)
	serve(1) // four blocks are asked for again
	now = time.Unix(30, 0)
	serve(2) // needs five, and four are free: one that was asked for at 10 s goes
	now = time.Unix(40, 0)
	serve(3) // one is free: three that were asked for at 10 s go, and one that was taken at 30 s
	if h := e.lives.idle; h.count != 5 || h.sum != 20+3*30+10 {
		t.Errorf("%d blocks given up, idle for %v s together", h.count, h.sum)
	}
	if l := e.lives.lifetime; l.sum != 30+3*40+10 {
		t.Errorf("they lived for %v s together, %d of them", l.sum, l.count)
	}
	s := start(t, Config{Watched: 1})
	page := string(s.page())
	for _, name := range []string{"kv_block_lifetime_seconds", "kv_block_idle_before_evict_seconds",
		"kv_block_reuse_gap_seconds"} {
		if !strings.Contains(page, `vllm:`+name+`_bucket{engine="0",le="1800.0",model_name="tiny"} 0.0`) {
			t.Errorf("%s is not on the page", name)
		}
	}
	if page := string(start(t, Config{}).page()); strings.Contains(page, "kv_block_") {
		t.Error("without the flag there is nothing of it")
	}
}

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

// Adapters are loaded and unloaded by demand where that is allowed: then they are on the list and answer, the
// next step takes as long as loading does, and a restart forgets them.
func TestAdaptersByDemand(t *testing.T) {
	off := start(t, Config{})
	if code, _ := post(t, off, "/v1/load_lora_adapter", `{"lora_name":"law","lora_path":"/law"}`); code != 404 {
		t.Errorf("without leave: %d", code)
	}
	s := start(t, Config{Adapters: Adapters{Names: []string{"tax"}, Updates: true,
		Load: 50 * time.Millisecond}})
	for i, step := range []struct {
		path, body string
		code       int
		said       string
	}{
		{"load", `{"lora_name":"law"}`, 400, "must be provided"},
		{"load", `{"lora_name":"law","lora_path":"/law"}`, 200, "Success: LoRA adapter 'law' added successfully."},
		{"load", `{"lora_name":"law","lora_path":"/law"}`, 400, "has already been loaded"},
		{"load", `{"lora_name":"tiny","lora_path":"/law"}`, 400, "conflicts with a served base model"},
		{"load", `{`, 400, "JSON decode error"},
		{"unload", `{"lora_name":"art"}`, 404, "cannot be found"},
		{"unload", `{"lora_name":"tax"}`, 200, "Success: LoRA adapter 'tax' removed successfully."},
		{"unload", `{"lora_name":"\u0000"}`, 400, "needs to be provided to unload"},
	} {
		code, said := post(t, s, "/v1/"+step.path+"_lora_adapter", step.body)
		if code != step.code || !strings.Contains(said, step.said) {
			t.Errorf("%d: %d %s", i, code, said)
		}
	}
	begun := time.Now()
	for model, want := range map[string]int{"law": 200, "tax": 404, "\\u0000": 404} {
		code, said := post(t, s, "/v1/completions", `{"model":"`+model+`","max_tokens":1,"prompt":"a word"}`)
		if code != want {
			t.Errorf("%q: %d %s", model, code, said)
		}
	}
	if took := time.Since(begun); took < 50*time.Millisecond {
		t.Errorf("an adapter was loaded in %v", took)
	}
	if err := s.Restart(0); err != nil {
		t.Fatal(err)
	}
	if s.adapter("law") != 0 || s.adapter("tax") != 1 {
		t.Error("a server that starts again serves what it is told to")
	}
}

// A pool behind one server takes what its parts do: a prompt, its keys and values on the link, a step for its
// last token, and a step for each token more; what is there is neither computed nor sent again. Who leaves
// is gone, wherever it is.
func TestPoolBehindAServer(t *testing.T) {
	one := func() *engine {
		return newEngine(engineConfig{profile: Profile{Base: 1e6}, maxSeqs: 4, maxBatched: 64}, 100, 4, 1)
	}
	e := one()
	newPool(Pool{Prefill: 2, Decode: 1, Token: 1, Link: 1}, e, one)
	now := time.Unix(0, 0)
	run := func(all ...*sequence) {
		for _, q := range all {
			e.add(q, now)
		}
		wake, _ := e.step(now, nil)
		for !wake.IsZero() {
			now = wake
			wake, _ = e.step(now, nil)
		}
	}
	q := ask(1, 21, 3)
	run(q)
	if got := now.Sub(time.Unix(0, 0)); got != (1+20+3)*time.Second || q.run.Cached != 0 || q.output() != 3 {
		t.Errorf("it took %v, %d cached, %d tokens", got, q.run.Cached, q.output())
	}
	from := now
	q = ask(1, 25, 1)
	run(q)
	// of 25 tokens 20 are known where prompts are computed, as no answer is, and 20 where it is given
	if got := now.Sub(from); got != (1+4+1)*time.Second || q.run.Cached != 20 {
		t.Errorf("a second turn took %v, %d cached", got, q.run.Cached)
	}
	a, b := ask(2, 21, 30), ask(3, 21, 2)
	e.add(a, now)
	e.add(b, now)
	wake, _ := e.step(now, nil)
	if len(e.all()) != 2 || e.unfinished() != 2 {
		t.Errorf("%d are there, want 2", e.unfinished())
	}
	wake, _ = e.step(wake, nil)
	e.abort(a) // on the link
	if n := e.unfinished(); n != 1 {
		t.Errorf("%d are there, want 1", n)
	}
	for !wake.IsZero() {
		wake, _ = e.step(wake, nil)
	}
	if e.unfinished() != 0 || b.output() != 2 || a.output() != 0 {
		t.Errorf("%d are there; %d and %d tokens", e.unfinished(), a.output(), b.output())
	}
	for i, m := range e.members() {
		if m.Cache.Used() > 0 {
			t.Errorf("engine %d holds %d blocks", i, m.Cache.Used())
		}
	}
}

func TestFlagsThatDoNotFit(t *testing.T) {
	for _, c := range []Config{
		{Adapters: Adapters{Names: []string{"tiny"}}}, {Adapters: Adapters{Names: []string{"a", "a"}}},
		{Adapters: Adapters{AtOnce: 3, Loaded: 2}}, {Adapters: Adapters{Load: -1}}, {Watched: 2},
		{Pool: Pool{Prefill: 1}}, {Pool: Pool{Decode: 1}}, {Pool: Pool{Prefill: 50, Decode: 50}},
		{Pool: Pool{Prefill: 1, Decode: 1, Link: -1}}, {Pool: Pool{Prefill: 1, Decode: 1}, Watched: 1},
	} {
		if s, err := New(c); err == nil {
			_ = s.Close()
			t.Errorf("%+v was taken", c)
		}
	}
}
