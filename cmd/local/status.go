package local

import (
	"context"
	"maps"
	"sync"
	"time"

	"souk/bus"
	"souk/bus/follow"
)

// statuses holds the hubs' last status messages.
type statuses struct {
	mu   sync.Mutex
	last map[string]bus.Status
	want map[string]int // agents by domain, while someone waits for them
	done chan struct{}
}

func newStatuses() *statuses { return &statuses{last: map[string]bus.Status{}} }

func (s *statuses) listen(b bus.Bus) error {
	_, err := b.Subscribe(bus.StatusSubject("*"), "", func(m bus.Msg) {
		var status bus.Status
		if bus.Decode(m.Data, &status) != nil {
			return // a hub that speaks nonsense is passed over by the door, too
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.last[status.Domain] = status
		s.judge()
	})
	return err
}

// complete is closed once every domain has that many agents.
func (s *statuses) complete(want map[string]int) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := make(chan struct{})
	s.want, s.done = maps.Clone(want), done
	s.judge()
	return done
}

// judge ends the wait where it is over. The lock is held.
func (s *statuses) judge() {
	if s.done == nil {
		return
	}
	for domain, n := range s.want {
		if s.last[domain].Agents < n || s.last[domain].Free == 0 {
			return
		}
	}
	close(s.done)
	s.done = nil
}

func (s *statuses) free() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, status := range s.last {
		n += status.Free
	}
	return n
}

// hubsSpeak is the time within which every hub has sent its status: each does once a second.
const hubsSpeak = 1200 * time.Millisecond

// Cards listens to the hubs for a moment, and returns between what the cards of the agents lie that serve
// each model now.
func (l *Link) Cards(ctx context.Context) (map[string]bus.Cards, error) {
	all := newStatuses()
	if err := all.listen(l.Bus); err != nil {
		return nil, err
	}
	follow.Pause(ctx, hubsSpeak)
	all.mu.Lock()
	defer all.mu.Unlock()
	cards := map[string]bus.Cards{}
	for _, status := range all.last {
		for _, m := range status.Models {
			if was, ok := cards[m.Model]; ok {
				m.Cards = m.Cards.With(was)
			}
			cards[m.Model] = m.Cards
		}
	}
	return cards, nil
}
