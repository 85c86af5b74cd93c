package forecast

import (
	"cmp"
	"time"

	"souk/bus"
	"souk/hub/estimate"
	"souk/hub/predict"
	"souk/hub/prefix"
	"souk/market"
)

// Task holds what a task asks of an agent.
type Task struct {
	Prompt    *bus.Prompt
	Carried   int            // tokens of its answer that come from an agent that failed, and count as prompt
	MaxTokens int            // of its answer; 0: none is named, and it ends where its engine ends it
	Model     string         // "": any
	Kind      string         // of request
	Domain    string         // in which its answer is judged
	Media     bool           // its prompt has pictures or sound
	Parses    bool           // only who parses answers can tell how its answer goes on
	Usual     market.Credits // what a task usually costs
	Source    predict.Source // whose it is
	Held      prefix.Lookup  // of its prompt, by agents
	Only      *Agent         // that it is for, as the hub itself sends it; nil: any
	Failed    *[]string      // agents that have failed it, to be read; nil: none has
	Least     int            // context that an agent must have, as others have room for its answer: see Fit

	answer answer
}

// Open reports whether it names no max_tokens.
func (t *Task) Open() bool { return t.MaxTokens <= 0 }

// openContext is the context, in tokens, of an agent that does not report one.
const openContext = 1 << 17

// Assumed returns the limit of its answer in tokens, of which the prior assumes a share. For a task without a
// limit it is one that people usually name.
func (t *Task) Assumed() int {
	if t.Open() {
		return 1024
	}
	return t.MaxTokens
}

// Features returns a predictor's features for a task with such an estimate, without the load.
func (t *Task) Features(e *estimate.Estimate) predict.Features {
	return predict.Features{Prompt: t.Prompt.Tokens + t.Carried, Counted: e.Prompt, Cached: e.Cached,
		MaxTokens: e.MaxTokens, Open: t.Open(), Answer: e.Output}
}

// answer holds the expected length of the answer to a task.
type answer struct {
	until int64    // then it is asked anew
	n     int      // of these
	known [4]known // by what agents differ in
}

// known is an expected length where nothing is known of whose it is, and by that, in tokens.
type known struct{ usual, tokens int }

// answersEvery is how long the expected length of a waiting task's answer is kept: every answer changes it a
// little, and with it all estimates of all who wait.
const answersEvery = time.Second

// Answer returns the expected number of tokens of the answer, by the task's client, role and session. In a
// round it is the same whenever it is asked.
func (r *Room) Answer(now int64, t *Task, c *Class) int {
	x, usual := &t.answer, c.Line.Usual(t.Assumed())
	if now >= x.until {
		x.until, x.n = now+int64(answersEvery), 0
	}
	for _, k := range x.known[:x.n] {
		if k.usual == usual {
			return k.tokens
		}
	}
	tokens := min(r.Outputs.Expect(t.Source, usual), cmp.Or(t.MaxTokens, bus.MaxTokens))
	if x.n < len(x.known) {
		x.known[x.n] = known{usual, tokens}
		x.n++
	}
	return tokens
}
