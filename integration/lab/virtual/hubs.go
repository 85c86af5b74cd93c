package virtual

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"souk/ledger"
	"souk/market"
)

// Hubs is several markets as one Policy: engines of each kind are dealt to as many hubs, and sessions by a
// hash, so that all turns of a dialogue go to one hub. Nothing goes from one to another.
type Hubs struct {
	Markets []*Market
	of      []*hubState // by engine
	all     []*hubState
}

// hubState is a market among others.
type hubState struct {
	*Market
	heard bool      // something, since it was woken last
	next  time.Time // when it wants to be woken
}

// NewHubs makes so many markets of the engines of one.
func NewHubs(n int, o MarketOptions) (*Hubs, error) {
	if n < 1 || n > o.Agents {
		return nil, fmt.Errorf("%d hubs for %d engines", n, o.Agents)
	}
	h := &Hubs{of: make([]*hubState, o.Agents)}
	for _, dealt := range o.Setting.deal(n) {
		own := o
		own.Only = dealt
		m, err := NewMarket(own)
		if err != nil {
			return nil, err
		}
		s := &hubState{Market: m, heard: true}
		for _, i := range dealt {
			h.of[i] = s
		}
		h.Markets, h.all = append(h.Markets, m), append(h.all, s)
	}
	return h, nil
}

// deal divides the engines into so many shares, each of which has as many of a kind as any other, or one
// fewer.
func (s *Setting) deal(n int) [][]int {
	by := make([]int, s.Engines)
	for i := range by {
		by[i] = i
	}
	slices.SortStableFunc(by, func(i, k int) int {
		a, b := s.offer(i), s.offer(k)
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.Profile, b.Profile))
	})
	all := make([][]int, n)
	for at, i := range by {
		all[at%n] = append(all[at%n], i)
	}
	for _, share := range all {
		slices.Sort(share)
	}
	return all
}

// At is the place of the hub that has the session of a request.
func (h *Hubs) At(r *Request) int { return int(mix(uint64(r.Play)^0x68756273) % uint64(len(h.all))) }

// Near implements Policy.
func (h *Hubs) Near() bool { return true }

// Arrive implements Policy.
func (h *Hubs) Arrive(now time.Time, r *Request, v *View) int {
	s := h.all[h.At(r)]
	s.heard = true
	return s.Market.Arrive(now, r, v)
}

// First implements Policy.
func (h *Hubs) First(now time.Time, r *Request, v *View) {
	s := h.of[r.Engine]
	s.heard = true
	s.Market.First(now, r, v)
}

// Done implements Policy.
func (h *Hubs) Done(now time.Time, r *Request, usage market.Usage, v *View) {
	s := h.of[r.Engine]
	s.heard = true
	s.Market.Done(now, r, usage, v)
}

// Scraped implements Policy.
func (h *Hubs) Scraped(now time.Time, v *View) {
	for _, s := range h.all {
		s.heard = true
		s.Market.Scraped(now, v)
	}
}

// Wake implements Policy.
func (h *Hubs) Wake(now time.Time) (place []Placed, next time.Time) {
	for _, s := range h.all {
		if s.heard || !s.next.IsZero() && !s.next.After(now) {
			var own []Placed
			own, s.next = s.Market.Wake(now)
			place, s.heard = append(place, own...), len(own) > 0
		}
		if !s.next.IsZero() && (next.IsZero() || s.next.Before(next)) {
			next = s.next
		}
	}
	return place, next
}

// Watch has the agents hear what becomes of the blocks of their engines, where these say so.
func (h *Hubs) Watch(engines []*Engine) {
	for _, m := range h.Markets {
		m.Watch(engines)
	}
}

// Close closes all markets: see [Market.Close].
func (h *Hubs) Close() (all []ledger.Report, err error) {
	var errs []error
	for i, m := range h.Markets {
		report, err := m.Close()
		if err != nil {
			errs = append(errs, fmt.Errorf("hub %d: %w", i+1, err))
		}
		all = append(all, report)
	}
	return all, errors.Join(errs...)
}
