package hub

import (
	"slices"
	"time"

	"souk/hub/predict"
)

// itlTimes is how much slower than the agents of its class an agent is believed to be.
const itlTimes = 4

// slowest is the time for a token that an answer of an agent is given: money is held for so long times
// max_tokens. It is the slowest that the agent was seen to take, by its own word; so it is at most itlTimes
// the median of what the other agents of its class take, or the prior where they are fast or there are none;
// and at most MaxITL, which is the bound on agents that lie together. An engine that is slower still is cut
// at the end of its hold's time: what was asked there is not charged, and the agent not paid.
func (n *Node) slowest(a *agent) time.Duration {
	own, prior := a.predictor.SlowestITL(), n.cfg.Prior.Slowest
	if own <= prior {
		return own
	}
	most := itlTimes * prior
	if own > most {
		most = max(most, itlTimes*n.medianITL(a))
	}
	return min(own, most, max(prior, n.cfg.MaxITL))
}

// answerWithin is how long an answer of an agent may take. Once the agent was seen to answer two hundred
// times, no more is given than one in a hundred would take if all its slots had tasks such as this one. Its
// own answers say so, and what others of its class take; nobody's word makes it longer.
func (n *Node) answerWithin(a *agent, q *quote) time.Duration {
	token, beside := n.slowest(a), max(0, a.slots-1)
	full := predict.Load{Decoding: beside, Resident: beside * (q.prompt + q.maxTokens)}
	if most := a.reg.KVTokens; most > 0 {
		full.Resident = min(full.Resident, most)
	}
	if seen, known := a.predictor.SlowestToken(full); known {
		token = min(token, seen)
	}
	return time.Duration(q.maxTokens) * token
}

// medianITL is the median of the mean times between tokens of the other agents of a class; 0 without any.
func (n *Node) medianITL(a *agent) time.Duration {
	var all []time.Duration
	for _, o := range n.roster {
		if itl := o.predictor.OwnITL(); o != a && o.joined && o.class == a.class && itl > 0 {
			all = append(all, itl)
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}
