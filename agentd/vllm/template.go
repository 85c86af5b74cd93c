package vllm

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"souk/agentd"
	"souk/bus"
	"souk/bus/openai"
)

// What a model's chat template adds to a prompt is measured. A few small conversations are given to the
// server's /tokenize, and each is compared with one that lacks a message, a tool, or a piece of text. If the
// server does not count, or its counts do not follow from the bytes of a prompt, nothing is said of the
// template, and a prompt is bounded by the model's context.

// spareFixed and spareEach are added to what was measured: a template may write the date, or one line more
// for one role than for another.
const (
	spareFixed = 32
	spareEach  = 4
)

// fillText fills a template, to see whether the template writes its text exactly once.
const fillText = "Pack my box with five dozen liquor jugs; how vexingly quick daft zebras jump! "

// Texts that a normal form of Unicode makes longer, and what it makes of them: the worst of their kinds.
var normalForms = []struct {
	from, to string
	wide     int
}{
	// compatibility forms
	{"\uFDFA", "\u0635\u0644\u0649 \u0627\u0644\u0644\u0647 \u0639\u0644\u064A\u0647 " +
		"\u0648\u0633\u0644\u0645", 11},
	// canonical ones
	{"\U0001D160", "\U0001D158\U0001D165\U0001D16E", 3},
}

type probeMessage map[string]any

func says(role, text string) probeMessage { return probeMessage{"role": role, "content": text} }

// prober asks /tokenize.
type prober struct {
	e      *Engine
	ctx    context.Context
	broken bool // the server did not answer, so that a count that is missing was not refused
}

// ask returns the ids of a prompt; false if the server, or its template, refused it.
func (p *prober) ask(q map[string]any) ([]uint32, bool) {
	var said struct {
		Tokens []uint32 `json:"tokens"`
	}
	if err := p.e.post(p.ctx, "/tokenize", q, &said); err != nil {
		var own *agentd.EngineError
		p.broken = p.broken || !errors.As(err, &own) || own.Status != http.StatusBadRequest
		return nil, false
	}
	return said.Tokens, true
}

func (p *prober) text(s string) ([]uint32, bool) { return p.ask(map[string]any{"prompt": s}) }

func (p *prober) chat(args map[string]any, tools []any, messages ...probeMessage) (int, bool) {
	q := map[string]any{"messages": messages}
	if args != nil {
		q["chat_template_kwargs"] = args
	}
	if tools != nil {
		q["tools"] = tools
	}
	ids, ok := p.ask(q)
	return len(ids), ok
}

// template measures what the server adds to prompts; nil if it cannot be told.
func (e *Engine) template(ctx context.Context) *bus.Template {
	ctx, cancel := context.WithTimeout(ctx, 2*e.cfg.Probe)
	defer cancel()
	p := &prober{e: e, ctx: ctx}
	plain, ok := p.text("!")
	if !ok {
		return nil
	}
	t := &bus.Template{Fixed: len(plain), Wide: 1}
	for _, n := range normalForms {
		a, ok := p.text(strings.Repeat(n.from, 8))
		b, same := p.text(strings.Repeat(n.to, 8))
		if !ok || !same {
			return nil
		}
		if slices.Equal(a, b) {
			t.Wide = n.wide
			break
		}
	}
	if !p.messages(t) || !p.once() {
		return nil
	}
	p.tools(t)
	if p.broken {
		return nil
	}
	t.Fixed += spareFixed + t.Fixed/8
	t.Each += spareEach
	return t
}

// messages measures what a template adds around a conversation and each of its messages, with thinking on
// and off: the most that any message adds to any conversation. A template may want roles to take turns,
// so two messages are added where one is refused.
func (p *prober) messages(t *bus.Template) bool {
	user, assistant, system := says("user", "!"), says("assistant", "!"), says("system", "!")
	grow := [][]probeMessage{{}, {user}, {assistant, user}, {user, assistant}, {user, user}}
	measured := false
	think := func(on bool) map[string]any { return map[string]any{"enable_thinking": on, "thinking": on} }
	for _, args := range []map[string]any{nil, think(true), think(false)} {
		first, ok := p.chat(args, nil, user)
		if !ok {
			return false // what no template refuses
		}
		t.Fixed = max(t.Fixed, first)
		if with, ok := p.chat(args, nil, system, user); ok {
			t.Each = max(t.Each, with-first)
		}
		for _, head := range [][]probeMessage{{user}, {user, assistant, user}, {system, user}} {
			before, ok := p.chat(args, nil, head...)
			if !ok {
				continue
			}
			for _, more := range grow[1:] {
				if after, ok := p.chat(args, nil, slices.Concat(head, more)...); ok {
					t.Each = max(t.Each, after-before)
					measured = true
				}
			}
		}
	}
	return measured
}

// forgets reports whether the template leaves the reasoning of an earlier answer out of a prompt.
func (e *Engine) forgets(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Probe)
	defer cancel()
	p := &prober{e: e, ctx: ctx}
	user, thinks := says("user", "!"), says("assistant", "!")
	without, ok := p.chat(nil, nil, user, thinks, user)
	thinks["reasoning"], thinks["reasoning_content"] = fillText, fillText // as vLLM names it, and as it did
	with, both := p.chat(nil, nil, user, thinks, user)
	return ok && both && with == without
}

// once reports whether a template writes each text once. Then a text costs as many tokens as it costs by
// itself, and a few at its ends.
func (p *prober) once() bool {
	short, long := strings.Repeat(fillText, 2), strings.Repeat(fillText, 10)
	a, ok := p.text(short)
	b, both := p.text(long)
	if !ok || !both {
		return false
	}
	most := len(b) - len(a) + (len(b)-len(a))/8 + 4
	user, assistant := says("user", "!"), says("assistant", "!")
	for _, conversation := range [][]probeMessage{
		{says("user", "%")},
		{says("system", "%"), user},
		{user, says("assistant", "%"), user},
		{says("user", "%"), assistant, user, assistant, user},
		{says("system", "%"), user, assistant, user, assistant, user},
	} {
		count := func(fill string) (int, bool) {
			filled := make([]probeMessage, len(conversation))
			for i, m := range conversation {
				filled[i] = m
				if m["content"] == "%" {
					filled[i] = says(m["role"].(string), fill)
				}
			}
			return p.chat(nil, nil, filled...)
		}
		x, ok := count(short)
		y, both := count(long)
		if ok != both || ok && y-x > most {
			return false
		}
	}
	return true
}

// tools measures what a template adds around tools and tool calls, beyond what the bytes of a prompt account
// for.
func (p *prober) tools(t *bus.Template) {
	user := says("user", "!")
	type raw = json.RawMessage
	bare := raw(`{"type":"function","function":{"name":"f"}}`)
	wordy := raw(`{"type":"function","function":{"name":"f","description":"!","parameters":{"type":"object",
		"properties":{"a":{"type":"string","enum":["!","?"]},
			"b":{"type":"array","items":{"type":"object","properties":{"c":{"type":"number"}}}}},
		"required":["a"]}}}`)
	fill := strings.Repeat(fillText, 10)
	long := raw(`{"type":"function","function":{"name":"f","description":"` + fill + `"}}`)
	call := func(n int) probeMessage {
		one := raw(`{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":\"!\"}"}}`)
		return probeMessage{"role": "assistant", "tool_calls": slices.Repeat([]raw{one}, n)}
	}
	result := probeMessage{"role": "tool", "tool_call_id": "c", "name": "f", "content": "!"}
	t.Tools = -1
	none, ok := p.chat(nil, nil, user)
	one, first := p.chat(nil, []any{bare}, user)
	if !ok || !first {
		return
	}
	header := max(0, one-none)
	each := t.Each
	// What is counted in a prompt with them, without the template's own part.
	room := func(tools []any, messages ...probeMessage) (int, bool) {
		body, err := json.Marshal(map[string]any{"messages": messages, "tools": tools})
		if err != nil {
			return 0, false
		}
		prompt, err := openai.Measure(body)
		if err != nil {
			return 0, false
		}
		bound, _ := bus.Template{Fixed: t.Fixed, Each: t.Each, Tools: header, Wide: t.Wide}.Bound(&prompt)
		return bound, true
	}
	for _, c := range []struct {
		tools    []any
		messages []probeMessage
	}{
		{[]any{bare, bare}, []probeMessage{user}},
		{[]any{bare, bare, bare, bare}, []probeMessage{user}},
		{[]any{wordy}, []probeMessage{user}},
		{[]any{wordy, wordy, wordy}, []probeMessage{user}},
		{[]any{long}, []probeMessage{user}},
		{[]any{bare}, []probeMessage{user, call(1), result}},
		{[]any{bare}, []probeMessage{user, call(1), result, user}},
		{[]any{bare}, []probeMessage{user, call(3), result, result, result}},
	} {
		n, ok := p.chat(nil, c.tools, c.messages...)
		bound, counted := room(c.tools, c.messages...)
		if ok && counted && n > bound { // calls and tools take more than messages: so much for each
			each = max(each, t.Each+n-bound)
		}
	}
	// A tool's own text is written once, as a message's is.
	a, ok := p.chat(nil, []any{long}, user)
	b, both := p.text(fill)
	if !ok || !both || a-one > len(b)+len(b)/8+16 {
		return
	}
	t.Each, t.Tools = each, header+header/8
}

// count returns the tokens of a request's prompt, by the server's own count.
func (e *Engine) count(ctx context.Context, r agentd.Request) (int, error) {
	var body map[string]json.RawMessage
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return 0, &agentd.EngineError{Code: bus.CodeBadRequest, Message: "counting the prompt", Err: err}
	}
	ids, err := e.tokenize(ctx, r, body)
	if own, ok := errors.AsType[*agentd.EngineError](err); ok {
		refused := *own
		refused.Message = "the prompt could not be counted"
		if own.Status > 0 {
			refused.Code = blame(own.Status, []byte(own.Said))
		}
		return 0, &refused
	}
	return len(ids), err
}
