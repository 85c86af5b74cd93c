// Package ahead is the runtime policy ahead: after a turn that reasoned, on an engine whose template leaves
// reasoning out of later prompts, it has prompt and answer computed as the next prompt will have them. What
// such an engine holds of the answer follows its reasoning, so nobody will find it.
package ahead

import (
	"time"

	"souk/bus/bounded"
	"souk/bus/policy"
)

// Ahead is the policy. It has no opinion and no forecast.
type Ahead struct {
	policy.Silent
	// that have ended, and of which nothing was said yet, by session
	turns *bounded.Cache[policy.ID, policy.ID, turn]
}

// turn is a turn that has ended.
type turn struct {
	agent  policy.ID
	tokens int           // of prompt and answer, as the next prompt has them
	until  time.Duration // since 1970: later it is not worth it
}

// expects bounds the expected pause before a session's next turn: for those that come later others' texts
// would be pushed out for long.
const expects = 30 * time.Second

// New remembers so many turns.
func New(turns int) *Ahead {
	return &Ahead{turns: bounded.New[policy.ID, policy.ID, turn](turns, 0)}
}

// Observe implements policy.Policy.
func (a *Ahead) Observe(e policy.Event) {
	switch e.Kind {
	case policy.Served:
		a.turns.Drop(e.Session)
		if e.Session == 0 || e.Thought <= 0 || e.Stop == policy.StopCut || e.Usage.Output <= e.Thought {
			return // all of it is held as it will be asked for, or there is nothing more than the prompt
		}
		t, _ := a.turns.Add(e.Client, e.Session)
		*t = turn{e.Agent, e.Usage.Prompt + e.Usage.Output - e.Thought,
			time.Duration(e.At.UnixNano()) + expects}
	case policy.Arrived, policy.Failed, policy.Ended:
		a.turns.Drop(e.Session)
	}
}

// Act implements policy.Policy: each turn once.
func (a *Ahead) Act(now time.Time, r policy.Room, to []policy.Effect) []policy.Effect {
	tokens, from := r.Tokens, len(to)
	for key, t := range a.turns.All() {
		if len(to)-from >= r.Effects || !r.Work.Take(1) {
			break
		}
		if until := time.Unix(0, int64(t.until)); now.Before(until) && t.tokens <= tokens {
			tokens -= t.tokens
			to = append(to, policy.Effect{Kind: policy.Warm, Agent: t.agent, Session: key, Tokens: t.tokens,
				Until: until})
		}
		a.turns.Drop(key)
	}
	return to
}
