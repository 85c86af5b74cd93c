package natsbus

import (
	"strings"
	"testing"
)

// A server on loopback may name others of its cluster: without TLS these are not reached.
func TestANamedServerIsReachedByTLSAlone(t *testing.T) {
	for _, at := range []string{"192.0.2.1:4222", "[2001:db8::1]:4222"} {
		if _, err := (wholeDialer{near: true}).Dial("tcp", at); err == nil ||
			!strings.Contains(err.Error(), "by TLS") {
			t.Errorf("%s: %v", at, err)
		}
	}
	if _, err := (wholeDialer{near: true}).Dial("tcp", "127.0.0.1:1"); err == nil ||
		strings.Contains(err.Error(), "by TLS") {
		t.Errorf("loopback: %v", err)
	}
}
