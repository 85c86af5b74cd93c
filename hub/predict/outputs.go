package predict

import (
	"container/list"
	"math"
)

// Source is whose task one is, as far as that says how long its answer may be.
type Source struct {
	Client, Role string
	Domain, Kind string
	Session      uint64 // 0: none
}

// Bounds of what is kept of the lengths of answers, some 10 MB: a client with any number of sessions is known
// by its latest, and forgets no other's.
const (
	sessionsEach = 1024
	sessionsKept = 1 << 16
	clientsKept  = 1 << 14
	rolesEach    = 16
	kindsKept    = 256
	// pseudo is how many answers of the wider mean a narrower one begins with.
	pseudo = 4
	// answersKept is after how many answers one counts a third.
	answersKept = 200
)

// Outputs expects how long answers are: by those of the session before, drawn to those of its client's role,
// to those of its domain and kind, to those of the hub. Not for concurrent use.
type Outputs struct {
	hub      mean
	kinds    map[[2]string]*mean
	clients  map[string]*speaker
	order    *list.List // of the speakers, whose answer came last first
	sessions int
}

// speaker is a client.
type speaker struct {
	name     string
	at       *list.Element
	roles    map[string]*mean
	sessions map[uint64]*mean
	ring     []uint64 // the sessions, by when they were first seen, from next on
	next     int
}

// NewOutputs has seen no answer.
func NewOutputs() *Outputs {
	return &Outputs{kinds: map[[2]string]*mean{}, clients: map[string]*speaker{}, order: list.New()}
}

// drawn is a mean that begins as another at the weight of some answers.
func (m *mean) drawn(to float64) float64 {
	if m == nil {
		return to
	}
	return (m.sum + float64(pseudo*to)) / (m.weight + pseudo)
}

// Expect is how many tokens the answer to a task is expected to have, where so many are assumed of an answer
// that nothing is known of.
func (o *Outputs) Expect(s Source, assumed int) int {
	at := o.hub.drawn(float64(assumed))
	at = o.kinds[[2]string{s.Domain, s.Kind}].drawn(at)
	if c := o.clients[s.Client]; c != nil {
		at = c.roles[s.Role].drawn(at)
		if s.Session != 0 {
			at = c.sessions[s.Session].drawn(at)
		}
	}
	return max(1, int(math.Floor(at+0.5)))
}

// count takes in an answer.
func (m *mean) count(tokens float64) {
	const keep = 1 - 1.0/answersKept
	m.sum, m.weight = float64(m.sum*keep)+tokens, float64(m.weight*keep)+1
}

// Learn takes in how many tokens an answer had.
func (o *Outputs) Learn(s Source, tokens int) {
	if max(len(s.Client), len(s.Role), len(s.Domain), len(s.Kind)) > mostName {
		return
	}
	n := float64(min(max(0, tokens), 1e7))
	o.hub.count(n)
	kind := [2]string{s.Domain, s.Kind}
	k := o.kinds[kind]
	if k == nil && len(o.kinds) < kindsKept {
		k = new(mean)
		o.kinds[kind] = k
	}
	if k != nil {
		k.count(n)
	}
	c := o.speaker(s.Client)
	r := c.roles[s.Role]
	if r == nil && len(c.roles) < rolesEach {
		r = new(mean)
		c.roles[s.Role] = r
	}
	if r != nil {
		r.count(n)
	}
	if s.Session != 0 {
		o.session(c, s.Session).count(n)
	}
	for o.sessions > sessionsKept || len(o.clients) > clientsKept {
		last := o.order.Remove(o.order.Back()).(*speaker)
		delete(o.clients, last.name)
		o.sessions -= len(last.sessions)
	}
}

// speaker is a client, who is the last now that was heard of.
func (o *Outputs) speaker(name string) *speaker {
	c := o.clients[name]
	if c == nil {
		c = &speaker{name: name, roles: map[string]*mean{}, sessions: map[uint64]*mean{}}
		c.at = o.order.PushFront(c)
		o.clients[name] = c
	}
	o.order.MoveToFront(c.at)
	return c
}

// session is a client's session, in the place of its oldest where it has too many.
func (o *Outputs) session(c *speaker, key uint64) *mean {
	m := c.sessions[key]
	if m != nil {
		return m
	}
	m = new(mean)
	c.sessions[key] = m
	if len(c.ring) < sessionsEach {
		c.ring = append(c.ring, key)
		o.sessions++
		return m
	}
	delete(c.sessions, c.ring[c.next])
	c.ring[c.next] = key
	c.next = (c.next + 1) % sessionsEach
	return m
}
