package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"souk/bus"
	"souk/classifier"
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

// A server of another kind is named by --engine as well as by --vllm, in one list.
func TestEngineIsAnotherNameForVLLM(t *testing.T) {
	var f marketFlags
	c := &cobra.Command{}
	f.add(c)
	err := c.ParseFlags([]string{"--engine", "http://a:1", "--vllm", "http://b:2", "--engine=http://c:3"})
	if err != nil || strings.Join(f.vllm, " ") != "http://a:1 http://b:2 http://c:3" {
		t.Errorf("%q, %v", f.vllm, err)
	}
}

// A stream that an agent took may have been cut, so nobody says that it was served.
func TestAtTheDoor(t *testing.T) {
	got := atTheDoor(classifier.Stats{Received: 6, Repeated: 2, Accepted: 2, Collected: 1,
		Refused: map[bus.Code]uint64{bus.CodeCancelled: 1}})
	want := "4 requests came: agents took 2 as streams, 1 were answered whole; refused cancelled 1."
	if got != want {
		t.Errorf("%s", got)
	}
}

// Whoever sells a server that wants a key gives it as vLLM itself takes it: no list of processes shows it.
func TestTheKeyOfAServer(t *testing.T) {
	t.Setenv("VLLM_API_KEY", "sk-engine")
	f := marketFlags{vllm: []string{"http://127.0.0.1:8000"}, vllmRow: local.DefaultRow}
	c, err := f.load()
	if err != nil || c.Agents[0].Engine.APIKey != "sk-engine" {
		t.Errorf("%+v, %v", c.Agents, err)
	}
	f.vllm[0] += "/v1"
	if _, err := f.load(); err == nil || !strings.Contains(err.Error(), "--vllm: ") ||
		!strings.Contains(err.Error(), "without /v1, as http://127.0.0.1:8000") {
		t.Errorf("with /v1: %v", err)
	}
	// as a file of secrets ends
	t.Setenv("VLLM_API_KEY", "sk-engine\n")
	f.vllm = []string{"http://127.0.0.1:8000"}
	if c, err := f.load(); err != nil || c.Agents[0].Engine.APIKey != "sk-engine" {
		t.Errorf("with a line's end: %+v, %v", c.Agents, err)
	}
	f.vllm = []string{"http://127.0.0.1:8000", "http://127.0.0.1:8000/"}
	if _, err := f.load(); err == nil || !strings.Contains(err.Error(), "stands twice") {
		t.Errorf("one server twice, whose room would be sold twice: %v", err)
	}
}
