// Package membus is the whole bus and registry in memory: the contracts of package bus with nothing
// between, and switches that tests use to cut, drop and expire.
package membus

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"souk/bus"
)

// PendingLimit bounds the messages that wait for one slow handler before more are dropped, as in natsbus.
const PendingLimit = 65536

// World is the network that all buses of one simulation share.
type World struct {
	store *store

	mu      sync.Mutex
	rng     *rand.Rand
	literal map[string][]*sub // by subject, where it has no wildcard
	wild    []*sub
	buses   map[string]*Bus
	drops   []drop
	inboxes int
}

// drop is a number of messages to lose.
type drop struct {
	subject string
	left    int
}

// New makes a world that delivers at once, each subscription on a goroutine of its own, as NATS does. The
// seed draws which member of a queue gets a message.
func New(seed uint64) *World {
	return &World{
		store:   newStore(),
		rng:     rand.New(rand.NewPCG(seed, 0x50a1)),
		literal: map[string][]*sub{},
		buses:   map[string]*Bus{},
	}
}

// Bus connects under a name, which Cut and Heal take and which must be new.
func (w *World) Bus(name string) *Bus {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.buses[name] != nil {
		panic(fmt.Sprintf("membus: two buses named %s", name))
	}
	b := &Bus{world: w, name: name, health: make(chan bus.Health, 16), online: true, since: time.Now(),
		cut: make(chan struct{})}
	b.tell(bus.Health{Connected: true})
	w.buses[name] = b
	return b
}

// Registry connects to the registry that all of the world shares. Each call makes a connection of its
// own, which can be cut alone.
func (w *World) Registry() *Registry { return &Registry{store: w.store, online: make(chan struct{})} }

// Cut takes a bus off the network, as seen by everyone: it hears nothing, and what it says is lost.
func (w *World) Cut(name string) { w.setOnline(name, false) }

// Heal connects it again.
func (w *World) Heal(name string) { w.setOnline(name, true) }

func (w *World) setOnline(name string, online bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.buses[name]
	if b == nil {
		panic(fmt.Sprintf("membus: no bus named %s", name))
	}
	if b.online == online || b.closed {
		return
	}
	b.online, b.since = online, time.Now()
	h := bus.Health{Connected: online, Dropped: b.dropped}
	if !online {
		h.Err = bus.ErrDisconnected
		close(b.cut)
		b.cut = make(chan struct{})
	}
	b.tell(h)
}

// DropNext loses the next n messages whose subject matches, without an error at either end.
func (w *World) DropNext(n int, subject string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drops = append(w.drops, drop{subject, n})
}

// Expire ends the lease that a key is under, as if its owner had been silent for too long. It reports whether
// the key had one.
func (w *World) Expire(key string) bool { return w.store.expire(key) }

// publish routes m to one member of each queue and to every subscription without one. It returns how
// many will get it. The caller holds w.mu.
func (w *World) publish(m bus.Msg) int {
	targets := w.match(m.Subject)
	if len(targets) == 0 || w.dropped(m.Subject) {
		return len(targets)
	}
	m.Data = slices.Clone(m.Data)
	m.Header = maps.Clone(m.Header)
	for _, s := range targets {
		s.push(m)
	}
	return len(targets)
}

func (w *World) dropped(subject string) bool {
	for i := range w.drops {
		if d := &w.drops[i]; d.left > 0 && matches(d.subject, subject) {
			d.left--
			return true
		}
	}
	return false
}

// match returns the subscriptions that a message goes to.
func (w *World) match(subject string) []*sub {
	var all []*sub
	queues := map[string][]*sub{}
	for _, list := range [][]*sub{w.literal[subject], w.wild} {
		for _, s := range list {
			switch {
			case !s.bus.online || !matches(s.subject, subject):
			case s.queueName == "":
				all = append(all, s)
			default:
				queues[s.queueKey] = append(queues[s.queueKey], s)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		members := queues[name]
		all = append(all, members[w.rng.IntN(len(members))])
	}
	return all
}

func (w *World) add(s *sub) {
	if isWild(s.subject) {
		w.wild = append(w.wild, s)
	} else {
		w.literal[s.subject] = append(w.literal[s.subject], s)
	}
}

func (w *World) remove(s *sub) {
	w.wild = without(w.wild, s)
	if rest := without(w.literal[s.subject], s); len(rest) > 0 {
		w.literal[s.subject] = rest
	} else {
		delete(w.literal, s.subject)
	}
}

func without(list []*sub, s *sub) []*sub {
	return slices.DeleteFunc(list, func(x *sub) bool { return x == s })
}

func (w *World) nextInbox(name string) string {
	w.inboxes++
	return bus.InboxOf(name) + "." + strconv.Itoa(w.inboxes)
}

func isWild(subject string) bool {
	return strings.Contains(subject, "*") || strings.HasSuffix(subject, ">")
}

// matches reports whether a subject matches a pattern: '*' matches one token, a last '>' one or more.
func matches(pattern, subject string) bool {
	for {
		p, patternMore, pMore := strings.Cut(pattern, ".")
		s, subjectMore, sMore := strings.Cut(subject, ".")
		switch {
		case p == ">" && !pMore:
			return true
		case p != "*" && p != s:
			return false
		case pMore != sMore:
			return false
		case !pMore:
			return true
		}
		pattern, subject = patternMore, subjectMore
	}
}
