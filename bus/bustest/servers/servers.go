// Package servers starts a NATS and an etcd server for a test of a command.
package servers

import (
	"testing"

	"souk/bus/embedded"
)

// Start starts both on free ports, until the test ends.
func Start(t testing.TB) (*embedded.NATS, *embedded.Etcd) {
	t.Helper()
	nats, err := embedded.StartNATS(embedded.NATSConfig{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nats.Close)
	etcd, err := embedded.StartEtcd(embedded.EtcdConfig{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { etcd.Close() })
	return nats, etcd
}
