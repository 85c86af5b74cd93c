package hub

import (
	"slices"
	"time"
)

// News have all who wait for them meet all agents that have room. Where thousands wait beside slots that they
// can not pay, or do not want, that takes a second, and something happens every few milliseconds: a hub would
// do nothing else, and a task that just came would wait for two of these turns. So after such a look those
// who wait rest, twice as long as it is to take, and nobody else does: who comes meanwhile is offered the
// slots that were left when all were asked last, and none that came free since. For those all compete once
// the rest is over; or at once, where few could have them by the models that they name. How long a look takes
// follows from how many tasks and agents meet, from how long earlier ones took, and from no bid.

// rests is what is known of how long looks take.
type rests struct {
	scale float64       // by how much longer they took of late than they were to take
	now   time.Duration // what those of this turn are to take, before it is scaled; 0: there was none
	// by model, "" for none: tasks that name it and are left since the last, perhaps more
	wanted map[string]int
	news   bool      // there were some since lookApart
	apart  []string  // models whose tasks it wakes, until they were asked
	next   time.Time // it wakes none before: the hub has time for others, too
}

const (
	// what is done in a look for a task takes about, for each group of agents that it is quoted on, and for
	// each agent that it may meet, at least
	lookTask  = time.Microsecond
	lookGroup = 300 * time.Nanosecond
	lookPair  = 130 * time.Nanosecond
	// looks that take less are held whenever there are news, and teach nothing
	lookShort = 2 * time.Millisecond
	lookRest  = 2
	// what a look may take longer than that, where a machine is slow or busy
	lookScale = 16
)

// restAfter has those who wait rest after a look at so many agents; others are still to be looked at, by lot.
// It is called before anybody has a slot.
func (n *Node) restAfter(agents, others int) {
	s := &n.round
	if !s.anew || n.batch.Held() {
		return
	}
	s.anew = false
	pairs := time.Duration(len(s.pairs))
	pairs += pairs * time.Duration(others) / time.Duration(max(1, agents))
	each := lookTask + time.Duration(len(n.crowd.roomy))*lookGroup
	takes := time.Duration(len(s.tasks))*each + pairs*lookPair
	n.rests.now += takes
	if takes = time.Duration(float64(takes) * n.rests.scale); takes >= lookShort {
		n.batch.Rest(n.now, lookRest*takes)
	}
}

// Took says how long the last Ready took.
func (n *Node) Took(d time.Duration) {
	l := &n.rests
	if l.now >= lookShort/4 {
		l.scale += (min(max(float64(d)/float64(l.now), 1), lookScale) - l.scale) / 4
	}
	l.now = 0
}

// offers is how many slots of an agent a round may sell, of so many that are free.
func (n *Node) offers(a *agent, room int) int {
	if w := n.rests.wanted; n.batch.Held() && w[""]+w[a.model] > 0 {
		return min(room, a.declined)
	}
	return room
}

// leaves has the tasks of a round that it did not place wait for news, or for the next round where this one
// was at its limit.
func (n *Node) leaves() {
	s, w := &n.round, n.rests.wanted
	if n.batch.All() == n.batch.Len() {
		clear(w)
	}
	model, many := "", 0 // of those that follow each other
	for _, t := range s.tasks {
		switch {
		case t.state != waiting:
			s.placed = append(s.placed, t)
		case t.again:
			n.batch.Add(t, t.arrived)
		default:
			n.batch.Leave(t, t.arrived)
			if many > 0 && t.msg.Model != model {
				w[model] += many
				many = 0
			}
			model, many = t.msg.Model, many+1
		}
	}
	if many > 0 {
		w[model] += many
	}
}

// lookApart has few of those who rest looked at at once, where a slot is kept that only they could have, by
// the models that they name: else many who wait for one model would keep others from another's slots.
func (n *Node) lookApart() {
	l := &n.rests
	news := l.news
	if l.news = false; !news || !n.batch.Held() || l.wanted[""] > 0 {
		return
	}
	if n.now.Before(l.next) {
		l.news = true
		return
	}
	all := float64(0)
	c := &n.crowd
	each := lookTask + time.Duration(len(c.roomy))*lookGroup + time.Duration(len(c.stands))*lookPair
	for _, a := range n.roster {
		if a.free(n) <= a.declined || slices.Contains(l.apart, a.model) {
			continue
		}
		many := l.wanted[a.model]
		if takes := float64(time.Duration(many)*each) * l.scale; many > 0 && all+takes < float64(lookShort) {
			l.apart, all = append(l.apart, a.model), all+takes
		}
	}
	if len(l.apart) > 0 {
		l.next = n.now.Add(lookRest * time.Duration(all))
		for _, model := range l.apart {
			delete(l.wanted, model)
		}
		n.batch.WakeThose(n.now, func(t *task) bool { return slices.Contains(l.apart, t.msg.Model) })
	}
}

// allAsked notes which slots are left to who comes while others rest, now that all who wait were asked, or
// all who could have these: those of agents of which not every slot was sold that was offered. Of others
// there may be more than that, which an agent is given once it has less to compute.
func (n *Node) allAsked(could func(*agent) bool) {
	for _, a := range n.roster {
		if could(a) {
			a.declined = 0
		}
	}
	for i := range n.crowd.stands {
		if s := &n.crowd.stands[i]; s.room > len(s.agent.holds)-s.runs && could(s.agent) {
			s.agent.declined = s.agent.idle()
		}
	}
}

// keeps reports whether a slot is free that a task might have, and is kept for those who rest.
func (n *Node) keeps(t *task) bool {
	return n.batch.Held() && slices.ContainsFunc(n.roster, func(a *agent) bool {
		room := a.free(n)
		return n.offers(a, room) < room && n.usable(t, a)
	})
}

// onOffer counts the slots that a round may sell now, as far as the count is below most.
func (n *Node) onOffer(most int) (free int) {
	if !n.batch.Held() {
		return n.freeSlots(most)
	}
	for _, a := range n.roster {
		if free >= most {
			return most
		}
		free += n.offers(a, a.free(n))
	}
	return min(free, most)
}
