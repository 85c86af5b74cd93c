package hostile

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"slices"
	"strconv"
	"sync"
	"time"

	"souk/agentd"
	"souk/agentd/kvevent"
	"souk/bus"
	"souk/bus/follow"
	"souk/market"
)

// Sizes and paces of the engine.
const (
	blockSize   = 16
	contextLen  = 4096
	prefillBase = 20 * time.Millisecond
	prefillEach = 20 * time.Microsecond // a token that is not cached
	decodeEach  = 5 * time.Millisecond
)

// engine computes answers by rule, without a model, and knows exactly what it computed. Its cache forgets
// nothing. A word of letters has a token for every four of them, any other byte is a token of its own,
// whichever member of the body it stands in.
type engine struct {
	mu     sync.Mutex
	blocks map[uint64]bool // by the hash of a prompt up to a block's end
	served map[string]*request
	order  []string

	template *bus.Template // what it says that it adds to a prompt
	// hurt says what is wrong with a request, if anything; nil: nothing ever is
	hurt func(r agentd.Request) (late time.Duration, fails bool)
}

// failsAfter is the number of tokens of an answer that fails.
const failsAfter = 3

// request is the outcome of one request that reached the engine.
type request struct {
	prompt, cached int
	blocks         []uint64 // of its prompt, until they are in the cache
	refused        bool
	first          bool // its first token was handed over
	relayed        int  // output tokens taken by the agent
	finished       bool // by the engine itself, not cut from outside
	finish         string
}

func newEngine(template *bus.Template) *engine {
	return &engine{blocks: map[uint64]bool{}, served: map[string]*request{}, template: template}
}

func (e *engine) Info(context.Context) (agentd.Info, error) {
	return agentd.Info{Models: []string{"tiny"}, Version: "1", MaxModelLen: contextLen, BlockSize: blockSize,
		KVTokens: 1 << 20, Template: e.template}, nil
}

func (*engine) Events(context.Context, func(kvevent.Update)) {}

func (e *engine) Load(context.Context) (agentd.Load, error) { return agentd.Load{}, nil }

// tokens renders a body as its engine would see it. ok is false for what it would refuse.
func tokens(body []byte) (out []uint64, ok bool) {
	var b struct {
		Messages []map[string]json.RawMessage
		Prompt   *string
		Rest     map[string]json.RawMessage `json:"-"`
	}
	if json.Unmarshal(body, &b) != nil || json.Unmarshal(body, &b.Rest) != nil {
		return nil, false
	}
	add := func(text []byte) {
		word := 0
		for i := range text {
			letter := text[i] >= 'a' && text[i] <= 'z' || text[i] == ' '
			if letter && word > 0 && word < 4 {
				out[len(out)-1] = out[len(out)-1]<<8 | uint64(text[i])
				word++
				continue
			}
			out = append(out, uint64(text[i]))
			word = 0
			if letter {
				word = 1
			}
		}
	}
	for _, name := range []string{"chat_template", "chat_template_kwargs", "documents", "tools"} {
		if v := b.Rest[name]; len(v) > 0 && string(v) != "null" {
			add(v)
		}
	}
	if b.Prompt != nil {
		add([]byte(*b.Prompt))
		return out, len(out) > 0
	}
	for _, m := range b.Messages {
		out = append(out, 1<<32, 1<<33) // what the template puts around it
		names := make([]string, 0, len(m))
		for name := range m {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			var text string
			if json.Unmarshal(m[name], &text) == nil {
				add([]byte(text))
			} else {
				add(m[name])
			}
		}
	}
	return out, len(out) > 0
}

// salt returns the salt of the names of a prompt's blocks.
func salt(r agentd.Request) uint64 {
	h := fnv.New64a()
	h.Write([]byte(r.Salt)) // a hash never fails to write
	return h.Sum64()
}

// reach notes a request, and what of its prompt is cached.
func (e *engine) reach(r agentd.Request) (*request, uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q := &request{}
	e.served[r.ID] = q
	e.order = append(e.order, r.ID)
	prompt, ok := tokens(r.Body)
	if r.Resume != nil {
		for _, t := range r.Resume.Tokens {
			prompt = append(prompt, uint64(t)<<34)
		}
	}
	q.prompt = len(prompt)
	if !ok || q.prompt+r.MaxTokens > contextLen || r.MaxTokens < 1 {
		q.refused = true
		return q, 0
	}
	h := fnv.New64a()
	hits, mixed := true, salt(r)
	var piece []byte
	for i, t := range prompt {
		piece = append(strconv.AppendUint(piece[:0], t, 16), ',')
		h.Write(piece)
		if end := i + 1; end%blockSize == 0 {
			key := h.Sum64() ^ mixed
			q.blocks = append(q.blocks, key)
			if hits = hits && e.blocks[key] && end < len(prompt); hits {
				q.cached = end
			}
		}
	}
	return q, h.Sum64()
}

// computed puts a prompt into the cache.
func (e *engine) computed(q *request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, key := range q.blocks {
		e.blocks[key] = true
	}
	q.blocks = nil
}

// note changes what is known of a request.
func (e *engine) note(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
}

func (e *engine) Complete(ctx context.Context, r agentd.Request,
	token func(agentd.Chunk) error) (agentd.Answer, error) {
	if ctx.Err() != nil { // cancelled between its acceptance and its start: nothing is sent, nothing computed
		return agentd.Answer{Unmetered: true}, context.Cause(ctx)
	}
	q, hash := e.reach(r)
	if q.refused {
		return agentd.Answer{Unmetered: true}, &agentd.EngineError{Code: bus.CodeEngineRefused, Status: 400,
			Message: "the prompt does not fit"}
	}
	length, finish := 1+int(hash%40), "stop"
	var b struct {
		IgnoreEOS bool `json:"ignore_eos"`
	}
	most := r.MaxTokens
	if r.Resume != nil {
		most = max(1, min(most, r.Resume.Whole-len(r.Resume.Tokens)))
	}
	if json.Unmarshal(r.Body, &b) == nil && b.IgnoreEOS || length >= most {
		length, finish = most, "length"
	}
	begin := time.Now()
	var first time.Time
	count := 0
	cut := func(err error) (agentd.Answer, error) {
		a := agentd.Answer{Usage: market.Usage{Output: count}, Unmetered: true, NoCacheReport: true}
		if count > 0 {
			a.Usage.Prompt, a.TTFT = q.prompt, first.Sub(begin)
		}
		return a, err
	}
	late, fails := time.Duration(0), false
	if e.hurt != nil {
		late, fails = e.hurt(r)
	}
	if !follow.Pause(ctx, late+prefillBase+time.Duration(q.prompt-q.cached)*prefillEach) {
		e.computed(q) // what was begun is computed
		return cut(context.Cause(ctx))
	}
	e.computed(q)
	first = time.Now()
	for i := range length {
		if i > 0 && !follow.Pause(ctx, decodeEach) {
			return cut(context.Cause(ctx))
		}
		if fails && i == failsAfter {
			return cut(&agentd.EngineError{Code: bus.CodeEngineFailed, Message: "the connection is reset"})
		}
		c := agentd.Chunk{Text: "so ", Tokens: []uint32{uint32(hash%1000) + uint32(i)}, Count: 1, Events: 1,
			Finish: i == length-1}
		if i == 0 {
			c.Prompt = q.prompt
			if r.Resume != nil {
				c.Base, c.Kept = q.prompt-len(r.Resume.Tokens), len(r.Resume.Tokens)
			}
			e.note(func() { q.first = true })
		}
		if err := token(c); err != nil {
			return cut(err)
		}
		count++
		e.note(func() { q.relayed = count })
	}
	e.note(func() { q.finished, q.finish = true, finish })
	a := agentd.Answer{Finish: finish, Usage: market.Usage{Prompt: q.prompt, Cached: q.cached, Output: count},
		TTFT: first.Sub(begin)}
	if count > 1 {
		a.ITL = time.Since(first) / time.Duration(count-1)
	}
	return a, nil
}
