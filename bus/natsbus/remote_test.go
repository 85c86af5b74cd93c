package natsbus_test

import (
	"crypto/tls"
	"strings"
	"testing"

	"souk/bus/natsbus"
)

// A program that is given another machine's address, and no TLS, says so before it connects.
func TestOtherMachinesAreReachedByTLSAlone(t *testing.T) {
	const refused = "may only be reached by TLS"
	for _, c := range []struct {
		url  string
		tls  *tls.Config
		want bool
	}{
		{"nats://192.0.2.1:4222", nil, true},
		{"192.0.2.1", nil, true},
		{"nats://nats.example.invalid:4222", nil, true},
		{"nats://127.0.0.1:1,nats://192.0.2.1:4222", nil, true},
		{"nats://127.0.0.1:1", nil, false},
		{"nats://localhost:1", nil, false},
		{"nats://[::1]:1", nil, false},
		{"tls://127.0.0.1:1", nil, false},
		{"nats://127.0.0.1:1", &tls.Config{MinVersion: tls.VersionTLS13}, false},
	} {
		_, err := natsbus.Connect(natsbus.Config{URL: c.url, Name: "dev", TLS: c.tls})
		if err == nil {
			t.Fatalf("%s: connected", c.url)
		}
		if got := strings.Contains(err.Error(), refused); got != c.want {
			t.Errorf("%s: %v", c.url, err)
		}
	}
}
