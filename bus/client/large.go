package client

import (
	"context"
	"fmt"

	"souk/bus"
)

// large is a body that stays here until the answers to its tasks have ended: doors and agents ask for it.
type large struct {
	body []byte
	of   int // streams and quotes
}

// detach takes a body that is too long for a message out of a task, and returns it.
func detach(t *bus.Task) (body []byte, err error) {
	if len(t.Body) > bus.MaxBody {
		t.Large, body, t.Body = bus.LargeOf(t.Body), t.Body, nil
		err = t.Large.Validate()
	}
	return body, err
}

// keep keeps a body, and listens before its task is sent. leave lets go of it.
func (r *Reader) keep(l *bus.Large, body []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked == nil {
		sub, err := r.bus.Subscribe(bus.BodySubject(r.name, "*"), "", r.give)
		if err != nil {
			return fmt.Errorf("reader %s: subscribe: %w", r.name, err)
		}
		r.asked = sub
	}
	sum := string(l.SHA256)
	if r.bodies[sum] == nil {
		r.bodies[sum] = &large{body: body}
	}
	r.bodies[sum].of++
	return nil
}

func (r *Reader) leave(l *bus.Large) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := string(l.SHA256)
	if r.bodies[sum].of--; r.bodies[sum].of == 0 {
		delete(r.bodies, sum)
	}
}

// give sends a piece to who asks for it.
func (r *Reader) give(m bus.Msg) {
	var ask bus.BodyAsk
	asker := bus.LastToken(m.Subject)
	if bus.Decode(m.Data, &ask) != nil || !bus.ValidID(asker) {
		return
	}
	r.mu.Lock()
	l := r.bodies[string(ask.SHA256)]
	r.mu.Unlock()
	piece := bus.BodyPiece{At: ask.At}
	if l != nil && ask.At < len(l.body) {
		piece.Data = l.body[ask.At:min(len(l.body), ask.At+bus.MaxBody)]
	}
	if data, err := bus.Encode(&piece); err == nil {
		if r.pace.Every > 0 {
			r.pace.Wait(context.Background())
		}
		r.bus.Publish(bus.Msg{Subject: bus.PieceSubject(asker, ask.Token, r.name), Data: data})
	}
}
