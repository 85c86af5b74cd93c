package daemon

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/embedded"
	"souk/bus/etcdreg"
	"souk/bus/natsauth"
)

// A daemon reaches NATS and etcd by TLS, as the name in its certificate; and where it cannot, it says why.
func TestAMarketByTLS(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	keys, now := t.TempDir(), time.Now()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, made := natsauth.ServerCert(keys, nil, now.Add(-2*natsauth.CertLife))
	ok(made)
	server, err := natsauth.ServerCert(keys, nil, now)
	ok(err)
	pair, err := tls.LoadX509KeyPair(server.Cert, server.Key)
	ok(err)
	nats, err := embedded.StartNATS(embedded.NATSConfig{Listen: "127.0.0.1:0",
		TLS: &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}}})
	ok(err)
	defer nats.Close()
	etcd, err := embedded.StartEtcd(embedded.EtcdConfig{Dir: t.TempDir(), Listen: "127.0.0.1:0",
		TLS: server})
	ok(err)
	defer etcd.Close()
	cert := func(name string, now time.Time) natsauth.Files {
		t.Helper()
		files, err := natsauth.ClientCert(keys, name, now)
		ok(err)
		return files
	}
	root, err := natsauth.TLSOf(cert(natsauth.Root, now))
	ok(err)
	access, err := bus.AccessOf(bus.RoleHub, bus.IDs{Name: "math", Domain: "math"})
	ok(err)
	ok(etcdreg.Admit(t.Context(), etcdreg.Config{Endpoints: []string{etcd.Endpoint()}, TLS: root},
		[]etcdreg.User{{Name: "math", Access: access}}))

	stranger, err := natsauth.ClientCert(t.TempDir(), "math", now)
	ok(err)
	open := cert("open", now)
	ok(os.Chmod(open.Key, 0o644))
	good := cert("math", now)
	for _, c := range []struct {
		name  string
		files natsauth.Files
		says  string // "" where it is let in
	}{
		{"a hub", good, ""},
		{"another name", cert("law", now), "souk auth list"},
		{"no certificate", natsauth.Files{CA: good.CA}, "market.cert"},
		{"no CA", natsauth.Files{Cert: good.Cert, Key: good.Key}, "unknown authority"},
		{"another CA's certificate", natsauth.Files{CA: good.CA, Cert: stranger.Cert, Key: stranger.Key},
			"see market.ca, market.cert and market.key"},
		{"another CA", stranger, "unknown authority"},
		{"an expired certificate", cert("late", now.Add(-natsauth.CertLife-time.Hour)),
			"late.pem has expired"},
		{"a certificate before its time", cert("early", now.Add(3*time.Hour)), "set its clock"},
		{"a key for everybody", open, "chmod 600"},
		{"a key that is not there", natsauth.Files{CA: good.CA, Cert: good.Cert,
			Key: filepath.Join(keys, "none")}, "market.cert: open"},
	} {
		came := false
		role := fairRole(func(ctx context.Context, p *Process, cfg *fair) error {
			l, err := p.Connect(ctx, cfg.Market, bus.RoleHub,
				bus.IDs{Name: "fair", Domain: "fair"})
			if err != nil {
				return err
			}
			_, err = l.Registry.Get(ctx, bus.AgentsPrefix)
			came = err == nil
			return l.Close()
		})
		var log bustest.Buffer
		code := 0
		// Who is refused tries again until its time is over. On a busy machine a second may bring no word.
		for _, within := range []string{"1s", "20s"} {
			path := write(t, fairFile+fmt.Sprintf("market: {nats: %q, etcd: [%q], connect_within: %s, ca: %q, "+
				"cert: %q, key: %q}\n", nats.URL, etcd.Endpoint(), within, c.files.CA, c.files.Cert,
				c.files.Key))
			code = Run(t.Context(), Command(role), []string{"--config", path}, io.Discard, &log)
			if came || c.says != "" && strings.Contains(log.String(), c.says) {
				break
			}
		}
		if c.says == "" && (code != ExitOK || !came) {
			t.Errorf("%s: exit code %d: %s", c.name, code, &log)
		}
		if c.says != "" && (code != ExitWrong || !strings.Contains(log.String(), c.says)) {
			t.Errorf("%s: exit code %d, want %q: %s", c.name, code, c.says, &log)
		}
	}
}
