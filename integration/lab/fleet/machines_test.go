package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/follow"
)

// machines is the market of deploy/cluster3 as processes, started as its manual says, and clients of OpenAI's
// own library before its two gateways.
type machines struct {
	t      *testing.T
	ctx    context.Context
	dir    string
	folder string // deploy/cluster3
	env    []string
	hosts  [3]string
	parts  map[string]*Part
	http   *http.Client
	key    string

	n, served atomic.Int64
	mu        sync.Mutex
	again     map[string]int // requests that were asked again, by why
	failed    []failure      // what clients saw, beyond what their library repeats
}

// failure is a request that failed for good.
type failure struct {
	began, ended time.Time
	stream       bool
	at           string // address of the gateway that was asked last
	err          error
}

func (f failure) String() string {
	return fmt.Sprintf("asked %s at %s, stream=%v: %v", f.at, f.began.UTC().Format("04:05.000"), f.stream, f.err)
}

func newMachines(t *testing.T, ctx context.Context) *machines {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the loopback interface has one address here")
	}
	bin := commands(t)
	folder, err := filepath.Abs("../../../deploy/cluster3")
	must(t, err)
	at := fmt.Sprintf("127.%d.%d.", 64+rand.IntN(128), rand.IntN(256))
	m := &machines{t: t, ctx: ctx, dir: t.TempDir(), folder: folder, parts: map[string]*Part{},
		hosts: [3]string{at + "1", at + "2", at + "3"}, again: map[string]int{}}
	m.env = []string{"BIN=" + bin, "ADDRESSES=" + strings.Join(m.hosts[:], " ")}
	m.run("keys.sh")
	t.Cleanup(func() {
		for _, p := range m.parts {
			if p.Alive() {
				_ = p.Kill()
			}
		}
		keep(t, m.dir)
		if t.Failed() {
			for name, p := range m.parts {
				t.Logf("%s said last:\n%s", name, p.Tail(25))
			}
		}
	})
	m.balance()
	return m
}

// run runs a script of the folder to its end.
func (m *machines) run(args ...string) string {
	m.t.Helper()
	c := exec.CommandContext(m.ctx, filepath.Join(m.folder, args[0]), args[1:]...)
	c.Dir, c.Env = m.dir, append(os.Environ(), m.env...)
	out, err := c.Output()
	if exit, ok := err.(*exec.ExitError); ok {
		m.t.Fatalf("%v: %v\n%s%s", args, err, out, exit.Stderr)
	}
	must(m.t, err)
	return strings.TrimSpace(string(out))
}

// start starts parts of machine n, and waits until those that need no others are ready.
func (m *machines) start(n int, names ...string) {
	m.t.Helper()
	ports := map[string]string{"infra": "9400", "treasury": "9401", "classifier": "9402", "hub": "9403",
		"agentd": "9405", "gateway": "9408"}
	for _, name := range names {
		p := &Part{Name: fmt.Sprintf("%s-%d", name, n), Health: m.hosts[n-1] + ":" + ports[name],
			ReadyAt: "/readyz", Env: m.env}
		more := ""
		if name == "engine" {
			_, at, _ := net.SplitHostPort(port())
			m.env = append(m.env, fmt.Sprintf("ENGINE%d=%s", n, at))
			p.Health, p.ReadyAt, more = "127.0.0.1:"+at, "/health", " --profile steady --speedup 2"
		}
		for _, e := range m.env { // an agentd, too, is told of its engine
			if at, ok := strings.CutPrefix(e, fmt.Sprintf("ENGINE%d=", n)); ok {
				p.Env = append(slices.Clone(m.env), "ENGINE="+at)
			}
		}
		p.Log = filepath.Join(m.dir, p.Name+".log")
		p.Args = []string{"sh", "-c", fmt.Sprintf("cd %s && exec %s/machine.sh %d %s%s", m.dir, m.folder, n,
			name, more)}
		m.parts[p.Name] = p
		must(m.t, p.Start())
	}
}

func (m *machines) ready(names ...string) {
	m.t.Helper()
	for _, name := range names {
		must(m.t, m.parts[name].Ready(m.ctx))
	}
}

// balance has connections go to the gateways in turn, and to the next where one does not answer its port, or
// says that it stops: as a balancer does that clients know by one address, and that looks at /health.
func (m *machines) balance() {
	var turn atomic.Int64
	dial := func(ctx context.Context, network, _ string) (conn net.Conn, err error) {
		for range 2 {
			at := m.hosts[turn.Add(1)%2] + ":8080"
			said, wrong := http.Get("http://" + at + "/health")
			if err = wrong; err != nil {
				continue
			}
			said.Body.Close()
			if err = fmt.Errorf("%s: %s", at, said.Status); said.StatusCode != http.StatusOK {
				continue
			}
			if conn, err = new(net.Dialer).DialContext(ctx, network, at); err == nil {
				return conn, nil
			}
		}
		return nil, err
	}
	m.http = &http.Client{Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 64}}
	m.t.Cleanup(m.http.CloseIdleConnections)
}

// crowd has so many clients ask one request after another until they are told to stop; every second one
// reads a stream.
func (m *machines) crowd(clients int) (stop func()) {
	asking, end := context.WithCancel(m.ctx)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for asking.Err() == nil {
				n := m.n.Add(1)
				body := fmt.Sprintf(`{"model":"auto","messages":[{"role":"user","content":"What is a souk? %d"}],`+
					`"max_tokens":%d,"stream":%v}`, n, 20+n%40, i%2 == 0)
				f := failure{began: time.Now(), stream: i%2 == 0}
				ctx := httptrace.WithClientTrace(m.ctx, &httptrace.ClientTrace{
					GotConn: func(c httptrace.GotConnInfo) { f.at = c.Conn.RemoteAddr().String() }})
				f.err = stock(ctx, m.http, "http://souk", m.key, body, func(said string) {
					m.mu.Lock()
					defer m.mu.Unlock()
					m.again[why(said)]++
				})
				if f.ended = time.Now(); f.err != nil {
					m.mu.Lock()
					m.failed = append(m.failed, f)
					m.mu.Unlock()
				} else {
					m.served.Add(1)
				}
			}
		})
	}
	return func() { end(); wg.Wait() }
}

// why is the market's code in a refusal, or what the connection said.
func why(said string) string {
	var e struct {
		Error struct{ Souk struct{ Code bus.Code } }
	}
	if json.Unmarshal([]byte(said), &e) == nil && e.Error.Souk.Code != "" {
		return string(e.Error.Souk.Code)
	}
	return said[strings.LastIndexByte(said, ':')+1:]
}

// more waits until so many more requests were served.
func (m *machines) more(want int64) {
	m.t.Helper()
	for from := m.served.Load(); m.served.Load() < from+want; {
		if !follow.Pause(m.ctx, 5*time.Millisecond) {
			m.t.Fatalf("%d of %d more requests were served: %v", m.served.Load()-from, want, m.ctx.Err())
		}
	}
}

// count tells what happened since the last one, and returns what failed.
func (m *machines) count(what string, since time.Time, served int64) (failed []failure) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.t.Logf("%-36s %5.1f s, %5d served, %d failed, asked again: %v", what, time.Since(since).Seconds(),
		m.served.Load()-served, len(m.failed), m.again)
	failed, m.failed, m.again = m.failed, nil, map[string]int{}
	return failed
}

func (m *machines) begin() {
	m.t.Helper()
	for n := range 3 {
		m.start(n+1, "infra", "engine")
	}
	m.ready("infra-1", "infra-2", "infra-3")
	m.start(1, "treasury", "hub", "classifier", "gateway")
	m.ready("hub-1") // it leads
	m.start(2, "hub", "classifier", "gateway")
	for n := range 3 {
		m.start(n+1, "agentd")
	}
	m.ready("treasury-1", "classifier-1", "classifier-2", "gateway-1", "gateway-2", "agentd-1", "agentd-2",
		"agentd-3")
	m.run("machine.sh", "1", "souk", "fund", "dev", "100")
	m.key = m.run("machine.sh", "1", "souk", "key", "new", "dev")
}

// end stops what runs, in the order of an operator, and checks the journals.
func (m *machines) end() {
	m.t.Helper()
	for _, name := range []string{"gateway", "classifier", "agentd", "hub", "treasury", "engine", "infra"} {
		for n := range 3 {
			if p := m.parts[fmt.Sprintf("%s-%d", name, n+1)]; p != nil {
				if err := p.Stop(StopWithin); err != nil {
					m.t.Error(err)
				}
			}
		}
	}
	m.t.Log(m.run("machine.sh", "1", "ledger", "check", "--verbose", "souk-data-1", "souk-data-2"))
}

// excused reports whether nobody could have helped it that a request failed: its stream had begun at the
// very gateway that was killed, or it was at a hub when that was killed, whose machine stayed away, and with
// it the journal: nobody else knows whether an agent serves it, and the gateway asked for some seconds more.
func (m *machines) excused(f failure, lost map[string][2]time.Time) bool {
	for name, killed := range lost {
		if f.began.After(killed[1]) || f.ended.Before(killed[0]) {
			continue
		}
		_, begun := errors.AsType[cut](f.err)
		at, gateway := strings.CutPrefix(name, "gateway-")
		if gateway && begun && f.at == m.hosts[at[0]-'1']+":8080" || strings.HasPrefix(name, "hub-") &&
			why(errors.Unwrap(f.err).Error()) == string(bus.CodeUnknown) {
			return true
		}
	}
	return false
}

// The market of deploy/cluster3 loses each of its parts under load, one after another, and each comes back: a
// hub at once, as a service does that is started again, and once its other has led for a while. No client of
// OpenAI's own library sees an error but those that nobody could have helped.
func TestThreeMachines(t *testing.T) {
	whole(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	m := newMachines(t, ctx)
	m.begin()
	stop := m.crowd(12)
	m.more(100)
	parts := []string{"infra-1", "infra-2", "infra-3", "classifier-1", "classifier-2", "agentd-1", "engine-2",
		"treasury-1", "hub-1 at once", "hub-1 at once", "hub-1", "hub-2", "gateway-1", "gateway-2"}
	if only := os.Getenv("SOUK_PARTS"); only != "" { // to look into one
		parts = strings.Split(only, ",")
	}
	lost := map[string][2]time.Time{} // between which times it was killed
	for _, what := range parts {
		name, atOnce := strings.CutSuffix(what, " at once")
		since, served := time.Now(), m.served.Load()
		must(t, m.parts[name].Kill())
		if delete(lost, name); !atOnce {
			lost[name] = [2]time.Time{since, time.Now()}
		}
		switch away := int64(100); {
		case atOnce:
		case name == "treasury-1":
			m.more(away / 5) // by what the hub was granted, which is little of a client who has just come
		default:
			m.more(away)
		}
		must(t, m.parts[name].Start())
		if !strings.HasPrefix(name, "hub") { // which stands by then
			m.ready(name)
		}
		m.more(100)
		for _, f := range m.count(what+" killed, and started again", since, served) {
			if m.excused(f, lost) {
				t.Logf("%s: %s", what, f)
			} else {
				t.Errorf("%s: %s", what, f)
			}
		}
	}
	stop()
	m.end()
}

// Each part is told to stop, and is started again, under load, one after another: not one request fails.
func TestThreeMachinesAreRestarted(t *testing.T) {
	whole(t)
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	m := newMachines(t, ctx)
	m.begin()
	stop := m.crowd(12)
	m.more(100)
	want := int64(1000)
	if soak {
		want = 10_000
	}
	for m.served.Load() < want {
		for _, name := range []string{"infra-1", "infra-2", "infra-3", "classifier-1", "classifier-2",
			"agentd-1", "agentd-2", "treasury-1", "hub-1", "hub-2", "gateway-1", "gateway-2"} {
			since, served := time.Now(), m.served.Load()
			must(t, m.parts[name].Stop(StopWithin))
			m.more(20)
			must(t, m.parts[name].Start())
			if !strings.HasPrefix(name, "hub") {
				m.ready(name)
			}
			m.more(50)
			for _, f := range m.count(name+" restarted", since, served) {
				t.Errorf("%s: %s", name, f)
			}
		}
	}
	stop()
	m.end()
}
