package line

import "time"

// Share is how many tasks of one client count among those who wait, in every line and in all: its part of
// the slots, at least one. Tasks that nobody would serve cost their client nothing, so however many it sends,
// they lengthen lines by no more than this.
func Share(slots, clients int) int { return max(1, slots/max(1, clients)) }

// Board holds the lines of one round. Tasks join in the order of their arrival.
type Board struct {
	share   int
	lines   [][]time.Duration // by agent: the age of each that counts, oldest first
	homes   []int             // by agent: of how many it is the home, whether they count or not
	clients []standing        // by client
	waiting int
}

// standing is where tasks of one client count.
type standing struct {
	in  []counted
	all int
}

type counted struct{ agent, tasks int }

// Reset empties the board for so many agents, and for clients that count with at most share tasks.
func (b *Board) Reset(agents, share int) {
	for i := range b.clients {
		c := &b.clients[i]
		c.in, c.all = c.in[:0], 0
	}
	b.clients = b.clients[:0]
	for len(b.lines) < agents {
		b.lines, b.homes = append(b.lines, nil), append(b.homes, 0)
	}
	for k := range b.lines {
		b.lines[k], b.homes[k] = b.lines[k][:0], 0
	}
	b.share, b.waiting = share, 0
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
func (b *Board) Len(agent int) int { return len(b.lines[agent]) }

// Homes is how many have an agent for their home, whether they count or not.
func (b *Board) Homes(agent int) int { return b.homes[agent] }

// Waiting is how many wait in all.
func (b *Board) Waiting() int { return b.waiting }

// Clients is how many have joined: the number of the next.
func (b *Board) Clients() int { return len(b.clients) }

// Join has the next task wait, of a client, in the line of its home, or in none where home is below 0. It
// returns how many stand before it there. Clients are numbered from 0 as they come.
func (b *Board) Join(home, client int, age time.Duration) (place int) {
	c := b.of(client)
	if c.all < b.share {
		c.all++
		b.waiting++
	}
	if home < 0 {
		return 0
	}
	b.homes[home]++
	place = len(b.lines[home])
	if c.counts(home, b.share) {
		b.lines[home] = append(b.lines[home], age)
	}
	return place
}

// Ahead is how much longer the one has waited whom a task of this age takes an agent's slot from: of those in
// its line, the last for whom a slot is free. One from elsewhere has not waited here at all.
func (b *Board) Ahead(agent, free int, age time.Duration, home bool) time.Duration {
	l := b.lines[agent]
	if free < 1 || free > len(l) {
		return 0
	}
	if !home {
		age = 0
	}
	return max(0, l[free-1]-age)
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
		if home < 0 || c.Held > best.Held || c.Held == best.Held && c.Load < best.Load {
			home, best = c.Agent, c
		}
	}
	return home
}
