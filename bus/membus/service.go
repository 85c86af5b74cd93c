package membus

import (
	"cmp"
	"errors"
	"fmt"

	"souk/bus"
)

// service is the endpoints of one Serve call. Nobody looks for services in a world, so nothing answers there.
type service []bus.Subscription

func (b *Bus) Serve(about bus.Service) (bus.Subscription, error) {
	if !bus.ValidID(about.Name) || about.Version == "" {
		return nil, fmt.Errorf("service %q %q: it needs a name of letters, digits, '-' and '_', and a "+
			"version", about.Name, about.Version)
	}
	var s service
	for _, e := range about.Endpoints {
		sub, err := b.Subscribe(e.Subject, cmp.Or(e.Queue, "q"), e.Handle) // q is what NATS micro uses
		if err != nil {
			s.Stop()
			return nil, fmt.Errorf("service %s: endpoint %s: %w", about.Name, e.Name, err)
		}
		s = append(s, sub)
	}
	return s, nil
}

func (s service) Stop() error {
	var failed []error
	for _, sub := range s {
		failed = append(failed, sub.Stop())
	}
	return errors.Join(failed...)
}
