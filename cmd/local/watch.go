package local

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"souk/bus"
	"souk/bus/follow"
)

// Watcher follows what all hubs of a market say, and what they show while somebody looks on.
type Watcher struct {
	link   *Link
	since  time.Time
	begin  chan struct{} // of a watch
	seen   chan string   // domains that speak for the first time
	mu     sync.Mutex
	hubs   map[string]*Watched
	rounds []WatchedRound // oldest first
	looks  int            // that are held
}

// Watched has the last words of a hub. State is nil until it has shown itself.
type Watched struct {
	Domain string
	Status bus.Status
	State  *bus.FeedState
	Heard  time.Time // its last status
}

// WatchedRound is a round that a hub showed.
type WatchedRound struct {
	Journal string
	bus.FeedRound
}

const (
	renewEvery = 2 * time.Second // of watches, each of which is good for bus.WatchFor
	mostRounds = 256             // that a watcher remembers

	// Lagging is how long a hub may say nothing until it is said to: it does once a second.
	Lagging = 3 * time.Second
)

// Look has the hubs show themselves until away is called.
func (w *Watcher) Look() (away func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.looks++; w.looks == 1 {
		follow.Nudge(w.begin)
	}
	return sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.looks--
	})
}

// watched reports whether somebody looks on.
func (w *Watcher) watched() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.looks > 0
}

// Hear follows what the hubs say to all until ctx ends.
func (l *Link) Hear(ctx context.Context) (*Watcher, error) {
	w := &Watcher{link: l, since: time.Now(), begin: make(chan struct{}, 1),
		seen: make(chan string, mostHubs), hubs: map[string]*Watched{}}
	return w, w.subscribe(ctx, bus.StatusSubject("*"), w.status)
}

func (w *Watcher) subscribe(ctx context.Context, subject string, hear bus.Handler) error {
	s, err := w.link.Bus.Subscribe(subject, "", hear)
	if err == nil {
		context.AfterFunc(ctx, func() { s.Stop() })
	}
	return err
}

// Watch is [Link.Hear] of hubs that also show themselves while somebody looks: see [Watcher.Look].
func (l *Link) Watch(ctx context.Context) (*Watcher, error) {
	w, err := l.Hear(ctx)
	if err == nil {
		err = w.subscribe(ctx, bus.FeedSubject("*"), w.feed)
	}
	if err != nil {
		return nil, err
	}
	watch := func(domain string) { // one that is lost is made good by the next
		if !w.watched() {
			return
		}
		_ = l.Bus.Publish(bus.Msg{Subject: bus.WatchSubject(domain, l.Name)})
	}
	watchAll := func() {
		for _, h := range w.Hubs() {
			watch(h.Domain)
		}
	}
	go func() {
		renew := time.NewTicker(renewEvery)
		defer renew.Stop()
		for {
			select {
			case domain := <-w.seen:
				watch(domain)
			case <-renew.C:
				watchAll()
			case <-w.begin:
				watchAll()
				renew.Reset(renewEvery)
			case <-ctx.Done():
				return
			}
		}
	}()
	return w, nil
}

func (w *Watcher) status(m bus.Msg) {
	var s bus.Status
	if bus.Decode(m.Data, &s) != nil || s.Domain != bus.LastToken(m.Subject) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.hubs[s.Domain]
	if h == nil {
		if len(w.hubs) == mostHubs {
			return
		}
		h = &Watched{Domain: s.Domain}
		w.hubs[s.Domain] = h
		select {
		case w.seen <- s.Domain:
		default:
		}
	}
	h.Status, h.Heard = s, time.Now()
}

func (w *Watcher) feed(m bus.Msg) {
	var f bus.Feed
	if !w.watched() || bus.Decode(m.Data, &f) != nil || f.Domain != bus.LastToken(m.Subject) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.hubs[f.Domain]
	if h == nil {
		return // its status comes within a second
	}
	if f.State != nil {
		h.State = f.State
	}
	for _, r := range f.Rounds {
		if len(w.rounds) == mostRounds {
			w.rounds = append(w.rounds[:0], w.rounds[1:]...)
		}
		w.rounds = append(w.rounds, WatchedRound{f.Journal, r})
	}
}

// sells reports whether hubs sell that many agents, by domain, and each has a slot free.
func (w *Watcher) sells(agents map[string]int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for domain, n := range agents {
		if h := w.hubs[domain]; h == nil || h.Status.Agents < n || h.Status.Free == 0 {
			return false
		}
	}
	return true
}

// Hubs returns the hubs that were heard, by domain.
func (w *Watcher) Hubs() []Watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []Watched
	for h := range maps.Values(w.hubs) {
		all = append(all, *h)
	}
	slices.SortFunc(all, func(a, b Watched) int { return cmp.Compare(a.Domain, b.Domain) })
	return all
}

// Rounds returns the last rounds that were shown, the newest first.
func (w *Watcher) Rounds() []WatchedRound {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := slices.Clone(w.rounds)
	slices.Reverse(all)
	return all
}
