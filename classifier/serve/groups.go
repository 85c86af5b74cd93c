package serve

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"souk/bus"
	"souk/bus/follow"
)

// groups are the cache groups that the operator put clients into, as the registry has them. What is known
// stays known while the registry is out of reach; a client that is in none, or of whom the door may not know,
// is a group of its own.
type groups struct {
	registry bus.Registry
	log      *slog.Logger

	mu sync.RWMutex
	of map[string]string // by client
}

func newGroups(registry bus.Registry, log *slog.Logger) *groups {
	return &groups{registry: registry, log: log, of: map[string]string{}}
}

// group is a client's.
func (g *groups) group(client string) string {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return bus.GroupOf(client, g.of[client])
}

// follow keeps them. known is called once they are known, or cannot be.
func (g *groups) follow(ctx context.Context, known func()) {
	said := false
	follow.Run(ctx, g.registry, bus.GroupsPrefix, follow.Follower{Synced: known, Works: func() {}, Log: g.log,
		Set: g.set, Gone: func(key string) { g.put(bus.LastElement(key), "") },
		Failed: func(err error) {
			if !errors.Is(err, bus.ErrForbidden) {
				return
			}
			if known(); !said {
				said = true
				g.log.Warn("cache groups are not known to this door: each client's cache is its own; `souk auth "+
					"list` shows whether this door may read of them", "key", bus.GroupsPrefix, "err", err)
			}
		}})
}

func (g *groups) set(kv bus.KV) {
	client, x := bus.LastElement(kv.Key), new(bus.CacheGroup)
	err := bus.DecodeEntry(kv.Value, x)
	if err == nil && x.Client != client {
		err = errors.New("it is of client " + x.Client)
	}
	if err != nil {
		g.log.Warn("cache group not understood: the client's cache is its own", "key", kv.Key, "err", err)
		x.Group = ""
	}
	g.put(client, x.Group)
}

func (g *groups) put(client, group string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if group == "" {
		delete(g.of, client)
	} else {
		g.of[client] = group
	}
}
