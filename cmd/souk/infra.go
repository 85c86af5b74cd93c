package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"souk/bus/embedded"
	"souk/cmd/internal/console"
	"souk/cmd/internal/daemon"
	"souk/cmd/local"
)

// infraConfig is the file of `souk infra`.
type infraConfig struct {
	daemon.Common `yaml:",inline"`
	Data          string `yaml:"data"`
	Infra         struct {
		NATS string `yaml:"nats"` // host:port to listen on, loopback; "none": it runs elsewhere
		Etcd string `yaml:"etcd"`
	} `yaml:"infra"`

	flag  string // --data, which comes before the file
	level string // --log-level, likewise
}

const infraExample = `infra:
  nats: 127.0.0.1:4222         # loopback alone; port 0 takes a free one; none: not run here
  etcd: 127.0.0.1:2379
data: souk-data                # etcd's data is in DATA/etcd; NATS keeps none
`

func infraCommand(s *shared) *cobra.Command {
	var c *cobra.Command
	var out io.Writer
	role := daemon.Role{
		Name:  "infra",
		Short: "Run NATS and etcd alone, on loopback, for a cluster on this machine",
		Long: `Runs a NATS server and an etcd of one member in this process, for local clusters and
trials. It listens on loopback and nowhere else, for neither asks who is there. One of the two can run
alone: write none for the other. Once they serve, it prints one line:

  ready nats://127.0.0.1:4222 etcd 127.0.0.1:2379 data souk-data`,
		Example: infraExample,
		Version: version,
		NoFile:  true,
		New: func() daemon.Config {
			cfg := &infraConfig{Common: daemon.Default(), Data: s.data}
			if c != nil && c.Flags().Changed("data") {
				cfg.flag = s.data
			}
			if c != nil && c.Flags().Changed("log-level") {
				cfg.level = s.logLevel
			}
			cfg.Infra.NATS, cfg.Infra.Etcd = "127.0.0.1:4222", "127.0.0.1:2379"
			return cfg
		},
		Serve: func(ctx context.Context, p *daemon.Process, cfg daemon.Config) error {
			return serveInfra(ctx, p, cfg.(*infraConfig), out)
		},
	}
	c = daemon.Command(role)
	c.Use = "infra"
	c.Example = "  souk infra --data DIR\n  souk infra --config deploy/local/infra.yaml"
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		out = c.OutOrStdout()
		daemon.ShareCores()
		err := run(c, args)
		if err != nil && !daemon.IsFailure(err) {
			fmt.Fprintln(c.ErrOrStderr(), "souk infra:", err)
			return console.Exit(daemon.ExitUsage)
		}
		return err
	}
	return c
}

// none is the address of a server that is not run here.
const none = "none"

func serveInfra(ctx context.Context, p *daemon.Process, c *infraConfig, out io.Writer) (err error) {
	natsAt, etcdAt := none, none
	if c.Infra.NATS != none {
		nats, err := embedded.StartNATS(embedded.NATSConfig{Listen: c.Infra.NATS, Log: p.Log})
		if err != nil {
			return fmt.Errorf("%w (choose another address: infra.nats or SOUK_INFRA_NATS)", err)
		}
		defer nats.Close()
		natsAt = nats.URL()
	}
	if c.Infra.Etcd != none {
		log, hush := local.Hushable(p.Log)
		etcd, wrong := embedded.StartEtcd(embedded.EtcdConfig{Dir: c.Data, Listen: c.Infra.Etcd,
			Tick: 50 * time.Millisecond, Log: log})
		if wrong != nil {
			return fmt.Errorf("%w (choose another address: infra.etcd or SOUK_INFRA_ETCD; another "+
				"directory: data or SOUK_DATA)", wrong)
		}
		defer func() {
			hush()
			err = errors.Join(err, etcd.Close())
		}()
		etcdAt = etcd.Endpoint()
	}
	ready := make(chan struct{})
	p.Serving(ready, func() any {
		return map[string]string{"nats": natsAt, "etcd": etcdAt, "data": c.Data}
	})
	close(ready)
	fmt.Fprintf(out, "ready %s etcd %s data %s\n", natsAt, etcdAt, c.Data)
	<-ctx.Done()
	return nil
}

// Complete judges the file; --data and --log-level come before it.
func (c *infraConfig) Complete() error {
	if c.flag != "" {
		c.Data = c.flag
	}
	if c.level != "" {
		c.Log.Level = c.level
	}
	var errs []error
	for _, l := range []struct{ name, address string }{{"nats", c.Infra.NATS}, {"etcd", c.Infra.Etcd}} {
		if l.address == none {
			continue
		}
		if err := daemon.CheckLoopback(l.address); err != nil {
			errs = append(errs,
				fmt.Errorf("%s: %w; these servers ask nobody who they are, so they listen on this "+
					"machine alone", l.name, err))
		}
	}
	if c.Infra.NATS == none && c.Infra.Etcd == none {
		errs = append(errs, errors.New("nats and etcd: both are none: there is nothing to run"))
	}
	if c.Data == "" {
		errs = append(errs, errors.New("data: not set: write the directory for etcd's data"))
	}
	return errors.Join(errs...)
}

// Drain is what etcd takes to end.
func (c *infraConfig) Drain() time.Duration { return 5 * time.Second }
