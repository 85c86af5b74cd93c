package hub

import (
	"slices"

	"souk/bus"
	"souk/hub/predict"
	"souk/market"
)

// kind is what agents have in common that are quoted alike, but for what each holds and has running. A task
// is quoted once on all of them that hold as much of its prompt and have as much in hand.
type kind struct {
	id   int
	line predict.Line

	visit uint64 // of a task that looks at agents
	met   []met

	asked uint64 // by which task it was asked last what it would have there
	cold  *offer // of those that hold nothing of its prompt

	round  uint64 // in which it has these
	groups []int32
}

// met counts the agents of a kind that a task has looked at and that are equal in all that it could tell.
type met struct {
	agent         *agent
	running, free int
	backlog       backlog
	held          held
	count         int
}

// mostMet bounds what is told apart of a kind. Agents beyond are looked at each for itself.
const mostMet = 16

// equals is how many agents equal to a were looked at on this visit.
func (k *kind) equals(visit uint64, a *agent, running, free int, in backlog, held held) int {
	if k.visit != visit {
		k.visit, k.met = visit, k.met[:0]
	}
	for i := range k.met {
		m := &k.met[i]
		if m.running == running && m.free == free && m.backlog == in && m.held == held &&
			m.agent.stuck == a.stuck && slices.Equal(m.agent.tiers, a.tiers) {
			m.count++
			return m.count - 1
		}
	}
	if len(k.met) < mostMet {
		k.met = append(k.met, met{a, running, free, in, held, 1})
	}
	return 0
}

// kindOf is all that a quote reads of an agent beside its cache and its load.
type kindOf struct {
	line     predict.Line
	model    string
	price    market.Price
	tariff   market.Credits
	context  int
	template bus.Template
	measured bool
	scores   string
	settle   string
}

// kinds holds the kinds of the agents of the roster, and what tasks need to be quoted on them.
type kinds struct {
	all    map[kindOf]*kind
	next   int
	visits uint64

	spare []*notes // of tasks that wait no more
}

// kind is the kind of an agent, found again after it was set to nil because what makes it may have changed.
func (n *Node) kind(a *agent) *kind {
	if !a.along.Stands(a.alongAt) {
		a.along, a.alongAt = a.predictor.Line(), a.predictor.Fits()
	}
	if a.kind != nil && a.kind.line == a.along {
		return a.kind
	}
	of := kindOf{line: a.along, model: a.reg.Model, price: a.price, tariff: a.tariff,
		context: a.reg.MaxModelLen, scores: a.scores, settle: n.cfg.Settle}
	if a.reg.Template != nil {
		of.template, of.measured = *a.reg.Template, true
	}
	s := &n.kinds
	k := s.all[of]
	if k == nil {
		if len(s.all) > 2*len(n.roster)+16 { // most are of cards and tariffs that are no more
			clear(s.all)
			for _, b := range n.roster {
				b.kind = nil
			}
		}
		s.next++
		k = &kind{id: s.next, line: of.line}
		s.all[of] = k
	}
	a.kind = k
	return k
}

// line is what the agent is forecast by. Where a round has asked since that last changed it stands beside the
// agent, so that who looks at many of them need not look at what was seen of each.
func (a *agent) line() predict.Line {
	if a.along.Stands(a.alongAt) {
		return a.along
	}
	return a.predictor.Line()
}

// notes returns the notes of a task.
func (n *Node) notes(t *task) *notes {
	if t.notes == nil {
		if k, last := &n.kinds, len(n.kinds.spare)-1; last >= 0 {
			t.notes, k.spare = k.spare[last], k.spare[:last]
		} else {
			t.notes = new(notes)
		}
	}
	return t.notes
}

// unquote gives up the notes of a task that waits no more.
func (n *Node) unquote(t *task) {
	if k := t.notes; k != nil && len(n.kinds.spare) < 64 {
		for i := range k.quotes {
			k.quotes[i].kind = nil // what is of none is made anew
		}
		k.looked = false
		n.kinds.spare = append(n.kinds.spare, k)
	}
	t.notes, t.length = nil, length{}
}
