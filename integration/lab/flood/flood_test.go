package flood_test

import (
	"context"
	"crypto/tls"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"souk/bus"
	"souk/bus/embedded"
	"souk/bus/etcdreg"
	"souk/bus/natsauth"
	"souk/bus/natsbus"
	"souk/integration/lab/flood"
)

// Garbage is collected as a server collects it, whatever GOGC the tests run with: memory is what is measured.
func TestMain(m *testing.M) {
	debug.SetGCPercent(100)
	goleak.VerifyTestMain(m)
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// peak is the most memory that this process has had from the system since it was asked for.
type peak struct {
	most atomic.Uint64
	end  chan struct{}
	done sync.WaitGroup
}

func memory() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Sys - m.HeapReleased
}

func watchMemory() *peak {
	p := &peak{end: make(chan struct{})}
	p.done.Go(func() {
		t := time.NewTicker(20 * time.Millisecond)
		defer t.Stop()
		for {
			p.most.Store(max(p.most.Load(), memory()))
			select {
			case <-t.C:
			case <-p.end:
				return
			}
		}
	})
	return p
}

func (p *peak) stop() uint64 {
	close(p.end)
	p.done.Wait()
	return p.most.Load()
}

// market is a NATS with keys, a door that answers, and clients.
type market struct {
	url  string
	keys *natsauth.Store
}

func open(t *testing.T) market {
	t.Helper()
	keys, err := natsauth.Init(filepath.Join(t.TempDir(), "auth"))
	ok(t, err)
	auth, err := keys.Server()
	ok(t, err)
	s, err := embedded.StartNATS(embedded.NATSConfig{Listen: "127.0.0.1:0", Auth: auth})
	ok(t, err)
	t.Cleanup(s.Close)
	return market{s.URL, keys}
}

func (m market) creds(t *testing.T, role bus.Role, name string) natsauth.Source {
	t.Helper()
	path, err := m.keys.Ensure(role, bus.IDs{Name: name}, time.Now())
	ok(t, err)
	return natsauth.File(path)
}

func (m market) join(t *testing.T, role bus.Role, name string) *natsbus.Bus {
	t.Helper()
	b, err := natsbus.Connect(natsbus.Config{URL: m.url, Name: name, Creds: m.creds(t, role, name)})
	ok(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

// A client that opens sixty connections of a thousand subscriptions each, reads nothing, and asks what is
// answered to all of them, fills no server, and others are answered as before.
func TestAClientFloodsNATS(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	m := open(t)
	door := m.join(t, bus.RoleDoor, "door")
	said := make([]byte, 32<<10) // as an answer that is given whole
	_, err := door.Subscribe("souk.v1.task.>", "doors", func(m bus.Msg) {
		door.Publish(bus.Msg{Subject: m.Reply, Data: said})
	})
	ok(t, err)
	ok(t, door.Flush(t.Context()))
	ada := m.join(t, bus.RoleClient, "ada")
	ask := func(ctx context.Context) error {
		_, err := ada.Request(ctx, bus.Msg{Subject: bus.TaskSubject("ada", "")})
		return err
	}
	watch := func(d time.Duration) flood.Others {
		return flood.Watch(t.Context(), 5*time.Millisecond, d, 20*time.Second, ask)
	}
	before := watch(2 * time.Second)
	idle := memory()
	p := watchMemory()
	ctx, stop := context.WithTimeout(t.Context(), 6*time.Second)
	defer stop()
	attack := flood.NATS{URL: m.url, Name: "mallory", Creds: m.creds(t, bus.RoleClient, "mallory"),
		Connections: 60, Subscriptions: 1000, Askers: 4}
	ended := make(chan flood.Did)
	go func() { ended <- attack.Run(ctx) }()
	during := watch(6 * time.Second)
	did := <-ended
	grown := p.stop() - min(p.most.Load(), idle)
	after := watch(2 * time.Second)
	t.Logf("before: %v", before)
	t.Logf("during: %v; %v; memory %d MB more", during, did, grown>>20)
	t.Logf("after:  %v", after)
	if grown > 512<<20 {
		t.Errorf("the server took %d MB more", grown>>20)
	}
	slow := 10 * before.Quantile(1) // a machine that is busy with others is slow before
	if during.Failed > 0 || during.Quantile(1) > 15*time.Second+slow {
		t.Errorf("others were not answered as before: %v", during)
	}
	if after.Failed > 0 || after.Quantile(1) > 2*time.Second+slow { // how much later is bench's to say
		t.Errorf("all is not well after it: %v, before it %v", after, before)
	}
}

// An agent that writes its own keys on many connections, by turns and without a pause, fills no etcd, and
// others' requests are answered, as they are once it has ended.
func TestAnAgentFloodsEtcd(t *testing.T) {
	dir := t.TempDir()
	files, err := natsauth.ServerCert(dir, nil, time.Now())
	ok(t, err)
	s, err := embedded.StartEtcd(embedded.EtcdConfig{Dir: t.TempDir(), Listen: "127.0.0.1:0", TLS: files})
	ok(t, err)
	t.Cleanup(func() { ok(t, s.Close()) })
	secure := func(name string) *tls.Config {
		files, err := natsauth.ClientCert(dir, name, time.Now())
		ok(t, err)
		c, err := natsauth.TLSOf(files)
		ok(t, err)
		return c
	}
	var users []etcdreg.User
	for name, role := range map[string]bus.Role{"node-1": bus.RoleAgentd, "math": bus.RoleHub} {
		ids := bus.IDs{Name: name}
		if role == bus.RoleAgentd {
			ids.Agents = []string{"a1", "a2"}
		} else {
			ids.Domain = name
		}
		access, err := bus.AccessOf(role, ids)
		ok(t, err)
		users = append(users, etcdreg.User{Name: name, Access: access})
	}
	ok(t, etcdreg.Admit(t.Context(), etcdreg.Config{Endpoints: []string{s.Endpoint()},
		TLS: secure(natsauth.Root)}, users))
	hub, err := etcdreg.Dial(t.Context(), etcdreg.Config{Endpoints: []string{s.Endpoint()},
		TLS: secure("math")})
	ok(t, err)
	defer hub.Close()
	lead, err := hub.Elect(t.Context(), bus.HubKey("math"), []byte("h"), time.Minute)
	ok(t, err)
	ask := func(ctx context.Context) error { return lead.Update(ctx, []byte("h")) }
	watch := func(d time.Duration) flood.Others {
		return flood.Watch(t.Context(), 20*time.Millisecond, d, 20*time.Second, ask)
	}
	before := watch(2 * time.Second)
	idle := memory()
	p := watchMemory()
	ctx, stop := context.WithTimeout(t.Context(), 6*time.Second)
	defer stop()
	attack := flood.Etcd{Endpoint: s.Endpoint(), TLS: secure("node-1"), Connections: 20,
		Keys: []string{bus.AgentKey("a1"), bus.AgentKey("a2")}, Reads: bus.ClaimsPrefix,
		Values: []int{64 << 10, 1_400_000, 1000}}
	ended := make(chan flood.Did)
	go func() { ended <- attack.Run(ctx) }()
	during := watch(6 * time.Second)
	did := <-ended
	most := p.stop()
	grown := most - min(most, idle)
	after := watch(2 * time.Second)
	t.Logf("before: %v", before)
	t.Logf("during: %v; %v; memory %d MB more", during, did, grown>>20)
	t.Logf("after:  %v", after)
	if grown > 512<<20 {
		t.Errorf("the server took %d MB more", grown>>20)
	}
	slow := 10 * before.Quantile(1) // a machine that is busy with others is slow before
	if during.Failed > 0 || during.Quantile(1) > 10*time.Second+slow {
		t.Errorf("others were not answered as before: %v", during)
	}
	if after.Failed > 0 {
		t.Errorf("all is not well after it: %v, before it %v", after, before)
	}
	ok(t, lead.Close(t.Context()))
}
