package etcdreg_test

import (
	"context"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/etcdreg"
	"souk/bus/natsauth"
)

// readable answers the first question for a key that nobody may watch, and tells of the next.
type readable struct {
	clientv3.KV
	asked int
	again chan struct{}
}

func (r *readable) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse,
	error) {
	if key != "/souk/v1/other" {
		return r.KV.Get(ctx, key, opts...)
	}
	if r.asked++; r.asked%2 == 0 {
		r.again <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &clientv3.GetResponse{Header: &etcdserverpb.ResponseHeader{}}, nil
}

// A name loses a key while it watches: what it may watch goes on, and it can be closed.
func TestAWatchThatIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	g := guard(t)
	g.admit(t, users(t))
	client, root := g.raw(t, "node-1"), g.raw(t, natsauth.Root)
	kv := &readable{KV: client.KV, again: make(chan struct{})}
	client.KV = kv
	r, err := etcdreg.FromClient(client)
	ok(t, err)
	defer func() { ok(t, r.Close()) }()
	for range 20 {
		mine, stop := context.WithTimeout(t.Context(), time.Minute)
		var watches []<-chan bus.Event
		for range 50 {
			events, err := r.Watch(mine, bus.ClaimKey("a1"))
			ok(t, err)
			state(t, events)
			watches = append(watches, events)
		}
		_, err = root.Put(mine, bus.ClaimKey("a1"), "x")
		ok(t, err)
		for _, events := range watches {
			bustest.Receive(t, "event", events) // now etcd has the watch
		}
		stop()
		theirs, stopTheirs := context.WithTimeout(t.Context(), time.Minute)
		refused, err := r.Watch(theirs, "/souk/v1/other")
		ok(t, err)
		state(t, refused)
		closes(t, "a refused watch asks again", kv.again)
		stopTheirs()
		for range refused {
		}
	}
}
