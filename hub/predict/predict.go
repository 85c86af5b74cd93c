// Package predict expects what a task will need on an agent: how long to its first token, how many tokens
// in and out.
package predict

import "time"

// Features is what is known of a task on an agent before it runs.
type Features struct {
	Prompt    int // prompt tokens as the door estimated them
	Cached    int // of the expected prompt, believed to be in the agent's cache; 0 where not yet asked
	MaxTokens int // the most it may answer
	Turn      int
	InFlight  int // tasks that this hub has running on the agent
	Slots     int // of the agent
}

// Forecast is what a task is expected to need.
type Forecast struct {
	TTFT   time.Duration // from dispatch to the first token
	Output int           // tokens, 0 to MaxTokens
}

// Observation is how it went.
type Observation struct {
	Prompt, Cached, Output int  // as the engine reported
	NoCacheReport          bool // Cached means nothing
	// cancelled or broken off: Output says nothing of how long such answers are
	Cut       bool
	TTFT, ITL time.Duration // 0: not measured
}

// Predictor learns one agent. Forecasts depend on nothing but what it was made with and what it was taught,
// in that order, so that the same history gives the same round. Not for concurrent use.
type Predictor interface {
	// Tokens expects how many tokens the agent counts in a prompt that the door estimated at so many.
	Tokens(estimate int) int
	Forecast(f Features) Forecast
	Learn(f Features, o Observation)
	// Hint gives the mean TTFT that the agent says of itself; it counts until something was measured.
	Hint(ttft time.Duration)
	// SlowestITL is the slowest time between tokens seen lately: it bounds how long an answer may take.
	SlowestITL() time.Duration
	// ITL is the mean time between tokens; 0 while none was measured.
	ITL() time.Duration
}
