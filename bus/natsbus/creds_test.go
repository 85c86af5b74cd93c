package natsbus_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/bustest/proxy"
	"souk/bus/embedded"
	"souk/bus/natsauth"
	"souk/bus/natsbus"
)

// keyed is a server that asks who is there, and the keys that it knows.
func keyed(t testing.TB, listen string) (*embedded.NATS, *natsauth.Store) {
	t.Helper()
	keys := store(t)
	return serverOf(t, listen, keys), keys
}

func store(t testing.TB) *natsauth.Store {
	t.Helper()
	keys, err := natsauth.Init(filepath.Join(t.TempDir(), "auth"))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func serverOf(t testing.TB, listen string, keys *natsauth.Store) *embedded.NATS {
	t.Helper()
	auth, err := keys.Server()
	if err != nil {
		t.Fatal(err)
	}
	return serverWith(t, embedded.NATSConfig{Listen: listen, Auth: auth})
}

// anything is a user who may publish and hear whatever the suite does.
func anything(t testing.TB, keys *natsauth.Store, name string) natsauth.Source {
	t.Helper()
	return natsauth.File(unbound(t, keys, name))
}

// unbound makes the creds of a user who may publish and hear anything.
func unbound(t testing.TB, keys *natsauth.Store, name string) (path string) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	seed, err := os.ReadFile(filepath.Join(keys.Dir, "signing.seed"))
	must(err)
	signer, err := nkeys.FromSeed([]byte(strings.TrimSpace(string(seed))))
	must(err)
	server, err := keys.Server()
	must(err)
	user, err := nkeys.CreateUser()
	must(err)
	public, err := user.PublicKey()
	must(err)
	c := jwt.NewUserClaims(public)
	for account := range server.Accounts {
		if account != server.System {
			c.IssuerAccount = account
		}
	}
	c.Name = name
	c.Pub.Allow = jwt.StringList{">"}
	c.Sub.Allow = jwt.StringList{">"}
	token, err := c.Encode(signer)
	must(err)
	secret, err := user.Seed()
	must(err)
	text, err := jwt.FormatUserConfig(token, secret)
	must(err)
	path = filepath.Join(t.TempDir(), name+".creds")
	must(os.WriteFile(path, text, 0o600))
	return path
}

// The suite, over sockets, by TLS and in process, for users with JWTs.
func TestBusOverTLSWithKeys(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	carries(t, func(t *testing.T) network {
		keys := store(t)
		auth, err := keys.Server()
		if err != nil {
			t.Fatal(err)
		}
		s := serverWith(t, embedded.NATSConfig{Listen: "127.0.0.1:0", TLS: certificates().server, Auth: auth})
		return sockets{s, map[string]*proxy.Proxy{}, certificates().client, keys}
	})
}

func TestBusWithKeys(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	carries(t, func(t *testing.T) network {
		s, keys := keyed(t, "127.0.0.1:0")
		return sockets{s, map[string]*proxy.Proxy{}, nil, keys}
	})
}

func TestBusInProcessWithKeys(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	carries(t, func(t *testing.T) network {
		s, keys := keyed(t, "")
		return inProcess{s, map[string]*wire{}, keys}
	})
}

func creds(t testing.TB) func(path string, err error) natsauth.Source {
	return func(path string, err error) natsauth.Source {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return natsauth.File(path)
	}
}

// Who comes without creds, with those of another market, over ones, revoked ones, or a damaged file is
// refused at once, and told which it is.
func TestRefusedCredsSayWhatIsWrong(t *testing.T) {
	s, keys := keyed(t, "127.0.0.1:0")
	_, elsewhere := keyed(t, "")
	now := time.Now()
	client := func(name string) bus.IDs { return bus.IDs{Name: name} }
	revoked := creds(t)(keys.Add(bus.RoleClient, client("gone"), now, natsauth.Valid))
	if err := keys.Revoke("gone", now); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = serverOf(t, "127.0.0.1:0", keys) // it knows of the revocation from the start
	damaged := filepath.Join(t.TempDir(), "damaged.creds")
	if err := os.WriteFile(damaged, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		creds natsauth.Source
		says  string
	}{
		{"none", nil, "creds are missing"},
		{"missing", natsauth.File("/nowhere/x.creds"), "there are no creds"},
		{"damaged", natsauth.File(damaged), "damaged.creds"},
		{"over", creds(t)(keys.Add(bus.RoleClient, client("late"), now.Add(-2*time.Hour), time.Hour)),
			"expired"},
		{"revoked", revoked, "revoked, or are of another market"},
		{"of another market", creds(t)(elsewhere.Add(bus.RoleClient, client("far"), now, natsauth.Valid)),
			"revoked, or are of another market"},
		{"of another role", creds(t)(keys.Add(bus.RoleClient, client("ada"), now, natsauth.Valid)).
			As(bus.RoleHub, "math"), "these are of client ada"},
	} {
		_, err := natsbus.Connect(natsbus.Config{URL: s.URL, Name: "x", Creds: c.creds})
		if !errors.Is(err, natsbus.ErrRefused) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
	b := connect(t, natsbus.Config{URL: s.URL, Name: "ada", Creds: natsauth.File(keys.CredsPath("ada"))})
	if err := b.Flush(t.Context()); err != nil {
		t.Error(err)
	}
}

// push tells a running server what was revoked.
func push(t *testing.T, url string, keys *natsauth.Store) {
	t.Helper()
	if err := natsbus.PushAccount(t.Context(), natsbus.Config{URL: url}, keys); err != nil {
		t.Fatal(err)
	}
}

// copied is a copy of keys.
func copied(t *testing.T, keys *natsauth.Store) *natsauth.Store {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "auth")
	if out, err := exec.Command("cp", "-a", keys.Dir, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c, err := natsauth.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Who pushes from an older copy of the keys lets nobody in again who was revoked since: it is refused, and
// says what to do. The newest keys go on.
func TestAnOlderCopyOfTheKeysRevokesNothing(t *testing.T) {
	s, keys := keyed(t, "127.0.0.1:0")
	now := time.Now()
	gone := creds(t)(keys.Add(bus.RoleClient, bus.IDs{Name: "gone"}, now, natsauth.Valid))
	creds(t)(keys.Add(bus.RoleClient, bus.IDs{Name: "other"}, now, natsauth.Valid))
	older := copied(t, keys)
	if err := keys.Revoke("gone", now); err != nil {
		t.Fatal(err)
	}
	push(t, s.URL, keys)
	if err := older.Revoke("other", now); err != nil {
		t.Fatal(err)
	}
	err := natsbus.PushAccount(t.Context(), natsbus.Config{URL: s.URL}, older)
	if !errors.Is(err, natsauth.ErrOlderKeys) || !strings.Contains(err.Error(), "1 revocations that they") {
		t.Errorf("an older copy is let push: %v", err)
	}
	_, err = natsbus.Connect(natsbus.Config{URL: s.URL, Name: "gone", Creds: gone})
	if !errors.Is(err, natsbus.ErrRefused) {
		t.Errorf("who was revoked is let in again: %v", err)
	}
	push(t, s.URL, keys)
	if err := keys.Revoke("other", now); err != nil {
		t.Fatal(err)
	}
	push(t, s.URL, keys)
}

// A revocation cuts its user at once, while questions of it are open; others are not disturbed, and may
// answer what they have heard. The user comes back by itself once its creds are renewed.
func TestARevocationCutsAtOnce(t *testing.T) {
	s, keys := keyed(t, "127.0.0.1:0")
	now := time.Now()
	dev := connect(t, natsbus.Config{URL: s.URL, Name: "dev", ReconnectWait: 10 * time.Millisecond,
		Creds: creds(t)(keys.Add(bus.RoleClient, bus.IDs{Name: "dev"}, now, natsauth.Valid))})
	ada := connect(t, natsbus.Config{URL: s.URL, Name: "ada",
		Creds: creds(t)(keys.Add(bus.RoleClient, bus.IDs{Name: "ada"}, now, natsauth.Valid))})
	door := connect(t, natsbus.Config{URL: s.URL, Name: "door",
		Creds: creds(t)(keys.Add(bus.RoleDoor, bus.IDs{Name: "door"}, now, natsauth.Valid))})
	asked := make(chan bus.Msg, 2)
	if _, err := door.Subscribe("souk.v1.task.>", "", func(m bus.Msg) { asked <- m }); err != nil {
		t.Fatal(err)
	}
	if err := door.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	ends := map[string]chan error{}
	for name, b := range map[string]*natsbus.Bus{"dev": dev, "ada": ada} {
		ended := make(chan error, 1)
		ends[name] = ended
		go func() {
			_, err := b.Request(within(t), bus.Msg{Subject: "souk.v1.task." + name})
			ended <- err
		}()
	}
	due := []bus.Msg{bustest.Receive(t, "a task", asked), bustest.Receive(t, "another", asked)}
	bustest.Receive(t, "first news", dev.Health())
	if err := keys.Revoke("dev", now); err != nil {
		t.Fatal(err)
	}
	push(t, s.URL, keys)
	if err := bustest.Receive(t, "what becomes of dev's question", ends["dev"]); !errors.Is(err,
		bus.ErrDisconnected) {
		t.Errorf("dev's question: %v", err)
	}
	bustest.Eventually(t, "it is told why", func() bool {
		err := dev.Refused()
		return err != nil && strings.Contains(err.Error(), "revoked")
	})
	for _, m := range due {
		if err := door.Publish(bus.Msg{Subject: m.Reply, Data: []byte("late")}); err != nil {
			t.Error(err)
		}
	}
	if err := bustest.Receive(t, "ada's answer", ends["ada"]); err != nil {
		t.Errorf("a due answer of another: %v", err)
	}
	if door.Connected().IsZero() || ada.Connected().IsZero() {
		t.Error("others were cut, too")
	}
	if _, err := dev.Request(within(t), bus.Msg{Subject: "souk.v1.task.dev"}); !errors.Is(err,
		bus.ErrNotSent) {
		t.Errorf("a question of one who was revoked: %v", err)
	}
	if _, _, err := keys.Renew("dev", nil, now, natsauth.Valid); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "it is back with its new creds", func() bool {
		return !dev.Connected().IsZero() && dev.Refused() == nil
	})
}

// Creds that end while answers are due: the connection is cut, reads the file again, and goes on with what
// stands there then; where nothing better does, it says that they are over.
func TestCredsThatExpireWhileAnswersAreDue(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	s, keys := keyed(t, "127.0.0.1:0")
	now := time.Now()
	dev := connect(t, natsbus.Config{URL: s.URL, Name: "dev", ReconnectWait: 10 * time.Millisecond,
		Creds: creds(t)(keys.Add(bus.RoleClient, bus.IDs{Name: "dev"}, now, 2*time.Second))})
	door := connect(t, natsbus.Config{URL: s.URL, Name: "door",
		Creds: creds(t)(keys.Add(bus.RoleDoor, bus.IDs{Name: "door"}, now, natsauth.Valid))})
	asked := make(chan bus.Msg, 2)
	if _, err := door.Subscribe("souk.v1.task.>", "", func(m bus.Msg) { asked <- m }); err != nil {
		t.Fatal(err)
	}
	heard := make(chan bus.Msg, 2)
	if _, err := dev.Subscribe("souk.v1.status.*", "", func(m bus.Msg) { heard <- m }); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(door.Flush(t.Context()), dev.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := dev.Request(within(t), bus.Msg{Subject: "souk.v1.task.dev"})
		ended <- err
	}()
	bustest.Receive(t, "the task", asked)
	if err := bustest.Receive(t, "what becomes of it", ended); !errors.Is(err, bus.ErrDisconnected) {
		t.Errorf("a question when the creds end: %v", err)
	}
	bustest.Eventually(t, "it says that they are over", func() bool {
		err := dev.Refused()
		return err != nil && strings.Contains(err.Error(), "souk auth renew")
	})
	if _, _, err := keys.Renew("dev", nil, time.Now(), natsauth.Valid); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "it is back", func() bool { return !dev.Connected().IsZero() })
	hub := connect(t, natsbus.Config{URL: s.URL, Name: "math", Creds: creds(t)(keys.Add(bus.RoleHub,
		bus.IDs{Name: "math", Domain: "math"}, now, natsauth.Valid))})
	if err := hub.Publish(bus.Msg{Subject: "souk.v1.status.math"}); err != nil {
		t.Fatal(err)
	}
	bustest.Receive(t, "what it hears again", heard)
}

// A part of the process that holds the keys makes its creds at each connect.
func TestAPartOfTheProcess(t *testing.T) {
	s, keys := keyed(t, "")
	part, err := keys.Member(bus.RoleTreasury, bus.IDs{Name: "treasury"})
	if err != nil {
		t.Fatal(err)
	}
	b := connect(t, natsbus.Config{InProcess: s, Name: "treasury", Creds: part})
	echo(t, b, "souk.v1.ledger.>")
	who, err := keys.Member(bus.RoleClient, bus.IDs{Name: "dev"})
	if err != nil {
		t.Fatal(err)
	}
	dev := connect(t, natsbus.Config{InProcess: s, Name: "dev", Creds: who})
	m, err := dev.Request(within(t), bus.Msg{Subject: "souk.v1.ledger.balance.dev", Data: []byte("?")})
	if err != nil || string(m.Data) != "?" {
		t.Errorf("got %q, %v", m.Data, err)
	}
}

// A user who speaks for as many agents as one may is let in: its JWT fits into the line that a server reads.
// Under the race detector the server computes for seconds, and has ten to let it in: a busy machine has less.
func TestAUserOfManyAgents(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	s, keys := keyed(t, "127.0.0.1:0")
	ids := bus.IDs{Name: strings.Repeat("n", bus.MaxID)}
	for i := range bus.MaxUserAgents {
		id := fmt.Sprintf("a%d-", i)
		ids.Agents = append(ids.Agents, id+strings.Repeat("x", bus.MaxID-len(id)))
	}
	b := connect(t, natsbus.Config{URL: s.URL, Name: ids.Name,
		Creds: creds(t)(keys.Add(bus.RoleAgentd, ids, time.Now(), natsauth.Valid))})
	if err := b.Flush(t.Context()); err != nil {
		t.Error(err)
	}
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// BenchmarkRequestOfARole is a request of a task's size to a server without keys, and with a role's.
func BenchmarkRequestOfARole(b *testing.B) {
	for _, name := range []string{"open", "keys"} {
		b.Run(name, func(b *testing.B) {
			client, door := natsbus.Config{Name: "dev"}, natsbus.Config{Name: "door"}
			if name == "keys" {
				s, keys := keyed(b, "")
				client.InProcess, door.InProcess = s, s
				client.Creds = creds(b)(keys.Ensure(bus.RoleClient, bus.IDs{Name: "dev"}, time.Now()))
				door.Creds = creds(b)(keys.Ensure(bus.RoleDoor, bus.IDs{Name: "door"}, time.Now()))
			} else {
				s := server(b, "")
				client.InProcess, door.InProcess = s, s
			}
			from, to := connect(b, client), connect(b, door)
			echo(b, to, "souk.v1.task.>")
			requests(b, from, "souk.v1.task.dev")
		})
	}
}
