package bus_test

import (
	"testing"

	"souk/bus"
)

func TestIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "127.0.0.1": true, "127.8.9.10": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "0.0.0.0": false, "::": false, "10.0.0.5": false, "nats": false, "127.0.0.1:4222": false,
		"localhost.example.org": false,
	} {
		if got := bus.IsLoopback(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}
