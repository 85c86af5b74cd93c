// Package prefix keeps what each agent is believed to hold in its KV cache: the last prompt of every
// session it served (iemas Eq. 4).
package prefix

import (
	"container/list"
	"errors"
	"time"

	"souk/bus"
)

// Limits bounds the belief about one agent.
type Limits struct {
	Sessions int `yaml:"sessions"` // sessions remembered of one agent
	Marks    int `yaml:"marks"`    // marks remembered of one agent, 16 bytes each
}

// DefaultLimits remembers 8192 sessions and 4 MB of marks of an agent: more than a KV cache holds.
func DefaultLimits() Limits { return Limits{Sessions: 8192, Marks: 1 << 18} }

// Validate judges limits and changes nothing.
func (l Limits) Validate() error {
	if l.Sessions < 1 || l.Marks < 1 {
		return errors.New("prefix: sessions and marks must be at least 1")
	}
	return nil
}

// Belief is what one agent is believed to hold. Not for concurrent use.
type Belief struct {
	limits   Limits
	block    int // tokens of a KV block: only full blocks are reused
	capacity int // tokens of the KV cache, 0 if unknown
	sessions map[uint64]*list.Element
	recent   *list.List // of *session, most recent first
	marks    int
	tokens   int
}

type session struct {
	key     uint64
	marks   []bus.Mark
	bytes   int // of the prompt
	prompt  int // tokens of the prompt
	output  int // tokens of the answer
	learned time.Time
}

// New returns an empty belief. A block below 1 counts as 1; a capacity of 0 means unknown.
func New(l Limits, block, capacity int) *Belief {
	return &Belief{limits: l, block: max(1, block), capacity: max(0, capacity),
		sessions: map[uint64]*list.Element{}, recent: list.New()}
}

// Overlap returns how many of a prompt's tokens the agent is believed to hold (the numerator of Eq. 4, in
// tokens rather than characters), where the prompt is expected to have so many tokens. The common prefix with
// the session's last prompt ends at the last common mark. If it is the whole of it, and the new prompt goes
// on, the answer given then is part of it too, since an engine caches output blocks like any other. The last
// token of a prompt is always computed, and only full blocks are reused.
func (b *Belief) Overlap(key uint64, p bus.Prompt, tokens int) int {
	e, ok := b.sessions[key]
	if !ok || tokens <= 1 {
		return 0
	}
	s := e.Value.(*session)
	n := common(s.marks, p.Marks)
	if n == 0 {
		return 0
	}
	at := s.marks[n-1].Bytes
	held := 0
	switch {
	case at >= s.bytes && p.Bytes > s.bytes:
		held = s.prompt + s.output
	case at >= s.bytes:
		held = s.prompt
	default:
		held = int(int64(s.prompt) * int64(at) / int64(s.bytes))
	}
	return min(held, tokens-1) / b.block * b.block
}

// Implied returns how many tokens of a prompt the agent holds by the text alone: those of the session's
// last prompt, where this one is the same or goes on from all of it. It is less than [Belief.Overlap],
// which also expects what is likely: that the answer given then is part of the new prompt, and that half
// a text has half its tokens. Whoever wrote the prompts may have seen to it that neither is so.
func (b *Belief) Implied(key uint64, p bus.Prompt) int {
	e, ok := b.sessions[key]
	if !ok {
		return 0
	}
	s := e.Value.(*session)
	n := common(s.marks, p.Marks)
	switch {
	case n == 0 || s.marks[n-1].Bytes < s.bytes:
		return 0
	case p.Bytes > s.bytes: // the last block ended with what the template wrote for an answer to begin
		return max(0, s.prompt/b.block-1) * b.block
	}
	return s.prompt / b.block * b.block
}

// common is the number of marks that two prompts share from their start. Marks are a function of the text
// before them, so equal texts have equal marks and the last common one can be found by bisection.
func common(a, b []bus.Mark) int {
	lo, hi := 0, min(len(a), len(b))
	for lo < hi {
		mid := int(uint(lo+hi+1) >> 1)
		if a[mid-1] == b[mid-1] {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}

// Served says that the agent has computed a prompt of a session, with what it was found to need. cached is
// what the engine reported to have found, or -1 if it reports nothing; expected is what Overlap had said. An
// engine that found nothing where something was expected has dropped the session, and, as it drops the least
// recently used first, whatever was used before it: these sessions are forgotten too.
func (b *Belief) Served(now time.Time, key uint64, p bus.Prompt, prompt, output, cached, expected int) {
	if e, ok := b.sessions[key]; ok {
		if cached == 0 && expected > 0 {
			for old := e.Next(); old != nil; {
				next := old.Next()
				b.drop(old)
				old = next
			}
		}
		b.drop(e)
	}
	if p.Bytes <= 0 || prompt <= 0 || len(p.Marks) == 0 || len(p.Marks) > b.limits.Marks {
		return
	}
	s := &session{key: key, marks: p.Marks, bytes: p.Bytes, prompt: prompt, output: max(0, output),
		learned: now}
	b.sessions[key] = b.recent.PushFront(s)
	b.marks += len(s.marks)
	b.tokens += s.prompt + s.output
	for len(b.sessions) > b.limits.Sessions || b.marks > b.limits.Marks || b.capacity > 0 &&
		b.tokens > b.capacity && len(b.sessions) > 1 {
		b.drop(b.recent.Back())
	}
}

// Listed takes an agent's own list of sessions. Where it is complete, a session that it does not name is gone
// if it was learned of before settled: the list was made a little earlier than it is read. A session listed
// with fewer tokens than believed is cut down to these; one listed twice, to the fewer.
func (b *Belief) Listed(states []bus.SessionState, complete bool, settled time.Time) {
	// Lists come several times a second and are short; what is remembered may be long.
	for _, listed := range states {
		e, ok := b.sessions[listed.Key]
		if !ok {
			continue
		}
		s := e.Value.(*session)
		switch {
		case !s.learned.Before(settled):
		case listed.Tokens <= 0:
			b.drop(e)
		case listed.Tokens < s.prompt+s.output:
			b.cut(s, listed.Tokens)
		}
	}
	if !complete || len(b.sessions) == 0 {
		return
	}
	named := make(map[uint64]struct{}, len(states))
	for _, s := range states {
		named[s.Key] = struct{}{}
	}
	for e := b.recent.Front(); e != nil; {
		next := e.Next()
		if s := e.Value.(*session); s.learned.Before(settled) {
			if _, ok := named[s.key]; !ok {
				b.drop(e)
			}
		}
		e = next
	}
}

// cut lowers what is believed of a session to so many tokens: first the answer goes, then the prompt's tail.
func (b *Belief) cut(s *session, tokens int) {
	b.tokens -= s.prompt + s.output - tokens
	if tokens >= s.prompt {
		s.output = tokens - s.prompt
		return
	}
	at := int(int64(s.bytes) * int64(tokens) / int64(s.prompt))
	n := len(s.marks)
	for n > 0 && s.marks[n-1].Bytes > at {
		n--
	}
	b.marks -= len(s.marks) - n
	s.marks, s.prompt, s.output = s.marks[:n:n], tokens, 0
	s.bytes = max(1, at)
}

func (b *Belief) drop(e *list.Element) {
	s := b.recent.Remove(e).(*session)
	delete(b.sessions, s.key)
	b.marks -= len(s.marks)
	b.tokens -= s.prompt + s.output
}
