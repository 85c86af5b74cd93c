package classifier

import (
	"errors"
	"strings"

	"souk/bus"
)

func asError(err error) *bus.Error {
	var e *bus.Error
	if errors.As(err, &e) {
		return e
	}
	return &bus.Error{Code: bus.CodeInternal, Message: err.Error()}
}

// refusal is a refusal of the door's own; hub is the one that was asked last, task what was read of the request.
func refusal(e *bus.Error, client, hub string, task *bus.Task) *bus.Result {
	res := &bus.Result{Hub: hub, Code: e.Code, Message: clip(e.Message, bus.MaxText)}
	if bus.ValidID(client) {
		res.Client = client
	}
	if task != nil {
		res.Task, res.Session, res.Model = task.ID, task.Session, task.Model
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
