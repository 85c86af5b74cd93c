package iemas

import (
	"time"

	"souk/hub/predict/tree"
	"souk/integration/lab/forecast"
	"souk/integration/lab/virtual"
)

// expected holds what is expected of a task on an engine, or came of it: seconds to the first token,
// nano-credits, and the chance that the answer is right, or how good it was.
type expected struct{ latency, cost, quality float64 }

// eq5 is the paper's predictor (4.1): for each agent a Hoeffding tree for latency, one for cost and one for
// quality, over what Eq. 5 names. Its tree for quality is a classifier; here it is the same tree on how good
// answers were, 0 to 1: the variance of a share is half of Gini's impurity, and a leaf says a share.
type eq5 struct {
	agents []agent
	rate   forecast.Rate
	in     int // tasks in flight
}

// agent holds its three trees and what the proxy knows of it.
type agent struct {
	latency, cost, quality *tree.Regressor
	ledger                 map[int]int // by session, the tokens of the last prompt that was executed there
	rate                   forecast.Rate
	in                     int
}

// features are |p|, t, o, I, R, I_i, R_i, B_i, u_i and the kind of question.
const features = 10

func newEq5(cfg tree.Config, agents int) *eq5 {
	p := &eq5{agents: make([]agent, agents)}
	for i := range p.agents {
		p.agents[i] = agent{latency: tree.NewRegressor(cfg, features), cost: tree.NewRegressor(cfg, features),
			quality: tree.NewRegressor(cfg, features), ledger: map[int]int{}}
	}
	return p
}

// arrived takes in that somebody asks.
func (p *eq5) arrived(now time.Duration) { p.rate.Add(now) }

// of are the features of a task on an agent, were it sent there now. Eq. 4's common prefix is by the ledger:
// all of the last prompt of the session there, as a dialogue goes on where it was.
func (p *eq5) of(now time.Duration, i, kind int, q *virtual.Request) []float64 {
	a := &p.agents[i]
	cached := float64(a.ledger[q.Play]) / float64(max(1, q.Prompt))
	return []float64{float64(q.Prompt), float64(q.Turn + 1), cached, float64(p.in), p.rate.Now(now),
		float64(a.in), a.rate.Now(now), slots, float64(a.in) / slots, float64(kind)}
}

func (p *eq5) expect(i int, x []float64) expected {
	a := &p.agents[i]
	return expected{max(0, a.latency.Predict(x)), max(0, a.cost.Predict(x)),
		min(max(0, a.quality.Predict(x)), 1)}
}

func (p *eq5) sent(now time.Duration, i int, q *virtual.Request) {
	a := &p.agents[i]
	p.in, a.in, a.ledger[q.Play] = p.in+1, a.in+1, q.Prompt
	a.rate.Add(now)
}

func (p *eq5) ended(i int, x []float64, came expected) {
	a := &p.agents[i]
	p.in, a.in = p.in-1, a.in-1
	a.latency.Learn(x, came.latency, 1)
	a.cost.Learn(x, came.cost, 1)
	a.quality.Learn(x, came.quality, 1)
}
