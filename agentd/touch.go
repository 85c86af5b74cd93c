package agentd

import (
	"container/list"
	"errors"
	"time"

	"souk/bus"
)

// A hub may have an engine use again what it holds of a session, so that it drops something else first. It
// sends no text for that: the agent keeps the tokens of each session's last prompt and answer, as its engine
// counted them, so they are those of the cache, whatever the template wrote. The engine is given them as a
// prompt, for one token that nobody reads. Tasks come first: one sequence of the engine is not sold, touches
// have that and those that are free, and all that came before a task end soon after it has come.

const (
	textsKept = 64 << 20 // bytes of sessions' tokens
	textBytes = 160      // of one beside its tokens
	// MaxTouches is how many touches there are at once, under way and waiting.
	MaxTouches = 64
	// TouchYields is how long touches go on after a task has come.
	TouchYields = 80 * time.Millisecond
)

// ErrYields ends a touch as a task has come.
var ErrYields = errors.New("a task has come")

// texts are the tokens of sessions' last prompts and answers; beyond a number of bytes the one that was used
// longest ago goes first.
type texts struct {
	most, bytes int
	by          map[uint64]*list.Element
	used        *list.List // of *text, used last first
}

// text is what a session's next prompt is likely to begin with.
type text struct {
	session uint64
	ids     []uint32
	salt    string // of the engine's cache: prompts of one find nothing of another
}

func newTexts(most int) texts {
	return texts{most: most, by: map[uint64]*list.Element{}, used: list.New()}
}

func (t *text) bytes() int { return 4*cap(t.ids) + len(t.salt) + textBytes }

func (s *texts) put(x *text) {
	s.drop(x.session)
	s.by[x.session] = s.used.PushFront(x)
	for s.bytes += x.bytes(); s.bytes > s.most; {
		s.drop(s.used.Back().Value.(*text).session)
	}
}

func (s *texts) drop(session uint64) {
	if e, ok := s.by[session]; ok {
		delete(s.by, session)
		s.bytes -= s.used.Remove(e).(*text).bytes()
	}
}

// use is the text of a session; nil if it is not known.
func (s *texts) use(session uint64) *text {
	e, ok := s.by[session]
	if !ok {
		return nil
	}
	s.used.MoveToFront(e)
	return e.Value.(*text)
}

// sold is how many slots the agent sells.
func (c *AgentConfig) sold() int {
	if c.Touches {
		return c.Slots - 1
	}
	return c.Slots
}

// keep begins to collect the tokens of a session's turn.
func (h *hold) keep(d *bus.Dispatch, prompt []uint32) {
	if d.Task.Session != "" && d.Task.Resume == nil && d.Task.Prompt.Loose != bus.LooseMedia {
		h.ids, h.prompt = prompt, len(prompt)
	}
}

// Said notes tokens of an answer. What is kept of them are those that the next prompt will have: where the
// engine's template leaves reasoning out, what the answer begins with up to its end is none of them.
func (a *Agent) Said(d *bus.Dispatch, tokens []uint32, thought int) {
	h := a.holds[d.Hold]
	if !a.cfg.Touches || h == nil || h.ids == nil {
		return
	}
	if thought > 0 && a.info.Forgets {
		h.ids, tokens = h.ids[:h.prompt], tokens[min(thought, len(tokens)):]
	}
	h.ids = append(h.ids, tokens...)
}

// kept takes in the tokens of a turn that has ended, in place of those of the turn before.
func (a *Agent) kept(d *bus.Dispatch, h *hold) {
	session := bus.SessionKey(d.Task.Client, d.Task.Session)
	switch ids := h.ids; {
	case !a.cfg.Touches || d.Task.Session == "":
	case d.Task.SessionEnd:
		a.texts.drop(session)
	case len(ids) > 0:
		a.texts.put(&text{session, ids, d.Task.Salt})
	}
	h.ids = nil
}

// Touch judges a hub's wish for a touch, where so many others are not over. It returns what the hub is told
// if there is none.
func (a *Agent) Touch(domain string, d *bus.Dispatch, others int) *bus.Completion {
	code, _ := a.judge(domain, d)
	switch {
	case code == bus.CodeNoSlot && a.state == bus.StateReady: // touches take none that is sold
		code = ""
	case code == "" && others >= MaxTouches:
		code = bus.CodeNoSlot
	}
	if code != "" {
		return a.touchFailed(d, code)
	}
	return nil
}

// TouchRequest is what the engine is asked for a touch; else what the hub is told: the text is not known
// here.
func (a *Agent) TouchRequest(d *bus.Dispatch) (Request, *bus.Completion) {
	of := a.texts.use(d.Session)
	if of == nil {
		return Request{}, a.touchFailed(d, bus.CodeAnswerGone)
	}
	return Request{ID: d.Task.ID, Kind: bus.KindCompletion, Model: a.cfg.Model, MaxTokens: 1,
		IDs: of.ids[:min(len(of.ids), d.Tokens+1)], Salt: of.salt, Prompt: 1, Priority: PriorityTouch}, nil
}

// TouchBegins reports whether a touch may begin: the engine has a sequence that no task has. Then it counts
// until Touched.
func (a *Agent) TouchBegins() bool {
	if a.running+a.touching >= a.cfg.Slots {
		return false
	}
	a.touching++
	return true
}

// TouchOver ends one that began.
func (a *Agent) TouchOver() { a.touching-- }

// Touched is what the hub is told of a touch that has ended.
func (a *Agent) Touched(d *bus.Dispatch, answer Answer, err error) *bus.Completion {
	var engine *EngineError
	switch {
	case errors.Is(err, ErrYields):
		return a.touchFailed(d, bus.CodeNoSlot)
	case errors.As(err, &engine):
		return a.touchFailed(d, engine.Code)
	case err != nil:
		return a.touchFailed(d, bus.CodeAgentFailed)
	}
	a.counts.Touches++
	a.counts.TouchedPrompt += int64(answer.Usage.Prompt)
	a.counts.TouchedCached += int64(answer.Usage.Cached)
	c := a.touchOf(d)
	c.Outcome, c.Usage, c.NoCacheReport = bus.OutcomeDone, answer.Usage, answer.NoCacheReport
	c.Cost, c.TTFTUS = d.Price.Cost(answer.Usage), answer.TTFT.Microseconds()
	return c
}

func (a *Agent) touchFailed(d *bus.Dispatch, code bus.Code) *bus.Completion {
	if a.counts.TouchesRefused == nil {
		a.counts.TouchesRefused = map[bus.Code]int64{}
	}
	a.counts.TouchesRefused[code]++
	c := a.touchOf(d)
	c.Outcome, c.Code = bus.OutcomeFailed, code
	return c
}

func (a *Agent) touchOf(d *bus.Dispatch) *bus.Completion {
	return &bus.Completion{Agent: a.cfg.ID, Boot: a.boot, Hold: d.Hold, Client: d.Task.Client,
		Task: d.Task.ID}
}
