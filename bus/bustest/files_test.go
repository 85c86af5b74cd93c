package bustest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// Zeros at a file's end are left out, and no others.
func TestFilesEndWhereTheirZerosBegin(t *testing.T) {
	dir := t.TempDir()
	zeros := make([]byte, 200_000)
	want := map[string][]byte{"empty": {}, "zeros": {}, "short": []byte("a\x00b"),
		"long": append(append(append([]byte("a"), zeros...), "b"...), bytes.Repeat([]byte("c"), 70_000)...)}
	for name, text := range want {
		full := append(bytes.Clone(text), zeros[:100_000]...)
		if name == "short" || name == "empty" {
			full = text
		}
		path := filepath.Join(dir, "below", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, full, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Files(dir)
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d files, %v", len(got), err)
	}
	for name, text := range want {
		if is := got[filepath.Join(dir, "below", name)]; !bytes.Equal(is, text) {
			t.Errorf("%s: %d bytes, want %d", name, len(is), len(text))
		}
	}
	if _, err := Files(filepath.Join(dir, "none")); err == nil {
		t.Error("of a folder that there is not")
	}
}
