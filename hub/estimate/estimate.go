// Package estimate has the values that the rooms of a hub hand to one another: of a task on an agent, of the
// agents at one moment, of those who wait. It has no rule: package forecast makes estimates, and rounds,
// quotes and holds read them.
package estimate

import (
	"time"

	"souk/market"
)

// Held is the number of tokens that a prompt is expected to have on an agent, and how many of these are
// expected in its cache.
type Held struct{ Tokens, Cached int }

// Estimate is a task's expected need, cost and quality on an agent of a class that holds so much of its
// prompt. It does not depend on the agent's load.
type Estimate struct {
	Prompt, Cached int // tokens of the prompt, with what it goes on with, and of these in the cache
	Output         int // tokens of the answer
	MaxTokens      int // of the answer, as the engine is told
	Most           int // tokens of the prompt that the worst case covers

	First   time.Duration // to the first token where nothing is in hand, by the line of the class alone
	Work    float64       // thousand tokens to compute before it
	Prefill time.Duration // to compute these

	Cost  market.Credits
	Floor market.Credits // what the prompt and the first token may cost: no hold has less room
	Worst market.Credits // the most that it can cost; without max_tokens, what it may take of an account

	Quality float64
}

// Need is the money that a task needs.
type Need struct {
	Wanted market.Credits // to be reserved: no outcome takes more
	Worst  market.Credits // of that, for an answer of the cheapest agent that is not cut short
	Least  market.Credits // for less no agent serves it
	Fixed  bool           // it is not to be lowered: an agent would be judged by what it was not paid for
	Until  time.Time      // after which the task is of no use
}

// Obstacle says why a task cannot go to an agent. The higher it is, the further the task came.
type Obstacle uint8

const (
	Elsewhere Obstacle = iota // the agent is not here, has failed the task, or the task is for another
	Parsers                   // it cannot tell how the answer goes on
	Model                     // it serves another model
	Media                     // it reads neither pictures nor sound
	Context                   // the prompt leaves no room for an answer
	Short                     // it would cut the answer, and another would not
	None
)

// Quote returns the quote for a first token after so long.
func (e *Estimate) Quote(first time.Duration) market.Quote {
	return market.Quote{TTFT: first, Cost: e.Cost, Quality: e.Quality}
}

// Value is the value at such a quote, lowered where no more than most can be held. A premium is at most value
// less cost, so the rest of the hold still covers the cost, and the prompt however long it turns out to be.
func (e *Estimate) Value(terms *market.Judged, first time.Duration, most market.Credits) market.Credits {
	return min(most-max(0, e.Floor-e.Cost), terms.Value(e.Quote(first)))
}

// Load is an agent's load when a task comes.
type Load struct {
	// of computing prompts that came before, until the last of them has a first token
	Left     time.Duration
	Waiting  int // tasks that have none
	Decoding int // tasks that have theirs
	Resident int // tokens of the prompts of these
}

// Delay is the time that an agent's load adds to a first token: in all, and by the prompts before it.
type Delay struct{ All, Queue time.Duration }
