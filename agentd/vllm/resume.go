package vllm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"souk/agentd"
	"souk/bus"
	"souk/bus/openai"
	"souk/market"
)

// An answer that broke off elsewhere goes on here: the prompt's token ids and those of the answer so far are
// sent as the prompt of a completion. The ids are those of an uninterrupted answer; the text needs care at
// the seam:
//
//   - vLLM that begins inside a character sends the whole prompt as text (vLLM issue 48853), so the answer
//     is taken back to the end of a character;
//   - vLLM holds back as much text as might begin a stop string, so some of what was made was never sent;
//   - a stop string may stand across the seam, where no engine sees it.

// backOff bounds by how many tokens an answer is shortened: no character has more bytes after its first.
const backOff = 3

var errStopped = errors.New("a stop string was found")

// goOn is Complete for an answer that broke off elsewhere.
func (e *Engine) goOn(ctx context.Context, r agentd.Request, token func(agentd.Chunk) error) (agentd.Answer,
	error) {
	none := agentd.Answer{Unmetered: true}
	if s := e.server.Load(); !s.vllm() {
		return none, cannot(fmt.Errorf("an engine of kind %s takes over no tokens", s.kind))
	}
	from := bus.Resume{Tokens: r.Resume.Tokens, Text: r.Resume.Text, Reasoning: r.Resume.Reasoning,
		Calls: r.Resume.Calls}
	parses, err := openai.CanContinue(&from, r.Body)
	if err != nil {
		return none, cannot(err)
	}
	var body map[string]json.RawMessage
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return none, cannot(err)
	}
	if parses {
		return e.parse(ctx, r, body, token)
	}
	prompt, err := e.tokenize(ctx, r, body)
	if err != nil {
		return none, err
	}
	kept, whole, err := e.wholeCharacters(ctx, r)
	if err != nil {
		return none, err
	}
	stops, err := stopStrings(body["stop"])
	if err != nil {
		return none, cannot(err)
	}
	s, err := newSeam(r.Resume.Text, whole, stops)
	if err != nil {
		return none, cannot(err)
	}
	logs, err := askedLogs(r.Kind, body, whole)
	if err != nil {
		return none, cannot(err)
	}
	text, stop := s.take("")
	left := min(r.MaxTokens, r.Resume.Whole-kept)
	over := stop != "" || left <= 0
	if over && stop == "" {
		text += s.rest()
	}
	if err := token(agentd.Chunk{Text: text, Base: len(prompt), Kept: kept, Finish: over}); err != nil {
		return none, err
	}
	switch {
	case stop != "":
		return stopped(agentd.Answer{}, stop), nil
	case over:
		return agentd.Answer{Finish: "length", Usage: market.Usage{}}, nil
	}
	ask, err := completion(r, body, append(prompt, r.Resume.Tokens[:kept]...), kept, left, logs)
	if err != nil {
		return none, cannot(err)
	}
	a, err := e.send(ctx, r, "/v1/completions", ask, 0, true, func(c agentd.Chunk) error {
		c.Text, stop = s.take(c.Text)
		if c.Finish && stop == "" {
			c.Text += s.rest()
		}
		c.Finish = c.Finish || stop != ""
		for i := range c.Extra { // one at most: every event comes by itself
			if logs == nil {
				break
			}
			if c.Extra[i].Choice, err = logs.choice(c.Extra[i].Choice, c.Text, stop); err != nil {
				return err
			}
		}
		if err := token(c); err != nil {
			return err
		}
		if stop != "" {
			return errStopped
		}
		return nil
	})
	if errors.Is(err, errStopped) {
		return stopped(a, stop), nil
	}
	return a, err
}

// stopped is an answer that we ended at a stop string: the engine never said what it used.
func stopped(a agentd.Answer, stop string) agentd.Answer {
	a.Finish, a.Unmetered, a.NoCacheReport, a.Said = "stop", true, true, nil
	a.Stop, _ = json.Marshal(stop)
	return a
}

const cannotGoOn = "the answer cannot go on here"

func cannot(err error) error {
	return &agentd.EngineError{Code: bus.CodeAgentFailed, Message: cannotGoOn, Err: err}
}

// tokenize returns the prompt's token ids.
func (e *Engine) tokenize(ctx context.Context, r agentd.Request, body map[string]json.RawMessage) ([]uint32,
	error) {
	q := map[string]any{"model": r.Model}
	names := []string{"messages", "add_generation_prompt", "continue_final_message", "chat_template",
		"chat_template_kwargs",
		"add_special_tokens", "tools"}
	if r.Kind == bus.KindCompletion {
		names = []string{"add_special_tokens"}
		prompt := body["prompt"]
		var one []string
		if json.Unmarshal(prompt, &one) == nil && len(one) == 1 {
			q["prompt"] = one[0]
		} else {
			q["prompt"] = prompt
		}
	}
	pass(q, body, names)
	var said struct {
		Tokens []uint32 `json:"tokens"`
	}
	if err := e.post(ctx, "/tokenize", q, &said); err != nil {
		return nil, err
	}
	if len(said.Tokens) == 0 {
		return nil, cannot(errors.New("/tokenize: no tokens"))
	}
	return said.Tokens, nil
}

// wholeCharacters returns how many of the tokens delivered end with a whole character, and the text of these.
func (e *Engine) wholeCharacters(ctx context.Context, r agentd.Request) (kept int, text string, err error) {
	all := r.Resume.Tokens
	for kept = len(all); kept > 0 && kept >= len(all)-backOff; kept-- {
		var said struct {
			Prompt string `json:"prompt"`
		}
		if err := e.post(ctx, "/detokenize", map[string]any{"model": r.Model, "tokens": all[:kept]},
			&said); err != nil {
			return 0, "", err
		}
		if !strings.HasSuffix(said.Prompt, string(utf8.RuneError)) {
			return kept, said.Prompt, nil
		}
	}
	if kept == 0 {
		return 0, "", nil
	}
	return 0, "", cannot(fmt.Errorf("its last %d tokens end inside a character", backOff+1))
}

// post asks an endpoint of the tokenizer.
func (e *Engine) post(ctx context.Context, path string, q, said any) error {
	data, err := json.Marshal(q)
	if err != nil {
		return cannot(err)
	}
	status, body, err := e.ask(ctx, path, data)
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return failed(path, err)
	case blame(status, body) == bus.CodeUnknownModel:
		return refused(status, body)
	case status != http.StatusOK:
		return &agentd.EngineError{Code: bus.CodeAgentFailed, Status: status, Message: cannotGoOn,
			Err: fmt.Errorf("%s: the engine answered %d", path, status), Said: complaint(body)}
	}
	if err := json.Unmarshal(body, said); err != nil {
		return cannot(fmt.Errorf("%s: %w", path, err))
	}
	return nil
}

// sampling are the members of a body that are passed on: they mean the same in chats and completions. "stop"
// is not among them, since it is looked for here.
var sampling = []string{
	"temperature", "top_p", "top_k", "min_p", "repetition_penalty", "stop_token_ids", "ignore_eos",
	"logit_bias", "allowed_token_ids",
	"skip_special_tokens", "spaces_between_special_tokens", "priority", "user",
}

// pass copies members of a body.
func pass(q map[string]any, body map[string]json.RawMessage, names []string) {
	for _, name := range names {
		if v := body[name]; !null(v) {
			q[name] = v
		}
	}
}

// completion is the request for the rest of an answer.
func completion(r agentd.Request, body map[string]json.RawMessage, ids []uint32, kept, left int,
	logs *logs) ([]byte, error) {
	q := map[string]any{
		"model": r.Model, "prompt": ids, "max_tokens": left, "stream": true, "return_token_ids": true,
		"stream_options": map[string]bool{"include_usage": true},
	}
	pass(q, body, sampling)
	if r.Salt != "" {
		q["cache_salt"] = r.Salt
	}
	if logs != nil {
		q["logprobs"] = logs.top
	}
	var n int64
	if v := body["min_tokens"]; !null(v) {
		if err := json.Unmarshal(v, &n); err != nil {
			return nil, fmt.Errorf("min_tokens: %w", err)
		}
		q["min_tokens"] = max(0, n-int64(kept))
	}
	if v := body["seed"]; !null(v) { // the same seed again would use the same noise
		if err := json.Unmarshal(v, &n); err != nil {
			return nil, fmt.Errorf("seed: %w", err)
		}
		q["seed"] = n + int64(kept)
	}
	if err := penalise(q, body, ids[len(ids)-kept:]); err != nil {
		return nil, err
	}
	return json.Marshal(q)
}

// maxBias is the most that vLLM adds to a logit or takes from it.
const maxBias = 100

// penalise makes up for a frequency_penalty and a presence_penalty. The engine counts only what it generates
// itself, and the answer so far is part of its prompt. What the count of these tokens would take from their
// logits goes into logit_bias, which is added at the same place. With it greedy ids are those of the
// uninterrupted answer under a frequency_penalty. A presence_penalty is exact until a token of the answer so
// far comes again: from then on the engine counts that token as well. Its penalty counts twice then, and the
// rest of the answer repeats the first part a little less often.
func penalise(q map[string]any, body map[string]json.RawMessage, answer []uint32) error {
	each, err := penalty(q, body, "frequency_penalty")
	if err != nil {
		return err
	}
	once, err := penalty(q, body, "presence_penalty")
	if err != nil || each == 0 && once == 0 {
		return err
	}
	bias := map[uint32]float64{}
	if v := body["logit_bias"]; !null(v) {
		if err := json.Unmarshal(v, &bias); err != nil {
			return fmt.Errorf("logit_bias: %w", err)
		}
	}
	seen := make(map[uint32]bool, len(answer))
	for _, id := range answer {
		bias[id] -= each
		if !seen[id] {
			bias[id] -= once
			seen[id] = true
		}
	}
	for id, x := range bias {
		bias[id] = min(max(x, -maxBias), maxBias)
	}
	if len(bias) > 0 {
		q["logit_bias"] = bias
	}
	return nil
}

// penalty reads a penalty, and passes it on unless it is 0.
func penalty(q map[string]any, body map[string]json.RawMessage, name string) (x float64, err error) {
	if v := body[name]; !null(v) {
		if err := json.Unmarshal(v, &x); err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
	}
	if x != 0 {
		q[name] = x
	}
	return x, nil
}

// stopStrings reads the member "stop": a string or several.
func stopStrings(v json.RawMessage) ([]string, error) {
	all := []string{""}
	if !null(v) && json.Unmarshal(v, &all[0]) != nil {
		if err := json.Unmarshal(v, &all); err != nil {
			return nil, fmt.Errorf("stop: %w", err)
		}
	}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" }), nil
}
