package bus

import "souk/market"

// DispatchTask is the kind of every dispatch.
const DispatchTask = "task"

// Dispatch hands an awarded task to its agent. The hold it names is durable.
type Dispatch struct {
	Kind      string `msgpack:"kind" want:"dispatch"`
	Domain    string `msgpack:"domain" want:"id"`
	Epoch     int64  `msgpack:"epoch"` // of the hub; it compares with epochs of the same domain alone
	Journal   string `msgpack:"journal"`
	Round     uint64 `msgpack:"round"`
	Hold      string `msgpack:"hold" want:"needed"` // id of the hold record, unique for ever
	Index     int64  `msgpack:"index,omitempty"`    // of that record in the journal, from 0 on
	Task      Task   `msgpack:"task"`
	Model     string `msgpack:"model"`      // what the engine is asked for
	MaxTokens int    `msgpack:"max_tokens"` // of the answer, which is cut there
	// no max_tokens was named: the engine is told none, and ends where its context does
	Open      bool           `msgpack:"open,omitempty"`
	Price     market.Price   `msgpack:"price"` // the card the quote was made from
	Premium   market.Credits `msgpack:"premium" want:"signed"`
	SlotPrice market.Credits `msgpack:"slot_price" want:"signed"`
	Toll      market.Credits `msgpack:"toll" want:"signed"`
	Fee       market.Credits `msgpack:"fee"`
	Settle    string         `msgpack:"settle" want:"settle"` // "metered" or "quoted"
	Quoted    market.Credits `msgpack:"quoted"`               // cost as quoted
	Tariff    market.Credits `msgpack:"tariff,omitempty"`     // part of Quoted: due beside the metered cost
	// hold less premium: the stream is cut where the metered cost would pass it
	CostCap   market.Credits `msgpack:"cost_cap"`
	TimeoutMS int64          `msgpack:"timeout_ms" want:"ms"` // from receipt; relative, since clocks differ
	// with Task.Resume: max_tokens of the whole answer, what was delivered included
	Whole int `msgpack:"whole,omitempty"`
	// holds of this task that ended without payment because their agents failed
	Earlier []string `msgpack:"earlier,omitempty" want:"most:64"`

	// of the agent, as registered: a later start of it refuses what was meant for an earlier one
	Boot int64 `msgpack:"boot,omitempty"`
	// of Toll, what the client's own tasks bear: it is not charged
	Own market.Credits `msgpack:"own,omitempty"`
	// of the hub's claim, see [Claim]; 0: the hub knows of none
	Fence int64 `msgpack:"fence,omitempty"`

	PromptMost int `msgpack:"prompt_most,omitempty"` // prompt tokens that the hold covers
	// prompt tokens that the agent holds by the very same text
	Cached  int   `msgpack:"cached,omitempty"`
	FirstMS int64 `msgpack:"first_ms,omitempty" want:"ms"` // from receipt: how late the first token is quoted
	// from receipt: where no token has come by then the engine has failed
	LimitMS int64 `msgpack:"limit_ms,omitempty" want:"ms"`
	// from receipt: where no token has come by then the agent reports it, see [Summary]; 0: it need not
	WatchMS int64 `msgpack:"watch_ms,omitempty" want:"ms"`
	// prompt tokens that are billed as cached, whatever the engine finds: the agent got the task because its
	// Holdings reported them
	Asserted int `msgpack:"asserted,omitempty"`
	// the context may have room for less than MaxTokens behind the prompt, which is only estimated
	Tight bool `msgpack:"tight,omitempty"`
}

// DispatchReply is an agent's answer to a Dispatch: accepted if Code is empty, else refused.
type DispatchReply struct {
	Agent   string `msgpack:"agent" want:"id"`
	Boot    int64  `msgpack:"boot"` // the boot of the agent's process that replies
	Hold    string `msgpack:"hold"`
	Code    Code   `msgpack:"code,omitempty"` // CodeNoSlot, CodeStaleEpoch, CodeNotClaimed, CodeDraining, ...
	Message string `msgpack:"message,omitempty" want:"text"`
}

// Completion outcomes.
const (
	OutcomeDone      = "done"      // served to its end
	OutcomeCancelled = "cancelled" // by the client: what was served until then, and the premium, is due
	OutcomeFailed    = "failed"    // by the agent or its engine: nothing is due
)

// Completion is an agent's account of a dispatch. It is repeated until the hub has made its effect
// durable and acknowledged it.
type Completion struct {
	Agent   string       `msgpack:"agent" want:"id"`
	Boot    int64        `msgpack:"boot"` // the agent's boot epoch
	Hold    string       `msgpack:"hold" want:"needed"`
	Client  string       `msgpack:"client" want:"id?"`
	Task    string       `msgpack:"task" want:"id?"`
	Trace   Trace        `msgpack:"-"` // travels in headers
	Outcome string       `msgpack:"outcome" want:"outcome"`
	Code    Code         `msgpack:"code,omitempty"`
	Finish  string       `msgpack:"finish,omitempty"`
	Usage   market.Usage `msgpack:"usage"`
	// output tokens relayed, as the agent counted them
	Relayed int `msgpack:"relayed"`
	// the engine reported no cached_tokens: absent, not 0
	NoCacheReport bool `msgpack:"no_cache_report,omitempty"`
	Unmetered     bool `msgpack:"unmetered,omitempty"`
	// the engine's own usage, where the ids that it sent say otherwise: Usage has theirs
	Said *market.Usage `msgpack:"said,omitempty"`
	// failed, nothing of it was delivered, and the reader is told only if the acknowledgement is not
	// CodeMoved
	Unsaid bool `msgpack:"unsaid,omitempty"`
	// of the dispatch: Cost is for no fewer cached tokens, and Usage is what the engine found
	Asserted int    `msgpack:"asserted,omitempty"`
	Tool     uint64 `msgpack:"tool,omitempty"` // of the first tool that the answer calls: see [ToolKey]
	// output tokens that the engine's template leaves out of later prompts: reasoning
	Thought int            `msgpack:"thought,omitempty"`
	Cost    market.Credits `msgpack:"cost"`
	TTFTUS  int64          `msgpack:"ttft_us" want:"us"`
	ITLUS   int64          `msgpack:"itl_us" want:"us"`
	Inbox   string         `msgpack:"-"` // set by the receiver: where the acknowledgement goes
}

// FinishFiltered is the finish reason of an answer that its agent, or the engine, cut off: the client pays
// for the part before.
const FinishFiltered = "content_filter"

// Billed returns the usage that is paid for: asserted prompt tokens, which the agent reported to hold, count
// as cached whatever its engine found.
func Billed(u market.Usage, asserted int) market.Usage {
	u.Cached = max(u.Cached, min(asserted, u.Prompt))
	return u
}

// Unused reports whether a task was cancelled before its engine had said anything: it costs nothing,
// premium and tariff included.
func (c *Completion) Unused() bool {
	return c.Outcome == OutcomeCancelled && c.Usage == market.Usage{} && c.Relayed == 0
}

// CompletionAck ends the repetition of a Completion.
type CompletionAck struct {
	Hold string `msgpack:"hold"`
	// CodeLate: the hold had ended, or ended by this since it is no account, and nothing was paid; CodeMoved:
	// the task failed and goes to another agent, so its reader is told nothing
	Code Code `msgpack:"code,omitempty"`
}

// HoldControl is a hub's message to an agent about a hold dispatched to it: one of the fields beside Hold.
// With no field set it only probes whether the agent is there.
type HoldControl struct {
	Hold   string `msgpack:"hold,omitempty"`
	Cancel bool   `msgpack:"cancel,omitempty"` // for the client
	// the hub heard no reply to its dispatch: end the task if nobody has heard of it yet, else reply now; if
	// the dispatch has not come, refuse it, now and when it comes
	Withdraw bool `msgpack:"recall,omitempty"`
	// end it if the engine has sent nothing of it yet: the first token is late, and another agent is to serve
	// it
	Late bool `msgpack:"late,omitempty"`
	// of no hold: the hub does not know the agent's cache, so report all of it; see [Holdings]
	Holdings bool `msgpack:"holdings,omitempty"`
}
