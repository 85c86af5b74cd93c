package agentd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"souk/bus"
)

// Dispatch accepts or refuses a hub's dispatch; domain is the sender, as its subject says. If start is true,
// the caller serves it now. The same hold again gets the same reply and is not served again. A refusal with
// CodeNotClaimed is not remembered, since news of the claim may be on its way: it is no reply before Decide
// gives it.
func (a *Agent) Dispatch(domain string, d *bus.Dispatch) (reply bus.DispatchReply, start bool) {
	if h, ok := a.holds[d.Hold]; ok {
		if h.reply.Code == bus.CodeLate { // it was taken back before it came
			return h.reply, false
		}
		if h.client != d.Task.Client || h.task != d.Task.ID || h.attempt != d.Task.Attempt && !h.former {
			return a.refusal(d, bus.CodeIDConflict, "the hold was used for another task"), false
		}
		return h.reply, false
	}
	code, why := a.judge(domain, d)
	if code == bus.CodeNotClaimed {
		return a.refusal(d, code, why), false
	}
	h := &hold{client: d.Task.Client, task: d.Task.ID, attempt: d.Task.Attempt,
		reply: bus.DispatchReply{Agent: a.cfg.ID, Boot: a.boot, Hold: d.Hold}}
	if code != "" {
		h.reply = a.refusal(d, code, why)
	} else {
		h.state, h.beyond = serving, a.running >= a.cfg.Slots
		a.running++
		a.prefills++
		if d.WatchMS > 0 {
			a.watched = append(a.watched, watched{id: d.Hold,
				within: time.Duration(d.WatchMS) * time.Millisecond})
		}
		a.news = true
		a.counts.Accepted++
		a.hearArrived(d)
	}
	a.remember(d.Hold, h)
	return h.reply, code == ""
}

// Decide is like Dispatch, once the claim has been read, or cannot be: its reply stands. Otherwise a dispatch
// that the hub repeats could first be refused and then served, and the hub, which hears both, takes the first
// reply.
func (a *Agent) Decide(domain string, d *bus.Dispatch) (reply bus.DispatchReply, start bool) {
	reply, start = a.Dispatch(domain, d)
	if _, known := a.holds[d.Hold]; !known && reply.Code == bus.CodeNotClaimed {
		a.remember(d.Hold,
			&hold{client: d.Task.Client, task: d.Task.ID, attempt: d.Task.Attempt, reply: reply})
	}
	return reply, start
}

// Withdrawn answers a hub that has had no reply to its dispatch of a hold, and takes it back; s is the answer
// to it that runs and goes on, nil if there is none. It returns nil where the account of what was served says
// more. A dispatch that has not come is refused, also when it comes yet: so its hub waits no longer.
func (a *Agent) Withdrawn(domain, id string, s *Stream) *bus.DispatchReply {
	h := a.holds[id]
	switch {
	case h == nil && a.claim != nil && a.claim.Domain == domain:
		h = &hold{reply: bus.DispatchReply{Agent: a.cfg.ID, Boot: a.boot, Hold: id, Code: bus.CodeLate,
			Message: "its hub took it back before it came"}}
		a.remember(id, h)
	case h == nil, h.reply.Code == "" && (s == nil || s.Stopped != nil):
		return nil
	}
	r := h.reply
	return &r
}

// Misled counts a dispatch whose reply was to go elsewhere than to its hub: it gets none.
func (a *Agent) Misled() { a.counts.Refused[bus.CodeBadRequest]++ }

func (a *Agent) refusal(d *bus.Dispatch, code bus.Code, why string) bus.DispatchReply {
	a.counts.Refused[code]++
	return bus.DispatchReply{Agent: a.cfg.ID, Boot: a.boot, Hold: d.Hold, Code: code, Message: why}
}

// judge returns why a dispatch is refused; "" if it is not.
func (a *Agent) judge(domain string, d *bus.Dispatch) (bus.Code, string) {
	switch {
	case d.Domain != domain:
		return bus.CodeBadRequest, fmt.Sprintf("domain: %s says that it is %s", domain, d.Domain)
	case d.Task.Reply == "" && d.Kind == bus.DispatchTask || d.Task.Reply != "" && !names(d.Task.Reply):
		return bus.CodeBadRequest, fmt.Sprintf("reply: %.80q is not a subject for answers", d.Task.Reply)
	case d.MaxTokens < 1:
		return bus.CodeBadRequest, "max_tokens: a dispatch always sets it"
	case d.Model != "" && d.Model != a.cfg.Model:
		return bus.CodeUnknownModel,
			fmt.Sprintf("model: %.80q is not served here, %q is", d.Model, a.cfg.Model)
	case !bus.Serves(a.pools, d.Task.Kind):
		return bus.CodeUnknownModel, fmt.Sprintf("kind: %q is not served here, %s are", d.Task.Kind, bus.Routes(a.pools))
	case d.Price != a.cfg.Price:
		return bus.CodeBadTerms,
			fmt.Sprintf("price: the quote was made from %v, this agent's card is %v", d.Price, a.cfg.Price)
	case a.draining:
		return bus.CodeDraining, "the agent is shutting down"
	// its hub has not heard yet that the agent was started again; when it does, it voids such holds
	case d.Boot != a.boot:
		return bus.CodeStaleEpoch, "the dispatch is for another start of this agent"
	case d.Fence < a.Fence:
		return bus.CodeStaleEpoch,
			fmt.Sprintf("fence: claim %d has been followed by claim %d", d.Fence, a.Fence)
	case a.claim == nil:
		return bus.CodeNotClaimed, "no hub sells this agent's slots"
	case d.Fence != a.claim.Fence:
		return bus.CodeNotClaimed,
			fmt.Sprintf("the slots are sold by %s under claim %d", a.claim.Domain, a.claim.Fence)
	case a.claim.Domain != domain || a.claim.Epoch != d.Epoch:
		return bus.CodeNotClaimed,
			fmt.Sprintf("the slots are sold by %s, epoch %d", a.claim.Domain, a.claim.Epoch)
	case a.state != bus.StateReady:
		return bus.CodeNoSlot, "the engine is unhealthy"
	case a.running > a.slots() || a.running == a.slots() && !a.queues():
		return bus.CodeNoSlot, fmt.Sprintf("all %d slots are taken", a.slots())
	case len(a.pending)+a.running >= a.lim.MaxCompletions:
		return bus.CodeNoSlot, fmt.Sprintf("%d completions are not acknowledged", len(a.pending))
	}
	return "", ""
}

// remember keeps a hold and forgets the oldest closed one.
func (a *Agent) remember(id string, h *hold) {
	a.holds[id] = h
	a.order = append(a.order, id)
	for tries := len(a.order) - maxHolds; tries > 0; tries-- {
		old := a.order[0]
		a.order = a.order[1:]
		if a.holds[old].state != closed {
			a.order = append(a.order, old)
			continue
		}
		delete(a.holds, old)
	}
}

// Begin returns the run of an accepted dispatch.
func (a *Agent) Begin(d *bus.Dispatch) *Run {
	r := NewRun(d, a.cfg.ID, a.cfg.Model, a.info.BlockSize)
	if r.now, r.forgets, r.shared = a.now, a.info.Forgets, a.info.Shared; !r.pools {
		r.watch = a.watch(d)
	}
	return r
}

// Request turns a dispatch into the request for the engine.
func (a *Agent) Request(d *bus.Dispatch) Request {
	r := Request{ID: d.Hold, Kind: cmp.Or(d.Task.Kind, bus.KindChat), Body: d.Task.Body,
		MaxTokens: d.MaxTokens, Model: cmp.Or(d.Model, a.cfg.Model), // of when it was accepted
		Salt: d.Task.Salt, Trace: d.Task.Trace, Prompt: d.Task.Prompt.Tokens,
		First: time.Duration(d.LimitMS) * time.Millisecond}
	if d.Open && d.Task.Resume == nil {
		r.MaxTokens = 0
	}
	if r.Count = a.mustCount(d); d.Tight && r.MaxTokens > 0 && a.canCount(d) {
		r.Count, r.Context = true, a.info.MaxModelLen
	}
	if from := d.Task.Resume; from != nil && len(from.Tokens) > 0 {
		r.Resume = &Resume{Tokens: from.Tokens, Text: from.Text, Reasoning: from.Reasoning, Calls: from.Calls,
			Whole: max(d.Whole, d.MaxTokens)}
		r.Prompt += len(from.Tokens)
	}
	return r
}

// Probe is the least request that shows that the engine serves: a completion, or a chat, or what it pools.
func (a *Agent) Probe(chat bool) Request {
	r := Request{ID: "probe-" + a.cfg.ID, Kind: bus.KindCompletion, Body: json.RawMessage(`{"prompt":"."}`),
		Model: a.cfg.Model, MaxTokens: 1}
	if kind, _, _ := strings.Cut(a.pools, " "); kind != "" {
		r.Kind, r.Body = kind, PoolingProbe(kind)
	} else if chat {
		r.Kind, r.Body = bus.KindChat, json.RawMessage(`{"messages":[{"role":"user","content":"."}]}`)
	}
	return r
}

// askAgain is how often an engine is asked for an endpoint that it did not have: a proxy before it may have
// said 404 while it started.
const askAgain = time.Minute

// AskAgain returns the request by which the engine is asked now whether it has the endpoint that it did not
// have; due is false where it has all, or was asked of late. Has tells that it has it.
func (a *Agent) AskAgain(now time.Time) (r Request, due bool) {
	if due = a.without != "" && !a.askAt.IsZero() && !now.Before(a.askAt); due || a.askAt.IsZero() {
		a.askAt = now.Add(askAgain)
	}
	if a.without == "" {
		a.askAt = time.Time{}
	}
	return a.Probe(a.without == bus.Without(bus.KindChat)), due
}

// Has tells that the engine has the endpoint that it did not have.
func (a *Agent) Has() { a.without = "" }

// mustCount reports whether the engine is to count a prompt before it computes it: by its bytes, it may have
// more tokens than the hold covers.
func (a *Agent) mustCount(d *bus.Dispatch) bool {
	p, template := &d.Task.Prompt, a.info.Template
	switch {
	case d.PromptMost == 0 || p.Text == 0: // nobody knows
		return false
	case !a.canCount(d):
		return false
	case a.info.MaxModelLen > 0 && d.PromptMost >= a.info.MaxModelLen: // the engine refuses a longer one
		return false
	}
	bound, bounded := template.Bound(p)
	return !bounded || bound > d.PromptMost
}

// canCount reports whether the engine can count a prompt before it computes it.
func (a *Agent) canCount(d *bus.Dispatch) bool {
	return a.info.Template != nil && d.Task.Prompt.Loose != bus.LooseMedia && a.pools == ""
}

// Began tells that the first of an answer has come: the engine has computed its prompt, of these tokens.
func (a *Agent) Began(d *bus.Dispatch, prompt []uint32) {
	a.full.takes(a.now, d.Task.Client, a.running, a.cfg.Slots)
	if no := bus.Without(d.Task.Kind); !strings.Contains(a.served, no) {
		a.served += no
	}
	a.began(d, prompt)
}

func (a *Agent) began(d *bus.Dispatch, prompt []uint32) {
	h := a.holds[d.Hold]
	if h == nil || h.state != serving {
		return
	}
	if !h.began {
		a.prefills--
		h.began, a.news = true, true
		a.watched = slices.DeleteFunc(a.watched, func(w watched) bool { return w.id == d.Hold })
	}
	if d.Task.Resume == nil { // else an answer is part of it
		a.engine.Prompt(&d.Task.Prompt, prompt, d.Task.Salt)
	}
}

// PoolingProbe is the body of the least pooling task of a kind.
func PoolingProbe(kind string) json.RawMessage {
	if kind == bus.KindRerank {
		return json.RawMessage(`{"query":"a","documents":["b"]}`)
	}
	return json.RawMessage(`{"input":"a"}`)
}
