package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/bus/reader"
)

// doorWait is the longest wait for a door's own answers: a quote comes within [bus.QuoteWithin].
const doorWait = 2 * time.Second

// askDoor asks a door for an answer of its own, within a time, and reads that into said; what names it in
// errors.
func (cl *Client) askDoor(ctx context.Context, what string, within time.Duration, m bus.Msg,
	said bus.Message) error {
	waiting, stop := context.WithTimeout(ctx, within)
	defer stop()
	m, err := cl.bus.Request(waiting, m)
	switch {
	case err != nil && ctx.Err() != nil:
		return cancelled(ctx)
	case errors.Is(err, bus.ErrNoResponders), errors.Is(err, bus.ErrNotSent), errors.Is(err, bus.ErrTooLarge):
		return reader.NoVerdict(err, "")
	case err != nil:
		return &bus.Error{Code: bus.CodeUnavailable,
			Message: fmt.Sprintf("no door gave %s (%v); ask again", what, err)}
	}
	if err := bus.Decode(m.Data, said); err != nil {
		return fmt.Errorf("%s, of the door: %w", what, err)
	}
	return nil
}

// Quote estimates what a task would get if it were submitted now. Nothing is bought, reserved or remembered.
// Where no hub has a quote the error says why, and the quote lists each hub's reason.
func (cl *Client) Quote(ctx context.Context, t bus.Task) (q bus.Quote, err error) {
	within := doorWait
	t.Client = cl.c.ID
	body, err := detach(&t)
	if err != nil {
		return q, err
	}
	if t.Large != nil { // which the door has in pieces, as of a stream
		t.Stream, within = true, within+follow.BodyWithin(t.Large)
		if err := cl.reader.keep(t.Large, body); err != nil {
			return q, err
		}
		defer cl.reader.leave(t.Large)
	}
	data, err := bus.Encode(&t)
	if err != nil {
		return q, err
	}
	err = cl.askDoor(ctx, "a quote", within, bus.Msg{Subject: bus.QuoteSubject(cl.c.ID, cl.gateway()),
		Header: t.Trace.Header(nil), Data: data}, &q)
	if err != nil {
		return bus.Quote{}, err
	}
	if q.Code != "" {
		return q, &bus.Error{Code: q.Code, Message: q.Message}
	}
	return q, nil
}

// EndSession tells that a session of the client has had its last turn, so that what is kept for its next turn
// may go, and returns how many hubs were told. It changes nothing that was sold, and may be repeated.
// [bus.Task.SessionEnd] tells it with the last turn itself. It waits for a door for some seconds at most.
func (cl *Client) EndSession(ctx context.Context, session string) (hubs int, err error) {
	e := &bus.SessionEnd{Session: session}
	if err := e.Validate(); err != nil {
		return 0, err
	}
	data, err := bus.Encode(e)
	if err != nil {
		return 0, err
	}
	var said bus.SessionEnded
	err = cl.askDoor(ctx, "word of the session's end", doorWait,
		bus.Msg{Subject: bus.EndSubject(cl.c.ID, cl.gateway()), Data: data}, &said)
	if err == nil && said.Code != "" {
		err = &bus.Error{Code: said.Code, Message: said.Message}
	}
	return said.Hubs, err
}
