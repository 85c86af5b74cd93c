package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"souk/bus/openai"
)

// endSession says that a session of the key's client has had its last turn. It counts as a request of its
// key. A body is not read.
func (s *Server) endSession(w http.ResponseWriter, r *http.Request, k *key) error {
	if err := s.keys.begin(time.Now(), k); err != nil {
		return err
	}
	defer s.keys.end(k)
	p, err := s.payer(s.keys.about(k).Client)
	if err != nil {
		return err
	}
	defer p.leave()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), treasuryWithin)
	defer cancel()
	session := openai.SessionOf(r.PathValue("session"))
	hubs, err := p.EndSession(ctx, session)
	if err != nil {
		return err
	}
	data, err := json.Marshal(struct {
		Object  string `json:"object"`
		Session string `json:"session"`
		Ended   bool   `json:"ended"`
		Hubs    int    `json:"hubs"` // that were told
	}{"session", session, true, hubs})
	if err == nil {
		s.writeJSON(w, data)
	}
	return err
}
