package fire

import (
	"bufio"
	"encoding/json"
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

// cluster is a market of processes, by `souk cluster`, which is on the folder of commands that SOUK_BIN
// names.
type cluster struct {
	targets []string       // addresses of metrics
	pids    map[string]int // of processes, by name
}

func start(t *testing.T) *cluster {
	t.Helper()
	bin := os.Getenv("SOUK_BIN")
	if bin == "" {
		t.Skip("SOUK_BIN names no folder of commands: make alerts")
	}
	const root = "../../.."
	data := t.TempDir()
	c := exec.Command(filepath.Join(bin, "souk"), "cluster", "--data", data, "--limit", "20")
	c.Dir = root
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = c.Stdout
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Signal(syscall.SIGTERM)
		c.Wait()
	})
	up := make(chan bool, 1)
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			t.Log(s.Text())
			if strings.Contains(s.Text(), "stays up until") {
				up <- true
			}
		}
		up <- false
	}()
	select {
	case ok := <-up:
		if !ok {
			t.Fatal("the cluster ended")
		}
	case <-time.After(3 * time.Minute):
		t.Fatal("the cluster is not up after three minutes")
	}
	found := &cluster{pids: map[string]int{}}
	text, err := os.ReadFile(filepath.Join(data, "market.json"))
	if err != nil {
		t.Fatal(err)
	}
	var state struct {
		Processes []struct {
			Name string
			PID  int
		}
	}
	if err := json.Unmarshal(text, &state); err != nil {
		t.Fatal(err)
	}
	for _, p := range state.Processes {
		found.pids[p.Name] = p.PID
	}
	configs, err := filepath.Glob(filepath.Join(root, "deploy/local/*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	listen := regexp.MustCompile(`(?m)^health: \{listen: "([^"]+)"\}`)
	for _, path := range configs {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if m := listen.FindSubmatch(text); m != nil {
			found.targets = append(found.targets, string(m[1]))
		}
	}
	return found
}

// In a market that runs no alert fires; where a part hangs the one that says so does, within thirty
// seconds of Prometheus's time beyond the time that the market needs to see it, and falls silent once it
// goes on.
func TestFaultsOfARunningMarket(t *testing.T) {
	c := start(t)
	p := open(t)
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	play := func(most time.Duration, until func([]string) bool) []string {
		t.Helper()
		var now []string
		for end := time.Now().Add(most); time.Now().Before(end); {
			p.scrape(c.targets)
			p.evaluate()
			if now = p.firing(); until(now) {
				return now
			}
			<-tick.C
		}
		return now
	}
	// what is true of a young market: a checkpoint may still wait for its witness
	now := play(time.Minute, func(now []string) bool { return len(now) == 0 && p.now.Unix() > 1_800_000_300 })
	if len(now) > 0 {
		t.Fatalf("in a market that is well: %v", now)
	}
	for _, fault := range []struct{ process, alert string }{
		{"hub-math", "SoukHubNotLed"}, {"treasury", "SoukTreasuryNotLed"}, {"engine-1", "SoukEngineDown"},
		{"infra", "SoukDisconnected"}, {"gateway", "SoukGone"},
	} {
		pid := c.pids[fault.process]
		if pid == 0 {
			t.Fatalf("no process %s: %v", fault.process, c.pids)
		}
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		now := play(2*time.Minute, func(now []string) bool { return slices.Contains(now, fault.alert) })
		if !slices.Contains(now, fault.alert) {
			t.Errorf("%s hangs: %v fire", fault.process, now)
		}
		t.Logf("%s hangs: %v fire", fault.process, now)
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if now := play(2*time.Minute, func(now []string) bool { return len(now) == 0 }); len(now) > 0 {
			t.Errorf("%s goes on: %v fire", fault.process, now)
		}
	}
}
