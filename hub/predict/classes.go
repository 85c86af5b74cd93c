package predict

import (
	"slices"

	"souk/market"
)

// Key identifies agents that are forecast alike.
type Key struct {
	Model, Hardware string
	Context         int // tokens
	Price           market.Price
}

// Classes are the classes that somebody is in.
type Classes struct {
	by    map[Key]*Class
	gates Gates
	rests int // classes that have a gate
}

// NewClasses returns none.
func NewClasses(gates Gates) *Classes {
	return &Classes{gates: gates, by: map[Key]*Class{}}
}

// Enter puts an agent into the class of a key. What was seen of it comes along.
func (cs *Classes) Enter(k Key, m *Means) {
	c := cs.by[k]
	if c == nil {
		c = new(Class)
		c.Key, c.Spread = k, m.class.Spread.clone()
		if cs.gates != nil && cs.rests < mostRests {
			c.rest = newRest(cs.gates)
			cs.rests++
		}
		cs.by[k] = c
	}
	if m.class != c {
		cs.leave(m)
		c.enter(m)
	}
}

// Leave puts an agent into a class of its own, where nobody comes to it.
func (cs *Classes) Leave(m *Means) {
	cs.leave(m)
	new(Class).enter(m)
}

func (cs *Classes) leave(m *Means) {
	c := m.class
	c.members = slices.DeleteFunc(c.members, func(o *Means) bool { return o == m })
	if len(c.members) > 0 {
		c.fit()
	} else if cs.by[c.Key] == c {
		delete(cs.by, c.Key)
		if c.rest != nil {
			cs.rests--
		}
	}
}

func (cs *Classes) Len() int { return len(cs.by) }
