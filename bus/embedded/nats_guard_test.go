package embedded

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/natsauth"
)

// keyed is a server with keys, whose guard looks at nothing by itself, and has nobody wait.
func keyed(t testing.TB) (*NATS, *natsGuard, *natsauth.Store) {
	t.Helper()
	keys, err := natsauth.Init(filepath.Join(t.TempDir(), "auth"))
	if err != nil {
		t.Fatal(err)
	}
	auth, err := keys.Server()
	if err != nil {
		t.Fatal(err)
	}
	n, err := StartNATS(NATSConfig{Listen: "127.0.0.1:0", Auth: auth})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	n.guard.end()
	return n, n.guard, keys
}

func come(t testing.TB, n *NATS, keys *natsauth.Store, role bus.Role, name string) (*nats.Conn, error) {
	t.Helper()
	path, err := keys.Ensure(role, bus.IDs{Name: name}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(n.URL, nats.UserCredentials(path), nats.NoReconnect(),
		nats.Timeout(bustest.Patience), // by itself it waits for 2 s, and who is refused hears so after 1.5
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err == nil {
		t.Cleanup(nc.Close)
	}
	return nc, err
}

// Who owes is kept away for as long as is said, and others are not; then it is let in.
func TestWhoIsBarredComesAgain(t *testing.T) {
	n, g, keys := keyed(t)
	if _, err := come(t, n, keys, bus.RoleClient, "ada"); err != nil {
		t.Fatal(err)
	}
	nc, err := come(t, n, keys, bus.RoleClient, "mallory")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	at := func(t time.Time) {
		g.mu.Lock()
		g.now = func() time.Time { return t }
		g.mu.Unlock()
		g.look(t)
	}
	at(now)
	for range 4 * bus.ShareOf(bus.RoleClient, 0).Says.Messages {
		if err := nc.Publish(bus.TaskSubject("mallory", ""), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	closed := nc.StatusChanged(nats.CLOSED)
	at(now)
	<-closed
	if _, err := come(t, n, keys, bus.RoleClient, "mallory"); err == nil {
		t.Error("who is barred is let in")
	}
	if _, err := come(t, n, keys, bus.RoleClient, "bob"); err != nil {
		t.Errorf("another is barred: %v", err)
	}
	at(now.Add(barredFor - time.Second))
	if _, err := come(t, n, keys, bus.RoleClient, "mallory"); err == nil {
		t.Error("who is barred is let in too soon")
	}
	at(now.Add(barredFor))
	if _, err := come(t, n, keys, bus.RoleClient, "mallory"); err != nil {
		t.Errorf("once it is over: %v", err)
	}
}

// A look closes those for which most waits; and where all together have too much, those of whoever has most.
func TestWhatALookCloses(t *testing.T) {
	_, g, _ := keyed(t)
	var shut []uint64
	g.shut = func(cid uint64) { shut = append(shut, cid) }
	conn := func(cid uint64, pending int) *server.ConnInfo {
		return &server.ConnInfo{Cid: cid, Pending: pending}
	}
	share := bus.Share{Connections: 3, Pending: 1000}
	for _, c := range []struct {
		what  string
		conns []*server.ConnInfo
		want  []uint64
	}{
		{"within it", []*server.ConnInfo{conn(1, 500), conn(2, 0), conn(3, 500)}, nil},
		{"one", []*server.ConnInfo{conn(1, 100), conn(2, 900), conn(3, 600)}, []uint64{2}},
		{"several", []*server.ConnInfo{conn(1, 1200), conn(2, 300), conn(3, 900)}, []uint64{1, 3}},
	} {
		shut = nil
		h := &host{name: "x", share: share}
		for _, i := range c.conns {
			h.count(&connection{}, i, time.Now())
		}
		g.bound(h, time.Now())
		if len(shut) != len(c.want) {
			t.Errorf("%s: closes %v, want %v", c.what, shut, c.want)
			continue
		}
		for i := range shut {
			if shut[i] != c.want[i] {
				t.Errorf("%s: closes %v, want %v", c.what, shut, c.want)
			}
		}
	}
	shut = nil
	for name, pending := range map[string]int{"a": 50 << 20, "b": 60 << 20, "c": 40 << 20} {
		h := &host{name: name, share: bus.Share{}}
		h.count(&connection{}, conn(uint64(name[0]), pending), time.Now())
		g.names[name] = h
	}
	g.relieve(time.Now())
	if len(shut) != 1 || shut[0] != 'b' {
		t.Errorf("of all that wait it closes %v", shut)
	}
	// what waits for one who is barred is gone with him, and nobody else is closed for it
	shut = nil
	mallory := &host{name: "m", share: bus.Share{Says: bus.Traffic{Messages: 1}}}
	mallory.count(&connection{}, conn('m', 0), time.Now())
	c := conn('m', 140<<20)
	c.InMsgs = 1000
	mallory.conns = nil
	mallory.count(&connection{}, c, time.Now())
	g.names = map[string]*host{"m": mallory, "a": {name: "a"}}
	g.names["a"].count(&connection{}, conn('a', 100), time.Now())
	g.bound(mallory, time.Now())
	g.relieve(time.Now())
	if len(shut) != 0 { // the bar itself ends his
		t.Errorf("beside one who is barred it closes %v", shut)
	}
}

// Connections that show no creds are bounded by number, and by time.
func TestStrangersAreBounded(t *testing.T) {
	n, g, keys := keyed(t)
	var all []*stranger
	for range maxStrangers + 20 {
		all = append(all, knock(t, n))
	}
	g.look(time.Now())
	for i, s := range all[:20] {
		if !s.closed() {
			t.Fatalf("the %d. of those that have waited longest is still there", i)
		}
	}
	if _, err := come(t, n, keys, bus.RoleClient, "ada"); err != nil {
		t.Errorf("who has creds does not come in: %v", err)
	}
}

// stranger is a connection that says nothing.
type stranger struct{ net.Conn }

func knock(t *testing.T, n *NATS) *stranger {
	t.Helper()
	c, err := net.Dial("tcp", n.server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := bufio.NewReader(c).ReadString('\n'); err != nil { // the server's first line
		t.Fatal(err)
	}
	return &stranger{c}
}

// closed reads to the end of the connection.
func (s *stranger) closed() bool {
	s.SetReadDeadline(time.Now().Add(time.Minute))
	_, err := io.Copy(io.Discard, s)
	return err == nil || !errors.Is(err, os.ErrDeadlineExceeded)
}

// BenchmarkLook is one look at so many connections that do nothing.
func BenchmarkLook(b *testing.B) {
	for _, conns := range []int{16, 1024} {
		b.Run(strconv.Itoa(conns), func(b *testing.B) {
			n, g, keys := keyed(b)
			for i := range conns {
				if _, err := come(b, n, keys, bus.RoleClient, fmt.Sprint("c-", i%128)); err != nil {
					b.Fatal(err)
				}
			}
			for range 8 {
				g.look(time.Now())
			}
			b.ReportAllocs()
			for b.Loop() {
				g.look(time.Now())
			}
		})
	}
}
