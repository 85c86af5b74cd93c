package forecast

import "souk/integration/lab/virtual"

// price forecasts the cost of a task with so many tokens cached, and such an answer.
func price(t *Task, cached int, output float64) float64 {
	c := virtual.Card
	return (float64(t.Prompt-cached)*float64(c.Miss) + float64(cached)*float64(c.Hit) +
		output*float64(c.Out)) / 1e6
}

// means is an earlier way to forecast: a line over tokens to compute and tasks in flight, and a share of the
// most that an answer may have. Agents of a class are forecast alike.
type means struct {
	line          *squares
	share, weight float64
	agents        int
}

func newMeans(agents int) *means {
	return &means{newSquares(200*float64(agents), []float64{30, 120, 2}, []float64{1, 1.4, 2.8}), 2 * 0.4,
		2, agents}
}

func (m *means) Forecast(v *View, agent int, t *Task) Expected {
	x := []float64{1, float64(t.Prompt-t.Believed) / 1000, float64(v.Agents[agent].InFlight)}
	out := m.share / m.weight * float64(t.MaxTokens)
	return Expected{TTFT: m.line.value(x) / 1000, Output: out, Cost: price(t, t.Believed, out), x: x}
}

func (m *means) Sent(*View, *Task, Expected) {}
func (m *means) Said(*View, int, int)        {}

func (m *means) Ended(_ *View, t *Task, e Expected) {
	m.line.learn([]float64{1, float64(max(1, t.Prompt-t.Cached)) / 1000, e.x[2]}, t.TTFT*1000)
	keep := 1 - 1/(200*float64(m.agents))
	m.share = m.share*keep + float64(t.Output)/float64(t.MaxTokens)
	m.weight = m.weight*keep + 1
}

// secondsLine forecasts a first token: seconds at least, milliseconds a token to compute, for each pair of a
// token and one that it attends to, and seconds for a second of prompts before.
type secondsLine [4]float64

// seconds goes by the seconds of prompts that are left to compute before a task:
//
//	u = prompt - cached   q = u (cached + u/2)
//	TTFT = b0 + b1 u + b2 q + b3 left + b4 decoding + b5 resident
//
// Cost is the card's, of the tokens that are expected.
type seconds struct {
	line    *squares // in milliseconds
	hands   []hand
	outputs *outputs
	fixed   bool
}

func newSeconds(agents int) *seconds {
	return &seconds{newSquares(200*float64(agents), []float64{30, 120, 0, 1, 0.5, 0},
		[]float64{1, 1.4, 2, 100, 2.8, 8}), make([]hand, agents), newOutputs(), false}
}

// known sets the line for good.
func (s *seconds) known(l secondsLine) {
	s.fixed = true
	s.line.coef = []float64{1000 * l[0], l[1], 1000 * l[2], 1000 * l[3], 0, 0}
}

func terms(prompt, cached int, l load) []float64 {
	u := float64(max(1, prompt-cached)) / 1000
	return []float64{1, u, u * (float64(cached)/1000 + u/2), l.left * 1000, float64(l.decoding),
		float64(l.resident) / 1000}
}

func (s *seconds) Forecast(v *View, agent int, t *Task) Expected {
	x := terms(t.Prompt, t.Believed, s.hands[agent].load(v.Now))
	out := s.outputs.expect(t)
	return Expected{TTFT: s.line.value(x) / 1000, Output: out, Cost: price(t, t.Believed, out), x: x}
}

// work returns the seconds to compute a prompt.
func (s *seconds) work(x []float64) float64 {
	return (s.line.coef[1]*x[1] + s.line.coef[2]*x[2]) / 1000
}

func (s *seconds) Sent(v *View, t *Task, e Expected) {
	s.hands[t.Agent].sent(v.Now, t, e.TTFT, s.work(e.x))
}

func (s *seconds) Said(v *View, agent, prefills int) { s.hands[agent].said(v.Now, prefills) }

func (s *seconds) Ended(v *View, t *Task, e Expected) {
	s.hands[t.Agent].ended(t)
	if s.fixed {
		return
	}
	s.outputs.learn(t)
	x := terms(t.Prompt, t.Cached, load{})
	copy(x[3:], e.x[3:])
	s.line.learn(x, t.TTFT*1000)
}

// backlog is least squares over what is uncached, the tokens that are before it, and what answers beside it.
type backlog struct {
	*seconds
	plain *squares
}

func newBacklog(agents int) *backlog {
	return &backlog{newSeconds(agents), newSquares(200*float64(agents), []float64{30, 120, 60, 0.5, 0},
		[]float64{1, 1.4, 2, 2.8, 8})}
}

func (b *backlog) Forecast(v *View, agent int, t *Task) Expected {
	e := b.seconds.Forecast(v, agent, t)
	l := b.hands[agent].load(v.Now)
	e.y = []float64{1, float64(max(1, t.Prompt-t.Believed)) / 1000, float64(l.ahead) / 1000,
		float64(l.decoding),
		float64(l.resident) / 1000}
	e.TTFT = b.plain.value(e.y) / 1000
	return e
}

func (b *backlog) Ended(v *View, t *Task, e Expected) {
	b.seconds.Ended(v, t, e)
	e.y[1] = float64(max(1, t.Prompt-t.Cached)) / 1000
	b.plain.learn(e.y, t.TTFT*1000)
}
