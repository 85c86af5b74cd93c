package forecast

import (
	"fmt"
	"slices"
	"time"

	"souk/cmd/choices"
	"souk/hub/fleet"
	"souk/hub/predict"
)

// own is the hub's own predictor, as it is delivered.
type own struct {
	agents  []*predict.Means
	classes *predict.Classes
	queues  []fleet.Agent // by what runs on each
	outputs *predict.Outputs
	firsts  []*counted // gates of first tokens
	lengths counted
}

// asHub is its name among the ways.
const asHub = "hub"

func newOwn(agents int) *own { return newOwnOf(make([]predict.Key, agents)) }

// NewHub is a hub's own predictor for agents of these classes.
func NewHub(classes []predict.Key) Forecaster { return newOwnOf(classes) }

func newOwnOf(classes []predict.Key) *own {
	o := &own{queues: make([]fleet.Agent, len(classes))}
	o.outputs = predict.NewOutputs(func(features int) predict.Gate {
		o.lengths = counted{Gate: choices.Trees(features)}
		return &o.lengths
	})
	o.classes = predict.NewClasses(func(features int) predict.Gate {
		g := &counted{Gate: choices.Trees(features)}
		o.firsts = append(o.firsts, g)
		return g
	})
	for _, k := range classes {
		m := predict.NewMeans()
		o.classes.Enter(k, m)
		o.agents = append(o.agents, m)
	}
	return o
}

func sourceOf(t *Task) predict.Source {
	role := ""
	if t.Role >= 0 {
		role = fmt.Sprint(t.Role)
	}
	return predict.Source{Client: "client", Role: role, Session: uint64(t.Session), Prompt: t.Prompt,
		Turn: t.Turn, Most: t.MaxTokens}
}

func (o *own) features(v *View, agent int, t *Task) predict.Features {
	m := o.agents[agent]
	return predict.Features{Prompt: t.Prompt, Counted: t.Prompt, Cached: t.Believed, MaxTokens: t.MaxTokens,
		Open:   t.Open,
		Answer: o.outputs.Expect(sourceOf(t), m.Line().Usual(t.MaxTokens)),
		Load:   o.queues[agent].Load(int64(v.Now))}
}

func (o *own) Forecast(v *View, agent int, t *Task) Expected {
	f := o.features(v, agent, t)
	m := o.agents[agent]
	e := m.Forecast(f)
	return Expected{TTFT: e.TTFT.Seconds(), Output: float64(e.Output),
		Cost: price(t, t.Believed, float64(e.Output)),
		Open: o.open(), asked: f, forecast: e}
}

func (o *own) open() bool { return slices.ContainsFunc(o.firsts, (*counted).Open) }

// Openings counts how often its gates opened: those of first tokens, and that of lengths.
func (o *own) Openings() (firsts, lengths int) {
	for _, g := range o.firsts {
		firsts += g.openings
	}
	return firsts, o.lengths.openings
}

// counted is a gate whose openings are counted.
type counted struct {
	predict.Gate
	openings int
}

func (c *counted) Learn(x, slopes []float64, left, weight float64) {
	was := c.Open()
	if c.Gate.Learn(x, slopes, left, weight); !was && c.Open() {
		c.openings++
	}
}

func (o *own) Sent(v *View, t *Task, e Expected) {
	a := &o.queues[t.Agent]
	a.Begin("", fmt.Sprint(t.ID), time.Unix(0, int64(v.Now)), 0)
	a.Computes(int64(v.Now), t.Prompt, o.agents[t.Agent].Line().Work(t.Prompt-t.Believed, t.Believed),
		e.forecast.TTFT)
}

func (o *own) Ended(v *View, t *Task, e Expected) {
	ttft := time.Duration(t.TTFT * 1e9)
	o.queues[t.Agent].Computed("", fmt.Sprint(t.ID), ttft)
	o.queues[t.Agent].End("", fmt.Sprint(t.ID))
	o.agents[t.Agent].Learn(e.asked, predict.Observation{Prompt: t.Prompt, Cached: t.Cached, Output: t.Output,
		TTFT: ttft, ITL: t.ITL, Said: e.forecast})
	o.outputs.Learn(sourceOf(t), t.Output, o.agents[t.Agent].Line().Usual(t.MaxTokens))
}

func (o *own) Said(v *View, agent, prefills int) {
	now := int64(v.Now)
	o.queues[agent].Said(now, now-2*int64(hop), prefills)
}
