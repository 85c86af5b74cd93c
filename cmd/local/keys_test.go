package local

import (
	"errors"
	"strings"
	"testing"

	"souk/bus"
	"souk/bus/natsauth"
	"souk/cmd/daemon"
)

// What a command says goes to other machines by TLS alone, as what a daemon says does: prompts, and the
// answer to a server's challenge, by which whoever is between could come as the client or the operator.
func TestCommandsReachOtherMachinesByTLSAlone(t *testing.T) {
	dir := t.TempDir()
	keys, err := natsauth.Init(natsauth.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"nats://192.0.2.1:4222", "nats://192.0.2.1", "192.0.2.1:4222", "192.0.2.1",
		"nats://[2001:db8::1]:4222", "nats://nats.example:4222", "ws://192.0.2.1:4222",
		"nats://u:p@192.0.2.1:4222", "nats://127.0.0.1:4222, nats://192.0.2.1:4222",
		"tls://127.0.0.1:4222,nats://192.0.2.1:4222"} {
		r := Reach{Data: dir, NATS: url}
		for name, err := range map[string]error{
			"client":   func() error { _, err := r.Dial(bus.RoleClient, "ann"); return err }(),
			"operator": func() error { _, err := r.Dial(bus.RoleOperator, Operator); return err }(),
			"push":     r.Push(t.Context(), keys),
		} {
			if !errors.Is(err, daemon.ErrRemote) || !strings.Contains(err.Error(), "tls://") ||
				strings.Contains(err.Error(), "u:p@") {
				t.Errorf("%s of %s: %v", url, name, err)
			}
		}
	}
	for _, url := range []string{"nats://127.0.0.1:1", "nats://localhost:1", "127.0.0.1:1", "nats://[::1]:1",
		"tls://127.0.0.1:1"} {
		_, err := Reach{Data: dir, NATS: url}.Dial(bus.RoleClient, "ann")
		if err == nil || errors.Is(err, daemon.ErrRemote) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
