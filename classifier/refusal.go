package classifier

import (
	"errors"
	"fmt"

	"souk/bus"
)

// Stock clients ask twice more, after as long as they are told.
const (
	// a hub that has just come takes as long to have its agents, and one that stands by to lead after one
	// that was told to end
	retryMS = 1000
	// half of what it takes to lead after one that was killed: the rest of a lease of 5 s, and its agents
	leadMS = 3500
)

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
	case bus.CodeNoRoom, bus.CodeTooManyTasks, bus.CodeDraining:
		res.RetryMS = retryMS
	case bus.CodeNoHub, bus.CodeUnavailable:
		res.RetryMS = leadMS
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
