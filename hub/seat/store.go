package seat

import (
	"math"
	"time"
)

// session has 48 bytes, and 4 to find it by.
type session struct {
	key    uint64
	ended  time.Duration // of its last turn; of one with an open turn, of the turn before
	client int32
	next   int32 // in its bucket
	older  int32 // of its client's idle ones, by the end of the last turn
	newer  int32
	blocks int32  // that its seat counts
	seat   uint16 // agent, from 1; 0: none
	open   uint16 // turns that wait or run
	turns  uint8  // that were served, up to 255
	gap    uint8  // class of the last pause
	bin    uint8  // of its idle time: what was before is in the index
	over   bool   // it said that it has ended
	used   bool   // the place is taken
}

// client is who has sessions here.
type client struct {
	name           string
	sessions       int32 // remembered
	seats          int32
	blocks         int   // of these
	idle           int32 // sessions that may be forgotten
	oldest, newest int32 // of these
	more, fewer    int32 // clients with as many idle sessions
}

// none is no place in a list.
const none int32 = -1

// store remembers sessions, at most limit of them but for those with open turns. Beyond, whoever has most
// idle ones loses the oldest: so nobody makes others be forgotten by opening many.
type store struct {
	limit    int
	all      []session
	spare    int32   // the first place that is free; they are linked by next
	buckets  []int32 // a power of two, by key
	count    int
	clients  []client
	free     []int32 // places in clients
	byName   map[string]int32
	by       []int32 // of clients, the first with so many idle sessions
	mostIdle int
}

func newStore(limit int) store {
	return store{limit: max(1, limit), spare: none, byName: map[string]int32{}}
}

// mixed spreads keys over buckets (splitmix64).
func mixed(k uint64) uint64 {
	k ^= k >> 30
	k *= 0xbf58476d1ce4e5b9
	k ^= k >> 27
	k *= 0x94d049bb133111eb
	return k ^ k>>31
}

func (s *store) find(key uint64) int32 {
	if len(s.buckets) == 0 {
		return none
	}
	i := s.buckets[mixed(key)&uint64(len(s.buckets)-1)]
	for i != none && s.all[i].key != key {
		i = s.all[i].next
	}
	return i
}

// add remembers a new session of a client, which has no open turn yet and is not idle.
func (s *store) add(key uint64, name string) int32 {
	if s.count >= len(s.buckets) {
		s.grow()
	}
	i := s.spare
	if i != none {
		s.spare = s.all[i].next
	} else {
		i = int32(len(s.all))
		s.all = append(s.all, session{})
	}
	at := mixed(key) & uint64(len(s.buckets)-1)
	s.all[i] = session{key: key, next: s.buckets[at], older: none, newer: none, used: true,
		client: s.clientOf(name)}
	s.buckets[at] = i
	s.count++
	s.clients[s.all[i].client].sessions++
	return i
}

func (s *store) grow() {
	n := max(64, 2*len(s.buckets))
	s.buckets = make([]int32, n)
	for i := range s.buckets {
		s.buckets[i] = none
	}
	for i := range s.all {
		if x := &s.all[i]; x.used {
			at := mixed(x.key) & uint64(n-1)
			x.next, s.buckets[at] = s.buckets[at], int32(i)
		}
	}
}

// remove forgets a session that is not idle and has no seat.
func (s *store) remove(i int32) {
	x := &s.all[i]
	at := &s.buckets[mixed(x.key)&uint64(len(s.buckets)-1)]
	for *at != i {
		at = &s.all[*at].next
	}
	*at = x.next
	s.count--
	c := &s.clients[x.client]
	if c.sessions--; c.sessions == 0 {
		s.unrank(x.client)
		delete(s.byName, c.name)
		*c = client{}
		s.free = append(s.free, x.client)
	}
	*x = session{next: s.spare}
	s.spare = i
}

func (s *store) clientOf(name string) int32 {
	k, ok := s.byName[name]
	if ok {
		return k
	}
	if n := len(s.free); n > 0 {
		k, s.free = s.free[n-1], s.free[:n-1]
	} else {
		k = int32(len(s.clients))
		s.clients = append(s.clients, client{})
	}
	s.clients[k] = client{name: name, oldest: none, newest: none}
	s.byName[name] = k
	s.rank(k)
	return k
}

// rank puts a client among those with as many idle sessions.
func (s *store) rank(k int32) {
	c := &s.clients[k]
	for len(s.by) <= int(c.idle) {
		s.by = append(s.by, none)
	}
	c.fewer, c.more = none, s.by[c.idle]
	if c.more != none {
		s.clients[c.more].fewer = k
	}
	s.by[c.idle] = k
	s.mostIdle = max(s.mostIdle, int(c.idle))
}

// unrank takes it out of them. Who had most of all has one more or one fewer next.
func (s *store) unrank(k int32) {
	c := &s.clients[k]
	if c.fewer != none {
		s.clients[c.fewer].more = c.more
	} else {
		s.by[c.idle] = c.more
	}
	if c.more != none {
		s.clients[c.more].fewer = c.fewer
	}
}

// rest puts a session among its client's idle ones, as the newest.
func (s *store) rest(i int32) {
	x := &s.all[i]
	s.unrank(x.client)
	c := &s.clients[x.client]
	x.newer, x.older = none, c.newest
	if c.newest != none {
		s.all[c.newest].newer = i
	} else {
		c.oldest = i
	}
	c.newest = i
	c.idle++
	s.rank(x.client)
}

// rouse takes a session out of the idle ones.
func (s *store) rouse(i int32) {
	x := &s.all[i]
	s.unrank(x.client)
	c := &s.clients[x.client]
	if x.newer != none {
		s.all[x.newer].older = x.older
	} else {
		c.newest = x.older
	}
	if x.older != none {
		s.all[x.older].newer = x.newer
	} else {
		c.oldest = x.newer
	}
	x.newer, x.older = none, none
	c.idle--
	s.rank(x.client)
	if s.by[s.mostIdle] == none { // then it was this client, which is still next to there
		s.mostIdle--
	}
}

// tooMany is a session to be forgotten; none if there is room, or all have open turns.
func (s *store) tooMany() int32 {
	if s.count <= s.limit || s.mostIdle == 0 {
		return none
	}
	return s.clients[s.by[s.mostIdle]].oldest
}

// count adds one to a small number that stops at its largest.
func counted(n uint8) uint8 { return min(n, math.MaxUint8-1) + 1 }
