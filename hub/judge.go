package hub

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"souk/bus"
	"souk/hub/quality"
	"souk/market"
)

// Judging says whose word counts for how good an agent's answers are, beside the score that it registers. All
// of it is heard after an answer has ended, and moves quotes of later tasks alone.
type Judging struct {
	Gold     bool `yaml:"gold"`     // of judges, by reference answers
	Format   bool `yaml:"format"`   // answers that break the form that they are asked for in
	Feedback bool `yaml:"feedback"` // of clients
	// clients whose word of a reference answer (gold, in a feedback) is believed; of others it is a feedback
	Judges []string `yaml:"judges"`
}

// DefaultJudging listens to all.
func DefaultJudging() Judging {
	return Judging{Gold: true, Format: true, Feedback: true}
}

// mostJudges bounds who may be named as judges.
const mostJudges = 64

func (j Judging) validate() error {
	var errs []error
	if len(j.Judges) > mostJudges {
		errs = append(errs, fmt.Errorf("judges: %d are named, at most %d may be", len(j.Judges), mostJudges))
	}
	for _, id := range j.Judges {
		if err := bus.CheckID("judges", id); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// uses are the sources that count.
func (j Judging) uses() (use [quality.Sources]bool) {
	use[quality.Gold], use[quality.Format], use[quality.Feedback] = j.Gold, j.Format, j.Feedback
	return use
}

// domain is which of the agent's domains a task is of: that of its own label if it has one, else the one that
// it joined by; -1: it is known from the journal or a file alone, and has not registered since.
func (a *agent) domain(label string) int {
	i := slices.IndexFunc(a.reg.Domains, func(d bus.DomainScore) bool { return d.Domain == label })
	if i < 0 && len(a.reg.Domains) > 0 {
		return 0
	}
	return i
}

// quality is how good the agent's answer to a task with such a label is expected to be.
func (a *agent) quality(label string) float64 {
	if i := a.domain(label); i >= 0 {
		return a.rated[i]
	}
	return 0
}

// ratedIn is in what steps quality moves from the registered score: agents that are nearly as good are quoted
// alike, and one judgement of many makes no new quotes.
const ratedIn = 1.0 / 128

// rate finds out how good the agent's answers are expected to be from now on.
func (n *Node) rate(a *agent) {
	use, changed := n.cfg.Quality.uses(), len(a.rated) != len(a.reg.Domains)
	if changed {
		a.rated = make([]float64, len(a.reg.Domains))
	}
	for i, d := range a.reg.Domains {
		q := d.Score
		if s := a.answers.Find(d.Domain); s != nil {
			if learned := s.Q(d.Score, use); math.Abs(learned-d.Score) > ratedIn/2 {
				q = math.Round(learned/ratedIn) * ratedIn
			}
		}
		changed = changed || q != a.rated[i]
		a.rated[i] = q
	}
	if changed {
		a.scores, a.kind = fmt.Sprint(a.reg.Domains, a.rated), nil
		n.news()
	}
}

// noteAnswer takes in an answer that was paid.
func (n *Node) noteAnswer(h *hold, c *bus.Completion, cost market.Credits) {
	t, a := h.task, h.agent
	if t.msg == nil || t.only != nil || h.rec.Boot != a.reg.Boot {
		return
	}
	i := a.domain(t.msg.Domain)
	if i < 0 {
		return
	}
	s := a.answers.In(a.reg.Domains[i].Domain)
	if s == nil {
		return
	}
	t.domain = a.reg.Domains[i].Domain
	s.Paid(t.key.client, float64(cost))
	if c.Outcome == bus.OutcomeDone {
		kept := 1.0
		if c.Form == bus.FormBroken {
			kept = 0
		}
		s.Judge(quality.Format, kept)
	}
	n.rate(a)
}

// judged takes a client's judgement of an answer.
func (n *Node) judged(m *bus.Feedback) error {
	t := n.known[taskKey{m.Client, m.Task}]
	if t == nil || t.final == nil || t.final.Agent == "" || t.final.Code != "" || !t.of(m.Sender) {
		return fmt.Errorf("feedback of %s on task %s, which was not served here lately", m.Client, m.Task)
	}
	if t.judged {
		return fmt.Errorf("feedback of %s on task %s, which was judged before", m.Client, m.Task)
	}
	t.judged = true
	stats := n.stats.agent(t.final.Agent)
	stats.Judged++
	stats.Quality += m.Quality
	a := n.lookup(t.final.Agent)
	if a == nil || a.reg.Model != t.final.Model || t.domain == "" {
		return nil // of what it was then nothing is left
	}
	s := a.answers.Find(t.domain)
	switch {
	case s == nil:
	case m.Gold && slices.Contains(n.cfg.Quality.Judges, m.Client):
		s.Judge(quality.Gold, m.Quality)
	default:
		s.Say(m.Client, m.Quality)
	}
	n.rate(a)
	return nil
}

// Scored is how good an agent's answers in a domain are expected to be, and who says so.
type Scored struct {
	Domain     string
	Registered float64
	Quality    float64 // as quotes have it
	Heard      []quality.Heard
}

// scored lists it.
func (a *agent) scored() (list []Scored) {
	for i, d := range a.reg.Domains {
		list = append(list, Scored{d.Domain, d.Score, a.rated[i], a.heard(i)})
	}
	return list
}

// heard is who says how good its answers in a domain are.
func (a *agent) heard(domain int) []quality.Heard {
	if s := a.answers.Find(a.reg.Domains[domain].Domain); s != nil {
		return s.Heard()
	}
	return nil
}
