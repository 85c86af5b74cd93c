package gateway_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/gateway"
	"souk/bus/membus"
	"souk/cmd/daemon"
)

// beyond is a gateway at a TCP port, without a market behind it, and a key of it.
func beyond(t *testing.T, change func(*gateway.Config)) (at, key string) {
	t.Helper()
	return beyondAt(t, "127.0.0.1:0", change)
}

func beyondAt(t *testing.T, listen string, change func(*gateway.Config)) (at, key string) {
	t.Helper()
	key = bus.NewSecret("k", [32]byte{1})
	world := membus.New(1)
	registry := world.Registry()
	value, err := bus.EncodeEntry(&bus.APIKey{ID: "k", Client: "c",
		Hashes: []bus.KeyHash{{SHA256: bus.HashKey(key)}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := registry.Put(t.Context(), bus.APIKeyKey("k"), value); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	c := gateway.Default()
	c.ID, c.WrongKeys = "gateway", 1
	change(&c)
	secure, err := daemon.ServerTLS(c.TLS.Cert, c.TLS.Key)
	if err != nil {
		t.Fatal(err)
	}
	var s *gateway.Server
	t.Cleanup(func() { // once it has ended
		if left := s.Stats().Memory; left != 0 {
			t.Errorf("%d bytes are still counted", left)
		}
	})
	s, _ = running(t, c, gateway.Deps{Bus: world.Bus("gateway"), Registry: registry, Listener: l,
		TLS: secure, Log: slog.New(slog.DiscardHandler)})
	return l.Addr().String(), key
}

// certificate writes a pair for 127.0.0.1 to a folder, and returns its serial number and who vouches for it.
func certificate(t *testing.T, dir string, serial int64) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true,
		BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &secret.PublicKey, secret)
	if err != nil {
		t.Fatal(err)
	}
	secretDER, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, pool = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), x509.NewCertPool()
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der},
		key: {Type: "PRIVATE KEY", Bytes: secretDER}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(leaf)
	return cert, key, pool
}

// A gateway with a certificate speaks TLS, HTTP/1.1 or 2 as its client does. A renewed one is shown to who
// comes next, without a start; while its files are half written the last one is.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key, pool := certificate(t, dir, 1)
	at, secret := beyond(t, func(c *gateway.Config) { c.TLS.Cert, c.TLS.Key = cert, key })
	ask := func(h2 bool) (protocol string, serial int64) {
		t.Helper()
		to := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, Protocols: new(http.Protocols)}
		to.Protocols.SetHTTP1(!h2)
		to.Protocols.SetHTTP2(h2)
		defer to.CloseIdleConnections()
		for range 2 { // on one connection
			r, err := http.NewRequestWithContext(t.Context(), "POST", "https://"+at+"/v1/chat/completions",
				strings.NewReader(`{"messages":`+strings.Repeat(" ", 100_000)))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+secret)
			a, err := to.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, a.Body); err != nil {
				t.Error(err)
			}
			if a.Body.Close(); a.StatusCode != http.StatusBadRequest { // it was read, and is no JSON
				t.Errorf("%d", a.StatusCode)
			}
			protocol, serial = a.Proto, a.TLS.PeerCertificates[0].SerialNumber.Int64()
		}
		return protocol, serial
	}
	if p, n := ask(false); p != "HTTP/1.1" || n != 1 {
		t.Errorf("%s, certificate %d", p, n)
	}
	if p, n := ask(true); p != "HTTP/2.0" || n != 1 {
		t.Errorf("%s, certificate %d", p, n)
	}
	if err := os.WriteFile(key, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, n := ask(true); n != 1 {
		t.Errorf("certificate %d", n)
	}
	_, _, pool = certificate(t, dir, 2)
	if _, n := ask(true); n != 2 {
		t.Errorf("after it was renewed: certificate %d", n)
	}
}

// Each of a proxy's clients is put off for its own wrong keys alone, by X-Forwarded-For and by the PROXY
// protocol; what others than proxies say counts for nothing.
func TestWrongKeysCountWhereTheyComeFrom(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*gateway.Config)
		head   func(client string) (connection, header string)
		apart  bool
	}{
		{"no proxy", func(*gateway.Config) {}, func(client string) (string, string) {
			return "", "X-Forwarded-For: " + client + "\r\n"
		}, false},
		{"X-Forwarded-For", func(c *gateway.Config) { c.Proxies = []string{"127.0.0.1"} },
			func(client string) (string, string) {
				return "", "X-Forwarded-For: 192.0.2.77, " + client + "\r\nX-Forwarded-Proto: http\r\n"
			}, true},
		{"PROXY", func(c *gateway.Config) { c.Proxies, c.ProxyHeader = []string{"127.0.0.0/8"}, true },
			func(client string) (string, string) {
				return "PROXY TCP4 " + client + " 127.0.0.1 99 80\r\n", "X-Forwarded-For: 192.0.2.77\r\n"
			}, true},
	} {
		at, _ := beyond(t, c.change)
		statuses := ""
		for i, client := range []string{"203.0.113.1", "203.0.113.1", "203.0.113.2"} {
			connection, header := c.head(client)
			conn, err := net.Dial("tcp", at)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "%sGET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %d\r\n%s\r\n", connection, i,
				header)
			a, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			statuses += fmt.Sprint(a.StatusCode, " ")
			conn.Close()
		}
		want := "401 429 429 "
		if c.apart {
			want = "401 429 401 "
		}
		if statuses != want {
			t.Errorf("%s: %s, want %s", c.name, statuses, want)
		}
	}
}

// Where connections are to begin with the PROXY protocol's header, those that do not, or come from elsewhere,
// are hung up on, and whoever says nothing does not keep others out.
func TestWithoutTheProxyHeader(t *testing.T) {
	for _, proxies := range [][]string{{"127.0.0.1"}, {"10.0.0.0/8"}} {
		at, _ := beyond(t, func(c *gateway.Config) { c.Proxies, c.ProxyHeader = proxies, true })
		silent, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		for _, head := range []string{"GET /health HTTP/1.1\r\nHost: x\r\n\r\n",
			"PROXY TCP4 1.2.3.4 1.2.3.4 1 2\r\nGET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"} {
			conn, err := net.Dial("tcp", at)
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(conn, head)
			got, _ := io.ReadAll(conn)
			served := strings.HasPrefix(string(got), "HTTP/1.1 200")
			if served != (head[0] == 'P' && proxies[0] == "127.0.0.1") {
				t.Errorf("%v: %.20q: %.60q", proxies, head, got)
			}
			conn.Close()
		}
		silent.Close()
	}
}

// Without TLS a gateway that has proxies speaks to them and to its own machine alone.
func TestAGatewayBeyondLoopback(t *testing.T) {
	var c gateway.Config
	if c.BeyondLoopback() {
		t.Error("without TLS and proxies")
	}
	c.Proxies = []string{"10.0.0.0/8"}
	if !c.BeyondLoopback() {
		t.Error("behind a proxy")
	}
	own := ownAddress()
	if own == "" {
		t.Skip("this machine has no address but loopback's")
	}
	at, key := beyondAt(t, own+":0", func(c *gateway.Config) { c.Proxies = []string{"192.0.2.1"} })
	for path, status := range map[string]int{"/v1/models": http.StatusNotFound, "/health": http.StatusOK} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+at+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if a.Body.Close(); a.StatusCode != status {
			t.Errorf("%s: %d", path, a.StatusCode)
		}
	}
}

// ownAddress is an address of this machine at which others may reach it; "": it has none.
func ownAddress() string {
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	return ""
}
