package serve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/hub"
	"souk/ledger"
)

// todo holds the effects of one turn of the loop.
type todo struct {
	hub.Ready
	begun time.Time     // the turn
	done  chan struct{} // closed when it is; nil: nobody waits
}

// urgent reports whether anyone waits for it.
func (t *todo) urgent() bool { return t.done != nil || t.Urgent() }

// linger is how long a settlement waits to share the sync of a round, which saves half of all syncs.
const linger = 5 * time.Millisecond

// write is the journal's goroutine: it makes the frames of all turns that have queued up durable with one
// sync, then sends what follows from them, in order.
func (s *Server) write() {
	var group []todo
	var frames []ledger.Frame
	var acks []hub.Message
	failed := false
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for r := range s.work {
		group = s.gather(append(group[:0], r), timer)
		frames = frames[:0]
		for i := range group {
			frames = append(frames, group[i].Frames...)
		}
		if len(frames) > 0 && !failed {
			begin := time.Now()
			if err := s.deps.Journal.Append(frames...); err != nil {
				failed = true
				s.broken <- fmt.Errorf("hub %s: %w", s.cfg.Domain, err)
			}
			s.measures.synced(time.Since(begin))
			s.deps.Signs.Wrote()
		}
		if !failed {
			if s.feed.watched() {
				s.feed.saw(frames)
			}
			for i := range group {
				acks = s.deliver(&group[i], acks)
			}
			for _, l := range acks { // nobody waits for these as a reader does for a dispatch
				s.send(l)
			}
			clear(acks)
			acks = acks[:0]
		}
		for i := range group {
			if group[i].done != nil {
				close(group[i].done)
			}
			group[i] = todo{}
		}
		clear(frames)
	}
}

// gather adds the turns that have queued up. A group in which nothing is urgent waits up to linger for more.
// An agent repeats a completion until it is acknowledged, so a settlement can share the next round's sync.
func (s *Server) gather(group []todo, timer *time.Timer) []todo {
	urgent := group[0].urgent()
	timer.Reset(linger)
	for len(group) < maxGroups && (!urgent || len(s.work) > 0) {
		select {
		case r, ok := <-s.work:
			if !ok {
				return group
			}
			group = append(group, r)
			urgent = urgent || r.urgent()
		case <-timer.C:
			if !urgent {
				return group
			}
		}
	}
	return group
}

// deliver sends what a turn wants said; its frames are durable. Acknowledgements of completions are left
// for later: it returns acks with those of the turn.
func (s *Server) deliver(r *todo, acks []hub.Message) []hub.Message {
	if r.Settle != ledger.AsItWas {
		s.settled(r.Settle)
	}
	for i := range r.Dispatches {
		d := &r.Dispatches[i]
		agent := r.Placed[i].Agent
		if err := s.publish(bus.Msg{Subject: bus.DispatchSubject(agent, s.cfg.Domain),
			Reply:  bus.TakenSubject(s.cfg.Domain, d.Hold, agent),
			Header: d.Task.Trace.Header(nil)}, d); err != nil {
			follow.Unsent(s.log, err, "dispatch not sent", "hold", d.Hold, "agent", agent)
			code := bus.CodeUnavailable
			if errors.Is(err, bus.ErrTooLarge) {
				code = bus.CodeTooLarge
			}
			s.hand(s.message(&bus.DispatchReply{Agent: agent, Boot: d.Boot, Hold: d.Hold, Code: code,
				Message: err.Error()}))
		}
	}
	if len(r.Placed) > 0 {
		s.measures.placed(time.Now(), r.Placed)
		s.spans.rounds(r.begun, r.Dispatches)
	}
	for _, l := range r.Messages {
		if _, ack := l.Body.(*bus.CompletionAck); ack {
			acks = append(acks, l)
		} else {
			s.send(l)
		}
	}
	for _, agent := range r.Probes {
		s.probe(agent)
	}
	for _, f := range r.Funds {
		s.asking.Go(func() { s.ask(f) })
	}
	if r.Status != nil {
		if err := s.publish(bus.Msg{Subject: bus.StatusSubject(s.cfg.Domain)}, r.Status); err != nil {
			s.log.Debug("status not sent", "err", err)
		}
	}
	for _, err := range r.Faults {
		s.log.Error("must not happen", "err", err)
	}
	return acks
}

func (s *Server) send(l hub.Message) {
	err := s.publish(bus.Msg{Subject: l.Subject}, l.Body)
	follow.Unsent(s.log, err, "message not sent", "subject", l.Subject)
	s.spans.answered(l)
}

// probePlace stands where dispatches have their hold's place, in subjects to which the bus says that nobody
// heard a probe.
const probePlace = "probe"

// probe sends an agent a message that means nothing. The bus answers it if nobody listens there.
func (s *Server) probe(agent string) {
	m := bus.Msg{Subject: bus.ControlSubject(agent, s.cfg.Domain),
		Reply: bus.TakenSubject(s.cfg.Domain, probePlace, agent)}
	if err := s.publish(m, &bus.HoldControl{}); err != nil {
		s.log.Debug("agent not probed", "agent", agent, "err", err)
	}
}

func (s *Server) publish(m bus.Msg, v bus.Message) (err error) {
	if m.Data, err = bus.Encode(v); err != nil {
		return err
	}
	return s.deps.Bus.Publish(m)
}

// written waits until the writer has dealt with everything that was handed to it.
func (s *Server) written() {
	done := make(chan struct{})
	s.work <- todo{done: done}
	<-done
}

// settleDown waits until everything that was handed to the writer has been sent.
func (s *Server) settleDown() {
	s.written()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.deps.Bus.Flush(ctx); err != nil {
		s.log.Debug("bus not flushed", "err", err)
	}
}
