package gateway

import (
	"cmp"
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/bus/openai"
	"souk/bus/sight"
)

// fail ends the answer without its end. The first reason counts. Of several tasks the others are cancelled.
func (a *answer) fail(why *refusal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refused != nil || a.running == 0 {
		return
	}
	copied := *why
	copied.task = cmp.Or(copied.task, a.shape.ID)
	switch {
	case copied.code != bus.CodeUnknown:
	case a.again:
		copied.again = true // it is served once, however often it is asked for
	default:
		copied.message += "; asked for again it may be paid twice, which an Idempotency-Key prevents"
	}
	a.refused = a.paidInPart(&copied)
	a.stop()
	a.tell()
}

// finish is called once, when the last task has ended.
func (a *answer) finish() {
	a.mu.Lock()
	switch {
	case a.refused != nil: // what all of its tasks are paid is known only now
		if a.refused = a.reckoned(a.refused); a.asked.Stream && a.began {
			a.out.put(a.taken, func(dst []byte) ([]byte, error) { return a.errorEvent(dst, a.refused), nil })
		}
	case a.form != nil && !a.asked.Stream:
		a.object = a.said.Object()
	case a.form != nil: // its last event is its task's
	case a.asked.Stream:
		a.out.put(a.taken, func(dst []byte) ([]byte, error) {
			if a.asked.Usage {
				dst = openai.Usage(dst, a.shape, a.results)
			}
			return append(dst, openai.Done...), nil
		})
	default:
		a.object = openai.Object(a.shape, a.wholes, a.results)
	}
	a.running, a.wholes, a.streams = 0, nil, nil
	a.asked.Tasks = nil // up to 4 MB of bodies
	a.out.event = nil
	if a.said != nil {
		a.said.Forget()
	}
	for i := range a.gathered {
		if a.gathered[i].held > 0 {
			a.gathered[i].set(0)
		}
	}
	a.unread.Store(0)
	a.account()
	if a.leave != nil {
		a.leave.Stop()
	}
	refused, line := a.refused, a.line()
	close(a.over)
	a.tell()
	a.mu.Unlock()
	a.s.lines.Add(*line)
	a.of.span.EndAs(line)
	a.s.finished(a, refused, line)
}

// reckoned is a refusal with what all tasks are paid, as far as that is known. What is paid in part cannot be
// had whole any more: who asks again is to buy nothing, and hears the same. The lock is held.
func (a *answer) reckoned(why *refusal) *refusal {
	whole := *why
	whole.paid = 0
	for _, r := range a.results {
		if r != nil {
			whole.paid, _ = whole.paid.Add(r.Paid())
		}
	}
	r := a.paidInPart(&whole)
	if r.summed = !a.unheard; a.unheard {
		r.message += "; what it costs is not known yet: /v1/balance?hubs=true will show it"
	}
	if r.paid > 0 && r.code != openai.CodeInvalidKey { // another secret of the key may be good
		r.last = true
	}
	return r
}

// finished counts an answer that has ended, and keeps it for a while if it can be read again.
func (s *Server) finished(a *answer, refused *refusal, line *sight.Line) {
	s.keys.end(a.key.key)
	a.payer.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, a)
	s.tally(a, line)
	switch {
	case refused != nil:
		s.stats.Cut[refused.code]++
	case a.asked.Stream:
		s.stats.Streams++
	default:
		s.stats.Wholes++
	}
	if s.draining && len(s.open) == 0 {
		close(s.idle)
	}
	if !a.kept {
		return
	}
	if a.gaveNothing() { // who asks again is to be served
		s.unkeep(a)
		return
	}
	s.ended = append(s.ended, a)
	s.size += a.list(true)
	for s.size > s.c.MaxKept && len(s.ended) > 0 {
		s.unkeep(s.ended[0])
	}
	a.forget = time.AfterFunc(s.c.KeepFor, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unkeep(a)
	})
}

// gaveNothing reports whether an answer has ended with a refusal, before anything of it was given, that a
// repeat of the request need not meet.
func (a *answer) gaveNothing() bool {
	if !follow.Closed(a.over) {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused != nil && !a.refused.last && !a.began
}

// unkeep forgets an answer. The server's lock is held.
func (s *Server) unkeep(a *answer) {
	id := keptKey{a.keyID, a.shape.ID}
	if s.kept[id] != a {
		return
	}
	delete(s.kept, id)
	for i := range s.ended {
		if s.ended[i] == a {
			s.ended = append(s.ended[:i:i], s.ended[i+1:]...)
			s.size -= a.list(false)
			break
		}
	}
	if a.forget != nil {
		a.forget.Stop()
	}
}

// list notes whether it is kept, once it has ended, and returns what it takes.
func (a *answer) list(kept bool) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.listed = kept; kept {
		a.size = a.bytes()
	}
	a.account()
	return a.size
}

func (a *answer) stopTimers() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range []*time.Timer{a.leave, a.forget} {
		if t != nil {
			t.Stop()
		}
	}
}
