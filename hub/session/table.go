// Package session admits sessions, not requests: where the open sessions need more than the caches hold, each
// turn pushes out what another is about to ask for, and nobody finds anything (Denning, The working set model
// for program behavior, 1968).
//
// A session has a place at one agent, counted in blocks of the agent's cache for its last prompt and answer.
// It keeps that until it ends or was silent for a while. Whose session has none waits until an agent has room
// for it: of the clients that wait the one with the fewest blocks first, and of one first come, first served.
// Room is shared fairly: where none is left, a session takes the place of one of another client that was
// silent for longest, where that client still has as many blocks then as its own. So nobody loses its only
// session. Nothing here reads what a task offers.
package session

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Params say whether a hub admits sessions, and how long a silent one keeps its place.
type Params struct {
	Admit bool          `yaml:"admit"` // a session's first turn waits for a place
	Idle  time.Duration `yaml:"idle"`  // a session that was silent for so long gives its place up
}

// Default is a hub that admits whoever comes.
func Default() Params { return Params{Idle: 30 * time.Second} }

// Validate judges parameters and changes nothing.
func (p Params) Validate() error {
	if p.Idle < time.Second || p.Idle > time.Hour {
		return fmt.Errorf("idle: %v is not from 1s to 1h", p.Idle)
	}
	return nil
}

// Agent is the cache of one agent. The zero Agent has no bound.
type Agent struct {
	block int // tokens of one
	room  int // blocks for sessions; 0: it is not known how many
	used  int // of these
}

// margin is the part of its cache that is left for answers that grow longer than was expected.
const margin = 20

// Resize says how many tokens an agent's cache holds, in blocks of so many; 0: it does not say.
func (a *Agent) Resize(tokens, block int) {
	a.block = max(1, block)
	blocks := tokens / a.block
	a.room = max(0, blocks-(blocks+margin-1)/margin)
}

// Need returns the blocks that so many tokens take.
func (a *Agent) Need(tokens int) int { return max(1, (tokens+a.block-1)/max(1, a.block)) }

// Blocks says how many sessions have, and how many there are for them.
func (a *Agent) Blocks() (used, room int) { return a.used, a.room }

// Fits reports whether a session that needs so many blocks has room, beside so many that are promised. An
// empty agent takes one that is larger than itself: it would fit nowhere.
func (a *Agent) Fits(promised, need int) bool {
	beside := a.used + promised
	return a.room == 0 || beside == 0 || beside+need <= a.room
}

// Place is a session's share of an agent's cache.
type Place struct {
	key          uint64 // 0: of a task without a session
	client       string
	agent        *Agent // nil: it has left
	blocks, open int    // that it has, and turns that have come and not ended
	last         time.Duration
	over         bool // the session has ended, and its last turn has not
}

// Table holds the places of a hub's sessions. Its times are since any fixed moment.
type Table struct {
	Params
	places map[uint64]*Place
	held   map[string]int // blocks, by client
}

// NewTable returns a table without places.
func NewTable(p Params) *Table {
	return &Table{Params: p, places: map[uint64]*Place{}, held: map[string]int{}}
}

func (t *Table) Places() int { return len(t.places) }

// Come says that a session's turn has come: its place, or nil. It ends by Gone.
func (t *Table) Come(key uint64) *Place {
	p := t.places[key]
	if p != nil {
		p.open++
		p.over = false
	}
	return p
}

// move has a place be at an agent, with so many blocks.
func (t *Table) move(p *Place, a *Agent, blocks int) {
	if p.agent != nil {
		p.agent.used -= p.blocks
		if t.held[p.client] -= p.blocks; t.held[p.client] == 0 {
			delete(t.held, p.client)
		}
	}
	if p.agent, p.blocks = a, blocks; a != nil {
		a.used += blocks
		t.held[p.client] += blocks
	}
}

// Award says that a client's turn, with what Come returned for it, goes to an agent, where it needs so many
// blocks: there its session's place is from now on.
func (t *Table) Award(p *Place, client string, key uint64, a *Agent, need int) *Place {
	if p == nil {
		p = t.Come(key) // another turn of it may have been given one meanwhile
	}
	if p == nil {
		p = &Place{key: key, client: client, open: 1}
		if key != 0 {
			t.places[key] = p
		}
	}
	t.move(p, a, max(1, need))
	return p
}

// Gone says that a turn has ended, and reports whether a place came free.
func (t *Table) Gone(now time.Duration, p *Place) bool {
	if p == nil {
		return false
	}
	p.open, p.last = p.open-1, now
	return p.open == 0 && (p.key == 0 || p.over || p.agent == nil) && t.free(p)
}

func (t *Table) free(p *Place) bool {
	t.move(p, nil, 0)
	if t.places[p.key] == p {
		delete(t.places, p.key)
	}
	return true
}

// End says that a session has ended, and reports whether its place came free. It keeps that until its last
// turn is over; a turn that comes after all goes on as if nothing had been said.
func (t *Table) End(key uint64) bool {
	p := t.places[key]
	if p == nil {
		return false
	}
	p.over = true
	return p.open == 0 && t.free(p)
}

// Leave says that an agent has left. Whoever had a place there has none.
func (t *Table) Leave(a *Agent) {
	for _, p := range t.places {
		if p.agent != a {
			continue
		}
		if t.move(p, nil, 0); p.open == 0 {
			t.free(p)
		}
	}
}

// Sweep frees the places of those who were silent for too long, and reports whether there were any.
func (t *Table) Sweep(now time.Duration) (freed bool) {
	for _, p := range t.places {
		if p.open == 0 && now-p.last > t.Idle {
			freed = t.free(p)
		}
	}
	return freed
}

// Asker is a turn of a round.
type Asker struct {
	Client string
	Place  *Place // nil: its session has none
	Need   int    // blocks of its prompt and answer
	May    []bool // by agent: where it may go, before Admit and after
}

// Admit leaves of where each of the askers may go the agent at which its session is; without that, the agents
// that have room for it, or had none and were made some. Nobody takes what somebody waits for whose client
// has fewer blocks, or who came before him.
func (t *Table) Admit(agents []*Agent, askers []Asker) {
	var order []int
	before, has := make([]int, len(askers)), map[string]int{}
	for i := range askers {
		if x := &askers[i]; !x.home(agents) {
			before[i] = t.held[x.Client] + has[x.Client]
			has[x.Client] += x.Need
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(before[a], before[b]) })
	promised, barred := make([]int, len(agents)), make([]bool, len(agents))
	for _, i := range order {
		x, let := &askers[i], false
		for k, a := range agents {
			let = let || x.May[k] && !barred[k] && a.Fits(promised[k], x.Need)
		}
		for k, a := range agents {
			let = let || x.May[k] && !barred[k] && t.yields(a, promised[k], x.Need, before[i]+x.Need)
		}
		for k, a := range agents {
			switch {
			case !x.May[k]:
			case !let:
				barred[k], x.May[k] = true, false
			case barred[k] || !a.Fits(promised[k], x.Need):
				x.May[k] = false
			default:
				promised[k] += x.Need
			}
		}
	}
}

// yields makes room at an agent for so many blocks, beside those that are promised, where whose they are has
// so many in all then: of the clients that have as many without it, the one with most gives up the place that
// was silent for longest, and so on.
func (t *Table) yields(a *Agent, promised, need, more int) bool {
	var silent, given []*Place
	for _, p := range t.places {
		if p.agent == a && p.open == 0 {
			silent = append(silent, p)
		}
	}
	less := map[string]int{} // that clients have then
	has := func(p *Place) int { return t.held[p.client] - less[p.client] }
	for !a.Fits(promised, need) {
		silent = slices.DeleteFunc(silent, func(p *Place) bool { return has(p)-p.blocks < more })
		if len(silent) == 0 {
			return false
		}
		p := slices.MinFunc(silent, func(p, q *Place) int {
			return cmp.Or(cmp.Compare(has(q), has(p)), cmp.Compare(p.last, q.last), cmp.Compare(p.key, q.key))
		})
		silent, given = slices.DeleteFunc(silent, func(q *Place) bool { return q == p }), append(given, p)
		less[p.client] += p.blocks
		promised -= p.blocks
	}
	for _, p := range given {
		t.free(p)
	}
	return true
}

// home keeps a turn at the agent at which its session is, if it may go there.
func (x *Asker) home(agents []*Agent) bool {
	if x.Place == nil || x.Place.agent == nil {
		return false
	}
	at := slices.Index(agents, x.Place.agent)
	if at < 0 || !x.May[at] {
		return false
	}
	clear(x.May)
	x.May[at] = true
	return true
}
