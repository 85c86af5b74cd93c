package membus

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"

	"souk/bus"
)

// service answers the discovery subjects of one Serve call as NATS micro does.
type service struct {
	bus   *Bus
	about bus.Service
	id    string
	count []atomic.Int64 // requests, by endpoint
	subs  []bus.Subscription
}

// Identity is the part that all answers to $SRV requests share.
type identity struct {
	Type     string            `json:"type"`
	Name     string            `json:"name"`
	ID       string            `json:"id"`
	Version  string            `json:"version"`
	Metadata map[string]string `json:"metadata"`
}

type endpointInfo struct {
	Name     string `json:"name"`
	Subject  string `json:"subject"`
	Queue    string `json:"queue_group"`
	Requests *int64 `json:"num_requests,omitempty"`
}

func (b *Bus) Serve(about bus.Service) (bus.Subscription, error) {
	if !bus.ValidID(about.Name) || about.Version == "" {
		return nil, fmt.Errorf("service %q %q: it needs a name of letters, digits, '-' and '_', and a "+
			"version", about.Name, about.Version)
	}
	b.world.mu.Lock()
	b.world.ids++
	s := &service{bus: b, about: about, id: fmt.Sprintf("%s-%d", b.name, b.world.ids),
		count: make([]atomic.Int64, len(about.Endpoints))}
	b.world.mu.Unlock()
	for i, e := range about.Endpoints {
		handle := func(m bus.Msg) { s.count[i].Add(1); e.Handle(m) }
		if err := s.listen(e.Subject, queueOf(e), handle); err != nil {
			s.Stop()
			return nil, fmt.Errorf("service %s: endpoint %s: %w", about.Name, e.Name, err)
		}
	}
	for _, q := range []struct {
		verb   string
		answer func() any
	}{{"PING", s.ping}, {"INFO", s.info}, {"STATS", s.stats}} {
		for _, who := range []string{"", "." + about.Name, "." + about.Name + "." + s.id} {
			if err := s.listen("$SRV."+q.verb+who, "", s.answer(q.answer)); err != nil {
				s.Stop()
				return nil, fmt.Errorf("service %s: %w", about.Name, err)
			}
		}
	}
	return s, nil
}

func (s *service) listen(subject, queue string, h bus.Handler) error {
	sub, err := s.bus.Subscribe(subject, queue, h)
	if err == nil {
		s.subs = append(s.subs, sub)
	}
	return err
}

func (s *service) answer(what func() any) bus.Handler {
	return func(m bus.Msg) {
		if m.Reply == "" {
			return
		}
		data, err := json.Marshal(what())
		if err != nil {
			panic("membus: discovery answer does not encode: " + err.Error())
		}
		// A requester that has gone, or a bus that has just been cut, needs no answer.
		_ = s.bus.Publish(bus.Msg{Subject: m.Reply, Data: data})
	}
}

func (s *service) identity(kind string) identity {
	return identity{"io.nats.micro.v1." + kind + "_response", s.about.Name, s.id, s.about.Version,
		s.about.Metadata}
}

func (s *service) ping() any { return s.identity("ping") }

func (s *service) info() any {
	return struct {
		identity
		Description string         `json:"description"`
		Endpoints   []endpointInfo `json:"endpoints"`
	}{s.identity("info"), s.about.Description, s.endpoints(false)}
}

func (s *service) stats() any {
	return struct {
		identity
		Endpoints []endpointInfo `json:"endpoints"`
	}{s.identity("stats"), s.endpoints(true)}
}

func (s *service) endpoints(counts bool) []endpointInfo {
	out := []endpointInfo{}
	for i, e := range s.about.Endpoints {
		info := endpointInfo{Name: e.Name, Subject: e.Subject, Queue: queueOf(e)}
		if counts {
			n := s.count[i].Load()
			info.Requests = &n
		}
		out = append(out, info)
	}
	return out
}

// Stop ends the endpoints and the discovery.
func (s *service) Stop() error {
	var failed []string
	for _, sub := range s.subs {
		if err := sub.Stop(); err != nil {
			failed = append(failed, err.Error())
		}
	}
	if failed != nil {
		return fmt.Errorf("service %s: %s", s.about.Name, strings.Join(failed, "; "))
	}
	return nil
}

func queueOf(e bus.Endpoint) string {
	if e.Queue == "" {
		return "q" // what NATS micro uses
	}
	return e.Queue
}
