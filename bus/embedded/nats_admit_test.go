package embedded

import (
	"crypto/sha256"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/natsauth"
	"souk/bus/natsbus"
)

// Of sixty connections that come at once under one name, and subscribe a thousand times each, as many are let
// in as the name may have: a message that all of them hear is sent as often as the share says, from the first
// one on. Each that ends makes room for one.
func TestNoMoreComeThanANameMayHave(t *testing.T) {
	n, _, keys := keyed(t)
	share := bus.ShareOf(bus.RoleClient, 0)
	door, err := come(t, n, keys, bus.RoleDoor, "door")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keys.Ensure(bus.RoleClient, bus.IDs{Name: "mallory"}, time.Now()); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var in []*nats.Conn
	heard := 0
	var all sync.WaitGroup
	another := func() {
		nc, err := come(t, n, keys, bus.RoleClient, "mallory")
		if err != nil {
			return
		}
		for range 1000 {
			nc.Subscribe(bus.InboxOf("mallory")+".x", func(*nats.Msg) {
				mu.Lock()
				heard++
				mu.Unlock()
			})
		}
		nc.Flush()
		mu.Lock()
		in = append(in, nc)
		mu.Unlock()
	}
	for range 60 {
		all.Go(another)
	}
	all.Wait()
	// On a machine that hardly runs the server ends, after 10 s, some that it was about to let in.
	for try := 0; try < 20 && len(in) < share.Connections; try++ {
		another()
	}
	if len(in) != share.Connections {
		t.Fatalf("%d connections are let in, want %d", len(in), share.Connections)
	}
	if err := door.Publish(bus.InboxOf("mallory")+".x", nil); err != nil {
		t.Fatal(err)
	}
	for _, nc := range append([]*nats.Conn{door}, in...) {
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	for _, nc := range in { // what was sent is heard
		nc.Drain()
		<-nc.StatusChanged(nats.CLOSED)
	}
	mu.Lock()
	defer mu.Unlock()
	if most := share.Connections * share.Subscriptions; heard == 0 || heard > most {
		t.Errorf("a message is sent %d times, want at most %d", heard, most)
	}
	for range share.Connections {
		if _, err := come(t, n, keys, bus.RoleClient, "mallory"); err != nil {
			t.Fatalf("where others have gone: %v", err)
		}
	}
}

// Who shows its creds twice on one connection is one, and who shows another's then is that one.
func TestWhoShowsCredsTwiceIsOne(t *testing.T) {
	n, g, keys := keyed(t)
	if _, err := come(t, n, keys, bus.RoleClient, "ada"); err != nil {
		t.Fatal(err)
	}
	g.mu.Lock()
	var cid uint64
	for cid = range g.connections {
	}
	g.mu.Unlock()
	ada := &natsauth.Identity{Name: "ada", Role: bus.RoleClient}
	for range 3 {
		if !g.admit(ada, token{1}, cid) {
			t.Fatal("it is refused")
		}
	}
	if here := g.names["ada"].here; len(here) != 1 {
		t.Errorf("it is counted as %d", len(here))
	}
	if !g.admit(&natsauth.Identity{Name: "bob", Role: bus.RoleClient}, token{2}, cid) {
		t.Fatal("it is refused")
	}
	a, b := g.names["ada"].here, g.names["bob"].here
	if len(a) != 0 || len(b) != 1 || g.connections[cid].of.name != "bob" {
		t.Errorf("it is counted to ada %d times, to bob %d times", len(a), len(b))
	}
	for i := range 100 {
		g.admit(ada, token{3, byte(i)}, cid)
	}
	if len(g.shown) > 2*maxTokens {
		t.Errorf("of two names %d tokens are remembered", len(g.shown))
	}
}

// A name that is kept away for a flood does not let in again who was revoked while the server ran.
func TestABarVoidsNoRevocation(t *testing.T) {
	n, g, keys := keyed(t)
	gone, err := come(t, n, keys, bus.RoleClient, "gone")
	if err != nil {
		t.Fatal(err)
	}
	creds := keys.CredsPath("gone")
	closed := gone.StatusChanged(nats.CLOSED)
	if err := keys.Revoke("gone", time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := natsbus.PushAccount(t.Context(), natsbus.Config{URL: n.URL}, keys); err != nil {
		t.Fatal(err)
	}
	<-closed
	mallory, err := come(t, n, keys, bus.RoleClient, "mallory")
	if err != nil {
		t.Fatal(err)
	}
	g.look(time.Now())
	for range 4 * bus.ShareOf(bus.RoleClient, 0).Says.Messages {
		if err := mallory.Publish(bus.TaskSubject("mallory", ""), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := mallory.Flush(); err != nil {
		t.Fatal(err)
	}
	closed = mallory.StatusChanged(nats.CLOSED)
	g.look(time.Now())
	<-closed
	if nc, err := nats.Connect(n.URL, nats.UserCredentials(creds), nats.NoReconnect(),
		nats.Timeout(bustest.Patience)); err == nil {
		nc.Close()
		t.Error("who was revoked is let in again")
	}
}

// asks is a connection that shows a JWT.
type asks struct {
	server.ClientAuthentication
	jwt string
}

func (a asks) GetOpts() *server.ClientOpts { return &server.ClientOpts{JWT: a.jwt} }
func (a asks) GetID() uint64               { return 7 }
func (a asks) GetNonce() []byte            { return []byte("nonce") }

// Who is kept away hears so a while later, others at once, and everybody where the server ends.
func TestWhoIsKeptAwayHearsSoLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newNATSGuard(&natsauth.Server{}, nil)
		g.remember(&host{until: time.Now().Add(barredFor)}, token(sha256.Sum256([]byte("mallory's"))))
		for _, c := range []struct {
			jwt  string
			want time.Duration
		}{{"mallory's", answerIn}, {"a stranger's", 0}} {
			began := time.Now()
			if g.Check(asks{jwt: c.jwt}) {
				t.Errorf("%s is let in", c.jwt)
			}
			if took := time.Since(began); took != c.want {
				t.Errorf("%s: it waits for %v, want %v", c.jwt, took, c.want)
			}
		}
		close(g.closing)
		began := time.Now()
		if g.Check(asks{jwt: "mallory's"}); time.Since(began) != 0 {
			t.Error("the server ends, and it waits")
		}
	})
}
