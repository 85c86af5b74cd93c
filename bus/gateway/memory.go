package gateway

import (
	"net/http"
	"sync/atomic"
	"time"

	"souk/bus"
)

// What requests and answers take beside their bytes, about.
const (
	connCost   = 16 << 10 // a connection: its buffers, and the stack of who serves it
	tlsCost    = 64 << 10 // beside that with TLS, and what HTTP/2 reads and writes there
	answerCost = 8 << 10
	taskCost   = 16 << 10 // who asks for it, who reads it, and their timers
	fieldCost  = 64       // a field of a header
)

// memory counts what requests and answers take, in bytes: never more than there is. New requests are refused
// early, so that answers that run have room to grow; where those grow beyond it all the same, room is made.
type memory struct {
	most    int64
	used    atomic.Int64
	headers atomic.Int64 // of it, what has come of headers whose requests are not known yet
}

// front returns the part of the memory that new requests may fill.
func (m *memory) front() int64 { return m.most / 4 * 3 }

// over returns how many bytes must be freed before answers may grow further: a sixteenth of all stays for
// what they take in while room is made.
func (m *memory) over() int { return int(m.used.Load() - m.most/16*15) }

// full reports whether nothing may grow any more.
func (m *memory) full() bool { return m.used.Load() > m.most }

// take takes n bytes for a new request, if it may have them.
func (m *memory) take(n int) bool {
	for {
		used := m.used.Load()
		if n > 0 && used+int64(n) > m.front() {
			return false
		}
		if m.used.CompareAndSwap(used, used+int64(n)) {
			return true
		}
	}
}

// takeHeader takes n bytes more for headers that are on their way: all of them have an eighth.
func (m *memory) takeHeader(n int) bool {
	used, all := m.used.Add(int64(n)), m.headers.Add(int64(n))
	if all <= m.most/8 && used <= m.front()+m.most/8 {
		return true
	}
	m.leaveHeader(n)
	return false
}

func (m *memory) leaveHeader(n int) {
	m.used.Add(-int64(n))
	m.headers.Add(-int64(n))
}

// add counts what something that is there already has come to take, or takes no more.
func (m *memory) add(n int) {
	if n != 0 {
		m.used.Add(int64(n))
	}
}

// share counts one owner's part of a memory. It is used by one goroutine at a time.
type share struct {
	of   *memory
	held int
	// what all requests take that come with the same key, until they are answers; nil: it is no request's
	key *atomic.Int64
}

// resize makes it n bytes, if a new request may have them: of what is free, those of one key have half.
func (s *share) resize(n int) error {
	more := n - s.held
	if all := s.key.Add(int64(more)); more > 0 && all > s.half(all-int64(more)) {
		s.key.Add(-int64(more))
		return s.refuseKey(n)
	}
	if !s.of.take(more) {
		s.key.Add(-int64(more))
		return s.of.refuse()
	}
	s.held = n
	return nil
}

// half is the most that requests of a key may take, where they take so much.
func (s *share) half(now int64) int64 { return (s.of.front() - s.of.used.Load() + now) / 2 }

// may reports why it may not have n bytes more now, if so.
func (s *share) may(n int) error {
	switch now := s.key.Load(); {
	case s.of.used.Load()+int64(n) > s.of.front() && int64(s.held+n) <= s.of.front()/2:
		return s.of.refuse()
	case now+int64(n) > s.half(now):
		return s.refuseKey(s.held + n)
	}
	return nil
}

// refuseKey refuses what a key's requests have no room for. What one alone never has is too large.
func (s *share) refuseKey(n int) error {
	if int64(n) > s.of.front()/2 {
		return refuse(bus.CodeTooLarge, "to read this takes %d bytes, and a request has %d at most here, by the "+
			"gateway's max_memory: send a smaller one", n, s.of.front()/2)
	}
	return again(bus.CodeNoRoom, retryDefault*time.Millisecond, "requests that come with this key take half of "+
		"this gateway's free memory: send fewer at once, or ask again")
}

// set makes it n bytes.
func (s *share) set(n int) {
	if n != s.held {
		s.of.add(n - s.held)
		s.leave(n - s.held)
		s.held = n
	}
}

// hand leaves n bytes to somebody else, who has counted them.
func (s *share) hand(n int) {
	s.leave(-n)
	s.held -= n
}

func (s *share) leave(more int) {
	if s.key != nil {
		s.key.Add(int64(more))
	}
}

// step is the amount that is counted ahead for what grows with each chunk.
const step = 4 << 10

// reach makes it n bytes at least.
func (s *share) reach(n int) {
	if n > s.held {
		s.set((n + step - 1) / step * step)
	}
}

func (m *memory) refuse() *refusal {
	return again(bus.CodeNoRoom, retryDefault*time.Millisecond, "this gateway's memory is full: "+
		"ask another one, or again")
}

// headerCost estimates the memory of a header.
func headerCost(h http.Header) (n int) {
	for name, values := range h {
		n += fieldCost + len(name)
		for _, v := range values {
			n += len(v) + 16
		}
	}
	return n
}

// relieve makes room where running answers have grown too much: first what is kept of others goes, then the
// running one with most unread, and so on.
func (s *Server) relieve() {
	if s.memory.over() <= 0 || !s.relieving.TryLock() {
		return
	}
	defer s.relieving.Unlock()
	s.items.shrink(s.memory.over())
	for s.cutOne() {
	}
}

// cutOne cuts the answer with most unread, if there is no room without that, and says whether it did. What
// has been cut takes its room until its tasks have ended.
func (s *Server) cutOne() bool {
	s.mu.Lock()
	for s.memory.over() > 0 && len(s.ended) > 0 {
		s.unkeep(s.ended[0])
	}
	over, most, held := s.memory.over(), (*answer)(nil), [2]int64{}
	for a := range s.open {
		now := [2]int64{a.unread.Load(), a.held.Load()}
		switch {
		case a.cut.Load():
			over -= int(now[0] + now[1])
		case most == nil || now[0] > held[0] || now[0] == held[0] && now[1] > held[1]:
			most, held = a, now
		}
	}
	s.mu.Unlock()
	if over <= 0 || most == nil {
		return false
	}
	most.makeRoom()
	return true
}

// makeRoom cuts an answer for the room that it takes.
func (a *answer) makeRoom() {
	if a.cut.Swap(true) {
		return
	}
	why := refuse(bus.CodeNoRoom, "the gateway's memory is full, and this answer takes most of it: "+
		"ask with stream: true, and read it as it comes")
	switch {
	case bus.Pooling(a.asked.Kind):
		why.message = "the gateway's memory is full, and this answer takes most of it: send fewer texts at once"
	case a.asked.Stream:
		why = refuse(bus.CodeSlowReader, "the gateway's memory is full, and most of this answer was not "+
			"read: read it as it comes")
	}
	a.mu.Lock()
	if a.running > 0 {
		a.out.drop()
		a.account()
	}
	a.mu.Unlock()
	a.fail(why)
}

// account counts what the answer takes now: all of it while it runs, and what is there of it as long as
// somebody reads it or it is kept. The lock is held.
func (a *answer) account() {
	n := 0
	if a.running > 0 {
		n = a.asking
	}
	if a.running > 0 || a.there > 0 || a.listed {
		n += a.bytes()
	}
	if a.asked.Stream {
		a.unread.Store(int64(a.out.end() - max(a.taken, a.out.first)))
	}
	if held := int(a.held.Load()); n != held {
		a.s.memory.add(n - held)
		a.held.Store(int64(n))
	}
}

// bytes counts the memory of the answer's text so far. The lock is held.
func (a *answer) bytes() int {
	n := a.out.size() + cap(a.object) + 1024
	if a.said != nil && a.asked.Stream {
		n += a.said.Size()
	}
	if a.refused != nil {
		n += len(a.refused.message)
	}
	return n
}

// takes estimates an answer's memory before any of it has come. A body that tasks share counts once. sending
// is the memory of the tasks' messages, which counts only while the market is asked.
func (a *answer) takes() (n, sending int) {
	n = answerCost
	for i, t := range a.asked.Tasks {
		n, sending = n+taskCost, sending+len(t.Body)
		if i == 0 || &t.Body[0] != &a.asked.Tasks[i-1].Body[0] {
			n += cap(t.Body)
		}
	}
	return n, sending
}

// grown counts what the readers of all tasks keep.
func (s *Server) grown(n int) {
	s.memory.add(n)
	if n > 0 && s.memory.over() > 0 {
		go s.relieve() // who hears chunks must not wait
	}
}
