package vllm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"souk/agentd"
	"souk/bus"
	"souk/bus/openai"
	"souk/market"
)

// An answer with tools, or one that broke off in its reasoning, goes on by its tokens like any other. But
// only the server's own parsers can say what these tokens mean, and vLLM does not use them for completions.
// It lends them to clients (--enable-scale-out): render makes the prompt of a chat, and derender makes events
// from tokens. derender keeps no state between two requests: each request brings all earlier tokens and the
// sizes of the pieces in which they came, and they are parsed again. So the tokens of the answer that broke
// off are given to it as if this engine had sent them one by one. So the events after the seam come out as
// without it: characters that were cut in two, text that a parser held back, the rest of a tool call.

const (
	renderPath   = "/v1/chat/completions/render"
	derenderPath = "/v1/chat/completions/derender"
)

// The parsers read the whole answer again for each question, and the prompt is sent with it. So a question is
// about at least parseLeast tokens, or half as many if parseEvery has passed. The next question waits
// parseRest times as long as the last one took.
const (
	parseLeast = 10
	parseEvery = 100 * time.Millisecond
	parseRest  = 9
)

// parser makes events of the tokens of an answer that goes on here.
type parser struct {
	e       *Engine
	model   string
	chat    map[string]json.RawMessage
	prompt  []uint32
	state   json.RawMessage
	said    int // tokens of the answer so far
	pending []uint32
	// tokens of the prompt and of the answer so far, as the engine counts them; 0 once they were told
	sum   int
	asked time.Time     // when the last question was answered
	cost  time.Duration // how long that took
}

// newParser lets the server make the prompt. The parser begins after what was delivered.
func (e *Engine) newParser(ctx context.Context, r agentd.Request, body map[string]json.RawMessage) (*parser,
	error) {
	p := &parser{e: e, model: r.Model, chat: make(map[string]json.RawMessage, len(body)+2),
		said: len(r.Resume.Tokens), asked: time.Now()}
	for name, v := range body {
		if name != "stream" && name != "stream_options" && name != "cache_salt" && !null(v) {
			p.chat[name] = v
		}
	}
	p.chat["model"], _ = json.Marshal(r.Model)
	p.chat["return_token_ids"] = json.RawMessage("true")
	var said struct {
		Tokens []uint32 `json:"token_ids"`
	}
	if err := e.post(ctx, renderPath, p.chat, &said); err != nil {
		return nil, err
	}
	if len(said.Tokens) == 0 {
		return nil, cannot(errors.New(renderPath + ": no tokens"))
	}
	p.prompt = said.Tokens
	pieces := make([]int, len(r.Resume.Tokens))
	for i := range pieces {
		pieces[i] = 1
	}
	calls := r.Resume.Calls
	if calls == nil {
		calls = []string{}
	}
	var err error
	p.state, err = json.Marshal(map[string]any{
		"role_sent": true, "output_token_ids": r.Resume.Tokens, "output_chunk_lens": pieces,
		"tools_streamed": len(calls) > 0, "last_tool_call_ids": calls,
	})
	return p, err
}

// due reports whether it is time to ask what the pending tokens mean.
func (p *parser) due(now time.Time) bool {
	n := len(p.pending)
	waited := now.Sub(p.asked)
	return (n >= parseLeast || n >= parseLeast/2 && waited >= parseEvery) && waited >= parseRest*p.cost
}

// read asks what the pending tokens mean. If they are the last of the answer, finish says why it ends. The
// reason that it returns is the parsers' own, which differs for tool calls.
func (p *parser) read(ctx context.Context, finish string, stop json.RawMessage) (c agentd.Chunk,
	reason string, err error) {
	type choice struct {
		Index  int             `json:"index"`
		Tokens []uint32        `json:"token_ids"`
		Finish *string         `json:"finish_reason"`
		Stop   json.RawMessage `json:"stop_reason,omitempty"`
	}
	x := choice{Tokens: p.pending, Stop: stop}
	if x.Tokens == nil {
		x.Tokens = []uint32{}
	}
	if finish != "" {
		x.Finish = &finish
	}
	var said struct {
		Chunk struct {
			Choices []json.RawMessage `json:"choices"`
		} `json:"chunk"`
		State json.RawMessage `json:"stream_state"`
	}
	begun := time.Now()
	err = p.e.post(ctx, derenderPath, map[string]any{
		"stream": true, "model": p.model, "chat_request": p.chat, "prompt_token_ids": p.prompt,
		"stream_state":   p.state,
		"generate_chunk": map[string]any{"request_id": "souk", "choices": []choice{x}},
	}, &said)
	if err != nil {
		return c, "", err
	}
	var state struct {
		Tokens []json.Number `json:"output_token_ids"`
	}
	if err := json.Unmarshal(said.State, &state); err != nil {
		return c, "", cannot(fmt.Errorf("%s: stream_state: %w", derenderPath, err))
	}
	if len(state.Tokens) != p.said+len(p.pending) { // without a parser it counts otherwise
		return c, "", cannot(errors.New("the engine has no parser of tool calls or reasoning"))
	}
	var b batch
	var e event
	for _, raw := range said.Chunk.Choices {
		if s := openai.Scan(raw); !b.choice(&s, &e) {
			return c, "", unread(s.Err())
		}
	}
	c = agentd.Chunk{Text: string(b.text), Tokens: p.pending, Count: len(p.pending), Prompt: p.sum, Events: 1,
		Finish: finish != ""}
	for _, raw := range e.extra {
		c.Extra = append(c.Extra, bus.Extra{Choice: raw})
	}
	if reason = e.finish; reason == "" {
		reason = finish
	}
	p.state, p.said, p.pending, p.sum, p.asked = said.State, p.said+len(p.pending), nil, 0, time.Now()
	p.cost = p.asked.Sub(begun)
	return c, reason, nil
}

// parse is goOn for answers that only parsers can read.
func (e *Engine) parse(ctx context.Context, r agentd.Request, body map[string]json.RawMessage,
	token func(agentd.Chunk) error) (agentd.Answer, error) {
	none := agentd.Answer{Unmetered: true}
	if r.Kind != bus.KindChat {
		return none, cannot(fmt.Errorf("parsers read chats, not a %s", r.Kind))
	}
	p, err := e.newParser(ctx, r, body)
	if err != nil {
		return none, err
	}
	kept := len(r.Resume.Tokens)
	left := min(r.MaxTokens, r.Resume.Whole-kept)
	if err := token(agentd.Chunk{Base: len(p.prompt), Kept: kept}); err != nil {
		return none, err
	}
	a := agentd.Answer{Finish: "length", Usage: market.Usage{}}
	if left > 0 {
		ask, err := completion(r, body, append(p.prompt[:len(p.prompt):len(p.prompt)], r.Resume.Tokens...),
			kept, left, nil)
		if err != nil {
			return none, cannot(err)
		}
		a, err = e.send(ctx, r, "/v1/completions", ask, 0, false, func(c agentd.Chunk) error {
			if len(c.Tokens) == 0 && c.Count > 0 {
				return cannot(errors.New("the engine reports no token ids"))
			}
			p.pending = append(p.pending, c.Tokens...)
			p.sum += c.Prompt
			if c.Finish || !p.due(time.Now()) {
				return nil
			}
			said, _, err := p.read(ctx, "", nil)
			if err != nil {
				return err
			}
			return token(said)
		})
		if err != nil {
			return a, err
		}
	}
	last, reason, err := p.read(ctx, a.Finish, a.Stop)
	if err != nil {
		return a, err
	}
	a.Finish = reason
	return a, token(last)
}
