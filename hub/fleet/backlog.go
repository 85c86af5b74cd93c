package fleet

import (
	"math/bits"
	"time"

	"souk/hub/estimate"
)

// Pace is an agent's learned speed.
type Pace interface {
	// Delay returns the time that a load adds to a first token.
	Delay(in estimate.Load) estimate.Delay
	// AtMost bounds the time to a first token after so many tokens of prompts; false: its rate is not known.
	AtMost(tokens int) (time.Duration, bool)
	// Token returns the time between tokens of an answer beside such a load; 0: none was seen.
	Token(in estimate.Load) time.Duration
	// SlowestITL is the slowest time between tokens that was seen lately; 0: none was.
	SlowestITL() time.Duration
	// SlowestToken returns the time between tokens that 99 in 100 answers keep, once enough were seen.
	SlowestToken(in estimate.Load) (token time.Duration, known bool)
}

// Keeps says what is learned of how fast the agent is.
func (a *Agent) Keeps(p Pace) { a.pace = p }

// Load returns an agent's load, by the hub's own dispatches; tasks that only the agent counts decode. A hub
// hears of first tokens only with completions, so until then it goes by its forecasts, for an engine that
// computes one prompt after the other. The rest of the prompt that is computed now is the mean of two
// estimates: by the time since the last first token, and by the time until the prompt's own is expected.
func (a *Agent) Load(now int64) (l estimate.Load) {
	began, until, head := a.last, int64(0), time.Duration(0)
	for i := range a.Runs {
		switch x := &a.Runs[i]; {
		case !x.queued:
			l.Decoding++
		case x.first <= now:
			l.Decoding++
			l.Resident += x.prompt
			began = max(began, x.first)
		default:
			if l.Waiting++; l.Waiting == 1 {
				head, began, until = x.work, max(began, x.sent), x.first-now
			}
			l.Left += x.work
		}
	}
	if l.Waiting > 0 {
		since := max(0, head-time.Duration(max(0, now-began)))
		l.Left += (since+min(head, time.Duration(until)))/2 - head
	}
	l.Decoding += a.stuck
	return l
}

// A first token that is late is looked for again after half as long as its prompt takes, within these.
const sooner, later = 20 * time.Millisecond, 2 * time.Second

// Said takes in how many tasks have no first token yet, by the agent's word. An agent computes prompts in the
// order in which they came: if fewer wait than was believed, the oldest have begun, and if more do, the
// latest of those that were believed to have begun have not, and all behind them are as late. Of what was
// dispatched since a moment nobody knows whether the agent had heard of it. What an agent says moves its own
// forecasts alone.
func (a *Agent) Said(now, before int64, prefills int) {
	waiting, fresh := 0, 0
	for i := range a.Runs {
		switch x := &a.Runs[i]; {
		case !x.queued:
		case x.sent >= before:
			fresh++
		case x.first > now:
			waiting++
		}
	}
	for i := range a.Runs {
		if x := &a.Runs[i]; x.queued && waiting > max(0, prefills) && x.sent < before && x.first > now {
			x.first = now
			waiting--
		}
	}
	late := int64(0)
	for i := len(a.Runs) - 1; i >= 0 && waiting+fresh < prefills; i-- {
		if x := &a.Runs[i]; x.queued && x.sent < before && x.first <= now {
			late = max(late, min(now-x.first, int64(later)))
			x.first = now + int64(min(max(x.work/2, sooner), later))
			waiting++
		}
	}
	for i := range a.Runs {
		if x := &a.Runs[i]; x.queued && x.first > now {
			x.first += late
		}
	}
}

// Backlog returns how much the agent's load delays the first token of a task that comes now, or as soon as it
// has a slot: in all, and by the prompts before it alone, which are computed meanwhile where a task waits for
// a slot.
func (a *Agent) Backlog(now int64) estimate.Delay {
	l := a.Load(now)
	if over := a.Running() - max(0, a.reg.Slots-1); over > 0 {
		l.Decoding = max(0, l.Decoding-over)
	}
	return a.pace.Delay(l)
}

// Besides counts the tasks beside one that comes, had the agent computed all prompts that it has in hand.
func (a *Agent) Besides() int { return min(a.Running(), max(0, a.sold-1)) }

// Nearly is a time with an eighth of itself rounded up, or half a millisecond.
func Nearly(d time.Duration) time.Duration {
	const least = 19 // bits of nanoseconds
	low := max(least, bits.Len64(uint64(max(0, d)))-4)
	mask := time.Duration(1)<<low - 1
	return (max(0, d) + mask) &^ mask
}

// Slowest is the time for a token that an answer of an agent is given: money is held for so long times
// max_tokens. It is what is assumed, or the slowest that the agent was seen to take, by its own word, which
// is believed up to four times what is assumed. An engine that is slower still is cut at the end of its
// hold's time: what was asked there is not charged, and the agent not paid.
func (r *Room[A]) Slowest(a *Agent) time.Duration {
	assumed := r.limits.SlowestITL
	return min(max(assumed, a.pace.SlowestITL()), 4*assumed)
}

// An agent whose rate is not known is given the time that is assumed for a token of an answer for so many of
// a prompt; and for no fewer than some thousands, as it may load its model first.
const promptTokens, leastPrompt = 25, 2500

// Within bounds how long an answer of an agent may take, and of that its first token. Its prompt and those
// sent before, whatever of them is cached, get several times what the agent is expected to need; and what is
// assumed, as long as its own rate is not known, or it was started again. Once two hundred answers of the
// agent were seen, tokens get the time that 99 in 100 would keep if all its slots had tasks such as this one.
// Where its operator gives the engine more time for a first event, it has that.
func (r *Room[A]) Within(a *Agent, prompt, maxTokens int) (first, all time.Duration) {
	token, beside, ahead := r.Slowest(a), max(0, a.reg.Slots-1), prompt
	for i := range a.Runs {
		if a.Runs[i].queued {
			ahead += a.Runs[i].prompt
		}
	}
	first, known := a.pace.AtMost(ahead)
	if !known || a.restarted {
		first = max(first, time.Duration(max(ahead, leastPrompt))*r.limits.SlowestITL/promptTokens)
	}
	first = min(max(first, time.Duration(a.reg.FirstMS)*time.Millisecond), time.Hour)
	full := estimate.Load{Decoding: beside, Resident: beside * (prompt + maxTokens)}
	if most := a.reg.KVTokens; most > 0 {
		full.Resident = min(full.Resident, most)
	}
	if seen, known := a.pace.SlowestToken(full); known {
		token = min(token, seen)
	}
	return first, first + time.Duration(maxTokens)*token
}
