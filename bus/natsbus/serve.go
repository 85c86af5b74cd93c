package natsbus

import (
	"fmt"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"souk/bus"
)

// Serve offers the service by NATS micro, so that `nats micro ls` and its kin find it.
func (b *Bus) Serve(s bus.Service) (bus.Subscription, error) {
	svc, err := micro.AddService(b.nc,
		micro.Config{Name: s.Name, Version: s.Version, Description: s.Description})
	if err != nil {
		return nil, fmt.Errorf("service %s: %w", s.Name, b.translate(err, 0))
	}
	out := &service{svc: svc}
	for _, e := range s.Endpoints {
		options := []micro.EndpointOpt{
			micro.WithEndpointSubject(e.Subject),
			micro.WithEndpointPendingLimits(pendingMessages, pendingBytes),
		}
		if e.Queue != "" {
			options = append(options, micro.WithEndpointQueueGroup(e.Queue))
		}
		handle := micro.HandlerFunc(func(r micro.Request) {
			if !out.stopped.Load() {
				e.Handle(bus.Msg{Subject: r.Subject(), Reply: r.Reply(), Header: header(r.Headers()),
					Data: r.Data()})
			}
		})
		if err := svc.AddEndpoint(e.Name, handle, options...); err != nil {
			out.Stop()
			return nil, fmt.Errorf("service %s: endpoint %s: %w", s.Name, e.Name, b.translate(err, 0))
		}
	}
	return out, nil
}

func header(h micro.Headers) bus.Header {
	if len(h) == 0 {
		return nil
	}
	return bus.Header(nats.Header(h))
}

type service struct {
	svc     micro.Service
	stopped atomic.Bool // micro drains its endpoints in the background: what is pending then is of no use
}

func (s *service) Stop() error {
	s.stopped.Store(true)
	return s.svc.Stop()
}
