package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Every command that reads journals ends with 3, at once and in little memory, where a file of one is no file
// or is a terabyte long, and names it.
func TestCommandsOnHostileFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	segment := filepath.Join("wal", "0000000000000000-0000000000000000.wal")
	laid := []struct {
		what string
		lay  func(path string) error
	}{
		{"a pipe", func(path string) error { return syscall.Mkfifo(path, 0o600) }},
		{"a socket", func(path string) error { return syscall.Mknod(path, syscall.S_IFSOCK|0o600, 0) }},
		{"a directory", func(path string) error { return os.Mkdir(path, 0o700) }},
		{"a loop", func(path string) error { return os.Symlink(filepath.Base(path), path) }},
		{"a device", func(path string) error { return os.Symlink("/dev/zero", path) }},
		{"a terabyte", func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40))
		}},
	}
	for _, place := range []string{segment, "wal"} {
		for _, l := range laid {
			if place == "wal" && l.what == "a directory" {
				continue // of a journal that was never begun
			}
			data := t.TempDir()
			if err := writeMarket(data, 3, ""); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(data, "journal", "hub-maths", place)
			if err := errors.Join(os.RemoveAll(path), l.lay(path)); err != nil {
				t.Fatal(err)
			}
			for _, args := range []string{"check", "check --level 0", "bal", "reg client:*", "print", "stats",
				"tail", "trace hub-maths/1/0", "trace ann/t1", "round 1", "round 1 --explain"} {
				var said bytes.Buffer
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				code := make(chan int, 1)
				go func() {
					all := append(strings.Fields(args), "--data", data)
					code <- Run(context.Background(), "v1", all, &said, &said)
				}()
				select {
				case c := <-code:
					runtime.ReadMemStats(&after)
					if n := after.TotalAlloc - before.TotalAlloc; c != ExitDamaged || n > 256<<20 ||
						!strings.Contains(said.String(), filepath.Base(place)) {
						t.Errorf("%s in place of %s: ledger %s: exit %d, %d MB, want 3: %s", l.what, place,
							args, c, n>>20, &said)
					}
				case <-time.After(time.Minute):
					t.Fatalf("%s in place of %s: ledger %s hangs", l.what, place, args)
				}
			}
		}
	}
}
