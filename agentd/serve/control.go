package serve

import (
	"time"

	"souk/agentd"
	"souk/bus"
	"souk/bus/follow"
)

// onHub hears what a hub says of a hold that it has handed out: the subject says which hub.
func (a *agent) onHub(m bus.Msg) {
	var c bus.HoldControl
	if err := bus.Decode(m.Data, &c); err != nil {
		a.log.Debug("hold control cannot be read", "subject", m.Subject, "err", err)
		return
	}
	domain := bus.LastToken(m.Subject)
	var reply *bus.DispatchReply
	a.mu.Lock()
	if c.Holdings {
		a.core.Asked(domain)
		follow.Nudge(a.kick)
	}
	switch s := a.streams.OfHold(domain, c.Hold); {
	case c.Withdraw && s != nil && s.Withdraw():
		a.cancelRequest(s, 0, agentd.ErrWithdrawn)
	case c.Withdraw:
		reply = a.core.Withdrawn(domain, c.Hold, s)
	case s == nil:
	case c.Cancel:
		a.cancelStream(s)
	case c.Late:
		if why := s.Late(time.Now(), a.heard); why != nil {
			a.cancelRequest(s, 0, why)
		}
	}
	a.mu.Unlock()
	if reply != nil {
		a.reply(bus.TakenSubject(domain, c.Hold, a.cfg.ID), *reply)
	}
}

// cancelStream ends an answer that nobody wants any more. The lock is held.
func (a *agent) cancelStream(s *agentd.Stream) {
	if wait, ok := s.Cancel(time.Now()); ok {
		a.cancelRequest(s, wait, agentd.ErrCancelled)
	}
}

// onReader hears the reader of an answer: the subject says who that is.
func (a *agent) onReader(m bus.Msg) {
	var c bus.StreamControl
	if err := bus.Decode(m.Data, &c); err != nil {
		a.log.Debug("stream control cannot be read", "subject", m.Subject, "err", err)
		return
	}
	id := agentd.StreamID{Reader: bus.LastToken(m.Subject), Token: c.Token}
	stranger := false
	var late []agentd.Report
	a.mu.Lock()
	now, s := time.Now(), a.streams.Find(id)
	switch {
	case s == nil: // only so many are answered as an earlier life can have had readers
		stranger = c.Resume != nil && a.leased() && a.streams.Stranger(now)
	case c.Resume != nil:
		a.streams.Resend(s, *c.Resume)
		follow.Nudge(a.kick)
	case c.Cancel:
		a.cancelStream(s)
	case c.Ack != nil:
		if waits := a.acked[s]; waits != nil {
			follow.Nudge(waits)
		}
		if a.streams.Acked(s, *c.Ack) && !s.Spooled {
			late = a.core.Pending(s.Hold) // its reader has the answer now
		}
	}
	a.mu.Unlock()
	for _, r := range late {
		a.addToSpool(r)
		a.mu.Lock()
		acked := len(a.core.Pending(r.Completion.Hold)) == 0 // while the spool was written
		a.mu.Unlock()
		if a.spool != nil && acked {
			a.spool.Done(r.Completion.Hold)
		}
	}
	if stranger && bus.ValidID(id.Reader) {
		a.send(bus.ReplySubject(id.Reader, id.Token, a.cfg.ID), agentd.Unknown(a.cfg.ID, id, *c.Resume))
	}
}

// cancelRequest ends the engine's request of a stream after wait, if it has begun. The lock is held.
func (a *agent) cancelRequest(s *agentd.Stream, wait time.Duration, why error) {
	cancel := a.cancels[s]
	switch {
	case cancel == nil: // the request has ended; or it has not begun, and start will cancel it
	case wait > 0:
		time.AfterFunc(wait, func() { cancel(why) })
	default:
		cancel(why)
	}
}
