package bus

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

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
	maxEntries = 1024                     // of a list of names, scores, models
	maxCount   = int64(math.MaxInt64 / 2) // of anything that is only ever counted up
	maxCredits = int64(market.MaxCredits)
)

// Validate: Client, ID, Kind, Session and what the door fills in may be empty.
func (t *Task) Validate() error {
	if len(t.Body) > MaxBody {
		return &Error{Code: CodeTooLarge,
			Message: fmt.Sprintf("body of %d bytes: at most %d are taken; send a shorter prompt",
				len(t.Body), MaxBody)}
	}
	return judge(t)
}

// Validate wants prefixes in order, and hashes of each.
func (p *Prompt) Validate() error {
	if len(p.Prefixes) > MaxPrefixes {
		return fmt.Errorf("prefixes: %d entries, at most %d are taken", len(p.Prefixes), MaxPrefixes)
	}
	for _, list := range []Hashes{p.Former, p.Next} {
		if n := len(list); n != 0 && n != hashBytes*len(p.Prefixes) {
			return fmt.Errorf("former, next: %d bytes of the hashes of %d prefixes", n, len(p.Prefixes))
		}
	}
	last := 0
	for i := range p.Prefixes {
		at := p.Prefixes[i].Bytes
		if at < last || at > p.Bytes {
			return fmt.Errorf("prefixes[%d]: byte %d is not within the one before (%d) and the end (%d)", i, at,
				last, p.Bytes)
		}
		last = at
	}
	if p.SystemBoundary > max(0, p.Bytes) {
		return fmt.Errorf("system_boundary: byte %d is beyond the end (%d)", p.SystemBoundary, p.Bytes)
	}
	return judge(p)
}

// Validate wants tokens where there is text: an answer goes on by them.
func (r *Resume) Validate() error {
	switch n := len(r.Text) + len(r.Reasoning); {
	case n > MaxResumeText:
		return fmt.Errorf("text: with the reasoning %d bytes, at most %d are taken", n, MaxResumeText)
	case n > 0 && len(r.Tokens) == 0:
		return fmt.Errorf("text: %d bytes, but no tokens: an answer goes on by its tokens", n)
	}
	long := func(id string) bool { return len(id) > MaxCallID }
	if len(r.Calls) > MaxCalls || slices.ContainsFunc(r.Calls, long) {
		return fmt.Errorf("calls: %d ids, at most %d of %d bytes are taken", len(r.Calls), MaxCalls, MaxCallID)
	}
	return judge(r)
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

func (a *Answer) Validate() error {
	if (a.Accepted == nil) == (a.Result == nil) {
		return errors.New("answer: exactly one of accepted and result must be set")
	}
	return judge(a)
}

func (d *Dispatch) Validate() error {
	return cmp.Or(judge(d), CheckID("task.client", d.Task.Client), CheckID("task.task", d.Task.ID))
}

func (a *Ask) Validate() error {
	if n, m := len(a.Seal), len(a.Nonce); n != 32 && n != 0 || m != 16 && m != 0 || n+m == 0 {
		return fmt.Errorf("seal: %d bytes, and a nonce of %d: an ask has a seal of 32, or a nonce of 16 once "+
			"it is open", n, m)
	}
	return judge(a)
}

func (c *Chunk) Validate() error { return cmp.Or(judge(c), extras(c.Extra, len(c.Text))) }

func extras(all []Extra, text int) error {
	for i := range all {
		if at := all[i].At; at < 0 || at > text {
			return fmt.Errorf("extra[%d].at: byte %d is beyond the text (%d)", i, at, text)
		}
	}
	return nil
}

// Validate: what was refused may have had no readable id.
func (r *Result) Validate() error {
	err := cmp.Or(judge(r), extras(r.Extra, len(r.Text)))
	if r.Code == "" {
		err = cmp.Or(err, CheckID("client", r.Client), CheckID("task", r.Task))
	}
	return err
}

func (c *Completion) Validate() error {
	if c.NoCacheReport && c.Usage.Cached > 0 {
		return fmt.Errorf("no_cache_report: with %d cached tokens, which somebody reported", c.Usage.Cached)
	}
	return judge(c)
}

func (s *StreamControl) Validate() error {
	set := 0
	for _, said := range []bool{s.Resume != nil, s.Ack != nil, s.Cancel} {
		if said {
			set++
		}
	}
	if set != 1 {
		return fmt.Errorf("stream control: exactly one of resume, ack and cancel must be set, not %d", set)
	}
	return judge(s)
}

func (c *HoldControl) Validate() error {
	ends := 0
	for _, said := range []bool{c.Cancel, c.Withdraw, c.Late} {
		if said {
			ends++
		}
	}
	if ends > 1 || (ends == 1) != (c.Hold != "") || c.Holdings && c.Hold != "" {
		return errors.New("hold control: one of cancel, recall and late wants a hold, holdings none, and none " +
			"of them says nothing")
	}
	return judge(c)
}

func (s *Summary) Validate() error { return judge(s) }

func (h *Holdings) Validate() error {
	switch {
	case h.Base < 1 || h.Base > h.Seq:
		return fmt.Errorf("base: %d is not within 1 and seq, %d", h.Base, h.Seq)
	case h.Parts > 0 && (h.Part >= h.Parts || h.Seq-h.Base != uint64(h.Part)):
		return fmt.Errorf("part: %d of %d, for seq %d of base %d", h.Part, h.Parts, h.Seq, h.Base)
	case h.Parts > 0 && len(h.Drop) > 0:
		return errors.New("drop: a part of all that is held names only that")
	}
	return cmp.Or(judge(h), held("add", h.Add), held("drop", h.Drop))
}

func held(field string, list []byte) error {
	if len(list) > MaxPart || len(list)%ShortHashBytes != 0 {
		return fmt.Errorf("%s: %d bytes, at most %d are taken, %d for each prefix", field, len(list), MaxPart,
			ShortHashBytes)
	}
	return nil
}

func (f *FundsReply) Validate() error {
	for _, h := range f.Hubs {
		if h.Reserved > max(0, h.Avail) {
			return fmt.Errorf("hubs.reserved: %s of %s", h.Reserved, h.Avail)
		}
	}
	return judge(f)
}

func (r *RecallReply) Validate() error {
	if r.Reserved > max(0, r.Avail) {
		return fmt.Errorf("reserved: %s of %s", r.Reserved, r.Avail)
	}
	return judge(r)
}

func (q *Quote) Validate() error {
	if q.Code == "" && len(q.Hubs) == 0 {
		return errors.New("hubs: a quote without a code has one at least")
	}
	return judge(q)
}

func (q *HubQuote) Validate() error {
	if q.Code == "" && len(q.Models) == 0 {
		return errors.New("models: a quote without a code has one at least")
	}
	return judge(q)
}

// What follows is judged field by field.

func (a *Accepted) Validate() error      { return judge(a) }
func (c *Call) Validate() error          { return judge(c) }
func (r *DispatchReply) Validate() error { return judge(r) }
func (a *CompletionAck) Validate() error { return judge(a) }
func (c *Cancel) Validate() error        { return judge(c) }
func (f *Feedback) Validate() error      { return judge(f) }
func (s *Status) Validate() error        { return judge(s) }
func (f *FundsRequest) Validate() error  { return judge(f) }
func (r *Recall) Validate() error        { return judge(r) }
func (e *SessionEnd) Validate() error    { return judge(e) }
func (e *SessionEnded) Validate() error  { return judge(e) }
func (c *Claim) Validate() error         { return judge(c) }
func (h *HubEntry) Validate() error      { return judge(h) }
func (e *TreasuryEntry) Validate() error { return judge(e) }
func (m *MarketConfig) Validate() error  { return judge(m) }
func (g *CacheGroup) Validate() error    { return judge(g) }
