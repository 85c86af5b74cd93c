package journal

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"souk/bus/life"
)

// A backup is copied over the files of a living journal, as cp -a does: they stay the files that they were,
// with what they had then. The writer notices within a second, and takes nothing more: what it wrote since
// the backup is gone, and what it would write no start would read.
func TestABackupCopiedIntoALivingJournal(t *testing.T) {
	for name, over := range map[string]string{"all of it": ".", "segments alone": "wal"} {
		t.Run(name, func(t *testing.T) {
			dir, backup := filepath.Join(t.TempDir(), "j"), filepath.Join(t.TempDir(), "backup")
			j, err := Open(dir, Config{MinFree: -1, now: ticking()})
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			mustAppend(t, j, still(1))
			cp := func(from, to string) {
				t.Helper()
				if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			cp(dir, backup)
			mustAppend(t, j, still(2))
			before, err := os.Stat(filepath.Join(dir, "LOCK"))
			try(t, err)
			cp(filepath.Join(backup, over)+"/.", filepath.Join(dir, over))
			after, err := os.Stat(filepath.Join(dir, "LOCK"))
			if err != nil || !os.SameFile(before, after) {
				t.Fatal("it is another file: the test sees nothing")
			}
			if err := j.Append(still(3)); !errors.Is(err, life.ErrReplaced) {
				t.Errorf("a frame is taken: %v", err)
			}
		})
	}
}
