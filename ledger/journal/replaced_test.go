package journal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"souk/bus/life"
)

// While a journal is written, a copy is put in its place, or it is moved away. The writer goes on in files
// that no name leads to: so it takes nothing more, a second later at most, and writes nothing beside a copy.
func TestACopyPutInThePlaceOfALivingJournal(t *testing.T) {
	for name, put := range map[string]func(t *testing.T, backup, dir string){
		"all files, one by one": func(t *testing.T, backup, dir string) { overwrite(t, backup, dir, true) },
		"segments, one by one": func(t *testing.T, backup, dir string) {
			overwrite(t, filepath.Join(backup, "wal"), filepath.Join(dir, "wal"), true)
		},
		"the segments' directory": func(t *testing.T, backup, dir string) {
			try(t, os.RemoveAll(filepath.Join(dir, "wal")))
			overwrite(t, filepath.Join(backup, "wal"), filepath.Join(dir, "wal"), true)
		},
		"the directory": func(t *testing.T, backup, dir string) {
			try(t, os.Rename(dir, dir+".away"))
			overwrite(t, backup, dir, true)
		},
		"nothing": func(t *testing.T, _, dir string) { try(t, os.Rename(dir, dir+".away")) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, backup := filepath.Join(t.TempDir(), "j"), filepath.Join(t.TempDir(), "backup")
			j, err := Open(dir, Config{MinFree: -1, now: ticking()})
			if err != nil {
				t.Fatal(err)
			}
			mustAppend(t, j, still(1))
			overwrite(t, dir, backup, true)
			mustAppend(t, j, still(2))
			put(t, backup, dir)
			was, _ := os.ReadFile(filepath.Join(dir, "LIVES"))
			err = j.Append(still(3))
			const want = "where the newest journal is"
			if !errors.Is(err, life.ErrReplaced) || !strings.Contains(err.Error(), want) {
				t.Errorf("a frame is taken: %v", err)
			}
			if again := j.Append(still(3)); again == nil {
				t.Error("another is taken")
			}
			try(t, j.Close())
			if now, _ := os.ReadFile(filepath.Join(dir, "LIVES")); name != "segments, one by one" &&
				name != "the segments' directory" && string(now) != string(was) {
				t.Errorf("beside the copy is written %q, where there was %q", now, was)
			}
		})
	}
}

// A directory that is moved away and back is what it was.
func TestAJournalThatIsMovedAwayAndBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "j")
	j, err := Open(dir, Config{MinFree: -1, now: ticking()})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	mustAppend(t, j, frame(1, 10))
	try(t, os.Rename(dir, dir+".away"), os.Rename(dir+".away", dir))
	f := frame(2, 10)
	f.Time += 10 * int64(time.Second)
	mustAppend(t, j, f)
}
