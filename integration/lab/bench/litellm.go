package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"souk/cmd/local"
	"souk/integration/lab/load/proc"
)

// besideLiteLLM asks the same engine through a whole market and through LiteLLM's proxy, in turn, each one
// process with a key. Nothing is asked of either. The proxy is that of the Python which SOUK_PYTHON names, or
// python3; where that has none there are no rows.
func besideLiteLLM(ctx context.Context, o Options) ([]Bar, error) {
	python := os.Getenv("SOUK_PYTHON")
	if python == "" {
		python = "python3"
	}
	if err := exec.CommandContext(ctx, python, "-c", "import litellm.proxy.proxy_server").Run(); err != nil {
		fmt.Fprintf(o.Progress, "%s has no proxy of LiteLLM (pip install 'litellm[proxy]'; SOUK_PYTHON names "+
			"another): skipped\n", python)
		return nil, ctx.Err()
	}
	x, err := repeat(o, "a market and LiteLLM's proxy", func() ([]float64, error) {
		return o.inPlace(ctx, "instant", func(p place) (x []float64, err error) {
			err = p.withMarketUp(ctx, o, func(souk *httpDoor) error {
				return p.withLiteLLM(ctx, python, func(other *httpDoor) error {
					x, err = beside(ctx, souk, other, o.Tasks)
					return err
				})
			})
			return x, err
		})
	})
	if err != nil {
		return nil, err
	}
	var bars []Bar
	for i, row := range []struct{ name, unit, note string }{
		{"whole answers", "a second", fmt.Sprintf("%d callers, 3 KB, %d tokens, one simulated engine that takes "+
			"no time; `souk up` (gateway, NATS, etcd, door, hub, agents, a record synced for each) and the proxy, "+
			"one worker, in turn", taskCallers, taskTokens)},
		{"CPU of one", "us", "of its process alone"},
		{"first token, p50", "ms", "of streams, uncontended; the engine's own included"},
		{"first token, p99", "ms", ""},
	} {
		bars = append(bars,
			Bar{Name: "beside LiteLLM: souk, " + row.name, Measured: median(x[i]), Unit: row.unit, Runs: x[i],
				Note: row.note},
			Bar{Name: "beside LiteLLM: its proxy, " + row.name, Measured: median(x[i+4]), Unit: row.unit,
				Runs: x[i+4]})
	}
	return bars, nil
}

// beside measures two doors in turn. It returns the four figures of each.
func beside(ctx context.Context, souk, other *httpDoor, tasks int) (x []float64, err error) {
	const turns = 4
	doors := [2]*httpDoor{souk, other}
	var took, used [2]time.Duration
	var first [2][]time.Duration
	n := max(taskCallers, tasks/8/turns)
	for turn := range turns + 1 { // the first warms up
		for i, g := range doors {
			before, err1 := proc.CPU(g.pid)
			begun := time.Now()
			err2 := callers(ctx, taskCallers, n, func(ctx context.Context) error {
				_, err := g.ask(ctx, taskTokens, nil)
				return err
			})
			lasted := time.Since(begun)
			after, err3 := proc.CPU(g.pid)
			if err := errors.Join(err1, err2, err3); err != nil {
				return nil, err
			}
			if turn > 0 {
				took[i], used[i] = took[i]+lasted, used[i]+after-before
			}
		}
		for range n / 4 {
			for i, g := range doors {
				ttft, err := g.ask(ctx, taskTokens, func(int) {})
				if err != nil {
					return nil, err
				}
				if turn > 0 {
					first[i] = append(first[i], ttft)
				}
			}
		}
	}
	for i := range doors {
		x = append(x, float64(turns*n)/took[i].Seconds(), micros(used[i])/float64(turns*n),
			micros(quantile(first[i], 0.5))/1000, micros(quantile(first[i], 0.99))/1000)
	}
	return x, nil
}

// upData is the data directory of `souk up` in a place.
const upData = "souk-data"

// withMarketUp runs f beside `souk up`, which sells the engine.
func (p place) withMarketUp(ctx context.Context, o Options, f func(*httpDoor) error) error {
	config, data := filepath.Join(p.dir, "market.yaml"), filepath.Join(p.dir, upData)
	text := fmt.Sprintf("domains: [{name: general, general: true, labels: [%s]}]\n"+
		"agents: [{id: agent-1, price_row: %s, slots: 128, scores: [{domain: general, score: 0.7}], "+
		"engine: {url: '%s'}}]\nclients: {dev: 1000000}\nhttp: 127.0.0.1:0\n", strings.Join(labels, ", "),
		local.DefaultRow, p.url)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	c, _, err := o.startChild(ctx, "souk", "up", "--config", config, "--listen", "127.0.0.1:0", "--data",
		data)
	if err != nil {
		return err
	}
	defer c.stop()
	state, err1 := local.ReadState(data)
	key, err2 := os.ReadFile(filepath.Join(data, "keys", local.FirstClient))
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	g := newDoor(state.HTTP, strings.TrimSpace(string(key)), c.pid())
	defer g.web.CloseIdleConnections()
	return f(g)
}

// withLiteLLM runs f beside LiteLLM's proxy before the engine.
func (p place) withLiteLLM(ctx context.Context, python string, f func(*httpDoor) error) (err error) {
	const key = "sk-beside"
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that is free
	if err != nil {
		return err
	}
	at := l.Addr().String()
	l.Close()
	config := filepath.Join(p.dir, "litellm.yaml")
	text := fmt.Sprintf("model_list:\n- model_name: tiny\n  litellm_params: {model: openai/tiny, "+
		"api_base: '%s/v1', api_key: none}\ngeneral_settings: {master_key: %s}\n", p.url, key)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(at)
	c := exec.CommandContext(ctx, python, "-c", "from litellm import run_server; run_server()", "--config",
		config, "--host", "127.0.0.1", "--port", port, "--num_workers", "1", "--telemetry", "False")
	// its table of prices is not to be fetched, nor a line logged for each request
	c.Env = append(os.Environ(), "LITELLM_LOCAL_MODEL_COST_MAP=True", "LITELLM_LOG=ERROR")
	c.Dir = p.dir
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		return err
	}
	defer func() {
		c.Process.Signal(syscall.SIGTERM)
		c.Wait() // how it ends is no matter
		if err != nil {
			err = fmt.Errorf("LiteLLM's proxy: %w: %.2000s", err, &said)
		}
	}()
	g := newDoor("http://"+at, key, c.Process.Pid)
	g.model = "tiny"
	defer g.web.CloseIdleConnections()
	if err := g.await(ctx, 2*time.Minute); err != nil {
		return err
	}
	return f(g)
}

func newDoor(url, key string, pid int) *httpDoor {
	return &httpDoor{url: url, key: key, pid: pid,
		web: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}}}
}
