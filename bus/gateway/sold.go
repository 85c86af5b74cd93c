package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"souk/bus"
	"souk/bus/openai"
)

// list is what is sold now, of what a key may ask for. Where the market is out of reach nobody knows, and who
// asks is not told that nothing is.
func (s *Server) list(k *key) ([]openai.Model, error) {
	if s.d.Bus.Connected().IsZero() {
		return nil, bus.ErrDisconnected
	}
	now := time.Now()
	s.mu.Lock()
	var hubs []bus.Status
	for _, h := range s.hubs {
		if now.Sub(h.at) < silent {
			hubs = append(hubs, h.status)
		}
	}
	s.mu.Unlock()
	return openai.Models(hubs, s.keys.about(k).Models), nil
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request, k *key) error {
	all, err := s.list(k)
	if err != nil {
		return err
	}
	data, err := json.Marshal(struct {
		Object string         `json:"object"`
		Data   []openai.Model `json:"data"`
	}{"list", append([]openai.Model{}, all...)}) // an empty list is a list
	if err == nil {
		s.writeJSON(w, data)
	}
	return err
}

func (s *Server) model(w http.ResponseWriter, r *http.Request, k *key) error {
	id, about := r.PathValue("id"), s.keys.about(k)
	if err := mayAsk(&about, id); err != nil {
		return err
	}
	all, err := s.list(k)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(m openai.Model) bool { return m.ID == id })
	if i < 0 {
		return refuse(bus.CodeUnknownModel, "model %.200q is not sold here now", id)
	}
	data, err := json.Marshal(all[i])
	if err == nil {
		s.writeJSON(w, data)
	}
	return err
}

// treasuryWithin bounds a question to the treasury.
const treasuryWithin = 5 * time.Second

// balance says what a key's client has, with ?hubs=true also what hubs have of it and what was spent there.
// Since those are asked it counts as a request of the key.
func (s *Server) balance(w http.ResponseWriter, r *http.Request, k *key) error {
	id := s.keys.about(k).Client
	said, hubs := r.URL.Query()["hubs"], false
	switch {
	case len(said) == 0, slices.Equal(said, []string{"false"}):
	case slices.Equal(said, []string{"true"}):
		hubs = true
		if err := s.keys.begin(time.Now(), k); err != nil {
			return err
		}
		defer s.keys.end(k)
	default:
		return refuse(bus.CodeBadRequest, "hubs: %.40q: write ?hubs=true or leave it out",
			strings.Join(said, ","))
	}
	p, err := s.payer(id)
	if err != nil {
		return err
	}
	defer p.leave()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), treasuryWithin)
	defer cancel()
	ask := p.Balance
	if hubs {
		ask = p.Holdings
	}
	reply, err := ask(ctx, id)
	switch bus.CodeOf(err) {
	case "":
	case bus.CodeUnknown: // nothing was to happen, so it may be asked again
		return again(bus.CodeUnavailable, time.Second, "the treasury is silent: ask again shortly")
	default:
		return err
	}
	data, err := openai.EncodeBalance(id, reply)
	if err == nil {
		s.writeJSON(w, data)
	}
	return err
}
