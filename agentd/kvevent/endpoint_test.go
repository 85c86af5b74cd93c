package kvevent

import (
	"fmt"
	"strings"
	"testing"
)

// An endpoint is this machine's own, or an error says what to write instead.
func TestResolve(t *testing.T) {
	for endpoint, want := range map[string]string{
		"tcp://127.0.0.1:5557":              "tcp 127.0.0.1:5557",
		"tcp://127.8.9.1:1":                 "tcp 127.8.9.1:1",
		"tcp://[::1]:5557":                  "tcp [::1]:5557",
		"tcp://localhost:5557":              "tcp localhost:5557",
		"ipc:///run/vllm/kv":                "unix /run/vllm/kv",
		"ipc://@abstract":                   "unix @abstract",
		"tcp://10.0.0.1:5557":               "use ipc:///run/vllm/kv or tcp://127.0.0.1:5557",
		"tcp://*:5557":                      "not this machine alone",
		"tcp://0.0.0.0:5557":                "not this machine alone",
		"tcp://node-7:5557":                 "not this machine alone",
		"tcp://127.0.0.1":                   "is not like",
		"tcp://127.0.0.1:x":                 "port",
		"tcp://127.0.0.1:-1":                "port",
		"ipc://":                            "is not like",
		"inproc://kv":                       "is not like",
		"":                                  "is not like",
		"ipc://" + strings.Repeat("x", 108): "at most 107",
	} {
		network, address, err := Resolve(endpoint)
		got := network + " " + address
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", endpoint, got, want)
		}
	}
}

// Who listens and who connects is the engine's rule.
func TestSource(t *testing.T) {
	for source, want := range map[Source]string{
		{}:                                                       "",
		{Endpoint: NoEvents}:                                     "",
		{Endpoint: "ipc:///run/kv"}:                              "ipc:///run/kv false",
		{Endpoint: "tcp://*:5557"}:                               "tcp://127.0.0.1:5557 false",
		{Endpoint: "tcp://[::]:5557"}:                            "tcp://[::1]:5557 false",
		{Endpoint: "tcp://[::1]:5557"}:                           "tcp://[::1]:5557 false",
		{Endpoint: "tcp://127.0.0.1:5557"}:                       "tcp://127.0.0.1:5557 true",
		{Endpoint: "tcp://localhost:5557"}:                       "tcp://localhost:5557 true",
		{Endpoint: "tcp://10.0.0.1:5557"}:                        "endpoint: ",
		{Replay: "ipc:///run/kv"}:                                "replay: \"ipc:///run/kv\" without an endpoint",
		{Endpoint: "ipc:///run/kv", Replay: "tcp://*:5558"}:      "ipc:///run/kv false tcp://127.0.0.1:5558",
		{Endpoint: "ipc:///run/kv", Replay: "ipc:///run/r"}:      "ipc:///run/kv false ipc:///run/r",
		{Endpoint: "ipc:///run/kv", Replay: "tcp://node-7:5558"}: "replay: ",
	} {
		got := ""
		if err := source.Validate(); err != nil {
			got = err.Error()
		} else if source.Endpoint != "" && source.Endpoint != NoEvents {
			endpoint, listen, _ := source.Publisher()
			got = fmt.Sprint(endpoint, " ", listen)
			if again, _ := source.Replays(); again != "" {
				got += " " + again
			}
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%+v: %s, want %s", source, got, want)
		}
	}
}
