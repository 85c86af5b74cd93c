package embedded_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/embedded"
	"souk/bus/etcdreg"
	"souk/bus/natsauth"
	"souk/bus/natsbus"
)

// cluster makes three members on loopback, on addresses of which nobody else has a port.
func cluster(t *testing.T) (keys *natsauth.Store, members [3]*embedded.Cluster) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the loopback interface has one address here")
	}
	net := fmt.Sprintf("127.%d.%d.", 64+rand.IntN(128), rand.IntN(256))
	hosts := []string{net + "1", net + "2", net + "3"}
	dir := t.TempDir()
	keys, err := natsauth.Init(natsauth.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := natsauth.ServerCert(keys.Dir, hosts, time.Now()); err != nil {
		t.Fatal(err)
	}
	for i, host := range hosts {
		members[i] = &embedded.Cluster{Member: host, Members: hosts, TLS: natsauth.PeerFiles(keys.Dir),
			Dir: filepath.Join(dir, "nats", host)}
	}
	return keys, members
}

func startNATS(t *testing.T, keys *natsauth.Store, c *embedded.Cluster) *embedded.NATS {
	t.Helper()
	auth, err := keys.Server()
	if err != nil {
		t.Fatal(err)
	}
	secure, err := natsauth.TLSOf(natsauth.ServerFiles(filepath.Dir(c.TLS.Cert)))
	if err != nil {
		t.Fatal(err)
	}
	n, err := embedded.StartNATS(embedded.NATSConfig{Listen: c.Member + ":4222", Auth: auth, TLS: secure,
		Cluster: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

// onlyServers fails unless a port refuses who shows a certificate of the market that is no server's.
func onlyServers(t *testing.T, keys *natsauth.Store, address string) {
	t.Helper()
	files, err := natsauth.ClientCert(keys.Dir, "node-1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	member, err := natsauth.TLSOf(files)
	if err != nil {
		t.Fatal(err)
	}
	peer, err := natsauth.PeerTLS(natsauth.PeerFiles(keys.Dir))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*tls.Config{"an agentd": member, "a server": peer} {
		conn, err := tls.Dial("tcp", address, c)
		if err == nil { // with TLS 1.3 the server's verdict comes with what it says first
			_, _ = fmt.Fprintf(conn, "GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
			_, err = conn.Read(make([]byte, 1))
			conn.Close()
		}
		if good := name == "a server"; (err == nil) != good {
			t.Errorf("%s comes to %s: %v, want it taken: %v", name, address, err, good)
		}
	}
}

// Three NATS servers are one: who is connected to one hears who is connected to another, also after a third
// is gone. A server that was away while somebody was revoked does not let him in when it is back.
func TestThreeNATSAreOne(t *testing.T) {
	t.Parallel()
	keys, members := cluster(t)
	creds := func(role bus.Role, ids bus.IDs) natsauth.Source {
		path, err := keys.Ensure(role, ids, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return natsauth.File(path)
	}
	door, gone := creds(bus.RoleDoor, bus.IDs{Name: "door-1"}), creds(bus.RoleClient, bus.IDs{Name: "gone"})
	alice := creds(bus.RoleClient, bus.IDs{Name: "alice"})
	var servers [3]*embedded.NATS
	for i, m := range members {
		servers[i] = startNATS(t, keys, m)
	}
	secure, err := natsauth.TLSOf(natsauth.Files{CA: members[0].TLS.CA})
	if err != nil {
		t.Fatal(err)
	}
	at := func(n int) natsbus.Config {
		return natsbus.Config{URL: servers[n].URL, TLS: secure}
	}
	connect := func(n int, name string, as natsauth.Source) (*natsbus.Bus, error) {
		c := at(n)
		c.Name, c.Creds = name, as
		b, err := natsbus.Connect(c)
		if err == nil {
			t.Cleanup(func() { b.Close() })
		}
		return b, err
	}
	hears, err := connect(0, "door-1", door)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hears.Subscribe(bus.Root+"task.>", "doors", func(m bus.Msg) {
		_ = hears.Publish(bus.Msg{Subject: m.Reply, Data: []byte("here")})
	}); err != nil {
		t.Fatal(err)
	}
	asks, err := connect(1, "alice", alice)
	if err != nil {
		t.Fatal(err)
	}
	heard := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		m, err := asks.Request(ctx, bus.Msg{Subject: bus.TaskSubject("alice", "")})
		return err == nil && string(m.Data) == "here"
	}
	bustest.Eventually(t, "one server passes on what another's client asks", heard)
	onlyServers(t, keys, members[0].Member+":6222")
	servers[2].Close()
	bustest.Eventually(t, "two servers pass on what clients ask", heard)

	if err := keys.Revoke("gone", time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := natsbus.PushAccount(t.Context(), at(0), keys); err != nil {
		t.Fatal(err)
	}
	older := filepath.Join(t.TempDir(), "auth") // as the third had them: without the keys that sign
	copyKeys(t, keys.Dir, older)
	keys3, err := natsauth.Open(older)
	if err != nil {
		t.Fatal(err)
	}
	servers[2] = startNATS(t, keys3, members[2])
	bustest.Eventually(t, "who was revoked is refused by the server that was away", func() bool {
		_, err := connect(2, "gone", gone)
		return errors.Is(err, natsbus.ErrRefused)
	})
}

func copyKeys(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"operator.jwt", "account.jwt", "system.jwt", "names.json"} {
		text, err := os.ReadFile(filepath.Join(from, f))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, f), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Three etcd are one: they serve once two of them are there, keep what was written when one is lost, and let
// nobody among them but servers. One that lost its disk comes back once the others were told.
func TestThreeEtcdAreOne(t *testing.T) {
	t.Parallel()
	keys, members := cluster(t)
	var servers [3]*embedded.Etcd
	var dirs [3]string
	start := func(n int) error {
		var err error
		servers[n], err = embedded.StartEtcd(embedded.EtcdConfig{Dir: dirs[n],
			Listen: members[n].Member + ":2379", TLS: natsauth.ServerFiles(keys.Dir),
			Tick: 50 * time.Millisecond, Cluster: members[n]})
		return err
	}
	var wg sync.WaitGroup
	for n := range servers {
		dirs[n] = t.TempDir()
		wg.Go(func() {
			if err := start(n); err != nil {
				t.Error(err)
			}
		})
	}
	if wg.Wait(); t.Failed() {
		return
	}
	files, err := natsauth.ClientCert(keys.Dir, natsauth.Root, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	root, err := natsauth.TLSOf(files)
	if err != nil {
		t.Fatal(err)
	}
	r, err := etcdreg.Dial(t.Context(), etcdreg.Config{TLS: root, Endpoints: []string{
		members[0].Member + ":2379", members[1].Member + ":2379", members[2].Member + ":2379"}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	put := func(value string) func() bool {
		return func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return r.Put(ctx, "/souk/v1/market/math", []byte(value)) == nil
		}
	}
	bustest.Eventually(t, "a value is written", put("one"))
	onlyServers(t, keys, members[0].Member+":2380")
	stop(t, servers[2])
	bustest.Eventually(t, "a value is written at two of three", put("two"))
	dirs[2] = t.TempDir()
	if err := start(2); !errors.Is(err, embedded.ErrLost) {
		t.Errorf("a member without its data, of which the others were not told: %v", err)
	}

	c := servers[0].Client
	list, err := c.MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list.Members {
		if m.Name == members[2].Member {
			if _, err := c.MemberRemove(t.Context(), m.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	bustest.Eventually(t, "two that have known each other for five seconds take a third", func() bool {
		_, err := c.MemberAdd(t.Context(), []string{"https://" + members[2].Member + ":2380"})
		return err == nil
	})
	dirs[2] = t.TempDir()
	members[2].Joins = true
	if err := start(2); err != nil {
		t.Fatal(err)
	}
	stop(t, servers[0])
	bustest.Eventually(t, "a value is written at the two that are left", put("three"))
	kvs, err := r.Get(t.Context(), "/souk/v1/market/")
	if err != nil || len(kvs) != 1 || string(kvs[0].Value) != "three" {
		t.Errorf("after all that: %v, %v", kvs, err)
	}
	stop(t, servers[2])
	bustest.Eventually(t, "one of three says that it has no leader",
		func() bool { return servers[1].Leaderless() != "" })
	stop(t, servers[1])
}

// A start that waits for the other members ends when it is told to.
func TestAnEtcdThatWaitsForOthersEnds(t *testing.T) {
	_, members := cluster(t)
	ended := make(chan struct{})
	close(ended)
	_, err := embedded.StartEtcd(embedded.EtcdConfig{Dir: t.TempDir(), Listen: members[0].Member + ":2379",
		TLS: members[0].TLS, Cluster: members[0], Ended: ended})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a start that was called off: %v", err)
	}
}
