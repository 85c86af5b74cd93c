// Package daemon has the parts that the market's long-running commands share: a strict configuration file,
// overrides from the environment, signals, logs, health, and the connections to NATS and etcd.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"souk/bus"
	"souk/bus/sight"
)

// Exit codes, the same for all commands.
const (
	ExitOK    = 0
	ExitWrong = 1 // it ran, and could not go on: starting it again may help
	ExitUsage = 2 // arguments or configuration cannot be used: starting it again cannot help
)

// Config is the file of one daemon. Its fields carry yaml tags; durations, credits and nested structs are
// read as they are written.
type Config interface {
	// Sections returns the sections that every daemon has.
	Sections() *Common
	// IDs returns the daemon's ids, for which its creds must be.
	IDs() bus.IDs
	// Complete fills in what follows from other fields and judges the whole. Errors begin with the field's
	// path below the role's section or from the top, as in "batch.max_wait: ...".
	Complete() error
	// Drain is the longest that the daemon itself takes to end.
	Drain() time.Duration
}

// Common are the sections that every daemon's file has.
type Common struct {
	Health Health `yaml:"health"`
	Log    Log    `yaml:"log"`
	Stop   Stop   `yaml:"stop"`
	Traces Traces `yaml:"traces"`
}

// Log says what is logged to stderr.
type Log struct {
	Level  string `yaml:"level"`  // debug, info, warn, error
	Format string `yaml:"format"` // text, json
}

// Stop bounds the end of a daemon after its first signal.
type Stop struct {
	Within time.Duration `yaml:"within"` // 0: the time to drain, and stopMargin
}

// stopMargin is the time for what comes after draining: journals closed, leases given back, connections
// flushed.
const stopMargin = 5 * time.Second

// Role describes a daemon whose file is a C.
type Role[C Config] struct {
	Name    string // of the command and of the section in the file
	Short   string
	Long    string
	Example string   // a configuration, shown by --help
	NoFile  bool     // the defaults alone will do
	As      bus.Role // whose creds it comes with; "": nobody's
	New     func() C
	Serve   func(ctx context.Context, p *Process, c C) error // until ctx ends, and it has drained
}

// Process gives a running daemon its log, health and spans.
type Process struct {
	Log    *slog.Logger
	Spans  *sight.Spans // nil: none
	health *health
}

// failure is a daemon that could not go on, as opposed to one that was asked wrongly.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// Main runs a command with the process's arguments until SIGINT or SIGTERM, and does not return. The first
// signal lets it drain; a second one ends it at once.
func Main(command *cobra.Command) {
	ShareCores()
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go obey(signals, stop, func(s os.Signal) {
		fmt.Fprintf(os.Stderr, "%s: %v again: ended at once\n", command.Name(), s)
		os.Exit(ExitWrong)
	})
	os.Exit(Run(ctx, command, os.Args[1:], os.Stdout, os.Stderr))
}

// ShareCores has this process run on half of the machine's cores at once, at least one, unless GOMAXPROCS in
// the environment says how many. Whatever a daemon does it does beside others: engines, a hub, NATS. Where
// more processes than cores take turns, each of Go's idle threads that looks for work stands in the way of
// the process that has the work: on two cores a task through six processes takes a third more processor time,
// and half as long again.
func ShareCores() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(max(1, runtime.GOMAXPROCS(0)/2))
	}
}

// sameSignal is the time within which signals count as one. A Ctrl-C before containers comes from the
// terminal and from their manager; a parent's death is told by each of its threads.
const sameSignal = 300 * time.Millisecond

// obey drains at the first signal, and ends at the next one that was meant as another.
func obey(signals <-chan os.Signal, drain func(), end func(os.Signal)) {
	<-signals
	first := time.Now()
	drain()
	for s := range signals {
		if time.Since(first) > sameSignal {
			end(s)
			return
		}
	}
}

// Run runs a command until ctx ends and it has drained, and returns its exit code.
func Run(ctx context.Context, command *cobra.Command, args []string, out, errs io.Writer) int {
	command.SetArgs(args)
	command.SetOut(out)
	command.SetErr(errs)
	err := command.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	if !Names(err, command.Name()) {
		err = fmt.Errorf("%s: %w", command.Name(), err)
	}
	fmt.Fprintln(errs, err)
	if IsFailure(err) {
		return ExitWrong
	}
	return ExitUsage
}

// Names reports whether an error names a part of the market already: most packages that run one begin their
// errors with its name.
func Names(err error, part string) bool {
	rest, begins := strings.CutPrefix(err.Error(), part)
	return begins && (strings.HasPrefix(rest, ": ") || strings.HasPrefix(rest, " "))
}

// Failed marks an error as one of the running command, not of how it was asked.
func Failed(err error) error {
	if err == nil {
		return nil
	}
	return failure{err}
}

// Command is the daemon as a command: --config, --check-config, --probe, --version.
func Command[C Config](r Role[C]) *cobra.Command {
	var path string
	var check, probe bool
	sections := commonHelp
	if _, ok := marketOf(r.New()); ok {
		sections += marketHelp
	}
	c := &cobra.Command{
		Use:   r.Name + " --config FILE",
		Short: r.Short,
		Long: r.Long + "\n\nThe configuration is YAML, for example:\n\n" + indent(r.Example) +
			sections + coresHelp + environmentHelp(r.Name, r.New()),
		Example: "  " + r.Name + " --config /etc/souk/" + r.Name + ".yaml\n  " + r.Name +
			" --config FILE --check-config",
		Version:       Version(),
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error {
			if path == "" && !r.NoFile {
				return fmt.Errorf("no configuration: name its file, as %s --config /etc/souk/%s.yaml; %s --help "+
					"shows one, and deploy/local has one", r.Name, r.Name, r.Name)
			}
			cfg := r.New()
			if err := load(r.Name, path, os.Environ(), cfg); err != nil {
				return err
			}
			switch {
			case check:
				if open := openSecret(path); open != "" {
					fmt.Fprintf(c.ErrOrStderr(), "%s: %s\n", r.Name, open)
				}
				return checked(r.Name, r.As, cfg, c.OutOrStdout(), c.ErrOrStderr())
			case probe:
				return Failed(Probe(c.Context(), cfg.Sections().Health))
			}
			return run(c.Context(), r.Name, cfg, func(ctx context.Context, p *Process) error {
				return r.Serve(ctx, p, cfg)
			}, openSecret(path), c.ErrOrStderr())
		},
	}
	c.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w; %s --help lists them", err, r.Name)
	})
	f := c.Flags()
	f.StringVar(&path, "config", "", "configuration file (YAML)")
	f.BoolVar(&check, "check-config", false,
		"judge the configuration, and the files of keys that it names, print what is in effect, and end with "+
			"0 or 2")
	f.BoolVar(&probe, "probe", false,
		"ask the daemon that runs with this configuration whether it is ready, and end with 0 or 1")
	return c
}

// checked shows a configuration as it is in effect, and judges the files of keys that it names. What is not
// there is only said: keys may be made later, or be given to the process as it starts.
func checked(name string, as bus.Role, cfg Config, out, errs io.Writer) error {
	text, err := Effective(cfg)
	if err == nil {
		_, err = out.Write(text)
	}
	m, ok := marketOf(cfg)
	if err != nil || !ok {
		return err
	}
	lacks, wrong := m.judgeFiles(as, cfg.IDs())
	for _, l := range lacks {
		fmt.Fprintf(errs, "%s: as it is here it would not start: %v\n", name, l)
	}
	return wrong
}

const commonHelp = `
Sections that every daemon has, with their defaults:

  health:                              # /livez, /readyz, /stats (JSON) and /metrics (Prometheus)
    listen: ""                         # host:port; on loopback it answers to localhost, 127.0.0.1 and [::1]
                                       # as Host alone; beyond loopback it wants tls or token_file, and shows
                                       # no /stats, which says much; empty: nowhere
    tls: {cert: "", key: ""}           # files in PEM, read again when renewed
    token_file: ""                     # file of a secret of 16 characters and more: /metrics, and why /readyz
                                       # is not, are shown to who sends it (Authorization: Bearer SECRET)
  log: {level: info, format: text}     # to stderr; debug, info, warn, error; text, json
  traces: {file: ""}                   # spans, as lines of OTLP's JSON, 64 MB and as much before; a collector is
                                       # named by OTEL_EXPORTER_OTLP_ENDPOINT; 1 % is traced, or what
                                       # OTEL_TRACES_SAMPLER says
  stop: {within: 0s}                   # after SIGTERM it ends what runs, then itself, within this (0s: its
                                       # time to drain and 5 s); a second signal ends it at once
`

const marketHelp = `
The market's section also takes the files that souk auth add makes, which are read again at each connect:

  market:
    creds: souk-data/auth/creds/NAME.creds    # what NATS knows this process by
    ca: souk-data/auth/ca.pem                 # of NATS at tls://host:port, and of etcd
    cert: souk-data/auth/certs/NAME.pem       # what etcd knows this process by
    key: souk-data/auth/certs/NAME.key
`

const coresHelp = `
It uses half of the machine's cores, since it is seldom alone there; GOMAXPROCS in the environment changes
that.
`

// run serves until ctx ends, and sees to it that the end comes within the time stated.
func run(ctx context.Context, name string, cfg Config, serve func(context.Context, *Process) error,
	warning string, errs io.Writer) error {
	common := cfg.Sections()
	log := common.Log.logger(errs).With("daemon", name)
	slog.SetDefault(log)
	p, err := Watched(name, common.Health, net.Listen, log)
	if err != nil {
		return Failed(err)
	}
	defer p.Close()
	log.Info("starting", "version", Version(), "pid", os.Getpid(), "health", p.health.address())
	if warning != "" {
		log.Warn(warning)
	}
	spans, flush, err := Trace(name, common.Traces, log)
	if err != nil {
		return err
	}
	p.Spans = spans
	done := make(chan error, 1)
	go func() {
		err := serve(ctx, p)
		flush()
		done <- err
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		within := common.Stop.Within
		log.Info("stopping: running tasks may end; a second signal ends it at once", "within", within)
		p.health.stopping()
		select {
		case err = <-done:
		case <-time.After(within):
			return Failed(fmt.Errorf("not stopped within %v: ended as it was; journals are whole up to "+
				"their last sync", within))
		}
	}
	if err != nil && (ctx.Err() == nil || !errors.Is(err, ctx.Err())) {
		return Failed(err)
	}
	log.Info("stopped")
	return nil
}

func (l Log) logger(w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(l.Level)) // judged when the file was read
	o := &slog.HandlerOptions{Level: level}
	if l.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// complete judges the common sections and fills in what follows from the daemon's own.
func (c *Common) complete(drain time.Duration) error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	errs = append(errs, c.Health.Validate())
	var level slog.Level
	if level.UnmarshalText([]byte(c.Log.Level)) != nil {
		wrong("log.level: %q: write debug, info, warn or error", c.Log.Level)
	}
	if c.Log.Format != "text" && c.Log.Format != "json" {
		wrong("log.format: %q: write text or json", c.Log.Format)
	}
	switch {
	case c.Stop.Within == 0:
		c.Stop.Within = drain + stopMargin
	case c.Stop.Within < drain:
		wrong("stop.within: %v is shorter than the %v that running tasks are promised: write at least "+
			"that, or promise less", c.Stop.Within, drain)
	}
	return errors.Join(errs...)
}

// Default are the common sections' defaults.
func Default() Common { return Common{Log: Log{Level: "info", Format: "text"}} }

// linked is set by the linker; see the Makefile.
var linked string

// Build returns a command's version, as the linker set it or as Go knows it, and the commit that it was built
// from, in hex; empty where Go does not know it.
func Build() (version, commit string) {
	version = cmp.Or(linked, "unknown")
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, commit
	}
	if linked == "" && info.Main.Version != "" {
		version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			commit = s.Value
		}
	}
	return version, commit
}

// Version is [Build] in words, and what the command was built with and for.
func Version() string {
	version, commit := Build()
	if commit != "" {
		commit = fmt.Sprintf("commit %.12s, ", commit)
	}
	return fmt.Sprintf("%s (%s%s, %s/%s)", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n  ") + "\n"
}

// Sections are the common sections themselves, so that a Config only embeds them.
func (c *Common) Sections() *Common { return c }

// IDs are nobody's, so that a daemon without creds need not say so.
func (c *Common) IDs() bus.IDs { return bus.IDs{} }

// IsFailure reports whether an error was made by [Failed]: of the running command, not of its arguments.
func IsFailure(err error) bool { return errors.As(err, new(failure)) }
