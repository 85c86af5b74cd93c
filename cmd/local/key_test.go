package local

import (
	"os"
	"path/filepath"
	"testing"
)

// Who has laid a file or a link where a key is about to be written does not get to read the key.
func TestWriteKeyTakesNoFileThatIsThere(t *testing.T) {
	dir := t.TempDir()
	path, mine := filepath.Join(dir, "key"), filepath.Join(dir, "mine")
	for name, lay := range map[string]func() error{
		"link": func() error { return os.Symlink(mine, path+".new") },
		"file": func() error { return os.WriteFile(path+".new", nil, 0o666) },
	} {
		if err := lay(); err != nil {
			t.Fatal(err)
		}
		open, _ := os.Open(path + ".new")
		if err := WriteKey(path, "secret"); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(mine); err == nil {
			t.Errorf("%s: the key is in a file of somebody else", name)
		}
		if open != nil {
			if n, _ := open.Read(make([]byte, 1)); n != 0 {
				t.Errorf("%s: who had opened it reads the key", name)
			}
			open.Close()
		}
		if secret, err := ReadKey(path); err != nil || secret != "secret" {
			t.Errorf("%s: %q, %v", name, secret, err)
		}
	}
}
