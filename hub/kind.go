package hub

import (
	"souk/bus"
	"souk/hub/predict"
	"souk/market"
)

// kind is what agents have in common that are quoted alike, but for what each holds and has running. A task
// is quoted once on all of them that hold as much of its prompt.
type kind struct {
	id   int
	line predict.Line

	visit uint64 // of a task that looks at agents
	held  []held // what those held that it has looked at
}

// mostHeld bounds what is told apart of a kind. Agents beyond are looked at each for itself.
const mostHeld = 16

// seen reports whether an agent of the kind that holds as much was looked at on this visit.
func (k *kind) seen(visit uint64, h held) bool {
	if k.visit != visit {
		k.visit, k.held = visit, k.held[:0]
	}
	for _, x := range k.held {
		if x == h {
			return true
		}
	}
	if len(k.held) < mostHeld {
		k.held = append(k.held, h)
	}
	return false
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
