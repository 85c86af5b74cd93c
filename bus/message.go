// Package bus is the language of the market: its messages, subjects, keys and ports.
package bus

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"

	"github.com/cespare/xxhash/v2"

	"souk/market"
)

// Message is anything said in the market. Only types of this package are messages.
type Message interface {
	message()
	// Validate reports what is out of range. It says nothing of fields that are merely empty where
	// another part fills them in later.
	Validate() error
}

// Task kinds: which OpenAI endpoint the body belongs to.
const (
	KindChat       = "chat"       // /v1/chat/completions
	KindCompletion = "completion" // /v1/completions
)

// Task is one client request: an OpenAI body plus terms.
//
// As JSON the request is the OpenAI body itself with one more member, "souk", that holds the fields
// below; as msgpack it is this struct. Client is always taken from the subject, whatever the body says.
type Task struct {
	Client string `json:"-" msgpack:"client,omitempty"`
	// unique per client; made by the door when empty
	ID string `json:"task,omitempty" msgpack:"task,omitempty"`
	// KindChat or KindCompletion; from the body when empty
	Kind string `json:"kind,omitempty" msgpack:"kind,omitempty"`
	// the OpenAI body as given, at most 512 KB
	Body json.RawMessage `json:"-" msgpack:"body,omitempty"`
	// chunks on the reply subject, else one whole Result
	Stream bool `json:"-" msgpack:"stream,omitempty"`
	// names the answer to its reader among all that it reads; the task's id where it is empty
	Token string `json:"reply_token,omitempty" msgpack:"token,omitempty"`

	Terms Terms `json:"terms,omitzero" msgpack:"terms,omitempty"`
	// Unix milliseconds; after it the task is worth nothing. 0: the hub's default
	DeadlineMS int64  `json:"deadline_ms,omitempty" msgpack:"deadline_ms,omitempty"`
	Session    string `json:"session,omitempty" msgpack:"session,omitempty"`
	// this turn is the session's last: see [SessionEnd]
	SessionEnd bool `json:"session_end,omitempty" msgpack:"session_end,omitempty"`
	// hints of what the client does next, checked against what comes and never paid for: the session's next
	// turn comes so long after this one's end; another session of the client's began this one; and after this
	// turn a role of the client's comes, or a session of its
	BackMS int64  `json:"back_ms,omitempty" msgpack:"back_ms,omitempty"`
	Parent string `json:"parent,omitempty" msgpack:"parent,omitempty"`
	Next   string `json:"next,omitempty" msgpack:"next,omitempty"`
	Turn   int    `json:"turn,omitempty" msgpack:"turn,omitempty"` // counts from 0
	Role   string `json:"role,omitempty" msgpack:"role,omitempty"` // the caller's part in a workflow
	Source string `json:"source,omitempty" msgpack:"source,omitempty"`
	Run    string `json:"run,omitempty" msgpack:"run,omitempty"`
	// the hub named by an earlier Result of the session; honoured while it has room
	Hub      string `json:"hub,omitempty" msgpack:"hub,omitempty"`
	Failover string `json:"failover,omitempty" msgpack:"failover,omitempty"` // "" or "off"
	// 0 is the first; the hub counts
	Attempt int `json:"-" msgpack:"attempt,omitempty"`
	// the answer broke off: go on from here
	Resume *Resume `json:"-" msgpack:"resume,omitempty"`
	// for doors alone: the door that had it says nothing, so a hub may have it. AgainUnheard or AgainHeard
	Again int `json:"-" msgpack:"again,omitempty"`

	// Filled in by the door; whatever a client puts here is overwritten.
	Model     string `json:"-" msgpack:"model,omitempty"`      // "" = any model of the hub
	Domain    string `json:"-" msgpack:"domain,omitempty"`     // the classifier's label
	Reply     string `json:"-" msgpack:"reply,omitempty"`      // where the answer goes: see ReplyTo
	MaxTokens int    `json:"-" msgpack:"max_tokens,omitempty"` // of the body; 0 = none given
	Prompt    Prompt `json:"-" msgpack:"prompt,omitempty"`
	Declared  bool   `json:"-" msgpack:"declared,omitempty"` // Role is the client's word, and not derived
	Trace     Trace  `json:"-" msgpack:"-"`                  // travels in headers

	// Set by the receiver: who sent this request, and where the answer to it goes.
	Door  string `json:"-" msgpack:"-"`
	Inbox string `json:"-" msgpack:"-"`
}

// What a reader has heard of a task that it asks for once more. Either way the hub that has it is sought; one
// of which nobody was heard, and that no hub knows, is placed anew.
const (
	AgainUnheard = 1
	AgainHeard   = 2
)

// Resume is what a reader has of an answer that broke off. It comes with the task as it was first sent, so
// that another agent of the same model can go on: from zero where nothing was delivered.
type Resume struct {
	Agent  string   `msgpack:"agent"`            // that broke off
	Seq    uint64   `msgpack:"seq,omitempty"`    // number of the next chunk
	Tokens []uint32 `msgpack:"tokens,omitempty"` // output tokens delivered
	Text   string   `msgpack:"text,omitempty"`   // and their text

	// Likewise, what parsers of the engine's made of the tokens.
	Reasoning string   `msgpack:"reasoning,omitempty"`
	Calls     []string `msgpack:"calls,omitempty"` // ids of the tool calls that have begun
}

// Prompt is what a hub needs to know of a prompt without reading it.
type Prompt struct {
	Bytes    int    `msgpack:"bytes"`    // of canonical text: roles, contents, tools
	Messages int    `msgpack:"messages"` // 1 for a completion
	Tokens   int    `msgpack:"tokens"`   // estimate
	Marks    []Mark `msgpack:"marks,omitempty"`
	// of the same marks, SumBytes of each text's SHA-256: only where it was read, until it is named
	Sums []byte `msgpack:"-"`
	// Hashes of the same marks under the key before, or under that which comes next: for some time around
	// when that is due. Where a text is known by the former ones, it is to be known by its own from now on;
	// where it is by the next ones, the prompt means these.
	Former Hashes `msgpack:"former,omitempty"`
	Next   Hashes `msgpack:"next,omitempty"`

	// What bounds its tokens, see [Template.Bound]. Doors of earlier versions leave it out.
	// bytes of it, with room for how a template may write them; 0: not counted
	Text   int `msgpack:"text,omitempty"`
	Wide   int `msgpack:"wide,omitempty"`   // of them, bytes beyond ASCII
	Pieces int `msgpack:"pieces,omitempty"` // messages, parts, tools, calls: a template adds to each
	Tools  int `msgpack:"tools,omitempty"`
	Loose  int `msgpack:"loose,omitempty"` // whether that says it: LooseNone, LooseCounted or LooseMedia

	// where the tools and the system messages before all else end, in bytes, at one of the marks; 0: there
	// are none, or an earlier door read it
	Anchor int `msgpack:"anchor,omitempty"`
}

// Mark is a point in a prompt's canonical text with the chained hash of everything before it, under a key
// that doors alone have: see MarkKeys. Marks stand at the end of every message and every MarkEvery bytes; two
// prompts share the text up to their last common mark.
type Mark struct {
	Bytes int    `msgpack:"b"`
	Hash  uint64 `msgpack:"h"`
}

// Terms says what a task is worth to its client (mechanism.md 1). A nil field takes the hub's default; a
// zero is refused, for it would mean that nothing is ever bought. In JSON, credits are decimal numbers of
// whole credits ("worth": 0.0025), read exactly.
type Terms struct {
	Worth *market.Credits `json:"worth,omitempty" msgpack:"worth,omitempty"` // > 0
	// > 0, at most 1
	Delta      *float64 `json:"delta,omitempty" msgpack:"delta,omitempty"`
	PatienceMS *int64   `json:"patience_ms,omitempty" msgpack:"patience_ms,omitempty"` // > 0
	// > 0: most the client ever pays; default worth
	MaxPrice *market.Credits `json:"max_price,omitempty" msgpack:"max_price,omitempty"`
}

// Accepted tells a streaming client who serves its task and where the chunks come: below Reply, each on a
// subject that ends in the name of its sender. Nobody but Hub and Agent has anything to say there, and whom
// Hub names later.
type Accepted struct {
	Client string `json:"client" msgpack:"client"`
	Task   string `json:"task" msgpack:"task"`
	Hub    string `json:"hub" msgpack:"hub"`
	Agent  string `json:"agent" msgpack:"agent"`
	Model  string `json:"model" msgpack:"model"`
	Reply  string `json:"reply" msgpack:"reply"`
	Round  uint64 `json:"round" msgpack:"round"`
}

// Answer is what the door says to a request, once: Accepted for a stream that was taken, else the
// Result. Exactly one field is set. In JSON the set one stands alone.
type Answer struct {
	Accepted *Accepted `json:"accepted,omitempty" msgpack:"accepted,omitempty"`
	Result   *Result   `json:"result,omitempty" msgpack:"result,omitempty"`
}

// Dispatch kinds.
const (
	DispatchTask     = "task"
	DispatchWarmup   = "warm-up"
	DispatchPrefetch = "prefetch"
	DispatchShadow   = "shadow"
	DispatchCanary   = "canary"
)

// Dispatch hands an awarded task to its agent. The hold it names is durable.
type Dispatch struct {
	Kind      string         `msgpack:"kind"`
	Domain    string         `msgpack:"domain"`
	Epoch     int64          `msgpack:"epoch"` // of the hub; it compares with epochs of the same domain alone
	Journal   string         `msgpack:"journal"`
	Round     uint64         `msgpack:"round"`
	Hold      string         `msgpack:"hold"` // id of the hold record, unique for ever
	Tier      int            `msgpack:"tier,omitempty"`
	Task      Task           `msgpack:"task"`
	Model     string         `msgpack:"model"`      // what the engine is asked for
	MaxTokens int            `msgpack:"max_tokens"` // always sent to the engine
	Price     market.Price   `msgpack:"price"`      // the card the quote was made from
	Premium   market.Credits `msgpack:"premium"`
	SlotPrice market.Credits `msgpack:"slot_price"`
	Toll      market.Credits `msgpack:"toll"`
	Fee       market.Credits `msgpack:"fee"`
	Settle    string         `msgpack:"settle"`           // "metered" or "quoted"
	Quoted    market.Credits `msgpack:"quoted"`           // cost as quoted
	Tariff    market.Credits `msgpack:"tariff,omitempty"` // part of Quoted: due beside the metered cost
	// hold less premium: the stream is cut where the metered cost would pass it
	CostCap   market.Credits `msgpack:"cost_cap"`
	TimeoutMS int64          `msgpack:"timeout_ms"` // from receipt; relative, since clocks differ
	// with Task.Resume: max_tokens of the whole answer, what was delivered included
	Whole int `msgpack:"whole,omitempty"`
	// holds of this task that ended without payment because their agents failed
	Earlier []string `msgpack:"earlier,omitempty"`

	// of the agent, as registered: a later start of it refuses what was meant for an earlier one
	Boot int64 `msgpack:"boot,omitempty"`
	// the tier's part of Toll; what is left of it beside Crowd and Fee is the regime's
	Congestion market.Credits `msgpack:"congestion,omitempty"`
	// what else of Toll is for those who wait and run; nil: nothing
	Crowd *market.Toll `msgpack:"crowd,omitempty"`
	// of the hub's claim, see [Claim]; 0: the hub knows of none
	Fence int64 `msgpack:"fence,omitempty"`

	// Of hubs of earlier versions these are 0: nothing is known of the prompt, and a cancel ends the task
	// at once.
	PromptMost int `msgpack:"prompt_most,omitempty"` // prompt tokens that the hold covers
	// prompt tokens that the agent holds by the very same text
	Cached  int   `msgpack:"cached,omitempty"`
	FirstMS int64 `msgpack:"first_ms,omitempty"` // from receipt: how late the first token may come
	// from receipt: where no token has come by then the agent says so, see [Summary]; 0: it need not
	WatchMS int64 `msgpack:"watch_ms,omitempty"`
	// prompt tokens that are billed as cached, whatever the engine finds: the task was given to the agent
	// because it said in its Holdings that they are
	Claimed int `msgpack:"claimed,omitempty"`
	// the hub wants the answer's words sketched by this key; 0: it does not
	Sketch uint64 `msgpack:"sketch,omitempty"`

	// Of kind prefetch, with no text: the session, by [SessionKey], whose last prompt and answer are to be
	// used again, as far as so many tokens go. A Completion alone answers it.
	Session uint64 `msgpack:"k,omitempty"`
	Tokens  int    `msgpack:"tokens,omitempty"`
}

// DispatchReply is an agent's word on a Dispatch: accepted if Code is empty, else refused.
type DispatchReply struct {
	Agent   string `msgpack:"agent"`
	Hold    string `msgpack:"hold"`
	Code    Code   `msgpack:"code,omitempty"` // CodeNoSlot, CodeStaleEpoch, CodeNotClaimed, CodeDraining, ...
	Message string `msgpack:"message,omitempty"`
}

// Chunk is a piece of an answer on the reply subject. Chunks of one attempt are numbered from 0
// without gaps; a heartbeat carries the number of the next chunk and consumes none.
type Chunk struct {
	Task    string `json:"task" msgpack:"t"`
	Attempt int    `json:"attempt,omitempty" msgpack:"a,omitempty"`
	Seq     uint64 `json:"seq" msgpack:"n"`
	Text    string `json:"text,omitempty" msgpack:"x,omitempty"`
	// ids the engine reported for Text; empty if it reports none
	Tokens []uint32 `json:"token_ids,omitempty" msgpack:"k,omitempty"`
	// output tokens in this chunk, as far as known
	Count int `json:"tokens,omitempty" msgpack:"c,omitempty"`
	// engine events that say more than plain text
	Extra []Extra `json:"extra,omitempty" msgpack:"e,omitempty"`
	// the engine said that the answer ends here
	Finish    bool `json:"finish,omitempty" msgpack:"f,omitempty"`
	Heartbeat bool `json:"heartbeat,omitempty" msgpack:"h,omitempty"`
	// in heartbeats of a later attempt: who serves now
	Agent  string  `json:"agent,omitempty" msgpack:"g,omitempty"`
	Result *Result `json:"result,omitempty" msgpack:"r,omitempty"` // the end frame
}

// Extra is an engine event with tool calls, reasoning, logprobs or the like: choices[0] as the engine
// wrote it. At is the offset in Chunk.Text before which it came. What plain content the event has is part of
// Text too, from At on, so that who reads Text alone misses none; who passes Choice on leaves that much of
// Text out.
type Extra struct {
	At     int             `json:"at" msgpack:"at"`
	Choice json.RawMessage `json:"choice" msgpack:"choice"`
}

// Receipt names the record that settles a task.
type Receipt struct {
	ID      string `json:"id" msgpack:"id"` // of the hold: "<journal>/<round>/<slot>"
	Journal string `json:"journal" msgpack:"journal"`
	Round   uint64 `json:"round" msgpack:"round"`
	Epoch   int64  `json:"epoch" msgpack:"epoch"`
	// ids of earlier holds of the task, void: their agents failed
	Earlier []string `json:"earlier,omitempty" msgpack:"earlier,omitempty"`
}

// Result is the last word on a task: an answer with what was paid, or why there is none.
type Result struct {
	Client  string `json:"client" msgpack:"client"`
	Task    string `json:"task" msgpack:"task"`
	Session string `json:"session,omitempty" msgpack:"session,omitempty"`
	Hub     string `json:"hub,omitempty" msgpack:"hub,omitempty"`
	Agent   string `json:"agent,omitempty" msgpack:"agent,omitempty"`
	Model   string `json:"model,omitempty" msgpack:"model,omitempty"`

	Code    Code   `json:"code,omitempty" msgpack:"code,omitempty"` // empty: served to the end
	Message string `json:"message,omitempty" msgpack:"message,omitempty"`
	// > 0: worth trying again after so long
	RetryMS int64 `json:"retry_ms,omitempty" msgpack:"retry_ms,omitempty"`

	Text   string          `json:"text,omitempty" msgpack:"text,omitempty"`   // of a collected answer
	Extra  []Extra         `json:"extra,omitempty" msgpack:"extra,omitempty"` // of a collected answer
	Finish string          `json:"finish_reason,omitempty" msgpack:"finish,omitempty"`
	Stop   json.RawMessage `json:"stop_reason,omitempty" msgpack:"stop,omitempty"`
	// numbered chunks before this one
	Chunks uint64 `json:"chunks,omitempty" msgpack:"chunks,omitempty"`

	Usage market.Usage `json:"usage" msgpack:"usage"`
	// what Cost is for, where that is not Usage: of an answer that went on elsewhere, the part of the agent
	// that finished it
	Billed *market.Usage `json:"billed,omitempty" msgpack:"billed,omitempty"`
	// the engine sent no usage: counted from what was relayed
	Unmetered bool `json:"unmetered,omitempty" msgpack:"unmetered,omitempty"`
	// at the agent, from dispatch to first token
	TTFTUS int64 `json:"ttft_us,omitempty" msgpack:"ttft_us,omitempty"`
	ITLUS  int64 `json:"itl_us,omitempty" msgpack:"itl_us,omitempty"` // mean

	Cost      market.Credits `json:"cost" msgpack:"cost"`
	Premium   market.Credits `json:"premium" msgpack:"premium"`
	SlotPrice market.Credits `json:"slot_price" msgpack:"slot_price"`
	Toll      market.Credits `json:"toll" msgpack:"toll"` // all of it, the fee included
	Fee       market.Credits `json:"fee" msgpack:"fee"`
	Receipt   *Receipt       `json:"receipt,omitempty" msgpack:"receipt,omitempty"`

	// the tier's charge, part of Toll; what is left of it beside Crowd and Fee is the regime's
	Congestion market.Credits `json:"congestion,omitempty" msgpack:"congestion,omitempty"`
	// what else of Toll is for those who wait and run; nil: nothing
	Crowd *market.Toll `json:"crowd,omitempty" msgpack:"crowd,omitempty"`
}

// Paid is what the client owes: cost and premium. It is 0 for a task that was not served.
func (r Result) Paid() market.Credits { return r.Cost + r.Premium }

// Regime is the regime's part of Toll, at most 0.
func (r Result) Regime() market.Credits {
	rest := r.Toll - r.Congestion + r.Fee
	if c := r.Crowd; c != nil {
		rest -= c.Load + c.Age + c.Beside
	}
	return rest
}

// Completion outcomes.
const (
	OutcomeDone      = "done"      // served to its end
	OutcomeCancelled = "cancelled" // by the client: metered so far and premium are due
	OutcomeFailed    = "failed"    // by the agent or its engine: nothing is due
)

// Completion is an agent's account of a dispatch. It is repeated until the hub has made its effect
// durable and acknowledged it.
type Completion struct {
	Agent   string       `msgpack:"agent"`
	Boot    int64        `msgpack:"boot"` // the agent's boot epoch
	Hold    string       `msgpack:"hold"`
	Client  string       `msgpack:"client"`
	Task    string       `msgpack:"task"`
	Outcome string       `msgpack:"outcome"`
	Code    Code         `msgpack:"code,omitempty"`
	Finish  string       `msgpack:"finish,omitempty"`
	Usage   market.Usage `msgpack:"usage"`
	// output tokens relayed, as the agent counted them
	Relayed int `msgpack:"relayed"`
	// the engine reported no cached_tokens: absent, not 0
	NoCacheReport bool `msgpack:"no_cache_report,omitempty"`
	Unmetered     bool `msgpack:"unmetered,omitempty"`
	// failed, nothing of it was delivered, and the reader is told only if the acknowledgement is not
	// CodeMoved
	Unsaid bool `msgpack:"unsaid,omitempty"`
	// of the dispatch: Cost is for no fewer cached tokens, and Usage is what the engine found
	Claimed int `msgpack:"claimed,omitempty"`
	// whether the answer kept the form that its request asks for: FormKept, FormBroken, or nothing where it
	// asks for none or that cannot be told
	Form string `msgpack:"form,omitempty"`
	// of the dispatch's Sketch: least hashes of the answer's words, see quality.Sketch
	Sketch []uint32 `msgpack:"sketch,omitempty"`
	Tool   uint64   `msgpack:"tool,omitempty"` // of the first tool that the answer calls: see [ToolKey]
	// output tokens that the engine's template leaves out of later prompts: reasoning
	Thought int            `msgpack:"thought,omitempty"`
	Cost    market.Credits `msgpack:"cost"`
	TTFTUS  int64          `msgpack:"ttft_us"`
	ITLUS   int64          `msgpack:"itl_us"`
	Inbox   string         `msgpack:"-"` // set by the receiver: where the acknowledgement goes
}

// FinishFiltered is why an answer ends that its agent, or the engine, does not pass on to its end: it is paid
// as far as it went.
const FinishFiltered = "content_filter"

// What an agent says of the form of an answer.
const (
	FormKept   = "kept"
	FormBroken = "broken"
)

// Billed is usage as it is paid for: claimed prompt tokens, that an agent said it holds, are paid for as
// cached whatever its engine found.
func Billed(u market.Usage, claimed int) market.Usage {
	u.Cached = max(u.Cached, min(claimed, u.Prompt))
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

// Cancel is a client's wish to end its task, said by itself or by who sent the task for it.
type Cancel struct {
	Client string `json:"client,omitempty" msgpack:"client,omitempty"` // empty: the sender
	Task   string `json:"task" msgpack:"task"`
	Sender string `json:"-" msgpack:"-"` // from the subject
}

// StreamControl is what the reader of an answer, whom its subject names, says to the agent that serves it:
// exactly one of the fields beside Token is set.
type StreamControl struct {
	Token  string  `msgpack:"task"`             // of the answer: see Task
	Resume *uint64 `msgpack:"resume,omitempty"` // send again from this chunk number on
	Ack    *uint64 `msgpack:"ack,omitempty"`    // everything below this number has arrived
	Cancel bool    `msgpack:"cancel,omitempty"`
}

// HoldControl is what a hub says to an agent of a hold that it has handed to it: one of the fields beside
// Hold. With none it means nothing, and shows whether the agent is there.
type HoldControl struct {
	Hold   string `msgpack:"hold,omitempty"`
	Cancel bool   `msgpack:"cancel,omitempty"` // for the client
	// the hub heard no reply to its dispatch, so end what nobody has heard of yet
	Withdraw bool `msgpack:"recall,omitempty"`
	// end it if the engine has said nothing of it yet: the first token is late, and another agent is to
	// serve it
	Late bool `msgpack:"late,omitempty"`
	// of no hold: the hub does not know what the agent holds, so say all of it; see [Holdings]
	Holdings bool `msgpack:"holdings,omitempty"`
}

// Feedback is a client's judgement of an answer.
type Feedback struct {
	Client  string  `json:"client,omitempty" msgpack:"client,omitempty"`
	Task    string  `json:"task" msgpack:"task"`
	Quality float64 `json:"quality" msgpack:"quality"` // 0 to 1
	// by a reference answer: a hub believes that of those alone who its operator names as judges
	Gold   bool   `json:"gold,omitempty" msgpack:"gold,omitempty"`
	Sender string `json:"-" msgpack:"-"` // from the subject
}

// Summary is what an agent tells its hub about itself: on change, at most every 100 ms, at least every
// second. What its engine holds is said by Holdings; agents of earlier versions list sessions here.
type Summary struct {
	Agent string `msgpack:"agent"`
	Boot  int64  `msgpack:"boot"`
	Seq   uint64 `msgpack:"seq"` // rises with every summary of a boot
	State string `msgpack:"state"`
	Slots int    `msgpack:"slots"`
	// its slots by congestion charge; none: one tier without charge
	Tiers []market.Tier `msgpack:"tiers,omitempty"`
	// by its own measure, not by its operator: a hub that measures takes its own
	Measured bool           `msgpack:"measured,omitempty"`
	InFlight int            `msgpack:"in_flight"`
	Price    market.Price   `msgpack:"price"`
	TTFTUS   int64          `msgpack:"ttft_us"`            // running mean; 0 = none yet
	Sessions []SessionState `msgpack:"sessions,omitempty"` // most recent first, bounded
	Coverage float64        `msgpack:"coverage"`           // share of the sessions held that Sessions lists
	// tasks that run and of which no token has come yet, and their tokens that are still to be computed, as
	// far as the agent knows what is cached
	Prefills int `msgpack:"prefills,omitempty"`
	Ahead    int `msgpack:"ahead,omitempty"`
	// holds of which no token has come in the time that their dispatches name, the oldest first, at most
	// MaxLate: the hub may have them served elsewhere, by HoldControl
	Late []string `msgpack:"late,omitempty"`
}

// MaxLate is how many holds a summary names that are late.
const MaxLate = 64

// Holdings says which texts an agent's engine holds in its cache, as marks of prompts: up to each of them,
// every token is there. All of it is said in parts, and then what has changed. Who misses one of them asks
// for all of it again, by HoldControl.
type Holdings struct {
	Agent string `msgpack:"agent"`
	Boot  int64  `msgpack:"boot"`
	// of the engine, counted in this boot: where it rises, nothing is left of what was held before
	Life uint64 `msgpack:"life,omitempty"`
	Seq  uint64 `msgpack:"seq"`  // rises by one with each of a boot
	Base uint64 `msgpack:"base"` // Seq of the first part of what this goes on from, or is part of
	// which of how many parts; Parts is 0 where this says what has changed
	Part  int `msgpack:"part,omitempty"`
	Parts int `msgpack:"parts,omitempty"`
	// share of what the engine holds that the agent knows of and has said
	Coverage float64 `msgpack:"coverage,omitempty"`
	Blocks   int     `msgpack:"blocks,omitempty"` // of the engine's cache that the agent knows of
	Evidence string  `msgpack:"evidence"`         // how it knows: one of the below
	// marks, MarkBytes each: those held from now on, and first those held no longer
	Add  []byte `msgpack:"add,omitempty"`
	Drop []byte `msgpack:"drop,omitempty"`
}

// How an agent knows what its engine holds.
const (
	EvidenceEvents = "events" // the engine says it
	EvidenceMirror = "mirror" // it is reckoned from what was served
)

// MarkBytes is how long a mark is in Holdings: the top 48 bits of its hash, the highest byte first. Of a
// million marks held, one prompt in 350,000 finds one that is none of its own.
const MarkBytes = 6

// AppendMark appends a mark as Holdings has it, and ShortMark is what is left of its hash there.
func AppendMark(dst []byte, short uint64) []byte {
	return append(dst, byte(short>>40), byte(short>>32), byte(short>>24), byte(short>>16), byte(short>>8),
		byte(short))
}

func ShortMark(hash uint64) uint64 { return hash >> 16 }

// EachMark calls do with each mark of a list.
func EachMark(list []byte, do func(short uint64)) {
	for ; len(list) >= MarkBytes; list = list[MarkBytes:] {
		do(uint64(list[0])<<40 | uint64(list[1])<<32 | uint64(list[2])<<24 | uint64(list[3])<<16 |
			uint64(list[4])<<8 | uint64(list[5]))
	}
}

// SessionState says that an agent served a session, and how deep. Key is the keyed hash of the session.
type SessionState struct {
	Key    uint64 `msgpack:"k"`
	Tokens int    `msgpack:"n"` // prompt and output tokens of its last turn
}

// ToolKey is the key of a tool's name: no text, and what every form of number has room for. 0 is no tool.
func ToolKey(name string) uint64 {
	if name == "" {
		return 0
	}
	return max(1, xxhash.Sum64String(name)>>2)
}

// SessionKey is the key of a client's session in summaries: the same at hubs and agents, and no text. Clients
// choose the names of their sessions, so it is of a hash of which nobody can reckon backwards what name of
// its own has another's key. It is never 0, which is no session.
func SessionKey(client, session string) uint64 {
	var room [256]byte
	name := append(append(append(room[:0], client...), 0), session...)
	sum := sha256.Sum256(name)
	return max(1, binary.BigEndian.Uint64(sum[:]))
}

// Agent states.
const (
	StateReady     = "ready"
	StateDraining  = "draining"
	StateUnhealthy = "unhealthy"
)

// Parsers is the feature of an agent whose engine reads tool calls and reasoning out of tokens that it is
// given (vLLM's /v1/chat/completions/derender, there with --enable-scale-out).
const Parsers = "parsers"

// Split is the feature of an agent whose engine has the prompts of its tasks computed by others, which hand
// over keys and values.
const Split = "split"

// Touches is the feature of an agent that uses again what its engine holds of a session, where a hub has it
// do so (DispatchPrefetch).
const Touches = "touches"

// Registration is an agent's entry in the registry (JSON), under its lease.
type Registration struct {
	Agent string `json:"agent"`
	// names this start of the agentd: its time, but clocks may be set back
	Boot        int64         `json:"boot"`
	Node        string        `json:"node,omitempty"`
	Model       string        `json:"model"`           // as clients and the engine name it
	Scale       float64       `json:"scale,omitempty"` // parameters, in billions
	Domains     []DomainScore `json:"domains"`         // the first decides which hub the agent joins
	MaxModelLen int           `json:"max_model_len"`   // tokens
	BlockSize   int           `json:"block_size"`      // tokens per KV block
	KVTokens    int           `json:"kv_tokens"`       // KV capacity, tokens
	Slots       int           `json:"slots"`
	// its slots by congestion charge, until the first Summary says more
	Tiers    []market.Tier `json:"tiers,omitempty"`
	Measured bool          `json:"measured,omitempty"` // see Summary
	Price    market.Price  `json:"price"`
	// whose it is: asks of one owner count as one. Empty: Node
	Owner string `json:"owner,omitempty"`
	// model, precision, hardware: agents of one class are paid one tariff. Empty: Model
	Class    string   `json:"class,omitempty"`
	Features []string `json:"features,omitempty"`
	State    string   `json:"state"`
	Engine   string   `json:"engine,omitempty"` // version
	// what its chat template adds to a prompt; nil: not measured
	Template *Template `json:"template,omitempty"`
	// boots of earlier lives of which completions are still to come
	Former []int64 `json:"former,omitempty"`
	// names the process: who holds its node's directory now knows the names of those that did
	Life  string `json:"life,omitempty"`
	Fence int64  `json:"-"` // set by the hub: of its claim
}

// DomainScore is an agent's benchmark score in a domain, 0 to 1: Q until something is learned.
type DomainScore struct {
	Domain string  `json:"domain"`
	Score  float64 `json:"score"`
}

// Claim says which hub sells an agent's slots (JSON). Its Fence is the create revision of its key, which is
// higher with every claim of the agent, whichever hub makes it; the agent obeys no hub of a lower one than it
// has seen. From a hub that knows of no fences it compares epochs, within the domain.
type Claim struct {
	Agent  string `json:"agent"`
	Domain string `json:"domain"`
	Hub    string `json:"hub"`
	Epoch  int64  `json:"epoch"`
	Fence  int64  `json:"-"` // set by the reader, see above
}

// HubEntry is the live hub of a domain (JSON, election value). Epoch is the create revision of its key.
type HubEntry struct {
	Domain  string   `json:"domain"`
	Labels  []string `json:"labels"` // classifier labels it serves
	Hub     string   `json:"hub"`    // instance
	Journal string   `json:"journal"`
	General bool     `json:"general,omitempty"` // takes tasks of low confidence
	// names the process: who holds its journal now knows the names of those that did
	Life string `json:"life,omitempty"`
}

// Status is what a hub says of itself to anyone: on change, at most every 50 ms, at least every second.
type Status struct {
	Domain          string        `json:"domain" msgpack:"domain"`
	Labels          []string      `json:"labels" msgpack:"labels"`
	General         bool          `json:"general" msgpack:"general"`
	Epoch           int64         `json:"epoch" msgpack:"epoch"`
	Seq             uint64        `json:"seq" msgpack:"seq"`
	Agents          int           `json:"agents" msgpack:"agents"`
	Slots           int           `json:"slots" msgpack:"slots"`
	Free            int           `json:"free" msgpack:"free"`
	Waiting         int           `json:"waiting" msgpack:"waiting"` // tasks not yet placed
	Room            int           `json:"room" msgpack:"room"`       // tasks it would still admit
	Models          []ModelStatus `json:"models" msgpack:"models"`
	MaxPromptTokens int           `json:"max_prompt_tokens" msgpack:"max_prompt_tokens"`
	// runtime policies that are on, or would be; none: of a hub without, or of an earlier version
	Policies []PolicyStatus `json:"policies,omitempty" msgpack:"policies,omitempty"`
	// tasks that another agent got because their first token was late, and those of them whose first agent
	// turned out to be well
	Hedged      int64 `json:"hedged,omitempty" msgpack:"hedged,omitempty"`
	HedgedFalse int64 `json:"hedged_false,omitempty" msgpack:"hedged_false,omitempty"`
	// nil: of a hub that admits every session, or of an earlier version
	Seats *SeatStatus `json:"seats,omitempty" msgpack:"seats,omitempty"`
	// how full it is: below the knee, in transition or saturated; "": it does not say
	Regime string `json:"regime,omitempty" msgpack:"regime,omitempty"`
}

// SeatStatus says how a hub that admits sessions is seated.
type SeatStatus struct {
	Seats   int   `json:"seats" msgpack:"seats"`     // sessions that have one
	Used    int   `json:"used" msgpack:"used"`       // blocks of agents' caches that these count
	Blocks  int   `json:"blocks" msgpack:"blocks"`   // that there are for them
	Waiting int   `json:"waiting" msgpack:"waiting"` // tasks that wait for one
	Refused int64 `json:"refused" msgpack:"refused"` // tasks that found none in time, since the hub began
}

// PolicyStatus says how a runtime policy is.
type PolicyStatus struct {
	Hook   string `json:"hook" msgpack:"hook"` // where it is asked
	Policy string `json:"policy" msgpack:"policy"`
	// it is off for so long yet; 0: it is on
	OffMS int64  `json:"off_ms,omitempty" msgpack:"off_ms,omitempty"`
	Why   string `json:"why,omitempty" msgpack:"why,omitempty"`
}

// ModelStatus sums up the agents of one model in a hub.
type ModelStatus struct {
	Model       string         `json:"model" msgpack:"model"`
	Agents      int            `json:"agents" msgpack:"agents"`
	Free        int            `json:"free" msgpack:"free"`
	Quality     float64        `json:"quality" msgpack:"quality"`       // best, as quotes have it
	Price       market.Price   `json:"price" msgpack:"price"`           // cheapest card
	TTFTUS      int64          `json:"ttft_us" msgpack:"ttft_us"`       // least measured
	SlotPrice   market.Credits `json:"slot_price" msgpack:"slot_price"` // last round's least
	MaxModelLen int            `json:"max_model_len" msgpack:"max_model_len"`
	Cards       *Cards         `json:"cards,omitempty" msgpack:"cards,omitempty"` // nil: of an older hub
	// what was said of answers of the agent of that Quality, by source; none: its registered score is all
	// that is known
	Heard []Heard `json:"heard,omitempty" msgpack:"heard,omitempty"`
}

// Heard is what one source says of an agent's answers: gold, format, feedback, shadow or canary.
type Heard struct {
	Source string  `json:"source" msgpack:"source"`
	Weight float64 `json:"weight" msgpack:"weight"` // in answers; the registered score counts as 20
	Mean   float64 `json:"mean" msgpack:"mean"`     // 0 to 1
}

// Cards are the least and the most that the cards of several agents ask, each part by itself.
type Cards struct {
	Least market.Price `json:"least" msgpack:"least"`
	Most  market.Price `json:"most" msgpack:"most"`
}

// With is the range with another in it.
func (c Cards) With(o Cards) Cards {
	return Cards{
		Least: market.Price{Miss: min(c.Least.Miss, o.Least.Miss), Hit: min(c.Least.Hit, o.Least.Hit),
			Out: min(c.Least.Out, o.Least.Out)},
		Most: market.Price{Miss: max(c.Most.Miss, o.Most.Miss), Hit: max(c.Most.Hit, o.Most.Hit),
			Out: max(c.Most.Out, o.Most.Out)},
	}
}

// MarketConfig is a domain's settings in the registry (JSON), in force until changed. What is left out is as
// the hub's own file says.
type MarketConfig struct {
	Domain    string `json:"domain"`
	MaxBatch  int    `json:"max_batch,omitempty"`
	MaxWaitMS *int64 `json:"max_wait_ms,omitempty"`
	Eager     *bool  `json:"eager,omitempty"`
	Pricing   string `json:"pricing,omitempty"`
	Settle    string `json:"settle,omitempty"`
	Clarke    string `json:"clarke,omitempty"`

	Tariffs  map[string]market.Credits `json:"tariffs,omitempty"` // under pricing posted, by class
	Ceiling  *market.Credits           `json:"ceiling,omitempty"` // under pricing tariff
	Ceilings map[string]market.Credits `json:"ceilings,omitempty"`

	// Of hubs that placed tasks in bundles: ignored.
	BundleTokens json.RawMessage `json:"bundle_tokens,omitempty"`
}

// Call is a hub's wish for an agent's ask in an epoch of its class, sealed first, and open once the sealing
// is on record.
type Call struct {
	Agent string `msgpack:"agent"`
	Class string `msgpack:"class"`
	Epoch uint64 `msgpack:"epoch"` // of the class
	// epoch of the hub's leadership: only who has claimed the agent is told its ask
	Lead int64 `msgpack:"lead"`
	Open bool  `msgpack:"open,omitempty"` // say the ask itself
}

// Ask is an agent's answer to a Call, on its hub's subject: what its owner wants for a task beside the
// metered cost.
type Ask struct {
	Agent  string         `msgpack:"agent"` // from the subject
	Class  string         `msgpack:"class"`
	Epoch  uint64         `msgpack:"epoch"`
	Seal   []byte         `msgpack:"seal,omitempty"` // market.Ask.Seal, while it is sealed
	Amount market.Credits `msgpack:"amount"`         // these two once it is open
	Nonce  []byte         `msgpack:"nonce,omitempty"`
}

// Seller is who sells an agent's slots, and in which class.
func (r *Registration) Seller() (owner, class string) {
	return cmp.Or(r.Owner, r.Node, r.Agent), cmp.Or(r.Class, r.Model)
}

func (*Call) message()          {}
func (*Ask) message()           {}
func (*Task) message()          {}
func (*Accepted) message()      {}
func (*Answer) message()        {}
func (*Dispatch) message()      {}
func (*DispatchReply) message() {}
func (*Chunk) message()         {}
func (*Result) message()        {}
func (*Completion) message()    {}
func (*CompletionAck) message() {}
func (*Cancel) message()        {}
func (*StreamControl) message() {}
func (*HoldControl) message()   {}
func (*Feedback) message()      {}
func (*Summary) message()       {}
func (*Holdings) message()      {}
func (*Status) message()        {}
