package iemas

import (
	"math"
	"time"

	"souk/agentd/vllmsim/kv"
	"souk/hub/predict"
	"souk/hub/predict/tree"
	"souk/hub/quality"
	"souk/integration/lab/forecast"
	"souk/integration/lab/virtual"
	"souk/market"
)

// Way is a way to expect latency, cost and quality of a task on an engine. All hear of the same tasks.
type Way struct{ Name, About string }

// Ways lists what is compared, in the order of tables.
var Ways = []Way{
	{"eq5", "the paper's Eq. 5: three Hoeffding trees an agent, of the depth and care with which hubs have theirs"},
	{"eq5-river", "the same with the settings of river's library: splits after five a side, a chance of 1e-7"},
	{"hub", "what a hub uses: its line and queue for first tokens, lengths by session and all, the card; a " +
		"registered score and judgements for quality"},
	{"mean", "what came there so far, on the mean: the simplest"},
}

// river holds the defaults of its HoeffdingTreeRegressor, but for the depth, which has no bound there.
var river = tree.Config{Grace: 200, Delta: 1e-7, Tie: 0.05, Least: 5, Depth: 16}

// watch is a policy, and predictors that hear of what it does.
type watch struct {
	virtual.Policy
	w     *World
	heard map[*virtual.Request]*heard
	ended func(q *virtual.Request, says []expected, came expected)

	trees []*eq5 // the first two ways
	hub   forecast.Forecaster
	view  forecast.View
	held  []*kv.Cache // what the hub believes each engine to hold
	kinds []quality.Agent
	means []mean
}

// heard is a task that was sent and has not ended.
type heard struct {
	sent, first time.Duration // first: 0, if it has none
	engine      int
	xs          [][]float64
	task        forecast.Task
	hub         forecast.Expected
	says        []expected
}

// mean sums up an engine's tasks so far.
type mean struct {
	sum expected
	n   float64
}

func newWatch(w *World, p virtual.Policy, ended func(*virtual.Request, []expected, expected)) *watch {
	n := len(w.Fleet.Engines)
	o := &watch{Policy: p, w: w, heard: map[*virtual.Request]*heard{}, ended: ended,
		trees: []*eq5{newEq5(tree.Default(), n), newEq5(river, n)}, kinds: make([]quality.Agent, n),
		means: make([]mean, n)}
	var classes []predict.Key
	for _, e := range w.Fleet.Engines {
		classes = append(classes, predict.Key{Model: e.Model, Price: e.Card})
		o.held = append(o.held, kv.New(e.Blocks*95/100, blockSize))
	}
	o.hub = forecast.NewHub(classes)
	return o
}

// Watch implements what a market asks for.
func (o *watch) Watch(all []*virtual.Engine) {
	if m, ok := o.Policy.(interface{ Watch([]*virtual.Engine) }); ok {
		m.Watch(all)
	}
}

func (o *watch) Arrive(now time.Time, q *virtual.Request, v *virtual.View) int {
	for _, t := range o.trees {
		t.arrived(now.Sub(virtual.Start))
	}
	i := o.Policy.Arrive(now, q, v)
	if i != virtual.Wait {
		o.send(now.Sub(virtual.Start), i, q)
	}
	return i
}

func (o *watch) Wake(now time.Time) ([]virtual.Placed, time.Time) {
	place, next := o.Policy.Wake(now)
	for _, p := range place {
		if p.Engine != virtual.Wait {
			o.send(now.Sub(virtual.Start), p.Engine, p.Request)
		}
	}
	return place, next
}

// standing is an engine's for a kind of question.
func (o *watch) standing(i, kind int) *quality.Score { return o.kinds[i].In(o.w.Set.kinds[kind]) }

// send has every way say what it expects, and hears that the task goes there.
func (o *watch) send(now time.Duration, i int, q *virtual.Request) {
	h := &heard{sent: now, engine: i}
	o.heard[q] = h
	for _, t := range o.trees {
		x := t.of(now, i, o.w.Kind(q), q)
		h.xs, h.says = append(h.xs, x), append(h.says, t.expect(i, x))
		t.sent(now, i, q)
	}
	o.view.Now = now
	h.task = forecast.Task{ID: q.ID, Session: q.Play, Turn: q.Turn, Role: -1, Prompt: q.Prompt, Agent: i,
		Sent: now, Believed: o.held[i].Match(q.Blocks(blockSize)) * blockSize, MaxTokens: tokens - q.Prompt,
		Open: true}
	h.hub = o.hub.Forecast(&o.view, i, &h.task)
	o.hub.Sent(&o.view, &h.task, h.hub)
	card := o.w.Fleet.Engines[i].Card
	h.says = append(h.says, expected{h.hub.TTFT, float64(card.Cost(market.Usage{Prompt: q.Prompt,
		Cached: h.task.Believed, Output: int(math.Round(h.hub.Output))})),
		o.standing(i, o.w.Kind(q)).Q(o.w.Fleet.Engines[i].Score, true, false)})
	m, n := o.means[i].sum, max(1, o.means[i].n)
	h.says = append(h.says, expected{m.latency / n, m.cost / n, m.quality / n})
}

func (o *watch) First(now time.Time, q *virtual.Request, v *virtual.View) {
	h := o.heard[q]
	h.first = now.Sub(virtual.Start)
	o.held[h.engine].Put(q.Blocks(blockSize))
	o.Policy.First(now, q, v)
}

func (o *watch) Done(now time.Time, q *virtual.Request, u market.Usage, v *virtual.View) {
	h, i, at := o.heard[q], q.Engine, now.Sub(virtual.Start)
	delete(o.heard, q)
	came := expected{(h.first - h.sent).Seconds(), float64(o.w.Fleet.Engines[i].Card.Cost(u)),
		o.w.Score(q, modelOf(i))}
	o.ended(q, h.says, came)
	for k, t := range o.trees {
		t.ended(i, h.xs[k], came)
	}
	o.view.Now = at
	h.task.Cached, h.task.Output, h.task.TTFT, h.task.Cost = u.Cached, u.Output, came.latency, came.cost
	if u.Output > 1 {
		h.task.ITL = (at - h.first) / time.Duration(u.Output-1)
	}
	o.hub.Ended(&o.view, &h.task, h.hub)
	o.held[i].Put(q.Hashes[:(q.Prompt+q.Output-1)/blockSize])
	o.standing(i, o.w.Kind(q)).Judge(came.quality)
	m := &o.means[i]
	m.sum = expected{m.sum.latency + came.latency, m.sum.cost + came.cost, m.sum.quality + came.quality}
	m.n++
	o.Policy.Done(now, q, u, v)
}

// Scraped tells the hub's predictor what agents say four times a second: whose first token has not come.
func (o *watch) Scraped(now time.Time, v *virtual.View) {
	prefills := make([]int, len(o.held))
	for _, h := range o.heard {
		if h.first == 0 {
			prefills[h.engine]++
		}
	}
	o.view.Now = now.Sub(virtual.Start)
	for i := range o.held {
		o.hub.Said(&o.view, i, prefills[i])
	}
	o.Policy.Scraped(now, v)
}
