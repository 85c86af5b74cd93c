package natsbus

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"souk/bus"
)

// Serve offers the service, and says what `nats micro ls` and its kin ask of it. NATS' own code for that
// would publish what it says wherever the asker likes; here it goes to inboxes alone.
func (b *Bus) Serve(s bus.Service) (bus.Subscription, error) {
	id := micro.ServiceIdentity{Name: s.Name, ID: rand.Text(), Version: s.Version,
		Metadata: map[string]string{}}
	out := &service{bus: b, started: time.Now().UTC(),
		info: micro.Info{ServiceIdentity: id, Type: micro.InfoResponseType, Description: s.Description}}
	if !bus.ValidID(s.Name) {
		return nil, fmt.Errorf("service: name %.80q is not an id", s.Name)
	}
	if err := out.serve(s); err != nil {
		out.Stop()
		return nil, fmt.Errorf("service %s: %w", s.Name, err)
	}
	return out, nil
}

// service holds a service's subscriptions and counts.
type service struct {
	bus     *Bus
	subs    []bus.Subscription
	started time.Time
	info    micro.Info
	counts  []count // by endpoint
}

// count counts requests, and the time that handlers took for them.
type count struct{ requests, took atomic.Int64 }

func (s *service) serve(of bus.Service) error {
	s.counts = make([]count, len(of.Endpoints))
	for _, e := range of.Endpoints {
		e.Queue = cmp.Or(e.Queue, micro.DefaultQueueGroup)
		s.info.Endpoints = append(s.info.Endpoints, micro.EndpointInfo{Name: e.Name, Subject: e.Subject,
			QueueGroup: e.Queue})
	}
	for verb, said := range map[micro.Verb]func() any{
		micro.InfoVerb:  func() any { return s.info },
		micro.StatsVerb: func() any { return s.stats() },
		micro.PingVerb: func() any {
			return micro.Ping{ServiceIdentity: s.info.ServiceIdentity, Type: micro.PingResponseType}
		},
	} {
		for _, of := range [][2]string{{}, {s.info.Name}, {s.info.Name, s.info.ID}} {
			subject, err := micro.ControlSubject(verb, of[0], of[1])
			if err == nil {
				err = s.hear(subject, "", func(m bus.Msg) { s.tell(m.Reply, said()) })
			}
			if err != nil {
				return err
			}
		}
	}
	for i, e := range of.Endpoints {
		err := s.hear(e.Subject, s.info.Endpoints[i].QueueGroup, func(m bus.Msg) {
			begun := time.Now()
			e.Handle(m)
			s.counts[i].requests.Add(1)
			s.counts[i].took.Add(int64(time.Since(begun)))
		})
		if err != nil {
			return fmt.Errorf("endpoint %s: %w", e.Name, err)
		}
	}
	return nil
}

func (s *service) hear(subject, queue string, h bus.Handler) error {
	sub, err := s.bus.Subscribe(subject, queue, h)
	if err == nil {
		s.subs = append(s.subs, sub)
	}
	return err
}

// tell answers a tool. Its subject does not say who asks, and a reply subject is the asker's word: of those
// that others hear, only inboxes are written to, where who asked nothing under that subject reads nothing.
func (s *service) tell(reply string, what any) {
	if data, err := json.Marshal(what); err == nil && bus.IsInbox(reply) {
		s.bus.nc.PublishMsg(&nats.Msg{Subject: reply, Data: data})
	}
}

func (s *service) stats() micro.Stats {
	out := micro.Stats{ServiceIdentity: s.info.ServiceIdentity, Type: micro.StatsResponseType,
		Started: s.started}
	for i, e := range s.info.Endpoints {
		n, took := s.counts[i].requests.Load(), time.Duration(s.counts[i].took.Load())
		out.Endpoints = append(out.Endpoints, &micro.EndpointStats{Name: e.Name, Subject: e.Subject,
			QueueGroup: e.QueueGroup, NumRequests: int(n), ProcessingTime: took,
			AverageProcessingTime: took / time.Duration(max(1, n))})
	}
	return out
}

func (s *service) Stop() (err error) {
	for _, sub := range s.subs {
		err = errors.Join(err, sub.Stop())
	}
	return err
}
