package conformance

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"souk/agentd/kvevent"
	"souk/agentd/vllmsim"
)

// TestStandIn judges the stand-in, at two of its speeds and with other flags.
func TestStandIn(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		cfg vllmsim.Config
		o   Options
	}{
		"steady": {vllmsim.Config{Profile: vllmsim.Steady, Speedup: 20, KVEvents: vllmsim.KVEvents{On: true,
			Endpoint: "ipc://" + dir + "/kv", Replay: "ipc://" + dir + "/again"}}, Options{}},
		"limited": {vllmsim.Config{Profile: vllmsim.Steady, Speedup: 20, MaxNumQueuedReqs: 6,
			APIKey: "secret"}, Options{QueueLimit: 6, APIKey: "secret"}},
		"blocks of 32": {vllmsim.Config{Profile: vllmsim.Steady, Speedup: 20, BlockSize: 32,
			Model: "other", MaxModelLen: 4096, KVEvents: vllmsim.KVEvents{On: true,
				Endpoint: "tcp://*:0", Replay: "tcp://127.0.0.1:0"}}, Options{}},
		"a small cache": {vllmsim.Config{Profile: vllmsim.Steady, Speedup: 20, NumGPUBlocks: 513}, Options{}},
		"without the details": {vllmsim.Config{Profile: vllmsim.Steady, Speedup: 20, NoPromptDetails: true},
			Options{NoDetails: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.cfg.AnswerTokens = 400
			s, err := vllmsim.New(c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			if err := s.Start("127.0.0.1:0"); err != nil {
				t.Fatal(err)
			}
			c.o.StandIn = true
			Run(t, s.URL(), c.o)
		})
	}
}

// TestReal judges the server that VLLM_URL names. VLLM_API_KEY, VLLM_QUEUE_LIMIT, VLLM_KV_EVENTS and
// VLLM_KV_REPLAY say what cannot be found out.
func TestReal(t *testing.T) {
	url := os.Getenv("VLLM_URL")
	if url == "" {
		t.Skip("VLLM_URL names no server")
	}
	limit, _ := strconv.Atoi(os.Getenv("VLLM_QUEUE_LIMIT"))
	Run(t, url, Options{APIKey: os.Getenv("VLLM_API_KEY"), QueueLimit: limit,
		Events: kvevent.Source{Endpoint: os.Getenv("VLLM_KV_EVENTS"), Replay: os.Getenv("VLLM_KV_REPLAY")}})
}

var update = flag.Bool("update", false, "write DIFFERENCES.md anew")

// TestDifferencesPage keeps the page what the table says.
func TestDifferencesPage(t *testing.T) {
	const file = "../../agentd/vllmsim/DIFFERENCES.md"
	if *update {
		if err := os.WriteFile(file, []byte(Page()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != Page() {
		t.Errorf("%s is not what the table says; run: go test ./integration/conformance -update", file)
	}
}
