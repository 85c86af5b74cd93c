package predict

import (
	"fmt"
	"slices"

	"souk/bus/bounded"
)

// Learned holds everything that a hub has learned of its agents and its clients' answers. It is written down
// as [Saved] and read again: the same history gives the same forecasts, whether the hub was started anew in
// between or not. What is read is believed, as it is what this program wrote: see package learned.
type Learned struct {
	Agents  []Learner // by id
	Classes *Classes
	Outputs *Outputs
}

// Learner holds what was learned of one agent, with its model then.
type Learner struct {
	ID, Model string
	Means     *Means
}

// Saved holds what was learned as plain numbers, from which the rest is rebuilt.
type Saved struct {
	Agents  []Learner
	Classes []savedClass

	Lengths []byte // of the gate of answers
	Answers mean
	Clients []savedClient // that was heard of last comes last
}

type savedClass struct {
	Class   *Class
	Named   bool   // agents may yet enter it
	Rest    []byte // of its gate
	Members []int  // among the agents, in the order in which they came
}

type savedClient struct {
	Name     string
	All      mean
	Roles    []saved[string] // used last comes last
	Sessions []saved[uint64] // likewise
}

// saved is the mean of a client's role or session.
type saved[K any] struct {
	Key  K
	Mean mean
}

// mostClients bounds the bytes, about, of clients: of those that were heard of last as many as fit.
const mostClients = 32 << 20

// Saved returns what was learned until now, to be written down at once: it shares memory with the rest.
func (l *Learned) Saved() (s *Saved, err error) {
	s = &Saved{Agents: l.Agents, Answers: l.Outputs.hub}
	if g := l.Outputs.rest; g != nil {
		if s.Lengths, err = g.Saved(); err != nil {
			return nil, err
		}
	}
	numbers := map[*Means]int{}
	for i, a := range l.Agents {
		numbers[a.Means] = i
	}
	known := map[*Class]bool{}
	for _, a := range l.Agents {
		k := a.Means.class
		if known[k] {
			continue
		}
		known[k] = true
		x := savedClass{Class: k, Named: l.Classes.by[k.Key] == k}
		if k.rest != nil {
			if x.Rest, err = k.rest.gate.Saved(); err != nil {
				return nil, err
			}
		}
		for _, m := range k.members {
			if i, ok := numbers[m]; ok {
				x.Members = append(x.Members, i)
			}
		}
		s.Classes = append(s.Classes, x)
	}
	size := 0
	for name, m := range l.Outputs.clients.Of(struct{}{}) { // that was heard of last comes first
		x := savedClient{name, *m, savedOf(l.Outputs.roles, name), savedOf(l.Outputs.sessions, name)}
		if size += x.size(); size > mostClients {
			break
		}
		s.Clients = append(s.Clients, x)
	}
	slices.Reverse(s.Clients)
	return s, nil
}

// savedOf lists a client's means.
func savedOf[K comparable](of *bounded.Cache[string, theirs[K], mean], client string) (all []saved[K]) {
	for x, m := range of.Of(client) {
		all = append(all, saved[K]{x.key, *m})
	}
	slices.Reverse(all)
	return all
}

// restore takes them in again.
func restore[K comparable](of *bounded.Cache[string, theirs[K], mean], client string, all []saved[K]) {
	for _, x := range all {
		m, _ := of.Add(client, theirs[K]{client, x.Key})
		*m = x.Mean
	}
}

// size estimates the bytes that are written of a client.
func (c *savedClient) size() int {
	n := 64 + len(c.Name) + 32*len(c.Sessions)
	for _, r := range c.Roles {
		n += 32 + len(r.Key)
	}
	return n
}

// Restore makes what was learned of what was saved. An error tells of a gate that was made otherwise.
func (s *Saved) Restore(gates Gates) (*Learned, error) {
	l := &Learned{Agents: s.Agents, Classes: NewClasses(gates), Outputs: NewOutputs(gates)}
	for _, a := range l.Agents {
		a.Means.Pace.restore()
		a.Means.Apart.restore()
	}
	for i := range s.Classes {
		if err := l.class(&s.Classes[i]); err != nil {
			return nil, fmt.Errorf("class %d: %w", i, err)
		}
	}
	return l, l.Outputs.restore(s)
}

// class restores one.
func (l *Learned) class(s *savedClass) error {
	k := s.Class
	k.Spread.restore()
	if gates := l.Classes.gates; s.Rest != nil && gates != nil {
		k.rest = newRest(gates)
		if err := k.rest.gate.Restore(s.Rest); err != nil {
			return err
		}
	}
	for _, i := range s.Members {
		m := l.Agents[i].Means
		m.class, k.members = k, append(k.members, m)
	}
	if s.Named {
		l.Classes.by[k.Key] = k
		if k.rest != nil {
			l.Classes.rests++
		}
	}
	return nil
}

func (s *spread) restore() {
	s.sorted = slices.Sorted(slices.Values(s.Ring))
	s.half()
}

func (o *Outputs) restore(s *Saved) error {
	o.hub = s.Answers
	for _, c := range s.Clients {
		all, _ := o.clients.Add(struct{}{}, c.Name)
		*all = c.All
		restore(o.roles, c.Name, c.Roles)
		restore(o.sessions, c.Name, c.Sessions)
	}
	if o.rest != nil {
		return o.rest.Restore(s.Lengths)
	}
	return nil
}
