package market

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// forgery is a round that is being forged.
type forgery struct {
	*rand.Rand
	x *link
	r *Round
	o *Outcome
	g *Ground
}

// some is a number other than 0: mostly a small one.
func (f *forgery) some() int64 {
	n := 1 + f.Int64N([]int64{1, 4, 1_000_000}[f.IntN(3)])
	return n - 2*n*f.Int64N(2)
}

// pick changes one of a list, if there is one.
func pick[T any](f *forgery, list []T, change func(*T)) {
	if len(list) > 0 {
		change(&list[f.IntN(len(list))])
	}
}

// drop leaves one out, if there is one.
func drop[T any](f *forgery, list []T) []T {
	if len(list) == 0 {
		return list
	}
	i := f.IntN(len(list))
	return slices.Delete(list, i, i+1)
}

// again clears the round with what was changed in it.
func (f *forgery) again(change func(r *Round)) {
	r := *f.r
	r.Tasks, r.Edges = slices.Clone(r.Tasks), slices.Clone(r.Edges)
	if change(&r); r.Validate() == nil {
		if o, err := Clear(r); err == nil {
			*f.o = o
		}
	}
}

// forgers are the kinds of forgery: of awards, with all sums right; of figures; of the proof; and of what
// slots cost.
var forgers = []struct {
	name  string
	forge func(f *forgery)
}{
	{"awards: two tasks change places", func(f *forgery) {
		if a := f.o.Awards; len(a) > 1 {
			i, j := f.IntN(len(a)), f.IntN(len(a))
			x, in := f.r.moved(f.o, a[i], a[j])
			y, out := f.r.moved(f.o, a[j], a[i])
			if in && out {
				a[i], a[j] = x, y
			}
		}
		f.o.Welfare = f.o.sum(f.r)
	}},
	{"awards: a task has another slot", func(f *forgery) {
		pick(f, f.o.Awards, func(a *Award) {
			e := f.r.Edges[f.IntN(len(f.r.Edges))]
			if at := f.r.Agents[e.Agent].Seats; f.r.Tasks[e.Task].ID == a.Task && len(at) > 0 {
				k := f.IntN(len(at))
				*a = f.r.award(e, seat{int32(e.Agent), int32(k)}, f.o.priceOf(e.Agent, k))
			}
		})
		f.o.Welfare = f.o.sum(f.r)
	}},
	{"awards: one is left out", func(f *forgery) {
		f.o.Awards = drop(f, f.o.Awards)
		f.o.Welfare = f.o.sum(f.r)
	}},
	{"awards: one who waits begins in another's place", func(f *forgery) {
		e := f.r.Edges[f.IntN(len(f.r.Edges))]
		id := f.r.Tasks[e.Task].ID
		if slices.ContainsFunc(f.o.Awards, func(a Award) bool { return a.Task == id }) {
			return
		}
		for i, a := range f.o.Awards {
			if a.Agent == f.r.Agents[e.Agent].Agent {
				f.o.Awards[i] = f.r.award(e, seat{int32(e.Agent), int32(a.Seat)},
					f.o.priceOf(e.Agent, a.Seat))
				slices.SortFunc(f.o.Awards, func(a, b Award) int { return cmp.Compare(a.Task, b.Task) })
				break
			}
		}
		f.o.Planned = slices.DeleteFunc(f.o.Planned, func(p Planned) bool { return p.Task == e.Task })
		f.o.Welfare = f.o.sum(f.r)
	}},
	{"awards: their order", func(f *forgery) {
		f.Shuffle(len(f.o.Awards), func(i, j int) {
			f.o.Awards[i], f.o.Awards[j] = f.o.Awards[j], f.o.Awards[i]
		})
	}},
	{"awards: those of a round with other bids", func(f *forgery) {
		f.again(func(r *Round) { pick(f, r.Edges, func(e *Edge) { e.Value += Credits(f.some()) }) })
		for i := range f.o.Awards { // the figures are the round's
			a := &f.o.Awards[i]
			agent, _ := f.r.place(a.Agent)
			task := slices.IndexFunc(f.r.Tasks, func(x Task) bool { return x.ID == a.Task })
			a.Value = edgeOf(f.r, task, agent).Value
		}
		f.o.Welfare = f.o.sum(f.r)
	}},
	{"awards: those of a round without an edge", func(f *forgery) {
		f.again(func(r *Round) { r.Edges = drop(f, r.Edges) })
	}},
	{"awards: those of a round with other turns", func(f *forgery) {
		f.again(func(r *Round) { pick(f, r.Tasks, func(x *Task) { x.Turn = f.IntN(12) }) })
	}},
	{"awards: those of another seed", func(f *forgery) {
		f.again(func(r *Round) { r.Prev[f.IntN(lotBytes)]++ })
	}},
	{"seats to come: one is left out", func(f *forgery) {
		f.o.Planned = drop(f, f.o.Planned)
		f.o.Welfare = f.o.sum(f.r)
	}},
	{"seats to come: another", func(f *forgery) {
		pick(f, f.o.Planned, func(p *Planned) {
			*[]*int{&p.Task, &p.Agent, &p.Seat}[f.IntN(3)] += int(f.some() % 3)
		})
		if f.IntN(2) == 0 {
			f.o.Welfare = f.o.sum(f.r)
		}
	}},
	{"seats to come: one who has none", func(f *forgery) {
		e := f.r.Edges[f.IntN(len(f.r.Edges))]
		for k, s := range f.r.Agents[e.Agent].Seats {
			if s.Later && !slices.ContainsFunc(f.o.Planned,
				func(p Planned) bool { return p.Task == e.Task }) {
				f.o.Planned = append(f.o.Planned, Planned{Task: e.Task, Agent: e.Agent, Seat: k})
				slices.SortFunc(f.o.Planned, func(a, b Planned) int { return a.Task - b.Task })
				break
			}
		}
		f.o.Welfare = f.o.sum(f.r)
	}},
	{"prices: one, everywhere it stands", func(f *forgery) {
		pick(f, f.o.Prices, func(p *SlotPrice) {
			d := Credits(f.some())
			p.Price += d
			for i := range f.o.Awards {
				if a := &f.o.Awards[i]; a.Agent == f.r.Agents[p.Agent].Agent && a.Seat == p.Seat {
					a.SlotPrice, a.Premium = a.SlotPrice+d, a.Premium+d
				}
			}
		})
	}},
	{"prices: one is left out, with its witness", func(f *forgery) {
		if len(f.o.Prices) > 0 {
			i := f.IntN(len(f.o.Prices))
			f.o.Prices = slices.Delete(f.o.Prices, i, i+1)
			f.o.Witnesses = slices.Delete(f.o.Witnesses, i, i+1)
		}
	}},
	{"prices: of a slot that has none", func(f *forgery) {
		a := f.IntN(len(f.r.Agents))
		if n := len(f.r.Agents[a].Seats); n > 0 {
			f.o.Prices = append(f.o.Prices, SlotPrice{a, f.IntN(n), Credits(1 + f.Int64N(9))})
			slices.SortFunc(f.o.Prices, func(x, y SlotPrice) int {
				return cmp.Or(x.Agent-y.Agent, x.Seat-y.Seat)
			})
		}
	}},
	{"figures: a value", func(f *forgery) {
		pick(f, f.o.Awards, func(a *Award) { a.Value += Credits(f.some()) })
		f.o.Welfare = f.o.sum(f.r)
	}},
	{"figures: a cost", func(f *forgery) {
		pick(f, f.o.Awards, func(a *Award) { a.Cost += Credits(f.some()) })
		f.o.Welfare = f.o.sum(f.r)
	}},
	{"figures: an award's toll", func(f *forgery) {
		pick(f, f.o.Awards, func(a *Award) { a.Toll += Credits(f.some()) })
		f.o.Welfare = f.o.sum(f.r)
	}},
	{"figures: a premium", func(f *forgery) {
		pick(f, f.o.Awards, func(a *Award) { a.Premium += Credits(f.some()) })
	}},
	{"figures: a premium without what is not charged", func(f *forgery) {
		pick(f, f.o.Awards, func(a *Award) { a.Premium += f.r.Own(*a) })
	}},
	{"shares: a part of a client's premium from one of its tasks to another", func(f *forgery) {
		pick(f, f.o.Awards, func(a *Award) {
			pick(f, f.o.Awards, func(b *Award) {
				client, _, _ := strings.Cut(string(a.Task), "/")
				if strings.HasPrefix(string(b.Task), client+"/") {
					d := Credits(f.some())
					a.Premium += d
					b.Premium -= d
				}
			})
		})
	}},
	{"totals: the welfare", func(f *forgery) { f.o.Welfare += Credits(f.some()) }},
	{"certificate: a witness", func(f *forgery) {
		pick(f, f.o.Witnesses, func(w *Witness) {
			*[]*int{&w.Agent, &w.Seat, &w.Task, &w.FromAgent, &w.FromSeat,
				&w.Rank}[f.IntN(6)] += int(f.some())
		})
	}},
	{"certificate: a witness is left out", func(f *forgery) { f.o.Witnesses = drop(f, f.o.Witnesses) }},
	{"certificate: a second price", func(f *forgery) {
		pick(f, f.o.Ties, func(x *Tie) { x.Rank += f.Int64N(1<<41) - 1<<40 })
	}},
	{"certificate: a second price is left out", func(f *forgery) { f.o.Ties = drop(f, f.o.Ties) }},
	{"certificate: what a client costs the others", func(f *forgery) {
		pick(f, f.o.Clients, func(c *ClientProof) { c.Externality += Credits(f.some()) })
	}},
	{"certificate: a price without a client", func(f *forgery) {
		pick(f, f.o.Clients, func(c *ClientProof) {
			pick(f, c.Prices, func(p *SlotPrice) { p.Price += Credits(f.some()) })
		})
	}},
	{"certificate: a move without a client", func(f *forgery) {
		pick(f, f.o.Clients, func(c *ClientProof) {
			pick(f, c.Moves, func(m *Move) {
				*[]*int{&m.Task, &m.Agent, &m.Seat}[f.IntN(3)] += int(f.some() % 3)
			})
		})
	}},
	{"certificate: a client is left out", func(f *forgery) { f.o.Clients = drop(f, f.o.Clients) }},
	{"certificate: a client costs less, and pays so", func(f *forgery) {
		pick(f, f.o.Clients, func(c *ClientProof) {
			d := Credits(1 + f.Int64N(4))
			c.Externality -= d
			for i := range f.o.Awards {
				if a := &f.o.Awards[i]; strings.HasPrefix(string(a.Task), c.Client+"/") {
					a.Premium -= d
					return
				}
			}
		})
	}},
	{"tolls: one, and the round is cleared so", func(f *forgery) {
		pick(f, f.r.Edges, func(e *Edge) { e.Toll = min(0, e.Toll+Credits(f.some())) })
		pick(f, f.r.Edges, func(e *Edge) { e.Own = min(e.Own, -e.Toll) })
		f.again(func(*Round) {})
	}},
	{"tolls: what is not charged, and the round is cleared so", func(f *forgery) {
		pick(f, f.r.Edges, func(e *Edge) { e.Own = max(0, min(-e.Toll, e.Own+Credits(f.some()))) })
		f.again(func(*Round) {})
	}},
	{"tolls: none, as if slots cost nothing", func(f *forgery) {
		if len(f.g.Loads) > 0 {
			*f.g = Ground{}
			for i := range f.r.Edges {
				e := &f.r.Edges[i]
				e.Toll, e.Own = f.x.set[edgeName(f.r, e)], 0
			}
			f.again(func(*Round) {})
		}
	}},
	{"ground: a price a second", func(f *forgery) {
		pick(f, f.g.Loads, func(l *Load) { l.Second = max(0, l.Second+Credits(f.some())) })
	}},
	{"ground: a price a second, and all that follows from it", func(f *forgery) {
		pick(f, f.g.Loads, func(l *Load) {
			l.Second = max(0, l.Second+Credits(f.some()))
			f.x.toll(f.r, f.g)
			f.again(func(*Round) {})
		})
	}},
	{"ground: what everybody would pay, and all that follows from it", func(f *forgery) {
		pick(f, f.g.Loads, func(*Load) {
			a := f.IntN(len(f.g.Loads) + 1)
			if f.g.Common, f.g.Service = "", 0; a < len(f.g.Loads) {
				f.g.Common, f.g.Service = f.r.Agents[a].Agent,
					f.g.Loads[a].Service+time.Duration(f.IntN(2))*time.Second
			}
			f.x.toll(f.r, f.g)
			f.again(func(*Round) {})
		})
	}},
	{"ground: who was refused, and all that follows from it", func(f *forgery) {
		pick(f, f.g.Loads, func(*Load) {
			switch n := len(f.g.Refused); f.IntN(3) {
			case 0:
				f.g.Refused = nil
			case 1:
				f.g.Refused = []string{"a", "b", "c"}[:2+f.IntN(2)]
			default:
				if f.g.Refused = slices.Clone(f.g.Refused); n > 0 {
					f.g.Refused[f.IntN(n)] = "other"
				}
			}
			for i := range f.g.Loads {
				f.g.Loads[i].Refused = uint8(f.IntN(1 << len(f.g.Refused)))
			}
			f.x.toll(f.r, f.g)
			f.again(func(*Round) {})
		})
	}},
	{"ground: how many run", func(f *forgery) {
		pick(f, f.g.Loads, func(l *Load) { l.Running = max(0, l.Running+int(f.some()%3)) })
	}},
	{"ground: how long a task keeps its slot", func(f *forgery) {
		if len(f.g.Loads) > 0 {
			pick(f, f.g.Stays, func(s *Stay) { s.Service += time.Second })
		}
	}},
	{"ground: how long its prompt takes", func(f *forgery) {
		if len(f.g.Loads) > 0 {
			pick(f, f.g.Stays, func(s *Stay) { s.Prefill += time.Second })
		}
	}},
	{"ground: how many of its client's run", func(f *forgery) {
		if len(f.g.Loads) > 0 {
			pick(f, f.g.Stays, func(s *Stay) { s.Mine++ })
		}
	}},
	{"ground: its time", func(f *forgery) {
		if len(f.g.Loads) > 0 {
			f.g.At = max(0, f.g.At+f.some())
		}
	}},
	{"kept: what of a seat to come is lost", func(f *forgery) {
		if len(f.g.Loads) > 0 {
			f.g.Lost = uint32(f.IntN(FullShare + 1))
		}
	}},
	{"taught: how long tasks keep slots", func(f *forgery) {
		pick(f, f.g.Loads, func(l *Load) { l.Service = WholeService(l.Service/2 + time.Second) })
	}},
	{"taught: that a slot stays free", func(f *forgery) {
		pick(f, f.g.Loads, func(l *Load) { l.Spare = !l.Spare })
	}},
	{"taught: nothing, as if slots cost nothing", func(f *forgery) { *f.g = Ground{} }},
}

func (o *Outcome) priceOf(agent, at int) Credits {
	for _, p := range o.Prices {
		if p.Agent == agent && p.Seat == at {
			return p.Price
		}
	}
	return 0
}

func (o *Outcome) sum(r *Round) (w Credits) {
	for _, a := range o.Awards {
		w += a.Value - a.Cost + a.Toll
	}
	for _, p := range o.Planned {
		if uint(p.Task) < uint(len(r.Tasks)) && uint(p.Agent) < uint(len(r.Agents)) {
			e := edgeOf(r, p.Task, p.Agent)
			if e != nil && uint(p.Seat) < uint(len(r.Agents[p.Agent].Seats)) {
				w += r.Weight(*e, p.Seat)
			}
		}
	}
	return w
}

// moved is a's task in b's place.
func (r *Round) moved(o *Outcome, a, b Award) (Award, bool) {
	for _, e := range r.Edges {
		if r.Tasks[e.Task].ID == a.Task && r.Agents[e.Agent].Agent == b.Agent {
			return r.award(e, seat{int32(e.Agent), int32(b.Seat)}, o.priceOf(e.Agent, b.Seat)), true
		}
	}
	return Award{}, false
}
