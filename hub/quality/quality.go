// Package quality learns how good an agent's answers are, in each domain, from what others say of them.
//
// Two sources say something, and each is kept apart:
//
//	gold      answers that were compared with a reference, by who the operator trusts with that
//	feedback  clients' judgements of answers that they paid for
//
// With s the registered score, which counts as Prior answers, m the mean of what a source said, and w what
// that counts,
//
//	Q = (Prior*s + sum of w*m) / (Prior + sum of w)
//
// What a source said fades, so w has a bound. Q is from 0 to 1, and no better judgement lowers it.
//
// Of feedback one client has at most one part of as many as there are clients, and at most its part of what
// was paid: what many names of one account say counts no more than what that account pays for.
package quality

import (
	"cmp"
	"slices"
)

const (
	// Prior is the number of answers as which the registered score counts.
	Prior = 20

	voicesKept  = 64
	domainsKept = 64
	// paidKept is after how many paid answers what a client paid and said counts a third
	paidKept = 1000
)

// How many answers a source counts for at most.
const (
	mostGold     = 200
	mostFeedback = Prior
)

// Score sums up the judgements of an agent's answers in one domain. The zero Score has heard nothing.
type Score struct {
	Gold   tally
	Voices []voice // by client
	Said   uint64  // by clients, in all
}

// tally is a mean of what was said of late.
type tally struct {
	Weight, Sum float64
	Count       uint64 // in all
}

// voice is a client that paid for answers.
type voice struct {
	Client      string
	Paid        float64
	Weight, Sum float64 // of its judgements
}

// Judge takes in a judgement, from 0 to 1, by a reference answer.
func (s *Score) Judge(share float64) {
	const keep = 1 - 1.0/mostGold
	s.Gold.Weight = float64(s.Gold.Weight*keep) + 1
	s.Gold.Sum = float64(s.Gold.Sum*keep) + share
	s.Gold.Count++
}

// Paid takes in that a client has paid for an answer.
func (s *Score) Paid(client string, cost float64) {
	for i := range s.Voices {
		v := &s.Voices[i]
		v.Paid, v.Weight = float64(v.Paid*paidKeep), float64(v.Weight*paidKeep)
		v.Sum = float64(v.Sum * paidKeep)
	}
	i, ok := s.find(client)
	if !ok {
		if len(s.Voices) >= voicesKept {
			least := 0
			for k := range s.Voices {
				if s.Voices[k].Paid < s.Voices[least].Paid {
					least = k
				}
			}
			s.Voices = slices.Delete(s.Voices, least, least+1)
			i, _ = s.find(client)
		}
		s.Voices = slices.Insert(s.Voices, i, voice{Client: client})
	}
	s.Voices[i].Paid += cost
}

const paidKeep = 1 - 1.0/paidKept

func (s *Score) find(client string) (int, bool) {
	return slices.BinarySearchFunc(s.Voices, client,
		func(v voice, id string) int { return cmp.Compare(v.Client, id) })
}

// Say takes in what a client says of one answer that it paid for. It reports whether that counts: it does not
// where so much was paid by others since that nothing is known of the client here any more.
func (s *Score) Say(client string, share float64) bool {
	i, ok := s.find(client)
	if ok {
		v := &s.Voices[i]
		v.Weight, v.Sum = v.Weight+1, v.Sum+share
		s.Said++
	}
	return ok
}

// feedback returns the weight of clients' judgements together, and their weighted sum.
func (s *Score) feedback() (weight, sum float64) {
	if s.Said == 0 {
		return 0, 0
	}
	total := 0.0
	for i := range s.Voices {
		total += s.Voices[i].Paid
	}
	// A client that pays less than half of what clients pay on the mean is not counted as one, or many of
	// next to nothing would leave the others next to no part.
	clients, least := 0, total/float64(2*max(1, len(s.Voices)))
	for i := range s.Voices {
		if s.Voices[i].Paid >= least {
			clients++
		}
	}
	for i := range s.Voices {
		v := &s.Voices[i]
		if v.Weight <= 0 {
			continue
		}
		part := 1 / float64(max(1, clients))
		if total > 0 {
			part = min(part, v.Paid/total)
		}
		w := min(v.Weight, mostFeedback*part)
		weight += w
		sum += float64(w * (v.Sum / v.Weight))
	}
	return weight, sum
}

// Heard sums up one source's judgements.
type Heard struct {
	Source string
	Count  uint64  // judgements in all
	Weight float64 // what they count, in answers
	Mean   float64 // 0 to 1; 0 where Weight is 0
}

// Heard lists what the sources said that said anything, in their order.
func (s *Score) Heard() (list []Heard) {
	if g := &s.Gold; g.Weight > 0 {
		list = append(list, Heard{"gold", g.Count, g.Weight, g.Sum / g.Weight})
	}
	if weight, sum := s.feedback(); weight > 0 {
		list = append(list, Heard{"feedback", s.Said, weight, sum / weight})
	}
	return list
}

// Q returns the quality of answers, 0 to 1, given the registered score, by the sources in use.
func (s *Score) Q(registered float64, gold, feedback bool) float64 {
	weight, sum := float64(Prior), float64(Prior*registered)
	if gold {
		weight += s.Gold.Weight
		sum += s.Gold.Sum
	}
	if feedback {
		w, x := s.feedback()
		weight += w
		sum += x
	}
	if q := sum / weight; q > 0 {
		return min(1, q)
	}
	return 0
}

// Agent holds the judgements of an agent's answers, by domain.
type Agent map[string]*Score

// In returns the judgements in a domain; new ones where there were none, and nil beyond the limit.
func (a *Agent) In(domain string) *Score {
	s := (*a)[domain]
	if s == nil && len(*a) < domainsKept {
		if *a == nil {
			*a = Agent{}
		}
		s = new(Score)
		(*a)[domain] = s
	}
	return s
}
