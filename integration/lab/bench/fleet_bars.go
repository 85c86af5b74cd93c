package bench

import (
	"context"
	"fmt"
	"time"

	"souk/bus"
	"souk/bus/etcdreg"
	"souk/bus/natsauth"
	"souk/cmd/local"
	"souk/integration/lab/fleet"
	"souk/integration/lab/load"
)

// processBars measure tasks and the first token with each part a process of its own.
func processBars(ctx context.Context, o Options) ([]Bar, error) {
	const often = 6
	var perOne, p50 turns
	x, err := repeat(o, "a market of processes", func() ([]float64, error) {
		return inFleet(ctx, o, fleet.Plan{Profile: "instant"}, func(s *shop) (x []float64, err error) {
			if err := s.sell(ctx, 4, 16, "node-1", "node-2"); err != nil {
				return nil, err
			}
			err = s.onFloor(ctx, 2, func(fl *relay) error {
				var engines, clients []float64
				err := inPairs(often, func() (load.Report, error) {
					return s.load(ctx, taskCallers, o.Tasks/often, taskTokens, 0)
				}, func() (load.Report, error) {
					return fl.load(ctx, taskCallers, o.Tasks/often, taskTokens, 0)
				}, func(r, least load.Report) {
					perOne.add(r.CPUTask, least.CPUTask)
					n := float64(r.Asked)
					engines = append(engines, of(r, "engine", n))
					clients = append(clients, of(r, "this load", n))
				})
				if err != nil {
					return err
				}
				t, err := inTurn(ctx, s.link, fl, "http://"+s.Part("engine-1").Health, max(200, o.Tasks/8),
					&p50)
				x = append([]float64{median(engines), median(clients)}, t...)
				return err
			})
			if err != nil {
				return nil, err
			}
			y, err := s.overHTTP(ctx, max(200, o.Tasks/8))
			return append(x, y...), err
		})
	})
	if err != nil {
		return nil, err
	}
	return []Bar{
		perOne.bar("processes: CPU per task, 64 callers", 3.7, "floor", "us",
			fmt.Sprintf("NATS, etcd, treasury, door, hub and two agentd of four agents each, over loopback "+
				"TCP; %d output tokens; apart: the engine's own %.0f us, the clients' %.0f us",
				taskTokens, median(x[0]), median(x[1]))),
		p50.bar("processes: added TTFT, p50", 2.8, "floor", "ms",
			fmt.Sprintf("uncontended, its record's sync included; p50 of the engine asked directly in turn "+
				"%.2f ms", median(x[4]))),
		ratio("processes: added TTFT, p99", 3, "floor", "ms", x[2], x[3], ""),
		{Name: "processes: added TTFT over HTTP, p50", Asked: "2 ms", Limit: 2,
			Measured: median(x[5]), Unit: "ms", Runs: x[5], Note: fmt.Sprintf("through a gateway as well, asked "+
				"by this process in turn with bus/client, beyond which it is %.2f ms, and the engine directly",
				median(x[7]))},
		{Name: "processes: the same, p99", Asked: "6 ms", Limit: 6, Measured: median(x[6]), Unit: "ms",
			Runs: x[6]},
	}, nil
}

// overHTTP asks through a gateway beside the market, by bus/client and the engine directly, in turn. It
// returns, in milliseconds, what is added to the engine's first token over HTTP, p50 and p99, and what HTTP
// adds to that by bus/client.
func (s *shop) overHTTP(ctx context.Context, n int) (x []float64, err error) {
	creds, err := s.Keys.Ensure(bus.RoleGateway, bus.IDs{Name: "gateway"}, time.Now())
	if err != nil {
		return nil, err
	}
	files, err := local.OperatorFiles(s.Data)
	if err != nil {
		return nil, err
	}
	secure, err := natsauth.TLSOf(files)
	if err != nil {
		return nil, err
	}
	registry, err := etcdreg.Dial(ctx, etcdreg.Config{Endpoints: []string{s.Etcd}, TLS: secure,
		Probe: bus.KeysPrefix})
	if err != nil {
		return nil, err
	}
	defer registry.Close()
	key, err := putKey(ctx, registry, "dev")
	if err != nil {
		return nil, err
	}
	engine := newDoor("http://"+s.Part("engine-1").Health, "", 0)
	engine.model = fleet.Model
	defer engine.web.CloseIdleConnections()
	at := local.State{NATS: "nats://" + s.NATS, Etcd: s.Etcd}
	err = place{dir: s.Dir}.besideGateway(ctx, s.o, at, creds, key, func(g *httpDoor) error {
		y, err := g.firstBeside(ctx, s.link, engine, n)
		if err == nil {
			x = []float64{y[2], y[3], y[0]}
		}
		return err
	})
	return x, err
}

// perSecond is the speed of a stream in tokens a second where many run, as of a large model on few
// accelerators.
const perSecond = 30

// streamBars hold a thousand streams open at once.
func streamBars(ctx context.Context, o Options) ([]Bar, error) {
	const streams, often = 1000, 2
	tokens := int(o.Streaming.Seconds()*perSecond) / (often + 1) // the turns include one that warms up
	var token turns
	x, err := repeat(o, "a thousand streams", func() (x []float64, err error) {
		return inFleet(ctx, o, fleet.Plan{Speedup: perSecond / 100.0, Slowest: time.Second},
			func(s *shop) ([]float64, error) {
				if err := s.sell(ctx, 4, streams/8, "node-1", "node-2"); err != nil {
					return nil, err
				}
				err := s.onFloor(ctx, 2, func(fl *relay) error {
					return inPairs(often, func() (load.Report, error) {
						return s.load(ctx, streams, streams, tokens, 2*time.Second)
					}, func() (load.Report, error) {
						return fl.load(ctx, streams, streams, tokens, 2*time.Second)
					}, func(r, least load.Report) {
						token.add(r.CPUToken, least.CPUToken)
						n := r.TokensPerSecond * r.Seconds
						x = []float64{r.TokensPerSecond, of(r, "engine", n), of(r, "this load", n), r.Seconds,
							of(r, "node", n), of(r, "nats", n)}
					})
				})
				return x, err
			})
	})
	if err != nil {
		return nil, err
	}
	return []Bar{token.bar("processes: CPU per relayed token, 1,000 streams", 1.2, "floor", "us",
		fmt.Sprintf("no gap in %.0f s at %.0f tokens a second; agentd %.1f us, NATS %.1f us; apart: the "+
			"engine's own %.1f us, the readers' %.1f us",
			median(x[3]), median(x[0]), median(x[4]), median(x[5]), median(x[1]), median(x[2])))}, nil
}

// memoryBars look at one agentd with a hundred streams, and at a hub with many agents, sessions and open
// tasks.
func memoryBars(ctx context.Context, o Options) ([]Bar, error) {
	x, err := repeat(o, "memory", func() ([]float64, error) {
		node, err := inFleet(ctx, o, fleet.Plan{Speedup: 0.5, Slowest: time.Second},
			func(s *shop) ([]float64, error) {
				if err := s.sell(ctx, 1, 100, "node-1"); err != nil {
					return nil, err
				}
				r, err := s.load(ctx, 100, 300, 250, 0)
				if err != nil {
					return nil, err
				}
				return []float64{peak(r, "node-1")}, nil
			})
		if err != nil {
			return nil, err
		}
		const agents, sessions, open = 200, 10_000, 1_000
		hub, err := inFleet(ctx, o, fleet.Plan{Speedup: 0.2, Slowest: time.Second},
			func(s *shop) ([]float64, error) {
				if err := s.sell(ctx, agents, open/agents, "node-1"); err != nil {
					return nil, err
				}
				r, err := s.load(ctx, 400, sessions, 1, 0)
				if err != nil {
					return nil, err
				}
				before := peak(r, "hub-general")
				// of two clients, as a hub lets no more than half of them wait for one
				r, err = loaded(ctx, s.link, s.parts(), open, open, 0, questions(open, 150, 2))
				if err != nil {
					return nil, err
				}
				return []float64{peak(r, "hub-general"), before}, nil
			})
		return append(node, hub...), err
	})
	if err != nil {
		return nil, err
	}
	return []Bar{
		{Name: "agentd: resident memory, 100 streams", Asked: "under 60 MB", Limit: 60,
			Measured: median(x[0]), Unit: "MB", Runs: x[0],
			Note: "the most in three turns of a hundred answers of 250 tokens"},
		{Name: "hub: resident memory", Asked: "under 150 MB", Limit: 150, Measured: median(x[1]), Unit: "MB",
			Runs: x[1],
			Note: fmt.Sprintf("the most with 200 agents, 10,000 sessions and 1,000 open tasks of two clients; %.0f "+
				"MB while the sessions began, 400 at once", median(x[2]))},
	}, nil
}
