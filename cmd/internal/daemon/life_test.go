package daemon

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// A process that was killed is known to be dead by who runs where it ran, and no other is.
func TestALifeThatHasEnded(t *testing.T) {
	own := lifeOf(os.Getpid())
	if runtime.GOOS != "linux" {
		if own != "" || hasEnded("a b 1 2") {
			t.Errorf("a life is %q where nothing tells of it", own)
		}
		return
	}
	if own == "" || hasEnded(own) {
		t.Errorf("of the life %q of this process it is said that it has ended: %v", own, hasEnded(own))
	}
	child := exec.Command("cat") // until it is killed
	in, err := child.StdinPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	other := lifeOf(child.Process.Pid)
	if other == "" || other == own || hasEnded(other) {
		t.Errorf("another's life is %q, and has ended: %v", other, hasEnded(other))
	}
	child.Process.Kill()
	child.Wait()
	in.Close()
	if !hasEnded(other) {
		t.Errorf("%q has not ended, and was killed", other)
	}
	parts := strings.Fields(own)
	for name, c := range map[string]struct {
		life string
		want bool
	}{
		"of this number, began earlier": {strings.Join(parts[:3], " ") + " 1", true},
		"of another boot":               {"0 " + strings.Join(parts[1:], " "), false},
		"of another container":          {parts[0] + " pid:[1] " + strings.Join(parts[2:], " "), false},
		"nonsense":                      {parts[0] + " " + parts[1] + " -1 1", false},
		"no number":                     {parts[0] + " " + parts[1] + " x 1", false},
		"nothing":                       {"", false},
	} {
		if got := hasEnded(c.life); got != c.want {
			t.Errorf("%s: ended %v", name, got)
		}
	}
}

// A process of another user lives though /proc does not show it: it may be mounted so, and is to services.
func TestALifeThatIsHidden(t *testing.T) {
	if life := os.Getenv("SOUK_TEST_LIFE"); life != "" {
		pid := strings.Fields(life)[2]
		if _, err := os.Stat("/proc/" + pid); err == nil {
			t.Skip("it is shown")
		}
		if hasEnded(life) {
			t.Error("a process that lives is said to have ended")
		}
		return
	}
	dir := filepath.Join(t.TempDir(), "bin")
	self, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "self"), self, 0o755),
		os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command("unshare", "-m", "sh", "-c", "mount -t proc -o hidepid=2 proc /proc || exit 0\n"+
		"cd / && exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$0\" "+
		"-test.run '^TestALifeThatIsHidden$' -test.v", filepath.Join(dir, "self"))
	c.Env = append(os.Environ(), "SOUK_TEST_LIFE="+lifeOf(os.Getpid()))
	out, err := c.CombinedOutput()
	switch text := string(out); {
	case strings.Contains(text, "--- FAIL"):
		t.Error(text)
	case !strings.Contains(text, "--- PASS"):
		t.Skipf("nothing can be hidden here: %v: %s", err, text)
	}
}
