package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"souk/bus"
	"souk/bus/follow"
)

// prefixKeys are the keys by which the door hashes the prefixes of prompts, and makes the salts of engines'
// caches. All doors of a market share them, by the registry: whichever finds that one is missing makes it. A
// door that cannot have them has one of its own: then what agents hold of its tasks is known, and found, by
// these alone.
type prefixKeys struct {
	registry bus.Registry
	log      *slog.Logger
	keys     atomic.Pointer[bus.PrefixKeys]
	settled  chan struct{} // closed once they are the market's, or cannot be had for now
	settle   func()

	// of the follower's goroutine
	rev    int64 // of the market's, 0: there are none
	shared *bus.PrefixKeys
	since  time.Time // it has seen them as they are
	says   bool      // it was said that they cannot be had
}

// prefixKeysWithin bounds how long a door that starts waits for the market's keys.
const prefixKeysWithin = 2 * time.Second

func newPrefixKeys(registry bus.Registry, log *slog.Logger) *prefixKeys {
	m := &prefixKeys{registry: registry, log: log, settled: make(chan struct{})}
	m.settle = sync.OnceFunc(func() { close(m.settled) })
	m.keys.Store((*bus.PrefixKeys)(nil).After(time.Now(), 0, freshKey(), freshKey()))
	return m
}

func freshKey() []byte {
	key := make([]byte, 32)
	rand.Read(key) // never fails
	return key
}

// name hashes a prompt's prefixes under the keys of now.
func (m *prefixKeys) name(p *bus.Prompt) { m.keys.Load().Name(p, time.Now()) }

// salt returns the salt of a group, with a client's own cache_salt by its hash, or "".
func (m *prefixKeys) salt(g *group, own string) string { return g.salt(m.keys.Load(), own) }

// follow keeps the keys as the registry has them, and makes those that are due.
func (m *prefixKeys) follow(ctx context.Context) {
	tend := func() { m.tend(ctx) }
	follow.Run(ctx, m.registry, bus.PrefixKeysKey, follow.Follower{
		Set: func(kv bus.KV) { m.set(kv); tend() }, Gone: func(string) { m.rev, m.shared = 0, nil; tend() },
		Synced: tend, Tick: tend, Every: time.Minute, Log: m.log,
		Asked: func(err error) {
			if err != nil {
				m.failed(err)
			}
		},
	})
}

func (m *prefixKeys) set(kv bus.KV) {
	keys := new(bus.PrefixKeys)
	if kv.Rev != m.rev {
		m.since = time.Now()
	}
	m.rev, m.shared = kv.Rev, nil
	if err := bus.DecodeEntry(kv.Value, keys); err != nil {
		m.failed(err)
		return
	}
	m.shared = keys
	m.keys.Store(keys)
	m.settle()
	m.says = false
}

// tend makes the key that is due. Of several doors one does.
func (m *prefixKeys) tend(ctx context.Context) {
	if m.rev > 0 && m.shared == nil {
		return // what is there is not ours to replace
	}
	next := m.shared.After(time.Now(), time.Since(m.since), freshKey(), freshKey())
	if next == nil {
		return
	}
	value, err := bus.EncodeEntry(next)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, prefixKeysWithin)
		defer cancel()
		err = m.registry.Swap(ctx, bus.PrefixKeysKey, m.rev, value)
	}
	if err != nil && !errors.Is(err, bus.ErrExists) && ctx.Err() == nil {
		m.failed(err)
	}
}

// failed logs the failure once, until the keys are had again. Keys known so far stay in use.
func (m *prefixKeys) failed(err error) {
	m.settle()
	if m.shared != nil || m.says {
		return
	}
	m.says = true
	m.log.Warn("the keys of prefix hashes and salts cannot be had: what engines hold of the tasks that come by this "+
		"door is not found by those that come by others; `souk auth list` shows whether this door may read and write it",
		"key", bus.PrefixKeysKey, "err", err)
}
