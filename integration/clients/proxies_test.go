package clients

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"souk/agentd/vllmsim"
	"souk/bus/bustest"
	"souk/cmd/local"
)

// proxies are the servers that people put before gateways, each with the lines that the manuals give for it.
var proxies = []struct {
	name string // of its program
	page string // with its configuration: all of it, or a block that begins with begin
	args func(file string) []string

	begin  string
	header bool // it speaks the PROXY protocol to the gateway
	plain  bool // without TLS, as its example is
}{
	{name: "nginx", page: "cluster3/nginx.conf", args: func(file string) []string {
		return []string{"-c", file, "-g", "daemon off; pid nginx.pid; error_log stderr;", "-p", filepath.Dir(file)}
	}},
	{name: "envoy", page: "cluster3/envoy.yaml", plain: true, args: func(file string) []string {
		return []string{"-c", file, "--use-dynamic-base-id", "--concurrency", "1", "-l", "error"}
	}},
	{name: "caddy", page: "api.md", begin: "    chat.example.org {\n", args: func(file string) []string {
		return []string{"run", "--config", file, "--adapter", "caddyfile"}
	}},
	{name: "haproxy", page: "api.md", begin: "    defaults\n", header: true,
		args: func(file string) []string { return []string{"-db", "-f", file} }},
}

// Behind each of the proxies that are here, as the manuals have it set up, with two gateways of which one is
// away: a stream comes as it is made; an engine may be silent for longer than the proxy waits, since comments
// come; who leaves has left; wrong keys count where they come from, whatever a client says of that; a body of
// 20 MB comes through, and what a gateway refuses is refused in its words.
func TestBehindProxies(t *testing.T) {
	for _, p := range proxies {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel() // they wait, mostly
			program, err := exec.LookPath(p.name)
			if err != nil {
				t.Skipf("there is no %s", p.name)
			}
			version := map[string]string{"caddy": "version", "envoy": "--version"}[p.name]
			said, _ := exec.Command(program, cmp.Or(version, "-v")).CombinedOutput()
			t.Logf("%s", bytes.TrimSpace(said))
			m, engine := behind(t, p.header)
			key, err := local.ReadKey(m.KeyFile)
			if err != nil {
				t.Fatal(err)
			}
			page, err := os.ReadFile(filepath.Join("../../deploy", p.page))
			if err != nil {
				t.Fatal(err)
			}
			text := string(page)
			if p.begin != "" {
				_, rest, found := strings.Cut(text, p.begin)
				if rest, _, _ = strings.Cut(rest, "\n\n"); !found {
					t.Fatalf("%s has no block %q", p.page, p.begin)
				}
				text = strings.ReplaceAll("\n"+p.begin+rest+"\n", "\n    ", "\n")
			}
			dir := t.TempDir()
			pair, pool := certificate(t, dir)
			port := free(t)
			_, gateway, _ := net.SplitHostPort(strings.TrimPrefix(m.State.HTTP, "http://"))
			for _, r := range [][2]string{
				{"127.0.0.1:8080", "127.0.0.1:" + gateway}, {"port_value: 8080", "port_value: " + gateway},
				{"127.0.0.2:8080", "127.0.0.2:" + gateway}, {"900s", "2s"},
				{"listen 8443;", "listen 127.0.0.1:" + port + " ssl;"},
				{"# ssl_certificate", "ssl_certificate"},
				{"/etc/nginx/souk.pem", pair}, {"/etc/nginx/souk.key", pair},
				{"port_value: 8443", "port_value: " + port}, {"0.0.0.0", "127.0.0.1"},
				{"chat.example.org {", "{\n\tadmin off\n\tauto_https off\n}\n" + "https://127.0.0.1:" + port +
					" {\n    tls " + pair + " " + pair},
				{":8443", "127.0.0.1:" + port}, {"/etc/haproxy/souk.pem", pair},
			} {
				text = strings.ReplaceAll(text, r[0], r[1])
			}
			file := filepath.Join(dir, "proxy."+cmp.Or(strings.TrimPrefix(filepath.Ext(p.page), "."), "conf"))
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			run(t, program, dir, p.args(file))
			at := "https://127.0.0.1:" + port
			if p.plain {
				at = "http://127.0.0.1:" + port
			}
			c := &proxied{t: t, at: at, key: key, web: from("127.0.0.2", pool)}
			bustest.Eventually(t, p.name+" has a gateway", func() bool {
				r, err := c.web.Get(at + "/health")
				if err != nil {
					return false
				}
				r.Body.Close()
				return r.StatusCode == http.StatusOK
			})
			for range 10 { // half of them would come to the gateway that is away
				if status, said := c.ask(`"max_tokens":2`); status != http.StatusOK {
					t.Fatalf("%d %s", status, said)
				}
			}
			c.streams(m, engine)
			c.bodies()
			c.wrongKeys(pool)
		})
	}
}

// proxied is a client behind a proxy.
type proxied struct {
	t       *testing.T
	at, key string
	web     *http.Client
}

// pausing is an engine that says one event, and then waits until it is let go on.
type pausing struct{ on chan struct{} }

// behind is a market whose gateway stands behind a proxy on this machine.
func behind(t *testing.T, header bool) (*local.Market, *pausing) {
	t.Helper()
	engine, err := vllmsim.New(vllmsim.Config{Model: "gpt-oss-20b", MaxModelLen: 128 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	p := &pausing{on: make(chan struct{})}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/models": // a server that hangs is found by silence alone
			io.WriteString(w, `{"data":[{"id":"gpt-oss-20b","owned_by":"library"}]}`)
			return
		case "/metrics":
			http.NotFound(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if !bytes.Contains(body, []byte("Pause")) {
			engine.ServeHTTP(w, r)
			return
		}
		whole := httptest.NewRecorder()
		engine.ServeHTTP(whole, r)
		w.Header().Set("Content-Type", "text/event-stream")
		for i, event := range strings.SplitAfter(whole.Body.String(), "\n\n") {
			if i == 3 {
				select {
				case <-p.on:
				case <-r.Context().Done():
					return
				}
			}
			io.WriteString(w, event)
			http.NewResponseController(w).Flush()
		}
	}))
	t.Cleanup(front.Close)
	cfg, err := local.ParseConfig("test.yaml", fmt.Appendf(nil, `
listen: 127.0.0.1:0
domains: [{name: general, general: true, labels: [general, humanities, social, law, medicine, math, science, finance, code]}]
agents:
  - {id: only, model: gpt-oss-20b, price_row: fireworks/gpt-oss-20b, scores: [{domain: general, score: 0.7}], engine: {url: %q}}
clients: {dev: 10}
gateway: {proxies: [127.0.0.1], proxy_header: %v, comment_every: 500ms, wrong_keys: 1}
`, front.URL, header))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	m, err := local.Start(t.Context(), local.Options{Dir: dir, Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(m.Err(), m.Close(),
			local.CheckLedger(context.Background(), dir, t.Output())); err != nil {
			t.Error(err)
		}
	})
	return m, p
}

// run runs a proxy until the test ends.
func run(t *testing.T, program, dir string, args []string) {
	t.Helper()
	var said bustest.Buffer
	c := exec.Command(program, args...)
	c.Dir, c.Stdout, c.Stderr = dir, &said, &said
	c.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Signal(os.Interrupt)
		done := time.AfterFunc(5*time.Second, func() { c.Process.Kill() })
		c.Wait()
		done.Stop()
		if t.Failed() {
			t.Logf("it says:\n%s", &said)
		}
	})
}

// free is a port that is free.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// certificate writes one for 127.0.0.1, with its key in the same file.
func certificate(t *testing.T, dir string) (file string, pool *x509.CertPool) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true,
		BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &secret.PublicKey, secret)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	file, pool = filepath.Join(dir, "pair.pem"), x509.NewCertPool()
	both := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)
	if err := os.WriteFile(file, both, 0o600); err != nil || !pool.AppendCertsFromPEM(both) {
		t.Fatal(err)
	}
	return file, pool
}

// from is a client at an address of this machine.
func from(address string, pool *x509.CertPool) *http.Client {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DialContext: d.DialContext,
		TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}}
}

func (c *proxied) post(ctx context.Context, text, more string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, "POST", c.at+"/v1/chat/completions", strings.NewReader(
		`{"messages":[{"role":"user","content":"`+text+`"}],`+more+`}`))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+c.key)
	return c.web.Do(r)
}

func (c *proxied) ask(more string) (status int, said string) {
	c.t.Helper()
	r, err := c.post(c.t.Context(), "What is a souk?", more)
	if err != nil {
		c.t.Fatal(err)
	}
	defer r.Body.Close()
	all, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Errorf("%d: %v", r.StatusCode, err)
	}
	return r.StatusCode, string(all)
}

// streams reads one whose engine says nothing for longer than the proxy waits, and leaves another.
func (c *proxied) streams(m *local.Market, engine *pausing) {
	t := c.t
	for _, leaves := range []bool{false, true} {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		r, err := c.post(ctx, "Pause", `"max_tokens":8,"stream":true`)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		lines, begun := bufio.NewReader(r.Body), time.Now()
		for comments := 0; comments < 6; { // each half a second after the one before
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatalf("after %v and %d comments: %v", time.Since(begun), comments, err)
			}
			if strings.HasPrefix(line, ":") {
				comments++
			}
			if leaves && strings.Contains(line, `"content":"`) {
				break
			}
		}
		if leaves {
			before := m.Gateway.Stats().Left
			leave()
			bustest.Eventually(t, "the gateway sees that its client has left", func() bool {
				s := m.Gateway.Stats()
				return s.Left > before && s.Open == 0
			})
			continue
		}
		engine.on <- struct{}{}
		rest, err := io.ReadAll(lines)
		if err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
			t.Errorf("%v: %s", err, rest)
		}
	}
}

// bodies sends large ones.
func (c *proxied) bodies() {
	for _, test := range []struct {
		bytes, status int
		says          string
	}{{20 << 20, http.StatusBadRequest, `"bad_request"`}, {33 << 20, http.StatusRequestEntityTooLarge, ""}} {
		r, err := http.NewRequestWithContext(c.t.Context(), "POST", c.at+"/v1/chat/completions",
			bytes.NewReader(append([]byte(`{"messages":`), bytes.Repeat([]byte(" "), test.bytes)...)))
		if err != nil {
			c.t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+c.key)
		a, err := c.web.Do(r)
		if err != nil {
			c.t.Errorf("%d bytes: %v", test.bytes, err)
			continue
		}
		said, _ := io.ReadAll(a.Body)
		a.Body.Close()
		if a.StatusCode != test.status || !strings.Contains(string(said), test.says) {
			c.t.Errorf("%d bytes: %d %.300s", test.bytes, a.StatusCode, said)
		}
	}
}

// wrongKeys come from two addresses, and say that they come from others.
func (c *proxied) wrongKeys(pool *x509.CertPool) {
	got := ""
	for i, address := range []string{"127.0.0.3", "127.0.0.3", "127.0.0.4"} {
		r, err := http.NewRequestWithContext(c.t.Context(), "GET", c.at+"/v1/models", nil)
		if err != nil {
			c.t.Fatal(err)
		}
		r.Header.Set("Authorization", fmt.Sprint("Bearer ", i))
		r.Header.Set("X-Forwarded-For", fmt.Sprint("192.0.2.", i))
		web := from(address, pool)
		a, err := web.Do(r)
		if err != nil {
			c.t.Fatal(err)
		}
		a.Body.Close()
		web.CloseIdleConnections()
		got += fmt.Sprint(a.StatusCode, " ")
	}
	if got != "401 429 401 " {
		c.t.Errorf("wrong keys of two addresses: %s", got)
	}
}
