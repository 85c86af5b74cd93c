package gateway

import (
	"slices"
	"sync"
	"time"

	"souk/bus/client"
)

// payers are the market's clients for whom the gateway speaks: one for each name, as long as anybody uses it,
// so that its limits hold for all requests under that name together.
type payers struct {
	open func(id string) (*client.Client, error)
	most int // that are remembered though nobody uses them

	mu  sync.Mutex
	all map[string]*payer
}

// payer speaks for one of them.
type payer struct {
	*client.Client
	of    *payers
	id    string
	users int
	held  []waiting // for money that others have, whoever began to wait first before others
}

type waiting struct {
	answer *answer
	since  time.Time
}

// shared reports whether others use it, too.
func (p *payer) shared() bool {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	return p.users > 1
}

// await has an answer asked for again when another has ended.
func (p *payer) await(a *answer, since time.Time) {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	at, _ := slices.BinarySearchFunc(p.held, since,
		func(w waiting, t time.Time) int { return w.since.Compare(t) })
	p.held = slices.Insert(p.held, at, waiting{a, since})
}

// awaits forgets that it does.
func (p *payer) awaits(a *answer) {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.held = slices.DeleteFunc(p.held, func(w waiting) bool { return w.answer == a })
}

// mostPayers bounds those remembered: another is made in a microsecond.
const mostPayers = 4096

func newPayers(most int, open func(string) (*client.Client, error)) *payers {
	return &payers{open: open, most: most, all: map[string]*payer{}}
}

// take returns who speaks for a client, until leave.
func (s *payers) take(id string) (*payer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.all[id]
	if p == nil {
		c, err := s.open(id)
		if err != nil {
			return nil, err
		}
		p = &payer{Client: c, of: s, id: id}
		s.all[id] = p
	}
	p.users++
	return p, nil
}

// leave counts one user less. What waits for money is asked for again.
func (p *payer) leave() {
	s := p.of
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(p.held) > 0 {
		go p.held[0].answer.goOn()
	}
	if p.users--; p.users == 0 && len(s.all) > s.most {
		delete(s.all, p.id)
	}
}
