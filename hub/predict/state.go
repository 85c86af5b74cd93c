package predict

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"souk/bus/learned"
)

// Learned holds everything that a hub has learned of its agents and its clients' answers. It is written down
// as [Saved] and read again: the same history gives the same forecasts, whether the hub was started anew in
// between or not.
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
	Speaker  *speaker
	Sessions []entry[uint64] // used last comes last
}

// Bounds of what is saved and restored.
const (
	mostClients = 32 << 20 // bytes, about, of clients: of those that were heard of last as many as fit
	mostAgents  = 1 << 14
	mostWaits   = 1 << 20 // observations that a class is fitted to together
	noMost      = -1      // in place of [Class.Most], where there is none
)

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
		c := *k
		if math.IsInf(c.Most, 1) {
			c.Most = noMost
		}
		x := savedClass{Class: &c, Named: l.Classes.by[k.Key] == k}
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
	for name, c := range l.Outputs.clients.Of(struct{}{}) { // that was heard of last comes first
		x := savedClient{Speaker: *c}
		for of, m := range l.Outputs.sessions.Of(name) {
			x.Sessions = append(x.Sessions, entry[uint64]{of.key, *m})
		}
		if size += x.size(); size > mostClients {
			break
		}
		slices.Reverse(x.Sessions)
		s.Clients = append(s.Clients, x)
	}
	slices.Reverse(s.Clients)
	return s, nil
}

// size estimates the bytes that are written of a client.
func (c *savedClient) size() int {
	n := 64 + len(c.Speaker.Name) + 32*len(c.Sessions)
	for _, r := range c.Speaker.Roles {
		n += 32 + len(r.Key)
	}
	return n
}

// Restore makes what was learned of what was saved. What does not fit together is an error.
func (s *Saved) Restore(gates Gates) (*Learned, error) {
	if err := learned.Check(s, 1e40); err != nil {
		return nil, err
	}
	l := &Learned{Agents: s.Agents, Classes: NewClasses(gates), Outputs: NewOutputs(gates)}
	if len(s.Agents) > mostAgents {
		return nil, fmt.Errorf("%d agents, at most %d are known", len(s.Agents), mostAgents)
	}
	for _, a := range s.Agents {
		if a.Means == nil || !a.Means.restore() {
			return nil, fmt.Errorf("what is known of agent %q does not fit together", a.ID)
		}
	}
	for i := range s.Classes {
		if err := l.class(&s.Classes[i]); err != nil {
			return nil, fmt.Errorf("class %d: %w", i, err)
		}
	}
	for _, a := range l.Agents {
		if a.Means.class == nil {
			return nil, fmt.Errorf("agent %q is of no class", a.ID)
		}
	}
	return l, l.Outputs.restore(s)
}

// class restores one.
func (l *Learned) class(s *savedClass) error {
	k := s.Class
	if k == nil || len(s.Members) == 0 || k.Active > mostAgents ||
		max(k.Since, k.Every, k.Faded) > mostWaits ||
		k.Most < 0 && k.Most != noMost || !k.Spread.restore() {
		return errors.New("it does not fit together")
	}
	if k.Most == noMost {
		k.Most = math.Inf(1)
	}
	if gates := l.Classes.gates; s.Rest != nil && gates != nil {
		k.rest = newRest(gates)
		if err := k.rest.gate.Restore(s.Rest); err != nil {
			return err
		}
	}
	for _, i := range s.Members {
		if i >= len(l.Agents) || l.Agents[i].Means.class != nil {
			return fmt.Errorf("its member %d is none, or of another class", i)
		}
		m := l.Agents[i].Means
		m.class, k.members = k, append(k.members, m)
	}
	if !s.Named {
		return nil
	}
	if l.Classes.by[k.Key] != nil {
		return errors.New("it is there twice")
	}
	l.Classes.by[k.Key] = k
	if k.rest != nil {
		l.Classes.rests++
	}
	return nil
}

// restore makes the rest of what was saved, and reports whether that fits together.
func (m *Means) restore() bool {
	return m.Tries <= mostTries && m.Drift.Fresh <= settling && len(m.Doubts) <= mostDoubts &&
		m.Pace.restore() && (m.Apart == nil || m.Apart.restore())
}

func (s *spread) restore() bool {
	return s.Groups[0].restore() && s.Groups[1].restore() && s.Groups[2].restore()
}

func (g *ratios) restore() bool {
	if len(g.Ring) > ratiosOf || g.Next >= max(1, len(g.Ring)) {
		return false
	}
	g.sorted = slices.Sorted(slices.Values(g.Ring))
	g.half()
	return true
}

func (o *Outputs) restore(s *Saved) error {
	if o.rest != nil {
		if err := o.rest.Restore(s.Lengths); err != nil {
			return err
		}
	}
	if len(s.Clients) > clientsKept {
		return fmt.Errorf("%d clients, at most %d are known", len(s.Clients), clientsKept)
	}
	o.hub = s.Answers
	for _, c := range s.Clients {
		if c.Speaker == nil || len(c.Speaker.Roles) > rolesEach ||
			o.clients.Peek(c.Speaker.Name) != nil {
			return errors.New("what is known of a client does not fit together")
		}
		*o.speaker(c.Speaker.Name) = *c.Speaker
		for _, x := range c.Sessions {
			m, _ := o.sessions.Add(c.Speaker.Name, sessionOf{c.Speaker.Name, x.Key})
			*m = x.Mean
		}
	}
	return nil
}
