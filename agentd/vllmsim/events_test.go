package vllmsim

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// subscriber prints what it hears by libzmq: topic, number and size of each batch; and what the replay says.
const subscriber = `
import sys, zmq
context = zmq.Context()
sub = context.socket(zmq.SUB)
sub.connect(sys.argv[1])
sub.subscribe(b"kv")
dealer = context.socket(zmq.DEALER)
dealer.connect(sys.argv[2])
print("ready", flush=True)
def say(topic, seq, payload):
    print(topic.decode(), int.from_bytes(seq, "big", signed=True), len(payload) > 40, flush=True)
while True:
    frames = sub.recv_multipart()
    say(*frames)
    if len(sys.argv) > 3:
        dealer.send_multipart((b"", (0).to_bytes(8, "big")))
        while True:
            _, *frames = dealer.recv_multipart()
            say(*frames)
            if frames[1] == b"\xff" * 8:
                break
        break
`

// What the stand-in publishes is heard by libzmq, and so is its replay.
func TestPublisherAgainstLibzmq(t *testing.T) {
	python := ""
	for _, name := range []string{os.Getenv("VLLM_PYTHON"), "python3"} {
		if python == "" && name != "" && exec.Command(name, "-c", "import zmq").Run() == nil {
			python = name
		}
	}
	if python == "" {
		t.Skip("neither $VLLM_PYTHON nor python3 has pyzmq")
	}
	dir := t.TempDir()
	for _, events := range []KVEvents{
		{On: true, Topic: "kv", Endpoint: "ipc://" + dir + "/kv", Replay: "ipc://" + dir + "/again"},
		{On: true, Topic: "kv", Endpoint: "tcp://*:0", Replay: "tcp://*:0"},
	} {
		s := start(t, Config{KVEvents: events})
		heard := s.publisher.cfg
		local := strings.NewReplacer("*", "127.0.0.1")
		c := exec.Command(python, "-c", subscriber, local.Replace(heard.Endpoint),
			local.Replace(heard.Replay), "replay")
		c.Stderr = os.Stderr
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		defer c.Wait()
		defer c.Process.Kill()
		lines := bufio.NewScanner(out)
		lines.Scan()
		ask := func(i int) { s.say(t, []Message{{"user", fmt.Sprint(strings.Repeat("a word ", 30), i)}}, "") }
		said := make(chan string)
		go func() {
			defer close(said)
			for lines.Scan() {
				said <- lines.Text()
			}
		}()
		for i, first := 0, ""; first == ""; i++ { // until it has subscribed
			ask(i)
			select {
			case first = <-said:
				if !strings.HasPrefix(first, "kv ") || !strings.HasSuffix(first, " True") {
					t.Errorf("heard %q", first)
				}
			default:
			}
		}
		next := 0
		for line := range said {
			if line == "kv -1 False" || line == " -1 False" {
				next = -next
				continue
			}
			if want := fmt.Sprintf("kv %d True", next); line != want {
				t.Errorf("the replay says %q, want %q", line, want)
			}
			next++
		}
		if next >= 0 {
			t.Errorf("the replay said %d batches, and no end", next)
		}
	}
}

// get asks for a page.
func get(t *testing.T, s *Server, path string) string {
	t.Helper()
	r, err := http.Get(s.URL() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Where events are published is said as a real server says it.
func TestEventSources(t *testing.T) {
	for replay, want := range map[string]any{"": nil, "tcp://127.0.0.1:0": "tcp://127.0.0.1:"} {
		s := start(t, Config{KVEvents: KVEvents{On: true, Endpoint: "tcp://*:0", Replay: replay,
			Topic: "kv"}})
		body := get(t, s, "/kv_event_sources")
		var said map[string]map[string]any
		if err := json.Unmarshal([]byte(body), &said); err != nil || len(said) != 1 {
			t.Fatal(body, err)
		}
		r := said["0"]
		again, _ := r["replay_endpoint"].(string)
		if r["enable_kv_cache_events"] != true || r["publisher"] != "zmq" || r["topic"] != "kv" ||
			r["buffer_steps"] != 10000.0 || !strings.HasPrefix(fmt.Sprint(r["endpoint"]), "tcp://*:") ||
			r["endpoint"] == "tcp://*:0" || (want == nil) != (r["replay_endpoint"] == nil) ||
			again == replay && replay != "" {
			t.Error(body)
		}
	}
	s := start(t, Config{})
	if body := get(t, s, "/kv_event_sources"); body != "{}" {
		t.Error(body)
	}
}

// A configuration that cannot be is refused, and so is a fault.
func TestEventConfig(t *testing.T) {
	for want, c := range map[string]KVEvents{
		"not this machine alone": {On: true, Endpoint: "tcp://10.0.0.1:5557"},
		"want an endpoint":       {On: true},
		"publisher \"kafka\"":    {On: true, Endpoint: "ipc:///run/kv", Publisher: "kafka"},
		"buffer_steps -1":        {On: true, Endpoint: "ipc:///run/kv", BufferSteps: -1},
	} {
		if _, err := New(Config{KVEvents: c}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	s := start(t, Config{Admin: true})
	if err := s.FaultEvents("loud", 1); err == nil || !strings.Contains(err.Error(), "silent") {
		t.Error(err)
	}
	for body, want := range map[string]int{`{"events":"lost","times":2}`: 200, `{"events":"loud"}`: 400} {
		if code, said := post(t, s, "/sim/fault", body); code != want {
			t.Errorf("%s: %d %s", body, code, said)
		}
	}
}
