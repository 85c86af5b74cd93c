package etcdreg_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/embedded"
	"souk/bus/natsauth"
)

// guardWith is an etcd with bounds of its own, to which the people have been admitted.
func guardWith(t testing.TB, limits embedded.EtcdLimits) guarded {
	t.Helper()
	keys := t.TempDir()
	files, err := natsauth.ServerCert(keys, nil, time.Now())
	ok(t, err)
	s, err := embedded.StartEtcd(embedded.EtcdConfig{Dir: t.TempDir(), Listen: "127.0.0.1:0", TLS: files,
		Limits: &limits})
	ok(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close etcd: %v", err)
		}
	})
	g := guarded{s, keys}
	g.admit(t, users(t))
	return g
}

// says wants an error that says so.
func says(t testing.TB, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %q", what, err, want)
	}
}

// No member writes a value that is larger than any of ours, by itself or as a part of a transaction.
func TestValuesAreBounded(t *testing.T) {
	g := guard(t)
	g.admit(t, users(t))
	client := g.raw(t, "node-1")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	key := bus.AgentKey("a1")
	for _, size := range []int{0, bus.MaxEntry} {
		_, err := client.Put(ctx, key, strings.Repeat("x", size))
		ok(t, err)
	}
	one := strings.Repeat("x", bus.MaxEntry+1)
	put := clientv3.OpPut(key, one)
	within := clientv3.OpTxn(nil, []clientv3.Op{put}, nil)
	never := clientv3.Compare(clientv3.CreateRevision(key), "<", 0)
	for what, err := range map[string]error{
		"1.4 MB":             second(client.Put(ctx, key, strings.Repeat("x", 1_400_000))),
		"a byte too much":    second(client.Put(ctx, key, one)),
		"in a transaction":   second(client.Txn(ctx).Then(put).Commit()),
		"where it fails":     second(client.Txn(ctx).If(never).Else(put).Commit()),
		"within one of it":   second(client.Txn(ctx).Then(within).Commit()),
		"a key of a million": second(client.Put(ctx, key+strings.Repeat("x", 1_000_000), "")),
	} {
		if err == nil {
			t.Errorf("%s: etcd takes it", what)
		}
	}
	says(t, "a byte too much", second(client.Put(ctx, key, one)), "a value of 65537 bytes: at most 65536")
	many := make([]clientv3.Op, 20)
	for i := range many {
		many[i] = clientv3.OpPut(fmt.Sprint(key, i), "x")
	}
	says(t, "many parts", second(client.Txn(ctx).Then(many...).Commit()), "too many operations")

	r := g.name(t, "node-1")
	lease, err := r.Register(ctx, bus.AgentKey("a2"), nil, time.Minute)
	ok(t, err)
	for what, err := range map[string]error{
		"Put": r.Put(ctx, key, []byte(one)), "PutFor": r.PutFor(ctx, key, []byte(one), time.Minute),
		"Swap": r.Swap(ctx, key, 0, []byte(one)), "Update": lease.Update(ctx, []byte(one)),
		"Register": second(r.Register(ctx, key, []byte(one), time.Minute)),
	} {
		if !errors.Is(err, bus.ErrTooLarge) || !strings.Contains(err.Error(), "65537 bytes, at most 65536") {
			t.Errorf("%s of a byte too much: %v", what, err)
		}
	}
	ok(t, lease.Close(ctx))
}

// One member may hold so many leases, watches, streams and connections, and others have theirs beside it.
func TestWhatAMemberHoldsIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	limits := embedded.DefaultEtcdLimits()
	limits.Connections, limits.Streams, limits.Watches, limits.Leases = 4, 10, 30, 20
	g := guardWith(t, limits)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	bad, good := g.raw(t, "node-1"), g.name(t, "math")

	var leases []clientv3.LeaseID
	for range limits.Leases {
		l, err := bad.Grant(ctx, 3600)
		ok(t, err)
		leases = append(leases, l.ID)
	}
	says(t, "one lease more", second(bad.Grant(ctx, 60)), "node-1 has 20 leases")
	ok(t, second(bad.Revoke(ctx, leases[0])))
	ok(t, second(bad.Grant(ctx, 60)))
	says(t, "a lease for a year", second(bad.Grant(ctx, 365*24*3600)), "at most 3600")

	refused := 0
	for range 2 * limits.Watches {
		w := <-bad.Watch(ctx, bus.ClaimKey("a1"), clientv3.WithCreatedNotify())
		if w.Err() != nil || !w.Created {
			refused++
			break
		}
	}
	if refused == 0 {
		t.Errorf("one stream has %d watches", 2*limits.Watches)
	}
	held := 0
	for range 2 * limits.Streams {
		w := clientv3.NewWatcher(bad)
		defer w.Close()
		within, done := context.WithTimeout(ctx, 5*time.Second)
		defer done()
		r := <-w.Watch(within, bus.ClaimKey("a1"), clientv3.WithCreatedNotify())
		if r.Created && r.Err() == nil {
			held++
		} else {
			break
		}
	}
	if held == 0 || held > limits.Streams {
		t.Errorf("%d streams are open, want at most %d", held, limits.Streams)
	}

	var conns int // until one is refused: its client tries again for as long as it may
	for served := true; served && conns < 2*limits.Connections; {
		config := g.as(t, "node-1")
		within, done := context.WithTimeout(ctx, 5*time.Second)
		c, err := clientv3.New(clientv3.Config{Endpoints: config.Endpoints, TLS: config.TLS, Context: ctx,
			Logger: zap.NewNop()})
		ok(t, err)
		defer c.Close()
		if _, err = c.Get(within, bus.AgentKey("a1")); err == nil {
			conns++
		}
		served = err == nil
		done()
	}
	if conns == 0 || conns >= limits.Connections {
		t.Errorf("%d connections more, of %d", conns, limits.Connections)
	}

	// others do as before
	l, err := good.Elect(ctx, bus.HubKey("math"), []byte("h"), time.Minute)
	ok(t, err)
	ok(t, second(l.Claim(ctx, bus.ClaimKey("a1"), []byte("mine"))))
	ok(t, l.Close(ctx))
}

// A member that writes its own key without a pause, on many connections, leaves the database small and
// others' requests as they were, and it waits itself.
func TestAFloodOfValuesIsLetGo(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	limits := embedded.DefaultEtcdLimits()
	limits.QuotaBytes, limits.GrowBytes, limits.WasteBytes = 12<<20, 2<<20, 4<<20
	limits.Written = bus.Rate{Each: 16 << 20, Burst: 24 << 20} // more than the quota takes, at once
	limits.Writes = bus.Rate{Each: 1000, Burst: 5000}
	g := guardWith(t, limits)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	value := strings.Repeat("x", bus.MaxEntry)
	var written, full atomic.Int64
	var all sync.WaitGroup
	for i := range 8 {
		client := g.raw(t, "node-1")
		key := bus.AgentKey([]string{"a1", "a2"}[i%2])
		all.Go(func() {
			for written.Load() < 30<<20 && ctx.Err() == nil {
				_, err := client.Put(ctx, key, value)
				switch {
				case err == nil:
					written.Add(bus.MaxEntry)
				case strings.Contains(err.Error(), "space exceeded"):
					full.Add(1)
				}
			}
		})
	}
	all.Wait()
	if full.Load() > 0 {
		t.Logf("the quota was used up %d times", full.Load())
	}
	r := g.name(t, "math")
	for ctx.Err() == nil {
		l, err := r.Elect(ctx, bus.HubKey("math"), []byte("h"), time.Minute)
		if err == nil {
			ok(t, l.Close(ctx))
			break
		}
		if !strings.Contains(err.Error(), "space exceeded") {
			t.Fatal(err)
		}
	}
	root := g.raw(t, natsauth.Root)
	var status *clientv3.StatusResponse
	bustest.Eventually(t, "the database is small again", func() bool {
		var err error
		status, err = root.Status(ctx, g.Endpoint())
		ok(t, err)
		return status.DbSizeInUse < limits.QuotaBytes/2 && len(status.Errors) == 0
	})
	if status.DbSize > 2*limits.QuotaBytes { // what it has not committed yet is not counted
		t.Errorf("after %d MB the database has %d bytes, its quota is %d", written.Load()>>20, status.DbSize,
			limits.QuotaBytes)
	}
}

// What a member asks for beyond its rate waits, and what would wait for too long is refused, in words.
func TestAMemberIsPaced(t *testing.T) {
	limits := embedded.DefaultEtcdLimits()
	limits.Requests, limits.MaxDelay = bus.Rate{Each: 20, Burst: 20}, 500*time.Millisecond
	g := guardWith(t, limits)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client := g.raw(t, "node-1")
	errs := make(chan error, 100)
	begun := time.Now()
	for range cap(errs) {
		go func() { errs <- second(client.Get(ctx, bus.AgentKey("a1"))) }()
	}
	var refused error
	good := 0
	for range cap(errs) {
		if err := bustest.Receive(t, "answer", errs); err != nil {
			refused = err
		} else {
			good++
		}
	}
	// 20 at once, and 20 a second from then on, which a slow machine takes longer to ask
	if took := time.Since(begun); good < 20 || float64(good) > 21+20*took.Seconds() {
		t.Errorf("%d of a hundred questions are answered in %v, of 20 a second", good, took)
	}
	says(t, "a hundred questions", refused, "more than 20 requests a second: try again in")
}
