package admission

import (
	"time"

	"souk/bus"
	"souk/hub/estimate"
	"souk/hub/turn"
	"souk/market"
)

// Survey judges by every agent in turn whether a task could ever be served, and what money it needs.
type Survey struct {
	bid   *Bid
	fee   market.Credits
	moved bool // an agent has failed it

	reached estimate.Obstacle // how far it came
	longest int               // context of an agent that it reached
	tokens  int               // of the prompt, as is expected there
	timely  bool
	best    market.Credits // what it is worth beyond its cost; less than 0: nowhere so much
	short   market.Credits // the least max_price that would do; 0: none
	prompt  bool           // which the prompt alone may cost
	need    estimate.Need
}

// NewSurvey begins one for a task, with the flat fee of a hub. moved says that an agent has failed it.
func NewSurvey(b *Bid, fee market.Credits, moved bool) Survey {
	return Survey{bid: b, fee: fee, moved: moved, best: -1,
		need: estimate.Need{Worst: market.MaxCredits, Least: market.MaxCredits}}
}

// May takes in the obstacle at an agent, whose context has so many tokens, and the prompt there, and reports
// whether there is none.
func (s *Survey) May(o estimate.Obstacle, context, tokens int) bool {
	if s.reached = max(s.reached, o); o >= estimate.Context && context >= s.longest {
		s.longest, s.tokens = context, tokens
	}
	return o == estimate.None
}

// Offers takes in the estimate at an agent that may serve the task in time.
func (s *Survey) Offers(e *estimate.Estimate, ttft time.Duration) {
	s.timely = true
	value := e.Value(s.bid.Stated(), ttft, s.bid.Terms.Cap())
	w := value - e.Cost - s.fee
	if w < 0 {
		if do := s.bid.least(e, ttft, s.fee); do > 0 && (s.short == 0 || do < s.short) {
			s.short, s.prompt = do, e.Floor+s.fee == do
		}
		return
	}
	s.best = max(s.best, w)
	s.need.Wanted = max(s.need.Wanted, market.Reserve(e.Worst, value, e.Cost, s.bid.Terms.Cap()))
	s.need.Worst = min(s.need.Worst, market.Reserve(e.Worst, e.Cost, e.Cost, s.bid.Terms.Cap()))
	s.need.Least = min(s.need.Least, max(e.Floor, e.Cost)+s.fee)
}

// Verdict returns the money that the task needs, or why it cannot be served.
func (s *Survey) Verdict(t *turn.Turn, m *bus.Task) (estimate.Need, *bus.Result) {
	no := s.OutOfReach(t, m)
	switch {
	case no != nil:
	case !s.timely:
		no = t.Refusal(m, bus.CodeNotWorthIt, 0,
			"no agent is expected to begin an answer before the deadline, even with a free slot")
	case s.best >= 0:
		s.bid.beyond = s.best
	case s.short > 0 && !s.prompt:
		no = t.Refusal(m, bus.CodeNotWorthIt, 0,
			"max_price %s credits is below what it is expected to cost, %s credits or more: offer at least that",
			s.bid.Terms.Cap(), s.short)
	case s.short > 0:
		no = t.Refusal(m, bus.CodeNotWorthIt, 0,
			"max_price %s credits does not cover the prompt, whose bytes may be so many tokens that it costs "+
				"%s credits: offer at least that", s.bid.Terms.Cap(), s.short)
	default:
		x := s.bid.Terms
		no = t.Refusal(m, bus.CodeNotWorthIt, 0,
			"at worth %s credits, delta %v, patience %v and max_price %s credits no agent's value reaches its cost, "+
				"even with a free slot: offer more", x.Worth, x.Delta, x.Patience, x.Cap())
	}
	return s.need, no
}

// OutOfReach says why the task can go to no agent; nil if nothing keeps it from some.
func (s *Survey) OutOfReach(t *turn.Turn, m *bus.Task) *bus.Result {
	switch s.reached {
	case estimate.Elsewhere:
		if s.moved {
			return t.Refusal(m, bus.CodeAgentFailed, 0, "no other agent is with hub %s", t.Domain)
		}
		return t.Refusal(m, bus.CodeNoRoom, time.Second, "no agent is with hub %s right now", t.Domain)
	case estimate.Parsers:
		return t.Refusal(m, bus.CodeAgentFailed, 0,
			"no other agent of hub %s goes on with such an answer: that takes vLLM, and --enable-scale-out "+
				"where it has tool calls or reasoning", t.Domain)
	case estimate.Model:
		if s.moved {
			return t.Refusal(m, bus.CodeAgentFailed, 0, "no other agent of hub %s serves model %q", t.Domain, m.Model)
		}
		return t.Refusal(m, bus.CodeUnknownModel, 0, "no agent of hub %s serves model %q", t.Domain, m.Model)
	case estimate.Media:
		return t.Refusal(m, bus.CodeUnsupportedField, 0,
			"messages: no agent of hub %s that could take them reads pictures or sound: send text, or ask for a "+
				"model that does", t.Domain)
	case estimate.Context:
		return t.Refusal(m, bus.CodePromptTooLong, 0,
			"the prompt has about %d tokens; the longest context here has %d", s.tokens, s.longest)
	}
	return nil
}
