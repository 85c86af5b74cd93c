package daemon

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus/metrics"
	"souk/bus/natsauth"
)

const secret = "correct-horse-battery-staple"

// secretFile is a file of a token.
func secretFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Where other machines reach it, health is asked by any name, and shows metrics and reasons to who sends the
// token; what the daemon counts of clients it shows to nobody.
func TestHealthBeyondLoopback(t *testing.T) {
	files, err := natsauth.ServerCert(t.TempDir(), nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	token, right := secretFile(t, secret+"\n"), "Bearer "+secret
	for _, c := range []struct {
		name, listen string
		tls, token   bool
		sent         map[string]map[string]int // status by Authorization and path
	}{
		{"token", "0.0.0.0:0", false, true, map[string]map[string]int{
			right:       {"/livez": 200, "/readyz": 503, "/metrics": 200, "/stats": 404},
			right + "s": {"/livez": 200, "/readyz": 503, "/metrics": 401, "/stats": 401},
			"":          {"/livez": 200, "/readyz": 503, "/metrics": 401, "/stats": 401},
			"Bearer ":   {"/metrics": 401}, right[:len(right)-1]: {"/metrics": 401},
			"Basic " + secret: {"/metrics": 401}, "Bearer " + strings.Repeat("x", 5000): {"/metrics": 401},
		}},
		{"TLS", "0.0.0.0:0", true, false, map[string]map[string]int{
			"": {"/livez": 200, "/readyz": 503, "/metrics": 200, "/stats": 404}}},
		{"TLS and token", "[::]:0", true, true, map[string]map[string]int{
			right: {"/metrics": 200}, "": {"/livez": 200, "/metrics": 401}}},
		{"token on loopback", "127.0.0.1:0", false, true, map[string]map[string]int{
			right: {"/metrics": 200, "/stats": 200}, "": {"/livez": 200, "/metrics": 401, "/stats": 401}}},
	} {
		health := Health{Listen: c.listen}
		if c.tls {
			health.TLS.Cert, health.TLS.Key = files.Cert, files.Key
		}
		if c.token {
			health.TokenFile = token
		}
		if err := health.Validate(); err != nil {
			t.Fatal(err)
		}
		p, err := Watched("fair", health, net.Listen, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		p.Lacks(func() string { return "it rains" })
		_, port, err := net.SplitHostPort(p.health.address())
		if err != nil {
			t.Fatal(err)
		}
		scheme, host := "http://", "pod-7.example"
		if c.tls {
			scheme = "https://"
		}
		at := scheme + "127.0.0.1:" + port
		if c.listen == "127.0.0.1:0" {
			host = "localhost"
		}
		for sent, want := range c.sent {
			for path, status := range want {
				r, err := http.NewRequestWithContext(t.Context(), "GET", at+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Host = host
				if sent != "" {
					r.Header.Set("Authorization", sent)
				}
				a, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(a.Body)
				a.Body.Close()
				says := strings.Contains(string(body), "it rains")
				knows := path == "/readyz" && (!c.token || sent == right)
				shows := strings.Contains(string(body), "souk_ready 0\n")
				if a.StatusCode != status || says != knows || strings.Contains(string(body), secret) ||
					shows != (path == "/metrics" && status == 200) {
					t.Errorf("%s: %s as %.40q: %d, want %d: %.200s", c.name, path, sent, a.StatusCode, status,
						body)
				}
			}
		}
		if want := scheme + p.health.address(); p.Address() != want {
			t.Errorf("%s: it says that it is at %s, want %s", c.name, p.Address(), want)
		}
		// what Docker and Kubernetes ask needs no token, and hears no reason without it
		health.Listen = "127.0.0.1:" + port
		says := "it rains"
		if c.token {
			says = "/readyz says why"
		}
		if err := Probe(t.Context(), health); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: the probe says %v, want %q", c.name, err, says)
		}
	}
}

// Another token is taken at once, and where its file is gone nobody has it.
func TestAnotherToken(t *testing.T) {
	c := Health{TokenFile: secretFile(t, secret)}
	shows := func(sent string) bool {
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.Header.Set("Authorization", "Bearer "+sent)
		return c.shows(r)
	}
	const next = "another-horse-another-day"
	if !shows(secret) || shows(next) {
		t.Error("the first token is not the one")
	}
	if err := os.WriteFile(c.TokenFile, []byte(next), 0o600); err != nil {
		t.Fatal(err)
	}
	if shows(secret) || !shows(next) {
		t.Error("the second token is not the one")
	}
	for _, text := range []string{"", "short", "\n"} {
		if err := os.WriteFile(c.TokenFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if shows(next) || shows(text) || shows("") {
			t.Errorf("a file of %q opens it", text)
		}
	}
	if err := os.Remove(c.TokenFile); err != nil {
		t.Fatal(err)
	}
	if shows(next) || shows("") {
		t.Error("no file opens it")
	}
}

// What cannot be served safely, or at all, is refused before the daemon starts, with what to do about it.
func TestHealthIsRefused(t *testing.T) {
	role := fairRole(func(context.Context, *Process, *fair) error { return nil })
	for health, says := range map[string]string{
		`{listen: "0.0.0.0:0"}`:                      "give health.tls, or health.token_file",
		`{listen: ":0"}`:                             "give health.tls, or health.token_file",
		`{listen: "10.0.0.7:9403"}`:                  "give health.tls, or health.token_file",
		`{listen: "0.0.0.0:0", tls: {cert: a.pem}}`:  "give the files of both, cert and key",
		`{tls: {key: a.pem}}`:                        "give the files of both, cert and key",
		`{listen: nowhere}`:                          "health.listen: ",
		`{listen: "0.0.0.0:0", token_file: /none/x}`: "health.token_file: ",
		fmt.Sprintf("{listen: \"0.0.0.0:0\", token_file: %q}", secretFile(t, "short")): "5 characters: write a " +
			"random secret of at least 16",
		`{listen: "0.0.0.0:0", tls: {cert: /none/c, key: /none/k}}`: "/none/c",
	} {
		var log strings.Builder
		path := write(t, fairFile+"health: "+health+"\n")
		code := Run(t.Context(), Command(role), []string{"--config", path}, io.Discard, &log)
		if code == 0 || !strings.Contains(log.String(), says) {
			t.Errorf("%s: exit code %d, want the words %q: %s", health, code, says, &log)
		}
	}
}

// However many scrape, and however often, the process is read four times a second at most.
func TestManyScrape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, err := newFigures("fair", true, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer f.close()
		var of metrics.Set
		visitors := of.Gauge("fair_visitors", "Who is there.")
		reads, block := 0, make(chan struct{})
		close(block)
		of.Observe(f.meter(), func(say metrics.Say) {
			<-block
			reads++
			say(visitors, float64(reads))
		})
		ask := func() (int, string) {
			w := httptest.NewRecorder()
			f.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
			return w.Code, w.Body.String()
		}
		const seconds = 3
		for i := range 100 * seconds {
			status, body := ask()
			want := fmt.Sprintf("\nfair_visitors %d\n", 1+i/25)
			if status != 200 || !strings.Contains(body, want) {
				t.Fatalf("%d ms: %d, without %q", 10*i, status, want)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if reads != 4*seconds {
			t.Errorf("%d reads in %d s, want %d", reads, seconds, 4*seconds)
		}
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				if status, _ := ask(); status != 200 {
					t.Errorf("%d", status)
				}
			})
		}
		all.Wait()
		if reads != 4*seconds+1 {
			t.Errorf("200 at once are %d reads, want 1", reads-4*seconds)
		}

		// while what is read stands still, others are told so, and are served once it goes on
		time.Sleep(pageFor)
		block = make(chan struct{})
		stuck := make(chan int)
		go func() { status, _ := ask(); stuck <- status }()
		synctest.Wait()
		if status, body := ask(); status != http.StatusServiceUnavailable || !strings.Contains(body, "5 s") {
			t.Errorf("behind one that stands still: %d %.60q", status, body)
		}
		close(block)
		if status := <-stuck; status != 200 {
			t.Errorf("after it goes on: %d", status)
		}
	})
}
