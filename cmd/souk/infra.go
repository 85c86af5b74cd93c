package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"souk/bus"
	"souk/bus/embedded"
	"souk/bus/natsauth"
	"souk/bus/regular"
	"souk/cmd/console"
	"souk/cmd/daemon"
	"souk/cmd/local"
)

// infraConfig is the file of `souk infra`.
type infraConfig struct {
	daemon.Common `yaml:",inline"`
	Data          string `yaml:"data"`
	Infra         struct {
		NATS string `yaml:"nats"` // host:port to listen on; "none": it runs elsewhere
		Etcd string `yaml:"etcd"`
		// by which other machines reach them, in their certificate, beside loopback and the addresses above
		Hosts []string `yaml:"hosts"`
		// hosts of machines whose servers are one cluster, and which of them this is; none: one machine
		Members []string `yaml:"members"`
		Member  string   `yaml:"member"`
		Joins   bool     `yaml:"joins"` // this member's etcd lost its data, and the others were told
		// whose creds and certificates are made and renewed in DATA/auth at each start
		Names []infraName `yaml:"names"`
	} `yaml:"infra"`

	hosts []string // of the certificate
	flag  string   // --data, which comes before the file
	level string   // --log-level, likewise
}

// infraName is a process that may come.
type infraName struct {
	Role   bus.Role `yaml:"role"`
	Name   string   `yaml:"name"`
	Domain string   `yaml:"domain"` // a hub's; its name
	Agents []string `yaml:"agents"` // an agentd's
}

func (n infraName) ids() bus.IDs {
	ids := bus.IDs{Name: n.Name, Domain: n.Domain, Agents: n.Agents}
	if n.Role == bus.RoleHub {
		ids.Domain = cmp.Or(ids.Domain, ids.Name)
	}
	return ids
}

const infraExample = `infra:
  nats: 127.0.0.1:4222         # loopback alone; port 0 takes a free one; none: not run here
  etcd: 127.0.0.1:2379
  hosts: []                    # names and addresses by which other machines reach them, for their certificate
  names: []                    # who may come, as {role: hub, name: math}: creds and certificates are made of them
  members: []                  # hosts of three or five machines whose servers are one cluster, at ports 6222 and 2380
  member: ""                   # which of them this machine is
  joins: false                 # etcd's data was lost here, and the others were told: deploy/cluster3
data: souk-data                # keys are in DATA/auth, etcd's data in DATA/etcd; NATS keeps none
`

func infraCommand(s *shared) *cobra.Command {
	var c *cobra.Command
	var out io.Writer
	role := daemon.Role[*infraConfig]{
		Name:  "infra",
		Short: "Run NATS and etcd alone, on this machine or as one of three",
		Long: `Runs a NATS server and an etcd in this process: alone, for local clusters and trials, or as a
member of a cluster of three machines or five. Both ask who is there: their keys and certificates are made in
DATA/auth at the first start, and souk auth add makes what a process shows them. An address that other machines can
reach speaks TLS alone, and so does a cluster. One of the two can run alone: write none for the other. Once they
serve, it prints one line:

  ready nats://127.0.0.1:4222 etcd 127.0.0.1:2379 data souk-data`,
		Example: infraExample,
		NoFile:  true,
		New: func() *infraConfig {
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
		Serve: func(ctx context.Context, p *daemon.Process, cfg *infraConfig) error {
			return serveInfra(ctx, p, cfg, out)
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

// admitWithin bounds how long etcd may take to learn who may use it.
const admitWithin = 30 * time.Second

// none is the address of a server that is not run here.
const none = "none"

// unkept says where another directory is named, if it is the directory that failed.
func unkept(err error) error {
	at := (*os.PathError)(nil)
	files := errors.As(err, &at) || errors.Is(err, regular.ErrNot) || errors.Is(err, regular.ErrLong)
	if files && !errors.Is(err, natsauth.ErrDamaged) {
		return fmt.Errorf("the keys cannot be kept: %w (the directory is data in the file, or SOUK_DATA)",
			err)
	}
	return nil
}

func serveInfra(ctx context.Context, p *daemon.Process, c *infraConfig, out io.Writer) (err error) {
	open := natsauth.Init
	if len(c.Infra.Members) > 0 {
		open = natsauth.Open // each would make keys of its own
	}
	keys, err := open(natsauth.Dir(c.Data))
	if err != nil {
		return cmp.Or(unkept(err), err)
	}
	if keys.Signs() { // else whoever keeps that key makes them
		if _, err := local.OperatorFiles(c.Data); err != nil {
			return err
		}
		for _, n := range c.Infra.Names {
			if _, err := keys.Ensure(n.Role, n.ids(), time.Now()); err != nil {
				return fmt.Errorf("infra.names: %w", err)
			}
		}
	}
	files, err := natsauth.ServerCert(keys.Dir, c.hosts, time.Now())
	if err != nil {
		return cmp.Or(unkept(err), fmt.Errorf("infra.hosts: %w", err))
	}
	var cluster *embedded.Cluster
	var ended <-chan struct{} // of a start that may wait for others
	if len(c.Infra.Members) > 0 {
		cluster = &embedded.Cluster{Member: c.Infra.Member, Members: c.Infra.Members,
			TLS: natsauth.PeerFiles(keys.Dir),
			Dir: filepath.Join(c.Data, "nats"), Joins: c.Infra.Joins}
		ended = ctx.Done()
	}
	var tended []string
	natsAt, etcdAt := none, none
	if c.Infra.NATS != none {
		auth, err := keys.Server()
		if err != nil {
			return err
		}
		config := embedded.NATSConfig{Listen: c.Infra.NATS, Auth: auth, Log: p.Log, Cluster: cluster}
		if daemon.CheckLoopback(c.Infra.NATS) != nil || cluster != nil {
			if config.TLS, err = natsauth.TLSOf(files); err != nil {
				return err
			}
		}
		nats, err := embedded.StartNATS(config)
		if err != nil {
			return fmt.Errorf("%w (choose another address: infra.nats or SOUK_INFRA_NATS)", err)
		}
		defer nats.Close()
		nats.Observe(p.Meter())
		natsAt = nats.URL
		if err := keys.ServesAt(here(natsAt)); err != nil {
			return err
		}
	}
	if c.Infra.Etcd != none {
		if cluster != nil {
			p.Log.Info("starting etcd: it serves once most of its members run", "members", cluster.Members)
		}
		etcd, wrong := embedded.StartEtcd(embedded.EtcdConfig{Dir: c.Data, Listen: c.Infra.Etcd,
			TLS: files, Tick: 50 * time.Millisecond, Log: p.Log, Cluster: cluster, Ended: ended})
		if errors.Is(wrong, context.Canceled) {
			return nil
		}
		if errors.Is(wrong, embedded.ErrLost) {
			return fmt.Errorf("%w: bring it back, or follow deploy/cluster3/README.md, \"A member without its disk\"",
				wrong)
		}
		if wrong != nil {
			return fmt.Errorf("%w (choose another address: infra.etcd or SOUK_INFRA_ETCD; another "+
				"directory: data or SOUK_DATA)", wrong)
		}
		defer func() { err = errors.Join(err, etcd.Close()) }()
		etcd.Observe(p.Meter())
		etcdAt = etcd.Endpoint()
		p.Lacks(etcd.Leaderless)
		if keys.Certifies() { // else who has the CA's key tells etcd
			admit, cancel := context.WithTimeout(context.WithoutCancel(ctx), admitWithin)
			defer cancel()
			tended = []string{here(etcdAt)}
			if err := local.Admit(admit, keys, tended); err != nil {
				return err
			}
		}
	}
	end := local.Tend(keys, c.hosts, tended, p.Log)
	defer end()
	ready := make(chan struct{})
	p.Serving(ready, func() any {
		return map[string]string{"nats": natsAt, "etcd": etcdAt, "data": c.Data}
	})
	close(ready)
	fmt.Fprintf(out, "ready %s etcd %s data %s\n", natsAt, etcdAt, c.Data)
	<-ctx.Done()
	return nil
}

// here is an address as this machine reaches it, where it stands for all that the machine has.
func here(address string) string {
	at := strings.LastIndexByte(address, '/') + 1 // behind a scheme, if any
	host, port, err := net.SplitHostPort(address[at:])
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsUnspecified() {
		return address
	}
	return address[:at] + net.JoinHostPort("127.0.0.1", port)
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
		switch err := daemon.CheckLoopback(l.address); {
		case err == nil:
		case !errors.Is(err, daemon.ErrRemote):
			errs = append(errs, fmt.Errorf("%s: %w", l.name, err))
		default:
			host, _, _ := net.SplitHostPort(l.address) // judged just now
			if ip := net.ParseIP(host); host != "" && (ip == nil || !ip.IsUnspecified()) {
				c.hosts = append(c.hosts, host)
			} else if len(c.Infra.Hosts) == 0 {
				errs = append(errs, fmt.Errorf("hosts: none: %s listens on all addresses of this machine: write "+
					"the names and addresses by which others reach it, for its certificate", l.name))
			}
		}
	}
	c.hosts = append(c.hosts, c.Infra.Hosts...)
	if m := c.Infra.Members; len(m) > 0 || c.Infra.Member != "" {
		if len(m) != 3 && len(m) != 5 || len(m) != len(slices.Compact(slices.Sorted(slices.Values(m)))) {
			errs = append(errs, fmt.Errorf("members: %q: write three or five different hosts, the same list on "+
				"each: of four, as of three, all fail with two", m))
		}
		if !slices.Contains(m, c.Infra.Member) {
			errs = append(errs, fmt.Errorf("member: %q is none of members: write which of them this machine is",
				c.Infra.Member))
		}
		c.hosts = append(c.hosts, m...)
	}
	var taken natsauth.Claims
	for i, n := range c.Infra.Names {
		if err := taken.Claim(n.Role, n.ids()); err != nil {
			errs = append(errs, fmt.Errorf("names[%d]: %w", i, err))
		}
	}
	if c.Infra.NATS == none && c.Infra.Etcd == none {
		errs = append(errs, errors.New("nats and etcd: both are none: there is nothing to run"))
	}
	if c.Data == "" {
		errs = append(errs, errors.New("data: not set: write the directory for keys and for etcd's data"))
	}
	return errors.Join(errs...)
}

// Drain returns how long etcd may take to end.
func (c *infraConfig) Drain() time.Duration { return 5 * time.Second }
