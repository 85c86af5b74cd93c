package serve

import (
	"souk/bus/metrics"
	"souk/ledger"
)

// Stats is a snapshot of a Server.
type Stats struct {
	Requests int64 // taken in
	Refused  int64 // answered with a code
	Dropped  int64 // turned away by a full queue, or malformed
	Frames   int64 // made durable by this process
	Records  int64
	Pending  int // wait for the next sync
	Leading  bool
	Awaited  int64 // leaderships waited for whose holder nothing proved to have ended
	Seq      uint64
	Epoch    int64
	Ended    int              // hubs whose journals are closed
	Balances []ledger.Balance // of all accounts
	Closed   string           // why nothing is taken in, granted or paid out; "": all is
	Denied   []string         // hubs that contradict the treasury's journal alone, and are refused
}

// Stats is a snapshot.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	seq, _, _ := s.t.Book.Last()
	refused := int64(0)
	for of, n := range s.answers {
		if of[1] != metrics.Code("") {
			refused += n
		}
	}
	return Stats{
		Requests: s.requests.Load(), Refused: refused, Dropped: s.dropped.Load(),
		Frames: s.frames.Load(), Records: s.records.Load(), Pending: len(s.queue),
		Seq: seq, Epoch: s.epoch.Load(), Leading: s.Leading(), Awaited: s.stands.Awaited(),
		Ended: s.t.Book.EndedHubs(), Balances: s.t.Book.Balances("*"),
		Closed: s.t.Closed(), Denied: s.t.Denied(),
	}
}
