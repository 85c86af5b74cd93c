package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"souk/bus/regular"
)

// Wherever a file of its may stand, a pipe, a device or gigabytes that nobody wrote are named: etcd would
// wait for a pipe for ever, and make room on the disk for all of a segment.
func TestWhatIsNoFileOfEtcds(t *testing.T) {
	first := filepath.Join("etcd", "member", "wal", "0000000000000000-0000000000000000.wal")
	pipe := func(path string) error { return syscall.Mkfifo(path, 0o600) }
	for _, x := range []struct {
		path string
		lay  func(path string) error
		want error
	}{
		{"souk.lock", pipe, regular.ErrNot},
		{first, pipe, regular.ErrNot},
		{first, func(path string) error { return os.Symlink("/dev/zero", path) }, regular.ErrNot},
		{first, func(path string) error { return os.Truncate(path, 1<<30) }, regular.ErrLong},
		{filepath.Join("etcd", "member", "wal", "0.tmp"), pipe, regular.ErrNot},
		{filepath.Join("etcd", "member", "snap", "db"),
			func(path string) error { return os.Truncate(path, 1<<40) }, regular.ErrLong},
	} {
		dir := t.TempDir()
		e, err := StartEtcd(EtcdConfig{Dir: dir})
		if err == nil {
			err = e.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, x.path)
		if x.want == regular.ErrNot {
			os.Remove(path)
		}
		if err := x.lay(path); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			e, err := StartEtcd(EtcdConfig{Dir: dir})
			if err == nil {
				err = errors.New("it runs")
				go e.Close()
			}
			done <- err
		}()
		select {
		case err := <-done:
			if !errors.Is(err, x.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %v", x.path, err)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: it hangs", x.path)
		}
	}
}
