package bus

import (
	"fmt"
	"math"

	"souk/market"
)

// Limits of what a message may say. They bound what one message can make its receiver keep.
const (
	// bytes of a name that people choose: model, role, source, run, version
	MaxName    = 256
	MaxText    = 2048                     // bytes of a message in an error or refusal
	MaxPatient = 24 * 60 * 60 * 1000      // milliseconds of patience
	MaxBackMS  = MaxPatient               // milliseconds until a session is back
	MaxTokens  = 1 << 24                  // of a prompt, an answer, a context
	MaxSlots   = 1 << 16                  // of an agent
	MaxAnswer  = MaxMessage - 64<<10      // bytes of a collected answer: it must fit in one message
	maxMicros  = 7 * 24 * 3600 * 1e6      // of a measured duration
	maxUnixMS  = 253_402_300_799_000      // the end of the year 9999
	MaxClasses = 1024                     // of agents that a domain has amounts for
	maxEarlier = 64                       // attempts at one task
	maxEntries = 1024                     // of a list of names, scores, models
	maxGrants  = MaxItems                 // of one reply of the treasury
	maxCount   = int64(math.MaxInt64 / 2) // of anything that is only ever counted up
)

// Validate: Client, ID, Kind, Session and what the door fills in may be empty.
func (t *Task) Validate() error {
	var p problems
	p.optionalID("client", t.Client)
	p.optionalID("task", t.ID)
	p.oneOf("kind", t.Kind, "", KindChat, KindCompletion)
	if p.err == nil && len(t.Body) > MaxBody {
		p.err = &Error{Code: CodeTooLarge,
			Message: fmt.Sprintf("body of %d bytes: at most %d are taken; send a shorter prompt",
				len(t.Body), MaxBody)}
	}
	if p.err == nil {
		p.err = t.Terms.Validate()
	}
	p.within("deadline_ms", t.DeadlineMS, 0, maxUnixMS)
	p.optionalID("session", t.Session)
	p.within("back_ms", t.BackMS, 0, MaxBackMS)
	p.optionalID("parent", t.Parent)
	p.name("next", t.Next, MaxName)
	p.within("turn", int64(t.Turn), 0, 1<<20)
	p.name("role", t.Role, MaxName)
	p.name("source", t.Source, MaxName)
	p.name("run", t.Run, MaxName)
	p.optionalID("hub", t.Hub)
	p.oneOf("failover", t.Failover, "", "off")
	p.within("attempt", int64(t.Attempt), 0, 1<<10)
	p.within("again", int64(t.Again), 0, AgainHeard)
	if t.Heard != nil {
		p.epoch("heard.epoch", t.Heard.Epoch)
	}
	p.name("model", t.Model, MaxName)
	p.optionalID("domain", t.Domain)
	p.optionalID("reply_token", t.Token)
	p.reply(t.Reply)
	p.count("max_tokens", t.MaxTokens)
	p.optionalID("salt", t.Salt)
	t.Voucher.problems(&p, "voucher")
	t.Prompt.problems(&p)
	if t.Resume != nil {
		t.Resume.problems(&p)
	}
	return p.err
}

func (m *Prompt) problems(p *problems) {
	p.within("prompt.bytes", int64(m.Bytes), 0, MaxCanonical)
	p.within("prompt.messages", int64(m.Messages), 0, MaxMessages)
	p.count("prompt.tokens", m.Tokens)
	p.count("prompt.text", m.Text)
	p.count("prompt.wide", m.Wide)
	p.count("prompt.pieces", m.Pieces)
	p.count("prompt.tools", m.Tools)
	p.within("prompt.loose", int64(m.Loose), LooseNone, LooseMedia)
	p.within("prompt.anchor", int64(m.Anchor), 0, int64(max(0, m.Bytes)))
	p.list("prompt.marks", len(m.Marks), MaxMarks)
	for _, list := range []Hashes{m.Former, m.Next} {
		if n := len(list); n != 0 && n != hashBytes*len(m.Marks) {
			p.add("prompt.former, prompt.next: %d bytes of the hashes of %d marks", n, len(m.Marks))
		}
	}
	last := 0
	for i := range m.Marks {
		at := m.Marks[i].Bytes
		if at < last || at > m.Bytes {
			p.add("prompt.marks[%d]: byte %d is not within the mark before (%d) and the end (%d)", i, at,
				last, m.Bytes)
			return
		}
		last = at
	}
}

func (r *Resume) problems(p *problems) {
	p.id("resume.agent", r.Agent)
	p.number("resume.seq", r.Seq)
	p.list("resume.tokens", len(r.Tokens), MaxResumeTokens)
	p.text("resume.text", len(r.Text), MaxResumeText)
	p.text("resume.reasoning", len(r.Text)+len(r.Reasoning), MaxResumeText)
	p.list("resume.calls", len(r.Calls), MaxCalls)
	for _, id := range r.Calls {
		p.text("resume.calls", len(id), MaxCallID)
	}
	if len(r.Tokens) == 0 && r.Text+r.Reasoning != "" {
		p.add("resume.text: %d bytes, but no tokens: an answer goes on by its tokens",
			len(r.Text)+len(r.Reasoning))
	}
}

// Validate refuses terms that are zero, negative or absurd, with CodeBadTerms.
func (t *Terms) Validate() error {
	switch {
	case t.Worth != nil && (*t.Worth <= 0 || *t.Worth > market.MaxWorth):
		return badTerms("terms.worth: %s credits is not above 0 and at most %s; leave it out for the default",
			*t.Worth, market.MaxWorth)
	case t.MaxPrice != nil && (*t.MaxPrice <= 0 || *t.MaxPrice > market.MaxWorth):
		return badTerms("terms.max_price: %s credits is not above 0 and at most %s; leave it out to pay at "+
			"most the worth", *t.MaxPrice, market.MaxWorth)
	case t.Delta != nil && !(*t.Delta > 0 && *t.Delta <= 1):
		return badTerms("terms.delta: %v is not above 0 (only speed counts) and at most 1 (only quality "+
			"counts); leave it out for the default", *t.Delta)
	case t.PatienceMS != nil && (*t.PatienceMS < 1 || *t.PatienceMS > MaxPatient):
		return badTerms("terms.patience_ms: %d is not within 1 and %d (a day); leave it out for the default",
			*t.PatienceMS, int64(MaxPatient))
	}
	return nil
}

func badTerms(format string, args ...any) error {
	return &Error{Code: CodeBadTerms, Message: fmt.Sprintf(format, args...)}
}

func (a *Accepted) Validate() error {
	var p problems
	p.id("client", a.Client)
	p.id("task", a.Task)
	p.id("hub", a.Hub)
	p.id("agent", a.Agent)
	p.name("model", a.Model, MaxName)
	p.reply(a.Reply)
	p.number("round", a.Round)
	p.within("attempt", int64(a.Attempt), 0, 1<<10)
	return p.err
}

func (a *Answer) Validate() error {
	switch {
	case a.Accepted != nil && a.Result != nil, a.Accepted == nil && a.Result == nil:
		return fmt.Errorf("answer: exactly one of accepted and result must be set")
	case a.Accepted != nil:
		return a.Accepted.Validate()
	}
	if a.Look != nil && a.Look.Epoch < 0 {
		return fmt.Errorf("answer: look: epoch %d is below 0", a.Look.Epoch)
	}
	return a.Result.Validate()
}

func (d *Dispatch) Validate() error {
	var p problems
	p.oneOf("kind", d.Kind, DispatchTask, DispatchWarmup)
	p.id("domain", d.Domain)
	p.epoch("epoch", d.Epoch)
	p.epoch("boot", d.Boot)
	p.epoch("fence", d.Fence)
	p.name("journal", d.Journal, MaxName)
	p.number("round", d.Round)
	if d.Hold == "" {
		p.add("hold: a dispatch names its hold")
	}
	p.name("hold", d.Hold, MaxName)
	p.within("tier", int64(d.Tier), 0, MaxSlots)
	if p.err == nil {
		p.err = d.Task.Validate()
	}
	p.id("task.client", d.Task.Client)
	p.id("task.task", d.Task.ID)
	p.name("model", d.Model, MaxName)
	p.within("max_tokens", int64(d.MaxTokens), 0, MaxTokens)
	p.price("price", d.Price)
	p.signed("premium", d.Premium)
	p.signed("slot_price", d.SlotPrice)
	p.signed("toll", d.Toll)
	p.tolls(d.Congestion, d.Crowd)
	p.credits("fee", d.Fee)
	p.oneOf("settle", d.Settle, "", "metered", "quoted")
	p.credits("quoted", d.Quoted)
	p.credits("tariff", d.Tariff)
	p.credits("cost_cap", d.CostCap)
	p.within("timeout_ms", d.TimeoutMS, 0, MaxPatient)
	p.within("whole", int64(d.Whole), 0, MaxTokens)
	p.count("prompt_most", d.PromptMost)
	p.count("cached", d.Cached)
	p.within("first_ms", d.FirstMS, 0, MaxPatient)
	p.within("watch_ms", d.WatchMS, 0, MaxPatient)
	p.count("claimed", d.Claimed)
	p.earlier(d.Earlier)
	return p.err
}

func (c *Call) Validate() error {
	var p problems
	p.id("agent", c.Agent)
	p.name("class", c.Class, MaxName)
	p.number("epoch", c.Epoch)
	p.epoch("lead", c.Lead)
	return p.err
}

func (a *Ask) Validate() error {
	var p problems
	p.id("agent", a.Agent)
	p.name("class", a.Class, MaxName)
	p.number("epoch", a.Epoch)
	p.credits("amount", a.Amount)
	if n, m := len(a.Seal), len(a.Nonce); n != 32 && n != 0 || m != 16 && m != 0 || n+m == 0 {
		p.add("seal: %d bytes, and a nonce of %d: an ask has a seal of 32, or a nonce of 16 once it is open",
			n, m)
	}
	return p.err
}

func (r *DispatchReply) Validate() error {
	var p problems
	p.id("agent", r.Agent)
	p.name("hold", r.Hold, MaxName)
	p.name("code", string(r.Code), MaxID)
	p.text("message", len(r.Message), MaxText)
	return p.err
}

func (c *Chunk) Validate() error {
	var p problems
	p.id("task", c.Task)
	p.within("attempt", int64(c.Attempt), 0, 1<<10)
	p.number("seq", c.Seq)
	p.text("text", len(c.Text), MaxAnswer)
	p.count("tokens", c.Count)
	p.optionalID("agent", c.Agent)
	extras(&p, c.Extra, len(c.Text))
	if p.err == nil && c.Result != nil {
		p.err = c.Result.Validate()
	}
	return p.err
}

func extras(p *problems, all []Extra, text int) {
	for i := range all {
		if at := all[i].At; at < 0 || at > text {
			p.add("extra[%d].at: byte %d is beyond the text (%d)", i, at, text)
		}
	}
}

func (r *Result) Validate() error {
	var p problems
	if r.Code == "" {
		p.id("client", r.Client)
		p.id("task", r.Task)
	} else { // what was refused may have had no readable id
		p.optionalID("client", r.Client)
		p.optionalID("task", r.Task)
	}
	p.optionalID("session", r.Session)
	p.optionalID("hub", r.Hub)
	p.optionalID("agent", r.Agent)
	p.name("model", r.Model, MaxName)
	p.name("code", string(r.Code), MaxID)
	p.text("message", len(r.Message), MaxText)
	p.within("retry_ms", r.RetryMS, 0, MaxPatient)
	p.text("text", len(r.Text), MaxAnswer)
	extras(&p, r.Extra, len(r.Text))
	p.name("finish_reason", r.Finish, MaxName)
	p.text("stop_reason", len(r.Stop), MaxText)
	p.number("chunks", r.Chunks)
	p.usage(r.Usage)
	if r.Billed != nil {
		p.usage(*r.Billed)
	}
	p.count("reasoning_tokens", r.Thought)
	p.micros("ttft_us", r.TTFTUS)
	p.micros("itl_us", r.ITLUS)
	p.credits("cost", r.Cost)
	p.signed("premium", r.Premium)
	p.signed("slot_price", r.SlotPrice)
	p.signed("toll", r.Toll)
	p.tolls(r.Congestion, r.Crowd)
	p.credits("fee", r.Fee)
	if r.Receipt != nil {
		p.name("receipt.id", r.Receipt.ID, MaxName)
		p.name("receipt.journal", r.Receipt.Journal, MaxName)
		p.number("receipt.round", r.Receipt.Round)
		p.epoch("receipt.epoch", r.Receipt.Epoch)
		p.earlier(r.Receipt.Earlier)
	}
	return p.err
}

func (c *Completion) Validate() error {
	var p problems
	p.id("agent", c.Agent)
	p.epoch("boot", c.Boot)
	if c.Hold == "" {
		p.add("hold: a completion names its hold")
	}
	p.name("hold", c.Hold, MaxName)
	p.optionalID("client", c.Client)
	p.optionalID("task", c.Task)
	p.oneOf("outcome", c.Outcome, OutcomeDone, OutcomeCancelled, OutcomeFailed)
	p.name("code", string(c.Code), MaxID)
	p.name("finish", c.Finish, MaxName)
	p.usage(c.Usage)
	if c.NoCacheReport && c.Usage.Cached > 0 {
		p.add("no_cache_report: with %d cached tokens, which somebody reported", c.Usage.Cached)
	}
	p.count("relayed", c.Relayed)
	p.count("claimed", c.Claimed)
	p.number("tool", c.Tool)
	p.count("thought", c.Thought)
	p.credits("cost", c.Cost)
	p.micros("ttft_us", c.TTFTUS)
	p.micros("itl_us", c.ITLUS)
	p.name("form", c.Form, MaxID)
	return p.err
}

func (a *CompletionAck) Validate() error {
	var p problems
	p.name("hold", a.Hold, MaxName)
	p.name("code", string(a.Code), MaxID)
	return p.err
}

func (c *Cancel) Validate() error {
	var p problems
	p.optionalID("client", c.Client)
	p.id("task", c.Task)
	return p.err
}

func (s *StreamControl) Validate() error {
	var p problems
	p.id("task", s.Token)
	set := 0
	if s.Resume != nil {
		set++
		p.number("resume", *s.Resume)
	}
	if s.Ack != nil {
		set++
		p.number("ack", *s.Ack)
	}
	if s.Cancel {
		set++
	}
	if set != 1 {
		p.add("stream control: exactly one of resume, ack and cancel must be set, not %d", set)
	}
	return p.err
}

func (c *HoldControl) Validate() error {
	var p problems
	p.name("hold", c.Hold, MaxName)
	ends := 0
	for _, said := range []bool{c.Cancel, c.Withdraw, c.Late} {
		if said {
			ends++
		}
	}
	if ends > 1 || (ends == 1) != (c.Hold != "") || c.Holdings && c.Hold != "" {
		p.add("hold control: one of cancel, recall and late wants a hold, holdings none, and none of them says " +
			"nothing")
	}
	return p.err
}

func (f *Feedback) Validate() error {
	var p problems
	p.optionalID("client", f.Client)
	p.id("task", f.Task)
	p.share("quality", f.Quality)
	return p.err
}

func (s *Summary) Validate() error {
	var p problems
	p.id("agent", s.Agent)
	p.epoch("boot", s.Boot)
	p.number("seq", s.Seq)
	p.oneOf("state", s.State, StateReady, StateDraining, StateUnhealthy)
	p.within("slots", int64(s.Slots), 0, MaxSlots)
	p.tiers(s.Tiers, s.Slots)
	p.within("in_flight", int64(s.InFlight), 0, MaxSlots)
	p.price("price", s.Price)
	p.micros("ttft_us", s.TTFTUS)
	p.within("prefills", int64(s.Prefills), 0, MaxSlots)
	p.within("ahead", int64(s.Ahead), 0, maxCount)
	p.list("late", len(s.Late), MaxLate)
	for _, hold := range s.Late {
		p.name("late", hold, MaxName)
	}
	return p.err
}

func (h *Holdings) Validate() error {
	var p problems
	p.id("agent", h.Agent)
	p.epoch("boot", h.Boot)
	p.number("life", h.Life)
	p.number("seq", h.Seq)
	p.within("parts", int64(h.Parts), 0, maxParts)
	p.within("part", int64(h.Part), 0, int64(max(0, h.Parts-1)))
	switch {
	case h.Base < 1 || h.Base > h.Seq:
		p.add("base: %d is not within 1 and seq, %d", h.Base, h.Seq)
	case h.Parts > 0 && h.Seq-h.Base != uint64(h.Part):
		p.add("part: %d, where seq %d of base %d is part %d", h.Part, h.Seq, h.Base, h.Seq-h.Base)
	case h.Parts > 0 && len(h.Drop) > 0:
		p.add("drop: a part of all that is held names only that")
	}
	for _, l := range []struct {
		field string
		list  []byte
	}{{"add", h.Add}, {"drop", h.Drop}} {
		p.text(l.field, len(l.list), MaxPart)
		if len(l.list)%MarkBytes != 0 {
			p.add("%s: %d bytes, a mark has %d", l.field, len(l.list), MarkBytes)
		}
	}
	p.share("coverage", h.Coverage)
	p.count("blocks", h.Blocks)
	p.within("unnamed", int64(h.Unnamed), 0, int64(h.Blocks))
	p.oneOf("evidence", h.Evidence, EvidenceEvents, EvidenceMirror)
	return p.err
}

func (s *Status) Validate() error {
	var p problems
	p.id("domain", s.Domain)
	p.labels(s.Labels)
	p.epoch("epoch", s.Epoch)
	p.number("seq", s.Seq)
	p.count("agents", s.Agents)
	p.count("slots", s.Slots)
	p.count("free", s.Free)
	p.count("waiting", s.Waiting)
	p.count("room", s.Room)
	p.within("closed_ms", s.ClosedMS, 0, MaxPatient)
	p.list("models", len(s.Models), maxEntries)
	for i := range s.Models {
		m := &s.Models[i]
		p.name("models.model", m.Model, MaxName)
		p.count("models.agents", m.Agents)
		p.count("models.free", m.Free)
		p.share("models.quality", m.Quality)
		p.price("models.price", m.Price)
		p.price("models.cards.least", m.Cards.Least)
		p.price("models.cards.most", m.Cards.Most)
		p.list("models.heard", len(m.Heard), maxEntries)
		for _, h := range m.Heard {
			p.name("models.heard.source", h.Source, MaxID)
			p.share("models.heard.mean", h.Mean)
		}
		p.micros("models.ttft_us", m.TTFTUS)
		p.credits("models.slot_price", m.SlotPrice)
		p.count("models.max_model_len", m.MaxModelLen)
	}
	p.count("max_prompt_tokens", s.MaxPromptTokens)
	p.list("policies", len(s.Policies), maxEntries)
	for i := range s.Policies {
		x := &s.Policies[i]
		p.name("policies.hook", x.Hook, MaxName)
		p.name("policies.policy", x.Policy, MaxName)
		p.within("policies.off_ms", x.OffMS, 0, MaxPatient)
		p.text("policies.why", len(x.Why), MaxText)
	}
	p.within("hedged", s.Hedged, 0, maxCount)
	p.within("hedged_false", s.HedgedFalse, 0, maxCount)
	if x := s.Seats; x != nil {
		p.count("seats.seats", x.Seats)
		p.count("seats.used", x.Used)
		p.count("seats.blocks", x.Blocks)
		p.count("seats.waiting", x.Waiting)
		p.within("seats.refused", x.Refused, 0, math.MaxInt64)
	}
	p.text("regime", len(s.Regime), MaxID)
	p.text("closed", len(s.Closed), MaxText)
	return p.err
}
