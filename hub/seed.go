package hub

import (
	"errors"
	"fmt"
	"math"
	"time"

	"souk/bus"
	"souk/market"
)

// Where many dialogues begin alike, an agent that has had none of them computes that beginning anew, and so
// gets none of them. The hub may give such an agent the text beforehand: it has it serve a task of the hub's
// own, a copy of one that just went elsewhere, for a single token, of which nobody hears. That is a task like
// any other, in a round that is its alone, paid at the card by a client which the operator funds for that. It
// is sent where nothing runs, while nobody waits, and reads no bid.

// Seeding says who pays for texts that are put on idle agents.
type Seeding struct {
	Client string        `yaml:"client"` // of the treasury; "": nothing is seeded
	Every  time.Duration `yaml:"every"`  // least time between two
	Within time.Duration `yaml:"within"` // as many dialogues are expected to begin alike as last so long
}

// DefaultSeeding seeds nothing: it is nobody's expense but by choice.
func DefaultSeeding() Seeding { return Seeding{Every: time.Second, Within: time.Minute} }

func (s Seeding) validate() error {
	var errs []error
	if s.Client != "" {
		errs = append(errs, bus.CheckID("client", s.Client))
	}
	if s.Every < 10*time.Millisecond || s.Every > time.Hour {
		errs = append(errs, fmt.Errorf("every: %v is not from 10ms to 1h", s.Every))
	}
	if s.Within < time.Second || s.Within > 24*time.Hour {
		errs = append(errs, fmt.Errorf("within: %v is not from 1s to 24h", s.Within))
	}
	return errors.Join(errs...)
}

// seeds are what the hub knows of texts that many begin with.
type seeds struct {
	uses  recent[uint64, uses] // by the last mark that such a text has
	asked *task                // the last to be given to an agent
	at    int32                // its last mark that any agent held, then
	under *task                // the seed that is on its way, or was last
	next  int64                // by Node.nano: when there may be another
	made  int
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
	if n.cfg.Seed.Client == "" || t.only != nil || t.carried() > 0 || t.msg.Prompt.Loose == bus.LooseMedia {
		return
	}
	depth := int32(0)
	for _, a := range n.roster {
		if a.joined && n.usable(t, a) {
			depth = max(depth, a.belief.Depth(&t.msg.Prompt))
		}
	}
	if depth == 0 {
		return
	}
	mark := t.msg.Prompt.Marks[depth-1].Hash
	u, _ := s.uses.get(mark)
	if span := n.nano / int64(n.cfg.Seed.Within); span != u.span {
		if u.before = 0; span == u.span+1 {
			u.before = u.now
		}
		u.span, u.now = span, 0
	}
	u.now++
	s.uses.put(mark, u)
	s.asked, s.at = t, depth
}

// sow puts the text that the last task began with on an idle agent, if that is expected to save more than it
// costs. It reports whether there is a task more.
func (n *Node) sow() bool {
	s := &n.seeds
	t := s.asked
	s.asked = nil
	if t == nil || t.msg == nil || len(t.msg.Body) == 0 || n.waiting > 0 || n.draining || n.full || n.stale ||
		n.nano < s.next || s.under != nil && s.under.state != done {
		return false
	}
	p := &t.msg.Prompt
	u, _ := s.uses.get(p.Marks[s.at-1].Hash)
	for _, a := range n.roster {
		if a.free(n) == 0 || len(a.holds) > 0 || !n.usable(t, a) || a.belief.Depth(p) >= s.at {
			continue
		}
		others := 0
		for _, b := range n.roster {
			if b.joined && b.reg.Model == a.reg.Model {
				others++
			}
		}
		// what dialogues that begin alike would save here, if all agents had an equal share of them
		expected := max(u.now, u.before) / others
		if seed := n.seed(t, a, expected); seed != nil {
			s.under, s.next = seed, n.at(n.cfg.Seed.Every)
			return true
		}
	}
	return false
}

// seed is a task that has an agent compute the prompt of another; nil if so many uses of what they begin with
// save less than it costs, or the client that pays for it is at a limit.
func (n *Node) seed(of *task, a *agent, expected int) *task {
	s := &n.seeds
	m := *of.msg
	m.Client, m.ID = n.cfg.Seed.Client, fmt.Sprintf("seed-%d-%d", n.epoch, s.made)
	m.Session, m.Turn, m.Role, m.Source, m.Run, m.Reply, m.Inbox = "", 0, "", "", "", "", ""
	m.Attempt, m.Failover, m.MaxTokens, m.Model, m.Terms = 0, "off", 1, a.reg.Model, bus.Terms{}
	key := taskKey{m.Client, m.ID}
	t := &task{key: key, id: market.TaskID(m.Client + "/" + m.ID), digest: contentDigest(&m), arrived: n.now,
		deadline: n.now.Add(n.cfg.FundsWait), only: a, terms: market.Terms{Worth: 1, Delta: 1, Patience: 1}}
	t.timer.owner = t
	n.read(t, &m)
	q := *n.quoted(t, a, 0)
	cost, worst := q.cost+n.cfg.Fee, q.worst+n.cfg.Fee
	n.unquote(t) // which was by a worth of nothing
	shared := int(int64(q.prompt) * int64(m.Prompt.Marks[s.at-1].Bytes) / int64(max(1, m.Prompt.Bytes)))
	saved, ok := market.Price{Miss: max(0, a.price.Miss-a.price.Hit)}.Cost(market.Usage{Prompt: shared}).
		Mul(int64(expected))
	if !ok || saved <= cost || n.judgeRoom(t) != nil {
		return nil
	}
	// It pays cost and fee: its round is its alone, and no slot has a price. The hold has to cover the worst.
	worth := math.Ceil(2 * float64(worst) / max(0.01, a.quality(m.Domain)))
	t.terms.Worth = market.Credits(min(worth, float64(market.MaxWorth)))
	need, r := n.survey(t)
	if r != nil {
		return nil
	}
	s.made++
	n.known[key] = t
	n.openPurse(key.client)
	n.fund(t, need)
	return t
}

// alone keeps what the hub seeds out of rounds of others, where it would have a part in their prices: it
// goes.
func (n *Node) alone() {
	t := n.seeds.under
	if t != nil && t.state == waiting && (n.waiting > 1 || len(t.only.holds) > 0) {
		n.end(t, n.refusal(t.msg, bus.CodeNoRoom, 0, "tasks of clients came: nothing is seeded beside them"))
	}
}
