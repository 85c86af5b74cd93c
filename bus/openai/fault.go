package openai

import (
	"cmp"
	"net/http"
	"strings"

	"souk/bus"
	"souk/market"
)

// Codes of refusals that are no task's: stable, as those of [bus.Code].
const (
	CodeInvalidKey  bus.Code = "invalid_api_key"
	CodeNoEndpoint  bus.Code = "unsupported_endpoint"
	CodeRateLimited bus.Code = "rate_limit_exceeded"
)

// Fault is a refusal as a client over HTTP sees it.
type Fault struct {
	Status int
	Code   string // ours, or OpenAI's where clients act on that
	Type   string // follows the status: clients sort by it
	Again  bool   // the same request may be sent again: nothing was paid, and it may fare better
}

// faults lists how codes are shown. What might be served or paid twice has a status that no client repeats.
var faults = func() map[bus.Code]Fault {
	known := map[bus.Code]string{bus.CodePromptTooLong: "context_length_exceeded",
		bus.CodeInsufficientFunds: "insufficient_quota", bus.CodeUnknownModel: "model_not_found",
		// what agents and hubs tell one another
		bus.CodeNoSlot: string(bus.CodeNoRoom), bus.CodeStaleEpoch: string(bus.CodeNoRoom),
		bus.CodeNotClaimed: string(bus.CodeNoRoom)}
	all := map[bus.Code]Fault{}
	for status, codes := range map[int][]bus.Code{
		http.StatusBadRequest: {bus.CodeBadRequest, bus.CodeUnsupportedField, bus.CodeBadTerms,
			bus.CodeEmptyPrompt, bus.CodeEngineRefused, bus.CodePromptTooLong},
		http.StatusUnauthorized:          {CodeInvalidKey},
		http.StatusPaymentRequired:       {bus.CodeInsufficientFunds},
		http.StatusForbidden:             {bus.CodeUnknownClient},
		http.StatusNotFound:              {bus.CodeUnknownModel, CodeNoEndpoint},
		http.StatusConflict:              {bus.CodeDuplicate},
		http.StatusGone:                  {bus.CodeAnswerGone},
		http.StatusRequestEntityTooLarge: {bus.CodeTooLarge},
		http.StatusUnprocessableEntity:   {bus.CodeNotWorthIt, bus.CodePastDeadline, bus.CodeIDConflict},
		http.StatusFailedDependency: {bus.CodeUnknown, bus.CodeTimeout, bus.CodeCancelled,
			bus.CodeSlowReader},
		http.StatusTooManyRequests: {bus.CodeNoRoom, bus.CodeTooManyTasks, CodeRateLimited, bus.CodeNoSlot,
			bus.CodeStaleEpoch, bus.CodeNotClaimed},
		http.StatusBadGateway: {bus.CodeLate, bus.CodeLateFirst, bus.CodeMoved, bus.CodeEngineFailed,
			bus.CodeAgentFailed},
		http.StatusServiceUnavailable: {bus.CodeNoHub, bus.CodeDraining, bus.CodeUnavailable,
			bus.CodeAllotmentPending},
	} {
		again := status == http.StatusConflict || status == http.StatusTooManyRequests ||
			status == http.StatusServiceUnavailable
		for _, code := range codes {
			all[code] = Fault{Status: status, Code: known[code], Again: again}
		}
	}
	return all
}()

var types = map[int]string{
	http.StatusUnauthorized: "authentication_error", http.StatusPaymentRequired: "insufficient_quota",
	http.StatusForbidden: "permission_error", http.StatusNotFound: "not_found_error",
	http.StatusTooManyRequests: "rate_limit_error", http.StatusConflict: "conflict_error",
}

// FaultOf says how a code is shown. A task that waited until it was worth less than it costs, whose refusal
// therefore says when to come again, is told otherwise than one that never was worth it.
func FaultOf(code bus.Code, retryMS int64) Fault {
	f, ok := faults[code]
	switch {
	case !ok:
		f.Status = http.StatusInternalServerError
	case code == bus.CodeNotWorthIt && retryMS > 0:
		f.Status, f.Again = http.StatusTooManyRequests, true
	}
	f.Code = cmp.Or(f.Code, string(code))
	f.Type = types[f.Status]
	switch {
	case f.Type != "":
	case f.Status >= 500:
		f.Type = "server_error"
	default:
		f.Type = "invalid_request_error"
	}
	return f
}

// Refusal says why a request has no answer, or none to its end.
type Refusal struct {
	Code    bus.Code
	Message string
	Task    string          // may be empty
	Request string          // as its answer's header names it; may be empty
	RetryMS int64           // 0: not said
	Paid    *market.Credits // all that the request is paid; nil: not said
}

// Append writes it as OpenAI's clients read it.
func (r Refusal) Append(dst []byte) []byte {
	f := FaultOf(r.Code, r.RetryMS)
	o := Out(dst).Raw(`{"error":{"message":`).Str(cmp.Or(r.Message, string(r.Code))).
		Raw(`,"type":`).Str(f.Type).Raw(`,"param":`).StrOrNull(fieldOf(r.Code, r.Message)).
		Raw(`,"code":`).Str(f.Code)
	return r.souk(o).Raw("}}")
}

// souk writes the member of that name.
func (r Refusal) souk(o Out) Out {
	o = o.Raw(`,"souk":{"code":`).Str(string(r.Code))
	if r.Task != "" {
		o = o.Raw(`,"task":`).Str(r.Task)
	}
	if r.RetryMS > 0 {
		o = o.Raw(`,"retry_ms":`).Int(int(r.RetryMS))
	}
	if r.Paid != nil {
		o = o.Raw(`,"paid":`).Raw(r.Paid.String())
	}
	return o.Raw("}")
}

// fieldOf is the member of a body that a refusal begins with, as in "messages[0].role: ...".
func fieldOf(code bus.Code, message string) string {
	switch code {
	case bus.CodeBadRequest, bus.CodeUnsupportedField, bus.CodeBadTerms, bus.CodeEmptyPrompt:
	default:
		return ""
	}
	field, _, ok := strings.Cut(message, ": ")
	if !ok || strings.ContainsAny(field, ` "`) {
		return ""
	}
	return field
}

// Event writes it after a stream has begun. It is the last event.
func (r Refusal) Event(dst []byte) []byte {
	return Out(r.Append(Out(dst).Raw("data: "))).Raw(endEvent)
}
