package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/natsauth"
	"souk/cmd/daemon"
	"souk/cmd/replay"
)

// The deployment with the commands as they are built: files, services, containers, and the cluster itself.
func TestDeployment(t *testing.T) {
	if testing.Short() {
		t.Skip("builds every command")
	}
	// as the tests of a fleet do, in the same place: it links what is not there yet
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", "bin/tests/", "./cmd/...")
	build.Dir, build.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	bin, err := filepath.Abs("../../bin/tests")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]func(*testing.T, string){
		"every file is its own daemon's":           deployedFiles,
		"every policy is on in one of them":        withPolicies,
		"services are given their time":            servicesAreGivenTheirTime,
		"services are given their keys":            servicesAreGivenTheirKeys,
		"compose starts the cluster":               composeStartsTheCluster,
		"units and compose file, by their tools":   judgedByTheirTools,
		"a cluster with a bad file starts nothing": clusterWithABadFile,
		"no command shows a password":              showsNoPassword,
		"cluster":                                  clusterLives,
	} {
		t.Run(name, func(t *testing.T) { test(t, bin) })
	}
}

// daemonOf says which command reads a file of deploy/local.
func daemonOf(file string) []string {
	name, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".yaml"), "-")
	if name == "infra" {
		return []string{"souk", "infra"}
	}
	return []string{name}
}

// effective runs --check-config and returns what is in effect.
func effective(t *testing.T, bin, file string) inEffect {
	t.Helper()
	args := append(daemonOf(file), "--config", file, "--check-config")
	var out, errs bytes.Buffer
	c := exec.Command(filepath.Join(bin, args[0]), args[1:]...)
	c.Env = append(os.Environ(), "SOUK_DATA="+t.TempDir())
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		t.Fatalf("%s: %v: %s", file, err, &errs)
	}
	var e inEffect
	if err := yaml.Unmarshal(out.Bytes(), &e); err != nil {
		t.Fatal(err)
	}
	return e
}

const deployed = "../../deploy/local"

// The market of deploy/policies is one, and every policy that hubs and agents know is on there.
func withPolicies(t *testing.T, bin string) {
	t.Helper()
	on := map[string]bool{}
	for _, file := range []string{"hub-general.yaml", "hub-math.yaml", "agentd-1.yaml", "agentd-2.yaml"} {
		file = filepath.Join("../../deploy/policies", file)
		effective(t, bin, file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		type chosen struct{ Policies map[string]string }
		var c struct{ Hub, Agentd chosen }
		if err := yaml.Unmarshal(text, &c); err != nil {
			t.Fatal(err)
		}
		for _, all := range []map[string]string{c.Hub.Policies, c.Agentd.Policies} {
			for _, name := range all {
				on[name] = true
			}
		}
	}
	want := []string{"ahead", "fair", "kvcache", "next", "patterns", "pd"}
	if got := slices.Sorted(maps.Keys(on)); !slices.Equal(got, want) {
		t.Errorf("policies %v are on, want %v", got, want)
	}
}

// Every file of deploy/local is a configuration of its command, and of no other: and that one says whose it
// is.
func deployedFiles(t *testing.T, bin string) {
	files, err := filepath.Glob(filepath.Join(deployed, "*.yaml"))
	if err != nil || len(files) < 9 {
		t.Fatalf("%d files in %s: %v", len(files), deployed, err)
	}
	listening := map[string]string{}
	for _, file := range files {
		right := daemonOf(file)
		if right[0] == "cluster" {
			continue
		}
		e := effective(t, bin, file)
		for _, address := range []string{e.Health.Listen, e.Infra.NATS, e.Infra.Etcd} {
			if other := listening[address]; address != "" && other != "" {
				t.Errorf("%s and %s both listen on %s", file, other, address)
			}
			listening[address] = file
		}
		for _, wrong := range []string{"agentd", "hub", "classifier", "treasury", "gateway"} {
			if wrong == right[0] {
				continue
			}
			out, err := exec.Command(filepath.Join(bin, wrong), "--config", file,
				"--check-config").CombinedOutput()
			hint := fmt.Sprintf("run `%s --config %s`", strings.Join(right, " "), file)
			if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 ||
				!strings.Contains(string(out), hint) {
				t.Errorf("%s reads %s: %v, and does not say %q:\n%s", wrong, file, err, hint, out)
			}
		}
	}
}

// A service manager must not kill a daemon that is still within the time that it promised.
func servicesAreGivenTheirTime(t *testing.T, bin string) {
	units, err := filepath.Glob("../../deploy/systemd/*.service")
	if err != nil || len(units) < 5 {
		t.Fatalf("%d units: %v", len(units), err)
	}
	files := map[string]string{
		"souk-infra": "infra.yaml", "souk-treasury": "treasury.yaml", "souk-hub@": "hub-math.yaml",
		"souk-classifier": "classifier.yaml", "souk-agentd": "agentd-1.yaml", "souk-gateway": "gateway.yaml",
	}
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(`(?m)^TimeoutStopSec=(\d+)s$`).FindSubmatch(text)
		if m == nil {
			t.Errorf("%s has no TimeoutStopSec", unit)
			continue
		}
		seconds, _ := strconv.Atoi(string(m[1]))
		file := files[strings.TrimSuffix(filepath.Base(unit), ".service")]
		// Without the file's own, shorter times: what the daemon takes by default.
		words := daemonOf(file)
		plain := filepath.Join(t.TempDir(), file)
		source, err := os.ReadFile(filepath.Join(deployed, file))
		if err != nil {
			t.Fatal(err)
		}
		source = regexp.MustCompile(`(?m)^ *(drain|drain_timeout|settle_timeout):.*$|treasury: \{drain: 5s\}`).ReplaceAll(source, nil)
		if err := os.WriteFile(plain, source, 0o600); err != nil {
			t.Fatal(err)
		}
		if within := effective(t, bin, plain).Stop.Within; time.Duration(seconds)*time.Second <= within {
			t.Errorf("%s kills after %d s, but %s may take %v", unit, seconds, words, within)
		}
		if !strings.Contains(string(text), "ExecStart=/usr/local/bin/"+strings.Join(words, " ")+
			" --config /etc/souk/") {
			t.Errorf("%s does not start %s", unit, words)
		}
	}
}

// What systemd hands to a service is what its daemon looks for, and what the manual has installed for it is
// what infra makes, of the role that it is.
func servicesAreGivenTheirKeys(t *testing.T, bin string) {
	manual, err := os.ReadFile("../../deploy/systemd/README.md")
	if err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	names := madeByInfra(t, bin, data)
	made := natsauth.Dir(data)
	installed := map[string]string{} // name of what infra makes, by the file that it is for
	loop := regexp.MustCompile(`for n in ([^;]+); do`).FindSubmatch(manual)
	if loop == nil {
		t.Fatal("the manual installs no creds")
	}
	for _, pair := range strings.Fields(strings.ReplaceAll(string(loop[1]), "\\\n", " ")) {
		name, file, _ := strings.Cut(pair, ":")
		installed[file] = name
	}
	copied := regexp.MustCompile(`deploy/local/(\{[^}]*\}|[\w-]+)\.yaml`)
	for _, list := range copied.FindAllSubmatch(manual, -1) {
		for _, file := range strings.Split(strings.Trim(string(list[1]), "{}"), ",") {
			if _, err := os.Stat(filepath.Join(deployed, file+".yaml")); err != nil {
				t.Error(err)
			}
		}
	}
	units, err := filepath.Glob("../../deploy/systemd/*.service")
	if err != nil || len(units) < 6 {
		t.Fatalf("%d units: %v", len(units), err)
	}
	instances := map[string][]string{"souk-hub@": {"general", "math"}}
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(unit), ".service")
		if name == "souk-infra" {
			continue
		}
		for _, i := range append(instances[name], "")[:max(1, len(instances[name]))] {
			unitHasItsKeys(t, bin, made, strings.ReplaceAll(string(text), "%i", i), installed, names)
		}
	}
}

// madeByInfra makes what infra makes of its file in deploy/local, and says of which names.
func madeByInfra(t *testing.T, bin, data string) (names map[string]bool) {
	t.Helper()
	names = map[string]bool{}
	keys, err := natsauth.Init(natsauth.Dir(data))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range effective(t, bin, filepath.Join(deployed, "infra.yaml")).Infra.Names {
		names[n.Name] = true
		if _, err := keys.Ensure(n.Role, n.ids(), time.Now()); err != nil {
			t.Error(err)
		}
	}
	return names
}

// keepsJournal reports whether what a command runs writes a journal, which it signs.
func keepsJournal(command string) bool { return command == "hub" || command == "treasury" }

func unitHasItsKeys(t *testing.T, bin, made, unit string, installed map[string]string,
	names map[string]bool) {
	t.Helper()
	start := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/(\w+) --config /etc/souk/([\w-]+)\.yaml$`).
		FindStringSubmatch(unit)
	if start == nil {
		t.Errorf("no ExecStart with a file in /etc/souk:\n%s", unit)
		return
	}
	command, file := start[1], start[2]
	own := installed[file]
	if !names[own] {
		t.Errorf("%s: the manual installs the creds of %q, and infra makes those of %v", file, own, names)
		return
	}
	from := map[string]string{ // what the manual puts where the unit loads it from
		file + ".creds": "creds/" + own + ".creds", file + ".pem": "certs/" + own + ".pem",
		file + ".key": "certs/" + own + ".key", "ca.pem": "ca.pem", "account.jwt": "account.jwt",
		file + ".note": "notes/" + own + ".key", "policy": "policy"}
	handed := t.TempDir() // %d
	for _, l := range regexp.MustCompile(`(?m)^LoadCredential=([\w.]+):/etc/souk/auth/(.+)$`).
		FindAllStringSubmatch(unit, -1) {
		secret, err := os.ReadFile(filepath.Join(made, from[l[2]]))
		if from[l[2]] == "" || err != nil {
			t.Errorf("%s loads %s, which nobody has put there: %v", file, l[2], err)
			continue
		}
		if err := os.WriteFile(filepath.Join(handed, l[1]), secret, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	local := file + ".yaml"
	if file == "agentd" {
		local = "agentd-1.yaml"
	}
	c := exec.Command(filepath.Join(bin, command), "--config", filepath.Join(deployed, local),
		"--check-config")
	c.Env = append(os.Environ(), "SOUK_DATA="+handed)
	for _, l := range regexp.MustCompile(`(?m)^Environment=(SOUK_(?:MARKET|CHECKPOINTS)_.*)$`).FindAllStringSubmatch(unit, -1) {
		c.Env = append(c.Env, strings.Fields(strings.ReplaceAll(l[1], "%d", handed))...)
	}
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v: %s", file, err, out)
		return
	}
	var e struct {
		Market      struct{ Creds, CA, Cert, Key string }
		Checkpoints daemon.Checkpoints
	}
	if err := yaml.Unmarshal(out, &e); err != nil {
		t.Fatal(err)
	}
	handing := map[string]string{"market.creds": e.Market.Creds, "market.ca": e.Market.CA,
		"market.cert": e.Market.Cert, "market.key": e.Market.Key}
	if keepsJournal(command) {
		handing["checkpoints.key"], handing["checkpoints.policy"] = e.Checkpoints.Key, e.Checkpoints.Policy
		if key, err := natsauth.ReadNoteKey(e.Checkpoints.Key); err != nil ||
			!strings.Contains(key.Log, "/"+own+"+") {
			t.Errorf("%s: the note key is not of %s: %v", file, own, err)
		}
	}
	for what, path := range handing {
		if filepath.Dir(path) != handed {
			t.Errorf("%s: %s is %q, and systemd hands it over in %s", file, what, path, handed)
		} else if _, err := os.Stat(path); err != nil {
			t.Errorf("%s: %s: %v", file, what, err)
		}
	}
	if base := filepath.Base(effective(t, bin, filepath.Join(deployed, local)).Market.Creds); base !=
		own+".creds" {
		t.Errorf("%s is given the creds of %s, and its file is of %s", file, own, base)
	}
	shown := natsauth.Files{CA: e.Market.CA, Cert: e.Market.Cert, Key: e.Market.Key}
	if _, err := natsauth.TLSOf(shown); err != nil {
		t.Errorf("%s: %v", file, err)
	}
}

// systemd and docker compose find nothing wrong with what is written for them, where they are installed.
func judgedByTheirTools(t *testing.T, bin string) {
	for _, what := range []string{"units", "compose"} {
		t.Run(what, func(t *testing.T) {
			out, err := exec.Command("../../deploy/check.sh", what, bin).CombinedOutput()
			if exit, ok := err.(*exec.ExitError); ok && exit.ExitCode() == 77 {
				t.Skipf("%s", out)
			}
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// The compose file starts what cluster.yaml starts, with commands that exist, and gives each the time that it
// needs to stop.
func composeStartsTheCluster(t *testing.T, bin string) {
	text, err := os.ReadFile("../../deploy/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var compose struct {
		Services map[string]struct {
			Entrypoint  []string
			Command     []string
			Stop        time.Duration  `yaml:"stop_grace_period"`
			DependsOn   map[string]any `yaml:"depends_on"`
			NetworkMode string         `yaml:"network_mode"`
			Restart     string
			Profiles    []string
			Environment map[string]string
			Volumes     []any
		}
	}
	if err := yaml.Unmarshal(text, &compose); err != nil {
		t.Fatal(err)
	}
	var cfg clusterConfig
	text, err = os.ReadFile(filepath.Join(deployed, "cluster.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &cfg); err != nil {
		t.Fatal(err)
	}
	volume := t.TempDir() // as infra fills it
	names := madeByInfra(t, bin, volume)
	wanted := map[string]string{}
	for _, file := range slices.Concat([]string{cfg.Infra, cfg.Treasury, cfg.Classifier, cfg.Gateway},
		cfg.Hubs, cfg.Agentd) {
		wanted[stem(file)] = file
	}
	for name, file := range wanted {
		s, there := compose.Services[name]
		want := append(daemonOf(file), "--config", "/etc/souk/"+file)
		if !there || !slices.Equal(s.Command, want) {
			t.Errorf("service %s: command %q, want %q", name, s.Command, want)
		}
		if e := effective(t, bin, filepath.Join(deployed, file)); file != cfg.Infra {
			// the name is that of its file, and one of those that infra makes creds of
			creds := filepath.Base(s.Environment["SOUK_MARKET_CREDS"])
			if filepath.Base(e.Market.Creds) != creds || !names[strings.TrimSuffix(creds, ".creds")] {
				t.Errorf("service %s has the creds %s, its file %s; infra makes those of %v", name, creds,
					e.Market.Creds, names)
			}
			has := map[string]bool{}
			for _, v := range s.Volumes {
				mount, _ := v.(map[string]any)
				if fmt.Sprint(mount["source"]) == "keys" {
					options, _ := mount["volume"].(map[string]any)
					path := fmt.Sprint(options["subpath"])
					has[path] = mount["read_only"] == true && mount["target"] == "/"+path
				}
			}
			own := strings.TrimSuffix(creds, ".creds")
			files := []string{"ca.pem", "creds/" + own + ".creds", "certs/" + own + ".pem",
				"certs/" + own + ".key"}
			if keepsJournal(s.Command[0]) {
				files = append(files, "notes/"+own+".key", "policy")
			}
			for _, file := range files {
				if _, err := os.Stat(filepath.Join(volume, "auth", file)); err != nil || !has["auth/"+file] {
					t.Errorf("service %s is not given %s to read: %v", name, file, err)
				}
			}
			if len(has) != len(files) {
				t.Errorf("service %s is given %v of the keys", name, has)
			}
			if !strings.HasPrefix(s.Environment["SOUK_MARKET_NATS"], "tls://") {
				t.Errorf("service %s reaches NATS at %q", name, s.Environment["SOUK_MARKET_NATS"])
			}
		}
		if within := effective(t, bin, filepath.Join(deployed, file)).Stop.Within; s.Stop <= within {
			t.Errorf("service %s is killed after %v, but may take %v", name, s.Stop, within)
		}
		for other := range s.DependsOn {
			if _, there := compose.Services[other]; !there {
				t.Errorf("service %s waits for %s, which there is not", name, other)
			}
		}
	}
	for _, e := range cfg.Engines {
		command := strings.Join(compose.Services[e.Name].Command, " ")
		if want := fmt.Sprintf("souk engine --port %d --model %s --profile %s", e.Port, e.Model,
			e.Profile); !strings.HasPrefix(command, want) {
			t.Errorf("service %s: %q, want %q", e.Name, command, want)
		}
	}
	for name, s := range compose.Services {
		issues := name == "infra" || name == "souk" // who makes creds, and who is run by hand
		if slices.Contains(s.Volumes, any("keys:/data")) != issues {
			t.Errorf("service %s has the volumes %v", name, s.Volumes)
		}
		for _, v := range s.Volumes {
			short, _ := v.(string)
			if !issues && strings.HasPrefix(short, "keys") {
				t.Errorf("service %s has all keys: %s", name, short)
			}
		}
		// A container that starts again has another network, and whoever shared its last one is cut off.
		if strings.HasPrefix(s.NetworkMode, "service:") {
			t.Errorf("service %s has the network %s, which ends with that container", name, s.NetworkMode)
		}
		// on-failure is not: what ran is back when the machine is, unless somebody stopped it
		if tool := len(s.Profiles) > 0; (s.Restart == "unless-stopped") == tool {
			t.Errorf("service %s: restart: %q", name, s.Restart)
		}
		if _, err := os.Stat(filepath.Join(bin, slices.Concat(s.Entrypoint, s.Command)[0])); err != nil {
			t.Errorf("service %s: %v", name, err)
		}
	}
}

// started is a running `souk cluster`.
type started struct {
	cmd  *exec.Cmd
	dir  string
	out  bustest.Buffer
	done chan error
}

// ownPorts is a copy of deploy/local with other ports: those may be another cluster's, of a test beside this
// one, say, that starts at the same moment.
func ownPorts(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var ports []string
	for _, port := range []string{"4222", "2379", "8001", "8002", "8003"} {
		ports = append(ports, port, strings.TrimPrefix(bustest.FreePort(t), "127.0.0.1:"))
	}
	files, err := filepath.Glob(filepath.Join(deployed, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		moved := strings.NewReplacer(ports...).Replace(string(text))
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), []byte(moved), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func startCluster(t *testing.T, bin, dir string, args ...string) *started {
	t.Helper()
	s := &started{dir: dir, done: make(chan error, 1)}
	args = append([]string{"cluster", "--config", filepath.Join(ownPorts(t), "cluster.yaml"), "--data", dir},
		args...)
	s.cmd = exec.Command(filepath.Join(bin, "souk"), args...)
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.done <- s.cmd.Wait() }()
	return s
}

// pids are the processes that the cluster's table names.
func (s *started) pids() map[string]int {
	out := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^ (\S+)\s+(\d+)  (?:nats|http)://`).FindAllStringSubmatch(s.out.String(), -1) {
		out[m[1]], _ = strconv.Atoi(m[2])
	}
	return out
}

// wait returns the exit code.
func (s *started) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-s.done:
		return s.cmd.ProcessState.ExitCode()
	case <-time.After(3 * time.Minute):
		syscall.Kill(s.cmd.Process.Pid, syscall.SIGTERM)
		t.Fatalf("it did not end:\n%s", s.out.String())
		return -1
	}
}

func (s *started) until(t *testing.T, text string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.After(3 * time.Minute)
	for !strings.Contains(s.out.String(), text) {
		select {
		case <-tick.C:
		case err := <-s.done:
			t.Fatalf("it ended (%v) before it said %q:\n%s", err, text, s.out.String())
		case <-end:
			t.Fatalf("it never said %q:\n%s", text, s.out.String())
		}
	}
}

// The cluster as `make cluster` starts it, with one port taken by a stranger: dialogues are played, the
// ledgers hold, and every process ends well and leaves nothing behind. Started again on the same data, one of
// its processes is killed: it says which, stops the rest, and the ledgers hold still.
func clusterLives(t *testing.T, bin string) {
	stranger, err := net.Listen("tcp", "127.0.0.1:8010") // an engine that a node has to find by its port
	if err == nil {
		defer stranger.Close()
	}
	dir := t.TempDir()
	s := startCluster(t, bin, dir, "--exit", "--limit", "6", "--concurrency", "4")
	if code := s.wait(t); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, s.out.String())
	}
	for _, want := range []string{"13 processes, 4 agents", "6 dialogues to their end, 0 broken off",
		"no findings: 3 journals", "port 8010 is taken"} {
		if !strings.Contains(s.out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, s.out.String())
		}
	}
	gone(t, s, 13)
	for _, name := range []string{"infra", "treasury", "hub-general", "hub-math", "classifier", "gateway",
		"agentd-1",
		"agentd-2", "agentd-3"} {
		text, err := os.ReadFile(filepath.Join(dir, "log", name+".log"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "msg=stopped") || strings.Contains(string(text), "level=ERROR") {
			t.Errorf("%s did not stop well:\n%s", name, text)
		}
	}

	s = startCluster(t, bin, dir, "--limit", "0")
	s.until(t, "stays up until Ctrl-C")
	if err := syscall.Kill(s.pids()["agentd-2"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code := s.wait(t); code != 1 ||
		!strings.Contains(s.out.String(), "agentd-2 ended by itself: signal: killed") {
		t.Errorf("exit code %d:\n%s", code, s.out.String())
	}
	gone(t, s, 13)
	if out, err := exec.Command(filepath.Join(bin, "ledger"), "check", dir).CombinedOutput(); err != nil {
		t.Errorf("ledger check: %v\n%s", err, out)
	}
}

// gone checks that all processes of a cluster have ended.
func gone(t *testing.T, s *started, want int) {
	t.Helper()
	pids := s.pids()
	if len(pids) != want {
		t.Errorf("the table names %d processes, want %d:\n%s", len(pids), want, s.out.String())
	}
	for name, pid := range pids {
		if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
			t.Errorf("%s, process %d, is still there: %v", name, pid, err)
		}
	}
}

// A file that one daemon cannot use stops the start before anything runs, in that daemon's own words.
func clusterWithABadFile(t *testing.T, bin string) {
	dir := t.TempDir()
	files, err := filepath.Glob(filepath.Join(deployed, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(file) == "hub-math.yaml" {
			text = bytes.Replace(text, []byte("labels:"), []byte("lables:"), 1)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	f := clusterFlags{config: filepath.Join(dir, "cluster.yaml"), bin: bin, exit: true}
	err = runCluster(ctx, filepath.Join(dir, "data"), f, &out, &out)
	if err == nil || !strings.Contains(err.Error(),
		`hub-math.yaml:7: unknown field "hub.lables": write labels`) {
		t.Errorf("it says %v", err)
	}
	if strings.Contains(out.String(), "ready after") {
		t.Errorf("something was started:\n%s", &out)
	}
}

// Clients whose terms lose are the market's daily business; whatever else ends a dialogue is the verdict.
func TestWhatBreaksADialogueOff(t *testing.T) {
	r := replay.Report{BrokenOff: 2, Refused: []replay.Refusals{{Code: bus.CodeNotWorthIt, Count: 2}}}
	if err := brokenOff(&r); err != nil {
		t.Errorf("terms that lost: %v", err)
	}
	r.Refused = append(r.Refused, replay.Refusals{Code: bus.CodeEngineFailed, Count: 1})
	if err := brokenOff(&r); err == nil || err.Error() != "2 dialogues were broken off; refusals: 1 engine_failed" {
		t.Errorf("an engine that failed: %v", err)
	}
	r.BrokenOff = 0 // it went on elsewhere
	if err := brokenOff(&r); err != nil {
		t.Errorf("dialogues that went on: %v", err)
	}
}
