package settle

import (
	"fmt"
	"strings"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// receipt names a hold, and those that the task had before.
func (r *Room) receipt(h *Hold) *bus.Receipt {
	return &bus.Receipt{ID: h.ID, Index: h.Index, Journal: r.turn.Journal, Round: h.Rec.Round,
		Epoch: r.turn.Epoch, Earlier: h.Task.Earlier}
}

// acceptance says who serves a task, and where its reader is to listen for its chunks.
func (r *Room) acceptance(h *Hold) *bus.Accepted {
	return &bus.Accepted{
		Client: h.Rec.Client, Task: h.Rec.Task, Hub: r.turn.Domain, Agent: h.Rec.Agent, Model: h.Rec.Model,
		Reply: h.Task.Reply, Round: h.Rec.Round, Attempt: h.Rec.Attempt,
	}
}

func (r *Room) result(h *Hold) *bus.Result {
	x := &bus.Result{Client: h.Rec.Client, Task: h.Rec.Task, Hub: r.turn.Domain, Agent: h.Rec.Agent,
		Model: h.Rec.Model, Receipt: r.receipt(h)}
	if h.Msg != nil {
		x.Session = h.Msg.Session
	}
	return x
}

// unpaid is the result of a task whose hold is void.
func (r *Room) unpaid(h *Hold, code bus.Code, why string, againMS int64) *bus.Result {
	x := r.result(h)
	x.Code, x.RetryMS, x.Message = code, againMS, bus.Clip(why, bus.MaxText)
	return x
}

// Said reports whether an agent itself tells the reader how an answer ended, where an event ends its hold. An
// agent that was told to end a task tells nothing.
func (s State) Said(e Event) bool {
	return e == Served || e == Unused || e == Failed || e == Unsaid && s != Withdrawn
}

// Stopped explains the end of a task that its client has cancelled, where its agent does not.
func (s State) Stopped() string {
	if s.Taken() {
		return "cancelled by the client: its agent did not say what it had served, and nothing is due"
	}
	return "cancelled by the client before an agent took it"
}

// paid is the result of a task whose hold is captured.
func (r *Room) paid(h *Hold, c *ledger.Capture) *bus.Result {
	x := r.result(h)
	x.Finish, x.Usage, x.Unmetered, x.TTFTUS = c.Finish, c.Usage, c.Unmetered, c.TTFTUS
	x.Cost, x.Premium, x.Fee = c.Cost, h.Rec.Due(c), h.Rec.Fee
	if c.Outcome == bus.OutcomeCancelled {
		x.Code, x.Message = bus.CodeCancelled, "cancelled: what was served until then is paid"
	}
	return x
}

// account returns the record of an agent's account of a hold: the cost follows the rule. An account that
// cannot be true is corrected: no answer is longer than where the stream is cut, and tokens counted from what
// was relayed are no more than that. Then the original account is recorded beside it as its claim, so that
// the audit names it, too. fair is the account with the usage that counts.
//
// An agent that got the task because it reported to hold some of the prompt is paid for that much as cached,
// whatever its engine found: the winning quote rested on its report, so the agent pays for a false one, and
// the client does not.
func (r *Room) account(h *Hold, c *bus.Completion) (fair *bus.Completion, rec ledger.Capture) {
	output := c.Usage.Output
	if most := h.Rec.MaxTokens; most > 0 {
		output = min(output, most)
	}
	if c.Unmetered {
		output = min(output, c.Relayed)
	}
	fair = c
	billed := bus.Billed(c.Usage, max(h.Rec.Asserted, c.Asserted))
	if output != c.Usage.Output || billed != c.Usage {
		f := *c
		f.Usage = billed
		f.Usage.Output, f.NoCacheReport = output, c.NoCacheReport && billed.Cached == 0
		fair = &f
	}
	rec = ledger.Capture{
		Outcome: fair.Outcome, Usage: fair.Usage, Unmetered: fair.Unmetered,
		NoCacheReport: fair.NoCacheReport, TTFTUS: fair.TTFTUS, Said: fair.Said,
		Finish: strings.ToValidUTF8(fair.Finish[:min(len(fair.Finish), bus.MaxID)], ""),
		Cost: market.Settle(h.Rec.Settle, h.Rec.Price, h.Rec.Tariff, h.Rec.Quoted, fair.Usage,
			h.Rec.Amount-h.Rec.Premium),
	}
	said := ledger.Claim{Usage: c.Usage, Relayed: c.Relayed, Most: h.Most, Cost: c.Cost}
	if lies := said.Lies(&h.Rec, c.Unmetered, rec.Cost); len(lies) > 0 {
		kept := said
		rec.Claim = &kept
		r.turn.Out.Faults = append(r.turn.Out.Faults,
			fmt.Errorf("hold %s: %s claims %s credits: %s: settled at %s credits, by the rule", h.ID,
				h.Rec.Agent, said.Cost, strings.Join(lies, "; "), rec.Cost))
	}
	return fair, rec
}
