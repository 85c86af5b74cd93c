package quality

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"souk/bus"
)

// Judging says whose word counts for how good an agent's answers are, beside the score that it registers. All
// of it is heard after an answer has ended, and moves quotes of later tasks alone.
type Judging struct {
	Gold     bool `yaml:"gold"`     // of judges, by reference answers
	Feedback bool `yaml:"feedback"` // of clients
	// clients whose word of a reference answer (gold, in a feedback) is believed; of others it is a feedback
	Judges []string `yaml:"judges"`
}

// Default listens to all.
func Default() Judging { return Judging{Gold: true, Feedback: true} }

// mostJudges bounds who may be named as judges.
const mostJudges = 64

// Validate judges a configuration and changes nothing. It names every field that is wrong.
func (j Judging) Validate() error {
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

// Quality moves from the registered score in steps: agents that are nearly as good are quoted alike,
// and one judgement of many makes no new quotes.
const step = 1.0 / 128

// Standing is an agent's expected quality, by the domains of its registration and judged answers.
type Standing struct {
	Said    Agent // of its answers
	domains []bus.DomainScore
	rated   []float64 // by domain
	text    string
}

// Register takes in what the agent is registered for.
func (s *Standing) Register(domains []bus.DomainScore) { s.domains, s.rated = domains, nil }

// Rate finds out how good answers are expected to be from now on, and reports whether that has changed.
func (s *Standing) Rate(j Judging) (changed bool) {
	if changed = len(s.rated) != len(s.domains); changed {
		s.rated = make([]float64, len(s.domains))
	}
	for i, d := range s.domains {
		q := d.Score
		if x := s.Said[d.Domain]; x != nil {
			if learned := x.Q(d.Score, j.Gold, j.Feedback); math.Abs(learned-d.Score) > step/2 {
				q = math.Round(learned/step) * step
			}
		}
		changed = changed || q != s.rated[i]
		s.rated[i] = q
	}
	if changed {
		s.text = fmt.Sprint(s.domains, s.rated)
	}
	return changed
}

// Rated returns the expected quality by registered domain, and that as text.
func (s *Standing) Rated() (by []float64, text string) { return s.rated, s.text }

// Served takes in a task of a domain that was paid by a client. It returns the domain that the answer is
// judged in; "": in none.
func (s *Standing) Served(label, client string, cost float64) (domain string) {
	i := DomainOf(s.domains, label)
	if i < 0 {
		return ""
	}
	x := s.Said.In(s.domains[i].Domain)
	if x == nil {
		return ""
	}
	x.Paid(client, cost)
	return s.domains[i].Domain
}

// Judge takes in a client's word of an answer that was judged in a domain.
func (s *Standing) Judge(j Judging, domain string, f *bus.Feedback) {
	x := s.Said[domain]
	switch {
	case x == nil:
	case f.Gold && slices.Contains(j.Judges, f.Client):
		x.Judge(f.Quality)
	default:
		x.Say(f.Client, f.Quality)
	}
}

// Scored is an agent's expected quality in a domain, with its sources.
type Scored struct {
	Domain     string
	Registered float64
	Quality    float64 // as quotes have it
	Heard      []Heard
}

// Scored lists it by registered domain.
func (s *Standing) Scored() (list []Scored) {
	for i, d := range s.domains {
		x := Scored{Domain: d.Domain, Registered: d.Score, Quality: s.rated[i]}
		if said := s.Said[d.Domain]; said != nil {
			x.Heard = said.Heard()
		}
		list = append(list, x)
	}
	return list
}

// DomainOf returns the index of the agent's domain for a task: that of its label if there is one, else the
// one that the agent joined by; -1 if it has none.
func DomainOf(domains []bus.DomainScore, label string) int {
	i := slices.IndexFunc(domains, func(d bus.DomainScore) bool { return d.Domain == label })
	if i < 0 && len(domains) > 0 {
		return 0
	}
	return i
}
