package hub

import (
	"cmp"
	"slices"
	"time"

	"souk/hub/line"
	"souk/market"
)

// A round asks of every task that waits what each open agent would be for it. Most agents are alike to it: of
// one kind, with as much in hand, and holding nothing of its prompt. So agents are put into groups once
// a round, a task is quoted once on each group, and one by one only on those that hold some of its prompt.

// stand is an open agent in one round.
type stand struct {
	agent         *agent
	room, running int // slots that are free; tasks that a task would run beside
	backlog       backlog
	runs          int // tasks that run
	group         int32
	told          uint64         // the last round in which an agent was told from the others of its group
	row           int32          // in crowd.rows, for the task that is looked at: see asked
	asked         uint64         // the last task that told it from the others of its group
	beside        market.Credits // the toll for what a task does to those who run there
	charge        market.Credits // of its last tier

	ends  line.Ends     // of what runs there, where they were asked for
	ended uint64        // in which round that was
	next  time.Duration // until there is a slot for one more than those who wait there
	ok    bool          // there is such a time
	// tasks that would rather wait here than where they are at home, of those that came so far
	guests int
}

// group is open agents that are alike but for what they hold and who waits for them.
type group struct {
	first   *agent
	lane    int32
	backlog backlog
	size    int
	most    market.Credits // of its agents' tolls and charges, together

	stands []int32 // by the wait of one more, where it was asked for
	sorted uint64  // in which round that was
	rooms  []int32 // that have a free slot
	free   int     // of these, how many at the beginning have not any more, after all who came so far
	// how much later a first token comes at least of a slot that is waited for here than of one at an agent
	// that is idle
	later time.Duration

	// of the task that is looked at
	asked uint64        // which one that is
	apart int           // agents that it tells from the others
	row   int32         // of the others, in crowd.rows; -1: it was not asked for
	rows  int32         // the last of those that its agents have; -1: there are none
	least time.Duration // that a first token takes there; below 0: it was not asked for
}

// lane is the groups of agents that are quoted alike. Most tasks look at few of them.
type lane struct {
	first   *agent
	kind    *kind
	parses  bool
	text    bool
	longest time.Duration // of their backlogs
	size    int           // agents
	calm    []int32       // the groups, those first that delay a task least
	soon    []int32       // those first whose slots come soonest: see group.later

	asked uint64 // the task that is looked at
	apart int    // agents that it tells from others
}

// standUp finds out which agents take tasks, now or as soon as they have a slot, how much room they have, and
// which of them are alike.
func (n *Node) standUp() {
	c := &n.crowd
	c.round++
	c.slots, c.free, c.full = 0, 0, false
	c.stands, c.groups, c.lanes = c.stands[:0], c.groups[:0], c.lanes[:0]
	c.roomy = c.roomy[:0]
	clear(c.places)
	for _, a := range n.roster {
		if !a.open(n) {
			continue
		}
		a.seat = len(c.stands)
		c.stands = again(c.stands)
		s := &c.stands[a.seat]
		n.stand(s, a)
		c.slots, c.free, c.full = c.slots+a.slots, c.free+s.room, c.full || s.room == 0
		s.group = n.groupOf(a, s.backlog)
		g := &c.groups[s.group]
		g.size, g.stands, g.most = g.size+1, append(g.stands, int32(a.seat)), 0
		c.lanes[g.lane].size++
		if s.room > 0 {
			if len(g.rooms) == 0 {
				c.roomy = append(c.roomy, s.group)
			}
			g.rooms = append(g.rooms, int32(a.seat))
		}
		place := int(a.place)
		for place >= len(c.places) {
			c.places = append(c.places, 0)
		}
		c.places[place] = int32(a.seat) + 1
	}
	for i := range c.lanes {
		l := &c.lanes[i]
		slices.SortFunc(l.calm, func(a, b int32) int {
			return cmp.Compare(c.groups[a].backlog.All, c.groups[b].backlog.All)
		})
		l.soon = append(l.soon[:0], l.calm...)
		l.longest = c.groups[l.calm[len(l.calm)-1]].backlog.All
	}
}

// stand says how an open agent stands before anybody has joined a line.
func (n *Node) stand(s *stand, a *agent) {
	s.guests, s.agent, s.room, s.charge = 0, a, max(0, a.slots-len(a.holds)-a.stuck), 0
	s.room = n.roomOf(a, s.room)
	s.runs = len(a.holds)
	s.running = min(s.runs, max(0, a.slots-1)) // where there is no room it will be one task less
	s.backlog = n.backlog(a)
	if k := len(a.tiers); n.cfg.Tiers && k > 0 {
		s.charge = a.tiers[k-1].Toll
	}
}

// again is a list with one more, which is what stood there before, with its memory.
func again[T any](list []T) []T {
	if len(list) < cap(list) {
		return list[:len(list)+1]
	}
	var none T
	return append(list, none)
}

// groupOf is the group of an open agent.
func (n *Node) groupOf(a *agent, in backlog) int32 {
	c, k := &n.crowd, n.kind(a)
	if k.round != c.round {
		k.round, k.groups = c.round, k.groups[:0]
	}
	into := int32(-1)
	for _, i := range k.groups {
		g := &c.groups[i]
		if g.first.fastest != a.fastest || c.lanes[g.lane].parses != a.parses ||
			c.lanes[g.lane].text != a.text {
			continue
		}
		if g.backlog == in {
			return i
		}
		into = g.lane
	}
	if into < 0 {
		into = int32(len(c.lanes))
		c.lanes = again(c.lanes)
		l := &c.lanes[into]
		l.first, l.kind, l.parses, l.text, l.longest, l.size = a, k, a.parses, a.text, 0, 0
		l.calm, l.asked, l.apart = l.calm[:0], 0, 0
	}
	i := int32(len(c.groups))
	c.groups = again(c.groups)
	g := &c.groups[i]
	g.first, g.lane, g.backlog, g.size, g.most = a, into, in, 0, 0
	g.stands, g.sorted, g.rooms, g.free, g.later = g.stands[:0], 0, g.rooms[:0], 0, in.All
	g.asked = 0
	k.groups = append(k.groups, i)
	l := &c.lanes[into]
	l.calm = append(l.calm, i)
	return i
}

// kindOf is the kind of an open agent, without a look at the agent itself.
func (c *crowd) kindOf(s *stand) *kind { return c.lanes[c.groups[s.group].lane].kind }
