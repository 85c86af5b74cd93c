package daemon

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/natsauth"
)

// Creds of one name beside the certificate of another end every daemon before it is connected to anything:
// etcd would take it for the one, and NATS for the other. Another CA's names need not be a market's.
func TestCredsAndCertificateAreOfOneName(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	dir := t.TempDir()
	keys, err := natsauth.Init(natsauth.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	must := func(path string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	now := time.Now()
	for _, c := range []struct {
		role bus.Role
		ids  bus.IDs
	}{{bus.RoleGateway, bus.IDs{Name: "g2"}},
		{bus.RoleAgentd, bus.IDs{Name: "node-2", Agents: []string{"a2"}}},
		{bus.RoleHub, bus.IDs{Name: "math", Domain: "math"}}, {bus.RoleDoor, bus.IDs{Name: "door-2"}},
		{bus.RoleTreasury, bus.IDs{Name: "treasury"}}} {
		creds := must(keys.Add(c.role, c.ids, now, time.Hour))
		must(keys.Add(bus.RoleGateway, bus.IDs{Name: "g1-" + c.ids.Name}, now, time.Hour))
		other := natsauth.ClientFiles(keys.Dir, "g1-"+c.ids.Name)
		own := natsauth.ClientFiles(keys.Dir, c.ids.Name)
		root, err := natsauth.ClientCert(keys.Dir, natsauth.Root, now)
		if err != nil {
			t.Fatal(err)
		}
		for _, cert := range []natsauth.Files{other, own, root} {
			path := write(t, fairFile+fmt.Sprintf("market: {nats: \"nats://127.0.0.1:1\", "+
				"etcd: [\"127.0.0.1:1\"], connect_within: 1s, creds: %q, ca: %q, cert: %q, key: %q}\n", creds,
				cert.CA, cert.Cert, cert.Key))
			role := fairRole(func(ctx context.Context, p *Process, cfg *fair) error {
				_, err := p.Connect(ctx, cfg.Market, c.role, c.ids)
				return err
			})
			var log bustest.Buffer
			code := Run(t.Context(), Command(role), []string{"--config", path}, io.Discard, &log)
			says := "did not answer"
			if cert == other {
				says = fmt.Sprintf("market.creds: %s is of %s, and market.cert: %s of g1-%s: one process has one "+
					"name", creds, c.ids.Name, filepath.Clean(other.Cert), c.ids.Name)
			}
			if code != ExitWrong || !strings.Contains(log.String(), says) {
				t.Errorf("%s with %s: exit code %d, want %q: %s", creds, cert.Cert, code, says, &log)
			}
		}
	}
}
