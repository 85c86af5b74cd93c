package integration

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"souk/bus"
)

// A client in another language, with nothing of ours: SOUK_PYTHON names a Python that has nats-py and
// msgpack.
func TestAForeignClient(t *testing.T) {
	python := os.Getenv("SOUK_PYTHON")
	if python == "" {
		t.Skip("SOUK_PYTHON names no Python that has nats-py and msgpack")
	}
	m := start(t, two, hard)
	ask := func(args ...string) (string, bus.Code, bus.Receipt, error) {
		out, err := exec.Command(python, append([]string{"foreign/stream.py", m.State.NATS, "dev",
			hard.Turns[0].User, "--creds", m.CredsFile}, args...)...).CombinedOutput()
		text, last, _ := strings.Cut(strings.TrimSuffix(string(out), "\n"), "\n")
		var r struct {
			Code    bus.Code
			Receipt bus.Receipt
		}
		if json.Unmarshal([]byte(last), &r) != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return text, r.Code, r.Receipt, err
	}
	for name, args := range map[string][]string{"as it comes": nil, "a chunk is lost": {"--lose", "3"},
		"the last chunk is lost": {"--lose", "27"}} {
		text, code, receipt, err := ask(args...)
		if err != nil || text != hard.Turns[0].Answer || code != "" || receipt.ID == "" {
			t.Errorf("%s: %q, %s, %+v, %v", name, text, code, receipt, err)
		}
	}
}
