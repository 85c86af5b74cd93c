package hub

import (
	"slices"

	"souk/bus"
	"souk/bus/openai"
	"souk/hub/admission"
	"souk/hub/estimate"
	"souk/hub/settle"
)

// backOffBound bounds the tokens of an answer that goes on the next agent may take back, for a whole
// character.
const backOffBound = 3

// admitRest admits the rest of an answer as the same task: the same model where some of it was delivered,
// what is left of max_tokens, and all of max_price, since nothing was charged yet.
func (n *Node) admitRest(old *task, m *bus.Task) {
	attempt := old.Attempt() + 1
	t := n.newTask(admission.New(old.Client(), old.ID(), old.Digest(), 0), old.Arrived())
	t.Task = settle.Task{
		FailedAt: append(slices.Clone(old.FailedAt), m.Resume.Agent), FailedHold: old.Final().Receipt,
		Earlier: append(slices.Clone(old.Earlier), old.Final().Receipt.ID), Whole: old.Whole,
	}
	n.read(t, m)
	// the reader may know of moves that a hub which was started again has no record of
	m.Attempt = max(attempt, min(m.Attempt, attempt+settle.MostMoves))
	no := n.judgeRoom(t, true)
	if no == nil {
		no = n.setTerms(t)
	}
	if k := len(m.Resume.Tokens); k > 0 && no == nil {
		parses, err := openai.CanContinue(m.Resume, m.Body)
		if err != nil {
			no = n.turn.Refusal(m, bus.CodeUnsupportedField, 0, "%s", bus.MessageOf(err))
		}
		t.Rest(n.turn.Now())
		m.Model = old.Final().Model
		m.MaxTokens = min(t.Whole, max(0, t.Whole-k)+backOffBound)
		t.asks.Parses, t.asks.Model, t.asks.Source.Most = parses, m.Model, m.MaxTokens
		if !t.asks.Open() {
			t.asks.MaxTokens = m.MaxTokens
		}
	}
	var need estimate.Need
	if no == nil {
		need, no = n.survey(t)
	}
	if no != nil {
		n.admission.RefuseRest(&old.Request, m, no)
		return
	}
	n.stats.Continued++
	n.sessions.Come(&t.place, t.Client(), t.asks.Source.Session)
	n.take(t, m, need)
}
