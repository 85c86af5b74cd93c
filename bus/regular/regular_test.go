package regular

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// within has a test fail, and not hang, where a call does not come back.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatalf("%s hangs", what)
	}
}

// odd makes, in a directory, what is no file, by its name.
func odd(t *testing.T, dir string) (paths map[string]string) {
	t.Helper()
	paths = map[string]string{}
	for _, name := range []string{"named pipe", "directory", "socket", "device", "loop", "to a pipe"} {
		paths[name] = filepath.Join(dir, name)
	}
	l, err := net.Listen("unix", paths["socket"])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if err := errors.Join(syscall.Mkfifo(paths["named pipe"], 0o600), os.Mkdir(paths["directory"], 0o700),
		os.Symlink("/dev/zero", paths["device"]), os.Symlink("loop", paths["loop"]),
		os.Symlink("named pipe", paths["to a pipe"])); err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestWhatIsNoFileIsRefusedAtOnce(t *testing.T) {
	for name, path := range odd(t, t.TempDir()) {
		within(t, "reading a "+name, func() {
			if data, err := Read(path, 100); name != "loop" && !errors.Is(err, ErrNot) || err == nil {
				t.Errorf("%s: %q %v", name, data, err)
			}
			if f, err := Update(path); err == nil {
				f.Close()
				t.Errorf("%s is opened to be written", name)
			}
			if err := Check(path); name != "loop" && !errors.Is(err, ErrNot) {
				t.Errorf("check of a %s: %v", name, err)
			}
		})
	}
}

// A file may be as long as it may be, and no byte longer; one of a terabyte without a byte on the disk is
// refused by its length.
func TestLengths(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, n := range []int64{0, 1, 99, 100, 101, 1 << 40} {
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, n)); err != nil {
			t.Fatal(err)
		}
		data, err := Read(path, 100)
		given, wrong := ReadGiven(path, 100)
		if n <= 100 && (err != nil || wrong != nil || int64(len(data)) != n || int64(len(given)) != n) {
			t.Errorf("%d bytes: %d %v, %d %v", n, len(data), err, len(given), wrong)
		}
		if n > 100 && (!errors.Is(err, ErrLong) || !errors.Is(wrong, ErrLong)) {
			t.Errorf("%d bytes: %v, %v", n, err, wrong)
		}
	}
	if _, err := Read(path+".none", 100); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := Check(path + ".none"); err != nil {
		t.Errorf("a file that is not there: %v", err)
	}
}

// What is named on a command line may come through a pipe, bounded too; a device may not.
func TestAPipeThatIsGiven(t *testing.T) {
	dir := t.TempDir()
	paths := odd(t, dir)
	for _, text := range []string{"secret: 1\n", string(make([]byte, 1000))} {
		go func() {
			if f, err := os.OpenFile(paths["named pipe"], os.O_WRONLY, 0); err == nil {
				f.WriteString(text) // which may be cut short
				f.Close()
			}
		}()
		within(t, "reading a pipe", func() {
			data, err := ReadGiven(paths["named pipe"], 100)
			if len(text) <= 100 && string(data) != text || len(text) > 100 && !errors.Is(err, ErrLong) {
				t.Errorf("%d bytes by a pipe: %q %v", len(text), data, err)
			}
		})
	}
	for _, name := range []string{"directory", "device"} {
		within(t, "reading a "+name, func() {
			if _, err := ReadGiven(paths[name], 100); !errors.Is(err, ErrNot) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// A file is made in place of whatever was there, and never through it.
func TestFilesAreMadeAnew(t *testing.T) {
	for _, make := range []struct {
		name string
		f    func(path string) error
	}{
		{"Write", func(path string) error { return Write(path, []byte("text")) }},
		{"Replace", func(path string) error { return Replace(path, []byte("text")) }},
	} {
		dir := t.TempDir()
		victim := filepath.Join(dir, "victim")
		if err := os.WriteFile(victim, []byte("untouched"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			what string
			lay  func(path string) error
		}{
			{"nothing", func(string) error { return nil }},
			{"a file", func(path string) error { return os.WriteFile(path, []byte("longer, open"), 0o666) }},
			{"a pipe", func(path string) error { return syscall.Mkfifo(path, 0o600) }},
			{"a link", func(path string) error { return os.Symlink(victim, path) }},
		} {
			path := filepath.Join(dir, "file")
			for _, at := range []string{path, path + ".new"} {
				os.Remove(at)
				if err := c.lay(at); err != nil {
					t.Fatal(err)
				}
				within(t, make.name+" over "+c.what, func() {
					if err := make.f(path); err != nil {
						t.Errorf("%s over %s: %v", make.name, c.what, err)
					}
				})
				info, err := os.Lstat(path)
				if err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != 0o600 {
					t.Errorf("%s over %s: %v %v", make.name, c.what, info, err)
				}
				if data, err := Read(path, 100); !bytes.Equal(data, []byte("text")) {
					t.Errorf("%s over %s: %q %v", make.name, c.what, data, err)
				}
			}
		}
		if data, err := Read(victim, 100); string(data) != "untouched" {
			t.Errorf("%s wrote through a link: %q %v", make.name, data, err)
		}
	}
	// what cannot be taken away stays, and is said
	dir := filepath.Join(t.TempDir(), "file")
	if err := os.MkdirAll(filepath.Join(dir, "in it"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(Write(dir, nil)); err == nil {
		t.Error("a directory with something in it was written over")
	}
	if err := Replace(dir, nil); err == nil {
		t.Error("a directory was replaced")
	}
	if left, err := filepath.Glob(dir + ".new"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}
