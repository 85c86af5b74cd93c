package forecast

import (
	"container/heap"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"souk/agentd/vllmsim/kv"
	"souk/hub/predict"
	"souk/integration/lab/virtual"
	"souk/market"
)

// Task is a task that is served. What came of it is known once it has ended.
type Task struct {
	ID, Session, Turn, Role int // Role -1: not known
	Prompt, Believed,
	MaxTokens int // tokens; Believed are those that the hub believes cached on the chosen agent
	Open bool // nobody named MaxTokens: it is what the context leaves

	Agent    int
	Explored bool // sent there by lot
	Held     int  // tokens that the agent held when it was sent
	Cached   int
	Output   int
	TTFT     float64 // seconds
	Cost     float64 // nano-credits
	ITL      time.Duration
	Sent     time.Duration

	job     virtual.Job
	play    *play
	begun   bool
	asked   time.Duration
	expects []Expected // of each forecaster
	chance  float64    // seconds by which its first token was off for where a step of the engine stood
	least   float64    // its cost, by the length that errs least and what was cached; 0: there is none
}

// Usage returns the usage by which its answer is paid.
func (t *Task) Usage() market.Usage {
	return market.Usage{Prompt: t.Prompt, Cached: t.Cached, Output: t.Output}
}

// Expected is the forecast for a task.
type Expected struct {
	TTFT   float64 // seconds
	Output float64 // tokens
	Cost   float64 // nano-credits
	Open   bool    // a gate was open
	x, y   []float64
	alone  float64 // TTFT without what a tree adds

	asked    predict.Features // of the hub's own predictor
	forecast predict.Forecast
}

// Forecaster is a way to expect what tasks need, of all agents of a hub.
type Forecaster interface {
	// Forecast returns the expected need of a task on an agent, were it sent there now.
	Forecast(v *View, agent int, t *Task) Expected
	// Sent says that it is, and Ended that it has ended.
	Sent(v *View, t *Task, e Expected)
	Ended(v *View, t *Task, e Expected)
	// Said says how many tasks an agent had without a first token a moment ago.
	Said(v *View, agent, prefills int)
}

// View is a hub's view.
type View struct {
	Now      time.Duration
	Agents   []AgentView
	InFlight int
	Rate     Rate
	Slots    int // of each agent
}

// AgentView is its view of one agent.
type AgentView struct {
	InFlight       int
	Rate           Rate
	Usage, Waiting float64 // as last scraped: share of the cache, requests
	mirror         *kv.Cache
}

// Rate is the number of arrivals in a second, over the last ten seconds or so.
type Rate struct {
	n  float64
	at time.Duration
}

const rated = 10 * time.Second

// Now is the rate at a time.
func (r *Rate) Now(now time.Duration) float64 {
	return r.n * math.Exp(-float64(now-r.at)/float64(rated)) / rated.Seconds()
}

// Add takes in an arrival.
func (r *Rate) Add(now time.Duration) { r.n, r.at = r.Now(now)*rated.Seconds()+1, now }

const (
	hop    = 300 * time.Microsecond // that a message takes
	saying = 250 * time.Millisecond // between two summaries of an agent
	scrape = 2 * time.Second        // between two looks at an engine
	level  = 45 * time.Second       // that a load lasts, from lowest to highest times what engines bear
	lowest = 0.2
	most   = 1.2
	// patient bounds the tasks that may wait for a slot: beyond, nobody begins a session.
	patient = 4000
)

// Run says how a stream is served.
type Run struct {
	Stream  Stream
	Seed    uint64
	Agents  int
	Tasks   int
	Explore float64 // share of tasks that go to an agent by lot
	// the forecaster by whom tasks are placed; nil: by the truth of what each engine has to do, as far as a
	// hub could know it
	Place Forecaster
	All   []Forecaster
	// hear of every task, with what was expected of it
	Sent, Ended func(t *Task, expects []Expected)
}

type event struct {
	at    time.Duration
	order int
	do    func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	(*e)[len(*e)-1] = event{}
	*e = (*e)[:len(*e)-1]
	return last
}

// world is a run under way.
type world struct {
	Run
	cfg     virtual.EngineConfig
	rng     *rand.Rand
	source  source
	unit    time.Duration // mean time between plays that engines just bear
	pace    float64       // of recorded times between plays, to come to that
	plan    events
	order   int
	view    View
	engines []*virtual.Engine
	due     []time.Duration
	jobs    map[*virtual.Job]*Task
	truth   *seconds // who places tasks, where nobody else does
	queue   []*Task
	said    []virtual.Said
	level   float64

	asked, ended, plays int
}

func (w *world) add(at time.Duration, do func()) {
	w.order++
	heap.Push(&w.plan, event{at, w.order, do})
}

// Play serves the stream to its end.
func (r Run) Play(ctx context.Context) error {
	w := &world{Run: r, cfg: r.Stream.engine(), rng: rand.New(rand.NewPCG(r.Seed, 0x776f726c)),
		jobs: map[*virtual.Job]*Task{}}
	var err error
	if w.source, err = r.Stream.source(r.Seed); err != nil {
		return err
	}
	if err := w.calibrate(); err != nil {
		return err
	}
	for range r.Agents {
		w.engines, w.due = append(w.engines, virtual.NewEngine(w.cfg)), append(w.due, -1)
		w.view.Agents = append(w.view.Agents,
			AgentView{mirror: kv.New(w.cfg.Blocks*95/100, w.cfg.BlockSize)})
	}
	w.view.Slots = w.cfg.Slots
	w.truth = newSeconds(r.Agents)
	p := &w.cfg.Profile
	w.truth.known(secondsLine{p.Base / 1e6, p.Prefill / 1e3, p.Attention, 1})
	w.relevel()
	w.arrive(0)
	for i := range w.engines {
		w.say(i, time.Duration(i)*saying/time.Duration(r.Agents))
		w.scrape(i, 0)
	}
	for n := 0; len(w.plan) > 0 && w.ended < w.Tasks; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		e := heap.Pop(&w.plan).(event)
		w.view.Now = e.at
		e.do()
	}
	if w.ended < w.Tasks {
		return fmt.Errorf("forecast: %d of %d tasks ended, and nothing will happen any more", w.ended, w.Tasks)
	}
	return nil
}

// work estimates the seconds that a play takes of an engine, at full slots and with everything cached that
// can be.
func (w *world) work(p *play) (seconds float64) {
	c := &w.cfg.Profile
	for _, t := range p.turns {
		cached := float64(t.prompt - t.fresh)
		u := float64(t.fresh)
		seconds += u*c.Prefill + u*(cached+u/2)*c.Attention +
			float64(t.output)*(c.Base/float64(w.cfg.Slots)+c.Decode+c.Resident*float64(t.prompt))
	}
	return seconds / 1e6
}

// calibrate finds how often plays may come.
func (w *world) calibrate() error {
	again, err := w.Stream.source(w.Seed)
	if err != nil {
		return err
	}
	const sample = 2000
	seconds, between := 0.0, time.Duration(0)
	for range sample {
		p := again.next()
		seconds += w.work(p)
		between += p.after
	}
	w.unit = time.Duration(seconds / sample / float64(w.Agents) * 1e9)
	if between > 0 {
		w.pace = float64(w.unit) * sample / float64(between)
	}
	return nil
}

// relevel has the load be another for a while.
func (w *world) relevel() {
	w.level = lowest + (most-lowest)*w.rng.Float64()
	w.add(w.view.Now+level, w.relevel)
}

func (w *world) arrive(at time.Duration) {
	p := w.source.next()
	after := float64(p.after) * w.pace
	if w.pace == 0 {
		after = w.rng.ExpFloat64() * float64(w.unit)
	}
	at += time.Duration(after / w.level)
	w.add(at, func() {
		if len(w.queue) < patient {
			w.plays++
			w.ask(p, w.plays, 0)
		}
		w.arrive(at)
	})
}

// mostTokens is the limit that callers set on an answer.
const mostTokens = 2048

// ask has a play ask its next question.
func (w *world) ask(p *play, session, n int) {
	q := &p.turns[n]
	t := &Task{ID: w.asked, Session: session, Turn: n, Role: p.role, Prompt: q.prompt, MaxTokens: mostTokens,
		Agent: -1, play: p, job: virtual.Job{Hashes: q.hashes, Prompt: q.prompt, Output: q.output}}
	w.asked++
	w.view.Rate.Add(w.view.Now)
	w.queue = append(w.queue, t)
	w.place()
}

// place sends what waits, as long as there are slots.
func (w *world) place() {
	for len(w.queue) > 0 {
		var free []int
		for i := range w.view.Agents {
			if w.view.Agents[i].InFlight < w.cfg.Slots {
				free = append(free, i)
			}
		}
		if len(free) == 0 {
			return
		}
		t := w.queue[0]
		w.queue = w.queue[1:]
		w.send(t, w.choose(t, free))
	}
}

// believed are the tokens of a task that the hub believes an agent to hold.
func (w *world) believed(t *Task, agent int) int {
	return w.view.Agents[agent].mirror.Match(t.prefix()) * blockSize
}

func (t *Task) prefix() []uint64 { return t.job.Hashes[:(t.Prompt-1)/blockSize] }

// choose is the agent that is expected to begin first, or one by lot.
func (w *world) choose(t *Task, free []int) (agent int) {
	lot, which := w.rng.Float64(), w.rng.IntN(len(free))
	if t.Explored = lot < w.Explore; t.Explored {
		return free[which]
	}
	by := w.Place
	if by == nil {
		by = w.truth
	}
	least := math.Inf(1)
	for k := range free {
		i := free[(k+which)%len(free)] // of equals none is preferred
		t.Believed = w.believed(t, i)
		if e := by.Forecast(&w.view, i, t); e.TTFT < least {
			agent, least = i, e.TTFT
		}
	}
	return agent
}

func (w *world) send(t *Task, agent int) {
	v := &w.view
	t.Agent, t.Sent, t.Believed = agent, v.Now, w.believed(t, agent)
	t.Held = w.engines[agent].Cache.Match(t.prefix()) * blockSize
	for _, f := range w.All {
		e := f.Forecast(v, agent, t)
		f.Sent(v, t, e)
		t.expects = append(t.expects, e)
	}
	if w.Run.Sent != nil {
		w.Run.Sent(t, t.expects)
	}
	e := w.truth.Forecast(v, agent, t)
	w.truth.Sent(v, t, e)
	prefix := t.prefix()
	w.add(v.Now+time.Duration(e.TTFT*1e9), func() { w.view.Agents[agent].mirror.Put(prefix) })
	a := &v.Agents[agent]
	a.InFlight++
	v.InFlight++
	a.Rate.Add(v.Now)
	w.add(v.Now+hop, func() {
		t.asked = w.view.Now
		w.jobs[&t.job] = t
		if left, whole, prompts := w.engines[agent].Under(w.view.Now); !prompts {
			t.chance = math.Abs((left - whole/2).Seconds())
		}
		w.engines[agent].Ask(w.view.Now, &t.job)
		w.step(agent)
	})
}

// step lets an engine go on.
func (w *world) step(i int) {
	e := w.engines[i]
	w.said = e.Advance(w.view.Now, w.said[:0])
	for _, s := range w.said {
		t := w.jobs[s.Job]
		if s.First {
			t.begun, t.TTFT = true, (w.view.Now - t.asked).Seconds()
		}
		if s.Last {
			delete(w.jobs, s.Job)
			if n := t.job.Output - 1; n > 0 {
				t.ITL = (w.view.Now - t.asked - time.Duration(t.TTFT*1e9)) / time.Duration(n)
			}
			w.add(w.view.Now+hop, func() { w.end(t) })
		}
	}
	switch at, busy := e.Next(); {
	case !busy:
		w.due[i] = -1
	case w.due[i] != at:
		w.due[i] = at
		w.add(max(at, w.view.Now), func() {
			if w.due[i] == at {
				w.due[i] = -1
				w.step(i)
			}
		})
	}
}

// end takes in a completion.
func (w *world) end(t *Task) {
	v := &w.view
	t.Cached, t.Output = t.job.Cached, t.job.Output
	t.Cost = float64(virtual.Card.Cost(t.Usage()))
	if n, known := t.play.guess(t.Turn); known {
		t.least = price(t, t.Cached, n)
	}
	a := &v.Agents[t.Agent]
	a.InFlight--
	v.InFlight--
	a.mirror.Put(t.job.Hashes[:(t.Prompt+t.Output-1)/blockSize])
	w.truth.Ended(v, t, Expected{})
	if w.ended < w.Tasks {
		w.Run.Ended(t, t.expects)
	}
	for i, f := range w.All {
		f.Ended(v, t, t.expects[i])
	}
	w.ended++
	if next := t.Turn + 1; next < len(t.play.turns) {
		p, session := t.play, t.Session
		w.add(v.Now+p.turns[next].think, func() { w.ask(p, session, next) })
	}
	t.play, t.expects, t.job.Hashes = nil, nil, nil
	w.place()
}

// say has an agent say how many of its tasks have no first token, now and every so often.
func (w *world) say(i int, at time.Duration) {
	w.add(at, func() {
		prefills := 0
		for _, t := range w.jobs {
			if t.Agent == i && !t.begun {
				prefills++
			}
		}
		w.add(at+hop, func() {
			w.truth.Said(&w.view, i, prefills)
			for _, f := range w.All {
				f.Said(&w.view, i, prefills)
			}
		})
		w.say(i, at+saying)
	})
}

func (w *world) scrape(i int, at time.Duration) {
	w.add(at, func() {
		a := &w.view.Agents[i]
		a.Usage, a.Waiting = w.engines[i].Usage(), float64(len(w.engines[i].Waiting))
		w.scrape(i, at+scrape)
	})
}
