package vllmsim

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"souk/agentd/vllmsim/kv"
	"souk/agentd/vllmsim/sched"
)

// complete serves a chat or a completion.
func (s *Server) complete(w http.ResponseWriter, r *http.Request, chat bool) {
	s.open.Add(1)
	defer s.open.Add(-1)
	a := &answering{s: s, w: w, r: r}
	body, p := s.body(w, r)
	var c *call
	var choices []*sequence
	if p == nil {
		c, p = parse(body, chat)
	}
	if p == nil {
		p = c.check(s.named(c.model), s.cfg.MaxModelLen)
	}
	if p == nil {
		choices, p = s.sequences(c, len(body))
	}
	if p == nil {
		p = s.admit(a, choices)
	}
	if p != nil {
		refuse(w, p)
		return
	}
	defer s.leave(choices)
	a.q = choices[0]
	defer s.found(a)
	if a.fault.Kind == Hang {
		a.silence()
	}
	a.reply = s.reply(c, r.Header.Get("X-Request-Id"))
	if c.stream {
		a.stream()
	} else {
		a.collect()
	}
}

// sequences makes one of each prompt of a request whose body had size bytes.
func (s *Server) sequences(c *call, size int) ([]*sequence, *problem) {
	prompts := c.ids
	if c.chat {
		prompts = append(prompts, chatTokens(make([]uint32, 0, size/3+64), c))
	}
	for _, t := range c.text {
		prompts = append(prompts, Tokens().Encode(nil, t))
	}
	salt := ""
	if c.salt != nil {
		salt = *c.salt
	}
	number, adapter := s.adapter(c.model), ""
	root := s.cfg.Model
	if number > 0 {
		adapter, root = c.model, s.cfg.Model+"\x00"+c.model
	}
	var out []*sequence
	for _, ids := range prompts {
		if p := s.fits(ids); p != nil {
			return nil, p
		}
		out = append(out, &sequence{
			tokens: ids, prompt: len(ids), root: kv.Root(root, salt), salt: salt, adapter: adapter,
			run:    sched.Request{Adapter: number},
			limits: s.limits(c, len(ids)),
			script: s.script(c, ids), ready: make(chan struct{}, 1),
		})
	}
	return out, nil
}

// script makes the answer to a prompt.
func (s *Server) script(c *call, ids []uint32) (out script) {
	head, said := begun(ids)
	if len(s.cfg.Answers) > 0 {
		var known string
		known, out.known = s.cfg.Answers[c.key(head)]
		if out.known {
			out.recorded = Tokens().Encode(nil, known)
		}
	}
	seed := kv.Chain(s.cfg.Seed^hashOf(head), []uint32{uint32(c.seed.n), uint32(c.seed.n >> 32), 0})
	out.prose = newProse(seed, s.cfg.AnswerTokens)
	out.skip(said, !c.ignoreEOS)
	return out
}

// key names the dialogue: a completion's is read from its prompt, or is the prompt.
func (c *call) key(head []uint32) uint64 {
	switch {
	case c.chat:
		return Key(c.messages)
	case len(head) > 0 && slices.Contains(head, tokenStart):
		return Key(dialogue(head))
	case len(c.text) > 0:
		return Key([]Message{{"user", c.text[0]}})
	}
	return Key([]Message{{"user", Tokens().Decode(head)}})
}

func (s *Server) fits(ids []uint32) *problem {
	if n := len(ids); n > s.cfg.MaxModelLen {
		return badValue("input_tokens", s.cfg.MaxModelLen+1,
			"This model's maximum context length is %d tokens. However, your prompt contains at least %d "+
				"input tokens, which exceeds this limit even without any output tokens. Please reduce the "+
				"length of the input prompt.", s.cfg.MaxModelLen, s.cfg.MaxModelLen+1)
	}
	if len(ids) == s.cfg.MaxModelLen {
		// what is left for the answer
		return badValue("max_tokens", 0, "max_tokens must be at least 1, got 0.")
	}
	for _, id := range ids {
		if int(id) >= Tokens().Len() {
			return badRequest("", "Token id %d is out of vocabulary", id)
		}
	}
	return nil
}

// completionTokens is vLLM's default of max_tokens for a completion.
const completionTokens = 16

func (s *Server) limits(c *call, prompt int) limits {
	most := s.cfg.MaxModelLen - prompt
	otherwise := most
	if !c.chat {
		otherwise = completionTokens
	}
	return limits{
		max: min(c.maxTokens.or(otherwise), most), min: c.minTokens.n, ignoreEOS: c.ignoreEOS,
		stop: c.stop, stopIDs: c.stopIDs, includeStop: c.includeStop, total: s.cfg.MaxModelLen,
	}
}

// admit queues a request's sequences, or says why not.
func (s *Server) admit(a *answering, choices []*sequence) *problem {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed || s.draining:
		return errShutdown
	case s.cfg.MaxNumQueuedReqs > 0 && s.engine.unfinished() >= s.cfg.MaxNumQueuedReqs:
		return errQueueFull
	}
	a.fault = s.faults.take()
	if a.fault.Kind == Status {
		p := *errDead
		p.status = max(500, a.fault.Code)
		return &p
	}
	for _, q := range choices {
		if f := a.fault; f.Kind == Abort && f.After < q.limits.max {
			q.limits.max, q.limits.cut = max(1, f.After), true
		}
		s.engine.add(q, now)
	}
	s.wake()
	return nil
}

// leave ends whatever the client did not wait for, so that its slots are free at once.
func (s *Server) leave(choices []*sequence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range choices {
		s.engine.abort(q)
	}
}

func (s *Server) reply(c *call, id string) *reply {
	id = cmp.Or(id, c.requestID)
	if id == "" {
		id = randomHex(8)
	}
	prefix := "cmpl-"
	if c.chat {
		prefix = "chatcmpl-"
	}
	s.mu.Lock()
	fingerprint := s.fingerprint
	s.mu.Unlock()
	return &reply{
		chat: c.chat, id: prefix + id, created: time.Now().Unix(), model: s.named(c.model),
		fingerprint: fingerprint,
		details:     !s.cfg.NoPromptDetails, tokenIDs: c.tokenIDs,
		usage: c.options != nil && c.options.Usage,
	}
}
