package hub

import "time"

// An agent that dies does not say so, and its lease lives for seconds more. But the bus knows at once that
// nobody listens where the agent did. So the hub sends a probe, a message that needs no reply, to an agent
// that is suspect, as it has said nothing for longer than it should. If the bus says twice that nobody heard,
// long enough apart for a cut connection to be made again, the agent is dead, until it speaks. It may have
// died, or be cut off and serve on; either way it may have told a reader before that the answer has ended,
// and its account of that not have come here. So the readers of what it was serving are asked, and that whose
// end none of them has is void.

const (
	probeEvery = 250 * time.Millisecond // while an agent is suspect
	// from the first time that nobody heard: connections are made again within 200 ms, later within 500 ms
	deadAfter = 500 * time.Millisecond
	// an agent that stays away is looked after again so late at most, as long as anything may run there
	deadAgain = 30 * time.Second
)

// lookout watches one agent.
type lookout struct {
	agent  *agent
	timer  timer
	heard  time.Time // when the agent last said anything, or we began to listen
	empty  time.Time // when nobody first heard us since; zero: somebody did, or was not asked
	deaths int       // how often the agent was held to be dead, and has said nothing since
}

// alive notes a word of an agent.
func (a *agent) alive(n *Node) {
	a.watch.heard, a.watch.empty, a.watch.deaths = n.now, time.Time{}, 0
}

// listen begins to watch an agent from now on.
func (n *Node) listen(a *agent) {
	a.alive(n)
	n.timers.set(&a.watch.timer, n.now.Add(n.cfg.Suspect))
}

// due implements timed: the agent may be suspect.
func (l *lookout) due(n *Node) {
	a := l.agent
	if !n.leading || !a.joined && len(a.holds) == 0 {
		return // until we lead, or it joins
	}
	if next := l.heard.Add(n.cfg.Suspect); n.now.Before(next) {
		n.timers.set(&l.timer, next)
		return
	}
	n.out.Probes = append(n.out.Probes, a.id)
	n.timers.set(&l.timer, n.now.Add(probeEvery))
}

// Reconnected says that the bus is there again after it was away. Agents come back a little later, so none of
// them is judged before that; and whoever listens to us has missed our last news.
func (n *Node) Reconnected(now time.Time) {
	n.advance(now)
	n.deaf()
	n.cut, n.reached = false, n.now
	n.status.changed, n.status.next = true, n.now
	if n.leading {
		for _, a := range n.roster {
			n.listen(a)
		}
	}
}

// Disconnected says that the bus is away.
func (n *Node) Disconnected(now time.Time) {
	n.advance(now)
	n.cut = true
}

// Hears says whether a hub that does not lead hears its agents: until it does, no hold ends by its time.
func (n *Node) Hears(now time.Time, hears bool) {
	n.advance(now)
	n.deaf()
	n.cut = !hears
}

// Slept says that time has passed in which the hub did not run: its process was stopped, or starved.
func (n *Node) Slept(now time.Time) {
	n.advance(now)
	n.deaf()
	n.status.stoodStill()
}

// repeatWithin is how soon an agent has sent its completions again: it pauses for five seconds at most, after
// two in which nobody answered.
const repeatWithin = 8 * time.Second

// deaf says that until now the hub could not hear its agents. What they served in the meantime counts as
// served in time: they repeat their completions, and no hold expires before they have had time to.
func (n *Node) deaf() { n.hears = n.now.Add(repeatWithin) }

// Absent says that nobody heard a probe of an agent. It reports whether the agent is held to be dead from now
// on.
func (n *Node) Absent(now time.Time, id string) bool {
	n.advance(now)
	a := n.lookup(id)
	if !n.leading || a == nil || n.now.Sub(a.watch.heard) < n.cfg.Suspect ||
		n.now.Sub(n.reached) < n.cfg.Settling {
		return false
	}
	l := &a.watch
	if l.empty.IsZero() {
		l.empty = n.now
	}
	if n.now.Sub(l.empty) < deadAfter {
		return false
	}
	n.died(a)
	return l.deaths == 1
}
