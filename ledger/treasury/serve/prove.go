package serve

import (
	"context"
	"slices"
	"time"

	"souk/bus"
	"souk/bus/follow"
)

// asked says whether the registry was asked who leads, and whether it answered.
type asked uint8

const (
	notAsked asked = iota
	answered
	away // it did not say: the hub is served, and its epoch is not remembered
)

// How long the registry may take to say who leads, and how soon it is asked again: a flood of made-up epochs
// must not become one of questions. A treasury that waits for hubs' word asks now and then.
const (
	proveWithin = time.Second
	proveEvery  = 20 * time.Millisecond
	namesEvery  = time.Second
)

// prove asks the registry who leads, once for all requests that wait to know it, and puts them into the queue
// again.
func (s *Server) prove(ctx context.Context) {
	var wait []request
	var lost time.Time // when the registry was last found to be away; zero: it was not
	pause := time.NewTimer(0)
	defer pause.Stop()
	names := time.Tick(namesEvery)
	for {
		select {
		case r := <-s.doubt:
			wait = append(wait, r)
		case <-names:
			if !s.waits() {
				continue
			}
		case <-ctx.Done():
			return
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
		for len(s.doubt) > 0 && len(wait) < maxPending {
			wait = append(wait, <-s.doubt)
		}
		came, leads := away, map[string]leading{}
		if lost.IsZero() || time.Since(lost) >= proveWithin { // else whoever waits has waited long enough
			var err error
			leads, err = s.leaders(ctx)
			switch {
			case err == nil:
				came, lost = answered, time.Time{}
			case ctx.Err() != nil:
				return
			case lost.IsZero():
				s.d.Log.Warn("the registry does not say which hubs lead: all are served meanwhile, unless their word "+
					"is waited for", "err", err)
				fallthrough
			default:
				lost = time.Now()
			}
		}
		for _, r := range wait {
			r.asked, r.leads, r.req.Leads = came, false, nil
			for domain, epoch := range leads[r.req.Hub] {
				r.leads, r.req.Leads = r.leads || epoch == r.req.Epoch, append(r.req.Leads, domain)
			}
			select {
			case s.queue <- r:
			case <-ctx.Done():
				return
			}
		}
		clear(wait)
		wait = wait[:0]
		pause.Reset(proveEvery)
	}
}

// leading is the epochs of a journal that leads, by domain; of several where one names another's.
type leading map[string]int64

// leaders takes in which hubs lead, and which did of late, where their word is waited for. It returns where
// they lead, by journal.
func (s *Server) leaders(ctx context.Context) (map[string]leading, error) {
	ctx, cancel := context.WithTimeout(ctx, proveWithin)
	defer cancel()
	all := s.waits()
	kvs, err := s.d.Registry.Get(ctx, bus.HubsPrefix)
	var led []bus.KV
	if err == nil && all {
		led, err = s.d.Registry.Get(ctx, bus.LedPrefix)
	}
	if err != nil {
		return nil, err
	}
	leads, names := map[string]leading{}, []string{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, kv := range slices.Concat(kvs, led) {
		var e bus.HubEntry
		if bus.DecodeEntry(kv.Value, &e) != nil || e.Journal == s.cfg.Journal {
			continue
		}
		names = append(names, e.Journal)
		if i < len(kvs) {
			domain := bus.LastElement(kv.Key)
			s.t.Leads(e.Journal, domain, kv.Create) // the key is the domain's alone to write
			if leads[e.Journal] == nil {
				leads[e.Journal] = leading{}
			}
			leads[e.Journal][domain] = kv.Create
		}
	}
	if s.t.Waits() {
		s.t.Named(names)
		follow.Nudge(s.nudge)
	}
	return leads, nil
}
