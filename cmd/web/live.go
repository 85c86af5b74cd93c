package web

import (
	"bytes"
	"context"
	"net/http"
	"time"
)

// quietFor is how long a stream may say nothing: who has left is noticed then.
const quietFor = 10 * time.Second

// stream keeps a page up to date, as server-sent events: whenever its part that lives has changed, all of
// that part. It ends with the session, the console, or one who does not read.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, v view) {
	if s.door.role(r) == "" {
		http.Error(w, "log in", http.StatusUnauthorized)
		return
	}
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		w.Header().Set("Retry-After", "30")
		http.Error(w, "as many pages are kept up to date as may be", http.StatusServiceUnavailable)
		return
	}
	defer s.watcher.Look()()
	w.Header().Set("Content-Type", "text/event-stream")
	to := http.NewResponseController(w)
	to.SetReadDeadline(time.Time{})                                // nothing more is to come
	defer func() { to.SetWriteDeadline(time.Now().Add(s.slow)) }() // for the end to be sent
	tick := time.Tick(s.every)
	var last []byte
	said := time.Now()
	for {
		role := s.door.role(r)
		if role == "" || v.operator && role != Operator {
			return
		}
		now, err := s.fragment(r, v, role)
		switch {
		case err != nil: // the page stays as it is
			now = last
		case bytes.Equal(now, last) && time.Since(said) < quietFor:
			now = nil
		}
		if now != nil {
			to.SetWriteDeadline(time.Now().Add(s.slow))
			if _, err := w.Write(now); err != nil || to.Flush() != nil {
				return
			}
			last, said = now, time.Now()
		}
		select {
		case <-tick:
		case <-r.Context().Done():
			return
		case <-s.life.Done():
			return
		}
	}
}

// fragment is the part of a page that lives, as an event.
func (s *Server) fragment(r *http.Request, v view, role Role) ([]byte, error) {
	ctx, cancel := context.WithTimeout(r.Context(), pageWithin)
	defer cancel()
	data, err := v.data(s, r.WithContext(ctx), role)
	if err != nil {
		return nil, err
	}
	text, err := render(v.file, "live", &page{Operator: role == Operator, Data: data})
	if err != nil {
		return nil, err
	}
	return event(text), nil
}

// event is a rendered text as a server-sent event.
func event(text []byte) []byte {
	var b bytes.Buffer
	for line := range bytes.Lines(text) {
		b.WriteString("data: ")
		b.Write(bytes.TrimRight(line, "\n"))
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	return b.Bytes()
}
