package openai

import (
	"cmp"
	"net/http"
	"strings"

	"souk/bus"
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
	bus.CodeOutbid:            {Status: http.StatusTooManyRequests, Again: true},
	bus.CodeNoRoom:            {Status: http.StatusTooManyRequests, Again: true},
	bus.CodeTooManyTasks:      {Status: http.StatusTooManyRequests, Again: true},
	CodeRateLimited:           {Status: http.StatusTooManyRequests, Again: true},
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

// FaultOf says how a code is shown.
func FaultOf(code bus.Code) Fault {
	f, ok := faults[code]
	if !ok {
		f.Status = http.StatusInternalServerError
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

// AppendError writes a refusal as OpenAI's clients read it. task may be empty, retryMS 0.
func AppendError(dst []byte, code bus.Code, message, task string, retryMS int64) []byte {
	f := FaultOf(code)
	o := Out(dst).Raw(`{"error":{"message":`).Str(cmp.Or(message, string(code))).Raw(`,"type":`).Str(f.Type).
		Raw(`,"param":`).StrOrNull(fieldOf(code, message)).Raw(`,"code":`).Str(f.Code).
		Raw(`,"souk":{"code":`).Str(string(code))
	if task != "" {
		o = o.Raw(`,"task":`).Str(task)
	}
	if retryMS > 0 {
		o = o.Raw(`,"retry_ms":`).Int(int(retryMS))
	}
	return o.Raw(`}}}`)
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

// ErrorEvent is a refusal after a stream has begun. It is the last event.
func ErrorEvent(dst []byte, code bus.Code, message, task string, retryMS int64) []byte {
	return Out(AppendError(Out(dst).Raw("data: "), code, message, task, retryMS)).Raw(endEvent)
}
