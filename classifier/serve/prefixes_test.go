package serve

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/bus/membus"
)

// barred is a registry that lets nobody read or write some keys, as long as it is told to.
type barred struct {
	bus.Registry
	mu          sync.Mutex
	read, write bool
}

func (b *barred) set(read, write bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.read, b.write = read, write
}

func (b *barred) Watch(ctx context.Context, key string) (<-chan bus.Event, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.read {
		return nil, fmt.Errorf("watch %s: permission denied", key)
	}
	return b.Registry.Watch(ctx, key)
}

func (b *barred) Swap(ctx context.Context, key string, rev int64, value []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.write {
		return fmt.Errorf("swap %s: permission denied", key)
	}
	return b.Registry.Swap(ctx, key, rev, value)
}

// said is a log, for tests to look at.
type said struct {
	mu sync.Mutex
	bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Buffer.Write(p)
}

func (s *said) lines() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.String(), "\n")
}

func keyed(m *prefixKeys, hash uint64) (this, former, next uint64) {
	p := bus.Prompt{Bytes: 1, Prefixes: []bus.PrefixHash{{Bytes: 1, Hash: hash}}, Digests: make([]byte,
		bus.DigestBytes)}
	binary.BigEndian.PutUint64(p.Digests, hash)
	if m.name(&p); p.Former != nil {
		former = p.Former.At(0)
	}
	if p.Next != nil {
		next = p.Next.At(0)
	}
	return p.Prefixes[0].Hash, former, next
}

// Doors hash prefixes alike, whichever of them comes first and whichever makes a new key, for as many days as
// they run, and one that is started again does, too. Nothing of a key is in a log.
func TestDoorsShareTheKeysOfPrefixes(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	synctest.Test(t, func(t *testing.T) {
		w, log := membus.New(1), new(said)
		text := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		start := func() *prefixKeys {
			m := newPrefixKeys(w.Registry(), text)
			go m.follow(ctx)
			<-m.settled
			return m
		}
		var doors []*prefixKeys
		for range 3 {
			doors = append(doors, nil)
			go func() { doors[len(doors)-1] = start() }()
			synctest.Wait()
		}
		seen := map[uint64]bool{}
		for hour := range 24 * 5 {
			this, former, next := keyed(doors[0], 7)
			if this == 7 || former == 7 || next == 7 {
				t.Fatal("a hash is said as it is")
			}
			seen[this] = true
			for i, m := range append(doors, start()) {
				if a, b, c := keyed(m, 7); a != this || b != former || c != next {
					t.Fatalf("after %d hours door %d says %x, %x, %x and the first %x, %x, %x", hour, i, a, b, c,
						this, former, next)
				}
			}
			time.Sleep(time.Hour)
		}
		if len(seen) != 5 {
			t.Errorf("%d keys in five days", len(seen))
		}
		kvs, err := w.Registry().Get(t.Context(), bus.PrefixKeysKey)
		if err != nil || len(kvs) != 1 {
			t.Fatalf("%v, %v", kvs, err)
		}
		keys := new(bus.PrefixKeys)
		if err := bus.DecodeEntry(kvs[0].Value, keys); err != nil || len(keys.Keys) != 2 {
			t.Fatalf("%d keys, %v", len(keys.Keys), err)
		}
		if log.lines() > 0 {
			t.Errorf("it is said: %s", log.String())
		}
	})
}

// Salts are the same at all doors and on all days, whichever of them comes and goes, until somebody takes the
// secret away: then all have another.
func TestSaltsStay(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	synctest.Test(t, func(t *testing.T) {
		w := membus.New(1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		start := func() *prefixKeys {
			m := newPrefixKeys(w.Registry(), slog.New(slog.DiscardHandler))
			go m.follow(ctx)
			<-m.settled
			return m
		}
		doors := []*prefixKeys{start(), start()}
		ann := newGroups(w.Registry(), "souk", slog.New(slog.DiscardHandler)).of("ann")
		salt := func(m *prefixKeys) string { return m.salt(ann, "") }
		first, distinct := salt(doors[0]), map[uint64]bool{}
		for range 24 * 5 {
			for i, m := range append(doors, start()) {
				if salt(m) != first {
					t.Fatalf("after %d keys of prefixes door %d has another salt", len(distinct), i)
				}
			}
			this, _, _ := keyed(doors[0], 7)
			distinct[this] = true
			time.Sleep(time.Hour)
		}
		if len(distinct) != 5 {
			t.Errorf("%d keys of prefixes", len(distinct))
		}
		if err := w.Registry().Delete(ctx, bus.PrefixKeysKey); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		next := salt(doors[0])
		for i, m := range append(doors, start()) {
			if salt(m) != next || next == first {
				t.Errorf("with the secret gone door %d says %s, another %s, all said %s", i, salt(m), next, first)
			}
		}
	})
}

// A door that may not read the keys, or not make them, or does not understand what is there, serves all the
// same, with a key of its own, and says so once; as soon as it may, it has those of the others.
func TestADoorThatCannotHaveTheKeysOfPrefixes(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	for _, c := range []struct {
		name        string
		read, write bool
		value       string // that is there
	}{{"it may not read them", true, true, ""}, {"it may not make them", false, true, ""},
		{"it does not understand them", false, false, `{"keys":"canary"}`}} {
		synctest.Test(t, func(t *testing.T) {
			w, log := membus.New(1), new(said)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			registry := w.Registry()
			if c.value != "" {
				if err := registry.Put(ctx, bus.PrefixKeysKey, []byte(c.value)); err != nil {
					t.Fatal(err)
				}
			}
			b := &barred{Registry: registry, read: c.read, write: c.write}
			m := newPrefixKeys(b, slog.New(slog.NewTextHandler(log, nil)))
			go m.follow(ctx)
			<-m.settled
			other := newPrefixKeys(w.Registry(), slog.New(slog.DiscardHandler))
			own, _, _ := keyed(m, 7)
			time.Sleep(30 * time.Hour)
			if now, _, _ := keyed(m, 7); now != own || now == 7 {
				t.Errorf("%s: it says %x, and said %x", c.name, now, own)
			}
			if log.lines() != 1 || !strings.Contains(log.String(), "level=WARN") ||
				!strings.Contains(log.String(), bus.PrefixKeysKey) || strings.Contains(log.String(),
				"canary") {
				t.Errorf("%s: %d lines: %s", c.name, log.lines(), log.String())
			}
			if c.value != "" {
				if kvs, _ := registry.Get(ctx, bus.PrefixKeysKey); string(kvs[0].Value) != c.value {
					t.Errorf("%s: they became %s", c.name, kvs[0].Value)
				}
				registry.Delete(ctx, bus.PrefixKeysKey)
			}
			b.set(false, false)
			go other.follow(ctx)
			<-other.settled
			time.Sleep(2 * time.Minute)
			here, _, _ := keyed(m, 7)
			if there, _, _ := keyed(other, 7); here != there || here == own {
				t.Errorf("%s: when it may, it says %x, and another door %x", c.name, here, there)
			}
		})
	}
}
