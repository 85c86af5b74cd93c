package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"souk/agentd/vllmsim"
	"souk/bus"
	"souk/bus/bustest"
	"souk/cmd/local"
	"souk/cmd/replay"
	"souk/market"
)

// two is a market of two agents that serve the same model; the first is better, and so it is chosen.
const two = `
listen: 127.0.0.1:0
domains: [{name: general, general: true, labels: [general, humanities, social, law, medicine, math, science, finance, code]}]
agents:
  - {id: first, model: gpt-oss-20b, price_row: fireworks/gpt-oss-20b, scores: [{domain: general, score: 0.9}], slots: 4, engine: {profile: steady}}
  - {id: second, model: gpt-oss-20b, price_row: fireworks/gpt-oss-20b, scores: [{domain: general, score: 0.5}], slots: 4, engine: {profile: steady}}
speedup: 20
clients: {dev: 100, other: 10}
`

// hard is an answer with characters of several tokens in it.
var hard = replay.Dialogue{ID: "hard", Turns: []replay.Turn{
	{User: "What is a café?", Answer: "A café — 咖啡馆 — is a place for coffee ☕, cake, and talk 👍🏽. It is " +
		"warm there."},
}}

// broken asks the question of hard while the first agent's engine fails as f says, until that agent is
// chosen; beside is what was paid for answers of the other.
func broken(t *testing.T, m *local.Market, f vllmsim.Fault, more ...func(*bus.Task)) (a replay.Answer,
	chunks []bus.Chunk, beside market.Credits) {
	t.Helper()
	first := m.Engine("first")
	defer first.Heal()
	for range 20 {
		// The agent asks a token of an engine that has just failed, and that may be the request that the
		// fault happens to.
		first.Heal()
		if err := first.Inject(f); err != nil {
			t.Fatal(err)
		}
		bustest.Eventually(t, "eight slots are free", func() bool { return m.Free() == 8 })
		chunks = nil
		var err error
		if a, err = m.AskWith(t.Context(), chat(hard.Turns[0].User, more...),
			func(c bus.Chunk) { chunks = append(chunks, c) }); err != nil {
			t.Fatal(err)
		}
		// An agent that has just failed is looked at before it is sold again; until then the other is chosen.
		if r := a.Result; r.Code != "" || r.Receipt != nil && len(r.Receipt.Earlier) > 0 {
			return a, chunks, beside
		}
		beside += a.Result.Paid()
	}
	t.Fatal("the first agent is never chosen")
	return a, chunks, beside
}

// with adds members to the body of a task.
func with(members string) func(*bus.Task) {
	return func(b *bus.Task) {
		b.Body = []byte(strings.TrimSuffix(string(b.Body), "}") + "," + members +
			"}")
	}
}

// A stream that is cut after any token goes on at the other agent, and its reader gets what an uninterrupted
// one gives: the text, the chunks' numbers, the usage, one receipt. An answer that is given whole, of which
// nothing had gone out yet, begins anew, and comes with its end. The agent that failed is paid nothing.
func TestAnAnswerGoesOnAtEveryToken(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	m := start(t, two, hard)
	whole, err := m.Ask(t.Context(), chat(hard.Turns[0].User))
	if err != nil || whole.Text != hard.Turns[0].Answer || whole.Result.Agent != "first" {
		t.Fatalf("%+v, %v", whole, err)
	}
	before := balance(t, m, "dev")
	n := whole.Result.Usage.Output
	var paid market.Credits
	for i := range 2 * n {
		k, gathered := i/2, i%2 > 0
		kind := []vllmsim.FaultKind{vllmsim.Reset, vllmsim.Broken, vllmsim.Abort}[k%3]
		begun := time.Now()
		a, chunks, beside := broken(t, m, vllmsim.Fault{Kind: kind, After: k, Times: 1},
			func(b *bus.Task) { b.Whole = gathered })
		r := a.Result
		what := fmt.Sprintf("%s after %d tokens, gathered: %v", kind, k, gathered)
		if a.Text != hard.Turns[0].Answer || r.Code != "" || r.Finish != whole.Result.Finish {
			t.Fatalf("%s: %q, %+v", what, a.Text, r)
		}
		for i, c := range chunks {
			if c.Seq != uint64(i) {
				t.Fatalf("%s: chunk %d has number %d", what, i, c.Seq)
			}
		}
		numbered, few := len(chunks), len(chunks)
		if gathered { // what waits goes out every 200 ms, the rest with the end
			numbered, few = len(chunks)-1, 1+int(time.Since(begun)/(200*time.Millisecond))
			if r.Billed != nil { // something had gone out: the first one sends what waits when it is cut
				few++
			}
		}
		if r.Agent != "second" || r.Chunks != uint64(numbered) || len(chunks) > few ||
			r.Usage.Prompt != whole.Result.Usage.Prompt || r.Usage.Output != n {
			t.Errorf("%s: %+v, want the usage %+v of agent second in %d chunks, at most %d", what, r,
				whole.Result.Usage, numbered, few)
		}
		if r.Receipt == nil || len(r.Receipt.Earlier) != 1 {
			t.Fatalf("%s: receipt %+v names no earlier hold", what, r.Receipt)
		}
		card, _ := local.Card("fireworks/gpt-oss-20b")
		billed := r.Usage
		if r.Billed != nil {
			billed = *r.Billed
		}
		if want := card.Cost(billed); r.Cost != want {
			t.Errorf("%s: cost %s for %+v, the card says %s", what, r.Cost, billed, want)
		}
		goesOn := k > 0
		if gathered { // where something had gone out on a slow machine
			goesOn = r.Billed != nil && len(chunks) > 1
		}
		if goesOn != (r.Billed != nil) {
			t.Errorf("%s: billed %+v", what, r.Billed)
		}
		paid += r.Paid() + beside
	}
	if now := balance(t, m, "dev"); before-now != paid {
		t.Errorf("dev paid %s, its answers say %s", before-now, paid)
	}
}

// A stop string that stands across the seam ends the answer where it would have ended it without the seam.
func TestStopStringsAcrossTheSeam(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	m := start(t, two, hard)
	for _, stop := range []string{"coffee", "talk 👍", "馆 — is a place", ". It is"} {
		members := `"stop":[` + fmt.Sprintf("%q", stop) + `,"never there at all"]`
		whole, err := m.Ask(t.Context(), chat(hard.Turns[0].User, with(members)))
		want, _, _ := strings.Cut(hard.Turns[0].Answer, stop)
		if err != nil || whole.Text != want || whole.Result.Finish != "stop" {
			t.Fatalf("%q: %+v, %v", stop, whole, err)
		}
		n := whole.Result.Usage.Output
		for k := 1; k < n; k++ {
			a, _, _ := broken(t, m, vllmsim.Fault{Kind: vllmsim.Reset, After: k, Times: 1}, with(members))
			var reason string
			json.Unmarshal(a.Result.Stop, &reason)
			if a.Text != want || a.Result.Finish != "stop" || reason != stop || a.Result.Usage.Output != n {
				t.Fatalf("%q cut after %d of %d tokens: %q, %+v", stop, k, n, a.Text, a.Result)
			}
		}
	}
}

// max_tokens bounds the whole answer, wherever it is cut.
func TestMaxTokensOfAnAnswerThatGoesOn(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	m := start(t, two, hard)
	ten := func(b *bus.Task) {
		b.Body = []byte(strings.Replace(string(b.Body), `"max_tokens":40`, `"max_tokens":10`, 1))
	}
	whole, err := m.Ask(t.Context(), chat(hard.Turns[0].User, ten))
	if err != nil || whole.Result.Finish != "length" || whole.Result.Usage.Output != 10 {
		t.Fatalf("%+v, %v", whole, err)
	}
	for k := 1; k < 10; k++ {
		a, _, _ := broken(t, m, vllmsim.Fault{Kind: vllmsim.Reset, After: k, Times: 1}, ten)
		if a.Text != whole.Text || a.Result.Finish != "length" || a.Result.Usage.Output != 10 {
			t.Errorf("cut after %d: %q, %+v; want %q", k, a.Text, a.Result, whole.Text)
		}
	}
}

// What must not be continued begins anew as long as nothing was delivered, and else ends with the reason.
func TestWhatCannotGoOn(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	m := start(t, two, hard)
	constrained := with(`"presence_penalty":0.5,"repetition_penalty":1.1`)
	for name, c := range map[string]struct {
		after int
		code  bus.Code
		says  string
		more  func(*bus.Task)
	}{
		"a penalty, before the first token": {0, "", "", constrained},
		"a penalty, after it":               {3, bus.CodeEngineFailed, "presence_penalty", constrained},
		"failover off, after it": {3, bus.CodeEngineFailed, "",
			func(b *bus.Task) { b.Failover = "off" }},
		"failover off, before it":  {0, bus.CodeEngineFailed, "", func(b *bus.Task) { b.Failover = "off" }},
		"the whole answer at once": {3, "", "", func(b *bus.Task) { b.Stream = false }},
	} {
		t.Run(name, func(t *testing.T) {
			before := balance(t, m, "dev")
			a, _, beside := broken(t, m, vllmsim.Fault{Kind: vllmsim.Reset, After: c.after, Times: 1}, c.more)
			r := a.Result
			if r.Code != c.code || !strings.Contains(r.Message, c.says) ||
				(c.code == "") != (a.Text == hard.Turns[0].Answer) {
				t.Errorf("%q, %+v; want code %q", a.Text, r, c.code)
			}
			if paid := before - beside - balance(t, m, "dev"); paid != r.Paid() || c.code != "" && paid != 0 {
				t.Errorf("dev paid %s, the answer says %s", paid, r.Paid())
			}
		})
	}
}

// One continuation a task: if the next agent fails as well, the answer ends.
func TestAnAnswerGoesOnOnce(t *testing.T) {
	m := start(t, two, hard)
	if err := m.Engine("second").Inject(vllmsim.Fault{Kind: vllmsim.Reset, After: 2, Times: 1}); err != nil {
		t.Fatal(err)
	}
	before := balance(t, m, "dev")
	a, _, beside := broken(t, m, vllmsim.Fault{Kind: vllmsim.Reset, After: 3, Times: 1})
	if r := a.Result; r.Code != bus.CodeEngineFailed || r.Agent != "second" ||
		!strings.HasPrefix(hard.Turns[0].Answer, a.Text) || a.Text == "" {
		t.Errorf("%q, %+v", a.Text, r)
	}
	if now := balance(t, m, "dev") + beside; now != before {
		t.Errorf("dev paid %s for an answer that nobody finished", before-now)
	}
}

// A hung engine is recognised by its counters, whatever /health says, and sells nothing until it says a
// token.
func TestAHungEngine(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	m := start(t, strings.Replace(two, "speedup: 20", "speedup: 2", 1), hard)
	first := m.Engine("first")
	frozen := false
	a, err := m.AskWith(t.Context(), chat(hard.Turns[0].User), func(bus.Chunk) {
		if !frozen {
			frozen = true
			first.Freeze(true)
		}
	})
	if err != nil || a.Text != hard.Turns[0].Answer || a.Result.Agent != "second" {
		t.Fatalf("%q, %+v, %v", a.Text, a.Result, err)
	}
	bustest.Eventually(t, "the hung agent's slots are gone", func() bool { return m.Free() == 4 })
	first.Freeze(false)
	bustest.Eventually(t, "they are back", func() bool { return m.Free() == 8 })
}

// It may be the task that kills engines: a few agents are lost to it, and not all of the market's, whether it
// fails before its first token or after it, and however its reader has the answer.
func TestATaskThatKillsEnginesKillsFew(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	t.Parallel()
	const agents = 7
	head, rest, _ := strings.Cut(one, "  - {id: only")
	_, rest, _ = strings.Cut(rest, "\n")
	for i := range agents {
		head += fmt.Sprintf("  - {id: a%d, model: gpt-oss-20b, price_row: fireworks/gpt-oss-20b, slots: 2, "+
			"scores: [{domain: general, score: 0.7}], engine: {profile: steady}}\n", i)
	}
	m := start(t, head+rest, hard)
	for _, c := range []struct {
		whole       bool
		after, most int // tokens, agents
	}{{false, 5, 2}, {true, 5, 4}, {false, 0, 4}, {true, 0, 4}} {
		bustest.Eventually(t, "all slots are free", func() bool { return m.Free() == 2*agents })
		for i := range agents {
			e := m.Engine(fmt.Sprint("a", i))
			if err := e.Inject(vllmsim.Fault{Kind: vllmsim.Reset, After: c.after}); err != nil {
				t.Fatal(err)
			}
		}
		a, err := m.AskWith(t.Context(), chat(hard.Turns[0].User, func(b *bus.Task) { b.Whole = c.whole }),
			func(bus.Chunk) {})
		r := a.Result
		if r.Code != bus.CodeEngineFailed || r.Receipt == nil || r.Paid() != 0 {
			t.Fatalf("%+v: %+v, %v", c, r, err)
		}
		if n := 1 + len(r.Receipt.Earlier); n > c.most {
			t.Errorf("%+v: %d agents were lost to it", c, n)
		}
		for i := range agents {
			m.Engine(fmt.Sprint("a", i)).Heal()
		}
	}
}

// So does one to a body that came in pieces, which the other agent asks its sender for.
func TestAnAnswerToALargeBodyGoesOn(t *testing.T) {
	m := start(t, two, hard)
	for _, after := range []int{1, 6} {
		fault := vllmsim.Fault{Kind: vllmsim.Reset, After: after, Times: 1}
		a, _, _ := broken(t, m, fault, func(b *bus.Task) {
			b.Body = []byte("{" + strings.Repeat(" ", bus.MaxBody) + string(b.Body[1:]))
		})
		if r := a.Result; a.Text != hard.Turns[0].Answer || r.Code != "" || r.Agent != "second" ||
			r.Receipt == nil || len(r.Receipt.Earlier) != 1 {
			t.Errorf("after %d tokens: %q, %+v", after, a.Text, r)
		}
	}
}
