package forecast

import (
	"errors"
	"time"

	"souk/bus"
	"souk/bus/learned"
	"souk/hub/predict"
	"souk/hub/quality"
)

// Learner holds what was learned of one agent, and of its answers.
type Learner struct {
	predict.Learner
	Answers quality.Agent
}

// saved holds what a hub has learned of its agents and of answers, as plain numbers. It is no part of the
// journal: a hub that lost it begins by what it assumes.
type saved struct {
	Forecasts *predict.Saved
	Answers   []quality.Agent // by agent, as the forecasts have them
}

// Learned appends what was learned of these agents, by id, and of answers, for Relearn once it is sealed.
func (r *Room) Learned(to []byte, agents []Learner) (_ []byte, err error) {
	l, all := predict.Learned{Classes: r.Lines, Outputs: r.Outputs}, saved{}
	for _, a := range agents {
		l.Agents, all.Answers = append(l.Agents, a.Learner), append(all.Answers, a.Answers)
	}
	if all.Forecasts, err = l.Saved(); err != nil {
		return nil, err
	}
	return learned.Append(to, &all)
}

// Relearn takes in what an earlier life of the hub had learned, and returns what that was of agents. On an
// error nothing changes.
func (r *Room) Relearn(data []byte) (agents []Learner, err error) {
	var all saved
	if err := learned.Read(data, &all); err != nil {
		return nil, err
	}
	if err := learned.Check(&all, 1e40); err != nil {
		return nil, err
	}
	if all.Forecasts == nil || len(all.Answers) != len(all.Forecasts.Agents) {
		return nil, errors.New("it is not of the same agents throughout")
	}
	l, err := all.Forecasts.Restore(r.prior, r.gates)
	if err != nil {
		return nil, err
	}
	r.Lines, r.Outputs = l.Classes, l.Outputs
	for i, a := range l.Agents {
		agents = append(agents, Learner{Learner: a, Answers: all.Answers[i]})
	}
	return agents, nil
}

// clocksDiffer bounds how much longer something may take by an agent's clock than by the hub's.
const clocksDiffer = time.Second

// Believed bounds the microseconds that an agent reports by the time since its task was sent. An agent that
// was believed to need an hour would get no more tasks to show otherwise.
func Believed(us int64, since time.Duration) time.Duration {
	return min(time.Duration(us)*time.Microsecond, since+clocksDiffer)
}

// Answered is the outcome of a task that was sent to an agent.
type Answered struct {
	*bus.Completion
	Features  predict.Features // of its task when it was sent
	Said      predict.Forecast // then
	Sent, Now time.Duration    // when that was, and what time it is
	MaxTokens int              // that the answer might have
	Cold      bool             // the engine had answered nothing since it was started again
	Own       bool             // the hub's own task, for a text that is prewarmed
}

// Learn teaches what is forecast of an agent, and of answers. It returns how much is believed of how long the
// first token took.
func (r *Room) Learn(m *predict.Means, rate *predict.Rate, t *Task, x *Answered) (first time.Duration) {
	first = Believed(x.TTFTUS, x.Now-x.Sent)
	o := predict.Observation{
		Prompt: x.Usage.Prompt, Cached: x.Usage.Cached, Output: x.Usage.Output,
		NoCacheReport: x.NoCacheReport,
		// An answer of finish "length" below its max_tokens ended at its client's max_price: its length is a
		// bid. One that an agent cuts ends at what was found in it, and the hub's own was to have one token.
		Cut: x.Outcome != bus.OutcomeDone || x.Finish == "length" && x.Usage.Output < x.MaxTokens ||
			x.Finish == bus.FinishFiltered || x.Own,
		TTFT: first, ITL: Believed(x.ITLUS, x.Now-x.Sent),
		// what the hub asks of its own is asked of an engine with nothing else to do
		WarmUp: x.Cold || x.Own, Said: x.Said,
	}
	m.Learn(x.Features, o)
	if !o.Cut && m.Typical() {
		r.Outputs.Learn(t.Source, min(o.Output, x.MaxTokens), m.Line().Usual(t.Assumed()))
	}
	if x.TTFTUS > 0 {
		came := min(x.Sent+time.Duration(x.TTFTUS)*time.Microsecond, x.Now)
		rate.Learn(x.Sent, came, x.Usage.Prompt-x.Usage.Cached)
	}
	return first
}
