package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"souk/bus"
	"souk/bus/client"
	"souk/bus/openai"
)

// list returns the models sold now that a key may ask for. Where the market is out of reach it returns an
// error, not an empty list.
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

func (s *Server) models(_ http.ResponseWriter, _ *http.Request, k *key) ([]byte, error) {
	all, err := s.list(k)
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		Object string         `json:"object"`
		Data   []openai.Model `json:"data"`
	}{"list", append([]openai.Model{}, all...)}) // an empty list is a list
}

func (s *Server) model(_ http.ResponseWriter, r *http.Request, k *key) ([]byte, error) {
	id, about := r.PathValue("id"), s.keys.about(k)
	if err := mayAsk(about, id); err != nil {
		return nil, err
	}
	all, err := s.list(k)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(m openai.Model) bool { return m.ID == id })
	if i < 0 {
		return nil, refuse(bus.CodeUnknownModel, "model %.200q is not sold here now: GET /v1/models lists "+
			"those that are", id)
	}
	return json.Marshal(all[i])
}

// askWithin bounds a question to the market that is no task.
const askWithin = 5 * time.Second

// asks has a key's client ask the market something, which counts as a request of the key. Who has closed its
// side may still read.
func (s *Server) asks(r *http.Request, k *key, ask func(context.Context, *payer) error) error {
	if err := s.keys.begin(time.Now(), k); err != nil {
		return err
	}
	defer s.keys.end(k)
	return s.asksFree(r, k, ask)
}

// asksFree does so without counting.
func (s *Server) asksFree(r *http.Request, k *key, ask func(context.Context, *payer) error) error {
	p, err := s.payer(s.keys.about(k).Client)
	if err != nil {
		return err
	}
	defer p.leave()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), askWithin)
	defer cancel()
	return ask(ctx, p)
}

// balance says what a key's client has, with ?hubs=true also what hubs have of it and what was spent there.
// Since those are asked it counts as a request of the key.
func (s *Server) balance(_ http.ResponseWriter, r *http.Request, k *key) ([]byte, error) {
	asks, ask := s.asksFree, (*client.Client).Balance
	switch said := r.URL.Query()["hubs"]; {
	case len(said) == 0, slices.Equal(said, []string{"false"}):
	case slices.Equal(said, []string{"true"}):
		asks, ask = s.asks, (*client.Client).Holdings
	default:
		return nil, refuse(bus.CodeBadRequest, "hubs: %.40q: write ?hubs=true or leave it out",
			strings.Join(said, ","))
	}
	var id string
	var reply bus.FundsReply
	err := asks(r, k, func(ctx context.Context, p *payer) (err error) {
		id = p.id
		reply, err = ask(p.Client, ctx, id)
		return err
	})
	if bus.CodeOf(err) == bus.CodeUnknown { // nothing was to happen, so it may be asked again
		return nil, again(bus.CodeUnavailable, time.Second, "the treasury is silent: ask again shortly")
	}
	if err != nil {
		return nil, err
	}
	return openai.EncodeBalance(id, reply)
}

// endSession says that a session of the key's client has had its last turn. A body is not read.
func (s *Server) endSession(_ http.ResponseWriter, r *http.Request, k *key) ([]byte, error) {
	session, hubs := openai.SessionOf(r.PathValue("session")), 0
	err := s.asks(r, k, func(ctx context.Context, p *payer) (err error) {
		hubs, err = p.EndSession(ctx, session)
		return err
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		Object  string `json:"object"`
		Session string `json:"session"`
		Ended   bool   `json:"ended"`
		Hubs    int    `json:"hubs"` // that were told
	}{"session", session, true, hubs})
}
