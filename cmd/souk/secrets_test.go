package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"souk/bus/embedded"
)

// No command shows a password: not of a server that is dead, refused or misspelt, in a file, a flag or a
// variable, at the level of most words.
func showsNoPassword(t *testing.T, bin string) {
	nats, err := embedded.StartNATS(embedded.NATSConfig{Listen: "127.0.0.1:0"}) // takes any password
	if err != nil {
		t.Fatal(err)
	}
	defer nats.Close()
	const canary = "canary7"
	live := strings.Replace(nats.URL, "nats://", "nats://ann:"+canary+"@", 1)
	dead := "nats://ann:" + canary + "@127.0.0.1:1"
	wrong := []string{
		"nats://ann:" + canary + "@10.1.2.3:4222", "http://ann:" + canary + "@127.0.0.1:1",
		// without a port, which is 4222 then: of a loopback address where no other market is
		"nats://ann:" + canary + "@127.77.0.1",
		"nats://ann:" + canary + "%zz@127.0.0.1:1", "nats://ann:x#" + canary + "@127.0.0.1:1", "ann:" +
			canary + "@127.0.0.1:1",
		"nats://ann:1," + canary + "/@127.0.0.1:1", "nats://" + canary + "@[::1",
	}
	reachable := []string{dead, "nats://" + canary + "@127.0.0.1:1", "nats://127.0.0.1:1, nats://ann:" +
		canary + "@localhost:1", live}
	etcds := []string{"ann:" + canary + "@127.0.0.1:1", "http://ann:" + canary + "@127.0.0.1:1", canary +
		"@10.1.2.3:2379"}

	var all sync.WaitGroup
	turns := make(chan struct{}, 4)
	run := func(what string, environ []string, want string, args ...string) {
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			c := exec.CommandContext(ctx, filepath.Join(bin, args[0]), args[1:]...)
			c.Env = append(os.Environ(), environ...)
			c.Dir = t.TempDir()
			out, _ := c.CombinedOutput() // most of them fail
			if bytes.Contains(out, []byte(canary)) {
				t.Errorf("%s: %q with %q shows it:\n%s", what, args, environ, out)
			}
			if len(bytes.TrimSpace(out)) == 0 || !bytes.Contains(out, []byte(want)) {
				t.Errorf("%s: %q with %q does not say %q:\n%s", what, args, environ, want, out)
			}
		})
	}
	files := 0
	file := func(text string) string {
		files++
		path := filepath.Join(t.TempDir(), fmt.Sprintf("%d.yaml", files))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}

	price := "price: {miss: 1, hit: 0.5, out: 2}"
	engine := "{url: \"http://ann:" + canary + "@127.0.0.1:1\", api_key: " + canary + "}"
	sections := map[string]string{
		"agentd": "agentd: {agents: [{id: a, model: m, slots: 1, domains: [{domain: math, score: 0.5}], " +
			price + ", engine: " +
			engine + "}]}\n",
		"hub":        "hub: {domain: math, hub: h, journal: hub-math}\n",
		"classifier": "classifier: {session_key: " + canary + "}\n",
		"treasury":   "treasury: {}\n",
		"gateway":    "listen: 127.0.0.1:0\n",
	}
	commands, err := filepath.Glob("../*/main.go")
	if err != nil || len(commands) != len(sections)+2 {
		t.Fatalf("%d commands, %v: want the daemons, souk and ledger; whoever adds one adds it here",
			len(commands), err)
	}
	for name, section := range sections {
		text := func(nats, etcd string) string {
			common := "log: {level: debug}\n"
			if name == "hub" || name == "treasury" {
				common += "data: " + t.TempDir() + "\n"
			}
			return common + section +
				fmt.Sprintf("market:\n  connect_within: 1s\n  nats: '%s'\n  etcd: ['%s']\n", nats, etcd)
		}
		for _, a := range reachable {
			run(name+", what is in effect", nil, "***@", name, "--config", file(text(a, "127.0.0.1:1")),
				"--check-config")
			run(name+", by variable", []string{"SOUK_MARKET_NATS=" + a}, "***@", name, "--config",
				file(text(dead, "127.0.0.1:1")), "--check-config")
			run(name+", running", nil, "did not answer within 1s", name, "--config", file(text(a,
				"127.0.0.1:1")))
		}
		for _, a := range wrong {
			run(name+", refused", nil, "market.nats", name, "--config", file(text(a, "127.0.0.1:1")))
			run(name+", refused by variable", []string{"SOUK_MARKET_NATS=" + a}, "market.nats", name,
				"--config", file(section), "--check-config")
		}
		for _, a := range etcds {
			run(name+", etcd", nil, "market.etcd", name, "--config", file(text(dead, a)), "--check-config")
			run(name+", etcd by variable", []string{"SOUK_MARKET_ETCD=" + a}, "market.etcd", name, "--config",
				file(text(dead, "127.0.0.1:1")))
		}
		for _, slip := range []string{"  ntas: x\n", "  nats: y\n", "  [\n", " \t- x\n",
			"  connect_within: soon\n", "  allow_remote: [\n"} {
			run(name+", beside a slip", nil, ".yaml", name, "--config", file(text(dead, "127.0.0.1:1")+slip),
				"--check-config")
			run(name+", beside a slip in its own section", nil, ".yaml", name, "--config", file(text(dead,
				"127.0.0.1:1")+section+slip), "--check-config")
		}
		run(name+", help", []string{"SOUK_MARKET_NATS=" + dead}, "SOUK_MARKET_NATS=nats://127.0.0.1:4222",
			name, "--help")
	}

	shown := map[string]bool{}
	souk := func(what string, environ []string, want string, args ...string) {
		name := slices.DeleteFunc(slices.Clone(args), func(s string) bool {
			return strings.HasPrefix(s,
				"-")
		})[0]
		shown[name] = true
		run(what, environ, want, append([]string{"souk", "--log-level", "debug"}, args...)...)
	}
	for _, a := range slices.Concat(reachable[:3], wrong) {
		for _, c := range [][]string{{"submit", "hello"}, {"replay", "--limit", "1"}, {"fund", "ann", "1"}} {
			souk("by flag", nil, "souk", append(slices.Clone(c), "--nats", a)...)
			souk("by variable", []string{"SOUK_MARKET_NATS=" + a}, "souk", c...)
		}
	}
	environ := []string{"SOUK_MARKET_NATS=" + dead, "SOUK_MARKET_ETCD=" + etcds[0]}
	souk("no treasury", nil, "treasury", "fund", "ann", "1", "--nats", live)
	for _, a := range slices.Concat(reachable[:2], wrong) {
		souk("to listen on", nil, "write host:port", "infra", "--config",
			file("infra: {nats: '"+strings.ReplaceAll(a, "'", "")+"'}\n"))
		souk("to listen on, by variable", []string{"SOUK_INFRA_NATS=" + a}, "SOUK_INFRA_NATS", "infra",
			"--check-config")
		souk("to listen on", nil, "souk", "up", "--listen", a)
	}
	souk("a cluster", environ, "souk", "cluster", "--config", file("infra: infra.yaml\nnats: '"+dead+"'\n"))
	souk("a cluster of another market's daemons", environ, "souk", "cluster", "--config",
		file("treasury: "+file("market: {nats: '"+dead+"', ntas: 1}\ntreasury: {}\n")+"\nengines: []\n"))
	souk("configuration", environ, "domains", "up", "--print-config")
	for _, c := range root().Commands() {
		if !shown[c.Name()] {
			souk("the rest", environ, "souk", c.Name(), "--no-such-flag")
			souk("the rest", environ, "souk", c.Name(), "--help")
		}
	}
	for _, c := range []string{"check", "bal", "print", "reg", "trace", "tail", "round", "stats"} {
		run("a ledger", environ, "ledger", "ledger", c)
	}
	all.Wait()
}
