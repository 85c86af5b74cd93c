package bus

import "slices"

// Code is a stable error code: part of the API, never reworded. The empty code means success.
type Code string

const (
	// malformed bytes, JSON or msgpack; a missing or ill-typed field
	CodeBadRequest        Code = "bad_request"
	CodeTooLarge          Code = "too_large"         // a message, or the body in it, beyond its limit
	CodeUnsupportedField  Code = "unsupported_field" // n > 1, embeddings, ...
	CodeEmptyPrompt       Code = "empty_prompt"
	CodePromptTooLong     Code = "prompt_too_long" // beyond every eligible agent's context
	CodeBadTerms          Code = "bad_terms"       // negative or absurd terms
	CodeUnknownModel      Code = "unknown_model"
	CodeUnknownClient     Code = "unknown_client"
	CodeInsufficientFunds Code = "insufficient_funds"
	CodeAllotmentPending  Code = "allotment_pending" // money is under way: retry
	CodePastDeadline      Code = "past_deadline"
	CodeIDConflict        Code = "id_conflict"    // same id, other content
	CodeDuplicate         Code = "duplicate"      // same id and content, still running
	CodeUnknown           Code = "unknown"        // the fate of the task is not known here
	CodeNoRoom            Code = "no_room"        // no slot, or a full queue
	CodeNotWorthIt        Code = "not_worth_it"   // it is worth less than it costs, wherever it went
	CodeNoHub             Code = "no_hub"         // no live hub serves it
	CodeTooManyTasks      Code = "too_many_tasks" // open tasks of one client
	CodeCancelled         Code = "cancelled"
	CodeAgentFailed       Code = "agent_failed"
	CodeEngineFailed      Code = "engine_failed"
	CodeEngineRefused     Code = "engine_refused" // the engine's own 4xx, quoted in the message
	CodeTimeout           Code = "timeout"
	CodeAnswerGone        Code = "answer_gone"
	CodeSlowReader        Code = "slow_reader"
	CodeNoSlot            Code = "no_slot"     // agent to hub
	CodeStaleEpoch        Code = "stale_epoch" // agent to hub
	CodeNotClaimed        Code = "not_claimed" // agent to hub
	CodeDraining          Code = "draining"
	CodeLate              Code = "late"
	CodeMoved             Code = "moved"       // hub to agent: another agent serves the task now
	CodeLateFirst         Code = "late_first"  // in journals: no token came in time
	CodeUnavailable       Code = "unavailable" // NATS, etcd, journal or engine out of reach
	CodeInternal          Code = "internal"
)

// codes lists every code.
var codes = []Code{
	CodeBadRequest, CodeTooLarge, CodeUnsupportedField, CodeEmptyPrompt, CodePromptTooLong,
	CodeBadTerms, CodeUnknownModel, CodeUnknownClient, CodeInsufficientFunds, CodeAllotmentPending,
	CodePastDeadline, CodeIDConflict, CodeDuplicate, CodeUnknown, CodeNoRoom,
	CodeNotWorthIt, CodeNoHub, CodeTooManyTasks, CodeCancelled, CodeAgentFailed, CodeEngineFailed,
	CodeEngineRefused, CodeTimeout, CodeAnswerGone, CodeSlowReader, CodeNoSlot, CodeStaleEpoch,
	CodeNotClaimed, CodeDraining, CodeLate, CodeMoved, CodeLateFirst, CodeUnavailable,
	CodeInternal,
}

// Known reports whether a code is one of ours. Agents may say any word.
func (c Code) Known() bool { return slices.Contains(codes, c) }

// Broken reports whether a failure lies with an agent or its engine, so that another may do better.
func (c Code) Broken() bool { return c == CodeEngineFailed || c == CodeAgentFailed }

// Unbegun reports whether an agent says that its engine did not begin a task: it was full, serves the model
// no more, or was out of reach.
func (c Code) Unbegun() bool { return c == CodeNoSlot || c == CodeUnknownModel || c == CodeUnavailable }

// Unsaid reports whether a refusal leaves open who has a task: the hub, or the door, is not there, or it has
// another question for the same, such as that which an earlier door still asks.
func (c Code) Unsaid() bool {
	return c == CodeUnavailable || c == CodeDraining || c == CodeDuplicate
}
