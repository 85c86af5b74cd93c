package follow

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"souk/bus"
)

// Candidate is a process that wants the leadership of a key, which one process has at a time: the hub of a
// domain, or the market's treasury.
type Candidate struct {
	Registry bus.Registry
	Key      string
	Value    []byte // JSON, with the life as "life"
	TTL      time.Duration
	Who      string // what it is, in messages
	Life     string
	Ended    func(life string) (ended bool, why string) // of an earlier life of ours
	Moved    func() bool                                // its journal may be a copy, see ledger.Journal
	Asked    func(err error)                            // hears whether the registry answers; nil: nobody
	Log      *slog.Logger
	// for Lead alone: what speaks against the journal, and what a log says of one that is not elected
	Doubt func() Doubt
	Idle  string

	awaited atomic.Int64
	said    int64 // epoch of the leadership that was named last
	// why it gives way; when it did last, and whether it was contradicted then; why, until one leads
	gives        Doubt
	gave         time.Time
	contradicted bool
	pausing      atomic.Pointer[string]
}

// Awaited counts the leaderships that were waited for, since nothing proved that their holder had ended.
func (c *Candidate) Awaited() int64 { return c.awaited.Load() }

// evictAgain is the pause before a registry is asked again that did not answer.
const evictAgain = 200 * time.Millisecond

// giveWay is how long one that stands by on another journal, or on what may be a copy, leaves an ended
// leadership alone: who led, started again on the journal that knows its tasks, has it by then.
const giveWay = 500 * time.Millisecond

// Elect wins the election. A leadership of an earlier life is ended, where that life is proven to have ended,
// or is our own, which we have given up. Any other is waited for, which the log says in one line: one that
// was killed leaves a lease that ends by itself, and beside one that lives this one stands by.
func (c *Candidate) Elect(ctx context.Context) (bus.Leadership, error) {
	for ctx.Err() == nil {
		var h holder
		var epoch int64
		var why string
		evicted, err := Evict(ctx, c.Registry, c.Key, func(kv bus.KV) (ended bool) {
			epoch = kv.Create
			if h = holderOf(kv.Value); h.Life == c.Life && c.Life != "" {
				return true
			}
			ended, why = c.Ended(h.Life)
			return ended
		})
		if c.Asked != nil && ctx.Err() == nil {
			c.Asked(err)
		}
		if err != nil || why != "" { // one gives way no more where another leads
			c.pausing.Store(nil)
		}
		if err != nil {
			Pause(ctx, evictAgain)
			continue
		}
		switch {
		case evicted:
			c.Log.Info("the leadership of an earlier life of this "+c.Who+" is ended", "epoch", epoch)
		case why != "" && epoch != c.said:
			c.said = epoch
			c.Log.Info("standing by: another "+c.Who+" leads, and nothing proves that it has ended. If it has, its "+
				"lease ends by itself", "within", c.TTL, "why", why, "led_by", h.String(), "epoch", epoch)
			c.awaited.Add(1)
		}
		if own := holderOf(c.Value); why == "" || h.Journal == own.Journal && !c.Moved() {
			break
		}
		c.awaitGone(ctx)
		Pause(ctx, giveWay)
	}
	return c.Registry.Elect(ctx, c.Key, c.Value, c.TTL)
}

// Since says who led last, by a key that outlives who writes it, where that was neither this process nor an
// earlier life of its own: a copy of its journal, or what it is a copy of. What that one wrote is not here.
// "": nobody else did.
func (c *Candidate) Since(ctx context.Context, key string) (by string, err error) {
	kv, err := Get(ctx, c.Registry, key)
	if err != nil || kv.Value == nil {
		return "", err
	}
	if h := holderOf(kv.Value); !c.own(h) {
		return h.String(), nil
	}
	return "", nil
}

// own reports whether a value names this process or an earlier life of its own.
func (c *Candidate) own(h holder) bool {
	ended, _ := c.Ended(h.Life)
	return ended || h.Life == c.Life
}

// Twin reports whether the value of a key names another process on a journal of this one's name.
func (c *Candidate) Twin(value []byte) bool {
	h := holderOf(value)
	return h.Journal == holderOf(c.Value).Journal && !c.own(h)
}

// awaitGone returns when nobody leads, or nobody can say.
func (c *Candidate) awaitGone(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	changes, err := c.Registry.Watch(ctx, c.Key)
	if err != nil {
		return
	}
	there := false
	for e := range changes {
		if !e.Synced {
			there = !e.Deleted
		}
		if !there {
			return
		}
	}
}

// String says who it is.
func (h *holder) String() string {
	return cmp.Or(h.named(), "one that does not say who it is")
}
