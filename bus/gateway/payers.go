package gateway

import (
	"sync"

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

// leave counts one user less.
func (p *payer) leave() {
	s := p.of
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.users--; p.users == 0 && len(s.all) > s.most {
		delete(s.all, p.id)
	}
}
