package gateway

import (
	"context"
	"net/http"
	"time"

	"souk/bus"
	"souk/bus/openai"
)

// quote says what a request would be given, as an estimate. It counts as a request of its key, and is open
// as long as it lasts.
func (s *Server) quote(w http.ResponseWriter, r *http.Request, k *key) error {
	room := share{of: &s.memory, key: &k.coming}
	defer func() { room.set(0) }()
	data, err := s.readBody(w, r, &room)
	if err != nil {
		return err
	}
	if err := room.resize(2 * cap(data)); err != nil {
		return err
	}
	about := s.keys.about(k)
	header, _, err := terms(r.Header)
	if err != nil {
		return err
	}
	asked, no := openai.Ask(data, header, about.Client, "")
	if no != nil {
		return no
	}
	if len(asked.Tasks) > 1 {
		return refuse(bus.CodeUnsupportedField, "n and a list of prompts ask for %d answers; a quote is for one: "+
			"send n 1 and one prompt", len(asked.Tasks))
	}
	if err := limit(asked, &about); err != nil {
		return err
	}
	if err := s.keys.begin(time.Now(), k); err != nil {
		return err
	}
	defer s.keys.end(k)
	p, err := s.payer(about.Client)
	if err != nil {
		return err
	}
	defer p.leave()
	task := asked.Tasks[0]
	task.Trace = bus.TraceOf(bus.Header(r.Header))
	q, err := p.Quote(context.WithoutCancel(r.Context()), task) // who has closed its side may still read
	if q.Code != "" {
		return &refusal{code: q.Code, message: q.Message, retryMS: q.RetryMS}
	}
	if err != nil {
		return err
	}
	object, err := openai.EncodeQuote(&q)
	if err == nil {
		s.writeJSON(w, object)
	}
	return err
}
