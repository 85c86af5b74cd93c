package client

import (
	"context"
	"fmt"

	"souk/bus"
)

// large is a body that stays here until the answers to its tasks have ended: doors and agents ask for it.
type large struct {
	body []byte
	of   int // streams
}

// keep keeps a stream's body, and listens before its task is sent.
func (r *Reader) keep(s *Stream, l *bus.Large, body []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked == nil {
		sub, err := r.bus.Subscribe(bus.BodySubject(r.name, "*"), "", r.give)
		if err != nil {
			return fmt.Errorf("reader %s: subscribe: %w", r.name, err)
		}
		r.asked = sub
	}
	s.large = string(l.SHA256)
	if r.bodies[s.large] == nil {
		r.bodies[s.large] = &large{body: body}
	}
	r.bodies[s.large].of++
	return nil
}

// leave lets go of a stream's body.
func (r *Reader) leave(s *Stream) {
	if s.large == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bodies[s.large].of--; r.bodies[s.large].of == 0 {
		delete(r.bodies, s.large)
	}
	s.large = ""
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
