package etcdreg_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/bustest/proxy"
	"souk/bus/embedded"
	"souk/bus/etcdreg"
)

// An etcd that takes nothing more says so to every part, with what mends it, until it is mended.
func TestAFullEtcdIsNamed(t *testing.T) {
	limits := embedded.DefaultEtcdLimits()
	limits.QuotaBytes = 2 << 20
	g := guardWith(t, limits)
	config := g.as(t, "math")
	config.Probe, config.AskEvery = bus.AgentsPrefix, 100*time.Millisecond
	r := open(t, config)
	if err := r.Trouble(); err != nil {
		t.Fatal(err)
	}
	var err error
	n := 0
	for ; err == nil && n < 100; n++ { // keys that are all there, of which nothing can be let go
		err = r.Put(t.Context(), bus.ClaimKey(fmt.Sprint("a", n)), make([]byte, bus.MaxEntry))
	}
	bustest.Eventually(t, "the registry says that etcd is full", func() bool {
		err := r.Trouble()
		return err != nil && strings.Contains(err.Error(), "etcdctl alarm disarm") &&
			strings.Contains(err.Error(), "etcdctl compact ")
	})
	for i := range n {
		ok(t, r.Delete(t.Context(), bus.ClaimKey(fmt.Sprint("a", i))))
	}
	bustest.Eventually(t, "it is well again", func() bool { return r.Trouble() == nil })
	if got := r.Troubles(); got.Full != 1 || got.WentBack != 0 {
		t.Errorf("it counts %+v, want one that is full", got)
	}
	ok(t, r.Put(t.Context(), bus.ClaimKey("a"), nil))
}

// An etcd that was restored from an older copy is told from one that only was away, and is good again once it
// is ahead of what was seen.
func TestAnOlderEtcdIsNamed(t *testing.T) {
	first, other := server(t, "127.0.0.1:0"), server(t, "127.0.0.1:0")
	proxy, err := proxy.New(first.Endpoint())
	ok(t, err)
	t.Cleanup(proxy.Close)
	r := open(t, etcdreg.Config{Endpoints: []string{proxy.Addr()},
		AskEvery: 100 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range 50 {
		ok(t, r.Put(ctx, "/w/old", []byte(fmt.Sprint(i))))
	}
	events, err := r.Watch(ctx, "/w/")
	ok(t, err)
	state(t, events)
	proxy.Cut()
	proxy.Heal()
	state(t, events)
	if err := r.Trouble(); err != nil {
		t.Errorf("of one that was away it says %v", err)
	}
	proxy.Redirect(other.Endpoint())
	bustest.Eventually(t, "it says that etcd went back", func() bool {
		err := r.Trouble()
		return err != nil && strings.Contains(err.Error(), "went back from revision 51 to 1") &&
			strings.Contains(err.Error(), "--bump-revision")
	})
	for range 60 {
		_, err := other.Client.Put(ctx, "/w/new", "1")
		ok(t, err)
	}
	bustest.Eventually(t, "it is ahead again", func() bool { return r.Trouble() == nil })
	if got := r.Troubles(); got.Full != 0 || got.WentBack != 1 {
		t.Errorf("it counts %+v, want one that went back", got)
	}
}
