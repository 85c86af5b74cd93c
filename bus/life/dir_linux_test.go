package life

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// take opens a directory as a process does that then lives on.
func take(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := Take(path)
	if err != nil {
		t.Fatal(err)
	}
	d.Begin("0", true)
	t.Cleanup(func() { d.Close() })
	return d
}

// copyOf copies a directory with everything in it, as backups do.
func copyOf(t *testing.T, path string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	cp(t, "-a", path, to)
	return to
}

func cp(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("cp", args...).CombinedOutput(); err != nil {
		t.Fatalf("cp %v: %v: %s", args, err, out)
	}
}

func ended(t *testing.T, d *Dir, life string) bool {
	t.Helper()
	is, why := d.Ended(life)
	if is == (why != "") {
		t.Fatalf("ended %v, for %q", is, why)
	}
	return is
}

// Who opens a directory again knows that whoever had it before has ended, and nobody else.
func TestADirectoryThatIsOpenedAgain(t *testing.T) {
	path := t.TempDir()
	first := take(t, path)
	if first.Moved() || first.lived {
		t.Error("a new directory is an old one")
	}
	if _, err := Take(path); !errors.Is(err, ErrTaken) || !strings.Contains(err.Error(), "process ") {
		t.Errorf("a second one: %v", err)
	}
	if ended(t, first, first.Life()) || ended(t, first, "") {
		t.Error("one that lives has ended")
	}
	lives := []string{first.Life()}
	for range 2 * maxLives {
		first.Close()
		first = take(t, path)
		if first.Moved() || !first.lived {
			t.Error("it moved, and stayed where it was")
		}
		for i, life := range lives {
			if known := len(lives)-i <= maxLives; ended(t, first, life) != known {
				t.Errorf("after %d lives the one %d back is known: %v", len(lives), len(lives)-i, !known)
			}
		}
		lives = append(lives, first.Life())
	}
	if other := take(t, t.TempDir()); ended(t, other, lives[len(lives)-1]) {
		t.Error("a directory knows another's lives")
	}
}

// A copy names the lives of its original, and is no proof that one of them has ended: not while it lives, and
// not when it has ended either, since a later one of the original may live.
func TestACopyProvesNothing(t *testing.T) {
	path := t.TempDir()
	dead := take(t, path)
	dead.Close()
	living := take(t, path)
	for range 20 {
		twin := take(t, copyOf(t, path))
		for _, life := range []string{dead.Life(), living.Life()} {
			if is, why := twin.Ended(life); is || !strings.Contains(why, "LOCK is another file") {
				t.Fatalf("a copy takes a life of its original for ended: %v, %s", is, why)
			}
		}
		if !twin.Moved() {
			t.Error("a copy does not know that it is one")
		}
		if again := twin.Life(); func() bool { twin.Close(); return !ended(t, take(t, twin.path), again) }() {
			t.Error("a copy does not know its own lives")
		}
	}
	living.Close()
	if next := take(t, path); !ended(t, next, living.Life()) || next.Moved() {
		t.Error("the original does not know its lives any more")
	}
}

// An older copy that is written over the files, which stay the same files, is known by the moment at which
// that was done. Whoever was there has ended all the same, since the lock on this very file is ours.
func TestACopyWrittenOverTheOriginal(t *testing.T) {
	path := t.TempDir()
	first := take(t, path)
	old := copyOf(t, path)
	first.Close()
	if again := take(t, path); again.Moved() {
		t.Error("nothing was done yet")
	} else {
		again.Close()
	}
	cp(t, "-a", old+"/.", path)
	d := take(t, path)
	if !d.Moved() {
		t.Error("an old copy that was written over the original is taken for it")
	}
	if !ended(t, d, first.Life()) {
		t.Error("its life is not known to have ended")
	}
}

// A hard link to LOCK is the same file: it keeps the second out, and proves what the first would.
func TestHardLinks(t *testing.T) {
	path := t.TempDir()
	living := take(t, path)
	twin := filepath.Join(t.TempDir(), "twin")
	cp(t, "-al", path, twin)
	if _, err := Take(twin); !errors.Is(err, ErrTaken) {
		t.Errorf("beside one that lives: %v", err)
	}
	living.Close()
	second := take(t, twin)
	if !ended(t, second, living.Life()) {
		t.Error("the lock is the same, and proves nothing")
	}
	second.Close()
	// the twin may have written since, elsewhere
	if third := take(t, path); !third.Moved() || ended(t, third, second.Life()) {
		t.Error("what was done under another name is not noticed")
	}
}

// A bind mount shows the same file elsewhere.
func TestABindMount(t *testing.T) {
	path, at := t.TempDir(), t.TempDir()
	if err := syscall.Mount(path, at, "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("nothing can be mounted here: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(at, syscall.MNT_DETACH) })
	living := take(t, path)
	if _, err := Take(at); !errors.Is(err, ErrTaken) {
		t.Errorf("beside one that lives: %v", err)
	}
	living.Close()
	if d := take(t, at); !ended(t, d, living.Life()) || d.Moved() {
		t.Error("the same file, shown elsewhere, proves nothing")
	}
}

// A directory is deleted and made anew from a copy. As long as the old LOCK is open, no new one has its
// inode; after that one may, and was born later.
func TestAnInodeThatIsUsedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	living := take(t, path)
	l, err := Parse(living.Life())
	if err != nil || l.ID[2] == 0 {
		t.Skipf("this file system does not tell births: %v, %v", living.Life(), err)
	}
	lives, err := os.ReadFile(filepath.Join(path, "LIVES"))
	if err != nil {
		t.Fatal(err)
	}
	again := func() *Dir {
		t.Helper()
		for _, err := range []error{os.RemoveAll(path), os.Mkdir(path, 0o700),
			os.WriteFile(filepath.Join(path, "LIVES"), lives, 0o600)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		d, err := Take(path)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for range 100 {
		d := again()
		if d.own.ID[1] == l.ID[1] {
			t.Fatal("an inode that is open is another file's")
		}
		if is, why := d.Ended(living.Life()); is || !strings.Contains(why, "LOCK is another file") {
			t.Fatalf("one that holds the lock of a deleted file has ended: %v, %s", is, why)
		}
		d.Close()
	}
	living.Close()
	for range 1000 {
		d := again()
		is, _ := d.Ended(living.Life())
		if !d.Moved() || is {
			t.Fatalf("a directory that was made anew: moved %v, ended %v", d.Moved(), is)
		}
		if same := d.own.ID[1] == l.ID[1]; d.Close() == nil && same {
			return
		}
	}
	t.Log("no inode was used again")
}

// What another machine, boot or file had is no proof, and what cannot be read is none.
func TestLivesFromElsewhere(t *testing.T) {
	path := t.TempDir()
	d := take(t, path)
	strange := strings.Repeat("A", digestLen)
	for want, change := range map[string]func(*Life){
		"another machine":       func(l *Life) { l.Machine = strange },
		"started anew":          func(l *Life) { l.Boot = strange },
		"LOCK is another file":  func(l *Life) { l.ID[1]++ },
		"LOCK is another file ": func(l *Life) { l.ID[0]++ },
		"was made anew":         func(l *Life) { l.ID[2]++ },
		"is a copy":             func(l *Life) { l.ID = [3]uint64{} },
		"does not say":          func(l *Life) { *l = Life{Name: l.Name} },
	} {
		own := d.own
		change(&own)
		line := []byte(own.String() + " 0 0\n")
		if err := os.WriteFile(filepath.Join(path, "LIVES"), line, 0o600); err != nil {
			t.Fatal(err)
		}
		d.Close()
		d = take(t, path)
		if is, why := d.Ended(own.String()); is || !strings.Contains(why, strings.TrimSpace(want)) {
			t.Errorf("%s: ended %v, %q", want, is, why)
		}
		if !d.Moved() {
			t.Errorf("%s: it has not moved", want)
		}
	}
	for name, text := range hostile {
		if err := os.WriteFile(filepath.Join(path, "LIVES"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		d.Close()
		d = take(t, path)
		for word := range strings.FieldsSeq(text) {
			if ended(t, d, word) {
				t.Errorf("%s: %q is proof", name, word)
			}
		}
		if ended(t, d, text) || !d.Moved() {
			t.Errorf("%s is taken for something", name)
		}
	}
	// What is no file is not read, and keeps nobody from beginning.
	lives := filepath.Join(path, "LIVES")
	for name, make := range map[string]func() error{
		"a directory": func() error { return os.MkdirAll(filepath.Join(lives, "in the way"), 0o700) },
		"a pipe":      func() error { return syscall.Mkfifo(lives, 0o600) },
		"a link":      func() error { return os.Symlink("/dev/zero", lives) },
		"too large":   func() error { return os.WriteFile(lives, make([]byte, maxLIVES+1), 0o600) },
	} {
		for _, err := range []error{os.RemoveAll(lives), make()} {
			if err != nil {
				t.Fatal(err)
			}
		}
		d.Close()
		if d = take(t, path); !d.Moved() || !d.lived || len(d.past) > 0 {
			t.Errorf("%s is read: moved %v, lives %q", name, d.Moved(), d.past)
		}
	}
	for _, err := range []error{d.Close(), os.RemoveAll(filepath.Join(path, "LOCK")),
		syscall.Mkfifo(filepath.Join(path, "LOCK"), 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Take(path); err == nil || !strings.Contains(err.Error(), "LOCK is a named pipe, not a file") {
		t.Errorf("a pipe as LOCK: %v", err)
	}
}

// What stands behind a line that is none still counts, and the last line alone says whether it moved.
func TestALineThatIsNone(t *testing.T) {
	path := t.TempDir()
	d := take(t, path)
	first := d.Life()
	lives := filepath.Join(path, "LIVES")
	text, err := os.ReadFile(lives)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text  string
		moved bool
	}{{"\xff\x00../../etc\n" + string(text), false}, {string(text) + "torn", true}} {
		d.Close()
		if err := os.WriteFile(lives, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		// a writer of LIVES alone does not change LOCK
		at, err := Take(path)
		if err != nil {
			t.Fatal(err)
		}
		knows := slices.ContainsFunc(at.past, func(e entry) bool { return e.life == first })
		if !knows || at.Moved() != c.moved || !ended(t, at, first) {
			t.Errorf("%q: lives %q, moved %v", c.text, at.past, at.Moved())
		}
		d = at
	}
	d.Close()
}

// A machine is named by its id, and a container that has none by its host name. No container is another, nor
// a machine that has its name; where the system says too little, nothing is proven.
func TestWhereALifeIs(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if text == "" {
			return path
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const id, other = "3d1219c7c4c5404aaa1f6d2a48adfda4", "3d1219c7c4c5404aaa1f6d2a48adfda5"
	seen := map[string]string{}
	for _, c := range []struct{ name, machine, boot, host string }{
		{"a machine", id, "b-1", "h"}, {"its copy", other, "b-1", "h"}, {"started anew", id, "b-2", "h"},
		{"a container", "", "b-1", "h"}, {"another", "", "b-1", "h-2"},
		{"one named as a machine", "", "b-1", id},
		{"not made yet", "uninitialized\n", "b-1", "h-3"},
		{"zeros", strings.Repeat("0", 32), "b-1", "h-4"},
		{"no boot", id, "", "h"}, {"no name", "", "b-1", ""},
	} {
		machine, boot := where(file(c.name+".machine", c.machine), file(c.name+".boot", c.boot),
			func() (string, error) { return c.host, nil })
		known := c.boot != "" && (c.host != "" || c.machine != "")
		if known != (machine != "" && boot != "") {
			t.Errorf("%s is at %q, %q", c.name, machine, boot)
		} else if at := machine + "." + boot; known {
			if same := seen[at]; same != "" {
				t.Errorf("%s is where %s is", c.name, same)
			}
			seen[at] = c.name
		}
		if strings.Contains(machine, id) || strings.Contains(boot, "b-") {
			t.Errorf("%s tells what it is: %s, %s", c.name, machine, boot)
		}
	}
	if machine, boot := here(); !plain(machine, digestLen) || !plain(boot, digestLen) {
		t.Errorf("this one is at %q, %q", machine, boot)
	}
}
