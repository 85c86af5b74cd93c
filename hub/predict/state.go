package predict

import (
	"bytes"
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"souk/hub/predict/tree"
	"souk/market"
)

// Learned is all that a hub has learned of its agents and its clients' answers, to be written down and read
// again: the same history gives the same forecasts, whether the hub was started anew in between or not.
type Learned struct {
	Agents  []Learner // by id
	Classes *Classes
	Outputs *Outputs
}

// Learner is what was learned of one agent, with the model that it had then.
type Learner struct {
	ID, Model string
	Means     *Means
}

// Bounds of what is read.
const (
	stateMagic  = "souk learned 5\n"
	MostLearned = 64 << 20 // bytes
	mostClients = 32 << 20 // of these, of clients: of those that were heard of last as many as fit
	mostGate    = 1 << 20  // of a tree and its gate
	mostAgents  = 1 << 14
	mostName    = 1 << 10 // bytes of a name
	mostWaits   = 1 << 20 // observations that a class is fitted to together
)

// Append writes it down: the version, then every number as it is. The sum of all, which takes longest, is
// left to [Sealed].
func (l *Learned) Append(to []byte) ([]byte, error) {
	c := &coder{data: append(to, stateMagic...), writes: true}
	l.state(c)
	return c.data, c.err
}

// Sealed is what was written down with its sum at the end.
func Sealed(data []byte) ([]byte, error) {
	if n := len(data) + sha256.Size; n > MostLearned {
		return nil, fmt.Errorf("it has %d bytes, and at most %d are read", n, MostLearned)
	}
	sum := sha256.Sum256(data)
	return append(data, sum[:]...), nil
}

// ReadLearned reads what was written down, for a hub of such a prior. What is damaged or of another version
// is an error, and nothing of it is taken.
func ReadLearned(p Prior, data []byte) (*Learned, error) {
	end := len(data) - sha256.Size
	switch {
	case len(data) > MostLearned:
		return nil, fmt.Errorf("it has %d bytes, and at most %d are read", len(data), MostLearned)
	case !bytes.HasPrefix(data, []byte(stateMagic)):
		return nil, errors.New("it is not of a version that is known here")
	case end < len(stateMagic):
		return nil, errors.New("it ends too early")
	}
	if sum := sha256.Sum256(data[:end]); !bytes.Equal(sum[:], data[end:]) {
		return nil, errors.New("it is damaged: its sum is another")
	}
	l := &Learned{Classes: NewClasses(p), Outputs: NewOutputs()}
	c := &coder{data: data[len(stateMagic):end]}
	l.state(c)
	if len(c.data) > 0 {
		c.fault("%d bytes follow its end", len(c.data))
	}
	if c.err != nil {
		return nil, c.err
	}
	return l, nil
}

func (l *Learned) state(c *coder) {
	n := len(l.Agents)
	c.count(&n, mostAgents)
	if !c.writes {
		l.Agents = make([]Learner, n)
	}
	numbers := map[*Means]int{}
	var classes []*Class
	for i := range l.Agents {
		a := &l.Agents[i]
		c.name(&a.ID)
		c.name(&a.Model)
		if c.writes {
			numbers[a.Means] = i
			if !slices.Contains(classes, a.Means.class) {
				classes = append(classes, a.Means.class)
			}
		} else {
			a.Means = &Means{prior: l.Classes.prior}
		}
		a.Means.state(c)
	}
	n = len(classes)
	c.count(&n, len(l.Agents))
	for i := range n {
		if !c.writes {
			classes = append(classes, newClass(l.Classes.prior))
		}
		k := classes[i]
		named := l.Classes.by[k.key] == k
		c.flag(&named)
		k.state(c)
		l.members(c, k, numbers)
		if !c.writes && named {
			if l.Classes.by[k.key] != nil {
				c.fault("class %d is there twice", i)
			}
			l.Classes.by[k.key] = k
			if k.rest != nil {
				l.Classes.rests++
			}
		}
	}
	for _, a := range l.Agents {
		if a.Means.class == nil {
			c.fault("agent %q is of no class", a.ID)
		}
	}
	l.Outputs.state(c)
}

// members are those of a class, in the order in which they came.
func (l *Learned) members(c *coder, k *Class, numbers map[*Means]int) {
	var order []int
	for _, m := range k.members {
		if i, ok := numbers[m]; ok {
			order = append(order, i)
		}
	}
	n := len(order)
	c.count(&n, len(l.Agents))
	for j := range n {
		i := 0
		if c.writes {
			i = order[j]
		}
		c.count(&i, len(l.Agents)-1)
		if c.writes || c.err != nil {
			continue
		}
		m := l.Agents[i].Means
		if m.class != nil {
			c.fault("agent %q is of two classes", l.Agents[i].ID)
			return
		}
		m.class, k.members = k, append(k.members, m)
	}
	if n == 0 {
		c.fault("a class is of nobody")
	}
}

func (m *Means) state(c *coder) {
	e := &m.seen
	c.floats(&e.count, &e.gone, &e.real)
	e.line.state(c)
	e.token.state(c)
	for _, x := range []*mean{&e.ratio, &e.share, &e.itl} {
		c.floats(&x.sum, &x.weight)
	}
	c.floats(&m.base, &m.slowest)
	m.pace.state(c)
	for _, f := range []*bool{&m.credible, &m.differs, &m.tried, &m.failed, &m.alone, &m.moved} {
		c.flag(f)
	}
	c.count(&m.tries, mostTries)
	c.long(&m.taught)
	c.line(&m.own)
	c.line(&m.anchor)
	d := &m.drift
	c.floats(&d.mean, &d.off, &d.seen, &d.above, &d.below)
	for i := range d.last {
		c.floats(&d.last[i])
	}
	c.count(&d.fresh, settling)
	apart := m.apart != nil
	if c.flag(&apart); apart {
		if !c.writes {
			m.apart = new(spread)
		}
		m.apart.state(c)
	}
	n := len(m.doubts)
	c.count(&n, mostDoubts)
	if !c.writes {
		m.doubts = make([]said, n)
	}
	for i := range m.doubts {
		a := &m.doubts[i]
		c.floats(&a.observed, &a.forecast, &a.low, &a.high)
	}
}

func (s *sums) state(c *coder) {
	for i := range s.xx {
		for j := i; j < terms; j++ {
			c.floats(&s.xx[i][j])
		}
		c.floats(&s.xy[i])
	}
	c.floats(&s.yy)
}

func (s *spread) state(c *coder) {
	c.floats(&s.bounds[0], &s.bounds[1], &s.beyond)
	for i := range s.groups {
		s.groups[i].state(c)
	}
}

func (g *ratios) state(c *coder) {
	n := len(g.ring)
	c.count(&n, ratiosOf)
	if !c.writes {
		g.ring = make([]float64, n)
	}
	for j := range g.ring {
		c.float(&g.ring[j], reckoned)
	}
	c.count(&g.next, max(0, n-1))
	c.floats(&g.level, &g.least, &g.top)
	if !c.writes {
		g.sorted = slices.Sorted(slices.Values(g.ring))
		g.half()
	}
}

func (k *Class) state(c *coder) {
	c.name(&k.key.Model)
	c.name(&k.key.Hardware)
	c.count(&k.key.Context, math.MaxInt32)
	for _, p := range []*market.Credits{&k.key.Price.Miss, &k.key.Price.Hit, &k.key.Price.Out} {
		u := uint64(*p)
		c.long(&u)
		*p = market.Credits(u)
	}
	c.line(&k.coef)
	c.line(&k.token)
	c.floats(&k.ratio, &k.share, &k.itl, &k.least, &k.shrinks, &k.weight, &k.keep)
	c.bound(&k.most)
	c.count(&k.active, mostAgents)
	c.long(&k.taught)
	c.long(&k.fits)
	c.count(&k.since, mostWaits)
	c.count(&k.every, mostWaits)
	c.count(&k.faded, mostWaits)
	k.spread.state(c)
	has := k.rest != nil
	if c.flag(&has); has {
		if !c.writes {
			k.rest = newRest()
		}
		c.gate(k.rest.gate)
	}
}

func (o *Outputs) state(c *coder) {
	c.gate(o.rest)
	means(c, &o.hub)
	c.kinds(o.kinds, kindsKept)
	first, n := o.fitting()
	c.count(&n, clientsKept)
	for e, i := first, 0; i < n && c.err == nil; i++ { // the last that was heard of comes last
		s := &speaker{}
		if c.writes {
			s = e.Value.(*speaker)
			e = e.Prev()
		}
		c.name(&s.name)
		if !c.writes {
			if o.clients[s.name] != nil {
				c.fault("client %q is there twice", s.name)
				return
			}
			s = o.speaker(s.name)
		}
		s.state(c)
		if !c.writes {
			o.sessions += len(s.sessions)
		}
	}
	if o.sessions > sessionsKept {
		c.fault("%d sessions are more than are kept", o.sessions)
	}
}

// fitting are the clients that were heard of last, as many as fit: how many, and who of them was heard of
// first.
func (o *Outputs) fitting() (first *list.Element, n int) {
	size := 0
	for e := o.order.Front(); e != nil; e = e.Next() {
		if size += e.Value.(*speaker).size(); size > mostClients {
			break
		}
		first = e
		n++
	}
	return first, n
}

// size is how many bytes are written of a client.
func (s *speaker) size() int {
	n := 8*6 + len(s.name) + (8+16)*len(s.sessions)
	for r := range s.roles {
		n += 8 + len(r) + 16
	}
	for k := range s.kinds {
		n += 2*8 + len(k[0]) + len(k[1]) + 16
	}
	return n
}

// kinds are means by domain and kind.
func (c *coder) kinds(of map[[2]string]*mean, most int) {
	kinds := slices.SortedFunc(maps.Keys(of),
		func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	n := len(kinds)
	c.count(&n, most)
	for i := range n {
		var k [2]string
		if c.writes {
			k = kinds[i]
		}
		c.name(&k[0])
		c.name(&k[1])
		of[k] = entry(c, of[k])
	}
}

func (s *speaker) state(c *coder) {
	means(c, &s.all)
	c.kinds(s.kinds, kindsEach)
	roles := slices.Sorted(maps.Keys(s.roles))
	n := len(roles)
	c.count(&n, rolesEach)
	for i := range n {
		var r string
		if c.writes {
			r = roles[i]
		}
		c.name(&r)
		s.roles[r] = entry(c, s.roles[r])
	}
	n = len(s.ring)
	c.count(&n, sessionsEach)
	for i := range n {
		var k uint64
		if c.writes {
			k = s.ring[i]
		}
		c.long(&k)
		if !c.writes {
			if s.sessions[k] != nil {
				c.fault("a session of %q is there twice", s.name)
				return
			}
			s.ring = append(s.ring, k)
		}
		s.sessions[k] = entry(c, s.sessions[k])
	}
	c.count(&s.next, max(0, n-1))
}

// entry is a mean of a map.
func entry(c *coder, m *mean) *mean {
	if m == nil {
		m = new(mean)
	}
	means(c, m)
	return m
}

func means(c *coder, m *mean) { c.floats(&m.sum, &m.weight) }

// coder writes what it is shown, or reads it. After a fault it does neither.
type coder struct {
	data   []byte
	writes bool
	err    error
}

func (c *coder) fault(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

func (c *coder) long(v *uint64) {
	switch {
	case c.err != nil:
	case c.writes:
		c.data = binary.LittleEndian.AppendUint64(c.data, *v)
	case len(c.data) < 8:
		c.fault("it ends too early")
	default:
		*v, c.data = binary.LittleEndian.Uint64(c.data), c.data[8:]
	}
}

// floats are numbers that can be reckoned with: what is not is neither written nor read.
func (c *coder) floats(vs ...*float64) {
	for _, v := range vs {
		c.float(v, reckoned)
	}
}

func reckoned(x float64) bool { return math.Abs(x) <= 1e40 }

// bound is a number that others are not above: infinite where there is none.
func (c *coder) bound(v *float64) {
	c.float(v, func(x float64) bool { return x >= 0 && x <= 1e40 || math.IsInf(x, 1) })
}

func (c *coder) float(v *float64, fit func(float64) bool) {
	u := math.Float64bits(*v)
	if c.long(&u); c.err != nil {
		return
	}
	x := math.Float64frombits(u)
	if !fit(x) {
		c.fault("%v is no number to reckon with", x)
		return
	}
	*v = x
}

// gate is a tree behind its gate, which writes itself down.
func (c *coder) gate(g *tree.Gate) {
	var data []byte
	if c.writes {
		data, _ = g.MarshalBinary() // which has no errors
	}
	n := len(data)
	if c.count(&n, mostGate); c.err != nil {
		return
	}
	switch {
	case c.writes:
		c.data = append(c.data, data...)
	case len(c.data) < n:
		c.fault("it ends too early")
	default:
		if err := g.UnmarshalBinary(c.data[:n]); err != nil {
			c.fault("%v", err)
		}
		c.data = c.data[n:]
	}
}

func (c *coder) line(b *line) {
	for i := range b {
		c.floats(&b[i])
	}
}

func (c *coder) flag(v *bool) {
	n := 0
	if *v {
		n = 1
	}
	c.count(&n, 1)
	*v = n == 1
}

// count is a number from 0 to most.
func (c *coder) count(v *int, most int) {
	u := uint64(*v)
	if c.long(&u); c.err == nil && u > uint64(most) {
		c.fault("%d is not from 0 to %d", int64(u), most)
	}
	if c.err != nil && !c.writes {
		u = 0
	}
	*v = int(u)
}

func (c *coder) name(s *string) {
	n := len(*s)
	if c.count(&n, mostName); c.err != nil {
		return
	}
	switch {
	case c.writes:
		c.data = append(c.data, *s...)
	case len(c.data) < n:
		c.fault("it ends too early")
	default:
		*s, c.data = string(c.data[:n]), c.data[n:]
	}
}
