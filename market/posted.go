package market

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"souk/market/certify"
	"souk/market/flow"
)

// PricingPosted serves clients one after another at published prices, so that no bid changes any price. It is
// meant for markets with few clients. A hub also falls back to it when a solve had to be stopped; then
// [Rule.Instead] says so, and a round without slot prices never passes for one with slot prices.
const PricingPosted = "posted"

// posted clears a round whose rule says [PricingPosted]. Clients are served one after another, in an order
// drawn from the previous round and from their names; no bid enters it. Each gets those of the remaining
// slots that suit its tasks best together, and pays cost and toll: slot prices are 0. So no client gains by
// lying about the tasks of its own name, however many they are. A client with several names has several
// places in the line.
func (ws *workspace) posted(r *Round) (Outcome, error) {
	l := &ws.layout
	var o Outcome
	p := newLine(r, l)
	for _, tasks := range p.clients {
		seats := p.offered(tasks)
		if len(seats) == 0 {
			continue
		}
		if len(tasks) == 1 {
			p.sit(tasks[0], p.first(tasks[0]))
			continue
		}
		proof, err := ws.choose(p, tasks, seats)
		if err != nil {
			return Outcome{}, err
		}
		if len(proof.Prices) > 0 || len(proof.Ties) > 0 {
			o.Clients = append(o.Clients, proof)
		}
	}
	l.award(r, &o, p.match, nil)
	return o, nil
}

// line is a posted round that is being cleared: the order of the clients, the seats taken, and those left.
type line struct {
	r       *Round
	l       *layout
	seed    [32]byte
	clients [][]int32 // tasks of every client, clients in their order
	match   []int32
	left    []int32
	seats   []int32
}

func newLine(r *Round, l *layout) *line {
	seed := r.postedSeed()
	p := &line{r: r, l: l, seed: seed, clients: r.line(seed), left: slices.Clone(l.slots),
		match: make([]int32, len(r.Tasks))}
	for t := range p.match {
		p.match[t] = -1
	}
	return p
}

// offered lists the seats that some of the tasks want and that have a free slot, ascending. So the work for a
// client grows with its own edges alone.
func (p *line) offered(tasks []int32) []int32 {
	p.seats = p.seats[:0]
	for _, t := range tasks {
		for _, a := range p.l.seat[p.l.off[t]:p.l.off[t+1]] {
			if p.left[a] > 0 {
				p.seats = append(p.seats, a)
			}
		}
	}
	slices.Sort(p.seats)
	p.seats = slices.Compact(p.seats)
	return p.seats
}

// first is the seat that suits a client's only task best, of those with a free slot; -1 if there is none.
func (p *line) first(t int32) int32 {
	best, weight := int32(-1), int64(0)
	for i := p.l.off[t]; i < p.l.off[t+1]; i++ {
		switch a, w := p.l.seat[i], p.l.weight[i]; {
		case p.left[a] == 0 || best >= 0 && w < weight:
		case best < 0 || w > weight || p.hash(t, a) > p.hash(t, best):
			best, weight = a, w
		}
	}
	return best
}

func (p *line) sit(t, a int32) {
	p.match[t] = a
	if a >= 0 {
		p.left[a]--
	}
}

// hash decides between equally good choices. No bid enters it.
func (p *line) hash(t, a int32) uint64 {
	where := p.l.seats[a]
	task := postedKey(p.seed, 't', string(p.r.Tasks[t].ID), 0)
	agent := postedKey(p.seed, 'a', string(p.r.Agents[where.agent].Agent), int(where.at))
	sum := sha256.Sum256(append(task[:], agent[:]...))
	return binary.BigEndian.Uint64(sum[:])
}

// problem is one client's choice: its tasks, and the seats with a free slot.
func (p *line) problem(q *flow.Problem, tasks, seats []int32) {
	q.Off, q.Seat, q.Weight, q.Slots = append(q.Off[:0], 0), q.Seat[:0], q.Weight[:0], nil
	for _, a := range seats {
		q.Slots = append(q.Slots, p.left[a])
	}
	for _, t := range tasks {
		for i := p.l.off[t]; i < p.l.off[t+1]; i++ {
			if at, ok := slices.BinarySearch(seats, p.l.seat[i]); ok {
				q.Seat, q.Weight = append(q.Seat, int32(at)), append(q.Weight, p.l.weight[i])
			}
		}
		q.Off = append(q.Off, int32(len(q.Seat)))
	}
}

// choose gives a client with several tasks the free slots that suit them best together, and proves it.
func (ws *workspace) choose(p *line, tasks, seats []int32) (ClientProof, error) {
	q, s := &ws.less, &ws.again
	p.problem(q, tasks, seats)
	if err := s.Solve(q, nil); err != nil {
		return ClientProof{}, err
	}
	second := s.Settle(q, func(task, at int32) uint64 { return p.hash(tasks[task], seats[at]) })
	proof := ClientProof{Client: p.r.Tasks[tasks[0]].Client}
	for i, a := range seats {
		at := p.l.seats[a]
		if s.Price[i] > 0 {
			proof.Prices = append(proof.Prices, SlotPrice{int(at.agent), int(at.at), Credits(s.Price[i])})
		}
		if second != nil && second[i] != 0 {
			proof.Ties = append(proof.Ties, Tie{int(at.agent), int(at.at), second[i]})
		}
	}
	for i, at := range s.Match {
		if at >= 0 {
			p.sit(tasks[i], seats[at])
		}
	}
	return proof, nil
}

// checkPosted verifies a posted round without solving. It goes through the clients in their order and checks
// that each got what suits it best of the slots that were left. For one task it compares the slots; for
// several the client's proof shows it.
func (ws *workspace) checkPosted(r *Round, o *Outcome) error {
	l, ans := &ws.layout, &ws.answer
	if n := len(o.Prices) + len(o.Witnesses) + len(o.Ties); n > 0 {
		return fmt.Errorf("%d slot prices, witnesses and ties in a round without slot prices", n)
	}
	ans.Match, ans.Price = ans.Match[:0], append(ans.Price[:0], make([]int64, len(l.seats))...)
	if err := ws.awards(r, o); err != nil {
		return err
	}
	p := newLine(r, l)
	proofs := o.Clients
	for place, tasks := range p.clients {
		seats := p.offered(tasks)
		task := r.Tasks[tasks[0]]
		switch {
		case len(seats) == 0:
			for _, t := range tasks {
				if ans.Match[t] >= 0 {
					return fmt.Errorf("task %s, at place %d of the line, sits where no slot was left",
						r.Tasks[t].ID, place+1)
				}
			}
		case len(tasks) == 1:
			if want := p.first(tasks[0]); ans.Match[tasks[0]] != want {
				return fmt.Errorf("task %s, at place %d of the line, does not sit at what suited it best "+
					"of what was left", task.ID, place+1)
			}
		default:
			var proof *ClientProof
			if len(proofs) > 0 && proofs[0].Client == task.Client {
				proof, proofs = &proofs[0], proofs[1:]
			}
			if err := ws.checkChoice(p, tasks, seats, proof); err != nil {
				return fmt.Errorf("client %s, at place %d of the line: %w", clip(task.Client), place+1, err)
			}
		}
		for _, t := range tasks {
			p.sit(t, ans.Match[t])
		}
	}
	if len(proofs) > 0 {
		return fmt.Errorf("a proof for client %s that none is wanted of, or not here", clip(proofs[0].Client))
	}
	return nil
}

// checkChoice verifies that a client's tasks got the slots that suit them best together. Where proof is nil,
// all prices in it are 0.
func (ws *workspace) checkChoice(p *line, tasks, seats []int32, proof *ClientProof) error {
	q := &ws.less
	p.problem(q, tasks, seats)
	ans := certify.Answer{Match: make([]int32, len(tasks)), Price: make([]int64, len(seats))}
	for i, t := range tasks {
		ans.Match[i] = -1
		if a := ws.answer.Match[t]; a >= 0 {
			at, ok := slices.BinarySearch(seats, a)
			if !ok {
				return fmt.Errorf("task %s sits where no slot was left", p.r.Tasks[t].ID)
			}
			ans.Match[i] = int32(at)
		}
	}
	var second []int64
	if proof != nil {
		if proof.Externality != 0 || len(proof.Moves) > 0 || len(proof.Prices)+len(proof.Ties) == 0 {
			return fmt.Errorf("its proof holds an externality of %s and %d moves, want prices or ties alone",
				proof.Externality, len(proof.Moves))
		}
		last := -1
		for _, x := range proof.Prices {
			at, err := p.seatAt(x.Agent, x.Seat, seats)
			if err != nil || at <= last || x.Price <= 0 {
				return fmt.Errorf("slot price %s in its proof: out of order, not positive, or of no seat "+
					"that was left", x.Price)
			}
			last, ans.Price[at] = at, int64(x.Price)
		}
		last = -1
		for _, x := range proof.Ties {
			at, err := p.seatAt(x.Agent, x.Seat, seats)
			if err != nil || at <= last || x.Rank == 0 {
				return fmt.Errorf("tie %d in its proof: out of order, 0, or of no seat that was left", x.Rank)
			}
			if second == nil {
				second = make([]int64, len(seats))
			}
			last, second[at] = at, x.Rank
		}
	}
	in := certify.Instance{Off: q.Off, Seat: q.Seat, Weight: q.Weight, Slots: q.Slots}
	in.Hash = func(task, at int32) uint64 { return p.hash(tasks[task], seats[at]) }
	ans.Second = second
	err := ws.checker.Choice(in, ans)
	if second == nil && errors.Is(err, certify.ErrTie) { // second prices that are all 0 are not listed
		ans.Second = make([]int64, len(seats))
		err = ws.checker.Choice(in, ans)
	}
	return err
}

func (p *line) seatAt(agent, at int, seats []int32) (int, error) {
	a, err := p.l.find(p.r, agent, at)
	if err != nil {
		return 0, err
	}
	at, ok := slices.BinarySearch(seats, a)
	if !ok {
		return 0, errors.New("no slot was left there")
	}
	return at, nil
}

// postedSeed depends on no bid: else a client could search for a bid that puts it first.
func (r *Round) postedSeed() [32]byte {
	buf := append([]byte("souk posted 1\n"), r.Prev[:lotBytes]...)
	buf = binary.BigEndian.AppendUint64(buf, r.Number)
	return sha256.Sum256(append(buf, r.Domain...))
}

func postedKey(seed [32]byte, kind byte, name string, at int) [32]byte {
	buf := append(append(make([]byte, 0, len(seed)+3+len(name)), seed[:]...), kind, byte(at>>8), byte(at))
	return sha256.Sum256(append(buf, name...))
}

// line lists the tasks of every client, clients in their order. A task without a client stands for itself.
func (r *Round) line(seed [32]byte) [][]int32 {
	type spot struct {
		key   [32]byte
		tasks []int32
	}
	index := make(map[string]int)
	var spots []spot
	for t, task := range r.Tasks {
		kind, name := byte('c'), task.Client
		if name == "" {
			kind, name = 't', string(task.ID)
		}
		id := string(kind) + name
		i, ok := index[id]
		if !ok {
			i = len(spots)
			index[id] = i
			spots = append(spots, spot{key: postedKey(seed, kind, name, 0)})
		}
		spots[i].tasks = append(spots[i].tasks, int32(t))
	}
	slices.SortFunc(spots, func(a, b spot) int {
		return cmp.Or(bytes.Compare(a.key[:], b.key[:]), cmp.Compare(a.tasks[0], b.tasks[0]))
	})
	out := make([][]int32, len(spots))
	for i, s := range spots {
		out[i] = s.tasks
	}
	return out
}
