package serve

import (
	"context"
	"time"

	"souk/agentd"
	"souk/bus"
)

// onControl hears a client, or a hub that speaks of a client's task: the subject says whose.
func (a *seller) onControl(m bus.Msg) {
	var c bus.StreamControl
	if err := bus.Decode(m.Data, &c); err != nil {
		a.log.Debug("stream control cannot be read", "subject", m.Subject, "err", err)
		return
	}
	id := agentd.StreamID{Client: bus.LastToken(m.Subject), Task: c.Task}
	read, stranger := "", false
	a.mu.Lock()
	k := a.shelf.Find(id)
	switch {
	case k == nil: // told at once, but no more of them than an earlier life had readers
		stranger = c.Resume != nil && a.shelf.Stranger(time.Now())
	case c.Resume != nil:
		a.shelf.Again(k, *c.Resume)
		nudge(a.missed)
	case c.Cancel && k.Stop(agentd.ErrCancelled):
		k.Answer.cancelled()
	case c.Ack != nil:
		left := k.Answer.acked(*c.Ack)
		if a.shelf.Acked(k, left) && k.Answer.era != a.era.Load() {
			read = k.Hold // it was not written down, and its reader has it now
		}
	case k.Answer.recalled(&c) && k.Stop(agentd.ErrRecalled):
		if stop := k.Answer.cancel; stop != nil {
			stop(agentd.ErrRecalled)
		}
	}
	var late agentd.Report
	if read != "" {
		late, _ = a.core.Pending(read)
	}
	a.mu.Unlock()
	if late.Domain != "" {
		a.keepReport(late)
		a.mu.Lock()
		_, still := a.core.Pending(read)
		a.mu.Unlock()
		if a.spool != nil && !still {
			a.spool.Done(read)
		}
	}
	if stranger && bus.ValidID(id.Client) {
		a.tell(bus.ReplySubject(id.Client, id.Task), agentd.Unknown(a.cfg.ID, id, *c.Resume))
	}
}

// cancelled ends an answer whose client has cancelled, once what the engine has begun to compute is due. The
// seller's mu is held, as in the others.
func (s *live) cancelled() {
	stop := s.cancel
	if stop == nil {
		return
	}
	s.mu.Lock()
	wait := s.Quit(time.Now())
	s.mu.Unlock()
	if wait > 0 {
		s.quit = time.AfterFunc(wait, func() { stop(agentd.ErrCancelled) })
	} else {
		stop(agentd.ErrCancelled)
	}
}

func (s *live) acked(below uint64) (left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Acked(below)
}

func (s *live) recalled(c *bus.StreamControl) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Recalled(c)
}

// repeat sends again what readers have missed, piece by piece, so that nothing else waits for it.
func (a *seller) repeat(ctx context.Context) {
	idle := time.NewTimer(0)
	defer idle.Stop()
	for ctx.Err() == nil {
		now := time.Now()
		a.mu.Lock()
		k, piece, wake := a.shelf.Next(now)
		a.mu.Unlock()
		if k != nil {
			left, bytes := a.sendPiece(k.Answer, piece)
			a.mu.Lock()
			a.shelf.Sent(time.Now(), k, left, bytes)
			a.mu.Unlock()
			continue
		}
		var due <-chan time.Time
		if !wake.IsZero() {
			idle.Reset(time.Until(wake))
			due = idle.C
		}
		select {
		case <-ctx.Done():
		case <-a.missed:
		case <-due:
		}
	}
}

// sendPiece sends the next piece of a repeat and returns its bytes, and what is left. A connection may be
// slow, and others look at the stream; readers put in order what overtakes.
func (a *seller) sendPiece(s *live, p agentd.Piece) (left agentd.Piece, bytes int) {
	s.mu.Lock()
	frames, word, left := s.Piece(a.cfg.ID, p)
	if word != nil { // in order: a heartbeat counts what went before it
		a.tell(s.Reply, word)
	}
	s.mu.Unlock()
	for _, data := range frames {
		bytes += len(data)
		a.publish(s, data)
	}
	return left, bytes
}
