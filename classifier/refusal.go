package classifier

import (
	"errors"
	"fmt"

	"souk/bus"
)

// retryMS is as long as another hub takes to lead, or one that has just come to have its agents: stock
// clients ask twice more.
const retryMS = 1000

// startMS is some of the time that an engine takes to start: clients ask again two or three times.
const startMS = 5_000

func refusal(code bus.Code, format string, args ...any) *bus.Error {
	return &bus.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Refusal is a refusal of the door's own; hub is the one that was asked last, or none, and task what was read
// of the request, or nil.
func Refusal(err error, client, hub string, task *bus.Task) *bus.Result {
	res := &bus.Result{Hub: hub, Code: bus.CodeOf(err), Message: bus.Clip(bus.MessageOf(err), bus.MaxText)}
	if bus.ValidID(client) {
		res.Client = client
	}
	if task != nil {
		res.Task, res.Session, res.Model = task.ID, task.Session, task.Model
	}
	switch res.Code {
	case bus.CodeNoRoom, bus.CodeNoHub, bus.CodeUnavailable, bus.CodeTooManyTasks, bus.CodeDraining:
		res.RetryMS = retryMS
	}
	var e *bus.Error
	if errors.As(err, &e) && e.RetryMS > 0 {
		res.RetryMS = e.RetryMS
	}
	return res
}

// Cut is a result without its text, where that made an answer of so many bytes, more than one message holds:
// what was paid must be told all the same.
func Cut(r *bus.Result, size, most int) *bus.Result {
	cut := *r
	cut.Text, cut.Extra = "", nil
	cut.Code, cut.Message = bus.CodeTooLarge, fmt.Sprintf(
		"the answer takes %d bytes, a message at most %d; ask for such answers with stream: true", size, most)
	return &cut
}
