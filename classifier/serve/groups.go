package serve

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"souk/bus"
	"souk/bus/bounded"
	"souk/bus/follow"
)

// groups are the cache groups that the operator put clients into, as the registry has them. What is known
// stays known while the registry is out of reach; a client that is in none, or of whom the door may not know,
// is a group of its own.
type groups struct {
	registry bus.Registry
	log      *slog.Logger

	session string // begins the keys of all

	mu    sync.Mutex
	named map[string]string                      // by client
	known *bounded.Cache[string, string, *group] // of clients that asked of late
}

// mostKnown bounds the clients whose group is kept.
const mostKnown = 1 << 14

// group has the keys of a cache group that a door needs for each task.
type group struct {
	name string
	key  []byte                // of all hashes of its prompts: none says that another group has the same text
	last atomic.Pointer[salts] // its salt, where clients have none of their own
}

type salts struct {
	keys *bus.PrefixKeys
	salt string
}

// salt returns the group's salt, or another where the client has a cache_salt of its own, by its hash.
func (g *group) salt(keys *bus.PrefixKeys, own string) string {
	if own != "" {
		return keys.SaltedBy(g.name, own)
	}
	s := g.last.Load()
	if s == nil || s.keys != keys {
		s = &salts{keys, keys.SaltedBy(g.name, "")}
		g.last.Store(s)
	}
	return s.salt
}

func newGroups(registry bus.Registry, session string, log *slog.Logger) *groups {
	return &groups{registry: registry, session: session, log: log, named: map[string]string{},
		known: bounded.New[string, string, *group](mostKnown, 0)}
}

// of is a client's group.
func (g *groups) of(client string) *group {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.known.Get(client); known != nil {
		return *known
	}
	name := bus.GroupOf(client, g.named[client])
	x := &group{name: name, key: []byte(g.session + "\x00" + name)}
	g.known.Put(client, client, x, 1)
	return x
}

// follow keeps them. known is called once they are known, or cannot be.
func (g *groups) follow(ctx context.Context, known func()) {
	follow.Run(ctx, g.registry, bus.GroupsPrefix, follow.Follower{Synced: known, Log: g.log,
		Set: g.set, Gone: func(key string) { g.put(bus.LastElement(key), "") },
		Asked: forbidden(g.log, known, bus.GroupsPrefix, "cache groups are not known to this door: each "+
			"client's cache is its own")})
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
	g.known.Drop(client)
	if group == "" {
		delete(g.named, client)
	} else {
		g.named[client] = group
	}
}
