package economics

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"souk/cmd/replay"
	"souk/market"
)

// patience is the number of rounds in which a turn asks before it is lost.
const patience = 3

// person is a client: its terms, and where it is in its conversation.
type person struct {
	id    string
	terms market.Terms
	talk  conversation
	at    int // turn
	tries int
	key   int // of its session, new with every conversation
	warm  int // key of the session it has sent a dummy prefill for
	// its conversations: its own, so that what one client does never changes what another asks
	rng   *rand.Rand
	begun int // conversations
}

// cached is a session's prefix on an agent.
type cached struct{ key, tokens int }

// sim is a world in motion.
type sim struct {
	src    *source
	shape  shape
	nodes  []node
	people []person
	caches [][]cached // by agent, least recently served first
	number uint64
	keys   int
	// of the predictor: what it says of a cost is so many times the unbiased estimate
	bias    float64
	dummies func(p int) bool    // who sends dummy prefills before a conversation
	fixed   bool                // every client stays with one domain
	allowed func(p, a int) bool // may client p's tasks go to agent a; nil: yes
}

func newSim(src *source, sh shape, seed uint64) *sim { return newWorld(src, sh, seed, false) }

func newWorld(src *source, sh shape, seed uint64, fixed bool) *sim {
	rng := rand.New(rand.NewPCG(seed, 0x776f726c64))
	s := &sim{src: src, shape: sh, nodes: src.nodes(rng, sh), bias: 1, fixed: fixed,
		caches: make([][]cached, sh.agents)}
	for i, c := range replay.Mix(seed, sh.clients) {
		p := person{id: fmt.Sprintf("c%03d-%s", i, c.Kind), warm: -1}
		p.terms = market.Terms{Worth: *c.Terms.Worth, Delta: *c.Terms.Delta,
			Patience: time.Duration(*c.Terms.PatienceMS) * time.Millisecond}
		p.rng = rand.New(rand.NewPCG(seed, uint64(i)))
		s.people = append(s.people, p)
	}
	for i := range s.people {
		s.next(i)
		s.people[i].at = s.people[i].rng.IntN(len(s.people[i].talk.turns)) // not all at their beginning
	}
	return s
}

// next gives a client another conversation.
func (s *sim) next(i int) {
	p := &s.people[i]
	d := (i + p.begun) % len(domains)
	p.begun++
	if s.fixed {
		d = i % len(domains)
	}
	talks := s.src.talks[d]
	p.talk, p.at, p.tries = talks[p.rng.IntN(len(talks))], 0, 0
	s.keys++
	p.key = s.keys
}

// demand is one task of a round, with its true value and cost at each agent.
type demand struct {
	person  int
	turn    turn
	dummy   bool             // a prefill and nothing else
	overlap []int            // tokens cached, by agent
	value   []market.Credits // at the quote
	quote   []market.Credits // cost as predicted
	real    []market.Credits // cost as it will be metered
}

// demands are the round's tasks, by client.
func (s *sim) demands() []demand {
	out := make([]demand, 0, len(s.people))
	for i := range s.people {
		p := &s.people[i]
		d := demand{person: i, turn: p.talk.turns[p.at]}
		if s.dummies != nil && s.dummies(i) && p.at == 0 && p.warm != p.key && p.tries == 0 {
			d.dummy, d.turn.output = true, 1
		}
		s.quote(&d)
		out = append(out, d)
	}
	return out
}

// quote fills in what agents would be worth and cost.
func (s *sim) quote(d *demand) {
	p := &s.people[d.person]
	expect := s.src.output[p.talk.domain]
	if d.dummy {
		expect = 1
	}
	n := len(s.nodes)
	d.overlap, d.value = make([]int, n), make([]market.Credits, n)
	d.quote, d.real = make([]market.Credits, n), make([]market.Credits, n)
	for a := range s.nodes {
		node := &s.nodes[a]
		hit := s.overlap(a, p.key, d.turn.prompt)
		d.overlap[a] = hit
		d.quote[a] = node.price.Cost(market.Usage{Prompt: d.turn.prompt, Cached: hit, Output: expect})
		d.quote[a] = scale(d.quote[a], s.bias)
		d.real[a] = node.price.Cost(market.Usage{Prompt: d.turn.prompt, Cached: hit, Output: d.turn.output})
		d.value[a] = s.worth(p, a, node.speed.base+time.Duration(d.turn.prompt-hit)*node.speed.perToken)
	}
	if d.dummy { // worth what it may save on the agent that suits the client best, nothing elsewhere
		best := 0
		for a := range d.value {
			if d.value[a]-d.quote[a] > d.value[best]-d.quote[best] {
				best = a
			}
		}
		for a := range d.value {
			d.value[a] = -1
		}
		d.value[best] = 2 * d.quote[best]
	}
}

// worth is iemas Eq. 1 for a client on an agent at a time to the first token.
func (s *sim) worth(p *person, a int, ttft time.Duration) market.Credits {
	return p.terms.Value(market.Quote{TTFT: ttft, Quality: s.nodes[a].quality[p.talk.domain]})
}

// overlap returns the tokens of a prompt that an agent holds: whole blocks, never the last token, which must
// be computed.
func (s *sim) overlap(a, key, prompt int) int {
	for _, c := range s.caches[a] {
		if c.key == key {
			return min(c.tokens, prompt-1) / block * block
		}
	}
	return 0
}

// round is the demands as the market sees them: report says what a client claims an agent is worth.
func (s *sim) round(ds []demand, settle string, report func(j, a int) market.Credits) market.Round {
	s.number++
	r := market.Round{Domain: "economics", Number: s.number,
		Rule: market.Rule{Pricing: market.PricingVCG, Settle: settle, Clarke: market.ClarkeTask}}
	for _, n := range s.nodes {
		seats := []market.Seat{{Slots: n.slots}}
		r.Agents = append(r.Agents, market.Supply{Agent: n.id, Seats: seats})
	}
	for j, d := range ds {
		r.Tasks = append(r.Tasks,
			market.Task{ID: market.TaskID(s.people[d.person].id), Client: s.people[d.person].id})
		for a := range s.nodes {
			if s.allowed == nil || s.allowed(d.person, a) {
				r.Edges = append(r.Edges,
					market.Edge{Task: j, Agent: a, Value: report(j, a), Cost: d.quote[a]})
			}
		}
	}
	return r
}

// honest clears the demands as they are.
func (s *sim) honest(ds []demand, settle string) (market.Round, []place, error) {
	r := s.round(ds, settle, func(j, a int) market.Credits { return ds[j].value[a] })
	places, err := clear(r)
	return r, places, err
}

// lied clears a round again in which one task claims what it likes on every agent.
func lied(r market.Round, liar int, claim func(agent int, v market.Credits) market.Credits) ([]place, error) {
	r.Edges = slices.Clone(r.Edges)
	for i := range r.Edges {
		if e := &r.Edges[i]; e.Task == liar {
			e.Value = claim(e.Agent, e.Value)
		}
	}
	return clear(r)
}

// place is a task on an agent, and what its client owes beside the cost.
type place struct {
	task, agent   int
	premium, cost market.Credits // cost as quoted, of a round that the market cleared
}

// placed reads an outcome's awards as places: tasks and agents stand in a round in the order of their names.
func placed(r *market.Round, o *market.Outcome) []place {
	out := make([]place, 0, len(o.Awards))
	j := 0
	for _, a := range o.Awards {
		for r.Tasks[j].ID != a.Task {
			j++
		}
		i, _ := slices.BinarySearchFunc(r.Agents, a.Agent,
			func(s market.Supply, id market.AgentID) int { return cmp.Compare(s.Agent, id) })
		out = append(out, place{j, i, a.Premium, a.Cost})
	}
	return out
}

// served is the outcome of one place.
type served struct {
	place
	value market.Credits // with the time to the first token as it came to be
}

// serve runs what was placed, moves every conversation on, and says how it went; lost counts turns given up.
// Prefills of one agent in one round stand in line, in the order of the tasks.
func (s *sim) serve(ds []demand, places []place) (out []served, lost int) {
	line := make([]time.Duration, len(s.nodes))
	done := make([]bool, len(ds))
	for _, pl := range places {
		d, node := &ds[pl.task], &s.nodes[pl.agent]
		p := &s.people[d.person]
		line[pl.agent] += time.Duration(d.turn.prompt-d.overlap[pl.agent]) * node.speed.perToken
		sv := served{place: pl}
		if !d.dummy {
			sv.value = s.worth(p, pl.agent, node.speed.base+line[pl.agent])
		}
		out = append(out, sv)
		done[pl.task] = true
		s.keep(pl.agent, cached{p.key, d.turn.prompt + d.turn.output})
	}
	for j := range ds {
		p := &s.people[ds[j].person]
		switch {
		case ds[j].dummy:
			p.warm = p.key // asked once, served or not
		case done[j]:
			p.at, p.tries = p.at+1, 0
		default:
			if p.tries++; p.tries == patience {
				p.at, p.tries = p.at+1, 0
				lost++
			}
		}
		if p.at == len(p.talk.turns) {
			s.next(ds[j].person)
		}
	}
	return out, lost
}

// keep puts a session's prefix last in an agent's cache; those served longest ago make room.
func (s *sim) keep(a int, c cached) {
	list := slices.DeleteFunc(s.caches[a], func(x cached) bool { return x.key == c.key })
	list = append(list, c)
	total := 0
	for _, x := range list {
		total += x.tokens
	}
	for total > s.nodes[a].cacheSize && len(list) > 1 {
		total -= list[0].tokens
		list = list[1:]
	}
	s.caches[a] = list
}

// scale multiplies money by a factor of an experiment, rounded half away from zero.
func scale(c market.Credits, by float64) market.Credits {
	if by == 1 {
		return c
	}
	out, err := market.Quantise(float64(c) / float64(market.Credit) * by)
	if err != nil {
		panic("economics: a factor takes an amount beyond all bounds")
	}
	return out
}
