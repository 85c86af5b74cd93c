package forecast

import "souk/hub/predict/tree"

// eq5 is the paper's: for each agent a tree for latency and one for cost, over what Eq. 5 names.
type eq5 struct{ latency, cost []*tree.Regressor }

// riverTree holds the defaults of river's HoeffdingTreeRegressor, but for the depth, which has no bound
// there.
var riverTree = tree.Config{Grace: 200, Delta: 1e-7, Tie: 0.05, Least: 5, Depth: 16}

// eq5Features are |p|, t, o, I, R, I_i, R_i, B_i, u_i and the domain.
const eq5Features = 10

func newEq5(cfg tree.Config, agents int) *eq5 {
	p := &eq5{}
	for range agents {
		p.latency = append(p.latency, tree.NewRegressor(cfg, eq5Features))
		p.cost = append(p.cost, tree.NewRegressor(cfg, eq5Features))
	}
	return p
}

func eq5Of(v *View, agent int, t *Task) []float64 {
	a := &v.Agents[agent]
	return []float64{float64(t.Prompt), float64(t.Turn), float64(t.Believed) / float64(max(1, t.Prompt)),
		float64(v.InFlight), v.Rate.Now(v.Now), float64(a.InFlight), a.Rate.Now(v.Now), float64(v.Slots),
		float64(a.InFlight) / float64(max(1, v.Slots)), float64(t.Role)}
}

func (p *eq5) Forecast(v *View, agent int, t *Task) Expected {
	x := eq5Of(v, agent, t)
	return Expected{TTFT: max(0, p.latency[agent].Predict(x)), Cost: max(0, p.cost[agent].Predict(x)), x: x}
}

func (p *eq5) Sent(*View, *Task, Expected) {}
func (p *eq5) Said(*View, int, int)        {}

func (p *eq5) Ended(_ *View, t *Task, e Expected) {
	p.latency[t.Agent].Learn(e.x, t.TTFT, 1)
	p.cost[t.Agent].Learn(e.x, t.Cost, 1)
}

// stateFeatures are u, q, left, decoding, resident, the share of the cache in use, requests that wait, and
// the most tokens that an answer may have.
const stateFeatures = 8

func stateOf(v *View, agent int, t *Task, x []float64) []float64 {
	a := &v.Agents[agent]
	return []float64{x[1], x[2], x[3], x[4], x[5], a.Usage, a.Waiting, float64(t.MaxTokens)}
}

// state is a tree of a class over the state of its agents.
type state struct {
	*seconds
	tree *tree.Regressor
}

func newState(agents int) *state {
	return &state{newSeconds(agents), tree.NewRegressor(tree.Default(), stateFeatures)}
}

func (s *state) Forecast(v *View, agent int, t *Task) Expected {
	e := s.seconds.Forecast(v, agent, t)
	e.y = stateOf(v, agent, t, e.x)
	e.TTFT = max(0, s.tree.Predict(e.y))
	return e
}

func (s *state) Ended(v *View, t *Task, e Expected) {
	s.seconds.Ended(v, t, e)
	s.tree.Learn(e.y, t.TTFT, 1)
}

// gated is seconds, with trees of a class on what they leave over: of the first token, and of the length of
// the answer. Each stands behind a gate.
type gated struct {
	*seconds
	gate, lengths counted
}

// lengthFeatures are the prompt's tokens, the turn, the role, the most that an answer may have, and what is
// expected without the tree.
const lengthFeatures = 5

func newGated(agents int) *gated {
	return &gated{newSeconds(agents), counted{Gate: tree.NewGate(tree.Default(), stateFeatures)},
		counted{Gate: tree.NewGate(tree.Default(), lengthFeatures)}}
}

func (g *gated) Forecast(v *View, agent int, t *Task) Expected {
	e := g.seconds.Forecast(v, agent, t)
	e.alone = e.TTFT
	e.y = append(stateOf(v, agent, t, e.x), float64(t.Prompt), float64(t.Turn), float64(t.Role),
		float64(t.MaxTokens), e.Output)
	e.Open = g.gate.Open()
	e.TTFT = max(0, e.TTFT+g.gate.Add(e.y[:stateFeatures], nil))
	e.Output = min(max(1, e.Output+g.lengths.Add(e.y[stateFeatures:], nil)), float64(t.MaxTokens))
	e.Cost = price(t, t.Believed, e.Output)
	return e
}

func (g *gated) Ended(v *View, t *Task, e Expected) {
	g.seconds.Ended(v, t, e)
	g.gate.Learn(e.y[:stateFeatures], nil, t.TTFT-e.alone, 1)
	g.lengths.Learn(e.y[stateFeatures:], nil, float64(t.Output)-e.y[len(e.y)-1], 1)
}

// Openings counts how often its gates opened: that of first tokens, and that of lengths.
func (g *gated) Openings() (firsts, lengths int) { return g.gate.openings, g.lengths.openings }

// Way is a way to forecast.
type Way struct {
	Name, About string
	make        func(agents int) Forecaster
}

// Baseline is the way that all others are held against.
const Baseline = "seconds"

// Judged is the way that the rows of the bench are of.
const Judged = asHub

// Ways lists every way, in the order of tables.
var Ways = []Way{
	{"means", "a line over uncached tokens and tasks in flight, answers as a share of what they may have: as hubs " +
		"did it before", func(n int) Forecaster { return newMeans(n) }},
	{"eq5", "iemas Eq. 5: for each agent a tree for latency and one for cost, delta 1e-4, 30 a side",
		func(n int) Forecaster { return newEq5(tree.Default(), n) }},
	{"eq5-loose", "the same with river's settings: delta 1e-7, 5 a side, no bound on leaves",
		func(n int) Forecaster { return newEq5(riverTree, n) }},
	{"backlog", "least squares over uncached tokens, those before it, tasks that answer, their tokens",
		func(n int) Forecaster { return newBacklog(n) }},
	{"state", "a tree over what the seconds-left line goes by, cache use, waiting, max_tokens",
		func(n int) Forecaster { return newState(n) }},
	{Baseline, "the seconds-left line; answers by means of session, role and all; cost by the card",
		func(n int) Forecaster { return newSeconds(n) }},
	{asHub, "a hub's own predictor (`hub/predict`), as it is delivered", func(n int) Forecaster { return newOwn(n) }},
	{"gated", "`seconds`, with trees on what it leaves over, behind gates",
		func(n int) Forecaster { return newGated(n) }},
}
