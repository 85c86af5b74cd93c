package etcdreg

import (
	"context"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"souk/bus"
	"souk/bus/follow"
)

// retryEvery is the pause between two attempts to read the state while etcd is away.
const retryEvery = 200 * time.Millisecond

func toKV(kv *mvccpb.KeyValue) bus.KV {
	return bus.KV{Key: string(kv.Key), Value: kv.Value, Create: kv.CreateRevision, Rev: kv.ModRevision}
}

// Watch reads the state at one revision and follows the changes from the next: asking for the
// revision read itself would delay the first event by 100 ms.
func (r *Registry) Watch(ctx context.Context, key string) (<-chan bus.Event, error) {
	again := r.reconnected()
	state, err := r.client.Get(ctx, key, span(key)...)
	if err != nil {
		return nil, wrap("watch", key, err)
	}
	r.trouble.heard(0, state.Header.Revision)
	out := make(chan bus.Event)
	go func() {
		defer close(out)
		there := map[string]bool{}
		for r.follow(ctx, key, state, again, there, out) {
			again = r.reconnected()
			if state = r.read(ctx, key); state == nil {
				return
			}
		}
	}()
	return out, nil
}

// follow sends what is gone of what was there before, a state, and what comes after it. It reports whether to
// begin again, from a new state.
func (r *Registry) follow(ctx context.Context, key string, state *clientv3.GetResponse,
	again <-chan struct{},
	there map[string]bool, out chan<- bus.Event) bool {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	changes := r.changes(ctx, key, append(span(key), clientv3.WithRev(state.Header.Revision+1))...)
	send := func(ev bus.Event) bool {
		select {
		case out <- ev:
			if ev.Deleted {
				delete(there, ev.Key)
			} else if !ev.Synced {
				there[ev.Key] = true
			}
			return true
		case <-ctx.Done():
			return false
		}
	}
	for _, key := range missing(there, state.Kvs) {
		if !send(bus.Event{KV: bus.KV{Key: key, Rev: state.Header.Revision}, Deleted: true}) {
			return false
		}
	}
	for _, kv := range state.Kvs {
		if !send(bus.Event{KV: toKV(kv)}) {
			return false
		}
	}
	if !send(bus.Event{Synced: true}) {
		return false
	}
	for {
		select {
		case batch, ok := <-changes:
			if !ok || batch.Err() != nil {
				return ctx.Err() == nil // compacted, or no leader
			}
			for _, ev := range batch.Events {
				if !send(bus.Event{KV: toKV(ev.Kv), Deleted: ev.Type == clientv3.EventTypeDelete}) {
					return false
				}
			}
		case <-again:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// changes follows a key on a connection's stream of its own, until ctx ends. On one that several watches
// share, one that etcd refuses and another that ends at the same moment lock the client's watcher for ever
// (client/v3 3.7.3, watch.go: run leaves without waiting for a refused one, which waits for run): no watch
// would begin again, and the client could not be closed.
func (r *Registry) changes(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	if r.client.ActiveConnection() == nil {
		return r.client.Watch(ctx, key, opts...) // in process: nobody refuses
	}
	w := clientv3.NewWatcher(r.client)
	context.AfterFunc(ctx, func() { w.Close() })
	return w.Watch(ctx, key, opts...)
}

// missing are the keys, sorted, that were there and are not in a state.
func missing(there map[string]bool, state []*mvccpb.KeyValue) []string {
	now := make(map[string]bool, len(state))
	for _, kv := range state {
		now[string(kv.Key)] = true
	}
	var out []string
	for key := range there {
		if !now[key] {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// read gets the state, however long that takes; nil once ctx has ended.
func (r *Registry) read(ctx context.Context, key string) *clientv3.GetResponse {
	for {
		state, err := r.client.Get(ctx, key, span(key)...)
		if err == nil {
			return state
		}
		if !follow.Pause(ctx, retryEvery) {
			return nil
		}
	}
}
