package agentd

import (
	"container/list"

	"souk/bus"
)

// sessions remembers which sessions were served here and how deep, most recent first: what the engine's
// cache most likely still holds. It is bounded by number and, where the engine's capacity is known, by
// tokens: the engine drops the least recently used blocks first, and so does this.
type sessions struct {
	most, capacity int
	tokens         int
	recent         *list.List // of bus.SessionState
	byKey          map[uint64]*list.Element
}

func newSessions(most, capacity int) *sessions {
	return &sessions{most: most, capacity: capacity, recent: list.New(), byKey: map[uint64]*list.Element{}}
}

func (s *sessions) served(key uint64, tokens int) {
	if e, ok := s.byKey[key]; ok {
		s.drop(e)
	}
	s.byKey[key] = s.recent.PushFront(bus.SessionState{Key: key, Tokens: tokens})
	s.tokens += tokens
	for s.recent.Len() > s.most || s.capacity > 0 && s.tokens > s.capacity && s.recent.Len() > 1 {
		s.drop(s.recent.Back())
	}
}

func (s *sessions) drop(e *list.Element) {
	st := s.recent.Remove(e).(bus.SessionState)
	s.tokens -= st.Tokens
	delete(s.byKey, st.Key)
}

// list names the most recent ones, and the share of all that these are.
func (s *sessions) list(most int) ([]bus.SessionState, float64) {
	n := min(most, s.recent.Len())
	if n == 0 {
		return nil, 1
	}
	out := make([]bus.SessionState, 0, n)
	for e := s.recent.Front(); len(out) < n; e = e.Next() {
		out = append(out, e.Value.(bus.SessionState))
	}
	return out, float64(n) / float64(s.recent.Len())
}

func (s *sessions) forget() { *s = *newSessions(s.most, s.capacity) }
