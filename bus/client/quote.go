package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"souk/bus"
	"souk/bus/reader"
)

// quoteWait is the longest wait for what a door says at once: a quote comes within [bus.QuoteWithin].
const quoteWait = 2 * time.Second

// Quote asks what a task would be given if it were submitted now. Nothing is bought, reserved or remembered,
// and what is said is an estimate. Where no hub has a quote the error says why, and the quote what each says.
func (cl *Client) Quote(ctx context.Context, t bus.Task) (q bus.Quote, err error) {
	t.Client = cl.c.ID
	data, err := bus.Encode(&t)
	if err != nil {
		return q, err
	}
	waiting, stop := context.WithTimeout(ctx, quoteWait)
	defer stop()
	m, err := cl.bus.Request(waiting,
		bus.Msg{Subject: bus.QuoteSubject(cl.c.ID, cl.gateway()), Header: t.Trace.Header(nil), Data: data})
	switch {
	case err != nil && ctx.Err() != nil:
		return q, cancelled(ctx)
	case errors.Is(err, bus.ErrNoResponders), errors.Is(err, bus.ErrNotSent), errors.Is(err, bus.ErrTooLarge):
		return q, reader.NoVerdict(err, "")
	case err != nil:
		return q, &bus.Error{Code: bus.CodeUnavailable,
			Message: fmt.Sprintf("the door gave no quote (%v); ask again", err)}
	}
	if err := bus.Decode(m.Data, &q); err != nil {
		return bus.Quote{}, fmt.Errorf("quote of the door: %w", err)
	}
	if q.Code != "" {
		return q, &bus.Error{Code: q.Code, Message: q.Message}
	}
	return q, nil
}
