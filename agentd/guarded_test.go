package agentd

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/agentd/policy"
	"souk/agentd/policy/guard"
	"souk/bus"
	runtimepolicy "souk/bus/policy"
	"souk/market"
)

// guarded is an agent that looks for a secret, which cuts, and for a word, which is counted.
func guarded() *Agent {
	limits := Config{Policies: policy.Params{Guard: patterns}, Patterns: []guard.Pattern{
		{Name: "secret", Pattern: `secret-\d{3}`, Action: guard.Cut, Domains: []string{"math"}},
		{Name: "word", Pattern: `odd`, Action: guard.Flag}}}
	a := newTestAgent(2, limits)
	a.Claimed(claim(5))
	return a
}

// take has a dispatch served by chunks, and says what its reader got, how it ended, and what was used by then
// for good.
func take(t *testing.T, a *Agent, d *bus.Dispatch, chunks ...Chunk) (passed []bus.Chunk, e Ending) {
	t.Helper()
	if r, ok := a.Dispatch("math", d); !ok {
		t.Fatalf("%+v", r)
	}
	r := a.Begin(d)
	output := 0
	var why error
	for i, c := range chunks {
		c.Events, c.Finish = 1, i == len(chunks)-1
		output += c.Count
		var out *bus.Chunk
		if out, why = r.Take(c); out != nil {
			passed = append(passed, *out)
		}
		if why != nil {
			break
		}
	}
	answer := Answer{Finish: "stop", Usage: market.Usage{Prompt: 50, Output: output}}
	if why != nil {
		answer = Answer{Unmetered: true}
	}
	e = r.End(answer, why)
	a.Ended(d, &e)
	if err := errors.Join(e.Result.Validate(), e.Completion.Validate()); err != nil {
		t.Error(err)
	}
	return passed, e
}

func said(text string, tokens ...uint32) Chunk {
	return Chunk{Text: text, Tokens: tokens, Count: len(tokens)}
}

func sums(passed []bus.Chunk) (text string, tokens []uint32, count int) {
	for _, c := range passed {
		text, tokens, count = text+c.Text, append(tokens, c.Tokens...), count+c.Count
	}
	return text, tokens, count
}

// An answer that holds what its agent does not pass on is cut before it, wherever the engine's chunks end;
// its client is told so, and it and the hub pay for what was passed on: by whole chunks, so that nobody pays
// for a token that it cannot read.
func TestAnAnswerIsCut(t *testing.T) {
	for _, stream := range []bool{true, false} {
		a := guarded()
		d := dispatch("h")
		d.Task.Stream = stream
		passed, e := take(t, a, d, said("the ", 1), said("key is se", 2, 3, 4), said("cret", 5), said("-1",
			6),
			said("23 and more", 7, 8))
		text, tokens, count := sums(passed)
		if !stream {
			text, count = e.Result.Text, e.Completion.Relayed
		}
		if text != "the key is " || count != 1 || stream && !slices.Equal(tokens, []uint32{1}) {
			t.Errorf("stream %v: passed on %q, tokens %d, %d counted", stream, text, tokens, count)
		}
		c, r := &e.Completion, &e.Result
		if c.Outcome != bus.OutcomeDone || c.Finish != bus.FinishFiltered || r.Finish != c.Finish ||
			c.Relayed != 1 || c.Usage.Output != 1 || !c.Unmetered || r.Cost != c.Cost ||
			c.Cost != d.Price.Cost(market.Usage{Prompt: 50, Output: 1}) ||
			r.Message != "the answer is cut before what this agent does not pass on (secret)" {
			t.Errorf("stream %v: %+v\n%+v", stream, c, r)
		}
		if n := a.Stats().Caught["secret"]; n != 1 {
			t.Errorf("counted %d", n)
		}
	}
}

// What might have begun a match and did not is passed on, with its tokens and in order, and is paid for as
// the engine says; what flags is counted, and changes nothing.
func TestWhatIsNoMatchIsPassedOn(t *testing.T) {
	a := guarded()
	chunks := []Chunk{said("a sec", 1, 2), said("ret-", 3), said("12", 4), said("x, odd", 5, 6),
		said(" sec", 7), {}}
	d := dispatch("h")
	passed, e := take(t, a, d, chunks...)
	text, tokens, count := sums(passed)
	if text != "a secret-12x, odd sec" || !slices.Equal(tokens, []uint32{1, 2, 3, 4, 5, 6, 7}) || count != 7 {
		t.Errorf("passed on %q, tokens %d, %d counted", text, tokens, count)
	}
	if c := &e.Completion; c.Finish != "stop" || c.Relayed != 7 || c.Usage.Output != 7 || c.Unmetered {
		t.Errorf("%+v", c)
	}
	if s := a.Stats(); s.Caught["word"] != 1 || len(s.Policies) != 1 || s.Policies[0].Observed != 2 {
		t.Errorf("%+v", s)
	}
	for i, c := range passed {
		if c.Seq != uint64(i) {
			t.Errorf("chunk %d has number %d", i, c.Seq)
		}
	}
}

// A client that cancels, or an engine that fails, while something is held back pays for none of it.
func TestNobodyPaysForWhatIsHeldBack(t *testing.T) {
	a := guarded()
	d := dispatch("h")
	if _, ok := a.Dispatch("math", d); !ok {
		t.Fatal("refused")
	}
	r := a.Begin(d)
	for _, c := range []Chunk{said("yes ", 1), said("secret-1", 2, 3)} {
		c.Events = 1
		if _, err := r.Take(c); err != nil {
			t.Fatal(err)
		}
	}
	r.Cancel()
	e := r.End(Answer{}, ErrCancelled)
	if c := &e.Completion; c.Outcome != bus.OutcomeCancelled || c.Relayed != 1 || c.Usage.Output != 1 {
		t.Errorf("%+v", c)
	}
}

// Reasoning and the arguments of tool calls are looked at like text, each by itself; text does not wait for
// what they began.
func TestWhatIsNoTextIsLookedAt(t *testing.T) {
	extra := func(delta string) Chunk {
		return Chunk{Count: 1, Tokens: []uint32{9}, Extra: []bus.Extra{{Choice: json.RawMessage(
			`{"index":0,"delta":` + delta + `}`)}}}
	}
	for name, chunks := range map[string][]Chunk{
		"reasoning":        {extra(`{"reasoning":"it is secret"}`), extra(`{"reasoning":"-123"}`)},
		"former reasoning": {extra(`{"reasoning_content":"it is secret"}`), extra(`{"reasoning_content":"-123"}`)},
		"arguments": {extra(`{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{\"a\":\"secr"}}]}`),
			extra(`{"tool_calls":[{"index":0,"function":{"arguments":"et-123"}}]}`)},
	} {
		passed, e := take(t, guarded(), dispatch("h"), append(chunks, said("more", 1))...)
		if len(passed) != 0 || e.Completion.Finish != bus.FinishFiltered || e.Completion.Usage.Output != 0 {
			t.Errorf("%s: passed on %+v, ends %+v", name, passed, e.Completion)
		}
	}
	passed, e := take(t, guarded(), dispatch("h"), extra(`{"reasoning":"it is secret"}`), said("so", 1),
		said(" it is", 2))
	if len(passed) != 2 || passed[0].Text != "so" || e.Completion.Finish != "stop" {
		t.Errorf("text that follows reasoning waits: %+v, %+v", passed, e.Completion)
	}
}

// An answer that goes on from another agent's is looked at as one: what was delivered there may begin a
// match.
func TestAMatchAcrossTwoAgents(t *testing.T) {
	d := dispatch("h")
	d.Task.Attempt, d.Task.Resume = 1, &bus.Resume{Agent: "a0", Seq: 2, Tokens: []uint32{1, 2},
		Text: "it is secret-1"}
	passed, e := take(t, guarded(), d, Chunk{Base: 50, Kept: 2}, said("23", 3), said("4", 4))
	if len(passed) != 0 || e.Completion.Finish != bus.FinishFiltered {
		t.Errorf("passed on %+v, ends %+v", passed, e.Completion)
	}
	d = dispatch("h2")
	d.Task.Attempt, d.Task.Resume = 1, &bus.Resume{Agent: "a0", Seq: 2, Tokens: []uint32{1, 2},
		Text: "it is secret-123, and"}
	if passed, e = take(t, guarded(), d, Chunk{Base: 50, Kept: 2}, said(" so on", 3)); len(passed) != 1 ||
		e.Completion.Finish != "stop" {
		t.Errorf("a match that is past cuts: %+v, %+v", passed, e.Completion)
	}
	for _, from := range []bus.Resume{{Text: "it is secret-123 and secret-4"},
		{Text: "it is secret-4", Reasoning: "is it secret-123?"}} {
		from.Agent, from.Seq, from.Tokens = "a0", 2, []uint32{1, 2}
		d = dispatch("h3")
		d.Task.Attempt, d.Task.Resume = 1, &from
		if passed, e = take(t, guarded(), d, Chunk{Base: 50, Kept: 2}, said("56", 3)); len(passed) != 0 ||
			e.Completion.Finish != bus.FinishFiltered {
			t.Errorf("after a match that is past: passed on %+v, ends %+v", passed, e.Completion)
		}
	}
}

// Without policies, with one that finds nothing, and with one that has panicked, an agent passes on the same
// chunks and settles the same.
func TestAGuardThatFindsNothingChangesNothing(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for n := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, n))
		var chunks []Chunk
		for i := range 1 + rng.IntN(12) {
			c := said(strings.Repeat([]string{"se", "w", "cre", " ", "odd"}[rng.IntN(5)], rng.IntN(3)),
				uint32(i))
			if rng.IntN(4) == 0 {
				c.Extra = []bus.Extra{{At: rng.IntN(len(c.Text) + 1), Choice: json.RawMessage(fmt.Sprintf(
					`{"index":0,"delta":{"reasoning":%q}}`, c.Text))}}
			}
			chunks = append(chunks, c)
		}
		var told []string
		for _, make := range []func() *Agent{
			func() *Agent { a := newTestAgent(2, Config{}); a.Claimed(claim(5)); return a }, guarded,
			func() *Agent { a := guarded(); a.policies.Set(policy.Guard, "bad", panicky{}); return a },
		} {
			d := dispatch("h")
			d.Task.Stream = n%2 == 0
			passed, e := take(t, make(), d, chunks...)
			text, tokens, count := sums(passed)
			var choices []string
			at := 0
			for _, c := range passed {
				for _, x := range c.Extra {
					choices = append(choices, fmt.Sprint(at+x.At, string(x.Choice)))
				}
				at += len(c.Text)
			}
			e.Caught, e.Result.Chunks = nil, 0 // fewer, larger ones where something was held back
			told = append(told, fmt.Sprintf("%q %d %d %q %+v %+v", text, tokens, count, choices, e.Completion,
				fmt.Sprintf("%+v", e.Result.Usage)+e.Result.Text))
		}
		if told[0] != told[1] || told[0] != told[2] {
			t.Fatalf("%s\nwith a guard: %s\nwith one that panics: %s", told[0], told[1], told[2])
		}
	}
}

// panicky is a guard that begins to look, and then panics.
type panicky struct{ runtimepolicy.Policy }

func (panicky) Begin(string) *guard.Look    { return &guard.Look{} } // of nothing: its use panics
func (panicky) Observe(runtimepolicy.Event) {}

// A guard that panics is off for a minute, and said to be so once; answers go on meanwhile, unseen.
func TestAGuardThatPanicsIsOff(t *testing.T) {
	a := guarded()
	a.Ready(begun)
	a.policies.Set(policy.Guard, "bad", panicky{})
	passed, e := take(t, a, dispatch("h"), said("secret-123", 1))
	if len(passed) != 1 || e.Completion.Finish != "stop" {
		t.Errorf("passed on %+v, ends %+v", passed, e.Completion)
	}
	if r := a.Ready(begun.Add(time.Second)); len(r.Faults) != 1 ||
		!strings.HasPrefix(r.Faults[0].Error(), "guard: policy bad is off until ") {
		t.Errorf("it says %v", r.Faults)
	}
	if r := a.Ready(begun.Add(2 * time.Second)); len(r.Faults) > 0 {
		t.Errorf("it says again %v", r.Faults)
	}
	if s := a.Stats(); len(s.Policies) != 1 || s.Policies[0].Panics != 1 || s.Policies[0].Why == "" {
		t.Errorf("%+v", s.Policies)
	}
}

// Where more happens than an agent may tell at once, the last of it is told: whose beginning is told, the end
// is too, or such a task would be held to run for long.
func TestTheEndOfWhatBeganIsTold(t *testing.T) {
	a := newTestAgent(2, Config{})
	a.Claimed(claim(5))
	a.Tells()
	a.Ready(begun)
	first := dispatch("first")
	if r, ok := a.Dispatch("math", first); !ok {
		t.Fatalf("%+v", r)
	}
	run := a.Begin(first)
	for i := range mostHeard {
		take(t, a, dispatch(fmt.Sprint("t", i)), said("yes", 1))
	}
	e := run.End(Answer{Finish: "stop", Usage: market.Usage{Prompt: 50}}, nil)
	a.Ended(first, &e)
	heard := a.Ready(begun).Heard
	if len(heard) != mostHeard {
		t.Errorf("%d events are told, want %d", len(heard), mostHeard)
	}
	runs := 0
	for _, e := range heard {
		switch e.Kind {
		case runtimepolicy.Arrived:
			runs++
		case runtimepolicy.Served, runtimepolicy.Failed:
			runs = max(0, runs-1)
		}
	}
	if last := heard[len(heard)-1]; runs != 0 || last.Kind != runtimepolicy.Served {
		t.Errorf("%d of them run as far as is told, the last event is %v", runs, last.Kind)
	}
}

// Policies hear of tasks; what they hear holds no text.
func TestWhatPoliciesHear(t *testing.T) {
	a := guarded()
	var heard []runtimepolicy.Event
	a.policies.Set(policy.Adapter, "listener", &listener{heard: &heard})
	d := dispatch("h")
	d.Task.Role, d.Task.Declared = "critic", true
	take(t, a, d, said("secret-123", 1))
	if len(heard) != 2 || heard[0].Kind != runtimepolicy.Arrived || heard[1].Kind != runtimepolicy.Served ||
		heard[1].Client != runtimepolicy.IDOf("ann") || heard[1].Role == 0 ||
		heard[1].Session != bus.SessionKey("ann", "s-h") || heard[1].Usage.Prompt != 50 {
		t.Errorf("%+v", heard)
	}
	for i := range reflect.TypeFor[runtimepolicy.Event]().NumField() {
		if f := reflect.TypeFor[runtimepolicy.Event]().Field(i); f.Type.Kind() == reflect.String {
			t.Errorf("an event holds text: %s", f.Name)
		}
	}
}

type listener struct {
	runtimepolicy.Policy
	heard *[]runtimepolicy.Event
}

func (l *listener) Observe(e runtimepolicy.Event) { *l.heard = append(*l.heard, e) }
