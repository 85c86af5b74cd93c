package serve

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/bus/tip"
	"souk/ledger"
)

func (s *Server) waits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.t.Waits()
}

// Closed returns why nothing is taken in, granted or paid out; "" if all is.
func (s *Server) Closed() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.t.Closed()
}

// Unready returns why this treasury does nothing for anybody: hubs contradict its journal, it does not lead,
// or it waits for hubs; "" if it works.
func (s *Server) Unready() string {
	d := s.doubts()
	switch {
	case d.Why != "" && !d.Waits:
		return d.Why
	case !s.Leading():
		return s.stands.Standing("another treasury leads, or etcd does not say who does: standing by, and " +
			"answering nobody")
	}
	return d.Why
}

// doubts returns why the journal may not be the newest.
func (s *Server) doubts() follow.Doubt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return follow.Doubt{Why: s.t.Closed(), Waits: !s.t.Contradicted()}
}

// settle records in the journal whether it is the newest copy, and logs that.
func (s *Server) settle(is ledger.Settled, closed string) {
	switch is {
	case ledger.Own:
		s.d.Journal.Settle(true)
		s.d.Log.Info("the treasury's journal is the newest, by what hubs and the registry say")
		ctx, cancel := context.WithTimeout(context.Background(), ledIn) // nobody is answered yet
		s.asked(s.remember(ctx))
		cancel()
	case ledger.Unsure:
		s.d.Journal.Settle(false)
	}
	if closed == "" {
		s.stale.Works(time.Now(), "journal")
	} else if again := s.stale.Failed(time.Now(), "journal"); again || closed != s.why {
		level := slog.LevelError
		if s.doubts().Waits { // as after each start of the machine: if it lasts, it gives way, and logs it
			level = slog.LevelInfo
		}
		s.d.Log.Log(context.Background(), level, "nothing is taken in, granted or paid out", "why", closed)
	}
	s.why = closed
	if closed != "" { // nobody is refused in particular
		return
	}
	s.mu.Lock()
	denied := strings.Join(s.t.Denied(), "; ")
	s.mu.Unlock()
	if denied != s.denied && denied != "" {
		s.d.Log.Warn("refused is who contradicts what the treasury's journal and other hubs say", "hubs",
			denied)
	}
	s.denied = denied
}

// readAgain is the pause before a hub may have another frame's checksum read from the disk: it can name any.
const readAgain = time.Second

// reading notes which frame was last read from the disk for a hub, and when.
type reading struct {
	seq uint64
	at  time.Time
}

// here finds the checksum of the treasury's journal at the frame that a hub names.
func (s *Server) here(req *bus.FundsRequest) {
	m, now := req.Known, time.Now()
	if m == nil {
		return
	}
	last := s.reads[req.Hub]
	if m.Seq != last.seq {
		if now.Sub(last.at) < readAgain {
			return
		}
		if len(s.reads) >= s.cfg.MaxHubs {
			clear(s.reads)
		}
		s.reads[req.Hub] = reading{m.Seq, now}
	}
	sum, _, err := s.d.Journal.Sum(m.Seq)
	if err != nil {
		s.d.Log.Error("a hub's word on the treasury's journal cannot be judged", "hub", req.Hub, "err", err)
	}
	req.Here = sum
}

// mark returns how far the journal is; nil if that cannot be read.
func (s *Server) mark() *tip.Mark {
	s.mu.Lock()
	m := tip.Mark{Journal: s.t.Book.ID(), Seq: s.t.Book.Said()}
	s.mu.Unlock()
	sum, ok, err := s.d.Journal.Sum(m.Seq)
	if err != nil {
		s.d.Log.Error("hubs are not told how far the treasury's journal is", "err", err)
	}
	if m.Sum = sum; !ok || err != nil {
		return nil
	}
	return &m
}
