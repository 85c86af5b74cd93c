package hub

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"souk/bus"
	"souk/bus/likeness"
	"souk/hub/quality"
)

// A hub may find out by itself how good answers are. A few tasks are asked again of two other agents
// (shadow), and what the three say is compared: whoever two others contradict loses by it. And agents are
// asked what the operator knows the answer of (canary). Which task or question, and which agents, is drawn by
// the hub's seed before any bid is read; it is sent where nothing runs, while nobody waits and half of all
// slots are free, in a round of its own, and the hub's own client pays. So no price and no award of others is
// of it. A text goes to no agent that its task could not have gone to. What an agent answered comes back as a
// sketch of its words.

// Canary is a question of the operator's.
type Canary struct {
	Task   bus.Task // as a door reads it
	Answer string   // that any good answer has all words of
}

const (
	// exploreWait is how long a task that is to be asked again waits for agents that have nothing to do
	exploreWait   = time.Minute
	exploreAtOnce = 8   // tasks that wait so, at most, with their texts
	exploreOutput = 256 // tokens of an answer that is compared, at most
)

// explores is what a hub knows of such tasks.
type explores struct {
	key      uint64 // what is drawn by
	drawn    uint64
	shadows  []*shadow
	canaries []Canary
	next     int64 // by Node.nano: when the next may be sent
	question int64 // the same, of a canary
	under    *exploring
}

// exploring is what was sent last.
type exploring struct {
	task   *task
	shadow *shadow // nil: a canary
	canary *Canary
	domain string
}

// shadow is a task that is asked again.
type shadow struct {
	of       *task // what it says of where it may go; its msg is its own
	key      uint64
	domain   string
	agents   []string // that have answered
	owners   []string
	sketches [3]likeness.Sketch
	until    int64
}

// SetCanaries says what the operator knows the answers of.
func (n *Node) SetCanaries(all []Canary) { n.explore.canaries = slices.Clone(all) }

// newExplores draws by a key of its own, so that what is drawn moves no other secret of the hub.
func newExplores(seed [32]byte) explores { return explores{key: secretOf(seed, "explore")} }

// secretOf is a number by a hub's seed, for one use.
func secretOf(seed [32]byte, use string) uint64 {
	sum := sha256.Sum256(append([]byte(use), seed[:]...))
	return binary.LittleEndian.Uint64(sum[:])
}

// draw is a number from 0 to 1 by the hub's seed, and the bits that it was made of.
func (x *explores) draw(of string) (float64, uint64) {
	var d xxhash.Digest
	d.ResetWithSeed(x.key)
	_, _ = d.WriteString(of)
	bits := d.Sum64()
	return float64(bits>>11) / (1 << 53), bits
}

// draws decides whether a task that comes is asked again once it was answered.
func (n *Node) draws(t *task) {
	if n.cfg.Quality.Shadow <= 0 || t.only != nil || t.msg.Failover == "off" ||
		t.msg.Prompt.Loose == bus.LooseMedia || t.carried() > 0 {
		return
	}
	if at, bits := n.explore.draw(string(t.id)); at < n.cfg.Quality.Shadow {
		t.sketch = bits | 1
	}
}

// explored takes in an answer that was sketched: it is asked again, or compared.
func (n *Node) explored(h *hold, c *bus.Completion) {
	t, x := h.task, &n.explore
	if t.sketch == 0 || t.msg == nil {
		return
	}
	sketch := likeness.Sketch(c.Sketch)
	good := c.Outcome == bus.OutcomeDone && c.Finish == "stop" && len(sketch) > 0 && sketch.Valid() &&
		h.rec.Boot == h.agent.reg.Boot
	switch u := x.under; {
	case t.only == nil:
		if good && c.Usage.Output <= exploreOutput && len(t.msg.Body) > 0 && len(x.shadows) < exploreAtOnce &&
			len(t.domain) > 0 {
			m := *t.msg
			s := &shadow{of: &task{msg: &m, media: t.media, failedAt: slices.Clone(t.failedAt)},
				key: t.sketch, domain: t.domain, until: n.at(exploreWait)}
			s.heard(h.agent, sketch)
			x.shadows = append(x.shadows, s)
		}
	case u == nil || u.task != t:
	case u.canary != nil:
		n.answered(h, c, u, sketch)
	case !good: // its owner is not paid for another such answer to the same task
		u.shadow.owners = append(u.shadow.owners, h.agent.owner)
	default:
		if s := u.shadow; s.heard(h.agent, sketch) {
			n.vote(s)
			x.shadows = slices.DeleteFunc(x.shadows, func(o *shadow) bool { return o == s })
		}
	}
}

// answered judges the answer to a canary. One without a sketch, or with one that no answer of its length has,
// is none: else whoever does not know would say nothing of it. One that the question's own bound cut short
// may have been about to say it.
func (n *Node) answered(h *hold, c *bus.Completion, u *exploring, sketch likeness.Sketch) {
	if c.Outcome != bus.OutcomeDone || h.rec.Boot != h.agent.reg.Boot {
		return
	}
	has, ok := false, true
	if len(sketch) > 0 && sketch.Of(c.Usage.Output) {
		has, ok = sketch.Has(likeness.NewSketch(u.canary.Answer, u.task.sketch))
		ok = ok && (has || c.Finish != "length" || c.Usage.Output < h.rec.MaxTokens)
	}
	share := 0.0
	if has {
		share = 1
	}
	if ok {
		n.judge(h.agent, u.domain, quality.Canary, share)
	}
}

// heard takes in an agent's answer. It reports whether there are three.
func (s *shadow) heard(a *agent, sketch likeness.Sketch) bool {
	s.sketches[len(s.agents)] = sketch
	s.agents, s.owners = append(s.agents, a.id), append(s.owners, a.owner)
	return len(s.agents) == len(s.sketches)
}

// vote has three answers to one task judge each other.
func (n *Node) vote(s *shadow) {
	votes, ok := likeness.Votes(s.sketches)
	if !ok {
		return
	}
	for i, id := range s.agents {
		if a := n.lookup(id); a != nil {
			n.judge(a, s.domain, quality.Shadow, votes[i])
		}
	}
}

// judge takes in what a source says of an agent's answer in a domain, or in the one that it joined by where
// it is registered for no such.
func (n *Node) judge(a *agent, domain string, of quality.Source, share float64) {
	i := a.domain(domain)
	if i < 0 {
		return
	}
	if s := a.answers.In(a.reg.Domains[i].Domain); s != nil {
		s.Judge(of, share)
		n.rate(a)
	}
}

// roam sends a task that is asked again, or a canary, to an agent that has nothing to do. It reports whether
// there is a task more.
func (n *Node) roam() bool {
	x := &n.explore
	if n.cfg.Quality.Shadow == 0 && n.cfg.Quality.Canaries == 0 {
		return false
	}
	x.shadows = slices.DeleteFunc(x.shadows, func(s *shadow) bool { return n.nano >= s.until })
	asks := n.cfg.Quality.Canaries > 0 && len(x.canaries) > 0 && n.nano >= x.question
	if len(x.shadows) == 0 && !asks || n.nano < x.next || !n.idle() {
		return false
	}
	x.next = n.at(n.cfg.Quality.Every)
	if asks {
		x.question = n.at(n.cfg.Quality.Canaries)
		at, bits := n.lot()
		c := &x.canaries[int(at*float64(len(x.canaries)))]
		m := c.Task
		if a := n.anyone(&task{msg: &m, media: m.Prompt.Loose == bus.LooseMedia}, nil); a != nil {
			return n.roamTo(a, &m, bits|1, &exploring{canary: c, domain: m.Domain})
		}
	}
	for _, s := range x.shadows {
		if a := n.anyone(s.of, s.owners); a != nil {
			m := *s.of.msg
			m.MaxTokens = min(m.MaxTokens, 2*exploreOutput)
			return n.roamTo(a, &m, s.key, &exploring{shadow: s})
		}
	}
	return false
}

// idle reports whether nobody is in the way: nobody waits, no task of the hub's own runs, and half of all
// slots are free.
func (n *Node) idle() bool {
	if n.waiting > 0 || n.draining || n.full || n.doubt != "" ||
		n.seeds.under != nil && n.seeds.under.state != done {
		return false
	}
	slots, free := 0, 0
	for _, a := range n.roster {
		if a.joined {
			slots, free = slots+a.slots, free+a.free(n)
		}
	}
	return 2*free >= slots
}

// lot draws anew.
func (n *Node) lot() (float64, uint64) {
	n.explore.drawn++
	return n.explore.draw(fmt.Sprint("lot ", n.epoch, n.explore.drawn))
}

// anyone draws an agent that has nothing to do and that a task could have gone to, of an owner that is none
// of these, and that does not ask too much; nil if there is none.
func (n *Node) anyone(t *task, owners []string) *agent {
	var all []*agent
	for _, a := range n.roster {
		if a.free(n) > 0 && len(a.holds) == 0 && !slices.Contains(owners, a.owner) && n.usable(t, a) &&
			n.fair(a, t.msg.Prompt.Tokens, t.msg.MaxTokens) {
			all = append(all, a)
		}
	}
	if len(all) == 0 {
		return nil
	}
	at, _ := n.lot()
	return all[int(at*float64(len(all)))]
}

// roamTo sends it.
func (n *Node) roamTo(a *agent, m *bus.Task, key uint64, u *exploring) bool {
	t, q := n.ownTask(*m, "explore", m.MaxTokens, a)
	t.sketch = key
	if !n.afford(t, &q) {
		return false
	}
	u.task, n.explore.under, n.seeds.under = t, u, t
	// or less, once it has a slot: an empty purse is not asked all the time
	n.explore.next = n.at(exploreWait)
	return true
}
