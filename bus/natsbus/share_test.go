package natsbus_test

import (
	"errors"
	"strings"
	"sync"
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
		b := connect(t, natsbus.Config{URL: s.URL, Name: name,
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
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	s, keys := keyed(t, "127.0.0.1:0")
	as := creds(t)(keys.Ensure(bus.RoleClient, bus.IDs{Name: "mallory"}, time.Now()))
	most := bus.ShareOf(bus.RoleClient, 0).Connections
	first := plain(t, s.URL, "mallory", as)
	var refused atomic.Int64
	var all sync.WaitGroup
	for range 2 * most {
		all.Go(func() {
			nc, err := nats.Connect(s.URL, nats.NoReconnect(), nats.UserJWT(identity(t, as)),
				nats.Timeout(bustest.Patience)) // by itself 2 s, and who is refused hears so after 1.5
			if err == nil {
				t.Cleanup(nc.Close)
				return
			}
			if refused.Add(1); !errors.Is(err, nats.ErrAuthorization) {
				t.Errorf("one too many is told %v", err)
			}
		})
	}
	all.Wait()
	flush(t, first)
	if n := int(refused.Load()); n != most+1 {
		t.Errorf("beside the first %d of %d are refused, want %d", n, 2*most, most+1)
	}
	ada := connect(t, natsbus.Config{URL: s.URL, Name: "ada",
		Creds: creds(t)(keys.Ensure(bus.RoleClient, bus.IDs{Name: "ada"}, time.Now()))})
	if err := ada.Flush(within(t)); err != nil {
		t.Error(err)
	}
}

// Who says more than its share is kept away, and hears why; others are not.
func TestWhoSaysTooMuchIsKeptAway(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	s, keys := keyed(t, "127.0.0.1:0")
	join := func(name string) *natsbus.Bus {
		return connect(t, natsbus.Config{URL: s.URL, Name: name,
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
	_, err := natsbus.Connect(natsbus.Config{URL: s.URL, Name: "mallory",
		Creds: creds(t)(keys.Ensure(bus.RoleClient, bus.IDs{Name: "mallory"}, time.Now()))})
	if err == nil || !strings.Contains(err.Error(), "took more than its share") {
		t.Errorf("at the door it is told %v", err)
	}
	if err := ada.Flush(ctx); err != nil {
		t.Error(err)
	}
}

// identity returns the handlers with which the plain client shows its creds.
func identity(t *testing.T, as natsauth.Source) (nats.UserJWTHandler, nats.SignatureHandler) {
	t.Helper()
	i, err := as()
	if err != nil {
		t.Fatal(err)
	}
	return func() (string, error) { return i.JWT(), nil }, i.Sign
}
