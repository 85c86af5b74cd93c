package web

import (
	"context"
	"slices"
	"sync"
	"time"

	"souk/cmd/local"
	"souk/market"
)

// kept is something that takes a while to find out. It is found out by one at a time, however many ask, and
// what was found last stands in for a while: nobody waits for a part of the market that hangs but the first.
type kept[T any] struct {
	make func(context.Context) (T, error)

	mu     sync.Mutex
	value  T
	err    error
	at     time.Time
	coming chan struct{} // closed once it is found out anew; nil: nobody is at it
}

const (
	stale      = 15 * time.Second // nothing that is older is shown
	findWithin = 8 * time.Second
)

// get returns what is kept, and has it found out anew where it is older than that. Whoever finds out is run
// by work, until life ends.
func (k *kept[T]) get(ctx, life context.Context, work *sync.WaitGroup, fresh time.Duration) (T, error) {
	k.mu.Lock()
	age := time.Since(k.at)
	if age >= fresh && k.coming == nil && life.Err() == nil {
		k.coming = make(chan struct{})
		work.Go(func() {
			within, cancel := context.WithTimeout(life, findWithin)
			defer cancel()
			value, err := k.make(within)
			k.mu.Lock()
			defer k.mu.Unlock()
			k.value, k.err, k.at = value, err, time.Now()
			close(k.coming)
			k.coming = nil
		})
	}
	coming, value, err := k.coming, k.value, k.err
	if coming == nil && k.at.IsZero() {
		err = life.Err() // it ended before anything was found out
	}
	k.mu.Unlock()
	if age < stale || coming == nil {
		return value, err
	}
	select {
	case <-coming:
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.value, k.err
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

// picture is the market at a moment.
type picture struct {
	*local.Report
	counts map[string]counts // by journal
	// a second, since the picture before; below 0: there was none
	Tasks, Credits float64
}

// counts says what a hub has done by a time of its own clock: no other clock matters.
type counts struct {
	atMS, served int64
	earned       market.Credits
}

const (
	pictureFor = 2 * time.Second
	partsFor   = 10 * time.Second // they are read of every agent's key
)

func (s *Server) picture(ctx context.Context) (*picture, error) {
	return s.survey.get(ctx, s.life, &s.work, pictureFor)
}

func (s *Server) readParts(ctx context.Context) (*local.Parts, error) {
	return local.ReadParts(ctx, s.market.Registry)
}

// takePicture surveys the market.
func (s *Server) takePicture(ctx context.Context) (*picture, error) {
	var parts *local.Parts
	noParts := s.market.NoEtcd
	if s.market.Registry != nil {
		var read *local.Parts
		if read, noParts = s.parts.get(ctx, s.life, &s.work, partsFor); noParts == nil {
			copied := *read
			copied.Running = slices.Clip(copied.Running) // to which is added
			parts = &copied
		}
	}
	survey, err := s.watcher.Survey(ctx, parts, noParts, s.market.Money, s.market.Link.State.Domains)
	if err != nil {
		return nil, err
	}
	p := &picture{Report: s.market.Report(survey, time.Now()), counts: map[string]counts{}, Tasks: -1,
		Credits: -1}
	for i := range survey.Hubs {
		if f := survey.Hubs[i].Feed; f != nil {
			st := f.State
			p.counts[f.Journal] = counts{f.AtMS, st.Served, st.Payable + st.Surplus + st.Fee}
		}
	}
	p.speed(s.last)
	s.last = p
	return p, nil
}

// speed says how much was served and earned a second since another picture. A hub that began anew, or was
// paid out, has nothing to say.
func (p *picture) speed(before *picture) {
	if before == nil {
		return
	}
	p.Tasks, p.Credits = 0, 0
	for journal, now := range p.counts {
		was, ok := before.counts[journal]
		seconds := float64(now.atMS-was.atMS) / 1000
		if !ok || seconds <= 0 {
			continue
		}
		p.Tasks += max(0, float64(now.served-was.served)) / seconds
		p.Credits += max(0, float64(now.earned-was.earned)/float64(market.Credit)) / seconds
	}
}
