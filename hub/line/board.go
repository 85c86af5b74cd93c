package line

import "time"

// Share is how many tasks of one client count among those who wait, in every line: its part of
// the slots, at least one. Tasks that nobody would serve cost their client nothing, so however many it sends,
// they lengthen lines by no more than this.
func Share(slots, clients int) int { return max(1, slots/max(1, clients)) }

// Board holds the lines of one round. Tasks join in the order of their arrival.
type Board struct {
	share   int
	lens    []int      // by agent: how many count in its line
	claims  [][]Claim  // by agent: of these, those that claim their turn, oldest first
	homes   []int      // by agent: of how many it is the home, whether they count or not
	clients []standing // by client
}

// Claim is the turn of one who waits in a line: whoever goes before it is charged for that.
type Claim struct {
	Client int
	Age    time.Duration
	Who    int // a number that the hub gave it
}

// standing is where tasks of one client count.
type standing struct{ in []counted }

type counted struct{ agent, tasks int }

// Reset empties the board for so many agents, and for clients that count with at most share tasks.
func (b *Board) Reset(agents, share int) {
	for i := range b.clients {
		c := &b.clients[i]
		c.in = c.in[:0]
	}
	b.clients = b.clients[:0]
	for len(b.claims) < agents {
		b.claims, b.lens, b.homes = append(b.claims, nil), append(b.lens, 0), append(b.homes, 0)
	}
	for k := range b.claims {
		b.claims[k], b.lens[k], b.homes[k] = b.claims[k][:0], 0, 0
	}
	b.share = share
}

// of is where tasks of a client count. The memory of clients of former rounds is used again.
func (b *Board) of(client int) *standing {
	for client >= len(b.clients) {
		if len(b.clients) < cap(b.clients) {
			b.clients = b.clients[:len(b.clients)+1]
		} else {
			b.clients = append(b.clients, standing{})
		}
	}
	return &b.clients[client]
}

// counts reports whether one more of a client's tasks counts in an agent's line, and counts it.
func (s *standing) counts(agent, share int) bool {
	for i := range s.in {
		if c := &s.in[i]; c.agent == agent {
			c.tasks++
			return c.tasks <= share
		}
	}
	s.in = append(s.in, counted{agent, 1})
	return true
}

// Len is how many count in an agent's line.
func (b *Board) Len(agent int) int { return b.lens[agent] }

// Homes is how many have an agent for their home, whether they count or not.
func (b *Board) Homes(agent int) int { return b.homes[agent] }

// Clients is how many have joined: the number of the next.
func (b *Board) Clients() int { return len(b.clients) }

// Join has the next task wait, in the line of its home, or in none where home is below 0. It claims its turn
// there, or lets others go first. Join returns how many stand before it. Clients are numbered from 0 as they
// come.
func (b *Board) Join(home int, t Claim, claims bool) (place int) {
	c := b.of(t.Client)
	if home < 0 {
		return 0
	}
	b.homes[home]++
	place = b.lens[home]
	if c.counts(home, b.share) {
		b.lens[home]++
		if claims {
			b.claims[home] = append(b.claims[home], t)
		}
	}
	return place
}

// Next is whose turn a task takes that gets a slot of an agent with so many free: of those who claim theirs
// in its line, the last for whom a slot is free. There may be nobody.
func (b *Board) Next(agent, free int) (Claim, bool) {
	c := b.claims[agent]
	if free < 1 || free > len(c) {
		return Claim{}, false
	}
	return c[free-1], true
}

// Ahead is how much longer another client's task has waited whose turn a task of this age and client takes.
// One from elsewhere has not waited here at all.
func (b *Board) Ahead(agent, free, client int, age time.Duration, home bool) time.Duration {
	next, ok := b.Next(agent, free)
	if !ok || next.Client == client {
		return 0
	}
	if !home {
		age = 0
	}
	return max(0, next.Age-age)
}

// Candidate is an agent that may be a task's home.
type Candidate struct {
	Agent int
	Held  int // of the prompt's tokens, those that it holds and most others do not; below two blocks 0
	Load  int // tasks that run there or have it for their home
}

// Home is the agent that holds most of a prompt; of equals, and where none holds any, the least loaded, and
// then the first. It is -1 without candidates.
func Home(candidates []Candidate) int {
	home := -1
	var best Candidate
	for _, c := range candidates {
		if home < 0 || c.Before(best) {
			home, best = c.Agent, c
		}
	}
	return home
}

// Before reports whether a home is rather here than at another candidate, where that was looked at first.
func (c Candidate) Before(other Candidate) bool {
	return c.Held > other.Held || c.Held == other.Held && c.Load < other.Load
}
