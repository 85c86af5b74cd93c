package journal

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Whoever opens a journal again knows that those who had it open before have ended. A copy of it, which names
// them, too, knows nothing of the kind, and that it may be an older one.
func TestLives(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("nothing is proven here")
	}
	dir := t.TempDir()
	open := func(name string) *Journal {
		t.Helper()
		j, err := Open(filepath.Join(dir, name), Config{MinFree: -1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { j.Close() })
		return j
	}
	first := open("a")
	if first.Moved() {
		t.Error("a new journal may be an older copy")
	}
	mustAppend(t, first, frame(1, 10))
	cp := exec.Command("cp", "-a", filepath.Join(dir, "a"), filepath.Join(dir, "b"))
	if out, err := cp.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	twin := open("b")
	if ended, why := twin.Ended(first.Life()); ended || !strings.Contains(why, "copy") || !twin.Moved() {
		t.Errorf("in a copy the living one has ended: %v, %q; moved %v", ended, why, twin.Moved())
	}
	first.Close()
	second := open("a")
	if ended, why := second.Ended(first.Life()); !ended || why != "" || second.Moved() {
		t.Errorf("the one before has ended: %v, %q; moved %v", ended, why, second.Moved())
	}
	if ended, _ := second.Ended(twin.Life()); ended || second.Life() == "" {
		t.Error("the original knows a copy's lives")
	}
	// Frames without LIVES are of who knows where.
	second.Close()
	if err := os.Remove(filepath.Join(dir, "a", "LIVES")); err != nil {
		t.Fatal(err)
	}
	if j := open("a"); !j.Moved() {
		t.Error("a journal that does not know its lives is taken for the newest")
	}
}
