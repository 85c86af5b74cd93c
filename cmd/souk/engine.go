package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"souk/agentd/vllmsim"
	"souk/bus"
	"souk/cmd/daemon"
)

// engineOptions are the flags of `souk engine`.
type engineOptions struct {
	vllmsim.Config
	Profile string
	Runner  string
	Modules []string // NAME or NAME=PATH
	Events  string   // JSON
	Host    string
	Port    int
}

// engineCommand is the stand-in as a server of its own.
func engineCommand() *cobra.Command {
	var o engineOptions
	c := &cobra.Command{
		Use:   "engine",
		Short: "Run a simulated vLLM server",
		Long: `Run a stand-in for a vLLM server: its scheduler, prefix cache, wire and metrics, with
step times fitted to measured GPUs. Flags have the names and meanings of vLLM's where vLLM has them.

It answers with prose made from a seed; the same prompt and seed give the same answer.
SIGINT or SIGTERM aborts running answers and refuses new ones.

Profiles:
` + engineProfiles(),
		Example: `  souk engine --profile instant --port 8001
  souk engine --profile rtxpro6000-llama-3.1-8b --model llama --port 8001 --speedup 10
  curl -s localhost:8001/v1/models`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			daemon.ShareCores() // many simulated engines share a machine
			return runEngine(ctx, o, c.OutOrStdout())
		},
	}
	f := c.Flags()
	f.StringVar(&o.Profile, "profile", "instant", "how fast the engine is: one of the names above")
	f.StringVar(&o.Host, "host", "127.0.0.1", "address to listen on")
	f.IntVar(&o.Port, "port", 8000, "port to listen on; 0 takes a free one")
	f.StringVar(&o.Model, "model", "tiny", "served model name")
	f.Float64Var(&o.Speedup, "speedup", 1, "engine seconds in a real second")
	f.StringVar(&o.Runner, "runner", "generate", "generate, or pooling: it embeds and reranks texts instead")
	f.IntVar(&o.MaxModelLen, "max-model-len", 0, "tokens of a request, prompt and output (default 8192)")
	f.IntVar(&o.MaxNumSeqs, "max-num-seqs", 0, "sequences that run at once (default: the profile's)")
	f.IntVar(&o.NumGPUBlocks, "num-gpu-blocks-override", 0,
		"KV cache blocks, one of which is reserved (default: the profile's)")
	f.IntVar(&o.BlockSize, "block-size", 16, "tokens in a KV cache block")
	f.IntVar(&o.MaxNumQueuedReqs, "max-num-queued-reqs", 0,
		"running and waiting requests beyond which a new one gets 503 (0: no limit)")
	f.BoolVar(&o.NoPromptDetails, "no-enable-prompt-tokens-details", false, "do not report cached_tokens")
	f.StringVar(&o.APIKey, "api-key", "", "key that requests under /v1 must bear")
	f.IntVar(&o.AnswerTokens, "answer-tokens", 128, "mean length of an answer, in tokens")
	f.Uint64Var(&o.Seed, "seed", 0, "seed of answers and of noise in step times")
	f.StringVar(&o.Events, "kv-events-config", "", "publish what the cache holds: JSON, as vLLM's")
	f.StringSliceVar(&o.Modules, "lora-modules", nil, "adapters that are served under names of their own: "+
		"NAME or NAME=PATH, separated by commas")
	f.IntVar(&o.Adapters.AtOnce, "max-loras", 1, "different adapters in a step")
	f.IntVar(&o.Adapters.Loaded, "max-cpu-loras", 0, "adapters that stay loaded (default: max-loras)")
	f.DurationVar(&o.Adapters.Load, "sim-adapter-load", 0, "how much longer a step takes for an adapter that is "+
		"not loaded")
	f.BoolVar(&o.Admin, "admin", false, "serve POST /sim/fault, which makes requests fail on "+
		"demand, and GET /sim/cache, which tells what is cached")
	return c
}

func engineProfiles() string {
	var b strings.Builder
	for _, p := range vllmsim.Profiles() {
		fmt.Fprintf(&b, "  %-26s %s\n", p.Name, p.About)
	}
	return strings.TrimRight(b.String(), "\n")
}

// runEngine runs a server until ctx ends, then drains it. It prints the base URL once it listens.
func runEngine(ctx context.Context, o engineOptions, out io.Writer) error {
	p, err := vllmsim.ProfileNamed(o.Profile)
	if err != nil {
		return err
	}
	if o.Port < 0 || o.Port > 65535 {
		return fmt.Errorf("--port %d: it must be 0 to 65535", o.Port)
	}
	if o.Runner != "generate" && o.Runner != "pooling" {
		return fmt.Errorf("--runner %.40q: it is generate or pooling", o.Runner)
	}
	cfg := o.Config
	cfg.Profile, cfg.Pooling = p, o.Runner == "pooling"
	for _, m := range o.Modules {
		name, _, _ := strings.Cut(m, "=")
		cfg.Adapters.Names = append(cfg.Adapters.Names, name)
	}
	if o.Events != "" {
		d := json.NewDecoder(strings.NewReader(o.Events))
		if d.DisallowUnknownFields(); d.Decode(&cfg.KVEvents) != nil || !cfg.KVEvents.On {
			return fmt.Errorf("--kv-events-config %s: want %s", o.Events, `{"enable_kv_cache_events": true, `+
				`"publisher": "zmq", "endpoint": "ipc:///run/kv", "replay_endpoint": "ipc:///run/replay"}`)
		}
	}
	s, err := vllmsim.New(cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	guard := http.Handler(s)
	if bus.IsLoopback(o.Host) { // no web page is to read what an engine was asked, see the check
		guard = daemon.ByLoopbackName(s)
	}
	if err := s.StartBehind(net.JoinHostPort(o.Host, strconv.Itoa(o.Port)), guard); err != nil {
		return err
	}
	fmt.Fprintln(out, s.URL())
	<-ctx.Done()
	s.Terminate()
	wait, stop := context.WithTimeout(context.Background(), time.Second) // for the last chunks to leave
	defer stop()
	if err := s.Drain(wait); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}
