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
	next     *bounded.Cache[policy.ID, policy.ID, hint] // by session
	from     int                                        // where Act goes on
}

// served says which agent served a session's last turn.
type served struct {
	agent  policy.ID // 0: none was served
	tokens int       // of it that are there
}

// hint is a session that is said to come next.
type hint struct{ until time.Time }

const (
	mostHints = 1024
	// what comes next is expected within so long
	hinted = 30 * time.Second
)

// New remembers so many sessions.
func New(sessions int) *KVCache {
	return &KVCache{sessions: bounded.New[policy.ID, policy.ID, served](sessions, 0),
		next: bounded.New[policy.ID, policy.ID, hint](mostHints, 0)}
}

// Observe implements policy.Policy.
func (k *KVCache) Observe(e policy.Event) {
	switch e.Kind {
	case policy.Arrived:
		if e.Session != 0 {
			k.sessions.Add(e.Client, e.Session)
		}
		k.next.Drop(e.Session)
	case policy.Served:
		if x := k.sessions.Get(e.Session); x != nil {
			*x = served{e.Agent, min(e.Usage.Prompt+e.Usage.Output, 1<<30)}
		}
	case policy.Ended:
		k.sessions.Drop(e.Session)
		k.next.Drop(e.Session)
	case policy.Next:
		if x := k.sessions.Peek(e.Session); x != nil && x.agent != 0 && e.Session != e.Parent {
			h, _ := k.next.Add(e.Client, e.Session)
			h.until = e.At.Add(hinted)
		}
	}
}

// Act implements policy.Policy: what is said to come next is used again where it is, once.
func (k *KVCache) Act(now time.Time, r policy.Room, to []policy.Effect) []policy.Effect {
	tokens := r.Tokens
	for looked := 0; looked < k.next.Places() && len(to) < r.Effects && r.Work.Take(1); looked++ {
		if k.from++; k.from >= k.next.Places() {
			k.from = 0
		}
		key, h := k.next.At(k.from)
		if h == nil {
			continue
		}
		x := k.sessions.Peek(key)
		if x != nil && now.Before(h.until) && x.tokens > 0 && x.tokens <= tokens {
			tokens -= x.tokens
			to = append(to, policy.Effect{Kind: policy.KeepAlive, Agent: x.agent, Session: key,
				Tokens: x.tokens, Until: now.Add(hinted)})
		}
		k.next.Drop(key)
	}
	return to
}
