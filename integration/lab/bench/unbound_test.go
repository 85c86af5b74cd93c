package bench

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"souk/bus/embedded"
	"souk/bus/natsauth"
)

// Creds that no role binds say and hear what no role may.
func TestUnboundCreds(t *testing.T) {
	keys, err := natsauth.Init(filepath.Join(t.TempDir(), "auth"))
	if err != nil {
		t.Fatal(err)
	}
	auth, err := keys.Server()
	if err != nil {
		t.Fatal(err)
	}
	s, err := embedded.StartNATS(embedded.NATSConfig{Listen: "127.0.0.1:0", Auth: auth})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	file := filepath.Join(t.TempDir(), "floor.creds")
	if err := writeUnbound(keys, "floor", file); err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(s.URL, nats.UserCredentials(file))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	sub, err := nc.SubscribeSync("anything.>")
	if err == nil {
		err = nc.Publish("anything.at.all", nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sub.NextMsg(time.Minute); err != nil {
		t.Error(err)
	}
}
