package main

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/embedded"
	"souk/bus/etcdreg"
	"souk/bus/natsauth"
)

// An etcd that somebody else runs is told by souk auth who may use it, and who may no more.
func TestAuthTellsEtcd(t *testing.T) {
	data := t.TempDir()
	auth := func(args ...string) error {
		c := root()
		c.SetArgs(append([]string{"auth", "--data", data}, args...))
		c.SetOut(io.Discard)
		c.SetErr(io.Discard)
		return c.ExecuteContext(t.Context())
	}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SOUK_MARKET_ETCD", "")
	ok(auth("init", "--hosts", "etcd-1,192.0.2.9"))
	keys := natsauth.Dir(data)
	etcd, err := embedded.StartEtcd(embedded.EtcdConfig{Dir: t.TempDir(), Listen: "127.0.0.1:0",
		TLS: natsauth.ServerFiles(keys)})
	ok(err)
	defer etcd.Close()
	ok(auth("add", "hub", "math", "--etcd", etcd.Endpoint()))
	t.Setenv("SOUK_MARKET_ETCD", etcd.Endpoint())
	ok(auth("add", "gateway", "gate"))
	probes := map[string]string{"math": bus.AgentsPrefix, "gate": bus.KeysPrefix, "other": bus.KeysPrefix}
	as := func(name string) *etcdreg.Registry {
		t.Helper()
		secure, err := natsauth.TLSOf(natsauth.ClientFiles(keys, name))
		ok(err)
		r, err := etcdreg.Dial(t.Context(), etcdreg.Config{Endpoints: []string{etcd.Endpoint()}, TLS: secure,
			Probe: probes[name]})
		ok(err)
		t.Cleanup(func() { r.Close() })
		return r
	}
	hub, gate := as("math"), as("gate")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ok(hub.Put(ctx, bus.HubKey("math"), nil))
	if err := gate.Put(ctx, bus.HubKey("math"), nil); err == nil ||
		!strings.Contains(err.Error(), "permission denied") {
		t.Errorf("a gateway writes the hub's key: %v", err)
	}
	older := filepath.Join(t.TempDir(), "data")
	ok(exec.Command("cp", "-a", data, older).Run())
	ok(auth("add", "gateway", "other"))
	newest := data
	data = older
	ok(auth("init")) // it knows nothing of other, and leaves that alone
	data = newest
	_, err = as("other").Get(ctx, bus.KeysPrefix)
	ok(err)
	_ = auth("revoke", "gate") // no server of NATS is told, which it says
	if _, err := gate.Get(ctx, bus.KeysPrefix); err == nil {
		t.Error("who was revoked may read on")
	}
	ok(hub.Put(ctx, bus.HubKey("math"), nil))

	// An older copy of the keys lets nobody in again, and takes nobody's rights away who came since.
	data = older
	if err := auth("init"); !errors.Is(err, natsauth.ErrOlderKeys) ||
		!strings.Contains(err.Error(), "1 revocations that they lack") {
		t.Errorf("an older copy of the keys is believed: %v", err)
	}
	if _, err := gate.Get(ctx, bus.KeysPrefix); err == nil {
		t.Error("an older copy of the keys lets in who was revoked")
	}
	_, err = as("other").Get(ctx, bus.KeysPrefix)
	ok(err)
	data = newest
	ok(auth("init"))
	ok(auth("renew", "gate"))
	_, err = as("gate").Get(ctx, bus.KeysPrefix)
	ok(err)
	data = older
	if err := auth("init"); !errors.Is(err, natsauth.ErrOlderKeys) {
		t.Errorf("an older copy of the keys is believed once who was revoked is in again: %v", err)
	}
}
