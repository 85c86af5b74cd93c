package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"souk/bus"
	"souk/bus/etcdreg"
	"souk/bus/follow"
	"souk/bus/natsauth"
	"souk/cmd/local"
	"souk/cmd/replay"
	"souk/integration/lab/bench/floor"
	"souk/integration/lab/fleet"
	"souk/integration/lab/load"
	"souk/market"
)

// shop is a market of processes under measurement.
type shop struct {
	*fleet.Fleet
	o    Options
	link *local.Link
}

// inFleet runs f beside a market of processes on loopback, and has its journals checked at the end.
func inFleet(ctx context.Context, o Options, p fleet.Plan, f func(*shop) ([]float64, error)) (out []float64,
	err error) {
	p.Bin = o.Bin
	for _, name := range []string{"agentd", "hub", "classifier", "treasury", "gateway", "ledger"} {
		if _, err := os.Stat(filepath.Join(p.Bin, name)); err != nil {
			return nil, fmt.Errorf("%w: a market of processes needs every command: `make build` makes them",
				err)
		}
	}
	if p.Dir, err = os.MkdirTemp("", "lab-bench-"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(p.Dir)
	p.Domains = []string{"general"}
	p.Clients = map[string]market.Credits{"dev": 1_000_000 * market.Credit}
	fl, err := fleet.Start(ctx, p)
	if err != nil {
		return nil, err
	}
	defer fl.Kill()
	if os.Getenv("GOMAXPROCS") == "" { // this process, the clients', is one of many here, and does as they do
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(1, runtime.GOMAXPROCS(0)/2)))
	}
	s := &shop{Fleet: fl, o: o}
	if s.link, err = fl.Reach().Dial(bus.RoleGateway, "lab-bench"); err != nil {
		return nil, err
	}
	out, err = f(s)
	err = errors.Join(err, s.link.Close())
	if err != nil {
		return nil, err
	}
	if err := fl.Check(ctx); err != nil {
		return nil, err
	}
	return out, fl.Stop()
}

// sell starts agentds that sell engine 1 as so many agents each, and waits until the hub sells all of them.
func (s *shop) sell(ctx context.Context, agents, slots int, nodes ...string) error {
	for _, name := range nodes {
		if err := s.node(ctx, name, agents, slots); err != nil {
			return err
		}
	}
	return s.Sold(ctx, agents*len(nodes))
}

func (s *shop) node(ctx context.Context, name string, agents, slots int) error {
	var b strings.Builder
	ids := bus.IDs{Name: name}
	for i := range agents {
		ids.Agents = append(ids.Agents, fmt.Sprintf("%s-%d", name, i+1))
	}
	creds, err := s.Keys.Ensure(bus.RoleAgentd, ids, time.Now())
	if err != nil {
		return err
	}
	fmt.Fprintf(&b, "market: {nats: \"nats://%s\", etcd: [%q], creds: %q}\n", s.NATS, s.Etcd, creds)
	fmt.Fprintf(&b, "agentd:\n  node: %s\n  drain_timeout: 20s\n  agents:\n", name)
	for i := range agents {
		fmt.Fprintf(&b, "    - {id: %s-%d, engine: {url: \"http://%s\"}, model: gpt-oss-20b, scale: 20, "+
			"domains: [{domain: general, score: 0.7}], slots: %d, price: {miss: 0.075, hit: 0.0375, out: "+
			"0.30}}\n",
			name, i+1, s.Part("engine-1").Health, slots)
	}
	p, err := s.Add(name, "", b.String(), "agentd")
	if err == nil {
		err = p.Start()
	}
	if err == nil {
		err = p.Ready(ctx)
	}
	return err
}

// questions are so many of body's prompts, each in a session of its own, answered by exactly so many tokens.
func questions(n, tokens int) *load.Questions {
	ds := make([]replay.Dialogue, n)
	for i := range ds {
		ds[i] = replay.Dialogue{System: "You are a helpful assistant. Answer briefly, and say so where you " +
			"do not know.", Turns: []replay.Turn{{
			User: fmt.Sprintf("Question %d: which of the goods on the market of Marrakesh would you carry "+
				"home, and why would you?", numbers.Add(1))}}}
	}
	q, err := load.NewQuestions(ds,
		load.Shape{Clients: []replay.Client{{ID: "dev"}}, MaxTokens: tokens, Whole: true,
			Run: fmt.Sprintf("bench-%x", time.Now().UnixNano())})
	if err != nil {
		panic("bench: questions of one turn: " + err.Error())
	}
	return q
}

// load lets callers ask so many questions in all. It is an error unless every answer came, whole.
func (s *shop) load(ctx context.Context, callers, n, tokens int, ramp time.Duration) (load.Report, error) {
	return loaded(ctx, s.link, s.parts(), callers, n, tokens, ramp)
}

func (s *shop) parts() (ps []load.Process) {
	for _, p := range s.Parts() {
		ps = append(ps,
			load.Process{Name: p.Name, PID: p.PID(), Apart: strings.HasPrefix(p.Name, "engine"), Find: p.PID})
	}
	return ps
}

// relay is a floor of processes: a hub and so many nodes of four agents, as the market beside it, on its
// NATS, its engine and its disk.
type relay struct {
	*floor.Caller
	children []*child
	parts    []load.Process // itself, and NATS
}

// onFloor runs f with a floor beside the market.
func (s *shop) onFloor(ctx context.Context, nodes int, f func(*relay) error) (err error) {
	url, creds := "nats://"+s.NATS, filepath.Join(s.Data, "floor.creds")
	if err := writeUnbound(s.Keys, "souk-floor", creds); err != nil {
		return err
	}
	r := &relay{parts: []load.Process{{Name: fleet.NATS, PID: s.Part(fleet.NATS).PID()}}}
	defer func() {
		for _, c := range slices.Backward(r.children) {
			err = errors.Join(err, c.stop())
		}
	}()
	start := func(name string, args ...string) error {
		c, _, err := s.o.startChild(ctx, "lab",
			append([]string{"floor", "--nats", url, "--creds", creds}, args...)...)
		if err == nil {
			r.children = append(r.children, c)
			r.parts = append(r.parts, load.Process{Name: name, PID: c.pid()})
		}
		return err
	}
	for n := range nodes {
		if err := start(fmt.Sprintf("node-%d", n+1), "--engine", "http://"+s.Part("engine-1").Health,
			"--first", strconv.Itoa(4*n), "--agents", "4"); err != nil {
			return err
		}
	}
	if err := start("hub", "--journal", s.Data, "--agents", strconv.Itoa(4*nodes)); err != nil {
		return err
	}
	conn, err := floor.Connect(url, creds)
	if err != nil {
		return err
	}
	defer conn.Close()
	if r.Caller, err = floor.NewCaller(conn); err != nil {
		return err
	}
	return f(r)
}

// load is [shop.load] with the floor.
func (r *relay) load(ctx context.Context, callers, n, tokens int, ramp time.Duration) (load.Report, error) {
	return loaded(ctx, r, r.parts, callers, n, tokens, ramp)
}

// loaded is [shop.load] with a market, whose processes are measured.
func loaded(ctx context.Context, m asker, parts []load.Process, callers, n, tokens int,
	ramp time.Duration) (load.Report, error) {
	r, err := load.Run(ctx, load.Config{Concurrency: callers, Answers: n, Ramp: ramp, Duration: time.Hour,
		Processes: parts}, questions(n, tokens), m.AskWith)
	return r, cmp.Or(err, ctx.Err(), whole(r))
}

func whole(r load.Report) error {
	if r.Broken > 0 || r.Failed() > 0 || r.Answered != r.Asked {
		return fmt.Errorf("%d tasks asked, %v; %d answers with gaps: %v %v", r.Asked, r.Codes, r.Broken,
			r.Says, r.Wrong)
	}
	return nil
}

// of is the CPU of some processes, the market's or not, in microseconds for each of n.
func of(r load.Report, prefix string, n float64) (us float64) {
	for _, p := range r.Processes {
		if strings.HasPrefix(p.Name, prefix) {
			us += p.CPU * 1e6 / n
		}
	}
	return us
}

func peak(r load.Report, name string) float64 {
	for _, p := range r.Processes {
		if p.Name == name {
			return p.Peak
		}
	}
	panic("bench: no process " + name)
}

// inPairs measures a floor and the market beside it, one after the other, so many times after one that warms
// up, and each time the other one first.
func inPairs(often int, market, floor func() (load.Report, error), each func(r, least load.Report)) error {
	both := []func() (load.Report, error){floor, market}
	for turn := range often + 1 {
		var got [2]load.Report
		for i := range both {
			k := (turn + i) % 2
			var err error
			if got[k], err = both[k](); err != nil {
				return err
			}
		}
		if turn > 0 {
			each(got[1], got[0])
		}
	}
	return nil
}

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
	key, err := putKey(ctx, registry)
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

// perSecond is how many tokens a stream has each second where many run: what a large model on few
// accelerators gives each of many readers.
const perSecond = 30

// streamBars hold a thousand streams open at once.
func streamBars(ctx context.Context, o Options) ([]Bar, error) {
	const streams, often = 1000, 2
	tokens := int(o.Streaming.Seconds()*perSecond) / (often + 1) // the turn that warms up is one of them
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
				r, err = s.load(ctx, open, open, 150, 0)
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
			Note: fmt.Sprintf("the most with 200 agents, 10,000 sessions and 1,000 open tasks; %.0f MB "+
				"while the sessions began, 400 at once", median(x[2]))},
	}, nil
}

// way is how an engine fails.
type way struct {
	name string
	from func(context.Context, *fleet.Part) error
	to   func(context.Context, *fleet.Part) error
}

// failTokens is the length of an answer where engines fail.
const failTokens = 60

func ways() []way {
	fault := func(order string) func(context.Context, *fleet.Part) error {
		return func(ctx context.Context, engine *fleet.Part) error { return tell(ctx, engine, order) }
	}
	heal := fault(`{"heal":true}`)
	return []way{
		{"refused", func(_ context.Context, p *fleet.Part) error { return p.Kill() },
			func(_ context.Context, p *fleet.Part) error { return p.Start() }},
		{silent, fault(`{"kind":"hang"}`), heal},
		{"503", fault(`{"kind":"status","code":503}`), heal},
		{"cut half-way", fault(fmt.Sprintf(`{"kind":"reset","after":%d}`, failTokens/2)), heal},
	}
}

// tell orders a simulated engine to fail, or to be well again.
func tell(ctx context.Context, engine *fleet.Part, order string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+engine.Health+"/sim/fault",
		strings.NewReader(order))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("engine: %s to %s", answer.Status, order)
	}
	return nil
}

// failoverBars let one engine of eight fail for four seconds of ten under 32 clients.
func failoverBars(ctx context.Context, o Options) ([]Bar, error) {
	var bars []Bar
	for _, w := range ways() {
		x, err := repeat(o, "an engine that fails, "+w.name, func() ([]float64, error) {
			return inFleet(ctx, o, fleet.Plan{Agents: 8, Slots: 8}, func(s *shop) ([]float64, error) {
				engine := s.Part("engine-1")
				failed := make(chan error, 1)
				go func() {
					follow.Pause(ctx, 3*time.Second)
					err := w.from(ctx, engine)
					if err == nil {
						follow.Pause(ctx, 4*time.Second)
						err = w.to(ctx, engine)
					}
					failed <- err
				}()
				r, err := load.Run(ctx, load.Config{Concurrency: 32, Duration: 10 * time.Second,
					Processes: s.parts()}, questions(2000, failTokens), s.link.AskWith)
				if err := errors.Join(err, ctx.Err(), <-failed); err != nil {
					return nil, err
				}
				if n := r.Failed(); n > 0 {
					fmt.Fprintf(o.Progress, "%s: %v: %s\n", w.name, r.Codes, strings.Join(r.Says, "; "))
				}
				return []float64{float64(r.Failed() + r.Broken), float64(r.Moved), float64(r.Asked),
					r.RawWhole.Max / 1000, r.RawWhole.P50 / 1000}, nil
			})
		})
		if err != nil {
			return bars, err
		}
		bars = append(bars, Bar{
			Name: "one engine of eight fails: " + w.name, Asked: "no client sees an error", Limit: 0,
			Measured: median(x[0]), Unit: "errors", Runs: x[0],
			Note: fmt.Sprintf("4 s of 10 under 32 clients; %.0f of %.0f answers came from another agent "+
				"than first asked; longest %.1f s, p50 %.2f s", median(x[1]), median(x[2]), median(x[3]),
				median(x[4])),
		})
		if w.name == silent {
			bars = append(bars, silentBar(x[3]))
		}
	}
	return bars, nil
}
