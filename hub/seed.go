package hub

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"souk/bus"
	"souk/bus/bounded"
	"souk/hub/predict"
	"souk/market"
)

// Where many dialogues begin alike, an agent that has had none of them computes that beginning anew, and so
// gets none of them. The hub may give such an agent the text beforehand: it has it serve a task of the hub's
// own, a copy of one that just went elsewhere, for a single token, of which nobody hears. That is a task like
// any other, in a round that is its alone, so that the journal proves it as any other. It is sent where
// nothing runs, while nobody waits, if what it is expected to save is worth more than it costs. No bid of the
// round is read: what a second is worth is what tolls go by, too, and is of those who were served before.

// Seeding says who pays for texts that are put on idle agents.
type Seeding struct {
	// of the treasury, which the operator funds: where it has no money nothing is seeded; "": probe-DOMAIN,
	// as a colon is no part of an id; another name stands in the treasury's probers, too
	Client string        `yaml:"client"`
	Every  time.Duration `yaml:"every"`  // least time between two; 0: nothing is seeded
	Within time.Duration `yaml:"within"` // as many dialogues are expected to begin alike as last so long
	// an agent gets none of that client's money, for seeds that asks more for them
	// than so many times what the median of its model's agents of other owners does; 0: it may ask what it
	// likes
	Dearest float64 `yaml:"dearest"`
}

// DefaultSeeding seeds wherever there is money for it.
func DefaultSeeding() Seeding { return Seeding{Every: time.Second, Within: time.Minute, Dearest: 2} }

func (s Seeding) validate() error {
	var errs []error
	if s.Client != "" {
		errs = append(errs, bus.CheckID("client", s.Client))
	}
	if s.Every != 0 && (s.Every < 10*time.Millisecond || s.Every > time.Hour) {
		errs = append(errs, fmt.Errorf("every: %v is neither 0 nor from 10ms to 1h", s.Every))
	}
	if s.Within < time.Second || s.Within > 24*time.Hour {
		errs = append(errs, fmt.Errorf("within: %v is not from 1s to 24h", s.Within))
	}
	if s.Dearest != 0 && !(s.Dearest >= 1 && s.Dearest <= 1e6) {
		errs = append(errs, fmt.Errorf("dearest: %v is neither 0 nor from 1 to 1e6", s.Dearest))
	}
	return errors.Join(errs...)
}

// Prober is the client that pays for what a hub seeds.
func (c Config) Prober() string {
	if c.Seed.Client != "" {
		return c.Seed.Client
	}
	return bus.ProberOf(c.Domain)
}

// seeds are what the hub knows of texts that many begin with.
type seeds struct {
	uses  *bounded.Cache[uint64, uint64, uses] // by the last prefix that such a text has
	asked *task                                // the last to be given to an agent that began as many do
	at    int32                                // its last prefix that any agent held, then
	each  float64                              // dialogues that an agent would have of those that begin so
	under *task                                // the seed that is on its way, or was last
	in    bool                                 // the round at hand is its own
	next  int64                                // by Node.nano: when there may be another
	made  int

	second market.Credits // what a second costs those who were served lately, on the mean
}

// hear takes in what a second costs a task that is served. Much more than the mean counts as ten times that.
func (s *seeds) hear(second market.Credits) {
	if s.second == 0 {
		s.second = second
	}
	s.second += (min(second, 10*s.second) - s.second) / 64
}

// uses counts how often a text was begun with in this span of time and the one before.
type uses struct {
	span        int64
	now, before int
}

// usesKept bounds the texts that are counted.
const usesKept = 1024

// noteUse counts a task that goes to an agent among those that begin as it does.
func (n *Node) noteUse(t *task) {
	s := &n.seeds
	if t.only != nil { // there was money
		s.next = n.at(n.cfg.Seed.Every)
	}
	if n.cfg.Seed.Every == 0 || t.only != nil || t.carried() > 0 || t.msg.Prompt.Loose == bus.LooseMedia {
		return
	}
	depth, holders := n.prefixes.Deepest(&t.msg.Prompt)
	if depth == 0 {
		return
	}
	prefix := t.msg.Prompt.Prefixes[depth-1].Hash
	u, _ := s.uses.Add(prefix, prefix)
	if span := n.nano / int64(n.cfg.Seed.Within); span != u.span {
		if u.before = 0; span == u.span+1 {
			u.before = u.now
		}
		u.span, u.now = span, 0
	}
	u.now++
	if again := max(u.now, u.before) - 1; again > 0 && holders < len(n.roster) {
		s.asked, s.at, s.each = t, depth, float64(again)/float64(len(n.roster))
	}
}

// sow puts the text that the last task began with on an idle agent, if that is expected to save more than it
// costs. It reports whether there is a task more.
func (n *Node) sow() bool {
	s := &n.seeds
	t := s.asked
	s.asked = nil
	if t == nil || t.msg == nil || len(t.msg.Body) == 0 || n.batch.Len() > 0 || n.draining || n.full ||
		n.doubt != "" ||
		n.nano < s.next || s.under != nil && s.under.state != done {
		return false
	}
	s.next = n.at(n.cfg.Seed.Every)
	p := &t.msg.Prompt
	for _, a := range n.roster {
		if a.free(n) == 0 || len(a.holds) > 0 || !n.usable(t, a) || a.cache.Depth(p) >= s.at ||
			a.cache.Had(p, 0, s.at) == s.at { // nor is one paid again that says it has lost what it had
			continue
		}
		if seed := n.seed(t, a); seed != nil {
			s.under = seed
			return true
		}
	}
	return false
}

// seed is a task of the hub's own, which has an agent compute the prompt of another for an answer of one
// token; nil if the uses of what they begin with save less than it costs, or the client that pays for it is
// at a limit.
func (n *Node) seed(of *task, a *agent) *task {
	s, m := &n.seeds, *of.msg
	m.Client, m.ID = n.cfg.Prober(), fmt.Sprintf("seed-%d-%d", n.epoch, s.made)
	m.Session, m.Turn, m.Role, m.Source, m.Run, m.Inbox = "", 0, "", "", "", ""
	m.SessionEnd, m.BackMS, m.Parent, m.Next, m.Declared = false, 0, "", "", false
	m.Reply = bus.ReplyTo(m.Client, m.ID) // where nobody listens
	m.Attempt, m.Failover, m.MaxTokens, m.Model, m.Terms = 0, "off", 1, a.reg.Model, bus.Terms{}
	t := &task{key: taskKey{m.Client, m.ID}, id: market.TaskID(m.Client + "/" + m.ID),
		digest: m.Content(), arrived: n.now, deadline: n.now.Add(n.cfg.FundsWait), only: a,
		terms: market.Terms{Worth: 1, Delta: 1, Patience: 1}}
	t.timer.owner = t
	n.read(t, &m)
	q := n.quoted(t, a, backlog{})
	n.unquote(t) // which was by a worth of nothing
	p := &t.msg.Prompt
	shared := int(int64(q.prompt) * int64(p.Prefixes[s.at-1].Bytes) / int64(max(1, p.Bytes)))
	if n.saves(a, q.features, shared) <= q.cost+n.cfg.Fee || !n.afford(t, &q) {
		return nil
	}
	// or less, once it has a slot: an empty account is not asked over and over
	s.next = n.at(n.cfg.Seed.Within)
	return t
}

// fair reports whether an agent may have the money of the hub's own client for so many tokens. No client said
// what they are worth, and nobody bids against the agent, so nothing but the others' cards bounds what it
// asks: those of other owners, or one with several agents would say itself what is fair. Of two in the middle
// the lesser counts; where its owner is alone there is nothing to compare it with.
func (n *Node) fair(a *agent, prompt, output int) bool {
	if n.cfg.Seed.Dearest == 0 {
		return true
	}
	var others []market.Credits
	for _, b := range n.roster {
		if b.owner != a.owner && b.joined && b.reg.Model == a.reg.Model {
			others = append(others, market.WorstCase(b.price, prompt, output)+b.tariff)
		}
	}
	if len(others) == 0 {
		return true
	}
	slices.Sort(others)
	median := max(1, others[(len(others)-1)/2])
	return float64(market.WorstCase(a.price, prompt, output)+a.tariff) <= n.cfg.Seed.Dearest*float64(median)
}

// afford has the hub's own client pay for a task of its own; false if that client is at a limit, or the agent
// asks too much.
func (n *Node) afford(t *task, q *quote) bool {
	if n.judgeRoom(t) != nil || !n.fair(t.only, q.prompt, q.maxTokens) {
		return false
	}
	// It pays cost and fee: its round is its alone, and no slot has a price. The hold has to cover the worst.
	worth := math.Ceil(2 * float64(q.worst(t.only)+n.cfg.Fee) / max(0.01, t.only.quality(t.msg.Domain)))
	t.terms.Worth = market.Credits(min(worth, float64(market.MaxWorth)))
	need, r := n.survey(t)
	if r != nil {
		return false
	}
	n.seeds.made++
	n.known[t.key] = t
	n.openAccount(t.key.client)
	n.fund(t, need)
	return true
}

// saves is what an agent saves if it holds so many tokens that dialogues begin with: money by its card, and
// time by what a second is worth to those served lately. All agents are expected to have an equal share of
// the dialogues.
func (n *Node) saves(a *agent, f predict.Features, shared int) market.Credits {
	whole, held := f, f
	whole.Cached, held.Cached = 0, shared
	sooner := a.predictor.First(whole) - a.predictor.First(held)
	money := market.Price{Miss: max(0, a.price.Miss-a.price.Hit)}.Cost(market.Usage{Prompt: shared})
	sum := float64(money) + float64(float64(n.seeds.second)*max(0, sooner).Seconds())
	return market.Credits(min(n.seeds.each*sum, float64(market.MaxWorth)))
}

// recount has agents that a text was put on agree with the one that a task goes to on how many tokens they
// have in common. That one may have learned it of its engine, and these guess it by bytes: with a few tokens
// too many they would look dearer, and be given nothing from which to learn.
func (n *Node) recount(t *task, a *agent) {
	a.sown = false
	for _, b := range n.roster {
		if b.sown && b.model == a.model {
			b.cache.Recount(&t.msg.Prompt, a.cache)
		}
	}
}

// take gives the tasks of the next round. What the hub seeds has one of its own, or it would have a part in
// the prices of others: these are in the one after. It goes if its agent is idle no more.
func (n *Node) take(tasks []*task) []*task {
	s := &n.seeds
	t := s.under
	s.in = t != nil && t.state == waiting
	if s.in && len(t.only.holds) > 0 {
		n.unsown()
	}
	tasks = n.batch.Take(tasks, n.batch.Len())
	if !s.in {
		return tasks
	}
	for _, x := range tasks {
		if x != t {
			n.batch.Add(x, x.arrived)
		}
	}
	return append(tasks[:0], t)
}

// unsown ends what the hub wanted to seed and its round did not begin: it waits for nothing.
func (n *Node) unsown() {
	if s := &n.seeds; s.in && s.under.state == waiting {
		s.next = n.at(n.cfg.Seed.Every)
		n.end(s.under, n.refusal(s.under.msg, bus.CodeNoRoom, 0, "its agent is not idle: nothing is seeded there"))
	}
	n.seeds.in = false
}
