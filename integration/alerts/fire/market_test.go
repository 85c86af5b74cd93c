package fire

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// cluster is a market of processes, by `souk cluster`, which is on the folder of commands that SOUK_BIN
// names.
type cluster struct {
	bin, data string         // folders
	targets   []string       // addresses of metrics
	pids      map[string]int // of processes, by name
}

const root = "../../.."

func start(t *testing.T) *cluster {
	t.Helper()
	bin := os.Getenv("SOUK_BIN")
	if bin == "" {
		t.Skip("SOUK_BIN names no folder of commands: make alerts")
	}
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
	found := &cluster{bin: bin, data: data, pids: map[string]int{}}
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

// command runs one of the commands on the cluster's data, and returns what it printed.
func (c *cluster) command(t *testing.T, args ...string) string {
	t.Helper()
	x := exec.Command(filepath.Join(c.bin, args[0]), append(args[1:], "--data", c.data)...)
	out, err := x.Output()
	if exit, ok := err.(*exec.ExitError); ok {
		t.Fatalf("%v: %v\n%s%s", args, err, out, exit.Stderr)
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// signal sends a signal to processes of the cluster.
func (c *cluster) signal(t *testing.T, s syscall.Signal, names ...string) {
	t.Helper()
	for _, name := range names {
		if c.pids[name] == 0 {
			t.Fatalf("no process %s: %v", name, c.pids)
		}
		if err := syscall.Kill(c.pids[name], s); err != nil {
			t.Fatal(err)
		}
	}
}

// second starts another gateway of the market, whose creds end in a day.
func (c *cluster) second(t *testing.T) (at string) {
	t.Helper()
	creds := c.command(t, "souk", "auth", "add", "gateway", "gateway-2", "--valid", "24h")
	x := exec.Command(filepath.Join(c.bin, "gateway"), "--config", "deploy/local/gateway.yaml")
	at = "127.0.0.1:9418"
	x.Dir, x.Env = root, append(os.Environ(), "SOUK_GATEWAY_ID=gateway-2", "SOUK_LISTEN=127.0.0.1:8089",
		"SOUK_HEALTH_LISTEN="+at, "SOUK_DATA="+c.data, "SOUK_MARKET_CREDS="+creds)
	if err := x.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		x.Process.Signal(syscall.SIGTERM)
		x.Wait()
	})
	return at
}

// ask has somebody ask all the time, each request for a few seconds, until it is told to stop.
func (c *cluster) ask(t *testing.T) (stop func()) {
	key := c.command(t, "souk", "key", "new", "dev", "--etcd", "127.0.0.1:2379")
	ctx, end := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			for ctx.Err() == nil {
				within, cancel := context.WithTimeout(ctx, 10*time.Second)
				r, err := http.NewRequestWithContext(within, "POST", "http://127.0.0.1:8080/v1/chat/completions",
					strings.NewReader(`{"messages":[{"role":"user","content":"What is a souk?"}],"max_tokens":5}`))
				if err != nil {
					panic(err) // it is constant
				}
				r.Header.Set("Authorization", "Bearer "+key)
				if a, err := http.DefaultClient.Do(r); err == nil {
					io.Copy(io.Discard, a.Body)
					a.Body.Close()
				}
				cancel()
				select {
				case <-ctx.Done():
				case <-time.After(200 * time.Millisecond):
				}
			}
		})
	}
	return func() { end(); asking.Wait() }
}

// In a market that runs no alert fires, and dashboards have something to show; where a part hangs the alerts
// that say so fire, and fall silent once it goes on. Parts that hang are told of within thirty seconds by the
// clock on the wall.
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
	none := func(now []string) bool { return len(now) == 0 }
	stop := c.ask(t)
	c.command(t, "souk", "quote", "What is a souk?", "--nats", "nats://127.0.0.1:4222")
	// what is true of a young market: a checkpoint may still wait for its witness
	settled := func(now []string) bool { return none(now) && p.now.Unix() > 1_800_000_300 }
	if now := play(time.Minute, settled); len(now) > 0 {
		t.Fatalf("in a market that is well: %v", now)
	}
	p.shown()
	stop()
	for _, fault := range []struct {
		processes, alerts string
		asked             bool
	}{
		{"hub-math", "SoukHubNotLed SoukAgentUnsold", false},
		{"treasury", "SoukTreasuryNotLed SoukUncosigned", true}, // a minute
		{"engine-4", "SoukEngineDown SoukNotReady", false},
		{"agentd-1 agentd-2", "SoukNoAgents", false},
		{"infra", "SoukDisconnected", false},
		{"gateway", "SoukGone", false},
		{"hub-math hub-general", "SoukAnswersFail", true},
	} {
		processes, alerts := strings.Fields(fault.processes), strings.Fields(fault.alerts)
		stop = func() {}
		if fault.asked {
			stop = c.ask(t)
		}
		c.signal(t, syscall.SIGSTOP, processes...)
		seen := map[string]bool{}
		play(2*time.Minute, func(now []string) bool {
			for _, name := range now {
				seen[name] = true
			}
			return !slices.ContainsFunc(alerts, func(name string) bool { return !seen[name] })
		})
		for _, name := range alerts {
			if !seen[name] {
				t.Errorf("%s hangs, and %s does not fire: %v do", fault.processes, name, seen)
			}
		}
		t.Logf("%s hangs: %v fire", fault.processes, slices.Sorted(maps.Keys(seen)))
		c.signal(t, syscall.SIGCONT, processes...)
		if now := play(2*time.Minute, none); len(now) > 0 {
			t.Errorf("%s goes on: %v fire", fault.processes, now)
		}
		stop()
	}

	c.targets = append(c.targets, c.second(t))
	ends := func(now []string) bool { return slices.Equal(now, []string{"SoukCredentialsEnd"}) }
	if now := play(time.Minute, ends); !ends(now) {
		t.Errorf("creds end in a day: %v fire", now)
	}
	c.command(t, "souk", "auth", "renew", "gateway-2")
	if now := play(time.Minute, none); len(now) > 0 {
		t.Errorf("creds were renewed: %v fire", now)
	}

	// from here on an hour is an hour: alerts are evaluated as often as Prometheus does
	tick.Reset(step)
	hang := []string{"gateway", "engine-3", "hub-math"}
	c.signal(t, syscall.SIGSTOP, hang...)
	began := time.Now()
	told := map[string]time.Duration{}
	play(time.Minute, func(now []string) bool {
		for _, name := range now {
			if told[name] == 0 {
				told[name] = time.Since(began).Round(time.Second)
			}
		}
		return told["SoukGone"] > 0 && told["SoukEngineDown"] > 0 && told["SoukHubNotLed"] > 0
	})
	c.signal(t, syscall.SIGCONT, hang...)
	t.Logf("%v hang; alerts fired after %v", hang, told)
	for _, name := range []string{"SoukGone", "SoukEngineDown", "SoukHubNotLed"} {
		if told[name] == 0 || told[name] > 30*time.Second {
			t.Errorf("%s fires after %v (0: never), want 30 s at most", name, told[name])
		}
	}
}
