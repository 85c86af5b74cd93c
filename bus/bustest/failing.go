package bustest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"souk/bus"
)

// Failing is a registry that answers every call with an error while it is told to: unlike one that is cut
// off, it does not have its callers wait.
type Failing struct {
	bus.Registry
	away  atomic.Bool
	calls atomic.Int64 // that failed
}

// Away has it fail from now on, or no more.
func (f *Failing) Away(away bool) { f.away.Store(away) }

// Calls counts the calls that failed.
func (f *Failing) Calls() int64 { return f.calls.Load() }

var errAway = errors.New("etcdserver: no leader")

// try calls f unless the registry is away.
func try[T any](f *Failing, op string, call func() (T, error)) (none T, err error) {
	if !f.away.Load() {
		return call()
	}
	f.calls.Add(1)
	return none, fmt.Errorf("%s: %w", op, errAway)
}

func (f *Failing) do(op string, call func() error) error {
	_, err := try(f, op, func() (any, error) { return nil, call() })
	return err
}

func (f *Failing) Register(ctx context.Context, key string, value []byte, ttl time.Duration) (bus.Lease,
	error) {
	return try(f, "register", func() (bus.Lease, error) { return f.Registry.Register(ctx, key, value, ttl) })
}

func (f *Failing) Elect(ctx context.Context, key string, value []byte, ttl time.Duration) (bus.Leadership,
	error) {
	return try(f, "elect", func() (bus.Leadership, error) { return f.Registry.Elect(ctx, key, value, ttl) })
}

func (f *Failing) Put(ctx context.Context, key string, value []byte) error {
	return f.do("put", func() error { return f.Registry.Put(ctx, key, value) })
}

func (f *Failing) PutFor(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	return f.do("put", func() error { return f.Registry.PutFor(ctx, key, value, ttl) })
}

func (f *Failing) Swap(ctx context.Context, key string, rev int64, value []byte) error {
	return f.do("swap", func() error { return f.Registry.Swap(ctx, key, rev, value) })
}

func (f *Failing) Get(ctx context.Context, prefix string) ([]bus.KV, error) {
	return try(f, "get", func() ([]bus.KV, error) { return f.Registry.Get(ctx, prefix) })
}

func (f *Failing) Delete(ctx context.Context, key string) error {
	return f.do("delete", func() error { return f.Registry.Delete(ctx, key) })
}

func (f *Failing) Evict(ctx context.Context, key string, value []byte) error {
	return f.do("evict", func() error { return f.Registry.Evict(ctx, key, value) })
}

// Watch fails; a watch that runs ends when the registry goes away.
func (f *Failing) Watch(ctx context.Context, prefix string) (<-chan bus.Event, error) {
	ctx, stop := context.WithCancel(ctx)
	in, err := try(f, "watch", func() (<-chan bus.Event, error) { return f.Registry.Watch(ctx, prefix) })
	if err != nil {
		stop()
		return nil, err
	}
	out := make(chan bus.Event)
	go func() {
		defer stop()
		defer close(out)
		look := time.NewTicker(100 * time.Millisecond)
		defer look.Stop()
		for {
			select {
			case e, ok := <-in:
				if !ok {
					return
				}
				select {
				case out <- e:
				case <-ctx.Done():
					return
				}
			case <-look.C:
				if f.away.Load() {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}
