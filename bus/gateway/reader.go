package gateway

import (
	"fmt"
	"time"

	"souk/bus"
	"souk/bus/follow"
)

// settled reports whether the answers of all tasks come, or there is none.
func (a *answer) settled() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.waiting == 0 || a.refused != nil
}

// readBy reports whether it is still this reader that reads the stream.
func (a *answer) readBy(reader int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reader == reader
}

// poke is tell for who has not the lock.
func (a *answer) poke() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tell()
}

// tell wakes who reads, if anybody does. The lock is held.
func (a *answer) tell() { follow.Nudge(a.news) }

// attach makes the caller the one who reads the answer, from an event on; -1 is from its beginning. Whoever
// read it before reads no more. A stream says on news whatever its reader may want to know.
func (a *answer) attach(last int) (reader int, news chan struct{}, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked.Stream {
		from, ok := a.out.first, last < 0 && a.out.lost == 0
		if last >= 0 {
			from, ok = a.out.after(last)
		}
		if !ok {
			return 0, nil, a.gone(last)
		}
		a.taken = from
	}
	a.readers, a.there = a.readers+1, a.there+1
	a.reader = a.readers
	if a.leave != nil {
		a.leave.Stop()
	}
	a.account()
	if a.asked.Stream {
		a.tell()
		a.news = make(chan struct{}, 1)
	}
	return a.reader, a.news, nil
}

// gone says why a stream cannot be read from behind an event, or, at -1, from the first. The lock is held.
func (a *answer) gone(last int) *refusal {
	to := a.out.lost + len(a.out.ids) - 1
	yet := " yet"
	if a.running == 0 {
		yet = ""
	}
	why := refuse(bus.CodeAnswerGone, "this answer has no event %d%s: its last is %d", last, yet, to)
	if last <= to {
		what := "the beginning"
		if last >= 0 {
			what = fmt.Sprintf("what follows event %d", last)
		}
		why = refuse(bus.CodeAnswerGone, "%s of this answer is kept no more: it goes on behind event %d "+
			"(Last-Event-ID) at /v1/streams/%s", what, a.out.lost-1, a.shape.ID)
	}
	why.task = a.shape.ID
	return why
}

// left notes that the reader is gone. Unless the answer can be read again, that ends it.
func (a *answer) left(reader int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.there--
	a.account()
	if a.asked.Stream && a.reader != reader || !a.asked.Stream && a.there > 0 { // all wait for a whole answer
		return
	}
	a.reader = 0
	a.tell()
	if a.running == 0 {
		return
	}
	a.s.count(func(s *Stats) { s.Left++ })
	if !a.kept {
		a.giveUp()
		return
	}
	a.leave = time.AfterFunc(a.s.c.ResumeWithin, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.reader == 0 {
			a.giveUp()
		}
	})
}

// giveUp cancels what still runs. The lock is held.
func (a *answer) giveUp() {
	if a.refused == nil && a.running > 0 {
		a.refused = refuse(bus.CodeCancelled, "%v", errLeft)
		a.refused.task = a.shape.ID
		a.stop()
	}
}

// next returns what follows what the reader has, and whether that is all. mine is false where another reads
// now.
func (a *answer) next(reader int) (data []byte, all, mine bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.reader != reader {
		return nil, false, false
	}
	data, ok := a.out.take(a.taken)
	if !ok { // what it has not taken yet is kept no more
		why := refuse(bus.CodeSlowReader, "too much of the answer was not read: read it as it comes")
		why.task = a.shape.ID
		return a.errorEvent(nil, why), true, true
	}
	a.taken += len(data)
	a.account()
	return data, a.running == 0, true
}

// leaves makes the refusal for a reader that has closed its side of the connection: it may still read.
func (a *answer) leaves() *refusal {
	if !a.kept {
		<-a.over // then it is known what is paid all the same
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.refused != nil {
			return a.refused
		}
		return a.reckoned(refuse(bus.CodeCancelled, "%v", errLeft))
	}
	r := again(bus.CodeUnknown, time.Second, "the connection was closed on its client's side: for %v the answer "+
		"waits for whoever comes back to it", a.s.c.ResumeWithin)
	r.again = true
	return r
}

// lastEvent is the one with which its reader is left.
func (a *answer) lastEvent(why *refusal) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	said := *why
	said.task = a.shape.ID
	return a.errorEvent(nil, &said)
}

// begin says that the answer's status goes out now. It returns the refusal that is the answer instead.
func (a *answer) begin() (bus.Accepted, *refusal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refused != nil && !a.began {
		return a.accepted, a.refused
	}
	a.began = true
	return a.accepted, nil
}
