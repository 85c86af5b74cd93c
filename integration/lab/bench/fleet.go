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
	"souk/bus/follow"
	"souk/cmd/local"
	"souk/cmd/replay"
	"souk/integration/lab/bench/floor"
	"souk/integration/lab/fleet"
	"souk/integration/lab/load"
	"souk/market"
)

// clients have money in every market of processes. The first asks, if not said otherwise.
var clients = []replay.Client{{ID: "dev"}, {ID: "dev-2"}}

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
	p.Clients = map[string]market.Credits{}
	for _, c := range clients {
		p.Clients[c.ID] = 1_000_000 * market.Credit
	}
	fl, err := fleet.Start(ctx, p)
	if err != nil {
		return nil, err
	}
	defer fl.Kill()
	if os.Getenv("GOMAXPROCS") == "" { // this process shares the machine with others
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

// questions returns n of body's prompts, each in a session of its own, answered by exactly so many tokens. So
// many clients ask them in turn.
func questions(n, tokens, many int) *load.Questions {
	ds := make([]replay.Dialogue, n)
	for i := range ds {
		ds[i] = replay.Dialogue{System: "You are a helpful assistant. Answer briefly, and say so where you " +
			"do not know.", Turns: []replay.Turn{{
			User: fmt.Sprintf("Question %d: which of the goods on the market of Marrakesh would you carry "+
				"home, and why would you?", numbers.Add(1))}}}
	}
	q, err := load.NewQuestions(ds,
		load.Shape{Clients: clients[:many], MaxTokens: tokens, Whole: true,
			Run: fmt.Sprintf("bench-%x", time.Now().UnixNano())})
	if err != nil {
		panic("bench: questions of one turn: " + err.Error())
	}
	return q
}

// load lets callers ask so many questions in all. It is an error unless every answer came, whole.
func (s *shop) load(ctx context.Context, callers, n, tokens int, ramp time.Duration) (load.Report, error) {
	return loaded(ctx, s.link, s.parts(), callers, n, ramp, questions(n, tokens, 1))
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
	return loaded(ctx, r, r.parts, callers, n, ramp, questions(n, tokens, 1))
}

// loaded is [shop.load] with a market, whose processes are measured.
func loaded(ctx context.Context, m asker, parts []load.Process, callers, n int, ramp time.Duration,
	q *load.Questions) (load.Report, error) {
	r, err := load.Run(ctx, load.Config{Concurrency: callers, Answers: n, Ramp: ramp, Duration: time.Hour,
		Processes: parts}, q, m.AskWith)
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

// way makes an engine fail, and mends it.
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
					Processes: s.parts()}, questions(2000, failTokens, 1), s.link.AskWith)
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
