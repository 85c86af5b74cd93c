package truth

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"souk/cmd/choices"
	"souk/integration/lab/virtual"
	"souk/market"
)

// Way is a market or a rule that hears what callers and owners say.
type Way struct {
	Name, About string
	rule        string // of the table of rules; "": the market
	first       bool   // who is served pays what it claims that its answer was worth
	asks        bool   // owners are asked for prices beside their class's card
}

const (
	clients = 120 // thirty of each temper
	epoch   = 75 * time.Millisecond
	holds   = 10  // epochs for which an owner says the same
	late    = 80  // epochs after which all tasks are taken to have ended
	judges  = 100 // epochs after which learners judge
	warm    = 200 // epochs that do not count, as caches fill
	// what is measured begins from a seed so much higher
	fresh = 1000
)

// few is a share of liars, one in so many, of which all learn together: those of a temper hear too little.
const few = 10

// tempers are the callers' in turn; see [souk/cmd/replay.Mix].
var tempers = []string{"hurried", "exacting", "balanced", "thrifty"}

// worlds returns the world that is played, at each load.
func worlds(loads []float64) ([]virtual.World, error) {
	w := virtual.World{Terms: virtual.Tempers}
	var err error
	if w.Trace, err = virtual.TraceNamed("mtrag"); err == nil {
		w.Fleet, err = virtual.FleetNamed("mixed")
	}
	if err != nil {
		return nil, err
	}
	return w.At(loads)
}

// Share says who lies: of callers and of owners one of so many; 0: nobody.
type Share struct {
	Name            string
	Callers, Owners int
}

// lies reports whether one of several does.
func lies(oneOf, which int, seed uint64) bool { return oneOf > 0 && which%oneOf == int(seed)%oneOf }

// play plays one run: it speaks for all.
type play struct {
	s       *virtual.Setting
	way     *Way
	share   Share
	seed    uint64
	learns  int // epochs; 0: what is said was learned before
	now     int // epoch
	callers []*learner
	mean    []moving // of what is had, by temper
	owners  []*owner // nil: it tells the truth
	owned   [][]int  // what owners have learned before
	offers  []virtual.Offer
	said    map[*virtual.Request][]int
}

// owner lies, and keeps what it has had by trial.
type owner struct {
	*learner
	said   [][]int
	profit []float64
	cost   float64 // of all that it served
}

// moving is a moving mean.
type moving struct{ of, n float64 }

func (m *moving) add(x float64) {
	m.n = min(m.n+1, 50)
	m.of += (x - m.of) / m.n
}

// Outcome holds the figures of a play. Money is in thousandths of a credit, and of the epochs that are
// measured unless it is said otherwise.
type Outcome struct {
	Welfare float64   // a second
	Curve   []float64 // the same in each hundred epochs, from the first on
	Refused float64   // of tasks
	Tasks   []int     // by caller
	Had     []float64 // by caller: value less what it paid, a second
	Profits []float64 // by engine: what its owner is paid beside true costs, a second
	Account float64   // what callers pay beside what owners are paid, a second
	Least   float64   // the least of that of a task
	Callers [][]int   // what those that lie say at the end, by temper
	Owners  [][]int   // what owners say at the end, by engine; nil: the truth
}

// play has liars learn in a way's world, and plays what they say in the end on other arrivals, from empty
// engines, so that no line is left from what was tried.
func (y *Way) play(w virtual.World, share Share, seed uint64, learns, measured int) (*Outcome, error) {
	w.Seed = seed
	p := newPlay(y, share, seed)
	p.learns = learns
	all, err := p.run(w, learns+measured)
	if err != nil {
		return nil, err
	}
	out := &Outcome{Curve: p.curve(all, learns+measured), Callers: p.callersSay(), Owners: p.ownersSay()}
	w.Seed = seed + fresh
	q := newPlay(y, share, seed)
	q.say(out)
	if all, err = q.run(w, warm+measured); err != nil {
		return nil, err
	}
	q.measure(all, measured, out)
	return out, nil
}

// newPlay is a play whose liars know nothing.
func newPlay(y *Way, share Share, seed uint64) *play {
	p := &play{way: y, share: share, seed: seed, mean: make([]moving, len(tempers)),
		said: map[*virtual.Request][]int{}}
	for i := range tempers {
		if i > 0 && share.Callers >= few {
			p.callers = append(p.callers, p.callers[0])
			continue
		}
		p.callers = append(p.callers, newLearner(rand.New(rand.NewPCG(seed, uint64(i))), kinds(callers)))
	}
	return p
}

// say has liars say what was learned in another play.
func (p *play) say(learned *Outcome) {
	for i, best := range learned.Callers {
		p.callers[i].best = best
	}
	p.owned = learned.Owners
}

// run plays so many epochs.
func (p *play) run(w virtual.World, epochs int) ([]*virtual.Request, error) {
	w.Length = time.Duration(epochs) * epoch
	s, err := w.Setting()
	if err != nil {
		return nil, err
	}
	s.Clients, s.Stays = clients, true
	p.s = &s
	for i := range s.Engines {
		var o *owner
		if lies(p.share.Owners, i, p.seed) {
			o = &owner{learner: newLearner(rand.New(rand.NewPCG(p.seed, uint64(100+i))), kinds(owners))}
			if p.owned != nil {
				o.best = p.owned[i]
			}
		}
		p.owners, p.offers = append(p.owners, o), append(p.offers, s.True(i))
	}
	p.trial()
	s.Teller = p
	policy, end, err := p.way.policy(&s)
	if err != nil {
		return nil, err
	}
	all, _, err := virtual.Run(s, policy)
	if err == nil {
		err = end()
	}
	if err != nil {
		return nil, fmt.Errorf("%s, %s, seed %d: %w", p.way.Name, p.share.Name, p.seed, err)
	}
	return all, nil
}

// policy makes what is played.
func (y *Way) policy(s *virtual.Setting) (p virtual.Policy, end func() error, err error) {
	if y.rule != "" {
		p, err = virtual.NewRule(y.rule, s.Seed)
		return p, func() error { return nil }, err
	}
	o := virtual.NewMarketOptions(*s)
	o.Hub = choices.Hub()
	if y.asks {
		o.Hub.Pricing, o.Hub.Epoch = market.PricingTariff, 2*time.Second
		o.Hub.Ceilings = map[string]market.Credits{}
		for i := range s.Engines {
			e := s.Fleet[i]
			c := scaled(usual(e.Card), ceiling)
			o.Hub.Ceilings[e.Model+" "+e.Profile], o.Hub.Ceiling = c, max(o.Hub.Ceiling, c)
		}
	}
	m, err := virtual.NewMarket(o)
	return m, func() error {
		_, err := m.Close()
		return err
	}, err
}

// ceiling is the most that an owner may ask beside its card, of the cost of a task as most are.
const ceiling = 0.25

// trial has owners say something else.
func (p *play) trial() {
	t := p.now / holds
	for i, o := range p.owners {
		if o == nil {
			continue
		}
		if k := t - late/holds; k >= 0 && p.now <= p.learns {
			o.learn(o.said[k], o.profit[k]*float64(t)/max(1, o.cost))
		}
		said := o.best
		if p.now < p.learns {
			said = o.choose()
		}
		o.said, o.profit = append(o.said, slices.Clone(said)), append(o.profit, 0)
		p.offers[i] = offer(p.s.True(i), said, p.way.asks)
		p.offers[i].Trial = t
	}
}

// Says implements [virtual.Teller].
func (p *play) Says(r *virtual.Request) virtual.Word {
	for at := int(r.Arrived / epoch); p.now < at; {
		p.now++
		if p.now%judges == 0 && p.now <= p.learns {
			for i, l := range p.callers {
				if i == 0 || l != p.callers[0] {
					l.judge()
				}
			}
			for _, o := range p.owners {
				if o != nil {
					o.judge()
				}
			}
		}
		if p.now%holds == 0 {
			p.trial()
		}
	}
	if !p.liar(r.Caller) {
		return word(r, make([]int, len(callers)))
	}
	l := p.callers[r.Caller%len(tempers)]
	said := l.best
	if p.now < p.learns {
		said = l.choose()
		p.said[r] = said
	}
	return word(r, said)
}

// Offers implements [virtual.Teller].
func (p *play) Offers(engine int) virtual.Offer { return p.offers[engine] }

// Ended implements [virtual.Teller].
func (p *play) Ended(r *virtual.Request) {
	if p.way.first && !r.Refused {
		r.Paid = max(r.Due, p.s.Claimed(r))
	}
	temper := r.Caller % len(tempers)
	had := float64(p.utility(r)) / float64(float64(r.Terms.Worth)*r.Terms.Delta)
	if said := p.said[r]; said != nil && p.now < p.learns {
		p.callers[temper].learn(said, had-p.mean[temper].of)
		delete(p.said, r)
	}
	p.mean[temper].add(had)
	if r.Refused {
		return
	}
	if o := p.owners[r.Engine]; o != nil {
		cost := p.s.Cost(r)
		o.profit[r.Sent().Trial] += float64(r.Due - cost)
		o.cost += float64(cost)
	}
}

// liar reports whether a caller lies.
func (p *play) liar(caller int) bool { return lies(p.share.Callers, caller/len(tempers), p.seed) }

func (p *play) utility(r *virtual.Request) market.Credits {
	if r.Refused {
		return 0
	}
	return p.s.Worth(r) - r.Paid
}

func milli(c market.Credits) float64 { return float64(c) * 1000 / float64(market.Credit) }

// callersSay lists what callers say, by temper.
func (p *play) callersSay() (all [][]int) {
	for _, l := range p.callers {
		all = append(all, l.best)
	}
	return all
}

// ownersSay lists what owners say, by engine; nil: the truth.
func (p *play) ownersSay() (all [][]int) {
	for _, o := range p.owners {
		var best []int
		if o != nil {
			best = o.best
		}
		all = append(all, best)
	}
	return all
}

// gain is the welfare of a task.
func (p *play) gain(r *virtual.Request) float64 { return milli(p.s.Worth(r) - p.s.Cost(r)) }

// curve is the welfare a second in each hundred epochs.
func (p *play) curve(all []*virtual.Request, epochs int) []float64 {
	out, per := make([]float64, epochs/judges), judges*epoch
	for _, r := range all {
		if k := int(r.Arrived / per); k < len(out) {
			out[k] += p.gain(r) / per.Seconds()
		}
	}
	return out
}

// measure sums up what came of the callers' tasks, once caches are full.
func (p *play) measure(all []*virtual.Request, measured int, out *Outcome) {
	out.Tasks, out.Had = make([]int, clients), make([]float64, clients)
	out.Profits, out.Least = make([]float64, p.s.Engines), math.Inf(1)
	span := (time.Duration(measured) * epoch).Seconds()
	tasks := 0
	for _, r := range all {
		if r.Arrived < warm*epoch {
			continue
		}
		tasks++
		out.Tasks[r.Caller]++
		if r.Refused {
			out.Refused++
			continue
		}
		out.Welfare += p.gain(r) / span
		out.Had[r.Caller] += milli(p.utility(r)) / span
		out.Profits[r.Engine] += milli(r.Due-p.s.Cost(r)) / span
		out.Account += milli(r.Paid-r.Due) / span
		out.Least = min(out.Least, milli(r.Paid-r.Due))
	}
	out.Refused /= float64(max(1, tasks))
}
