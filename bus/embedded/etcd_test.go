package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"
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
		if _, err := e.Client().Put(t.Context(), fmt.Sprint("/k/", i), strings.Repeat("v", 300)); err != nil {
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
