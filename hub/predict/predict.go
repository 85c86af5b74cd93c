// Package predict expects what a task needs on an agent: how long to its first token, tokens in and out.
package predict

import (
	"time"

	"souk/hub/estimate"
)

// What an agent has in hand, and by how much that delays a first token.
type (
	Load  = estimate.Load
	Delay = estimate.Delay
)

// Features describes a task on an agent before it runs.
type Features struct {
	Prompt    int  // prompt tokens as the door estimated them
	Counted   int  // of the whole prompt, where more is known than that; 0: no more is
	Cached    int  // of the expected prompt, believed to be in the agent's cache; 0 where not yet asked
	MaxTokens int  // the most it may answer
	Open      bool // nobody named that: it says nothing of how long an answer is
	Answer    int  // tokens that its answer is expected to have, by whose it is; 0: that is not known
	Load           // of these, as it is believed to be
}

// Forecast is a task's expected need.
type Forecast struct {
	TTFT   time.Duration // from dispatch to the first token
	Output int           // tokens, 0 to MaxTokens
	// nine tenths of the answers of late came within so much of what was forecast
	Low, High time.Duration

	wide bool // the interval is of no known width
}

// Observation is a task's measured outcome.
type Observation struct {
	Prompt, Cached, Output int  // as the engine reported
	NoCacheReport          bool // Cached means nothing
	// cancelled or broken off: Output says nothing of how long such answers are
	Cut       bool
	TTFT, ITL time.Duration // 0: not measured
	// Asked by a hub to learn, of an engine with nothing else to do: it counts half, and lowers no forecast
	// until a client's task was answered.
	WarmUp bool
	Said   Forecast // when it was dispatched; nothing: what is forecast now
}
