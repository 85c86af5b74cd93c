package life

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func hasEnded(life string) bool {
	ended, why := ProcessEnded(life)
	if ended == (why != "") {
		panic("ended: " + strconv.FormatBool(ended) + ", as " + why)
	}
	return ended
}

// A process that was killed is known to have ended by who runs where it ran, and no other is.
func TestAProcessThatHasEnded(t *testing.T) {
	own := Process()
	if l, err := Parse(own); err != nil || l.What != process || hasEnded(own) {
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
	other := ofProcess(child.Process.Pid).String()
	if other == own || hasEnded(other) {
		t.Errorf("another's life is %q, and has ended: %v", other, hasEnded(other))
	}
	child.Process.Kill()
	child.Wait()
	in.Close()
	if !hasEnded(other) {
		t.Errorf("%q has not ended, and was killed", other)
	}
	strange := strings.Repeat("A", digestLen)
	for name, c := range map[string]struct {
		change func(*Life)
		want   bool
	}{
		"of this number, began earlier": {func(l *Life) { l.ID[2]-- }, true},
		"of another machine":            {func(l *Life) { l.Machine = strange }, false},
		"of another boot":               {func(l *Life) { l.Boot = strange }, false},
		"of another container":          {func(l *Life) { l.ID[0]++ }, false},
		"a file's":                      {func(l *Life) { l.What = file }, false},
		"of no number":                  {func(l *Life) { l.ID[1] = 0 }, false},
		"of a number that is none":      {func(l *Life) { l.ID[1] = 1 << 63 }, false},
		"of no place":                   {func(l *Life) { *l = Life{Name: l.Name} }, false},
	} {
		l, err := Parse(own)
		if err != nil {
			t.Fatal(err)
		}
		c.change(&l)
		if got := hasEnded(l.String()); got != c.want {
			t.Errorf("%s: ended %v", name, got)
		}
	}
}

// A process of another user lives though /proc does not show it: it may be mounted so, and is to services.
func TestAProcessThatIsHidden(t *testing.T) {
	if life := os.Getenv("SOUK_TEST_LIFE"); life != "" {
		l, err := Parse(life)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat("/proc/" + strconv.FormatUint(l.ID[1], 10)); err == nil {
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
		"-test.run '^TestAProcessThatIsHidden$' -test.v", filepath.Join(dir, "self"))
	c.Env = append(os.Environ(), "SOUK_TEST_LIFE="+Process())
	out, err := c.CombinedOutput()
	switch text := string(out); {
	case strings.Contains(text, "--- FAIL"):
		t.Error(text)
	case !strings.Contains(text, "--- PASS"):
		t.Skipf("nothing can be hidden here: %v: %s", err, text)
	}
}

// A process that runs is seen from another namespace of time as one that began at another time. It is not
// taken for another process, whose number it has now.
func TestAnotherNamespaceOfTime(t *testing.T) {
	if text := os.Getenv("SOUK_TEST_LIFE"); text != "" {
		ended, why := ProcessEnded(text)
		fmt.Printf("ended %v: %s\n", ended, why)
		return
	}
	c := exec.Command("unshare", "--time", "--boottime", "100000", "--fork", os.Args[0],
		"-test.run", "^TestAnotherNamespaceOfTime$")
	c.Env = append(os.Environ(), "SOUK_TEST_LIFE="+Process())
	out, err := c.CombinedOutput()
	if err != nil {
		t.Skipf("no other namespace can be had: %v: %s", err, out)
	}
	if !strings.Contains(string(out), "ended false: it began in another container") {
		t.Errorf("from there it says %s", out)
	}
}
