package bus

import (
	"encoding/json"

	"souk/market"
)

// Accepted tells a streaming client who serves its task and where the chunks come: below Reply, each on a
// subject that ends in the name of its sender. Nobody but Hub and Agent has anything to say there, and whom
// Hub names later.
type Accepted struct {
	Client string `json:"client" msgpack:"client" want:"id"`
	Task   string `json:"task" msgpack:"task" want:"id"`
	Hub    string `json:"hub" msgpack:"hub" want:"id"`
	Agent  string `json:"agent" msgpack:"agent" want:"id"`
	Model  string `json:"model" msgpack:"model"`
	Reply  string `json:"reply" msgpack:"reply" want:"reply"`
	Round  uint64 `json:"round" msgpack:"round"`
	// of its chunks: what comes of an earlier one is of an agent that was given up, perhaps the same
	Attempt int `json:"attempt,omitempty" msgpack:"attempt,omitempty" want:"attempt"`
}

// Answer is the door's one answer to a request: Accepted for a stream, else the Result. Exactly one of them
// is set. In JSON the set one stands alone.
type Answer struct {
	Accepted *Accepted `json:"accepted,omitempty" msgpack:"accepted,omitempty"`
	Result   *Result   `json:"result,omitempty" msgpack:"result,omitempty"`
	// of a hub to a door, beside a Result: the hub does not know the task, and the door's word that no other
	// does is too old. It is to ask all hubs, and then to name this status
	Lookup *LastStatus `json:"-" msgpack:"lookup,omitempty"`
	// of a hub to a door, beside a Result: nobody else asked for the task while it was here, and no other hub
	// had it until this was said
	SoleOwner bool `json:"-" msgpack:"sole_owner,omitempty"`
}

// Chunk is a piece of an answer on the reply subject. Chunks of one attempt are numbered from 0
// without gaps; a heartbeat carries the number of the next chunk and consumes none.
type Chunk struct {
	Task    string `json:"task" msgpack:"t" want:"id"`
	Attempt int    `json:"attempt,omitempty" msgpack:"a,omitempty" want:"attempt"`
	Seq     uint64 `json:"seq" msgpack:"n"`
	Text    string `json:"text,omitempty" msgpack:"x,omitempty" want:"answer"`
	// ids the engine reported for Text; empty if it reports none
	Tokens []uint32 `json:"token_ids,omitempty" msgpack:"k,omitempty" want:"most:16384"`
	// output tokens in this chunk, as far as known
	Count int `json:"tokens,omitempty" msgpack:"c,omitempty"`
	// engine events that say more than plain text
	Extra []Extra `json:"extra,omitempty" msgpack:"e,omitempty" want:"most:16384"`
	// the engine said that the answer ends here
	Finish    bool `json:"finish,omitempty" msgpack:"f,omitempty"`
	Heartbeat bool `json:"heartbeat,omitempty" msgpack:"h,omitempty"`
	// in heartbeats of a later attempt: who serves now
	Agent string `json:"agent,omitempty" msgpack:"g,omitempty" want:"id?"`
	// of a hub: nobody listens any more where Agent did. A reader that has not had the end is to say so, by
	// asking for the rest; the hub does not know whether it has
	Dead bool `json:"dead,omitempty" msgpack:"o,omitempty"`
	// the end frame. What it has beside that, of a task with Tail, is the last of the answer, and comes after
	// the numbered chunks
	Result *Result `json:"result,omitempty" msgpack:"r,omitempty"`
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
	ID string `json:"id" msgpack:"id"` // of the hold: "<journal>/<round>/<slot>"
	// of the hold's record in the journal, from 0 on
	Index   int64  `json:"index,omitempty" msgpack:"index,omitempty"`
	Journal string `json:"journal" msgpack:"journal"`
	Round   uint64 `json:"round" msgpack:"round"`
	Epoch   int64  `json:"epoch" msgpack:"epoch"`
	// ids of earlier holds of the task, void: their agents failed
	Earlier []string `json:"earlier,omitempty" msgpack:"earlier,omitempty" want:"most:64"`
}

// Result is the last word on a task: an answer with what was paid, or why there is none.
type Result struct {
	Client  string `json:"client" msgpack:"client" want:"id?"`
	Task    string `json:"task" msgpack:"task" want:"id?"`
	Session string `json:"session,omitempty" msgpack:"session,omitempty" want:"id?"`
	Hub     string `json:"hub,omitempty" msgpack:"hub,omitempty" want:"id?"`
	Agent   string `json:"agent,omitempty" msgpack:"agent,omitempty" want:"id?"`
	Model   string `json:"model,omitempty" msgpack:"model,omitempty"`

	Code    Code   `json:"code,omitempty" msgpack:"code,omitempty"` // empty: served to the end
	Message string `json:"message,omitempty" msgpack:"message,omitempty" want:"text"`
	// > 0: worth trying again after so long
	RetryMS int64 `json:"retry_ms,omitempty" msgpack:"retry_ms,omitempty" want:"ms"`

	// of a collected answer
	Text   string          `json:"text,omitempty" msgpack:"text,omitempty" want:"answer"`
	Extra  []Extra         `json:"extra,omitempty" msgpack:"extra,omitempty" want:"most:16384"`
	Finish string          `json:"finish_reason,omitempty" msgpack:"finish,omitempty"`
	Stop   json.RawMessage `json:"stop_reason,omitempty" msgpack:"stop,omitempty" want:"text"`
	// numbered chunks before this one
	Chunks uint64 `json:"chunks,omitempty" msgpack:"chunks,omitempty"`

	Usage market.Usage `json:"usage" msgpack:"usage"`
	// the usage that Cost is for, where that is not Usage: if an answer went on elsewhere, the part of the
	// agent that finished it
	Billed *market.Usage `json:"billed,omitempty" msgpack:"billed,omitempty"`
	// of Usage.Output, what was reasoning or ended it; 0 where that is not known
	Thought int `json:"reasoning_tokens,omitempty" msgpack:"thought,omitempty"`
	// the engine sent no usage: counted from what was relayed
	Unmetered bool `json:"unmetered,omitempty" msgpack:"unmetered,omitempty"`
	// at the agent, from dispatch to first token
	TTFTUS int64 `json:"ttft_us,omitempty" msgpack:"ttft_us,omitempty" want:"us"`
	ITLUS  int64 `json:"itl_us,omitempty" msgpack:"itl_us,omitempty" want:"us"` // mean

	Cost      market.Credits `json:"cost" msgpack:"cost"`
	Premium   market.Credits `json:"premium" msgpack:"premium" want:"signed"`
	SlotPrice market.Credits `json:"slot_price" msgpack:"slot_price" want:"signed"`
	Toll      market.Credits `json:"toll" msgpack:"toll" want:"signed"` // all of it, the fee included
	Fee       market.Credits `json:"fee" msgpack:"fee"`
	Receipt   *Receipt       `json:"receipt,omitempty" msgpack:"receipt,omitempty"`

	// of the toll, what the client's own tasks bear: it is not charged
	Own market.Credits `json:"own,omitempty" msgpack:"own,omitempty"`
}

// Paid returns what the client owes: cost and premium. It is 0 for a task that was not served.
func (r Result) Paid() market.Credits { return r.Cost + r.Premium }

// NotNow reports whether a hub refuses a task only for the moment: its client's money is held for other
// tasks, or too many wait. A reader of an answer that broke off asks again for its rest after that, and after
// [Code.Unsaid]; any other refusal is final.
func (r *Result) NotNow() bool {
	return r.RetryMS > 0 &&
		(r.Code == CodeAllotmentPending || r.Code == CodeNoRoom || r.Code == CodeTooManyTasks)
}

// StreamControl is a message of an answer's reader, whom the subject names, to the agent that serves it:
// exactly one of the fields beside Token is set.
type StreamControl struct {
	Token string `json:"task" msgpack:"task" want:"id"` // of the answer: see Task
	// send again from this chunk number on
	Resume *uint64 `json:"resume,omitempty" msgpack:"resume,omitempty"`
	// everything below this number has arrived
	Ack    *uint64 `json:"ack,omitempty" msgpack:"ack,omitempty"`
	Cancel bool    `json:"cancel,omitempty" msgpack:"cancel,omitempty"`
}
