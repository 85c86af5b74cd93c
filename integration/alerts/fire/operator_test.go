package fire

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// aloneEnv says to a test that it runs on a network and among processes of its own.
const aloneEnv = "SOUK_ALONE"

// alone runs a test on a network and among processes of its own, where all ports are as manuals have them,
// and reports whether this is that.
func alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv(aloneEnv) != "" {
		if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return true
	}
	if os.Getenv("SOUK_BIN") == "" {
		t.Skip("it clones the repository and builds it: make alerts")
	}
	within := []string{"--user", "--map-root-user", "--net", "--pid", "--fork", "--mount-proc"}
	try := exec.Command("unshare", append(within, "ip", "link", "show")...)
	if out, err := try.CombinedOutput(); err != nil {
		t.Skipf("no network of its own: %v: %s", err, out)
	}
	c := exec.Command("unshare", append(within, os.Args[0], "-test.v", "-test.run", "^"+t.Name()+"$")...)
	c.Env = append(os.Environ(), aloneEnv+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := c.CombinedOutput()
	if t.Logf("%s", out); err != nil {
		t.Error(err)
	}
	return false
}

// commands are the blocks of commands below a heading of a manual, up to the next heading.
func commands(t *testing.T, manual, heading string) (script string) {
	t.Helper()
	text := "\n" + string(must(os.ReadFile(manual)))
	_, rest, found := strings.Cut(text, "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", manual, heading)
	}
	if next := regexp.MustCompile(`(?m)^#+ `).FindStringIndex(rest); next != nil {
		rest = rest[:next[0]]
	}
	for line := range strings.Lines(rest) {
		if l, is := strings.CutPrefix(line, "    "); is {
			script += l
		}
	}
	return script
}

// Whoever has three machines, here of this machine's loopback, and a clone of the repository, and types what
// the manual says, has answers of both gateways, a dashboard that shows them, and, where a gateway is killed,
// an alert: all within half an hour.
func TestANewOperator(t *testing.T) {
	if !alone(t) {
		return
	}
	began, dir := time.Now(), filepath.Join(t.TempDir(), "souk")
	since := func(what string) { t.Logf("after %4.0f s: %s", time.Since(began).Seconds(), what) }
	run := func(in, script string) string {
		t.Helper()
		c := exec.Command("bash", "-e", "-c", script)
		c.Dir = in
		c.WaitDelay = time.Second // what goes on in the background has its output
		out, err := c.CombinedOutput()
		if err != nil && err != exec.ErrWaitDelay {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	run(".", "git clone --quiet "+must(filepath.Abs(root))+" "+dir)
	since("the repository is cloned")
	build, start, found := strings.Cut(commands(t, root+"/deploy/cluster3/README.md", "## Start it"), "\n")
	if build != "make build" || !found {
		t.Fatalf("the manual begins with %q", build)
	}
	run(dir, build)
	since("it is built")
	said := run(dir, start)
	if n := strings.Count(said, `"chat.completion"`); n != 2 || !strings.Contains(said, "All is well.") {
		t.Errorf("%d answers of two gateways, and the page of the market:\n%s", n, said)
	}
	since("both gateways answer, and the market's page says that all is well")

	p := open(t)
	var targets []string
	for n, ports := range []string{"9400 9401 9402 9403 9405 9408", "9400 9402 9403 9405 9408", "9400 9405"} {
		for _, port := range strings.Fields(ports) {
			targets = append(targets, fmt.Sprintf("127.0.0.%d:%s", n+1, port))
		}
	}
	tick := time.NewTicker(step)
	defer tick.Stop()
	play := func(until func(firing []string) bool) {
		t.Helper()
		for range 12 {
			p.scrape(targets)
			p.evaluate()
			if until(p.firing()) {
				return
			}
			<-tick.C
		}
		t.Fatalf("not within two minutes; these fire: %v", p.firing())
	}
	var empty []string
	play(func([]string) bool {
		empty = p.empty(filepath.Join(dir, "deploy/grafana/market.json"))
		return len(empty) == 0
	})
	since("the dashboard of the market shows something in each panel")
	run(dir, "pkill -KILL -f 'gateway --config deploy/cluster3/gateway.yaml' -n")
	play(func(firing []string) bool { return slices.Contains(firing, "SoukGone") })
	since("a gateway was killed, and the alert fires")
	if took := time.Since(began); took > 30*time.Minute {
		t.Errorf("it takes %v", took)
	}
}
