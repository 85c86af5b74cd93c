package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"souk/bus"
	"souk/bus/regular"
)

// On a full disk etcd panics while it starts. Whoever started it is told, and ends as after any other error.
func TestAPanicAtTheStartIsAnError(t *testing.T) {
	c := embed.NewConfig()
	c.Dir = t.TempDir()
	c.ZapLoggerBuilder = func(*embed.Config) error { panic("failed to create WAL") }
	if _, err := start(c); !errors.Is(err, errFiles) ||
		!strings.Contains(err.Error(), "failed to create WAL") || !strings.Contains(err.Error(), c.Dir) {
		t.Errorf("got %v", err)
	}
}

// A damaged database is an error that says so, not a panic on a goroutine of etcd's own.
func TestADamagedDatabase(t *testing.T) {
	dir := t.TempDir()
	e, err := StartEtcd(EtcdConfig{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if _, err := e.Client.Put(t.Context(), fmt.Sprint("/k/", i), strings.Repeat("v", 300)); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "etcd", "member", "snap", "db")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	garble := func(which func(i int, page []byte) bool) []byte {
		bad := slices.Clone(good)
		i := 0
		for p := range slices.Chunk(bad, page) {
			if which(i, p) {
				for at := range p {
					p[at] ^= 0x5a
				}
			}
			i++
		}
		return bad
	}
	for name, bad := range map[string][]byte{
		"head":      garble(func(i int, _ []byte) bool { return i < 2 }),
		"body":      garble(func(i int, _ []byte) bool { return i >= 2 }),
		"leaves":    garble(func(_ int, p []byte) bool { return bytes.Contains(p, []byte("vvvv")) }),
		"cut short": good[:4*page],
		"a stub":    good[:page+1],
	} {
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if e, err := StartEtcd(EtcdConfig{Dir: dir}); !errors.Is(err, errFiles) ||
			!strings.Contains(err.Error(), path+" is damaged") {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				e.Close()
			}
		}
	}
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	e, err = StartEtcd(EtcdConfig{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// An etcd whose quota is used up takes values again by itself, as soon as what was said earlier is let go of;
// also one that was stopped so.
func TestAQuotaThatIsUsedUpHeals(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	limits := DefaultEtcdLimits()
	limits.QuotaBytes, limits.GrowBytes, limits.WasteBytes = 8<<20, 1<<40, 1<<40 // nothing is let go of
	dir := t.TempDir()
	e, err := StartEtcd(EtcdConfig{Dir: dir, Limits: &limits})
	if err != nil {
		t.Fatal(err)
	}
	e.stop() // nobody tends it
	<-e.tended
	value := strings.Repeat("v", bus.MaxEntry)
	full := func() error {
		_, err := e.Client.Put(t.Context(), "/k", value)
		return err
	}
	for err == nil {
		err = full()
	}
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if e, err = StartEtcd(EtcdConfig{Dir: dir, Limits: &limits}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	for range 3 { // as it starts, and as it runs
		for end := time.Now().Add(20 * time.Second); full() != nil; {
			if time.Now().After(end) {
				t.Fatalf("it is still full: %v", full())
			}
		}
		for range 200 {
			full()
		}
	}
	if n := e.etcd.Server.Backend().Size(); n > 2*limits.QuotaBytes {
		t.Errorf("it has %d bytes", n)
	}
}

// Revisions are let go of by number, too, so that many small values fill nothing.
func TestRevisionsAreLetGoOf(t *testing.T) {
	limits := DefaultEtcdLimits()
	limits.Revisions = 100
	e, err := StartEtcd(EtcdConfig{Dir: t.TempDir(), Limits: &limits})
	if err != nil {
		t.Fatal(err)
	}
	for range 500 {
		if _, err := e.Client.Put(t.Context(), "/k", "v"); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(20 * time.Second); ; {
		_, err := e.Client.Get(t.Context(), "/k", clientv3.WithRev(10))
		if errors.Is(err, rpctypes.ErrCompacted) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("revision 10 is still there: %v", err)
		}
	}
	last, err := e.Client.Get(t.Context(), "/k")
	if err != nil || string(last.Kvs[0].Value) != "v" {
		t.Errorf("what it says now: %v, %v", last, err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// What stands in the place of its database and is no file is named, and nobody waits for it.
func TestADatabaseThatIsNoFile(t *testing.T) {
	for what, lay := range map[string]func(path string) error{
		"a pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a device": func(path string) error { return os.Symlink("/dev/zero", path) },
		"a folder": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "etcd", "member", "snap", "db")
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), lay(path)); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			e, err := StartEtcd(EtcdConfig{Dir: dir})
			if err == nil {
				err = errors.Join(e.Close(), errors.New("it runs"))
			}
			done <- err
		}()
		select {
		case err := <-done:
			if !errors.Is(err, regular.ErrNot) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: it hangs", what)
		}
	}
}

// A database whose log is gone, or is a link to itself, is named at once: etcd would begin another log beside
// it, and never come up.
func TestADatabaseWithoutItsLog(t *testing.T) {
	for name, damage := range map[string]func(log string) error{
		"gone": os.RemoveAll,
		"a link to itself": func(log string) error {
			return errors.Join(os.RemoveAll(log), os.Symlink(log, log))
		},
		"empty": func(log string) error { return errors.Join(os.RemoveAll(log), os.Mkdir(log, 0o700)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			e, err := StartEtcd(EtcdConfig{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			log := filepath.Join(dir, "etcd", "member", "wal")
			if err := damage(log); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			e, err = StartEtcd(EtcdConfig{Dir: dir, Listen: "127.0.0.1:0", OrAny: true})
			if err == nil {
				e.Close()
			}
			if err == nil || !strings.Contains(err.Error(), log) || time.Since(begun) > time.Minute {
				t.Errorf("after %v: %v", time.Since(begun), err)
			}
		})
	}
}
