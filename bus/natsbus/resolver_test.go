package natsbus_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	nats "github.com/nats-io/nats-server/v2/server"

	"souk/bus"
	"souk/bus/natsauth"
	"souk/bus/natsbus"
)

// fromFile starts a NATS server of somebody else's, with its own addresses and the file that souk auth init
// writes.
func fromFile(t *testing.T, keys *natsauth.Store) (url string) {
	t.Helper()
	url, _ = fromFileIn(t, keys, t.TempDir())
	return url
}

// fromFileIn starts one that keeps what it is told in a directory.
func fromFileIn(t *testing.T, keys *natsauth.Store, dir string) (url string, stop func()) {
	t.Helper()
	config, err := keys.ServerConfig(filepath.Join(dir, "jwts"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "souk.conf")
	if err := os.WriteFile(file, []byte("listen: 127.0.0.1:-1\n"+config), 0o600); err != nil {
		t.Fatal(err)
	}
	options, err := nats.ProcessConfigFile(file)
	if err != nil {
		t.Fatalf("%v in\n%s", err, config)
	}
	options.NoSigs, options.NoLog = true, true
	s, err := nats.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	stop = func() { s.Shutdown(); s.WaitForShutdown() }
	t.Cleanup(stop)
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not start")
	}
	return "nats://" + s.Addr().String(), stop
}

// A server that keeps what it was told, and was started again, goes by that once somebody has come. Before
// that, too, an older copy of the keys voids none of it.
func TestAServerStartedAgainKeepsRevocations(t *testing.T) {
	keys, dir := store(t), t.TempDir()
	creds(t)(keys.Add(bus.RoleClient, bus.IDs{Name: "gone"}, time.Now(), natsauth.Valid))
	older := copied(t, keys)
	if err := keys.Revoke("gone", time.Now()); err != nil {
		t.Fatal(err)
	}
	url, stop := fromFileIn(t, keys, dir)
	push(t, url, keys)
	stop()
	url, _ = fromFileIn(t, older, dir)
	err := natsbus.PushAccount(t.Context(), natsbus.Config{URL: url}, older)
	if !errors.Is(err, natsauth.ErrOlderKeys) {
		t.Errorf("an older copy is let push: %v", err)
	}
}

// A NATS server with the file that souk auth init writes knows our users, and nobody else.
func TestAServerWithTheResolverFile(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	keys := store(t)
	url := fromFile(t, keys)

	agents := bus.IDs{Name: "node"}
	for i := range bus.MaxUserAgents { // the longest line that a server must take
		id := fmt.Sprintf("a%d-", i)
		agents.Agents = append(agents.Agents, id+strings.Repeat("x", bus.MaxID-len(id)))
	}
	node := connect(t, natsbus.Config{URL: url, Name: "node",
		Creds: creds(t)(keys.Add(bus.RoleAgentd, agents, time.Now(), natsauth.Valid))})
	heard := make(chan bus.Msg, 1)
	subject := bus.DispatchSubject(agents.Agents[0], "math")
	if _, err := node.Subscribe(subject, "", func(m bus.Msg) { heard <- m }); err != nil {
		t.Fatal(err)
	}
	if err := node.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	hub := connect(t, natsbus.Config{URL: url, Name: "math", Creds: creds(t)(
		keys.Add(bus.RoleHub, bus.IDs{Name: "math", Domain: "math"}, time.Now(), natsauth.Valid))})
	if err := hub.Publish(bus.Msg{Subject: subject, Data: []byte("?")}); err != nil {
		t.Fatal(err)
	}
	if m := <-heard; string(m.Data) != "?" {
		t.Errorf("the agent hears %q", m.Data)
	}
	if _, err := natsbus.Connect(natsbus.Config{URL: url, Name: "eve"}); err == nil {
		t.Error("somebody without creds is let in")
	}
}
