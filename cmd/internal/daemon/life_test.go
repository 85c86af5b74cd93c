package daemon

import (
	"os"
	"os/exec"
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
