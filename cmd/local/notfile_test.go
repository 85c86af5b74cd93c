//go:build unix

package local

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"souk/bus/membus"
	"souk/bus/natsauth"
	"souk/bus/regular"
)

// What stands in the place of the first key, or of the directory of secrets, and is none is named as what it
// is: to change its mode would not help.
func TestWhatIsNoFileIsNamed(t *testing.T) {
	path := t.TempDir()
	d, err := OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	m := &Market{dir: d}
	key := d.Key(FirstClient)
	if err := os.MkdirAll(filepath.Dir(key), 0o700); err != nil {
		t.Fatal(err)
	}
	auth := filepath.Join(path, "auth")
	for _, at := range []string{key, auth} {
		if err := errors.Join(syscall.Mkfifo(at, 0o600), os.Chmod(at, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	err = m.firstKey(t.Context(), membus.New(1).Registry())
	if !errors.Is(err, regular.ErrNot) || !strings.Contains(err.Error(), key+" is a named pipe") ||
		strings.Contains(err.Error(), "chmod") {
		t.Errorf("the key: %v", err)
	}
	_, err = natsauth.Open(auth)
	if err == nil || !strings.Contains(err.Error(), auth+" is a named pipe") ||
		strings.Contains(err.Error(), "chmod") {
		t.Errorf("the secrets: %v", err)
	}
}
