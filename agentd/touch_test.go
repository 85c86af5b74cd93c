package agentd

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// toucher is an agent of so many sequences that touches, claimed.
func toucher(slots int) *Agent {
	cfg := oneAgent("a1", slots)
	cfg.Touches = true
	a := NewAgent(cfg, Config{}, Info{Models: []string{"tiny"}, BlockSize: 16, KVTokens: 1000}, 7,
		[32]byte{1})
	a.Claimed(claim(5))
	return a
}

// touchOf is a hub's wish to touch a session as far as so many tokens go.
func touchOf(client, session string, tokens int) *bus.Dispatch {
	d := dispatch("math/9/0")
	d.Kind, d.MaxTokens = bus.DispatchPrefetch, 1
	d.Task = bus.Task{Client: "probe-math", ID: "touch-1-1"}
	d.Session, d.Tokens = bus.SessionKey(client, session), tokens
	return d
}

// touch is what the engine is asked for a touch, or what the hub is told.
func (a *Agent) touch(d *bus.Dispatch, others int) (r Request, no *bus.Completion) {
	if no = a.Touch("math", d, others); no == nil {
		r, no = a.TouchRequest(d)
	}
	return r, no
}

// serve has an agent serve a turn of a session.
func (a *Agent) serve(t *testing.T, id string, change func(*bus.Dispatch), prompt []uint32,
	said ...[]uint32) *bus.Dispatch {
	t.Helper()
	d := dispatch(id)
	if change != nil {
		change(d)
	}
	if r, ok := a.Dispatch("math", d); !ok {
		t.Fatalf("%+v", r)
	}
	a.Began(d, prompt)
	for _, tokens := range said {
		a.Said(d, tokens, 0)
	}
	e := a.Begin(d).End(Answer{Finish: "stop", Usage: market.Usage{Prompt: len(prompt), Output: 2}}, nil)
	a.Ended(d, &e)
	a.Acked(d.Hold, "")
	return d
}

// An agent that touches keeps the tokens of each session's last prompt and answer, and gives its engine
// those, with the salt of whoever asked, as far as it is told; of a session that has ended, that had pictures
// or that it does not know it has none, and says so.
func TestATouchIsOfTheSessionsTokens(t *testing.T) {
	a := toucher(2)
	salted := func(d *bus.Dispatch) {
		d.Task.Session, d.Task.Body = "one", []byte(`{"cache_salt":"paprika","messages":[]}`)
		d.Task.Salt = "pepper"
	}
	a.serve(t, "h1", salted, []uint32{1, 2, 3}, []uint32{4})
	a.serve(t, "h2", salted, []uint32{1, 2, 3, 4, 5}, []uint32{6, 7}, []uint32{8})
	request, no := a.touch(touchOf("ann", "one", 6), 0)
	if no != nil || !slices.Equal(request.IDs, []uint32{1, 2, 3, 4, 5, 6, 7}) || request.MaxTokens != 1 ||
		request.Salt != "pepper" || request.Kind != bus.KindCompletion || request.Body != nil {
		t.Errorf("asked: %+v, %+v", request, no)
	}
	if request, no = a.touch(touchOf("ann", "one", 100), 0); no != nil || len(request.IDs) != 8 {
		t.Errorf("of more tokens than there are: %+v, %+v", request, no)
	}
	c := a.Touched(touchOf("ann", "one", 6), Answer{Usage: market.Usage{Prompt: 7, Cached: 6, Output: 1}},
		nil)
	if c.Outcome != bus.OutcomeDone || c.Usage.Cached != 6 || c.Task != "touch-1-1" || c.Boot != 7 ||
		c.Cost != 1000+6*100+4000 || c.Validate() != nil {
		t.Errorf("told: %+v, %v", c, c.Validate())
	}

	wrong := func(why string, d *bus.Dispatch, code bus.Code, others int) {
		t.Helper()
		if _, c := a.touch(d, others); c == nil || c.Code != code || c.Outcome != bus.OutcomeFailed ||
			c.Validate() != nil {
			t.Errorf("%s: %+v, want %s", why, c, code)
		}
	}
	wrong("another client's", touchOf("bob", "one", 6), bus.CodeAnswerGone, 0)
	other := touchOf("ann", "one", 6)
	other.Epoch = 4
	wrong("of a hub that is deposed", other, bus.CodeStaleEpoch, 0)
	wrong("one of too many", touchOf("ann", "one", 6), bus.CodeNoSlot, MaxTouches)
	a.serve(t, "h3", func(d *bus.Dispatch) { salted(d); d.Task.SessionEnd = true }, []uint32{1, 2}, nil)
	wrong("of a session that has ended", touchOf("ann", "one", 1), bus.CodeAnswerGone, 0)
	a.serve(t, "h4", func(d *bus.Dispatch) { salted(d); d.Task.Prompt.Loose = bus.LooseMedia }, []uint32{1})
	wrong("with pictures", touchOf("ann", "one", 1), bus.CodeAnswerGone, 0)
	a.serve(t, "h5", func(d *bus.Dispatch) { d.Task.Session = "" }, []uint32{1})
	if n := a.Stats().TouchesRefused[bus.CodeAnswerGone]; n != 3 || len(a.texts.by) != 0 {
		t.Errorf("%d touches are refused for want of a text; %d texts are kept", n, len(a.texts.by))
	}

	old := newTestAgent(2, Config{})
	old.Claimed(claim(5))
	old.serve(t, "h1", salted, []uint32{1, 2, 3}, []uint32{4})
	if _, c := old.touch(touchOf("ann", "one", 3), 0); c == nil ||
		c.Code != bus.CodeUnsupportedField || len(old.texts.by) != 0 {
		t.Errorf("an agent that does not touch says %+v, and keeps %d texts", c, len(old.texts.by))
	}
	if r, start := a.Dispatch("math", touchOf("ann", "one", 3)); start || r.Code != bus.CodeUnsupportedField {
		t.Errorf("a touch is served as a task: %+v", r)
	}
}

// Where the engine's template leaves reasoning out of later prompts, what is kept for the next one are prompt
// and words alone, and the hub hears how many tokens are left out; elsewhere all of them are kept.
func TestReasoningIsLeftOut(t *testing.T) {
	for _, forgets := range []bool{true, false} {
		a := toucher(2)
		a.info.Forgets = forgets
		d := dispatch("h")
		d.Task.Session = "one"
		if r, ok := a.Dispatch("math", d); !ok {
			t.Fatalf("%+v", r)
		}
		run := a.Begin(d)
		a.Began(d, []uint32{1, 2, 3})
		for _, c := range []Chunk{{Tokens: []uint32{50}, Count: 1}, {Tokens: []uint32{51, 52}, Count: 2,
			Thought: 2},
			{Text: "so", Tokens: []uint32{53, 4}, Count: 2, Thought: 1}, {Text: " it", Tokens: []uint32{5},
				Count: 1}} {
			c.Events = 1
			if _, err := run.Take(c); err != nil {
				t.Fatal(err)
			}
			a.Said(d, c.Tokens, c.Thought)
		}
		e := run.End(Answer{Finish: "stop", Usage: market.Usage{Prompt: 3, Output: 6}}, nil)
		a.Ended(d, &e)
		request, no := a.touch(touchOf("ann", "one", 100), 0)
		want, left := []uint32{1, 2, 3, 4, 5}, 4
		if !forgets {
			want, left = []uint32{1, 2, 3, 50, 51, 52, 53, 4, 5}, 0
		}
		if no != nil || !slices.Equal(request.IDs, want) || e.Completion.Thought != left ||
			e.Completion.Validate() != nil {
			t.Errorf("forgets %v: kept %d, want %d; %d are said to be left out", forgets, request.IDs, want,
				e.Completion.Thought)
		}
	}
}

// The result says how much of an answer was reasoning, whole or in part; not of one that had begun elsewhere.
func TestReasoningIsCounted(t *testing.T) {
	thinking := []Chunk{{Tokens: []uint32{50}, Count: 1}, {Tokens: []uint32{51, 52}, Count: 2, Thought: 2},
		{Text: "so", Tokens: []uint32{53, 4}, Count: 2, Thought: 1}, said(" it", 5)}
	for _, c := range []struct {
		name   string
		chunks []Chunk
		resume *bus.Resume
		want   int
	}{{"whole", thinking, nil, 4}, {"still at it", thinking[:2], nil, 3}, {"none", thinking[3:], nil, 0},
		{"elsewhere", thinking, &bus.Resume{Tokens: []uint32{9}}, 0}} {
		d := dispatch("h")
		d.Task.Resume = c.resume
		if _, e := take(t, toucher(2), d, c.chunks...); e.Result.Thought != c.want {
			t.Errorf("%s: %d tokens are said to be reasoning, want %d", c.name, e.Result.Thought, c.want)
		}
	}
}

// One sequence of the engine is not sold where it touches: tasks leave it, and touches take no more than
// that and what is free.
func TestASequenceIsKeptForTouches(t *testing.T) {
	a := toucher(3)
	reg := a.Registration("n1")
	s := a.Ready(begun).Summary
	slots := 0
	for _, x := range reg.Tiers {
		slots += x.Slots
	}
	if reg.Slots != 2 || s.Slots != 2 || slots != 2 || !slices.Contains(reg.Features, bus.Touches) {
		t.Errorf("%d slots are registered, %d said, %d in tiers; features %v", reg.Slots, s.Slots, slots,
			reg.Features)
	}
	began := func(want ...bool) {
		t.Helper()
		for i, w := range want {
			if got := a.TouchBegins(); got != w {
				t.Fatalf("touch %d begins %v beside %d tasks", i, got, a.running)
			}
		}
	}
	for i := range 3 {
		r, ok := a.Dispatch("math", dispatch(fmt.Sprint("h", i)))
		if ok != (i < 2) || !ok && r.Code != bus.CodeNoSlot {
			t.Fatalf("task %d: %+v", i, r)
		}
	}
	began(true, false)
	a.TouchOver()
	began(true)

	a = toucher(3)
	began(true, true, true, false)
	if r := a.Ready(begun.Add(time.Minute)); r.Summary.InFlight != 0 {
		t.Errorf("touches count as %d tasks", r.Summary.InFlight)
	}
	cfg := oneAgent("a1", 1)
	cfg.Touches = true
	if err := cfg.Validate(); err == nil {
		t.Error("an agent of one slot may touch")
	}
}

// However many sessions there are, and however long, what is kept of them is bounded, and those that were
// used last are kept.
func TestTextsAreBounded(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	s := newTexts(100_000)
	var order []uint64 // used last last
	for range 5000 {
		key := uint64(random.IntN(200))
		switch random.IntN(3) {
		case 0:
			s.put(&text{session: key, ids: make([]uint32, random.IntN(4000))})
		case 1:
			if s.use(key) == nil {
				continue
			}
		case 2:
			s.drop(key)
			order = slices.DeleteFunc(order, func(k uint64) bool { return k == key })
			continue
		}
		order = append(slices.DeleteFunc(order, func(k uint64) bool { return k == key }), key)
		sum := 0
		for e := s.used.Front(); e != nil; e = e.Next() {
			x := e.Value.(*text)
			if sum += x.bytes(); s.by[x.session] != e {
				t.Fatalf("session %d is not found", x.session)
			}
		}
		if sum != s.bytes || sum > 100_000 || len(s.by) != s.used.Len() {
			t.Fatalf("%d bytes are counted, %d kept; %d of %d texts", s.bytes, sum, len(s.by), s.used.Len())
		}
		kept := order[len(order)-len(s.by):]
		for _, k := range kept {
			if s.by[k] == nil {
				t.Fatalf("session %d was used later than another that is kept", k)
			}
		}
	}
}
