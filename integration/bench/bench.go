package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"souk/cmd/local"
	"souk/integration/load/proc"
)

// Options say how much is measured.
type Options struct {
	Souk      string        // the command souk, beside which stand the others
	Runs      int           // of everything; medians count
	Tasks     int           // of one run
	Streaming time.Duration // that a thousand streams last
	Progress  io.Writer     // what is being measured
	Only      []string      // parts to measure, of Parts; empty for all
	Profile   string        // file for a CPU profile of the first part in Only, else of "tasks"; "" for none
}

var parts = []struct {
	name    string
	measure func(context.Context, Options) ([]Bar, error)
}{
	{"tasks", tasksBar}, {"ttft", ttftBars}, {"tokens", tokensBar}, {"idle", idleBars}, {"classifier", classifierBars}, {"mechanism", mechanismBars}, {"audit", auditBars},
	{"processes", processBars}, {"streams", streamBars}, {"memory", memoryBars}, {"failover", failoverBars},
}

// Parts are the names that Options.Only takes, in the order in which they are measured.
func Parts() (names []string) {
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

// Run measures what is asked for and returns a bar for each thing. A measurement that fails ends it.
func Run(ctx context.Context, o Options) ([]Bar, error) {
	for _, name := range o.Only {
		if !slices.Contains(Parts(), name) {
			return nil, fmt.Errorf("there is no part %q to measure: use %s", name, strings.Join(Parts(), ", "))
		}
	}
	var bars []Bar
	for _, p := range parts {
		if len(o.Only) > 0 && !slices.Contains(o.Only, p.name) {
			continue
		}
		more, err := o.profiled(ctx, p.name, p.measure)
		if err != nil {
			return bars, err
		}
		bars = append(bars, more...)
	}
	return bars, nil
}

// profiled measures one part, under the profiler if that is the part to profile.
func (o Options) profiled(ctx context.Context, name string, measure func(context.Context, Options) ([]Bar, error)) (bars []Bar, err error) {
	if o.Profile == "" || name != o.profiledPart() {
		return measure(ctx, o)
	}
	f, err := os.Create(o.Profile)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	defer func() { pprof.StopCPUProfile(); err = errors.Join(err, f.Close()) }()
	return measure(ctx, o)
}

// profiledPart is the first part asked for by name, else "tasks".
func (o Options) profiledPart() string {
	if len(o.Only) > 0 {
		return o.Only[0]
	}
	return parts[0].name
}

// repeat calls f so many times and returns each of its figures, run by run.
func repeat(o Options, what string, f func() ([]float64, error)) ([][]float64, error) {
	var figures [][]float64
	for i := range o.Runs {
		fmt.Fprintf(o.Progress, "measuring %s, run %d of %d\n", what, i+1, o.Runs)
		xs, err := f()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		if figures == nil {
			figures = make([][]float64, len(xs))
		}
		for j, x := range xs {
			figures[j] = append(figures[j], x)
		}
	}
	return figures, nil
}

func tasksBar(ctx context.Context, o Options) ([]Bar, error) {
	x, err := repeat(o, "processor time per task", func() ([]float64, error) {
		us, engine, err := perTask(ctx, o.Souk, o.Tasks)
		return []float64{us, engine}, err
	})
	if err != nil {
		return nil, err
	}
	return []Bar{{
		Name: "CPU per task, 64 callers", Asked: "at most 400 us", Limit: 400, Measured: median(x[0]), Unit: "us", Runs: x[0],
		Note: fmt.Sprintf("clients, NATS, door, hub, ledger, agents in one process; %d output tokens; the engine's own %.0f us apart", taskTokens, median(x[1])),
	}}, nil
}

func ttftBars(ctx context.Context, o Options) ([]Bar, error) {
	x, err := repeat(o, "time added to the first token", func() ([]float64, error) {
		t, err := addedTTFT(ctx, o.Souk, max(200, o.Tasks/4))
		return []float64{t.added50, t.added99, t.added99 - t.fsync99, t.fsync50, t.fsync99, t.direct50}, err
	})
	if err != nil {
		return nil, err
	}
	return []Bar{
		{Name: "added TTFT, p50", Asked: "under 0.8 ms", Limit: 0.8, Measured: median(x[0]), Unit: "ms", Runs: x[0],
			Note: fmt.Sprintf("uncontended, 16 agents, its record's sync included; p50 of the engine asked directly in turn %.2f ms, of a bare append and sync %.2f ms", median(x[5]), median(x[3]))},
		{Name: "added TTFT, p99, beyond that of a bare append and sync", Asked: "at most 1 ms", Limit: 1, Measured: median(x[2]), Unit: "ms", Runs: x[2],
			Note: fmt.Sprintf("added p99 %.2f ms; append and sync p99 %.2f ms, in turn in the same runs", median(x[1]), median(x[4]))},
	}, nil
}

func tokensBar(ctx context.Context, o Options) ([]Bar, error) {
	const streams, tokens = 300, 400
	x, err := repeat(o, "processor time per relayed token", func() ([]float64, error) {
		r, err := perToken(ctx, o.Souk, streams, tokens, 0)
		if err != nil {
			return nil, err
		}
		single, err := perToken(ctx, o.Souk, streams, tokens, 1)
		return []float64{r.us, r.rate, 1 / r.messages, single.us, 1 / single.messages}, err
	})
	if err != nil {
		return nil, err
	}
	return []Bar{{
		Name: "CPU per relayed token, 300 streams", Asked: "at most 20 us", Limit: 20, Measured: median(x[0]), Unit: "us", Runs: x[0],
		Note: fmt.Sprintf("%.0f tokens a second, none missing, %.1f in a message since each stream is read every 20 ms; the readers' time included", median(x[1]), median(x[2])),
	}, {
		Name: "the same, each token as it comes", Measured: median(x[3]), Unit: "us", Runs: x[3], Note: fmt.Sprintf("relay_every off, %.1f tokens in a message", median(x[4])),
	}}, nil
}

// idleBars looks at `souk up` from outside.
func idleBars(ctx context.Context, o Options) ([]Bar, error) {
	x, err := repeat(o, "souk up", func() ([]float64, error) {
		dir, err := os.MkdirTemp("", "lab-bench-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		config := filepath.Join(dir, "market.yaml")
		if err := os.WriteFile(config, []byte(local.DefaultYAML()), 0o600); err != nil {
			return nil, err
		}
		begun := time.Now()
		c, _, err := startChild(ctx, o.Souk, "up", "--config", config, "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data"))
		if err != nil {
			return nil, err
		}
		ready := time.Since(begun)
		defer c.stop()
		if err := sleep(ctx, 2*time.Second); err != nil { // what the start left behind settles
			return nil, err
		}
		before, err := proc.CPU(c.pid())
		if err != nil {
			return nil, err
		}
		const watch = 10 * time.Second
		if err := sleep(ctx, watch); err != nil {
			return nil, err
		}
		after, err1 := proc.CPU(c.pid())
		rss, err2 := proc.RSS(c.pid())
		return []float64{ready.Seconds(), float64(rss) / (1 << 20), 100 * float64(after-before) / float64(watch)}, errors.Join(err1, err2)
	})
	if err != nil {
		return nil, err
	}
	return []Bar{
		{Name: "souk up, 8 simulated engines: ready", Asked: "in 1 s", Limit: 1, Measured: median(x[0]), Unit: "s", Runs: x[0], Note: "from the start of the process, on an empty directory"},
		{Name: "souk up: resident memory", Asked: "under 200 MB", Limit: 200, Measured: median(x[1]), Unit: "MB", Runs: x[1]},
		{Name: "souk up: idle", Asked: "under 5 % of a core", Limit: 5, Measured: median(x[2]), Unit: "%", Runs: x[2]},
	}, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// WriteJSON writes the bars with every run, for machines.
func WriteJSON(w io.Writer, bars []Bar) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(bars)
}
