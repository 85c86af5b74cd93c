package natsbus_test

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/bustest/proxy"
	"souk/bus/embedded"
	"souk/bus/natsauth"
	"souk/bus/natsbus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func server(t testing.TB, listen string) *embedded.NATS {
	t.Helper()
	return serverWith(t, embedded.NATSConfig{Listen: listen})
}

func serverWith(t testing.TB, config embedded.NATSConfig) *embedded.NATS {
	t.Helper()
	s, err := embedded.StartNATS(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// sockets connects every bus through a proxy of its own.
type sockets struct {
	server  *embedded.NATS
	proxies map[string]*proxy.Proxy
	tls     *tls.Config
	keys    *natsauth.Store // of a server that asks who is there
}

func (s sockets) Connect(t *testing.T, name string) bus.Bus {
	t.Helper()
	scheme, address, _ := strings.Cut(s.server.URL, "://")
	proxy, err := proxy.New(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	s.proxies[name] = proxy
	config := natsbus.Config{URL: scheme + "://" + proxy.Addr(), Name: name, TLS: s.tls}
	if s.keys != nil {
		config.Creds = anything(t, s.keys, name)
	}
	b, err := natsbus.Connect(config)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
func (s sockets) Cut(name string)  { s.proxies[name].Cut() }
func (s sockets) Heal(name string) { s.proxies[name].Heal() }

func TestBusOverSockets(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	carries(t, func(t *testing.T) network {
		return sockets{server(t, "127.0.0.1:0"), map[string]*proxy.Proxy{}, nil, nil}
	})
}

// inProcess connects without sockets, through a wire that can be pulled.
type inProcess struct {
	server *embedded.NATS
	wires  map[string]*wire
	keys   *natsauth.Store
}

type wire struct {
	*embedded.NATS
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func (w *wire) InProcessConn() (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut {
		return nil, errors.New("the wire is pulled")
	}
	c, err := w.NATS.InProcessConn()
	if err == nil {
		w.conns = append(w.conns, c)
	}
	return c, err
}

func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	for _, c := range w.conns {
		if cut {
			c.Close()
		}
	}
}

func (n inProcess) Connect(t *testing.T, name string) bus.Bus {
	t.Helper()
	n.wires[name] = &wire{NATS: n.server}
	config := natsbus.Config{InProcess: n.wires[name], Name: name}
	if n.keys != nil {
		config.Creds = anything(t, n.keys, name)
	}
	b, err := natsbus.Connect(config)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
func (n inProcess) Cut(name string)  { n.wires[name].set(true) }
func (n inProcess) Heal(name string) { n.wires[name].set(false) }

func TestBusInProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	carries(t, func(t *testing.T) network {
		return inProcess{server(t, ""), map[string]*wire{}, nil}
	})
}

func connect(t testing.TB, config natsbus.Config) *natsbus.Bus {
	t.Helper()
	b, err := natsbus.Connect(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

func TestConnectSaysWhatIsWrong(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, test := range []struct {
		config natsbus.Config
		says   string
	}{
		{natsbus.Config{Name: "a.b", URL: "nats://127.0.0.1:1"}, "not an id"},
		{natsbus.Config{URL: "nats://127.0.0.1:1"}, "not an id"},
		{natsbus.Config{Name: "b"}, "neither a URL nor"},
		{natsbus.Config{Name: "b", URL: "nats://" + closed.Addr().String()}, "is the NATS server up?"},
	} {
		if _, err := natsbus.Connect(test.config); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v: got %v, want %q", test.config, err, test.says)
		}
	}
}

// A server that takes bytes and answers nothing is noticed by the pings, and requests that wait for it
// end then.
func TestABlackHoleIsNoticed(t *testing.T) {
	s := server(t, "127.0.0.1:0")
	proxy, err := proxy.New(s.URL[len("nats://"):])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	b := connect(t, natsbus.Config{URL: "nats://" + proxy.Addr(), Name: "b", PingEvery: 50 * time.Millisecond,
		ReconnectWait: 10 * time.Millisecond})
	other := connect(t, natsbus.Config{URL: s.URL, Name: "other"})
	if _, err := other.Subscribe("silent", "", func(bus.Msg) {}); err != nil {
		t.Fatal(err)
	}
	if err := other.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	bustest.Receive(t, "first news", b.Health())
	proxy.Freeze()
	if _, err := b.Request(t.Context(), bus.Msg{Subject: "silent"}); !errors.Is(err, bus.ErrDisconnected) ||
		errors.Is(err, bus.ErrNotSent) {
		t.Errorf("a request into a black hole: got %v, want %v, for it was sent", err, bus.ErrDisconnected)
	}
	if h := bustest.Receive(t, "news of the black hole", b.Health()); h.Connected {
		t.Errorf("news of the black hole: %+v", h)
	}
	proxy.Heal()
	if h := bustest.Receive(t, "news of the return", b.Health()); !h.Connected {
		t.Errorf("news of the return: %+v", h)
	}
}

// What was published long ago must not arrive when the server is back: the buffer is short.
func TestNoStaleMessagesAfterAnOutage(t *testing.T) {
	n := sockets{server(t, "127.0.0.1:0"), map[string]*proxy.Proxy{}, nil, nil}
	from := n.Connect(t, "from")
	to := n.Connect(t, "to")
	t.Cleanup(func() { from.Close(); to.Close() })
	const size = 1 << 10
	got := make(chan int, 1000)
	if _, err := to.Subscribe("s", "", func(m bus.Msg) { got <- len(m.Data) }); err != nil {
		t.Fatal(err)
	}
	if err := to.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	bustest.Receive(t, "first news", from.Health())
	n.Cut("from")
	bustest.Receive(t, "news of the cut", from.Health())
	kept := 0
	for range 500 {
		if err := from.Publish(bus.Msg{Subject: "s", Data: make([]byte, size)}); err == nil {
			kept++
		}
	}
	if kept > 64 {
		t.Errorf("%d KB were kept for later", kept)
	}
	n.Heal("from")
	bustest.Receive(t, "news of the return", from.Health())
	if err := from.Publish(bus.Msg{Subject: "s", Data: []byte("new")}); err != nil {
		t.Fatal(err)
	}
	stale := 0
	for bustest.Receive(t, "message", got) == size {
		stale++
	}
	if stale != kept {
		t.Errorf("%d old messages arrived, %d were taken", stale, kept)
	}
}

// What a task costs on this bus: one publish, one call of a handler, one request.

func BenchmarkPublish(b *testing.B) {
	c := connect(b, natsbus.Config{InProcess: server(b, ""), Name: "b"})
	data := make([]byte, 200)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Publish(bus.Msg{Subject: "souk.v1.reply.ada.t-1", Data: data}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPublishToHandler(b *testing.B) {
	s := server(b, "")
	from, to := connect(b, natsbus.Config{InProcess: s, Name: "from"}),
		connect(b, natsbus.Config{InProcess: s, Name: "to"})
	got := make(chan struct{}, 1024)
	if _, err := to.Subscribe("s", "", func(bus.Msg) { got <- struct{}{} }); err != nil {
		b.Fatal(err)
	}
	if err := to.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	data := make([]byte, 200)
	b.ReportAllocs()
	sent, heard := 0, 0
	for b.Loop() {
		if err := from.Publish(bus.Msg{Subject: "s", Data: data}); err != nil {
			b.Fatal(err)
		}
		for sent++; sent-heard > 512; heard++ {
			<-got
		}
	}
	for ; heard < sent; heard++ {
		<-got
	}
}

func BenchmarkRequest(b *testing.B) {
	s := server(b, "")
	from, to := connect(b, natsbus.Config{InProcess: s, Name: "from"}),
		connect(b, natsbus.Config{InProcess: s, Name: "to"})
	echo(b, to, "s")
	requests(b, from, "s")
}
