package etcdreg_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/bustest/proxy"
	"souk/bus/embedded"
	"souk/bus/etcdreg"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func server(t testing.TB, listen string) *embedded.Etcd {
	t.Helper()
	s, err := embedded.StartEtcd(embedded.EtcdConfig{Dir: t.TempDir(), Listen: listen})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close etcd: %v", err)
		}
	})
	return s
}

// sockets connects every registry through a proxy of its own.
type sockets struct {
	server  *embedded.Etcd
	proxies map[string]*proxy.Proxy
	tls     *tls.Config
}

func (s sockets) Connect(t *testing.T, name string) bus.Registry {
	t.Helper()
	proxy, err := proxy.New(s.server.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	s.proxies[name] = proxy
	r, err := etcdreg.Dial(t.Context(), etcdreg.Config{Endpoints: []string{proxy.Addr()}, TLS: s.tls})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("close registry: %v", err)
		}
	})
	return r
}
func (s sockets) Cut(name string)  { s.proxies[name].Cut() }
func (s sockets) Heal(name string) { s.proxies[name].Heal() }

func TestRegistryOverSockets(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	keeps(t, func(t *testing.T) network {
		return sockets{server(t, "127.0.0.1:0"), map[string]*proxy.Proxy{}, nil}
	})
}

// inProcess gives every registry the server's own client: no wire, nothing to cut.
type inProcess struct{ server *embedded.Etcd }

var _ uncuttable = inProcess{}

func (n inProcess) Connect(t *testing.T, _ string) bus.Registry {
	t.Helper()
	r, err := etcdreg.FromClient(n.server.Client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}
func (n inProcess) uncuttable() {}
func (n inProcess) Cut(string)  { panic("nothing to cut") }
func (n inProcess) Heal(string) { panic("nothing to heal") }

func TestRegistryInProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	keeps(t, func(t *testing.T) network {
		return inProcess{server(t, "")}
	})
}

func TestDialSaysWhatIsWrong(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	_, err = etcdreg.Dial(t.Context(), etcdreg.Config{})
	if err == nil || !strings.Contains(err.Error(), "no endpoint") {
		t.Errorf("no endpoint: %v", err)
	}
	config := etcdreg.Config{Endpoints: []string{closed.Addr().String()}, DialTimeout: 100 * time.Millisecond}
	_, err = etcdreg.Dial(t.Context(), config)
	if err == nil || !strings.Contains(err.Error(), "is it up?") {
		t.Errorf("nobody there: %v", err)
	}
	if _, err := etcdreg.FromClient(nil); err == nil {
		t.Error("no client: no error")
	}
}

// state reads a watch until Synced and returns what it then knows.
func state(t *testing.T, events <-chan bus.Event) map[string]string {
	t.Helper()
	known := map[string]string{}
	for {
		ev := bustest.Receive(t, "event", events)
		switch {
		case ev.Synced:
			return known
		case ev.Deleted:
			delete(known, ev.Key)
		default:
			known[ev.Key] = string(ev.Value)
		}
	}
}

// A watch that fell behind a compaction starts again from the whole state.
func TestAWatchSurvivesCompaction(t *testing.T) {
	s := server(t, "127.0.0.1:0")
	n := sockets{s, map[string]*proxy.Proxy{}, nil}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := n.Connect(t, "r")
	events, err := r.Watch(ctx, "/w/")
	if err != nil {
		t.Fatal(err)
	}
	state(t, events)
	n.Cut("r")
	c := s.Client
	var last int64
	for i := range 20 {
		put, err := c.Put(ctx, "/w/n", fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		last = put.Header.Revision
	}
	if _, err := c.Compact(ctx, last); err != nil {
		t.Fatal(err)
	}
	n.Heal("r")
	if got := state(t, events); got["/w/n"] != "19" {
		t.Errorf("after the compaction: %v", got)
	}
}

// An etcd that comes back with nothing, or with an older state, is believed: its revisions are lower
// than those seen, and a watch that waited for the next would wait in silence.
func TestAnEtcdThatLostItsData(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	first := server(t, "127.0.0.1:0")
	target := first.Endpoint()
	proxy, err := proxy.New(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	r, err := etcdreg.Dial(t.Context(), etcdreg.Config{Endpoints: []string{proxy.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range 50 {
		if err := r.Put(ctx, "/w/old", []byte(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	events, err := r.Watch(ctx, "/w/")
	if err != nil {
		t.Fatal(err)
	}
	if got := state(t, events); got["/w/old"] != "49" {
		t.Fatalf("at first: %v", got)
	}
	lease, err := r.Register(ctx, "/agents/1", nil, time.Second)
	if err != nil {
		t.Fatal(err)
	}

	second := server(t, "127.0.0.1:0")
	if _, err := second.Client.Put(ctx, "/w/new", "1"); err != nil {
		t.Fatal(err)
	}
	proxy.Redirect(second.Endpoint())
	if got := state(t, events); len(got) != 1 || got["/w/new"] != "1" {
		t.Errorf("after the loss: %v", got)
	}
	closes(t, "a lease that the new etcd does not know is lost", lease.Lost())
	if err := lease.Update(ctx, nil); !errors.Is(err, bus.ErrLost) {
		t.Errorf("update of a lease that the new etcd does not know: %v", err)
	}
}

// BenchmarkClaim is one fenced transaction, with etcd's fsync.
func BenchmarkClaim(b *testing.B) {
	r, err := etcdreg.FromClient(server(b, "").Client)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	l, err := r.Elect(b.Context(), "/hubs/math", nil, 10*time.Second)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Claim(b.Context(), "/claims/1", []byte("x")); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// Whose key is deleted has lost its lease, also where etcd was compacted beyond what it had seen.
func TestALeaseSurvivesCompaction(t *testing.T) {
	s := server(t, "127.0.0.1:0")
	n := sockets{s, map[string]*proxy.Proxy{}, nil}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := n.Connect(t, "r")
	lease, err := r.Register(ctx, "/agents/1", []byte("x"), 30*time.Second)
	ok(t, err)
	events, err := r.Watch(ctx, "/agents/")
	ok(t, err)
	state(t, events)
	n.Cut("r")
	c := s.Client
	var last int64
	for i := range 20 {
		put, err := c.Put(ctx, "/w/n", fmt.Sprint(i))
		ok(t, err)
		last = put.Header.Revision
	}
	_, err = c.Compact(ctx, last)
	ok(t, err)
	n.Heal("r")
	state(t, events)
	bustest.Eventually(t, "it may be updated again",
		func() bool { return lease.Update(ctx, []byte("y")) == nil })
	select {
	case <-lease.Lost():
		t.Fatal("it is lost although its key is there")
	default:
	}
	_, err = c.Delete(ctx, "/agents/1")
	ok(t, err)
	closes(t, "a lease whose key was deleted is lost", lease.Lost())
}
