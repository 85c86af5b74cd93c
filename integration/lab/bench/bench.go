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

	"souk/bus/follow"
	"souk/cmd/local"
	"souk/integration/lab/load/proc"
)

// Options say how much is measured.
type Options struct {
	Bin       string        // directory of the commands
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
	{"tasks", tasksBar}, {"ttft", ttftBars}, {"tokens", tokensBar}, {"idle", idleBars},
	{"classifier", classifierBars}, {"mechanism", mechanismBars}, {"hub", hubBars}, {"quote", quoteBars},
	{"belief", beliefBars}, {"holdings", holdingsBars}, {"gateway", gatewayBars},
	{"events", eventBars}, {"keys", keysBars}, {"litellm", besideLiteLLM},
	{"ledger", ledgerBars}, {"bills", billBars}, {"crowd", crowdBars}, {"virtual", virtualBars},
	{"audit", auditBars},
	{"books", bookBars},
	{"forecast", forecastBars},
	{"regime", regimeBars}, {"guard", guardBars}, {"cachesage", cachesageBars},
	{"flood", floodBars},
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
			return nil, fmt.Errorf("there is no part %q to measure: use %s", name,
				strings.Join(Parts(), ", "))
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
func (o Options) profiled(ctx context.Context, name string,
	measure func(context.Context, Options) ([]Bar, error)) (bars []Bar, err error) {
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
	const agents, slots, often = 8, 16, 4
	var perOne turns
	_, err := repeat(o, "processor time per task", func() ([]float64, error) {
		return o.inPlace(ctx, "instant", func(p place) ([]float64, error) {
			for range often {
				x, err := p.around(ctx, agents,
					func(m asker) (float64, error) { return perTask(ctx, m, o.Tasks/often/2) },
					func() (x []float64, err error) {
						err = p.inMarket(ctx, local.Engine{}, agents, slots, func(m *local.Market) error {
							us, err := perTask(ctx, m, o.Tasks/often)
							x = []float64{us}
							return err
						})
						return x, err
					})
				if err != nil {
					return nil, err
				}
				perOne.add(x[1], x[0])
			}
			return nil, nil
		})
	})
	if err != nil {
		return nil, err
	}
	return []Bar{perOne.bar("CPU per task, 64 callers", 4.5, "floor", "us",
		fmt.Sprintf("clients, NATS, door, hub, ledger, agents in one process; %d output tokens; the "+
			"engine's own apart", taskTokens))}, nil
}

func ttftBars(ctx context.Context, o Options) ([]Bar, error) {
	var p50 turns
	x, err := repeat(o, "time added to the first token", func() ([]float64, error) {
		return o.inPlace(ctx, "instant",
			func(p place) ([]float64, error) { return p.addedTTFT(ctx, max(200, o.Tasks/4), &p50) })
	})
	if err != nil {
		return nil, err
	}
	return []Bar{
		p50.bar("added TTFT, p50", 3.5, "floor", "ms",
			fmt.Sprintf("uncontended, 16 agents, its record's sync included; p50 of the engine asked "+
				"directly in turn %.2f ms", median(x[2]))),
		ratio("added TTFT, p99", 3, "floor", "ms", x[0], x[1], ""),
	}, nil
}

func tokensBar(ctx context.Context, o Options) ([]Bar, error) {
	const streams, tokens, agents, often = 300, 400, 8, 2
	var gathered, each turns
	var rate, messages, alone []float64
	_, err := repeat(o, "processor time per relayed token", func() ([]float64, error) {
		return o.inPlace(ctx, "steady", func(p place) ([]float64, error) {
			least := func(m asker) (float64, error) {
				r, err := perToken(ctx, m, streams, tokens/2)
				return r.us, err
			}
			for range often {
				x, err := p.around(ctx, agents, least, func() (x []float64, err error) {
					for _, every := range []time.Duration{0, 1} { // as it is by default, and off
						engine, slots := local.Engine{RelayEvery: every}, (streams+agents-1)/agents
						err := p.inMarket(ctx, engine, agents, slots, func(m *local.Market) error {
							r, err := perToken(ctx, m, streams, tokens)
							x = append(x, r.us, r.rate, 1/r.messages)
							return err
						})
						if err != nil {
							return nil, err
						}
					}
					return x, nil
				})
				if err != nil {
					return nil, err
				}
				gathered.add(x[1], x[0])
				each.add(x[4], x[0])
				rate, messages, alone = append(rate, x[2]), append(messages, x[3]), append(alone, x[6])
			}
			return nil, nil
		})
	})
	if err != nil {
		return nil, err
	}
	return []Bar{
		gathered.bar("CPU per relayed token, 300 streams", 1.3, "floor", "us",
			fmt.Sprintf("%.0f tokens a second, none missing, %.1f in a message since each stream is read "+
				"every 20 ms; the readers' time included", median(rate), median(messages))),
		each.bar("the same, each token as it comes", 0, "floor", "us",
			fmt.Sprintf("relay_every off, %.1f tokens in a message, as the floor", median(alone))),
	}, nil
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
		c, _, err := o.startChild(ctx, "souk", "up", "--config", config, "--listen", "127.0.0.1:0", "--data",
			filepath.Join(dir, "data"))
		if err != nil {
			return nil, err
		}
		ready := time.Since(begun)
		defer c.stop()
		follow.Pause(ctx, 2*time.Second) // what the start left behind settles
		before, err := proc.CPU(c.pid())
		if err != nil {
			return nil, err
		}
		const watch = 10 * time.Second
		if !follow.Pause(ctx, watch) {
			return nil, ctx.Err()
		}
		after, err1 := proc.CPU(c.pid())
		rss, err2 := proc.RSS(c.pid())
		return []float64{ready.Seconds(), float64(rss) / (1 << 20),
			100 * float64(after-before) / float64(watch)}, errors.Join(err1, err2)
	})
	if err != nil {
		return nil, err
	}
	return []Bar{
		{Name: "souk up, 8 simulated engines: ready", Asked: "in 1 s", Limit: 1, Measured: median(x[0]),
			Unit: "s", Runs: x[0], Note: "from the start of the process, on an empty directory"},
		{Name: "souk up: resident memory", Asked: "under 200 MB", Limit: 200, Measured: median(x[1]),
			Unit: "MB", Runs: x[1]},
		{Name: "souk up: idle", Asked: "under 5 % of a core", Limit: 5, Measured: median(x[2]), Unit: "%",
			Runs: x[2]},
	}, nil
}

// WriteJSON writes the bars with every run, for machines.
func WriteJSON(w io.Writer, bars []Bar) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(bars)
}
