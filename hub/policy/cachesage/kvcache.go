package cachesage

import (
	"time"

	"souk/bus/bounded"
	"souk/bus/policy"
)

// KVCache is the runtime policy kvcache: it scores what engines hold by what a [Sage] has learned, says which
// role comes next, and wants used again what a client says that comes next. It has no other wish.
type KVCache struct {
	sage *Sage
	next *bounded.Cache[policy.ID, policy.ID, hint] // by session
	from int                                        // where Act goes on
}

// hint is a session that is said to come next.
type hint struct{ until time.Duration }

const (
	mostHints = 1024
	// what comes next is expected within so long
	hinted = 30 * time.Second
)

// NewKVCache remembers so many sessions.
func NewKVCache(p Params, sessions int) *KVCache {
	return &KVCache{sage: New(p, sessions), next: bounded.New[policy.ID, policy.ID, hint](mostHints, 0)}
}

// Observe implements policy.Policy.
func (k *KVCache) Observe(e policy.Event) {
	k.sage.Observe(e)
	switch e.Kind {
	case policy.Arrived, policy.Ended:
		k.next.Drop(e.Session)
	case policy.Next:
		if e.Session != e.Parent && k.sage.served(e.Session) != nil {
			h, _ := k.next.Add(e.Client, e.Session)
			h.until = since(e.At) + hinted
		}
	}
}

// Score implements policy.Policy.
func (k *KVCache) Score(now time.Time, i policy.Item) float64 { return k.sage.Score(now, i, 0) }

// Predict implements policy.Policy: of the sessions whose turns ended last.
func (k *KVCache) Predict(now time.Time, within time.Duration, to []policy.Forecast) []policy.Forecast {
	from, room := len(to), cap(to)-len(to)
	for key, x := range k.sage.sessions.All() {
		if len(to)-from >= max(room, 64) {
			break
		}
		if x.agent == 0 {
			continue
		}
		at := len(to)
		to = k.sage.Predict(now, key, to)
		for i := at; i < len(to); i++ {
			to[i].Agent, to[i].Within = x.agent, within
		}
	}
	return to
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
		p := k.sage.served(key)
		if p != nil && since(now) < h.until && p.tokens > 0 && int(p.tokens) <= tokens {
			tokens -= int(p.tokens)
			to = append(to, policy.Effect{Kind: policy.Touch, Agent: p.agent, Session: key,
				Tokens: int(p.tokens), Until: now.Add(hinted), Why: policy.ByHint})
		}
		k.next.Drop(key)
	}
	return to
}
