package classifier

import (
	"errors"
	"slices"
	"strings"

	"souk/bus"
)

// elsewhere tells refusals that say something of the hub from those that say something of the task.
func elsewhere(c bus.Code) bool {
	return slices.Contains([]bus.Code{bus.CodeNoRoom, bus.CodeUnavailable, bus.CodeDraining, bus.CodeUnknownModel, bus.CodePromptTooLong}, c)
}

func asError(err error) *bus.Error {
	var e *bus.Error
	if errors.As(err, &e) {
		return e
	}
	return &bus.Error{Code: bus.CodeInternal, Message: err.Error()}
}

// result is a refusal of the door's own.
func (r *request) result(e *bus.Error) *bus.Result {
	res := &bus.Result{Hub: r.hub, Code: e.Code, Message: clip(e.Message, bus.MaxText)}
	if bus.ValidID(r.client) {
		res.Client = r.client
	}
	if r.task != nil {
		res.Task, res.Session, res.Model = r.task.ID, r.task.Session, r.task.Model
	}
	switch e.Code {
	case bus.CodeNoRoom, bus.CodeNoHub, bus.CodeUnavailable, bus.CodeTooManyTasks, bus.CodeDraining:
		res.RetryMS = 250 // some statuses of a hub: what is true now may not be then
	}
	return res
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n-3], "") + "..."
}

func (r *request) refusal(e *bus.Error) bus.Answer { return bus.Answer{Result: r.result(e)} }
func (r *request) refuse(e *bus.Error)             { r.answer(r.refusal(e)) }
