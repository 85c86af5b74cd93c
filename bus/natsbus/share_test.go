package natsbus_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/natsauth"
	"souk/bus/natsbus"
)

// The largest message is told by the creds, before anything goes out, and the connection outlives one that is
// larger.
func TestPayloadsAreBounded(t *testing.T) {
	s, keys := keyed(t, "127.0.0.1:0")
	for role, want := range map[bus.Role]int{bus.RoleClient: bus.MaxBody + 64<<10, bus.RoleViewer: 64 << 10,
		bus.RoleGateway: bus.MaxMessage, bus.RoleDoor: bus.MaxMessage} {
		name := string(role)
		b := connect(t, natsbus.Config{URL: s.URL(), Name: name,
			Creds: creds(t)(keys.Ensure(role, bus.IDs{Name: name}, time.Now()))})
		bustest.Eventually(t, "the server has said how much it takes", func() bool { return b.MaxPayload() == want })
		for _, size := range []int{want, want + 1} {
			err := b.Publish(bus.Msg{Subject: bus.InboxOf(name), Data: make([]byte, size)})
			if (err == nil) != (size == want) || err != nil && !errors.Is(err, bus.ErrTooLarge) {
				t.Errorf("%s: %d bytes: %v", role, size, err)
			}
		}
		if err := b.Flush(within(t)); err != nil || b.Connected().IsZero() {
			t.Errorf("%s: after it: %v", role, err)
		}
	}
}

// A name has so many connections, however it opens them: those that were there first.
func TestConnectionsOfANameAreBounded(t *testing.T) {
	s, keys := keyed(t, "127.0.0.1:0")
	as := creds(t)(keys.Ensure(bus.RoleClient, bus.IDs{Name: "mallory"}, time.Now()))
	most := bus.ShareOf(bus.RoleClient, 0).Connections
	first := plain(t, s.URL(), "mallory", as)
	var all []*nats.Conn
	for range 2 * most {
		nc, err := nats.Connect(s.URL(), nats.NoReconnect(), nats.UserJWT(identity(t, as)))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		all = append(all, nc)
	}
	open := func() (n int) {
		for _, nc := range all {
			if !nc.IsClosed() {
				n++
			}
		}
		return n
	}
	bustest.Eventually(t, "connections beyond the share are closed", func() bool { return open() < most })
	flush(t, first)
	if n := open(); n != most-1 {
		t.Errorf("beside the first %d connections are open, want %d", n, most-1)
	}
	ada := connect(t, natsbus.Config{URL: s.URL(), Name: "ada",
		Creds: creds(t)(keys.Ensure(bus.RoleClient, bus.IDs{Name: "ada"}, time.Now()))})
	if err := ada.Flush(within(t)); err != nil {
		t.Error(err)
	}
}

// Subscriptions are counted over all connections of a name: what it hears on all of them is sent as often.
func TestAllThatANameHearsIsBounded(t *testing.T) {
	s, keys := keyed(t, "127.0.0.1:0")
	as := creds(t)(keys.Ensure(bus.RoleClient, bus.IDs{Name: "mallory"}, time.Now()))
	share := bus.ShareOf(bus.RoleClient, 0)
	everyone := plain(t, s.URL(), "everyone", anything(t, keys, "everyone"))
	var heard atomic.Int64
	hear := func(*nats.Msg) { heard.Add(1) }
	var all []*nats.Conn
	for range share.Connections {
		nc, err := nats.Connect(s.URL(), nats.NoReconnect(), nats.UserJWT(identity(t, as)))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		all = append(all, nc)
		for range share.Subscriptions {
			if _, err := nc.Subscribe("souk.v1.reply.mallory.x", hear); err != nil {
				t.Fatal(err)
			}
		}
	}
	bustest.Eventually(t, "a message is sent no more often than it may be heard", func() bool {
		for _, nc := range all {
			nc.Flush() // of those that are open: what came before is heard
		}
		before := heard.Load()
		if everyone.Publish("souk.v1.reply.mallory.x", nil) != nil || everyone.Flush() != nil {
			return false
		}
		for _, nc := range all {
			nc.Flush()
		}
		bustest.Eventually(t, "it is heard", func() bool { return heard.Load() > before })
		return int(heard.Load()-before) <= share.Listens
	})
}

// Who says more than its share is kept away, and hears why; others are not.
func TestWhoSaysTooMuchIsKeptAway(t *testing.T) {
	s, keys := keyed(t, "127.0.0.1:0")
	join := func(name string) *natsbus.Bus {
		return connect(t, natsbus.Config{URL: s.URL(), Name: name,
			Creds: creds(t)(keys.Ensure(bus.RoleClient, bus.IDs{Name: name}, time.Now()))})
	}
	ada, mallory := join("ada"), join("mallory")
	share := bus.ShareOf(bus.RoleClient, 0)
	ctx := within(t)
	for i := 0; mallory.Refused() == nil && ctx.Err() == nil; i++ {
		if mallory.Publish(bus.Msg{Subject: bus.TaskSubject("mallory", "")}) != nil {
			bustest.Eventually(t, "mallory is refused", func() bool { return mallory.Refused() != nil })
		}
		if i > 100*share.Says.Messages {
			t.Fatalf("it has said %d messages", i)
		}
	}
	if err := mallory.Refused(); err == nil || !strings.Contains(err.Error(), "took more than its share") {
		t.Errorf("it is told %v", err)
	}
	// and who comes then hears it, too
	_, err := natsbus.Connect(natsbus.Config{URL: s.URL(), Name: "mallory",
		Creds: creds(t)(keys.Ensure(bus.RoleClient, bus.IDs{Name: "mallory"}, time.Now()))})
	if err == nil || !strings.Contains(err.Error(), "took more than its share") {
		t.Errorf("at the door it is told %v", err)
	}
	if err := ada.Flush(ctx); err != nil {
		t.Error(err)
	}
}

// identity is how a connection of the plain client shows its creds.
func identity(t *testing.T, as natsauth.Source) (nats.UserJWTHandler, nats.SignatureHandler) {
	t.Helper()
	i, err := as()
	if err != nil {
		t.Fatal(err)
	}
	return func() (string, error) { return i.JWT(), nil }, i.Sign
}
