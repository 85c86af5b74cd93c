package machines

import (
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// whole is a whole market in virtual time: doors, hubs with standbys, agents, a treasury and readers, each of
// them the machine that its process runs, on a bus that loses, delays and reorders what they say, cuts parts
// off and has them stand still, and a registry with leases. Parts are killed between any two steps and start
// again from what is durable.
type whole struct {
	t    *testing.T
	r    *rand.Rand
	now  time.Time
	plan agenda
	log  []string // what happened, for a run that fails

	lost, again float64 // of messages
	late        time.Duration

	parts   []*part
	byName  map[string]*part
	inboxes map[string]func(bus.Message)
	inbox   int
	asking  map[int]*question

	registry *registry
	hubs     []*hubPart
	agents   []*agentPart
	doors    []*doorPart
	bank     *bankPart
	readers  map[string]*readerPart
	order    []*readerPart

	pledged pledges                      // what doors vouched for
	lines   map[[3]string]market.Credits // of them, by client, hub, and door's line

	quiet bool                 // all faults have ended
	left  map[string]time.Time // hubs, since they led last
}

func (w *whole) after(d time.Duration, do func()) {
	w.plan.count++
	heap.Push(&w.plan, moment{w.now.Add(max(0, d)), w.plan.count, do})
}

func (w *whole) run(d time.Duration) {
	for end := w.now.Add(d); ; {
		if len(w.plan.list) == 0 || w.plan.list[0].at.After(end) {
			w.now = end
			return
		}
		e := heap.Pop(&w.plan).(moment)
		w.now = e.at
		e.do()
		if w.t.Failed() {
			return
		}
	}
}

// tell notes what only a run that is looked at wants to know.
func (w *whole) tell(format string, args ...any) {
	if *wholeSeed != 0 {
		w.note(format, args...)
	}
}

func (w *whole) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%9.3f ", w.now.Sub(begin).Seconds())+fmt.Sprintf(format, args...))
}

var begin = time.Unix(1_800_000_000, 0)

// chance is true so often.
func (w *whole) chance(p float64) bool { return w.r.Float64() < p }

// within is a time of at most d.
func (w *whole) within(d time.Duration) time.Duration {
	return time.Duration(w.r.Int64N(int64(d) + 1))
}

// part is a process on the bus.
type part struct {
	w     *whole
	name  string
	up    bool
	life  int
	cut   bool      // the bus does not reach it
	left  time.Time // since then
	knows bool      // and it has noticed
	since time.Time
	sleep time.Time // it stands still until then
	news  func(connected bool)
}

func (w *whole) newPart(name string) *part {
	p := &part{w: w, name: name, up: true, since: w.now}
	w.parts, w.byName[name] = append(w.parts, p), p
	return p
}

// on does something in a part's present life, once it does not stand still.
func (p *part) on(d time.Duration, do func()) {
	life := p.life
	var try func()
	try = func() {
		switch {
		case p.life != life || !p.up:
		case p.sleep.After(p.w.now):
			p.w.after(p.sleep.Sub(p.w.now), try)
		default:
			do()
		}
	}
	p.w.after(d, try)
}

func (p *part) there() bool { return p.up && !p.cut }

// gone reports whether the bus knows that nobody listens there: it hears at once of a process that ends, and
// late of one that is cut off.
func (p *part) gone() bool { return !p.up || p.cut && p.w.now.Sub(p.left) > 10*time.Second }

// connected is since when it has the bus, as far as it knows.
func (p *part) connected() time.Time {
	if p.knows {
		return time.Time{}
	}
	return p.since
}

// isolate cuts a part off for so long. It notices within some seconds, if that lasts.
func (p *part) isolate(d time.Duration) {
	w, life := p.w, p.life
	if p.cut || !p.up {
		return
	}
	p.cut, p.left = true, w.now
	w.note("%s is cut off for %v", p.name, d)
	notice := 200*time.Millisecond + w.within(8*time.Second)
	w.after(notice, func() {
		if p.life == life && p.cut && !p.knows {
			p.on(0, func() {
				if p.cut && !p.knows {
					p.lose()
				}
			})
		}
	})
	w.after(d, func() { p.heal() })
}

func (p *part) lose() {
	p.knows = true
	for _, n := range sortedKeys(p.w.asking) {
		if q := p.w.asking[n]; q != nil && q.from == p {
			q.end(nil, bus.ErrDisconnected)
		}
	}
	if p.news != nil {
		p.news(false)
	}
}

func (p *part) heal() {
	if !p.cut {
		return
	}
	p.cut = false
	p.w.note("%s is there again", p.name)
	p.on(p.w.within(500*time.Millisecond), func() {
		if p.knows && !p.cut {
			p.knows, p.since = false, p.w.now
			if p.news != nil {
				p.news(true)
			}
		}
	})
}

// stop has a part stand still for so long.
func (p *part) stop(d time.Duration) {
	if p.up && !p.sleep.After(p.w.now) {
		p.w.note("%s stands still for %v", p.name, d)
		p.sleep = p.w.now.Add(d)
	}
}

// say sends a message: it is lost, or comes late, or twice where that may be.
func (w *whole) say(from, to *part, twice bool, do func()) {
	if !from.there() || from.knows {
		return
	}
	life := to.life
	for copies := 1; copies > 0; copies-- {
		if twice && w.chance(w.again) {
			copies++
		}
		if w.chance(w.lost) {
			continue
		}
		w.after(w.delay(), func() {
			if to.life == life && to.there() {
				to.on(0, do)
			}
		})
	}
}

func (w *whole) delay() time.Duration {
	if w.chance(0.9) {
		return 50*time.Microsecond + w.within(time.Millisecond)
	}
	return w.within(w.late)
}

// copied encodes a message, and returns a function that decodes it.
func copied[M any, P interface {
	*M
	bus.Message
}](w *whole, m P) func() P {
	data, err := bus.Encode(m)
	if err != nil {
		w.t.Fatalf("%T: %v", m, err)
	}
	return func() P {
		v := P(new(M))
		if err := bus.DecodeForm(data, v); err != nil {
			w.t.Fatalf("%T: %v", m, err)
		}
		return v
	}
}

// question waits for one answer.
type question struct {
	w      *whole
	from   *part
	life   int
	number int
	name   string
	ended  bool
	done   func(bus.Message, error)
}

func (q *question) end(m bus.Message, err error) {
	if q.ended {
		return
	}
	q.ended = true
	delete(q.w.asking, q.number)
	delete(q.w.inboxes, q.name)
	if q.from.life == q.life {
		q.from.on(0, func() { q.done(m, err) })
	}
}

var errTime = errors.New("no answer came in time")

// ask sends a question to a part, and hands on its answer or why none came. put hands it over, with the inbox
// that its answer is to go to; it reports false where nobody listens there.
func (w *whole) ask(from *part, to []*part, twice bool, within time.Duration,
	put func(to *part, inbox string) bool, done func(bus.Message, error)) *question {
	w.inbox++
	q := &question{w: w, number: w.inbox, from: from, life: from.life,
		name: fmt.Sprint("_INBOX.", from.name, ".", w.inbox), done: done}
	w.asking[q.number] = q
	w.inboxes[q.name] = func(m bus.Message) { q.end(m, nil) }
	if from.knows {
		q.end(nil, bus.ErrNotSent)
		return q
	}
	w.after(within, func() { q.end(nil, errTime) })
	there := 0
	for _, p := range to {
		if p.gone() {
			continue
		}
		there++
		heard := false
		w.say(from, p, twice, func() {
			if !put(p, q.name) && !heard && len(to) == 1 {
				w.say(p, from, false, func() { q.end(nil, bus.ErrNoResponders) })
			}
			heard = true
		})
	}
	if there == 0 && from.there() {
		w.after(w.delay(), func() {
			if from.there() {
				q.end(nil, bus.ErrNoResponders)
			}
		})
	}
	return q
}

// answer sends an answer to an inbox.
func (w *whole) answer(from *part, inbox string, twice bool, m func() bus.Message) {
	if s := strings.Split(inbox, "."); len(s) == 3 {
		w.say(from, w.byName[s[1]], twice, func() {
			if f := w.inboxes[inbox]; f != nil {
				f(m())
			}
		})
	}
}

// registry is etcd: always there for who is not cut off. Whoever does not renew its lease loses it.
type registry struct {
	rev    int64
	leads  map[string]*lead
	claims map[string]*bus.Claim
	owners map[string]*lead // of claims
	agents map[string]*listed
	led    map[string]time.Time // hubs that have led, by journal, and until when that is remembered
	vouch  map[string]*bus.VouchKeys
}

type lead struct {
	hub   *hubPart
	life  int
	entry bus.HubEntry
	epoch int64
	alive time.Time
}

type listed struct {
	reg   bus.Registration
	part  *agentPart
	life  int
	rev   int64
	alive time.Time
}

const (
	hubLease   = 5 * time.Second
	agentLease = 10 * time.Second
	beat       = 250 * time.Millisecond
)

// renew is the registry's beat: leases are renewed and end, and what has changed is seen.
func (w *whole) renew() {
	g := w.registry
	awake := func(p *part, life int) bool { return p.there() && p.life == life && !p.sleep.After(w.now) }
	for _, journal := range sortedKeys(g.led) {
		if !w.now.Before(g.led[journal]) {
			delete(g.led, journal)
		}
	}
	for _, d := range sortedKeys(g.leads) {
		l := g.leads[d]
		if awake(l.hub.part, l.life) && l.hub.lead == l {
			l.alive = w.now
			if g.led[l.entry.Journal].Before(w.now.Add(bus.LedFor - bus.LedEvery)) {
				g.led[l.entry.Journal] = w.now.Add(bus.LedFor)
			}
		} else if w.now.Sub(l.alive) >= hubLease {
			w.note("the lease of %s on %s ends", l.hub.name, d)
			w.endLead(l)
		}
	}
	for _, id := range sortedKeys(g.agents) {
		a := g.agents[id]
		if awake(a.part.part, a.life) {
			a.alive = w.now
			w.register(a.part)
		} else if w.now.Sub(a.alive) >= agentLease {
			w.note("the lease of %s ends", id)
			delete(g.agents, id)
		}
	}
	for _, a := range w.agents {
		if awake(a.part, a.life) && g.agents[a.name] == nil {
			w.register(a)
		}
	}
	for _, h := range w.hubs {
		if awake(h.part, h.life) {
			h.on(w.within(50*time.Millisecond), h.look)
		}
		l := h.lead
		if l != nil && (h.up && w.now.Sub(l.alive) >= hubLease || g.leads[h.domain] != l) {
			h.on(w.within(300*time.Millisecond), func() { h.deposed(l) })
		}
	}
	for _, a := range w.agents {
		if awake(a.part, a.life) {
			a.on(w.within(50*time.Millisecond), a.readClaim)
		}
	}
	for _, d := range w.doors {
		if awake(d.part, d.life) {
			d.on(w.within(50*time.Millisecond), d.readHubs)
		}
	}
	w.after(beat, w.renew)
}

func (w *whole) endLead(l *lead) {
	g := w.registry
	if w.left[l.entry.Journal] = w.now; g.leads[l.hub.domain] == l {
		delete(g.leads, l.hub.domain)
	}
	for _, id := range sortedKeys(g.claims) {
		if g.owners[id] == l {
			delete(g.claims, id)
			delete(g.owners, id)
		}
	}
}

func (w *whole) register(a *agentPart) {
	g := w.registry
	reg := *a.core.Registration(a.name)
	old := g.agents[a.name]
	if old != nil && old.life == a.life && fmt.Sprint(old.reg) == fmt.Sprint(reg) {
		return
	}
	g.rev++
	g.agents[a.name] = &listed{reg: reg, part: a, life: a.life, rev: g.rev, alive: w.now}
}
