package follow

import (
	"context"
	"errors"
	"time"

	"souk/bus"
)

// evictWithin bounds how long the registry may take to end a lease.
const evictWithin = 2 * time.Second

// Evict ends the lease that a key is under, if dead says of the key's value that its owner has died: the lock
// of a data directory that we hold proves that of every former life. It reports whether a lease was ended. A
// key that is free, or that another took meanwhile, is no error.
func Evict(ctx context.Context, r bus.Registry, key string, dead func(bus.KV) bool) (ended bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, evictWithin)
	defer cancel()
	kv, err := Get(ctx, r, key)
	if err != nil || kv.Value == nil || !dead(kv) {
		return false, err
	}
	err = r.Evict(ctx, key, kv.Value)
	if errors.Is(err, bus.ErrExists) {
		return false, nil
	}
	return err == nil, err
}

// Get returns one key; Value is nil if it is not there.
func Get(ctx context.Context, r bus.Registry, key string) (bus.KV, error) {
	kvs, err := r.Get(ctx, key)
	if err != nil || len(kvs) == 0 {
		return bus.KV{}, err
	}
	return kvs[0], nil
}
