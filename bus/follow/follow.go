// Package follow keeps a process in step with a part of the registry: what is there, what changes, and what
// is gone, however often the registry is out of reach; and it holds a key there that one process alone may
// have. It knows the port alone, and is for shells: it reads the clock and blocks.
package follow

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"souk/bus"
)

// Follower holds the callbacks of [Run]. They are called from one goroutine, in the order of the changes. A
// nil function is not called.
type Follower struct {
	Set    func(bus.KV)     // a key is there, or has another value
	Gone   func(key string) // a key that was there is no longer
	Synced func()           // what was there when the watch began, or began again, has been told
	// what comes here is called once all that the registry has from then on has been read and told
	Anew  <-chan func()
	Tick  func()        // every Every, between the others, whether or not the registry answers
	Every time.Duration // 0: never
	Asked func(error)   // hears whether the registry answers; it is asked again; nil: it is logged
	Log   *slog.Logger  // nil: slog.Default
}

// again is the mean pause before a registry that does not answer is asked again.
const again = 400 * time.Millisecond

// Run follows a key, or every key below a prefix that ends in "/", until ctx ends. While the registry is out
// of reach Run calls nothing: what was there still counts as there. Once it answers again, Run reports what
// has changed or gone since, then calls Synced. An outage is one log line when it begins, one a minute while
// it lasts, and one when it ends; with Asked set, the caller logs instead.
func Run(ctx context.Context, r bus.Registry, key string, f Follower) {
	w := watch{key: key, f: f, there: map[string]int64{}}
	var tick <-chan time.Time
	if f.Every > 0 && f.Tick != nil {
		tick = time.Tick(f.Every)
	}
	for ctx.Err() == nil {
		if !w.watch(ctx, r, tick) {
			w.pause(ctx, tick)
		}
	}
}

// watch asks the registry once, and takes what comes of that. It reports whether to ask again at once.
func (w *watch) watch(ctx context.Context, r bus.Registry, tick <-chan time.Time) (again bool) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	events, err := r.Watch(ctx, w.key)
	if ctx.Err() != nil {
		return false
	}
	if w.asked(err); err != nil {
		return false
	}
	w.named = map[string]bool{}
	return w.follow(ctx, events, tick)
}

// watch is the state of Run.
type watch struct {
	key     string
	f       Follower
	there   map[string]int64 // revision by key
	named   map[string]bool  // by a watch before its first Synced; nil after that
	anew    func()           // to be called at the end of the state that the next watch sends; nil: nothing
	trouble Trouble
}

func (w *watch) asked(err error) {
	if w.f.Asked != nil {
		w.f.Asked(err)
		return
	}
	w.trouble.Note(cmp.Or(w.f.Log, slog.Default()).With("key", w.key), "", err == nil,
		"the registry is out of reach: what is known is kept", "the registry answers again", "err", err)
}

// follow takes events until there are no more, or the state is to be read anew.
func (w *watch) follow(ctx context.Context, events <-chan bus.Event, tick <-chan time.Time) (anew bool) {
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return false
			}
			w.take(e)
		case w.anew = <-w.f.Anew:
			return true
		case <-tick:
			w.f.Tick()
		case <-ctx.Done():
			return false
		}
	}
}

// take tells one event, if it is news. The state that a watch sends again names what is known already.
func (w *watch) take(e bus.Event) {
	switch {
	case e.Synced:
		if w.named != nil { // a watch of ours begins; what it misses later, it tells as gone
			for _, key := range slices.Sorted(maps.Keys(w.there)) {
				if !w.named[key] {
					w.gone(key)
				}
			}
			w.named = nil
		}
		if w.f.Synced != nil {
			w.f.Synced()
		}
		if w.anew != nil {
			w.anew()
			w.anew = nil
		}
	case e.Deleted:
		w.gone(e.Key)
	default:
		if w.named != nil {
			w.named[e.Key] = true
		}
		if rev, known := w.there[e.Key]; known && rev == e.Rev {
			return
		}
		w.there[e.Key] = e.Rev
		if w.f.Set != nil {
			w.f.Set(e.KV)
		}
	}
}

func (w *watch) gone(key string) {
	if _, known := w.there[key]; !known {
		return
	}
	delete(w.there, key)
	if w.f.Gone != nil {
		w.f.Gone(key)
	}
}

// pause waits before the registry is asked again, and goes on ticking.
func (w *watch) pause(ctx context.Context, tick <-chan time.Time) {
	t := time.After(Jitter(again))
	for {
		select {
		case <-t:
			return
		case w.anew = <-w.f.Anew:
			return
		case <-tick:
			w.f.Tick()
		case <-ctx.Done():
			return
		}
	}
}

// heldEvery is how often a process checks that its directory is still there.
const heldEvery = time.Second

// While runs something until ctx ends, or held says that the directory is lost that it runs on.
func While(ctx context.Context, held func() error, run func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	looked := make(chan error, 1)
	go func() {
		var lost error
		for lost == nil && Pause(ctx, heldEvery) {
			lost = held()
		}
		stop()
		looked <- lost
	}()
	err := run(ctx)
	stop()
	if lost := <-looked; !errors.Is(err, lost) {
		return errors.Join(lost, err)
	}
	return err
}

// Jitter spreads a pause over half of it to all of it, so that many who lost one thing do not come back at
// once.
func Jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// Pause waits for d, which may be over already; false if ctx ends first.
func Pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// Closed reports whether a channel was closed on which nothing is sent.
func Closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Nudge wakes who waits on a channel with room for one word, if nobody has yet.
func Nudge(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
