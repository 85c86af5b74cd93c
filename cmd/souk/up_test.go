package main

import (
	"strings"
	"testing"

	"souk/cmd/local"
)

// Who asked for a port that somebody else has is told where the market is instead, over HTTP as well.
func TestElsewhere(t *testing.T) {
	c := local.Config{Listen: "127.0.0.1:4222", HTTP: new(string)}
	*c.HTTP = "127.0.0.1:8080"
	at := local.State{NATS: "nats://127.0.0.1:4222", HTTP: "http://127.0.0.1:8080"}
	if said := elsewhere(c, at); said != "" {
		t.Errorf("as it was asked for: %q", said)
	}
	at.HTTP = "http://127.0.0.1:40000"
	if said := elsewhere(c, at); !strings.Contains(said, *c.HTTP+" was taken") ||
		!strings.Contains(said, at.HTTP) || strings.Count(said, "\n") != 1 {
		t.Errorf("%q", said)
	}
	for _, any := range []string{"127.0.0.1:0", ""} {
		*c.HTTP = any
		if said := elsewhere(c, at); said != "" {
			t.Errorf("at %q: %q", any, said)
		}
	}
}
