package fire

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	etcd "go.etcd.io/etcd/client/v3"
)

// parts is a market of processes by the files of deploy/local, each with settings of the test's own. Hub math
// has a disk of its own, where this machine lets a test mount one.
type parts struct {
	t          *testing.T
	bin, data  string
	disk       string // the directory of hub math
	within     []string
	nats, etcd string
	http       string // of the gateway
	run        map[string]*part
}

// part is a process that may be started again.
type part struct {
	args, env []string
	log       string
	at        string // where it is asked how it is
	cmd       *exec.Cmd
}

// free is an address of this machine that nobody listens at.
func free(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// many is the number of agents that hub general sells, of one slot each.
const many = 48

// begin starts a market of two hubs, and for each a node with an engine that gives ten tokens a second. That
// of general is reached by way of general.
func begin(t *testing.T, general func(engine string) string) *parts {
	t.Helper()
	bin := os.Getenv("SOUK_BIN")
	if bin == "" {
		t.Skip("SOUK_BIN names no folder of commands: make alerts")
	}
	m := &parts{t: t, bin: bin, data: t.TempDir(), disk: filepath.Join(t.TempDir(), "disk"), nats: free(t),
		etcd: free(t), run: map[string]*part{}}
	m.mount()
	t.Cleanup(func() {
		for _, name := range slices.Sorted(maps.Keys(m.run)) {
			if p := m.run[name]; p.cmd != nil {
				p.cmd.Process.Signal(syscall.SIGCONT)
				p.cmd.Process.Kill()
				p.cmd.Wait()
			}
			if said, err := os.ReadFile(m.run[name].log); err == nil && t.Failed() {
				lines := bytes.Split(bytes.TrimSpace(said), []byte("\n"))
				t.Logf("%s said last:\n%s", name, bytes.Join(lines[max(0, len(lines)-12):], []byte("\n")))
			}
		}
	})
	m.add("infra", []string{"souk", "infra"}, "SOUK_INFRA_NATS="+m.nats, "SOUK_INFRA_ETCD="+m.etcd)
	engines := []string{free(t), free(t)}
	for i, at := range engines {
		_, port, _ := net.SplitHostPort(at)
		p := m.part("engine-"+fmt.Sprint(i+1), "souk", "engine", "--port", port, "--model", "gpt-oss-20b",
			"--profile", "steady", "--speedup", "0.1", "--max-num-seqs", fmt.Sprint(many))
		p.at = at
	}
	for name := range m.run {
		m.start(name)
	}
	m.ready("infra")
	// the engine of general, and what stands before it
	at := general("http://" + engines[0])
	m.add("treasury", []string{"treasury"})
	m.add("hub-general", []string{"hub"}, "SOUK_HUB_SOLVE_LIMIT=1ms")
	m.add("hub-math", []string{"hub"}, "SOUK_DATA="+m.disk)
	if err := os.Symlink(filepath.Join(m.data, "auth"), filepath.Join(m.inside(), "auth")); err != nil {
		t.Fatal(err)
	}
	m.run["hub-math"].args = append(slices.Clone(m.within), m.run["hub-math"].args...)
	m.add("agentd-2", []string{"agentd"}, "SOUK_AGENTD_AGENTS_0_ENGINE_URL=http://"+engines[1],
		"SOUK_AGENTD_AGENTS_0_MODEL=gpt-oss-20b", fmt.Sprint("SOUK_AGENTD_AGENTS_0_SLOTS=", many))
	m.add("agentd-1", []string{"agentd"})
	m.run["agentd-1"].args[2] = m.node(at)
	m.add("classifier", []string{"classifier"})
	m.http = free(t)
	m.add("gateway", []string{"gateway"}, "SOUK_LISTEN="+m.http, "SOUK_GATEWAY_MAX_MEMORY=33554432",
		"SOUK_GATEWAY_MAX_BODY=1048576",
		"SOUK_GATEWAY_MAX_CONNS=1000", "SOUK_GATEWAY_MAX_KEPT=65536", "SOUK_GATEWAY_MAX_ITEMS=65536",
		"SOUK_GATEWAY_MAX_ITEMS_PER_KEY=65536")
	for _, name := range []string{"treasury", "hub-general", "hub-math", "agentd-1", "agentd-2", "classifier",
		"gateway"} {
		m.start(name)
	}
	m.ready("treasury", "hub-general", "hub-math", "agentd-1", "agentd-2", "classifier", "gateway")
	return m
}

// node writes the file of a node with many agents of one engine, no two at the same price.
func (m *parts) node(engine string) string {
	var ids []string
	text := "agentd:\n  node: many\n  drain_timeout: 5s\n  settle_timeout: 5s\n  agents:\n"
	for i := range many {
		ids = append(ids, fmt.Sprint("many-", i))
		text += fmt.Sprintf("    - {id: %s, engine: {url: %q}, model: gpt-oss-20b, scale: 20, slots: 1, domains: "+
			"[{domain: general, score: 0.7}], price: {miss: 0.0%d, hit: 0.03, out: 0.3}}\n", ids[i], engine, 50+i)
	}
	m.souk("auth", "add", "agentd", "many", "--agents", strings.Join(ids, ","))
	path := filepath.Join(m.data, "agentd-1.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
	return path
}

// mount makes the disk of hub math, 200 MB of memory that a namespace has which a process keeps.
func (m *parts) mount() {
	if err := os.Mkdir(m.disk, 0o700); err != nil {
		m.t.Fatal(err)
	}
	keeper := exec.Command("unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
		"mount -t tmpfs -o size=200m tmpfs "+m.disk+" && echo mounted && exec sleep 100000")
	out, err := keeper.StdoutPipe()
	if err == nil {
		err = keeper.Start()
	}
	if err != nil {
		m.t.Logf("no disk of its own: %v", err)
		return
	}
	m.t.Cleanup(func() { keeper.Process.Kill(); keeper.Wait() })
	if said := make([]byte, 7); func() error { _, err := io.ReadFull(out, said); return err }() != nil {
		m.t.Log("no disk of its own: a namespace may not mount one")
		return
	}
	pid := fmt.Sprint(keeper.Process.Pid)
	m.within = []string{"nsenter", "--target", pid, "--user", "--mount", "--preserve-credentials",
		"--wd=" + must(filepath.Abs(root))}
}

func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}

// inside is the directory of hub math as this process reaches it.
func (m *parts) inside() string {
	if len(m.within) == 0 {
		return m.disk
	}
	return fmt.Sprintf("/proc/%s/root%s", m.within[2], m.disk)
}

func (m *parts) part(name, command string, args ...string) *part {
	p := &part{args: append([]string{filepath.Join(m.bin, command)}, args...), at: free(m.t),
		log: filepath.Join(m.data, name+".log")}
	m.run[name] = p
	return p
}

// add makes the part of a file in deploy/local.
func (m *parts) add(name string, command []string, env ...string) {
	p := m.part(name, command[0], append(command[1:], "--config", "deploy/local/"+name+".yaml")...)
	p.env = append([]string{"SOUK_DATA=" + m.data, "SOUK_HEALTH_LISTEN=" + p.at}, env...)
	creds := map[string]string{"treasury": "treasury", "hub-general": "general", "hub-math": "math",
		"agentd-1": "many", "agentd-2": "agentd-node-2", "classifier": "door-1", "gateway": "gateway-1"}[name]
	if creds != "" {
		p.env = append(p.env, "SOUK_MARKET_NATS=nats://"+m.nats, "SOUK_MARKET_ETCD="+m.etcd,
			"SOUK_MARKET_CREDS="+filepath.Join(m.data, "auth/creds", creds+".creds"))
	}
}

func (m *parts) start(name string) {
	m.t.Helper()
	p := m.run[name]
	log, err := os.OpenFile(p.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		m.t.Fatal(err)
	}
	defer log.Close()
	p.cmd = exec.Command(p.args[0], p.args[1:]...)
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = root, append(os.Environ(), p.env...), log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
}

func (m *parts) ready(names ...string) {
	m.t.Helper()
	for _, name := range names {
		for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			r, err := http.Get("http://" + m.run[name].at + "/readyz")
			if err == nil {
				r.Body.Close()
				if r.StatusCode == http.StatusOK {
					break
				}
			}
			if time.Now().After(end) {
				m.t.Fatalf("%s is not ready: %v", name, err)
			}
		}
	}
}

func (m *parts) signal(s syscall.Signal, names ...string) {
	for _, name := range names {
		if err := m.run[name].cmd.Process.Signal(s); err != nil {
			m.t.Fatal(name, err)
		}
	}
}

// stop ends a part well, or at once.
func (m *parts) stop(name string, by syscall.Signal) {
	m.signal(by, name)
	m.run[name].cmd.Wait()
}

// targets are the parts that have metrics.
func (m *parts) targets() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(m.run)) {
		if p := m.run[name]; len(p.env) > 0 {
			all = append(all, p.at)
		}
	}
	return all
}

// souk runs a command on the market, and returns what it printed.
func (m *parts) souk(args ...string) string {
	m.t.Helper()
	args = append(args, "--data", m.data)
	x := exec.Command(filepath.Join(m.bin, "souk"), args...)
	out, err := x.Output()
	if exit, ok := err.(*exec.ExitError); ok {
		m.t.Fatalf("souk %v: %v\n%s%s", args, err, out, exit.Stderr)
	}
	return strings.TrimSpace(string(out))
}

// clients makes so many clients with money, and returns a key of each.
func (m *parts) clients(n int) (keys []string) {
	for i := range n {
		id := fmt.Sprintf("c-%d", i)
		m.souk("fund", id, "10", "--nats", "nats://"+m.nats)
		keys = append(keys, m.souk("key", "new", id, "--etcd", m.etcd))
	}
	return keys
}

// ask has a question answered in so many tokens, and returns the status.
func (m *parts) ask(key, question string, tokens int) int {
	body := must(json.Marshal(map[string]any{"max_tokens": tokens, "ignore_eos": true,
		"messages": []map[string]string{{"role": "user", "content": question}}}))
	r := must(http.NewRequest("POST", "http://"+m.http+"/v1/chat/completions", bytes.NewReader(body)))
	r.Header.Set("Authorization", "Bearer "+key)
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	defer a.Body.Close()
	io.Copy(io.Discard, a.Body)
	return a.StatusCode
}

// crowd has so many ask, one request after another, until they are told to stop.
func (m *parts) crowd(n int, keys []string, question string, tokens func(asker int) int) (stop func()) {
	end := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for {
				pause := time.Duration(0)
				if m.ask(keys[i%len(keys)], question, tokens(i)) != http.StatusOK {
					pause = 100 * time.Millisecond
				}
				select {
				case <-end:
					return
				case <-time.After(pause):
				}
			}
		})
	}
	return func() { close(end); all.Wait() }
}

// registry is the market's etcd, as its root.
func (m *parts) registry() *etcd.Client {
	m.t.Helper()
	at := func(name string) string { return filepath.Join(m.data, "auth", name) }
	pair := must(tls.LoadX509KeyPair(at("certs/root.pem"), at("certs/root.key")))
	ca := x509.NewCertPool()
	ca.AppendCertsFromPEM(must(os.ReadFile(at("ca.pem"))))
	c, err := etcd.New(etcd.Config{Endpoints: []string{"https://" + m.etcd}, DialTimeout: 10 * time.Second,
		TLS: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: ca}})
	if err != nil {
		m.t.Fatal(err)
	}
	return c
}
