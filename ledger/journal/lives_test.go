package journal

import (
	"os"
	"path/filepath"
	"testing"
)

// Whoever opens a journal knows the names of those who had it open before, and of nobody else.
func TestLives(t *testing.T) {
	dir := t.TempDir()
	open := func(name string) *Journal {
		t.Helper()
		j, err := Open(filepath.Join(dir, name), Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { j.Close() })
		return j
	}
	var lives []string
	for range 2 * maxLives {
		j := open("a")
		for i, life := range lives {
			if known := len(lives)-i <= maxLives; j.Ended(life) != known {
				t.Errorf("after %d lives the one %d back is known: %v", len(lives), len(lives)-i, !known)
			}
		}
		if j.Life() == "" || j.Ended(j.Life()) || j.Ended("") {
			t.Errorf("life %q is said to have ended", j.Life())
		}
		lives = append(lives, j.Life())
		j.Close()
	}
	if b := open("b"); b.Ended(lives[0]) || b.Ended(lives[len(lives)-1]) {
		t.Error("a journal knows another's lives")
	}
	// What cannot be read or written is nothing known, and no reason not to start.
	path := filepath.Join(dir, "a", "LIVES")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(path, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if j := open("a"); j.Ended(lives[len(lives)-1]) || j.Life() == "" {
		t.Error("lives out of nowhere")
	}
}
