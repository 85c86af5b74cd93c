package natsauth

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"souk/bus"
)

// daemon is some user who is not root, as services run.
const daemon = 4711

// An operator's commands run as root beside services that do not: whatever they write belongs to whoever has
// the folder, or the services could read their own keys no more, and would not start again.
func TestWhatRootWritesIsTheFoldersOwners(t *testing.T) {
	wanted := os.Getuid()
	data := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if wanted == 0 { // anybody else can write in its own folders alone
		wanted = daemon
		if err := os.Chown(data, daemon, daemon); err != nil {
			t.Fatal(err)
		}
	}
	owned := func(after string) {
		t.Helper()
		err := filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			if s := info.Sys().(*syscall.Stat_t); int(s.Uid) != wanted {
				t.Errorf("after %s: %s belongs to %d, want %d", after, path, s.Uid, wanted)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	keys, err := Init(Dir(data))
	if err != nil {
		t.Fatal(err)
	}
	owned("init")
	// it is made where it is missing
	if err := os.RemoveAll(filepath.Join(keys.Dir, certsDir)); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for _, who := range []bus.IDs{{Name: "dev"}, {Name: "alice"}} {
		if _, err := keys.Add(bus.RoleClient, who, now, Valid); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := keys.Add(bus.RoleOperator, bus.IDs{Name: "operator"}, now, Valid); err != nil {
		t.Fatal(err)
	}
	owned("add")
	if err := keys.Revoke("alice", now); err != nil {
		t.Fatal(err)
	}
	if _, _, err := keys.Renew("operator", nil, now, Valid); err != nil {
		t.Fatal(err)
	}
	if _, err := ServerCert(keys.Dir, []string{"market"}, now); err != nil {
		t.Fatal(err)
	}
	if err := keys.ServesAt("nats://127.0.0.1:4222"); err != nil {
		t.Fatal(err)
	}
	owned("revoke, renew and the servers' certificate")
}

// What is said of a name that cannot be had is true: whom to revoke is named where that helps, and there
// alone.
func TestWhatIsSaidOfATakenName(t *testing.T) {
	keys, now := store(t), time.Now()
	for _, u := range []struct {
		role bus.Role
		ids  bus.IDs
	}{{bus.RoleClient, bus.IDs{Name: "alice"}},
		{bus.RoleAgentd, bus.IDs{Name: "one", Agents: []string{"one"}}},
		{bus.RoleAgentd, bus.IDs{Name: "node", Agents: []string{"a"}}}} {
		if _, err := keys.Add(u.role, u.ids, now, Valid); err != nil {
			t.Fatal(err)
		}
	}
	for agent, wanted := range map[string]string{
		"alice": "for ever: choose another",
		"one":   "for ever: choose another",
		"a":     "or revoke that one first",
	} {
		ids := bus.IDs{Name: "other-" + agent, Agents: []string{agent}}
		if _, err := keys.Add(bus.RoleAgentd, ids, now, Valid); err == nil ||
			!strings.HasSuffix(err.Error(), wanted) {
			t.Errorf("agent %s: %v, want it to end in %q", agent, err, wanted)
		}
		owner := map[string]string{"alice": "alice", "one": "one", "a": "node"}[agent]
		if err := keys.Revoke(owner, now); err != nil {
			t.Fatal(err)
		}
		_, err := keys.Add(bus.RoleAgentd, ids, now, Valid)
		if helps := strings.Contains(wanted, "revoke"); helps != (err == nil) {
			t.Errorf("agent %s, once its owner is revoked: %v", agent, err)
		}
	}
}
