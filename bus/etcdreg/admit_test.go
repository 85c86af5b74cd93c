package etcdreg_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/bustest/proxy"
	"souk/bus/embedded"
	"souk/bus/etcdreg"
	"souk/bus/natsauth"
)

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// guarded is an etcd that believes those who show a certificate.
type guarded struct {
	*embedded.Etcd
	keys string
}

func guard(t testing.TB) guarded {
	t.Helper()
	keys := t.TempDir()
	files, err := natsauth.ServerCert(keys, nil, time.Now())
	ok(t, err)
	s, err := embedded.StartEtcd(embedded.EtcdConfig{Dir: t.TempDir(), Listen: "127.0.0.1:0",
		TLS: files})
	ok(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close etcd: %v", err)
		}
	})
	return guarded{s, keys}
}

// as returns the configuration with which a name connects.
func (g guarded) as(t testing.TB, name string) etcdreg.Config {
	t.Helper()
	files, err := natsauth.ClientCert(g.keys, name, time.Now())
	ok(t, err)
	return g.with(t, files)
}

func (g guarded) with(t testing.TB, files natsauth.Files) etcdreg.Config {
	t.Helper()
	c, err := natsauth.TLSOf(files)
	ok(t, err)
	return etcdreg.Config{Endpoints: []string{g.Endpoint()}, TLS: c, DialTimeout: time.Minute}
}

func open(t testing.TB, config etcdreg.Config) *etcdreg.Registry {
	t.Helper()
	r, err := etcdreg.Dial(t.Context(), config)
	ok(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

var people = map[string]struct {
	role bus.Role
	ids  bus.IDs
}{
	"node-1":   {bus.RoleAgentd, bus.IDs{Agents: []string{"a1", "a2"}}},
	"math":     {bus.RoleHub, bus.IDs{Domain: "math"}},
	"door-1":   {bus.RoleDoor, bus.IDs{}},
	"gate-1":   {bus.RoleGateway, bus.IDs{}},
	"treasury": {bus.RoleTreasury, bus.IDs{}},
	"operator": {bus.RoleOperator, bus.IDs{}},
	"dev":      {bus.RoleClient, bus.IDs{}},
	"eye":      {bus.RoleViewer, bus.IDs{}},
}

func users(t testing.TB) (all []etcdreg.User) {
	t.Helper()
	for name, p := range people {
		p.ids.Name = name
		access, err := bus.AccessOf(p.role, p.ids)
		ok(t, err)
		all = append(all, etcdreg.User{Name: name, Access: access})
	}
	return all
}

func (g guarded) admit(t testing.TB, users []etcdreg.User) {
	t.Helper()
	ok(t, etcdreg.Admit(t.Context(), g.as(t, natsauth.Root), users))
}

func (g guarded) name(t testing.TB, name string) *etcdreg.Registry {
	t.Helper()
	config := g.as(t, name)
	p := people[name]
	p.ids.Name = name
	access, err := bus.AccessOf(p.role, p.ids)
	ok(t, err)
	config.Probe = access.Probe()
	return open(t, config)
}

// Each role, at each key of the market and beside it, against what the table says in words of its own.
func TestRolesEndWhereTheirKeysDo(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	g := guard(t)
	keys := []string{
		"agents/a1", "agents/a2", "agents/a11", "agents/b", "claims/a1", "claims/b", "hubs/math",
		"hubs/maths", "hubs/law", "market/math", "market/maths", "market/law", "keys/k1", "prefixes",
		"prefixes2",
		"treasury", "treasury2", "doors/door-1", "doors/door-2", "gateways/gate-1", "gateways/gate-2",
		"other",
		"agents/", "claims/", "hubs/", "market/", "keys/",
		"doors/", "gateways/", "",
	}
	const base = "/souk/v1/"
	all := clientv3.PermissionType(clientv3.PermReadWrite)
	for _, key := range keys {
		if key != "" && !strings.HasSuffix(key, "/") {
			_, err := g.Client.Put(t.Context(), base+key, "x")
			ok(t, err)
		}
	}
	g.admit(t, users(t))
	table := map[string]struct{ writes, reads string }{
		"node-1": {"agents/a1 agents/a2", "claims/ claims/a1 claims/b"},
		"math": {"hubs/math claims/ claims/a1 claims/b",
			"agents/ agents/a1 agents/a2 agents/a11 agents/b market/math"},
		"door-1":   {"prefixes doors/door-1", "hubs/ hubs/math hubs/maths hubs/law"},
		"gate-1":   {"gateways/gate-1", "hubs/ hubs/math hubs/maths hubs/law keys/ keys/k1"},
		"treasury": {"treasury", "hubs/ hubs/math hubs/maths hubs/law"},
		"operator": {"market/ market/math market/maths market/law keys/ keys/k1",
			"agents/ agents/a1 agents/a2 agents/a11 agents/b claims/ claims/a1 claims/b treasury " +
				"hubs/ hubs/math hubs/maths hubs/law doors/ doors/door-1 doors/door-2 " +
				"gateways/ gateways/gate-1 gateways/gate-2"},
		"dev": {}, "eye": {}, "nobody": {},
	}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		client := g.raw(t, name)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		lease, err := client.Grant(ctx, 600)
		ok(t, err)
		row := table[name]
		writes, reads := strings.Fields(row.writes), strings.Fields(row.reads+" "+row.writes)
		for _, key := range keys {
			full, whole := base+key, clientv3.WithPrefix()
			below := key == "" || strings.HasSuffix(key, "/")
			var span []clientv3.OpOption
			if below {
				span = append(span, whole)
			}
			put := clientv3.OpPut(full, "y")
			tries := map[string]error{}
			_, tries["get"] = client.Get(ctx, full, span...)
			if !below {
				_, tries["put"] = client.Put(ctx, full, "y")
				_, tries["put under a lease"] = client.Put(ctx, full, "y", clientv3.WithLease(lease.ID))
				_, tries["put in a transaction"] = client.Txn(ctx).Then(put).Commit()
				never := clientv3.Compare(clientv3.CreateRevision(base+first(reads)), "<", 0)
				_, tries["put where a transaction fails"] = client.Txn(ctx).If(never).Else(put).Commit()
				_, tries["put within a transaction's own"] = client.Txn(ctx).
					Then(clientv3.OpTxn(nil, []clientv3.Op{put}, nil)).Commit()
			}
			_, tries["delete"] = client.Delete(ctx, full, span...)
			_, tries["compare"] = client.Txn(ctx).
				If(clientv3.Compare(clientv3.CreateRevision(full), ">", 0)).Commit()
			watch, stop := context.WithCancel(ctx)
			alone := clientv3.NewWatcher(client) // see Registry.changes
			for w := range alone.Watch(watch, full, append(span, clientv3.WithCreatedNotify())...) {
				tries["watch"] = w.Err()
				break
			}
			stop()
			ok(t, alone.Close())
			for what, err := range tries {
				may := slices.Contains(reads, key)
				if what != "get" && what != "watch" && what != "compare" {
					may = slices.Contains(writes, key)
				}
				if what == "compare" && below { // of the key that ends in "/", which nobody has
					continue
				}
				if what == "put where a transaction fails" && len(reads) == 0 {
					continue
				}
				if may && err != nil || !may && !refused(err) {
					t.Errorf("%s: %s %s: %v", name, what, key, err)
				}
			}
		}
		for what, err := range map[string]error{
			"list users":  second(client.UserList(ctx)),
			"make a user": second(client.UserAdd(ctx, "x", "y")),
			"make a role": second(client.RoleAdd(ctx, "x")),
			"be root":     second(client.UserGrantRole(ctx, name, "root")),
			"turn it off": second(client.AuthDisable(ctx)),
			"may more":    second(client.RoleGrantPermission(ctx, "souk-"+name, "/", "0", all)),
		} {
			if !refused(err) {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
		cancel()
	}
}

func first(reads []string) string {
	if len(reads) == 0 {
		return ""
	}
	return reads[0]
}

func second[T any](_ T, err error) error { return err }

func refused(err error) bool {
	return err != nil && (errors.Is(err, rpctypes.ErrPermissionDenied) ||
		errors.Is(err, rpctypes.ErrUserNotFound) || strings.Contains(err.Error(), "permission denied"))
}

// What each role does with the registry, it can.
func TestRolesDoTheirWork(t *testing.T) {
	g := guard(t)
	g.admit(t, users(t))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	node, hub, treasury := g.name(t, "node-1"), g.name(t, "math"), g.name(t, "treasury")
	door, gate, operator := g.name(t, "door-1"), g.name(t, "gate-1"), g.name(t, "operator")
	watch := func(r *etcdreg.Registry, key string) <-chan bus.Event {
		t.Helper()
		events, err := r.Watch(ctx, key)
		ok(t, err)
		state(t, events)
		return events
	}
	next := func(events <-chan bus.Event, want string) {
		t.Helper()
		e := bustest.Receive(t, want, events)
		if got := e.Key + "=" + string(e.Value); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	agents, settings := watch(hub, bus.AgentsPrefix), watch(hub, bus.MarketKey("math"))
	claims, doors := watch(node, bus.ClaimKey("a1")), watch(door, bus.HubsPrefix)
	keys, prefixes := watch(gate, bus.KeysPrefix), watch(door, bus.PrefixKeysKey)

	lease, err := node.Register(ctx, bus.AgentKey("a1"), []byte("one"), time.Minute)
	ok(t, err)
	next(agents, "/souk/v1/agents/a1=one")
	ok(t, lease.Update(ctx, []byte("two")))
	next(agents, "/souk/v1/agents/a1=two")
	l, err := hub.Elect(ctx, bus.HubKey("math"), []byte("h"), time.Minute)
	ok(t, err)
	next(doors, "/souk/v1/hubs/math=h")
	for range 2 {
		_, err = l.Claim(ctx, bus.ClaimKey("a1"), []byte("mine"))
		ok(t, err)
		next(claims, "/souk/v1/claims/a1=mine")
	}
	ok(t, l.Release(ctx, bus.ClaimKey("a1")))
	next(claims, "/souk/v1/claims/a1=")
	_, err = l.Claim(ctx, bus.ClaimKey("a1"), []byte("mine"))
	ok(t, err)
	next(claims, "/souk/v1/claims/a1=mine")
	if kvs, err := treasury.Get(ctx, bus.HubsPrefix); err != nil || len(kvs) != 1 {
		t.Errorf("the treasury sees %v, %v", kvs, err)
	}
	seat, err := treasury.Register(ctx, bus.TreasuryKey, []byte("t"), time.Minute)
	ok(t, err)
	ok(t, treasury.Evict(ctx, bus.TreasuryKey, []byte("t"))) // as its next life does
	closes(t, "the seat is lost", seat.Lost())
	led := watch(door, bus.LedPrefix)
	for range 2 {
		ok(t, hub.PutFor(ctx, bus.LedKey("math"), []byte("h"), time.Minute))
		next(led, "/souk/v1/led/math=h")
	}
	if err := hub.PutFor(ctx, bus.LedKey("code"), nil, time.Minute); !errors.Is(err, bus.ErrForbidden) {
		t.Errorf("a hub writes in another's name: %v", err)
	}
	for key, r := range map[string]*etcdreg.Registry{bus.DoorKey("door-1"): door,
		bus.GatewayKey("gate-1"): gate} {
		only, err := r.Register(ctx, key, []byte("one"), time.Minute)
		ok(t, err)
		ok(t, only.Close(ctx))
		if _, err := r.Register(ctx, key+"2", []byte("two"), time.Minute); !errors.Is(err, bus.ErrForbidden) {
			t.Errorf("beside %s: %v", key, err)
		}
	}
	ok(t, operator.Put(ctx, bus.MarketKey("math"), []byte("{}")))
	next(settings, "/souk/v1/market/math={}")
	ok(t, operator.Put(ctx, bus.APIKeyKey("k1"), []byte("k")))
	next(keys, "/souk/v1/keys/k1=k")
	ok(t, door.Swap(ctx, bus.PrefixKeysKey, 0, []byte("first"))) // whichever door comes first
	next(prefixes, "/souk/v1/prefixes=first")
	if err := door.Swap(ctx, bus.PrefixKeysKey, 0, []byte("second")); !errors.Is(err, bus.ErrExists) {
		t.Errorf("a door that comes later: %v", err)
	}
	ok(t, operator.Delete(ctx, bus.APIKeyKey("k1")))
	next(keys, "/souk/v1/keys/k1=")
	vouch := watch(treasury, bus.VouchPrefix)
	for range 2 {
		ok(t, door.PutFor(ctx, bus.VouchKey("door-1"), []byte("v"), time.Minute))
		next(vouch, "/souk/v1/vouch/door-1=v")
	}
	if kvs, err := door.Get(ctx, bus.VouchKey("door-1")); err != nil || len(kvs) != 1 {
		t.Errorf("a door sees its own key as %v, %v", kvs, err)
	}
	if err := door.PutFor(ctx, bus.VouchKey("door-2"), []byte("v"), time.Minute); !errors.Is(err,
		bus.ErrForbidden) {
		t.Errorf("a door vouches as another: %v", err)
	}
	for name, r := range map[string]*etcdreg.Registry{"a hub": hub, "a gateway": gate,
		"an operator": operator} {
		for _, key := range []string{bus.VouchKey("door-1"), bus.VouchPrefix} {
			if kvs, err := r.Get(ctx, key); !errors.Is(err, bus.ErrForbidden) {
				t.Errorf("%s reads what a door proves its word with: %v, %v", name, kvs, err)
			}
		}
		if err := r.PutFor(ctx, bus.VouchKey("door-1"), []byte("v"), time.Minute); !errors.Is(err,
			bus.ErrForbidden) {
			t.Errorf("%s vouches as a door: %v", name, err)
		}
	}

	// a hub's lease is nobody's to end but a hub's of its domain, and nobody can hang a key on it
	root, other := g.raw(t, natsauth.Root), g.raw(t, "node-1")
	leases, err := root.Leases(ctx)
	ok(t, err)
	for _, found := range leases.Leases {
		has, err := root.TimeToLive(ctx, found.ID, clientv3.WithAttachedKeys())
		ok(t, err)
		if len(has.Keys) != 2 { // the hub's own, and what it claims
			continue
		}
		if _, err := other.Revoke(ctx, found.ID); !refused(err) {
			t.Errorf("node-1 ends the hub's lease: %v", err)
		}
		if _, err := other.Put(ctx, bus.AgentKey("a2"), "x", clientv3.WithLease(found.ID)); !refused(err) {
			t.Errorf("node-1 hangs a key on the hub's lease: %v", err)
		}
		if _, err := other.TimeToLive(ctx, found.ID, clientv3.WithAttachedKeys()); !refused(err) {
			t.Errorf("node-1 sees what hangs on the hub's lease: %v", err)
		}
		ok(t, hub.Evict(ctx, bus.HubKey("math"), []byte("h")))
		closes(t, "the leadership is lost", l.Lost())
		next(claims, "/souk/v1/claims/a1=")
	}
	select {
	case <-l.Lost():
	default:
		t.Error("no lease has the hub's keys")
	}
	ok(t, lease.Close(ctx))
	next(agents, "/souk/v1/agents/a1=")
}

// raw is etcd's own client under a name.
func (g guarded) raw(t testing.TB, name string) *clientv3.Client {
	t.Helper()
	config := g.as(t, name)
	c, err := clientv3.New(clientv3.Config{Endpoints: config.Endpoints, TLS: config.TLS,
		Logger: zap.NewNop()})
	ok(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// Who is admitted changes under running processes; what others made in a shared etcd stays.
func TestAdmitChangesWhoMay(t *testing.T) {
	g := guard(t)
	root := g.raw(t, natsauth.Root)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := root.RoleAdd(ctx, "theirs")
	ok(t, err)
	_, err = root.UserAdd(ctx, "them", "secret")
	ok(t, err)
	g.admit(t, users(t))
	node := g.name(t, "node-1")
	ok(t, node.Put(ctx, bus.AgentKey("a1"), nil))
	if err := node.Put(ctx, bus.AgentKey("a3"), nil); !refused(err) {
		t.Fatalf("an agent of nobody: %v", err)
	}
	before, err := root.AuthStatus(ctx)
	ok(t, err)
	g.admit(t, users(t))
	if again, err := root.AuthStatus(ctx); err != nil || again.AuthRevision != before.AuthRevision {
		t.Errorf("what is as it was is made again: revision %d, then %d, %v", before.AuthRevision,
			again.AuthRevision, err)
	}

	moved := []etcdreg.User{{Name: "node-1", Access: bus.Access{Write: []string{bus.AgentKey("a3")}}}}
	g.admit(t, moved)
	ok(t, node.Put(ctx, bus.AgentKey("a3"), nil))
	for _, key := range []string{bus.AgentKey("a1"), bus.ClaimKey("a1")} {
		if _, err := node.Get(ctx, key); !refused(err) {
			t.Errorf("%s, which it may no more: %v", key, err)
		}
	}
	g.admit(t, nil) // by who knows of nobody
	ok(t, node.Put(ctx, bus.AgentKey("a3"), nil))
	gone := []etcdreg.User{{Name: "never", Gone: true}}
	for _, u := range users(t) {
		gone = append(gone, etcdreg.User{Name: u.Name, Gone: true})
	}
	g.admit(t, gone)
	if err := node.Put(ctx, bus.AgentKey("a3"), nil); !refused(err) {
		t.Errorf("a name that was taken away: %v", err)
	}
	names, err := root.UserList(ctx)
	ok(t, err)
	roles, err := root.RoleList(ctx)
	ok(t, err)
	slices.Sort(names.Users)
	if got := strings.Join(append(names.Users, roles.Roles...), " "); got != "root them theirs" {
		t.Errorf("left are %s", got)
	}
}

func TestAdmitSaysWhatIsWrong(t *testing.T) {
	g := guard(t)
	access := bus.Access{Read: []string{bus.KeysPrefix}}
	err := etcdreg.Admit(t.Context(), g.as(t, natsauth.Root),
		[]etcdreg.User{{Name: natsauth.Root, Access: access}})
	want(t, "the name root", err, "give another")
	g.admit(t, users(t))
	want(t, "who is not root", etcdreg.Admit(t.Context(), g.as(t, "operator"), users(t)), "souk auth list")
	want(t, "no endpoint", etcdreg.Admit(t.Context(), etcdreg.Config{}, nil), "no endpoint")
}

func want(t testing.TB, what string, err error, says string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: got %v, want %q", what, err, says)
	}
}

// Who is not let in is told why at once.
func TestWhoIsNotLetIn(t *testing.T) {
	g := guard(t)
	g.admit(t, users(t))
	_, made := natsauth.ServerCert(g.keys, nil, time.Now())
	ok(t, made)
	others := t.TempDir()
	stranger, err := natsauth.ClientCert(others, "door-1", time.Now())
	ok(t, err)
	mine := natsauth.ClientFiles(g.keys, "door-1")
	for _, c := range []struct {
		name   string
		config etcdreg.Config
		says   string
	}{
		{"nothing of TLS", etcdreg.Config{Endpoints: []string{g.Endpoint()}}, "market.cert"},
		{"no certificate", g.with(t, natsauth.Files{CA: mine.CA}), "certificate required"},
		{"another CA's", g.with(t, natsauth.Files{CA: mine.CA, Cert: stranger.Cert, Key: stranger.Key}),
			"see market.ca"},
		{"another CA believed", g.with(t, stranger), "unknown authority"},
		{"a name of nobody", g.as(t, "nobody"), "souk auth list"},
		{"a name of another role", g.as(t, "treasury"), "souk auth list"},
	} {
		if c.config.TLS == nil {
			c.config.DialTimeout = 300 * time.Millisecond
		}
		_, err := etcdreg.Dial(t.Context(), c.config)
		want(t, c.name, err, c.says)
	}

	files, err := natsauth.ServerCert(t.TempDir(), nil, time.Now())
	ok(t, err)
	s, err := embedded.StartEtcd(embedded.EtcdConfig{Dir: t.TempDir(), Listen: "127.0.0.9:0",
		TLS: files})
	ok(t, err)
	defer s.Close()
	config, err := natsauth.TLSOf(natsauth.Files{CA: files.CA})
	ok(t, err)
	_, err = etcdreg.Dial(t.Context(), etcdreg.Config{Endpoints: []string{s.Endpoint()}, TLS: config,
		DialTimeout: time.Minute})
	want(t, "a host that the certificate does not name", err, "not 127.0.0.9")
}

// The suite of a registry, by TLS and under a name.
func TestRegistryOverTLS(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	keeps(t, func(t *testing.T) network {
		g := guard(t)
		g.admit(t, []etcdreg.User{{Name: "all", Access: bus.Access{Write: []string{"/"}}}})
		return sockets{g.Etcd, map[string]*proxy.Proxy{}, g.as(t, "all").TLS}
	})
}
