package fire

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	etcd "go.etcd.io/etcd/client/v3"
)

const (
	souk  = "What is a souk?"
	cubic = "Let f(x) = x^3 - 3x + 2. Find the derivative of f, and solve f(x) = 0 for x."
)

// lying stands before an engine, and where it is told to bills seven tokens more than the engine does.
func lying(t *testing.T, lies *atomic.Bool) func(engine string) string {
	bill := regexp.MustCompile(`"completion_tokens": ?(\d+)`)
	return func(engine string) string {
		p := httputil.NewSingleHostReverseProxy(must(url.Parse(engine)))
		p.FlushInterval = -1
		p.ModifyResponse = func(r *http.Response) error {
			if !lies.Load() {
				return nil
			}
			from, to := io.Pipe()
			r.Header.Del("Content-Length")
			go func(body io.ReadCloser) {
				defer body.Close()
				in := bufio.NewReader(body)
				for {
					line, err := in.ReadBytes('\n')
					to.Write(bill.ReplaceAll(line, []byte(`"completion_tokens": 7$1`)))
					if err != nil {
						to.CloseWithError(err)
						return
					}
				}
			}(r.Body)
			r.Body = from
			return nil
		}
		s := httptest.NewServer(p)
		t.Cleanup(s.Close)
		return s.URL
	}
}

// wire is a connection to the market's NATS of which nothing is read that is not waited for.
type wire struct {
	net.Conn
	in *bufio.Reader
}

// flush waits until the server has taken in what was written, as its PONG says.
func (c *wire) flush() error {
	c.SetDeadline(time.Now().Add(10 * time.Second))
	defer c.SetDeadline(time.Time{})
	if _, err := io.WriteString(c, "PING\r\n"); err != nil {
		return err
	}
	for {
		switch line, err := c.in.ReadString('\n'); {
		case err != nil:
			return err
		case line == "PONG\r\n":
			return nil
		case strings.HasPrefix(line, "-ERR"):
			return fmt.Errorf("NATS says %s", line)
		}
	}
}

// connect connects to the market's NATS with somebody's creds.
func (m *parts) connect(name string) *wire {
	m.t.Helper()
	text := string(must(os.ReadFile(filepath.Join(m.data, "auth/creds", name+".creds"))))
	between := regexp.MustCompile(`-----BEGIN [A-Z ]+-----\s+(\S+)\s+-+END`).FindAllStringSubmatch(text, 2)
	if len(between) != 2 {
		m.t.Fatalf("creds of %s: %d parts", name, len(between))
	}
	seed := must(base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(between[1][1]))[2:34]
	conn := must(net.Dial("tcp", m.nats))
	m.t.Cleanup(func() { conn.Close() })
	c := &wire{conn, bufio.NewReader(conn)}
	var info struct{ Nonce string }
	line := must(c.in.ReadString('\n'))
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "INFO ")), &info); err != nil {
		m.t.Fatalf("%s: %v", line, err)
	}
	sig := ed25519.Sign(ed25519.NewKeyFromSeed(seed), []byte(info.Nonce))
	connect := must(json.Marshal(map[string]any{"jwt": between[0][1], "name": name, "lang": "go",
		"version": "1", "sig": base64.RawURLEncoding.EncodeToString(sig), "verbose": false, "pedantic": false,
		"protocol": 1, "headers": true, "no_responders": true}))
	fmt.Fprintf(c, "CONNECT %s\r\n", connect)
	if err := c.flush(); err != nil {
		m.t.Fatal(err)
	}
	return c
}

// publish has hub general, by its creds, send so much.
func (m *parts) publish(subject, reply string, data []byte, times int) {
	c := m.connect("general")
	defer c.Close()
	for range times {
		fmt.Fprintf(c, "PUB %s %s %d\r\n%s\r\n", subject, reply, len(data), data)
	}
	if err := c.flush(); err != nil {
		m.t.Fatal(err)
	}
}

// forged is a checkpoint that the key of a journal signs: of as many records as another, with another root.
func (m *parts) forged(journal, note string) []byte {
	key := strings.Split(strings.TrimSpace(string(must(os.ReadFile(filepath.Join(m.data, "auth/notes",
		journal+".key"))))), "\n")[0]
	f := strings.Split(key, "+") // PRIVATE, KEY, name, hash, key
	raw := must(base64.StdEncoding.DecodeString(strings.Join(f[4:], "+")))
	lines := strings.Split(note, "\n")
	other := base64.StdEncoding.EncodeToString(make([]byte, 32))
	body := fmt.Sprintf("%s\n%s\n%s\n", lines[0], lines[1], other)
	sig := ed25519.Sign(ed25519.NewKeyFromSeed(raw[1:]), []byte(body))
	signed := append(must(hex.DecodeString(f[3])), sig...)
	return fmt.Appendf(nil, "%s\n— %s %s\n", body, f[2], base64.StdEncoding.EncodeToString(signed))
}

// watching is Prometheus at a market.
type watching struct {
	*prometheus
	m *parts
}

// play scrapes and evaluates each tick, until that is so or the time is over.
func (w *watching) play(tick, most time.Duration, until func(now []string) bool) (now []string) {
	w.t.Helper()
	t := time.NewTicker(tick)
	defer t.Stop()
	for end := time.Now().Add(most); time.Now().Before(end); {
		w.scrape(w.m.targets())
		w.evaluate()
		if now = w.firing(); until(now) {
			return now
		}
		<-t.C
	}
	return now
}

// fires waits until alerts have fired, each at some time, and then until all is silent.
func (w *watching) fires(tick, most time.Duration, alerts ...string) {
	w.t.Helper()
	seen, began := map[string]bool{}, time.Now()
	w.play(tick, most, func(now []string) bool {
		for _, name := range now {
			seen[name] = true
		}
		return !slices.ContainsFunc(alerts, func(name string) bool { return !seen[name] })
	})
	for _, name := range alerts {
		if !seen[name] {
			w.t.Errorf("%s does not fire within %v: %v do", name, most, slices.Sorted(maps.Keys(seen)))
		}
	}
	w.t.Logf("%v after %.1f s: %v fire", alerts, time.Since(began).Seconds(), slices.Sorted(maps.Keys(seen)))
}

// silent waits until nothing fires, with a minute between two scrapes by Prometheus's clock.
func (w *watching) silent(what string) {
	w.t.Helper()
	w.every = time.Minute
	defer func() { w.every = step }()
	none := func(now []string) bool { return len(now) == 0 }
	if now := w.play(30*time.Millisecond, 90*time.Second, none); len(now) > 0 {
		w.t.Errorf("%s is over, and %v fire", what, now)
	}
}

// Each alert that no part which hangs makes fire does so by a fault of its own, and falls silent once that is
// over. SoukPolicyOff has none here: no policy that a market can name fails or asks for too much.
func TestEachFaultOfARunningMarket(t *testing.T) {
	var lies atomic.Bool
	m := begin(t, lying(t, &lies))
	w := &watching{open(t), m}
	keys := m.clients(40)
	const tick = 100 * time.Millisecond
	always := func(tokens int) func(int) int { return func(int) int { return tokens } }
	served := func(question string) {
		t.Helper()
		if status := m.ask(keys[0], question, 5); status != http.StatusOK {
			t.Errorf("%q: status %d", question, status)
		}
	}
	served(souk)
	served(cubic)
	w.silent("the start")

	t.Run("an engine bills what it has not sent", func(t *testing.T) {
		lies.Store(true)
		served(souk)
		lies.Store(false)
		w.fires(tick, 10*time.Second, "SoukUsageDiffers")
	})
	t.Run("a node hangs until its tasks are over", func(t *testing.T) {
		stop := m.crowd(4, keys, souk, always(30))
		w.play(tick, 2*time.Second, func([]string) bool { return false })
		m.signal(syscall.SIGSTOP, "agentd-1")
		w.fires(tick, 30*time.Second, "SoukNoAgents")
		m.signal(syscall.SIGCONT, "agentd-1")
		w.fires(tick, 30*time.Second, "SoukUnpaid")
		stop()
		w.silent("a node that hangs")
	})
	t.Run("more ask than there are slots, and a hub has a millisecond for a round", func(t *testing.T) {
		stop := m.crowd(240, keys, souk, func(asker int) int { return 100 + asker%7*10 })
		w.fires(4*tick, 90*time.Second, "SoukCrowded", "SoukSolvesStopped")
		m.stop("gateway", syscall.SIGKILL) // with who waits
		stop()
		m.start("gateway")
		m.ready("gateway")
		w.silent("a crowd")
	})
	t.Run("requests fill a gateway", func(t *testing.T) {
		var conns []net.Conn
		for i := range 100 { // those of one key may have half of what is free
			c := must(net.Dial("tcp", m.http))
			conns = append(conns, c)
			const size = 200 << 10
			fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: souk\r\nAuthorization: Bearer %s\r\n"+
				"Content-Length: %d\r\n\r\n", keys[i%len(keys)], size)
			c.Write(make([]byte, size-1))
		}
		w.fires(tick, 10*time.Second, "SoukGatewayFull")
		for _, c := range conns {
			c.Close()
		}
		w.silent("a full gateway")
	})
	t.Run("a disk that stands still now and then", func(t *testing.T) {
		stop := m.crowd(many, keys, souk, always(1))
		end, done, pid := make(chan struct{}), make(chan struct{}), m.run["hub-general"].cmd.Process.Pid
		go func() { // as its syncs would, the process stands still for a third of a second
			defer close(done)
			for {
				syscall.Kill(pid, syscall.SIGSTOP)
				time.Sleep(300 * time.Millisecond)
				syscall.Kill(pid, syscall.SIGCONT)
				select {
				case <-end:
					return
				case <-time.After(20 * time.Millisecond):
				}
			}
		}()
		w.fires(2*tick, time.Minute, "SoukSyncSlow")
		close(end)
		<-done
		stop()
		w.silent("a slow disk")
	})
	t.Run("a client of NATS that does not read", func(t *testing.T) {
		m.souk("auth", "add", "client", "mute")
		c := m.connect("mute")
		fmt.Fprint(c, "SUB souk.v1.reply.mute.> 1\r\n")
		if err := c.flush(); err != nil {
			t.Fatal(err)
		}
		m.publish("souk.v1.reply.mute.x.general", "", make([]byte, 512<<10), 128)
		w.fires(tick, 20*time.Second, "SoukNATSSlow")
		w.silent("a client that does not read")
	})
	t.Run("somebody fills etcd", func(t *testing.T) {
		r := m.registry()
		defer r.Close()
		ctx := t.Context()
		value := strings.Repeat("x", 60<<10)
		for i := range 3700 {
			if _, err := r.Put(ctx, fmt.Sprint("/junk/", i), value); err != nil {
				t.Fatal(i, err)
			}
		}
		w.fires(tick, 20*time.Second, "SoukEtcdFull")
		d, err := r.Delete(ctx, "/junk/", etcd.WithPrefix())
		if err == nil {
			_, err = r.Compact(ctx, d.Header.Revision)
		}
		if err == nil {
			_, err = r.Defragment(ctx, r.Endpoints()[0])
		}
		if err != nil {
			t.Fatal(err)
		}
		w.silent("a full etcd")
	})
	t.Run("a disk fills", func(t *testing.T) {
		if len(m.within) == 0 {
			t.Skip("hub math has no disk of its own here")
		}
		m.fill(100 << 20)
		w.fires(tick, 10*time.Second, "SoukDiskLow")
		stop := m.crowd(many, keys, cubic, always(30))
		w.play(tick, time.Second, func([]string) bool { return false })
		m.fill(0)
		w.fires(tick, 30*time.Second, "SoukGone", "SoukHubNotLed") // a hub ends that cannot write
		stop()
		if err := os.Remove(filepath.Join(m.inside(), "filler")); err != nil {
			t.Fatal(err)
		}
		m.stop("hub-math", syscall.SIGTERM)
		m.start("hub-math")
		m.ready("hub-math")
		served(cubic)
		w.silent("a full disk")
	})
	t.Run("a key signs two histories", func(t *testing.T) {
		state := filepath.Join(m.data, "treasury.witnessed")
		kept := must(os.ReadFile(state))
		var seen map[string]struct{ Note string }
		if err := json.Unmarshal(kept, &seen); err != nil {
			t.Fatal(err)
		}
		for origin, s := range seen {
			if strings.HasSuffix(origin, "/general") {
				said := must(json.Marshal(map[string]any{"id": "x", "hub": "general", "domain": "general",
					"attest": map[string]any{"of": origin, "note": m.forged("general", s.Note)}}))
				m.publish("souk.v1.ledger.allotted.general", "_INBOX.general.x", said, 1)
			}
		}
		w.fires(tick, 10*time.Second, "SoukContradiction")
		m.stop("treasury", syscall.SIGTERM)
		if err := os.Rename(state, state+".evidence"); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(state, kept, 0o600); err != nil {
			t.Fatal(err)
		}
		m.start("treasury")
		m.ready("treasury")
		w.silent("a key that was stolen")
	})
	t.Run("a hub that lives is written off", func(t *testing.T) {
		m.signal(syscall.SIGSTOP, "hub-math")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for strings.Contains(m.souk("writeoff", "math", "--nats", "nats://"+m.nats), "refused now") {
			select {
			case <-ctx.Done():
				t.Fatal("a minute after the hub stood still its write-off would still be refused")
			case <-time.After(time.Second):
			}
		}
		m.souk("writeoff", "math", "--yes", "--nats", "nats://"+m.nats)
		m.signal(syscall.SIGCONT, "hub-math")
		w.fires(tick, 20*time.Second, "SoukFault")
		m.stop("hub-math", syscall.SIGTERM)
		m.souk("auth", "add", "hub", "math-b", "--domain", "math")
		p := m.run["hub-math"]
		p.env = append(p.env, "SOUK_HUB_HUB=math-b", "SOUK_HUB_JOURNAL=math-b",
			"SOUK_MARKET_CREDS="+filepath.Join(m.data, "auth/creds/math-b.creds"))
		m.start("hub-math")
		m.ready("hub-math")
		served(cubic)
		w.silent("a hub that was written off")
	})
	t.Run("a treasury comes back on an older journal", func(t *testing.T) {
		m.stop("treasury", syscall.SIGTERM)
		back := m.older("treasury", func() {
			m.start("treasury")
			m.ready("treasury")
			m.clients(1)
			served(souk)
			m.stop("treasury", syscall.SIGTERM)
		})
		m.start("treasury")
		w.fires(tick, 30*time.Second, "SoukTreasuryClosed")
		m.stop("treasury", syscall.SIGTERM)
		back()
		m.start("treasury")
		m.ready("treasury")
		w.silent("an older journal")
	})
}

// older puts an older copy of a journal in the place of what it became by more; back undoes that.
func (m *parts) older(journal string, more func()) (back func()) {
	dir := filepath.Join(m.data, "journal", journal)
	old, newest := filepath.Join(m.t.TempDir(), "old"), dir+".newest"
	swap := func(from, to string) {
		if err := os.Rename(from, to); err != nil {
			m.t.Fatal(err)
		}
	}
	if err := os.CopyFS(old, os.DirFS(dir)); err != nil {
		m.t.Fatal(err)
	}
	more()
	swap(dir, newest)
	if err := os.CopyFS(dir, os.DirFS(old)); err != nil {
		m.t.Fatal(err)
	}
	return func() {
		if err := os.RemoveAll(dir); err != nil {
			m.t.Fatal(err)
		}
		swap(newest, dir)
	}
}

// fill leaves so many bytes of the disk of hub math; with none, what its journal has set aside for what comes
// goes, too, as it does where a disk promises more than there is.
func (m *parts) fill(leave int64) {
	path := filepath.Join(m.inside(), "filler")
	f := must(os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600))
	defer f.Close()
	if leave == 0 {
		m.punch()
	}
	block := make([]byte, 1<<20)
	for {
		var s syscall.Statfs_t
		if err := syscall.Statfs(m.inside(), &s); err != nil {
			m.t.Fatal(err)
		}
		if left := int64(s.Bavail) * s.Bsize; left <= leave {
			return
		}
		if _, err := f.Write(block); err != nil {
			return // it is full
		}
	}
}

// punch gives back what segments have set aside behind their last record.
func (m *parts) punch() {
	segments := must(filepath.Glob(filepath.Join(m.inside(), "journal/math/wal/*")))
	for _, path := range segments {
		data := must(os.ReadFile(path))
		end := len(data)
		for end > 0 && data[end-1] == 0 {
			end--
		}
		from := int64(end+4095) / 4096 * 4096
		f := must(os.OpenFile(path, os.O_RDWR, 0))
		const keepSize, punchHole = 1, 2
		if more := int64(len(data)) - from; more > 0 {
			if err := syscall.Fallocate(int(f.Fd()), keepSize|punchHole, from, more); err != nil {
				m.t.Fatal(path, err)
			}
		}
		f.Close()
	}
}
