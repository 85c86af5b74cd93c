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

var noRoom = Fault{Status: http.StatusTooManyRequests, Code: string(bus.CodeNoRoom), Again: true}

// faults are the statuses of codes. What might be served or paid twice has one that no client repeats.
var faults = map[bus.Code]Fault{
	bus.CodeBadRequest:        {Status: http.StatusBadRequest},
	bus.CodeUnsupportedField:  {Status: http.StatusBadRequest},
	bus.CodeBadTerms:          {Status: http.StatusBadRequest},
	bus.CodeEmptyPrompt:       {Status: http.StatusBadRequest},
	bus.CodeEngineRefused:     {Status: http.StatusBadRequest},
	bus.CodePromptTooLong:     {Status: http.StatusBadRequest, Code: "context_length_exceeded"},
	CodeInvalidKey:            {Status: http.StatusUnauthorized},
	bus.CodeInsufficientFunds: {Status: http.StatusPaymentRequired, Code: "insufficient_quota"},
	bus.CodeUnknownClient:     {Status: http.StatusForbidden},
	bus.CodeUnknownModel:      {Status: http.StatusNotFound, Code: "model_not_found"},
	CodeNoEndpoint:            {Status: http.StatusNotFound},
	bus.CodeDuplicate:         {Status: http.StatusConflict, Again: true},
	bus.CodeAnswerGone:        {Status: http.StatusGone},
	bus.CodeTooLarge:          {Status: http.StatusRequestEntityTooLarge},
	bus.CodeNotWorthIt:        {Status: http.StatusUnprocessableEntity},
	bus.CodePastDeadline:      {Status: http.StatusUnprocessableEntity},
	bus.CodeIDConflict:        {Status: http.StatusUnprocessableEntity},
	bus.CodeUnknown:           {Status: http.StatusFailedDependency},
	bus.CodeTimeout:           {Status: http.StatusFailedDependency},
	bus.CodeCancelled:         {Status: http.StatusFailedDependency},
	bus.CodeSlowReader:        {Status: http.StatusFailedDependency},
	bus.CodeNoRoom:            {Status: http.StatusTooManyRequests, Again: true},
	bus.CodeTooManyTasks:      {Status: http.StatusTooManyRequests, Again: true},
	CodeRateLimited:           {Status: http.StatusTooManyRequests, Again: true},
	bus.CodeNoSlot:            noRoom, // what agents and hubs tell one another
	bus.CodeStaleEpoch:        noRoom,
	bus.CodeNotClaimed:        noRoom,
	bus.CodeLate:              {Status: http.StatusBadGateway},
	bus.CodeLateFirst:         {Status: http.StatusBadGateway},
	bus.CodeMoved:             {Status: http.StatusBadGateway},
	bus.CodeEngineFailed:      {Status: http.StatusBadGateway},
	bus.CodeAgentFailed:       {Status: http.StatusBadGateway},
	bus.CodeNoHub:             {Status: http.StatusServiceUnavailable, Again: true},
	bus.CodeDraining:          {Status: http.StatusServiceUnavailable, Again: true},
	bus.CodeUnavailable:       {Status: http.StatusServiceUnavailable, Again: true},
	bus.CodeAllotmentPending:  {Status: http.StatusServiceUnavailable, Again: true},
}

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
