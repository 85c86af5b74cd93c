// Command souk runs a whole market in one process, and speaks to one as a client.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"souk/cmd/internal/daemon"
	"souk/integration/harness"
)

// version is set by the linker; see the Makefile.
var version = ""

// gcPercent lets the heap grow to four times what lives before it is collected. A whole market lives in 20 MB; a collection
// beside a task costs that task a good part of a millisecond, and was the p99 of the time to the first token.
const gcPercent = 300

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop() // the first signal drains, a second one kills
	}()
	err := root().ExecuteContext(ctx)
	code := 0
	if err != nil {
		var silent exitCode
		switch {
		case errors.As(err, &silent):
			code = int(silent)
		case ctx.Err() != nil && (errors.Is(err, context.Cause(ctx)) || errors.Is(err, context.Canceled)):
			fmt.Fprintln(os.Stderr, "souk: stopped before the end")
			code = 130 // as shells say it of Ctrl-C
		default:
			fmt.Fprintln(os.Stderr, "souk:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// exitCode ends the program with that status; what went wrong has been said already.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// shared are the flags that every command has.
type shared struct {
	data     string
	nats     string
	logLevel string
}

func root() *cobra.Command {
	var s shared
	c := &cobra.Command{
		Use:   "souk",
		Short: "A market for LLM inference",
		Long: `Souk is a market in which clients buy LLM inference from agents: task by task, priced exactly, every sale recorded.

  souk up                      bring a market up, all of it in this process, on loopback
  souk submit "Hello"          ask it something, as client dev
  souk replay FILE             play recorded dialogues through it
  souk load --rate 50          measure it under load
  souk run                     all of that at once, with a report and a check of the ledger`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	c.Version = daemon.Version(version)
	c.SetVersionTemplate("souk {{.Version}}\n")
	c.PersistentFlags().StringVar(&s.data, "data", "souk-data", "data directory of the market")
	c.PersistentFlags().StringVar(&s.logLevel, "log-level", "warn", "least level logged to stderr: debug, info, warn or error")
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w; %s --help lists them", err, c.CommandPath())
	})
	c.AddCommand(upCommand(&s), runCommand(&s), s.reach(submitCommand(&s)), s.reach(replayCommand(&s)), s.reach(loadCommand(&s)), soakCommand(), s.reach(fundCommand(&s)), s.reach(balanceCommand(&s)), s.reach(payoutCommand(&s)), engineCommand(), benchCommand(), infraCommand(&s), clusterCommand(&s), experimentCommand(), versionCommand())
	return c
}

// logger logs to w, quietly unless asked.
func (s *shared) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.logLevel)); err != nil {
		return nil, fmt.Errorf("--log-level %q: use debug, info, warn or error", s.logLevel)
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})), nil
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which version this is",
		Args:  cobra.NoArgs,
		Run: func(c *cobra.Command, _ []string) {
			fmt.Fprintln(c.OutOrStdout(), "souk", daemon.Version(version))
		},
	}
}

// reach gives a command that speaks to a market the flag --nats.
func (s *shared) reach(c *cobra.Command) *cobra.Command {
	c.Flags().StringVar(&s.nats, "nats", "", "NATS server of the market, where it is one of services or containers and not that of --data (SOUK_MARKET_NATS)")
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if f := c.Flags(); !f.Changed("nats") && !f.Changed("data") {
			s.nats = os.Getenv("SOUK_MARKET_NATS")
		}
		return run(c, args)
	}
	return c
}

// dial connects to the market behind --nats, or else to that of --data.
func (s *shared) dial(name string) (*harness.Link, error) {
	if s.nats != "" {
		return harness.DialNATS(s.nats, name)
	}
	link, err := harness.Dial(s.data, name)
	if errors.Is(err, harness.ErrNoMarket) {
		err = fmt.Errorf("%w; one of services or containers is reached by --nats nats://HOST:PORT", err)
	}
	return link, err
}
