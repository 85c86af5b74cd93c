package client

import (
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
