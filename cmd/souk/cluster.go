package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"souk/bus"
	"souk/cmd/console"
	"souk/cmd/daemon"
	"souk/cmd/local"
	"souk/cmd/replay"
	"souk/market"
)

// clusterConfig is cluster.yaml: which files are started.
type clusterConfig struct {
	Infra      string                    `yaml:"infra"`
	Treasury   string                    `yaml:"treasury"`
	Hubs       []string                  `yaml:"hubs"`
	Classifier string                    `yaml:"classifier"`
	Agentd     []string                  `yaml:"agentd"`
	Gateway    string                    `yaml:"gateway"` // "": none
	Engines    []clusterEngine           `yaml:"engines"`
	Clients    map[string]market.Credits `yaml:"clients"`
}

// clusterEngine is a simulated engine.
type clusterEngine struct {
	Name    string  `yaml:"name"`
	Port    int     `yaml:"port"`
	Model   string  `yaml:"model"`
	Profile string  `yaml:"profile"`
	Speedup float64 `yaml:"speedup"`
	// served beside the model, each under a name of its own
	Adapters []string `yaml:"adapters"`
}

type clusterFlags struct {
	config      string
	bin         string
	exit        bool
	limit       int
	concurrency int
}

// readyWithin is the time for all processes to be ready.
const readyWithin = 60 * time.Second

func clusterCommand(s *shared) *cobra.Command {
	var f clusterFlags
	c := &cobra.Command{
		Use: "cluster",
		Short: "Start a market as processes on this machine, play dialogues through it, and check its " +
			"ledgers",
		Long: `Starts NATS and etcd, the treasury, hubs, the door, a gateway, agentds and simulated engines, each as
a process of its own, from the files that a fleet would be started from; waits until all are ready; plays
bundled dialogues through them; checks every journal; and stays up until Ctrl-C.

Every process logs to DATA/log/NAME.log. Ports of the files that are taken are replaced by free ones, in
every process that uses them. A process that ends by itself ends the cluster, with what it said last.`,
		Example: "  souk cluster\n  souk cluster --exit --data /tmp/market\n  souk cluster --config " +
			"my/cluster.yaml --limit 0",
		Args: console.Takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return runCluster(c.Context(), s.data, f, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	c.Flags().StringVar(&f.config, "config", "deploy/local/cluster.yaml", "which files to start")
	c.Flags().StringVar(&f.bin, "bin", "", "directory of the commands (default: where this one is)")
	c.Flags().BoolVar(&f.exit, "exit", false, "end after the check, with the verdict as exit status")
	c.Flags().IntVar(&f.limit, "limit", 40, "dialogues played; 0 plays none")
	c.Flags().IntVar(&f.concurrency, "concurrency", 24, "dialogues at a time")
	return c
}

// runCluster is the whole command.
func runCluster(ctx context.Context, data string, f clusterFlags, out, errs io.Writer) (err error) {
	var cfg clusterConfig
	if err := daemon.Load("engines", f.config, &cfg); err != nil {
		return err
	}
	if cfg.Infra == "" || cfg.Treasury == "" || cfg.Classifier == "" || len(cfg.Hubs) == 0 ||
		len(cfg.Agentd) == 0 {
		return fmt.Errorf("%s: infra, treasury, hubs, classifier and agentd each name at least one file",
			f.config)
	}
	if f.bin == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		f.bin = filepath.Dir(self)
	}
	if data, err = filepath.Abs(data); err != nil {
		return err
	}
	begin := time.Now()
	dir, err := local.OpenDir(data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	if err := os.MkdirAll(filepath.Join(data, "log"), 0o700); err != nil {
		return err
	}
	plan, err := planCluster(ctx, data, f.bin, f.config, cfg)
	if err != nil {
		return err
	}
	group := new(group)
	group.failed, group.fail = context.WithCancelCause(context.Background())
	defer func() {
		if e := group.stop(plan.stages); e != nil {
			err = errors.Join(err, e)
		}
	}()
	heading(out, 1, "The cluster", "Every part of the market as a process of its own, on loopback.")
	for _, note := range plan.moved {
		fmt.Fprintln(out, note)
	}
	up, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if err := plan.start(up, group); err != nil {
		if ctx.Err() != nil && group.failure() == nil {
			return errors.New("stopped before all processes were ready")
		}
		return err
	}
	if err := dir.Publish(local.State{PID: os.Getpid(), NATS: "nats://" + plan.nats,
		Etcd: "https://" + plan.etcd, HTTP: plan.http, Started: begin.UTC(), Domains: plan.domains,
		Processes: plan.processes(cfg.Engines)}); err != nil {
		return err
	}
	link, err := local.Reach{Data: data}.Dial(bus.RoleGateway, "souk-cluster")
	if err != nil {
		return err
	}
	defer link.Close()
	if err := plan.sold(up, link, group); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d processes, %d agents: ready after %.1f s.\n\n", len(slices.Concat(plan.stages...)),
		plan.agents, time.Since(begin).Seconds())
	plan.table(out)

	s := &shared{data: data}
	verdict := plan.show(ctx, f, cfg, link, group, out)
	if verdict == nil && !f.exit && ctx.Err() == nil {
		if plan.http != "" {
			fmt.Fprintf(out, "\nOpenAI's clients: base URL %s/v1, and a key: %s\n", plan.http, s.line("key new dev"))
		}
		fmt.Fprintf(out, "\nThe cluster stays up until Ctrl-C. In another terminal:\n  %s\n  %s\n  tail "+
			"-f %s\n",
			s.line(`submit "What is a souk?"`), s.line("replay --concurrency 32"),
			filepath.Join(data, "log", "*.log"))
		select {
		case <-ctx.Done():
			fmt.Fprintln(errs, "stopping: tasks that run may end; a second Ctrl-C ends it at once")
		case <-group.failed.Done():
			verdict = group.failure()
		}
	}
	return verdict
}

// start starts stage after stage; daemons wait by themselves for what they need, but infra and engines come
// first.
func (c *cluster) start(ctx context.Context, g *group) error {
	for i, stage := range c.stages {
		for _, p := range stage {
			if err := g.start(p); err != nil {
				return err
			}
		}
		if i == 0 { // NATS and etcd; a treasury may wait for a hub, and a hub for the treasury
			if err := g.await(ctx, stage); err != nil {
				return err
			}
		}
	}
	return g.await(ctx, slices.Concat(c.stages...))
}

// sold waits until the hubs have said that they sell every agent.
func (c *cluster) sold(ctx context.Context, link *local.Link, g *group) error {
	heard, err := link.Hear(ctx)
	if err != nil {
		return err
	}
	for look := time.Tick(10 * time.Millisecond); ; {
		agents, n := map[string]int{}, 0
		for _, h := range heard.Hubs() {
			agents[h.Domain] = h.Status.Agents
			n += h.Status.Agents
		}
		if n >= c.agents {
			return nil
		}
		select {
		case <-look:
		case <-g.failed.Done():
			return g.failure()
		case <-ctx.Done():
			return fmt.Errorf("the hubs sell %v of %d agents: see %s", agents, c.agents,
				filepath.Join(c.dir, "log"))
		}
	}
}

// processes lists the processes that run, for whoever measures them.
func (c *cluster) processes(engines []clusterEngine) []local.Process {
	var out []local.Process
	for _, p := range slices.Concat(c.stages...) {
		isEngine := slices.ContainsFunc(engines, func(e clusterEngine) bool { return e.Name == p.Name })
		out = append(out, local.Process{Name: p.Name, PID: p.PID(), Engine: isEngine})
	}
	return out
}

// table shows the processes.
func (c *cluster) table(w io.Writer) {
	t := replay.Table(w, 4, "process", "pid", "endpoint", "log")
	here, _ := os.Getwd()
	for _, p := range slices.Concat(c.stages...) {
		log := p.Log
		if rel, err := filepath.Rel(here, log); err == nil && !strings.HasPrefix(rel, "..") {
			log = rel
		}
		t.AppendRow(table.Row{p.Name, p.PID(), p.endpoint, log})
	}
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 2, Align: text.AlignRight}})
	t.Render()
}
