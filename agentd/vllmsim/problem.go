package vllmsim

import (
	"fmt"

	"souk/bus/openai"
)

// problem is an error as vLLM answers it.
type problem struct {
	status  int
	message string
	kind    string
	param   string // null if empty
}

func (p *problem) Error() string { return p.message }

// body is {"error": {...}}.
func (p *problem) body() []byte {
	return openai.Out(`{"error":{"message":`).Str(p.message).Raw(`,"type":`).Str(p.kind).Raw(`,"param":`).
		StrOrNull(p.param).Raw(`,"code":`).Int(p.status).Raw("}}")
}

// badRequest is a request that is well formed and makes no sense.
func badRequest(param, format string, args ...any) *problem {
	return &problem{400, fmt.Sprintf(format, args...), "BadRequestError", param}
}

// badValue is badRequest with the parameter and its value named at the end, as vLLM's VLLMValidationError
// prints them.
func badValue(param string, value any, format string, args ...any) *problem {
	m := fmt.Sprintf(format, args...) + " (parameter=" + param
	if value != nil {
		m += fmt.Sprintf(", value=%v", value)
	}
	return &problem{400, m + ")", "BadRequestError", param}
}

// invalid is a body of the wrong shape, in the words of pydantic.
func invalid(kind, loc, msg, input string) *problem {
	m := fmt.Sprintf("1 validation error:\n  {'type': '%s', 'loc': '%s', 'msg': '%s', 'input': %s}", kind,
		loc, msg, input)
	return &problem{400, m, "Bad Request", loc}
}

var (
	errMediaType = &problem{400,
		"1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed", "Bad Request",
		""}
	errQueueFull = &problem{503,
		"The engine is currently busy and cannot accept new requests. Please try again later or on a " +
			"different instance.", "Service Unavailable", ""}
	errShutdown = &problem{500, "cannot schedule new futures after shutdown", "InternalServerError", ""}
	errDead     = &problem{500,
		"EngineCore encountered an issue. See stack trace (above) for the root cause.", "InternalServerError",
		""}
)

func unknownModel(name, served string) *problem {
	return &problem{404, fmt.Sprintf("The model `%s` does not exist. Valid aliases: %s.", name, served),
		"NotFoundError", "model"}
}

// scaleOutOff is the answer of a server that was not started with --enable-scale-out.
var scaleOutOff = &problem{403,
	"Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them.",
	"PermissionDeniedError", ""}
