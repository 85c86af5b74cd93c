package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"souk/bus"
	"souk/bus/client"
	"souk/bus/openai"
	"souk/market"
)

// refusal says why a request has no answer, or none to its end.
type refusal struct {
	code    bus.Code
	message string
	task    string
	retryMS int64
	paid    market.Credits
	summed  bool // paid is all that its request is paid
	again   bool // although its code says otherwise
	last    bool // an agent had the task: who asks again under its id is refused again, and in fewer words
}

func (r *refusal) Error() string { return string(r.code) + ": " + r.message }

func refuse(code bus.Code, format string, args ...any) *refusal {
	return &refusal{code: code, message: fmt.Sprintf(format, args...)}
}

// again is a refusal after which the same request may come again.
func again(code bus.Code, after time.Duration, format string, args ...any) *refusal {
	r := refuse(code, format, args...)
	r.retryMS = max(1, after.Milliseconds())
	return r
}

// asRefusal turns an error into the refusal that the client is shown.
func asRefusal(err error) *refusal {
	var mine *refusal
	var said *client.Refusal
	var e *bus.Error
	switch {
	case errors.As(err, &mine):
		return mine
	case errors.As(err, &said):
		r := said.Result
		return &refusal{code: r.Code, message: r.Message, task: r.Task, retryMS: r.RetryMS, paid: r.Paid(),
			last: r.Receipt != nil && !openai.FaultOf(r.Code, r.RetryMS).Again}
	case errors.As(err, &e):
		return &refusal{code: e.Code, message: e.Message}
	case errors.Is(err, bus.ErrClosed), errors.Is(err, bus.ErrDisconnected),
		errors.Is(err, bus.ErrNoResponders):
		return again(bus.CodeUnavailable, time.Second, "the market is out of reach: try again shortly")
	}
	return refuse(bus.CodeInternal, "%v", err)
}

// retryDefault is the wait before a retry, in milliseconds, where a refusal names none.
const retryDefault = 1000

// status returns the HTTP status of its answer.
func (r *refusal) status() int {
	if r.again {
		return http.StatusServiceUnavailable
	}
	return openai.FaultOf(r.code, r.retryMS).Status
}

// write answers a request with a refusal, in the words of the API that it asked by.
func (r *refusal) write(w http.ResponseWriter, as func(openai.Refusal, []byte) []byte) {
	f, status := openai.FaultOf(r.code, r.retryMS), r.status()
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if f.Again || r.again {
		r.retryMS = cmp.Or(r.retryMS, retryDefault)
		h.Set("Retry-After-Ms", strconv.FormatInt(r.retryMS, 10))
		h.Set("Retry-After", strconv.FormatInt((r.retryMS+999)/1000, 10))
	} else {
		h.Set("X-Should-Retry", "false")
	}
	if r.code == bus.CodeDraining { // another gateway is reached by another connection
		h.Set("Connection", "close")
	}
	if status == http.StatusUnauthorized { // RFC 9110: with a challenge; some clients fail without
		h.Set("WWW-Authenticate", "Bearer")
	}
	if r.task != "" {
		h.Set("X-Souk-Task", r.task)
	}
	if r.summed && r.paid > 0 {
		h.Set("X-Souk-Paid", r.paid.String())
	}
	w.WriteHeader(status)
	said := r.shown()
	said.Request = h.Get(requestHeader)
	w.Write(as(said, nil))
}

// shown returns the refusal as it is written.
func (r *refusal) shown() openai.Refusal {
	s := openai.Refusal{Code: r.code, Message: r.message, Task: r.task, RetryMS: r.retryMS}
	if r.summed {
		s.Paid = &r.paid
	}
	return s
}
