package etcdreg_test

import (
	"context"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"souk/bus"
)

// etcd by itself numbers leases one after another, lets whoever asks for one choose its number, and lets
// whoever knows the number of one that has no key yet put a key of its own under it: then the other, who may
// not write that key, can neither keep the lease alive nor have its own key there. A hub that waits to lead
// has such a lease all the time. So no number can be guessed, or chosen.
func TestNumbersOfLeasesAreNotGuessed(t *testing.T) {
	g := guard(t)
	g.admit(t, users(t))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	bad, good := g.raw(t, "node-1"), g.raw(t, "math")
	asks := pb.NewLeaseClient(bad.ActiveConnection())

	near, err := bad.Grant(ctx, 60)
	ok(t, err)
	waits, err := good.Grant(ctx, 60) // as of a hub that waits to lead
	ok(t, err)
	found := 0
	for id := near.ID - 20; id < near.ID+200; id++ {
		said, err := asks.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: int64(id)})
		ok(t, err)
		if said.TTL < 0 || id == near.ID {
			continue
		}
		found++
		if _, err := bad.Put(ctx, bus.AgentKey("a1"), "mine", clientv3.WithLease(id)); err == nil {
			t.Errorf("a key of node-1 is under lease %x, which it guessed by its own, %x", id, near.ID)
		}
	}
	if found > 0 {
		t.Errorf("%d leases of others were found by counting", found)
	}
	if all, err := asks.LeaseLeases(ctx, &pb.LeaseLeasesRequest{}); err == nil {
		t.Errorf("a member is told all leases: %v", all.Leases)
	}
	ok(t, second(good.KeepAliveOnce(ctx, waits.ID)))
	ok(t, second(good.Put(ctx, bus.HubKey("math"), "leads", clientv3.WithLease(waits.ID))))

	taken := 0
	for id := int64(near.ID) + 250; id < int64(near.ID)+550; id++ {
		if _, err := asks.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: id, TTL: 60}); err == nil {
			taken++
		}
	}
	if taken > 0 {
		t.Errorf("node-1 took %d numbers that etcd was about to give", taken)
	}
	refused := 0
	for range 150 {
		l, err := good.Grant(ctx, 60)
		if err != nil {
			refused++
			continue
		}
		ok(t, second(good.Revoke(ctx, l.ID)))
	}
	if refused > 0 {
		t.Errorf("the hub was refused %d of 150 leases", refused)
	}
}
