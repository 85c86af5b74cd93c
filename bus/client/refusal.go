package client

import (
	"context"
	"errors"
	"fmt"

	"souk/bus"
)

func refusal(r *bus.Result) error {
	if r.Code == "" {
		return nil
	}
	return &Refusal{Result: *r}
}

// Refusal is a Result with a code, as an error: a *bus.Error to errors.As, with all that the market said.
type Refusal struct{ Result bus.Result }

func (r *Refusal) Error() string { return r.Unwrap().Error() }

// Unwrap returns the code and message as a *bus.Error.
func (r *Refusal) Unwrap() error {
	return &bus.Error{Code: r.Result.Code, Message: r.Result.Message}
}

// wordless says what it means that no word on a task came.
func wordless(err error, task string) error {
	switch {
	case errors.Is(err, bus.ErrNoResponders):
		return &bus.Error{Code: bus.CodeUnavailable, Message: "no door listens on this bus; start a classifier, or try again shortly"}
	case errors.Is(err, bus.ErrNotSent):
		return &bus.Error{Code: bus.CodeUnavailable, Message: "the bus is out of reach, and the task was not sent; try again shortly"}
	case errors.Is(err, bus.ErrTooLarge):
		return &bus.Error{Code: bus.CodeTooLarge, Message: "the task is larger than one message; shorten the prompt"}
	}
	if errors.Is(err, context.Canceled) {
		return bus.ErrClosed
	}
	return &bus.Error{Code: bus.CodeUnknown, Message: fmt.Sprintf("the door gave no answer (%v); the task may still be served: ask again under its id, %s, and it is served and paid once", err, task)}
}
