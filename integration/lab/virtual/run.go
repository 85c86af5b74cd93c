package virtual

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"souk/hub"
	"souk/market"
)

// Setting is everything that a run consists of, except the policy.
type Setting struct {
	Engines int
	Engine  EngineConfig
	Fleet   []FleetEngine // the engines, where they differ: as many
	Scripts []*Script
	Pools   []Pool // engines whose prompts others compute

	Callers int             // each plays one dialogue after another, turn by turn
	Crews   []Crew          // instead: so many from some moments on
	Rate    float64         // instead: dialogues that begin in a second, at random (Poisson)
	Clients int             // with Rate, so many clients begin them in turn; 0: each is of its own
	Groups  int             // cache groups that callers are put into in turn; 0: all share one; or Own
	Arrive  []time.Duration // instead: when dialogues begin, as recorded
	Think   time.Duration   // mean pause before the next question, exponential; 0: none
	Hurried bool            // nobody pauses as long as was recorded
	Sigma   float64         // instead of exponential: log-normal, of the same mean, with this sigma
	// callers share so many dialogues, and each asks the one that was asked longest ago
	Ring   int
	Midway bool    // the first dialogue of each caller goes on from somewhere in its middle
	Timed  float64 // every turn is asked when that was recorded, so many times as fast
	// where Timed has more than Tasks, it begins with a turn that the seed chooses
	Anywhere bool

	Warm    time.Duration // what is asked before then does not count
	Patient time.Duration // how long a task waits for a slot, where that is longer than is usual
	Returns bool          // callers that are told when to come back do
	Quiet   time.Duration // agents say no more often than that how they are, if that is longer than usual
	Context int           // tokens that a prompt and its answer may have; 0: 8192

	Tasks  int           // asked in all; the run ends when all are answered
	Length time.Duration // instead of Tasks: nobody asks after that
	// nobody asks any more once it says so, though there are fewer Tasks; nil: it never does
	Enough func() bool

	// tokens of reasoning that each answer begins with and later prompts leave out: what is cached of an
	// answer is found by nobody
	Thought int

	Slow  []Slowdown // engines that are slower than the others for some time
	Flood Flood      // one client that asks far more than the others, beside them

	Say    Terms     // what callers say of what answers are worth; "": nothing
	Unsaid hub.Terms // the hub's terms for tasks that state none; zero: its defaults
	OneKey bool      // all callers are one client
	Seed   uint64

	Hop    time.Duration // how long a message takes
	Scrape time.Duration // how often the engines' metrics are read
}

// Own is the number of groups where each caller is one.
const Own = -1

// group is a caller's cache group.
func (s *Setting) group(caller int) int {
	switch {
	case s.Groups == Own:
		return caller + 1
	case s.Groups > 1:
		return caller % s.Groups
	}
	return 0
}

// Slowdown is an engine whose steps take several times as long between two times.
type Slowdown struct {
	Engine   int
	From, To time.Duration
	Times    int64
}

// Flood is a client that begins dialogues at random, so many in a second.
type Flood struct {
	From, To time.Duration
	Rate     float64
}

// Flooder is the caller of a flood.
const Flooder = 1_000_000

// Start is when a run begins, by its own clock.
var Start = time.Unix(1_800_000_000, 0)

// occasion is an event and its time. Of two at the same time the one that was planned first comes first.
type occasion struct {
	at    time.Duration
	order uint64
	do    func(now time.Duration)
}

// before is the order in which occasions come.
func (o occasion) before(p occasion) bool { return o.at < p.at || o.at == p.at && o.order < p.order }

// queue is a heap; its first item comes before all others. container/heap would allocate for everything that
// comes and goes, some sixty times for each task of a run.
type queue[T interface{ before(T) bool }] []T

func (q *queue[T]) push(x T) {
	*q = append(*q, x)
	h := *q
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !x.before(h[up]) {
			break
		}
		h[i], i = h[up], up
	}
	h[i] = x
}

// pop takes out what comes first.
func (q *queue[T]) pop() T {
	h := *q
	last := len(h) - 1
	first, x := h[0], h[last]
	clear(h[last:])
	*q = h[:last]
	i := 0
	for down := 1; down < last; down = 2*i + 1 {
		if down+1 < last && h[down+1].before(h[down]) {
			down++
		}
		if !h[down].before(x) {
			break
		}
		h[i], i = h[down], down
	}
	if last > 0 {
		h[i] = x
	}
	return first
}

// plan is the occasions to come. Each gets a number when it is planned.
type plan struct {
	agenda queue[occasion]
	order  uint64
}

func (p *plan) add(at time.Duration, do func(now time.Duration)) {
	p.order++
	p.agenda.push(occasion{at, p.order, do})
}

// next takes out what comes first.
func (p *plan) next() occasion { return p.agenda.pop() }

// run is one run under way.
type run struct {
	Setting
	plan
	policy  Policy
	fault   error         // of the policy
	moved   time.Duration // when a request was placed or ended last
	far     bool          // the policy is not Near
	engines []*Engine
	due     []time.Duration // when each engine has something to do next; -1: nothing is planned
	wake    time.Time       // when the policy wants to wake
	view    *View
	random  *rand.Rand // for arrivals
	said    []Said
	byJob   map[*Job]*Request
	pools   pools

	plays, open, asking int
	callers, hired      int // where crews change: who asks, and who has begun
	all                 []*Request
	ring                []*Request // the next question of each dialogue, the one that comes next first
}

// playMarket plays a setting on the real market and closes that, whose books must balance.
func playMarket(s Setting, o MarketOptions) ([]*Request, []*Engine, *Market, error) {
	m, err := NewMarket(o)
	if err != nil {
		return nil, nil, nil, err
	}
	all, engines, err := Run(s, m)
	if err == nil {
		_, err = m.Close()
	}
	if err != nil {
		return nil, nil, nil, fmt.Errorf("seed %d: %w", s.Seed, err)
	}
	return all, engines, m, nil
}

// Run plays a setting under a policy to its end and returns every request, in the order in which they came,
// and the engines, behind which stand those of the pools that compute prompts.
func Run(s Setting, p Policy) ([]*Request, []*Engine, error) {
	if err := s.validate(); err != nil {
		return nil, nil, err
	}
	r := &run{Setting: s, policy: p, far: !p.Near(), view: NewView(&s),
		random: rand.New(rand.NewPCG(s.Seed, 0x706c6179)), byJob: map[*Job]*Request{}}
	for i := range s.Engines {
		r.engines, r.due = append(r.engines, NewEngine(s.engine(i))), append(r.due, -1)
	}
	r.addPools()
	for _, x := range s.Slow {
		e := r.engines[x.Engine]
		r.add(x.From, func(time.Duration) { e.times = x.Times })
		r.add(x.To, func(time.Duration) { e.times = 1 })
	}
	if m, ok := p.(interface{ Watch([]*Engine) }); ok {
		m.Watch(r.engines)
	}
	r.begin()
	if f := r.Flood; f.Rate > 0 {
		r.flood(f.From, rand.New(rand.NewPCG(s.Seed, 0x666c6f6f)))
	}
	r.add(0, r.scrape)
	for len(r.agenda) > 0 && (r.open > 0 || r.asking > 0) {
		o := r.plan.next()
		r.view.now = Start.Add(o.at)
		o.do(o.at)
		r.look(o.at)
		if r.fault != nil {
			return nil, nil, r.fault
		}
	}
	if r.open > 0 {
		return nil, nil, fmt.Errorf("virtual: %d requests wait, and nothing will happen any more", r.open)
	}
	return r.all, r.engines, nil
}

func (s *Setting) validate() error {
	switch {
	case s.Engines < 1 || len(s.Scripts) == 0:
		return errors.New("virtual: a run needs an engine and a dialogue")
	case len(s.Fleet) > 0 && len(s.Fleet) != s.Engines:
		return fmt.Errorf("virtual: a fleet of %d for %d engines", len(s.Fleet), s.Engines)
	case s.Tasks < 1 && s.Length <= 0:
		return errors.New("virtual: a run needs an end: a number of tasks, or a length")
	case s.Callers < 1 && len(s.Crews) == 0 && s.Rate <= 0 && len(s.Arrive) == 0 && s.Timed <= 0:
		return errors.New("virtual: nobody asks: callers, rate or arrivals are needed")
	case !s.crewsFollow():
		return errors.New("virtual: crews follow one another, and none has fewer than no callers")
	case s.Groups < Own:
		return fmt.Errorf("virtual: %d cache groups", s.Groups)
	case s.Scrape <= 0:
		return errors.New("virtual: engines are looked at in an interval above 0")
	}
	for e := range s.Engines {
		c := s.engine(e)
		capacity := (c.Blocks - 1) * c.BlockSize
		if c.Slots < 1 || c.MaxBatched < c.Slots {
			return fmt.Errorf("virtual: %d slots and %d tokens in a step: each slot needs one", c.Slots,
				c.MaxBatched)
		}
		for i, d := range s.Scripts {
			if last := d.turns[len(d.turns)-1]; last.prompt+last.output > capacity {
				return fmt.Errorf("virtual: dialogue %d has %d tokens, engine %d's cache room for %d", i,
					last.prompt+last.output, e, capacity)
			}
		}
	}
	return s.validatePools()
}

// together is the time within which all callers of a closed loop begin.
const together = 20 * time.Millisecond

// begin plans the first questions.
func (r *run) begin() {
	switch {
	case r.Timed > 0:
		r.timed()
	case r.Ring > 0:
		for place := range r.Ring {
			lots := r.lots(place)
			r.ring = append(r.ring, r.dialogue(place, lots))
		}
		for caller := range r.Callers {
			r.goRound(begins(r.lots(caller)))
		}
	case len(r.Crews) > 0:
		r.hire()
	case r.Callers > 0:
		for caller := range r.Callers {
			lots := r.lots(caller)
			r.play(begins(lots), caller, lots)
		}
	case r.Rate > 0:
		r.arrive(0)
	default:
		for caller, at := range r.Arrive {
			r.play(at, caller, r.lots(caller))
		}
	}
}

func begins(lots *rand.Rand) time.Duration { return time.Duration(lots.Int64N(int64(together))) }

// lots is a caller's source of random numbers, which is the same under any policy. It decides which dialogues
// the caller plays, how long it thinks, and what an answer is worth to it.
func (s *Setting) lots(caller int) *rand.Rand {
	return rand.New(rand.NewPCG(s.Seed, mix(uint64(caller))))
}

// Questions are what a caller of a closed loop asks in its first plays, turn by turn. They are for replays by
// the clock; Think of each is how long the caller thinks before it.
func (s *Setting) Questions(caller, plays int) (out []*Request) {
	lots := s.lots(caller)
	think := begins(lots)
	for n := range plays {
		play := caller*plays + n + 1
		script := s.Scripts[lots.IntN(len(s.Scripts))]
		hashes := script.blocksOf(play, 0, s.Engine.BlockSize, s.group(caller), nil)
		for turn := range script.turns {
			q := &Request{Caller: caller, Play: play, Turn: turn, Group: s.group(caller), Think: think,
				script: script, lots: lots, Job: Job{Hashes: hashes}}
			s.ask(q)
			out = append(out, q)
			think = s.thinks(lots)
		}
	}
	return out
}

// ask fills in what is asked, and what the answer is worth.
func (s *Setting) ask(q *Request) {
	t := q.script.turns[q.Turn]
	q.Prompt, q.Output, q.Engine = t.prompt, t.output+s.Thought, Wait
	q.Terms, q.Temper = s.terms(q)
}

// thinks is how long a caller thinks before its next question.
func (s *Setting) thinks(lots *rand.Rand) time.Duration {
	if s.Think <= 0 {
		return 0
	}
	if s.Sigma > 0 {
		return time.Duration(math.Exp(s.Sigma*lots.NormFloat64()-s.Sigma*s.Sigma/2) * float64(s.Think))
	}
	return time.Duration(lots.ExpFloat64() * float64(s.Think))
}

// arrive plans the arrivals of an open loop, one by one.
func (r *run) arrive(at time.Duration) {
	at += time.Duration(r.random.ExpFloat64() / r.Rate * 1e9)
	r.asking++
	r.add(at, func(now time.Duration) {
		r.asking--
		if !r.over(now) {
			caller := r.plays
			if r.Clients > 0 {
				caller %= r.Clients
			}
			r.play(now, caller, r.lots(r.plays))
			r.arrive(now)
		}
	})
}

// flood plans what a flood asks, one by one.
func (r *run) flood(at time.Duration, random *rand.Rand) {
	at += time.Duration(random.ExpFloat64() / r.Flood.Rate * 1e9)
	if at >= r.Flood.To {
		return
	}
	r.asking++
	r.add(at, func(now time.Duration) {
		r.asking--
		r.play(now, Flooder, r.lots(Flooder+r.plays))
		r.flood(now, random)
	})
}

// over reports whether nothing more is asked.
func (r *run) over(now time.Duration) bool {
	if r.Enough != nil && r.Enough() {
		return true
	}
	if r.Tasks > 0 {
		return len(r.all) >= r.Tasks
	}
	return now >= r.Length
}

// play has a caller begin a dialogue.
func (r *run) play(at time.Duration, caller int, lots *rand.Rand) {
	r.plays++
	play := r.plays
	script := r.Scripts[lots.IntN(len(r.Scripts))]
	q := &Request{Caller: caller, Play: play, script: script, lots: lots}
	if r.Midway && play <= r.Callers {
		q.Turn = lots.IntN(len(script.turns))
	}
	r.turn(at, q)
}

// dialogue is the first question of a new dialogue.
func (r *run) dialogue(caller int, lots *rand.Rand) *Request {
	r.plays++
	return &Request{Caller: caller, Play: r.plays, script: r.Scripts[lots.IntN(len(r.Scripts))], lots: lots}
}

// goRound has the next dialogue of the ring asked.
func (r *run) goRound(at time.Duration) {
	q := r.ring[0]
	r.ring = r.ring[1:]
	r.turn(at, q)
}

// rest puts the dialogue of an answer back into the ring, or a new one.
func (r *run) rest(q *Request) {
	next := &Request{Caller: q.Caller, Play: q.Play, Turn: q.Turn + 1, script: q.script, lots: q.lots,
		Job: Job{Hashes: q.Hashes}}
	if q.Refused || next.Turn == len(q.script.turns) {
		next = r.dialogue(q.Caller, q.lots)
	}
	r.ring = append(r.ring, next)
}

// timed plans all turns when they were recorded.
func (r *run) timed() {
	begins := r.stretch()
	for i, script := range r.Scripts {
		r.plays++
		for turn, t := range script.turns {
			if t.at < begins {
				continue
			}
			r.turn(time.Duration(float64(t.at-begins)/r.Timed), &Request{Caller: i, Play: r.plays, Turn: turn,
				script: script, lots: r.lots(i)})
		}
	}
}

// mostRefusals is how often a caller comes back that is told when to.
const mostRefusals = 20

// turn plans that a question is asked.
func (r *run) turn(at time.Duration, q *Request) {
	r.asking++
	r.add(at, func(now time.Duration) {
		r.asking--
		if r.over(now) {
			return
		}
		q.ID, q.Arrived, q.Group = len(r.all), now, r.group(q.Caller)
		q.Hashes = q.script.blocksOf(q.Play, q.Turn, r.Engine.BlockSize, q.Group, q.Hashes)
		if r.Thought > 0 {
			q.Hashes = reasoned(q.Hashes, q, r.Engine.BlockSize, r.Thought)
		}
		r.ask(q)
		r.all = append(r.all, q)
		r.byJob[&q.Job] = q
		r.open++
		r.hear(now, q)
	})
}

// hear has the policy know of a request. One that no engine has the room for is refused before a rule
// hears of it; a market refuses it itself.
func (r *run) hear(now time.Duration, q *Request) {
	if r.far && !r.view.look(q) {
		r.place(now, Placed{Request: q, Engine: Wait})
		return
	}
	if engine := r.policy.Arrive(Start.Add(now), q, r.view); engine != Wait {
		r.place(now, Placed{Request: q, Engine: engine})
	}
}

func (s *Setting) terms(q *Request) (t Stated, kind string) {
	switch s.Say {
	case Spread:
		return spread(q.lots), ""
	case Tempers:
		return temper(q.Caller)
	}
	c := hub.Default() // the terms that a hub gives a task without any
	return Stated{cmp.Or(s.Unsaid, c.Terms).Of(q.Prompt, s.maxTokens()), false}, ""
}

// hop is how long a message between policy and engines takes.
func (r *run) hop() time.Duration {
	if r.far {
		return r.Hop
	}
	return 0
}

// place sends a request to its engine, or ends it if it is refused.
func (r *run) place(now time.Duration, p Placed) {
	q := p.Request
	r.moved = now
	if p.Engine == Wait && r.Returns && p.Again > 0 && q.Refusals < mostRefusals {
		q.Refusals++
		r.asking++
		r.add(now+r.Hop+p.Again, func(now time.Duration) {
			r.asking--
			r.hear(now, q)
		})
		return
	}
	if p.Engine == Wait {
		q.Refused, q.First, q.Done = true, now+r.Hop, now+r.Hop
		r.open--
		r.end(q)
		return
	}
	if err := r.check(p); err != nil {
		r.fault = err
		return
	}
	q.Engine = p.Engine
	if a, ok := q.script.recorded[r.offer(q.Engine).Recorded]; ok {
		q.Output = a.output
	}
	if q.most > 0 && q.Output > q.most {
		q.Output, q.Cut = q.most, true
	}
	if q.own {
		r.byJob[&q.Job] = q
		r.open++
	}
	if r.far {
		r.view.Sent(q)
	}
	r.add(now+r.hop(), func(now time.Duration) {
		if r.handed(now, q) {
			return
		}
		e := r.engines[q.Engine]
		e.Ask(now, &q.Job)
		r.step(now, q.Engine)
	})
}

// check says what is wrong with where a policy sends a request.
func (r *run) check(p Placed) error {
	if p.Engine < 0 || p.Engine >= r.Engines {
		return fmt.Errorf("sends task %d to engine %d of %d, numbered from 0", p.Request.ID, p.Engine,
			r.Engines)
	}
	if !r.far {
		return nil
	}
	e := &r.view.Engines[p.Engine]
	if !r.view.Fits(p.Engine, p.Request) {
		return fmt.Errorf("sends task %d, of %d tokens, to engine %d, which takes %d", p.Request.ID,
			p.Request.Prompt, p.Engine, e.Context)
	}
	if h, ok := r.policy.(interface{ Holds() bool }); ok && h.Holds() && e.InFlight >= e.Slots {
		return fmt.Errorf("sends task %d to engine %d, whose %d slots are taken", p.Request.ID, p.Engine,
			e.Slots)
	}
	return nil
}

// step advances an engine, and plans when it has something to do next.
func (r *run) step(now time.Duration, i int) {
	e := r.engines[i]
	r.said = e.Advance(now, r.said[:0])
	for _, s := range r.said {
		if i >= r.Engines {
			r.handOver(now, i, s.Job)
			continue
		}
		q := r.byJob[s.Job]
		if s.First {
			q.First = now + r.Hop
			r.add(now+r.hop(), func(now time.Duration) {
				if r.far {
					r.view.Began(q)
				}
				r.policy.First(Start.Add(now), q, r.view)
			})
		}
		if s.Last {
			r.moved = now
			q.Done = now + r.Hop
			if b, ok := r.policy.(*blind); ok {
				q.Paid = b.charge(r.offer(i).Card.Cost(usage(q)))
			}
			r.add(now+r.hop(), func(now time.Duration) {
				if r.far {
					r.view.Ended(q)
				}
				r.policy.Done(Start.Add(now), q, usage(q), r.view)
				q.Hashes = nil
				r.open--
			})
			r.end(q)
		}
	}
	at, busy := e.Next()
	switch {
	case !busy:
		r.due[i] = -1
	case r.due[i] != at:
		r.due[i] = at
		r.add(max(at, now), func(now time.Duration) {
			if r.due[i] == at {
				r.due[i] = -1
				r.step(now, i)
			}
		})
	}
}

// reasoned are the blocks of a prompt and of an answer that begins with reasoning.
func reasoned(all []uint64, q *Request, size, thought int) []uint64 {
	n := q.script.turns[q.Turn]
	out := make([]uint64, (n.prompt+n.output+thought)/size)
	for i := copy(out, all[:min(len(all), n.prompt/size)]); i < len(out); i++ {
		out[i] = mix(mix(uint64(q.Play)) ^ mix(uint64(q.Turn<<20+i)))
	}
	return out
}

func usage(q *Request) market.Usage {
	return market.Usage{Prompt: q.Prompt, Cached: q.Cached, Output: q.Output}
}

// end lets a caller that has heard its answer go on, with its next question or another dialogue.
func (r *run) end(q *Request) {
	delete(r.byJob, &q.Job)
	if q.own {
		return
	}
	if r.Timed > 0 {
		return
	}
	at := q.Done + r.thinks(q.lots)
	if q.Turn+1 < len(q.script.turns) && q.script.turns[q.Turn+1].think > 0 && !r.Hurried {
		at = q.Done + q.script.turns[q.Turn+1].think
	}
	if r.Ring > 0 {
		r.rest(q)
		r.goRound(at)
		return
	}
	switch {
	case q.Turn+1 < len(q.script.turns) && !q.Refused:
		next := &Request{Caller: q.Caller, Play: q.Play, Turn: q.Turn + 1, script: q.script, lots: q.lots,
			Job: Job{Hashes: q.Hashes}}
		if r.Thought > 0 {
			next.Hashes = nil // those of this turn have its reasoning
		}
		r.turn(at, next)
	case q.Caller == Flooder:
	case r.Callers > 0 || len(r.Crews) > 0 && !r.leaves(q.Caller):
		r.play(at, q.Caller, q.lots)
	}
}

// look wakes the policy, places what it wants placed, and plans when it wakes next.
func (r *run) look(now time.Duration) {
	for {
		place, next := r.policy.Wake(Start.Add(now))
		for _, p := range place {
			r.place(now, p)
		}
		if len(place) == 0 {
			if !next.IsZero() && !next.Equal(r.wake) {
				r.wake = next
				r.add(max(now, next.Sub(Start)), func(time.Duration) {
					if r.wake.Equal(next) {
						r.wake = time.Time{}
					}
				})
			}
			return
		}
	}
}

// longestStill is how long nothing may happen to those who wait.
const longestStill = time.Hour

func (r *run) scrape(now time.Duration) {
	if r.open > 0 && now-r.moved > longestStill {
		r.fault = fmt.Errorf("%d tasks wait, and none of them was sent anywhere for %v", r.open, longestStill)
	}
	for i, e := range r.engines[:r.Engines] {
		v := &r.view.Engines[i]
		v.Scrape = Scrape{len(e.Running), len(e.Waiting), e.Usage(), e.Output}
		v.ScrapedAt = Start.Add(now)
	}
	r.policy.Scraped(Start.Add(now), r.view)
	r.add(now+r.Scrape, r.scrape)
}
