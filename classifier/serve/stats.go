package serve

import (
	"time"

	"souk/classifier"
)

// Stats is a snapshot.
func (s *Server) Stats() classifier.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.desk.Stats(s.table.Load(), time.Now())
}

func (s *Server) count(what func(*classifier.Desk)) {
	s.mu.Lock()
	what(s.desk)
	s.mu.Unlock()
}
