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

func (f *Failing) check(op string) error {
	if !f.away.Load() {
		return nil
	}
	f.calls.Add(1)
	return fmt.Errorf("%s: %w", op, errAway)
}

func (f *Failing) Register(ctx context.Context, key string, value []byte, ttl time.Duration) (bus.Lease,
	error) {
	if err := f.check("register"); err != nil {
		return nil, err
	}
	return f.Registry.Register(ctx, key, value, ttl)
}

func (f *Failing) Elect(ctx context.Context, key string, value []byte, ttl time.Duration) (bus.Leadership,
	error) {
	if err := f.check("elect"); err != nil {
		return nil, err
	}
	return f.Registry.Elect(ctx, key, value, ttl)
}

func (f *Failing) Put(ctx context.Context, key string, value []byte) error {
	if err := f.check("put"); err != nil {
		return err
	}
	return f.Registry.Put(ctx, key, value)
}

func (f *Failing) Swap(ctx context.Context, key string, rev int64, value []byte) error {
	if err := f.check("swap"); err != nil {
		return err
	}
	return f.Registry.Swap(ctx, key, rev, value)
}

func (f *Failing) Get(ctx context.Context, prefix string) ([]bus.KV, error) {
	if err := f.check("get"); err != nil {
		return nil, err
	}
	return f.Registry.Get(ctx, prefix)
}

func (f *Failing) Delete(ctx context.Context, key string) error {
	if err := f.check("delete"); err != nil {
		return err
	}
	return f.Registry.Delete(ctx, key)
}

func (f *Failing) Evict(ctx context.Context, key string, value []byte) error {
	if err := f.check("evict"); err != nil {
		return err
	}
	return f.Registry.Evict(ctx, key, value)
}

// Watch fails; a watch that runs ends when the registry goes away.
func (f *Failing) Watch(ctx context.Context, prefix string) (<-chan bus.Event, error) {
	if err := f.check("watch"); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	in, err := f.Registry.Watch(ctx, prefix)
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
