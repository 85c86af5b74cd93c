package embedded_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/embedded"
	"souk/bus/etcdreg"
	"souk/bus/natsauth"
	"souk/bus/natsbus"
)

// Of etcd's members, which reach one another by HTTP, connections may outlive both ends for a while.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction("net/http.(*conn).serve"),
		goleak.IgnoreAnyFunction("net/http.(*connReader).backgroundRead"))
}

func startEtcd(t testing.TB, config embedded.EtcdConfig) *embedded.Etcd {
	t.Helper()
	e, err := embedded.StartEtcd(config)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func stop(t testing.TB, e *embedded.Etcd) {
	t.Helper()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

func registry(t testing.TB, e *embedded.Etcd) *etcdreg.Registry {
	t.Helper()
	r, err := etcdreg.FromClient(e.Client)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEtcdKeepsItsData(t *testing.T) {
	for name, listen := range map[string]string{"in process": "", "on loopback": "127.0.0.1:0"} {
		t.Run(name, func(t *testing.T) {
			out := new(bustest.Buffer)
			config := embedded.EtcdConfig{Dir: t.TempDir(), Listen: listen,
				Log: slog.New(slog.NewTextHandler(out, nil))}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()

			e := startEtcd(t, config)
			if err := registry(t, e).Put(ctx, "/souk/v1/market/math", []byte("{}")); err != nil {
				t.Fatal(err)
			}
			if (e.Endpoint() == "") != (listen == "") || strings.HasSuffix(e.Endpoint(), ":0") {
				t.Errorf("listening on %q, it reports %q", listen, e.Endpoint())
			}
			stop(t, e)

			e = startEtcd(t, config)
			kvs, err := registry(t, e).Get(ctx, "/souk/v1/")
			if err != nil || len(kvs) != 1 || string(kvs[0].Value) != "{}" {
				t.Errorf("after a restart: %+v, %v", kvs, err)
			}
			stop(t, e)
			if log := out.String(); strings.Contains(log, "goroutine") || strings.Contains(log, ".go:") {
				t.Errorf("the log holds a stack trace:\n%s", log)
			}
		})
	}
}

// A directory on which etcd had users serves a market of one process, which comes without a name.
func TestUnlock(t *testing.T) {
	keys, dir := t.TempDir(), t.TempDir()
	server, err := natsauth.ServerCert(keys, nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	files, err := natsauth.ClientCert(keys, natsauth.Root, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	root, err := natsauth.TLSOf(files)
	if err != nil {
		t.Fatal(err)
	}
	config := embedded.EtcdConfig{Dir: dir, Listen: "127.0.0.1:0", TLS: server}
	for range 2 {
		e := startEtcd(t, config)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := e.Unlock(ctx); err != nil {
			t.Fatal(err)
		}
		if err := registry(t, e).Put(ctx, "/souk/v1/market/math", []byte("{}")); err != nil {
			t.Fatal(err)
		}
		as := etcdreg.Config{Endpoints: []string{e.Endpoint()}, TLS: root}
		if err := etcdreg.Admit(ctx, as, nil); err != nil {
			t.Fatal(err)
		}
		if err := registry(t, e).Put(ctx, "/souk/v1/market/math", []byte("{}")); err == nil {
			t.Error("who has no name may write although etcd has users")
		}
		stop(t, e)
	}
}

// Nobody who comes by a socket speaks anything older than TLS 1.3, whatever certificate it shows.
func TestEtcdSpeaksTLS13Alone(t *testing.T) {
	keys := t.TempDir()
	server, err := natsauth.ServerCert(keys, nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	files, err := natsauth.ClientCert(keys, "gateway-1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	client, err := natsauth.TLSOf(files)
	if err != nil {
		t.Fatal(err)
	}
	e := startEtcd(t, embedded.EtcdConfig{Dir: t.TempDir(), Listen: "127.0.0.1:0", TLS: server})
	defer stop(t, e)
	for version, good := range map[uint16]bool{tls.VersionTLS12: false, tls.VersionTLS13: true} {
		c := client.Clone()
		c.MinVersion, c.MaxVersion = version, version
		conn, err := tls.Dial("tcp", e.Endpoint(), c)
		if (err == nil) != good {
			t.Errorf("%s: %v, want it taken: %v", tls.VersionName(version), err, good)
		}
		if err == nil {
			conn.Close()
		}
	}
}

func TestADirectoryServesOneEtcd(t *testing.T) {
	dir := t.TempDir()
	e := startEtcd(t, embedded.EtcdConfig{Dir: dir})
	defer stop(t, e)
	if _, err := embedded.StartEtcd(embedded.EtcdConfig{Dir: dir}); err == nil ||
		!strings.Contains(err.Error(), dir+" is in use") {
		t.Errorf("a second server on the same directory: %v", err)
	}
}

func TestWhatCannotBeUsedIsRefused(t *testing.T) {
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for config, says := range map[embedded.EtcdConfig]string{
		{}:                                     "no data directory",
		{Dir: file}:                            "not a directory",
		{Dir: t.TempDir(), Listen: "nonsense"}: "use host:port",
		{Dir: t.TempDir(), Listen: "127.0.0.1:x"}: "use host:port",
	} {
		if _, err := embedded.StartEtcd(config); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: got %v, want %q", config, err, says)
		}
	}
	for _, listen := range []string{"nonsense", ":0", "127.0.0.1:70000"} {
		if _, err := embedded.StartNATS(embedded.NATSConfig{Listen: listen}); err == nil ||
			!strings.Contains(err.Error(), "use host:port") {
			t.Errorf("NATS on %q: %v", listen, err)
		}
	}
}

func TestATakenPortIsRefusedOrLeft(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()

	if _, err := embedded.StartNATS(embedded.NATSConfig{Listen: address}); err == nil ||
		!strings.Contains(err.Error(), "address already in use") {
		t.Errorf("NATS on a taken port: %v", err)
	}
	n, err := embedded.StartNATS(embedded.NATSConfig{Listen: address, OrAny: true})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if n.URL == "nats://"+address || !strings.HasPrefix(n.URL, "nats://127.0.0.1:") {
		t.Errorf("NATS reports %s", n.URL)
	}

	dir := t.TempDir()
	if _, err := embedded.StartEtcd(embedded.EtcdConfig{Dir: dir, Listen: address}); err == nil ||
		!strings.Contains(err.Error(), "address already in use") {
		t.Errorf("etcd on a taken port: %v", err)
	}
	e := startEtcd(t, embedded.EtcdConfig{Dir: dir, Listen: address, OrAny: true})
	defer stop(t, e)
	if e.Endpoint() == address || !strings.HasPrefix(e.Endpoint(), "127.0.0.1:") {
		t.Errorf("etcd reports %s", e.Endpoint())
	}
}

func TestTheLargestBodyFitsInAMessage(t *testing.T) {
	n, err := embedded.StartNATS(embedded.NATSConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if n.URL != "" {
		t.Errorf("a server in process listens on %s", n.URL)
	}
	b, err := natsbus.Connect(natsbus.Config{InProcess: n, Name: "b"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	largest := &bus.Dispatch{Kind: bus.DispatchTask,
		Task: bus.Task{Client: "ada", ID: "t", Body: make([]byte, bus.MaxBody)}}
	for i := range bus.MaxPrefixes {
		largest.Task.Prompt.Prefixes = append(largest.Task.Prompt.Prefixes, bus.PrefixHash{Bytes: i,
			Hash: 1<<64 - 1})
	}
	data, err := bus.Encode(largest)
	if err != nil || len(data) > b.MaxPayload() {
		t.Errorf("a dispatch of the largest body has %d bytes, the limit is %d (%v)", len(data),
			b.MaxPayload(), err)
	}
}

// BenchmarkStart starts and ends the servers of a market on one machine.
func BenchmarkStart(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		n, err := embedded.StartNATS(embedded.NATSConfig{Listen: "127.0.0.1:0"})
		if err != nil {
			b.Fatal(err)
		}
		e := startEtcd(b, embedded.EtcdConfig{Dir: b.TempDir(), Listen: "127.0.0.1:0"})
		stop(b, e)
		n.Close()
	}
}
