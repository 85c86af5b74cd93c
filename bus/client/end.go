package client

import (
	"context"
	"errors"
	"fmt"

	"souk/bus"
	"souk/bus/reader"
)

// EndSession says that a session of the client has had its last turn, and returns how many hubs were told:
// what is kept for its next turn may go. It changes nothing that was sold; twice is once. With the last turn
// itself it is said by [bus.Task.SessionEnd]. It waits for a door for some seconds at most.
func (cl *Client) EndSession(ctx context.Context, session string) (hubs int, err error) {
	e := &bus.SessionEnd{Session: session}
	if err := e.Validate(); err != nil {
		return 0, err
	}
	data, err := bus.Encode(e)
	if err != nil {
		return 0, err
	}
	waiting, stop := context.WithTimeout(ctx, quoteWait)
	defer stop()
	m, err := cl.bus.Request(waiting,
		bus.Msg{Subject: bus.EndSubject(cl.c.ID, cl.gateway()), Data: data})
	switch {
	case err != nil && ctx.Err() != nil:
		return 0, cancelled(ctx)
	case errors.Is(err, bus.ErrNoResponders), errors.Is(err, bus.ErrNotSent):
		return 0, reader.NoVerdict(err, "")
	case err != nil:
		return 0, &bus.Error{Code: bus.CodeUnavailable,
			Message: fmt.Sprintf("no door confirmed the end of the session (%v); say it again", err)}
	}
	var said bus.SessionEnded
	if err := bus.Decode(m.Data, &said); err != nil {
		return 0, fmt.Errorf("what the door says of the session's end: %w", err)
	}
	if said.Code != "" {
		return 0, &bus.Error{Code: said.Code, Message: said.Message}
	}
	return said.Hubs, nil
}
