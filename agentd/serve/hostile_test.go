package serve

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A node whose directory holds what is no file starts at once, or says at once what is in its way.
func TestWhatStandsInASpoolsPlace(t *testing.T) {
	for _, l := range []struct {
		what string
		lay  func(path string) error
	}{
		{"a pipe", func(path string) error { return syscall.Mkfifo(path, 0o600) }},
		{"a device", func(path string) error { return os.Symlink("/dev/zero", path) }},
		{"a terabyte", func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40))
		}},
	} {
		for _, name := range []string{"a.spool", "a.spool.new", "a.spool.damaged", "LIVES", "LOCK"} {
			home, err := OpenHome(t.TempDir(), "node")
			if err != nil {
				t.Fatal(err)
			}
			dir := home.dir
			data, node := filepath.Dir(filepath.Dir(dir)), "node"
			if err := home.Close(); err != nil {
				t.Fatal(err)
			}
			if name == "a.spool.damaged" { // one that is damaged is kept there
				err := os.WriteFile(filepath.Join(dir, "a.spool"), []byte("no spool\n"), 0o600)
				if err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(dir, name)
			os.Remove(path)
			if err := l.lay(path); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() {
				home, err := OpenHome(data, node)
				if err != nil {
					done <- err
					return
				}
				s, _, _, err := home.Spool("a", 10)
				if err == nil {
					err = s.Close()
				}
				done <- errors.Join(err, home.Close())
			}()
			select {
			case err := <-done:
				if err != nil && !strings.Contains(err.Error(), name) {
					t.Errorf("%s as %s: it is not named: %v", l.what, name, err)
				}
				inTheWay := name == "a.spool" || name == "LOCK" && l.what != "a terabyte"
				if (err != nil) != inTheWay {
					t.Errorf("%s as %s: %v", l.what, name, err)
				}
			case <-time.After(time.Minute):
				t.Errorf("%s as %s: it hangs", l.what, name)
			}
		}
	}
}
