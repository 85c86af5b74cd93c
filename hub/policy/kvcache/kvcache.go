// Package kvcache is the runtime policy kvcache as a hub runs it: what a client says that comes next is to be
// used again where it is. What an engine would give up of its cache by which role runs next, no engine can be
// told, so that part of the policy is the lab's.
package kvcache

import (
	"time"

	"souk/bus/bounded"
	"souk/bus/policy"
)

// KVCache is the policy. It has no opinion and no forecast.
type KVCache struct {
	policy.Silent
	sessions *bounded.Cache[policy.ID, policy.ID, served]
}

// served says which agent served a session's last turn.
type served struct {
	agent  policy.ID // 0: none was served
	tokens int       // of it that are there
	next   int64     // nanoseconds: it is said to come next, until then; 0: it is not
}

// hinted is within how long what comes next is expected.
const hinted = 30 * time.Second

// New remembers so many sessions.
func New(sessions int) *KVCache {
	return &KVCache{sessions: bounded.New[policy.ID, policy.ID, served](sessions, 0)}
}

// Observe implements policy.Policy.
func (k *KVCache) Observe(e policy.Event) {
	switch e.Kind {
	case policy.Arrived:
		if e.Session != 0 {
			x, _ := k.sessions.Add(e.Client, e.Session)
			x.next = 0
		}
	case policy.Served:
		if x := k.sessions.Get(e.Session); x != nil {
			x.agent, x.tokens = e.Agent, min(e.Usage.Prompt+e.Usage.Output, 1<<30)
		}
	case policy.Ended:
		k.sessions.Drop(e.Session)
	case policy.Next:
		if x := k.sessions.Peek(e.Session); x != nil && x.agent != 0 && e.Session != e.Parent {
			x.next = e.At.Add(hinted).UnixNano()
		}
	}
}

// Act implements policy.Policy: what is said to come next is used again where it is, once.
func (k *KVCache) Act(now time.Time, r policy.Room, to []policy.Effect) []policy.Effect {
	tokens := r.Tokens
	for key, x := range k.sessions.All() {
		if len(to) >= r.Effects || !r.Work.Take(1) {
			break
		}
		if now.UnixNano() < x.next && x.tokens > 0 && x.tokens <= tokens {
			tokens -= x.tokens
			to = append(to, policy.Effect{Kind: policy.KeepAlive, Agent: x.agent, Session: key,
				Tokens: x.tokens, Until: now.Add(hinted)})
		}
		x.next = 0
	}
	return to
}
