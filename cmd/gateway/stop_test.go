package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/bustest/proxy"
	"souk/cmd/local"
)

// asProcess names the file of a gateway that this test's own binary is started as.
const asProcess = "SOUK_TEST_GATEWAY_FILE"

func TestMain(m *testing.M) {
	if path := os.Getenv(asProcess); path != "" {
		os.Unsetenv(asProcess)
		os.Exit(run(context.Background(), path, os.Stderr))
	}
	os.Exit(m.Run())
}

// A gateway that was stopped for seconds, as a container or a machine may be, serves nobody by a key that was
// revoked meanwhile, however many requests wait for it. Others it serves.
func TestAGatewayThatStopsServesNoRevokedKey(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	cfg := local.Default()
	cfg.Listen, *cfg.HTTP = "127.0.0.1:0", "127.0.0.1:0"
	m, err := local.Start(t.Context(), local.Options{Dir: t.TempDir(), Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	good, err := local.ReadKey(m.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	bad := bus.NewSecret("bad", [32]byte{1})
	value, err := bus.EncodeEntry(&bus.APIKey{ID: "bad", Client: "dev",
		Hashes: []bus.KeyHash{{SHA256: bus.HashKey(bad)}}})
	if err == nil {
		err = m.Registry.Put(t.Context(), bus.APIKeyKey("bad"), value)
	}
	if err != nil {
		t.Fatal(err)
	}
	creds, err := m.Keys.Ensure(bus.RoleGateway, bus.IDs{Name: "gateway-2"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	etcd, err := proxy.New(strings.TrimPrefix(m.State.Etcd, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	at := bustest.FreePort(t)
	var errs bustest.Buffer
	p := exec.Command(os.Args[0], "-test.run=^$")
	p.Env = append(os.Environ(), asProcess+"="+write(t, fmt.Sprintf("listen: %s\nmarket: {nats: '%s', "+
		"etcd: ['%s'], creds: '%s'}\nhealth: {listen: '%s'}\n", at, m.State.NATS, etcd.Addr(), creds, bustest.FreePort(t))))
	p.Stderr = &errs
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		p.Process.Signal(syscall.SIGCONT)
		p.Process.Signal(syscall.SIGTERM)
		p.Wait()
	}()
	models := func(key string) string {
		return "GET /v1/models HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + key + "\r\n\r\n"
	}
	status := func(c net.Conn) int {
		c.SetReadDeadline(time.Now().Add(time.Minute))
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%v:\n%s", err, &errs)
		}
		r.Body.Close()
		return r.StatusCode
	}
	bustest.Eventually(t, "the gateway serves", func() bool {
		c, err := net.Dial("tcp", at)
		if err != nil {
			return false
		}
		defer c.Close()
		fmt.Fprint(c, models(bad))
		return status(c) == 200
	})
	if err := p.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	etcd.Cut() // as whoever waits in vain for a sign of life
	etcd.Heal()
	if err := m.Registry.Delete(t.Context(), bus.APIKeyKey("bad")); err != nil {
		t.Fatal(err)
	}
	conns := make([]net.Conn, 64)
	for i := range conns {
		if conns[i], err = net.Dial("tcp", at); err != nil {
			t.Fatal(err)
		}
		defer conns[i].Close()
		fmt.Fprint(conns[i], models(map[bool]string{true: good, false: bad}[i%8 == 0]))
	}
	<-time.After(3*time.Second - time.Since(begun))
	if err := p.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for i, c := range conns {
		count[fmt.Sprint(map[bool]string{true: "good ", false: "bad "}[i%8 == 0], status(c))]++
	}
	if count["good 200"] != 8 || count["bad 401"]+count["bad 429"] != 56 || count["bad 401"] == 0 {
		t.Errorf("requests by key and status: %v\n%s", count, &errs)
	}
}
