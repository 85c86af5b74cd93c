package fleet

import (
	"math/bits"
	"slices"
	"time"

	"souk/hub/estimate"
)

// Pace is an agent's learned speed.
type Pace interface {
	// Delay returns the time that a load adds to a first token.
	Delay(in estimate.Load) estimate.Delay
	// SlowestITL is the slowest time between tokens that was seen lately, and OwnITL the mean; 0: none was.
	SlowestITL() time.Duration
	OwnITL() time.Duration
	// SlowestToken returns the time between tokens that 99 in 100 answers keep, once enough were seen.
	SlowestToken(in estimate.Load) (token time.Duration, known bool)
}

// Keeps says what is learned of how fast the agent is.
func (a *Agent) Keeps(p Pace) { a.pace = p }

// Load returns an agent's load, by the hub's own dispatches; tasks that only the agent counts decode.
func (a *Agent) Load(now int64) estimate.Load {
	l := a.queue.Load(now)
	l.Decoding += max(0, len(a.runs)-len(a.queue.jobs)) + a.stuck
	return l
}

// Backlog returns how much the agent's load delays the first token of a task that comes now, or as soon as it
// has a slot: in all, and by the prompts before it alone, which are computed meanwhile where a task waits for
// a slot. Nearly equal backlogs are rounded to equal ones, so that a task is quoted once on all such agents.
// An idle agent has none.
func (a *Agent) Backlog(now int64) estimate.Delay {
	l := a.Load(now)
	if over := a.Running() - max(0, a.reg.Slots-1); over > 0 {
		l.Decoding = max(0, l.Decoding-over)
	}
	if l == (estimate.Load{}) {
		return estimate.Delay{}
	}
	in := a.pace.Delay(l)
	return estimate.Delay{All: Nearly(in.All), Queue: Nearly(in.Queue)}
}

// Besides is the backlog had the agent computed all prompts that it has in hand.
func (a *Agent) Besides() estimate.Delay {
	running := min(a.Running(), max(0, a.reg.Slots-1))
	if running == 0 {
		return estimate.Delay{}
	}
	return estimate.Delay{All: Nearly(a.pace.Delay(estimate.Load{Decoding: running}).All)}
}

// Nearly is a time with an eighth of itself rounded up, or half a millisecond.
func Nearly(d time.Duration) time.Duration {
	const least = 19 // bits of nanoseconds
	low := max(least, bits.Len64(uint64(max(0, d)))-4)
	mask := time.Duration(1)<<low - 1
	return (max(0, d) + mask) &^ mask
}

const (
	// itlTimes bounds how much slower than the agents of its class an agent is believed to be.
	itlTimes = 4
	// mostITL is slower than anyone reads, whatever agents say.
	mostITL = time.Second
)

// Slowest is the time for a token that an answer of an agent is given: money is held for so long times
// max_tokens. It is the slowest that the agent was seen to take, by its own word, and no less than is
// assumed; so it is at most itlTimes the median of what the other agents of its class take, or what is
// assumed where they are fast or there are none; and at most mostITL, which is the bound on agents that lie
// together. An engine that is slower still is cut at the end of its hold's time: what was asked there is not
// charged, and the agent not paid.
func (r *Room[A]) Slowest(a *Agent) time.Duration {
	own, assumed := a.pace.SlowestITL(), r.limits.SlowestITL
	if own <= assumed {
		return assumed
	}
	most := itlTimes * assumed
	if own > most {
		most = max(most, itlTimes*r.medianITL(a))
	}
	return min(own, most, max(assumed, mostITL))
}

// Within bounds how long an answer of an agent may take. Once two hundred answers of the agent were seen, it
// is the time that 99 in 100 would keep if all its slots had tasks such as this one. It rests on the agent's
// own answers, and those of its class; nobody's word makes it longer.
func (r *Room[A]) Within(a *Agent, prompt, maxTokens int) time.Duration {
	token, beside := r.Slowest(a), max(0, a.reg.Slots-1)
	full := estimate.Load{Decoding: beside, Resident: beside * (prompt + maxTokens)}
	if most := a.reg.KVTokens; most > 0 {
		full.Resident = min(full.Resident, most)
	}
	if seen, known := a.pace.SlowestToken(full); known {
		token = min(token, seen)
	}
	return time.Duration(maxTokens) * token
}

// medianITL is the median of the mean times between tokens of the other agents of a class; 0 without any.
func (r *Room[A]) medianITL(a *Agent) time.Duration {
	var all []time.Duration
	for _, x := range r.all {
		o := x.self()
		if o != a && o.joined && o.seller.Class == a.seller.Class && o.pace.OwnITL() > 0 {
			all = append(all, o.pace.OwnITL())
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}
