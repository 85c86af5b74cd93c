package virtual

import (
	"fmt"
	"math/rand/v2"
	"time"

	"souk/hub/admission"
	"souk/market"
)

// Start is when a run begins, by its own clock.
var Start = time.Unix(1_800_000_000, 0)

// run plays a policy once, in virtual time.
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
	offers  []Offer // of the engines' owners, as they are now
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
		r.offers = append(r.offers, s.told(i))
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
		r.view.At(Start.Add(o.at))
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

// mostRefusals bounds how often a refused caller comes back when told to.
const mostRefusals = 20

// backOff is how long a caller without time to think waits after a refusal, as clients of OpenAI's API do
// before they ask again. Without it, such callers of a rule that refuses everything ask millions of times.
const backOff = 500 * time.Millisecond

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
		if r.Teller != nil {
			r.hearTold(now, q)
		}
		r.hear(now, q)
	})
}

// hear has the policy know of a request. One that no engine has the room for is refused before a rule
// hears of it; a market refuses it itself.
func (r *run) hear(now time.Duration, q *Request) {
	if r.far && !r.view.Look(q) {
		r.place(now, Placed{Request: q, Engine: Wait})
		return
	}
	if engine := r.policy.Arrive(Start.Add(now), q, r.view); engine != Wait {
		r.place(now, Placed{Request: q, Engine: engine})
	}
}

func (s *Setting) terms(q *Request) (t Stated, kind string) {
	if s.State != nil {
		return Stated{s.State(q.Prompt, q.Output), true}, ""
	}
	switch s.Say {
	case Spread:
		return spread(q.lots), ""
	case Tempers:
		return temper(q.Caller)
	}
	if s.usual == 0 {
		sum, turns := market.Credits(0), market.Credits(0)
		for _, x := range s.Scripts {
			for _, t := range x.turns {
				sum, turns = sum+s.card(t.prompt, t.output+s.Thought), turns+1
			}
		}
		s.usual = sum / max(1, turns)
	}
	// the terms that a hub gives a task without any, had it forecast the answer rightly
	return Stated{admission.DefaultTerms().Of(s.card(q.Prompt, q.Output), s.usual), false}, ""
}

// card returns the cost of a request at the cheapest engine, with nothing of its prompt cached.
func (s *Setting) card(prompt, output int) market.Credits {
	least := market.MaxCredits
	for i := range s.Engines {
		least = min(least, s.offer(i).Card.Cost(market.Usage{Prompt: prompt, Output: output}))
	}
	return least
}

// hop returns the delay of a message between policy and engines.
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
		r.tell(q)
		r.end(q)
		return
	}
	if err := r.check(p); err != nil {
		r.fault = err
		return
	}
	q.Engine, q.sent = p.Engine, r.offers[p.Engine]
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
				q.Paid = b.charge(q.sent.Card.Cost(q.reported()))
				q.Due = q.Paid
			}
			r.add(now+r.hop(), func(now time.Duration) {
				if r.far {
					r.view.Ended(q)
				}
				r.policy.Done(Start.Add(now), q, q.reported(), r.view)
				q.Hashes = nil
				r.open--
				r.tell(q)
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
	if q.Refused && r.Think <= 0 {
		at += backOff
	}
	if q.Turn+1 < len(q.script.turns) && q.script.turns[q.Turn+1].think > 0 && !r.Hurried {
		at = q.Done + q.script.turns[q.Turn+1].think
	}
	if r.Ring > 0 {
		r.rest(q)
		r.goRound(at)
		return
	}
	switch {
	case q.Turn+1 < len(q.script.turns) && (!q.Refused || r.Stays):
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

// longestStill bounds how long nothing may happen to waiting requests.
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
