// Command souk runs a whole market in one process, and speaks to one as a client.
package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"souk/bus"
	"souk/cmd/console"
	"souk/cmd/daemon"
	"souk/cmd/ledger/cli"
	"souk/cmd/local"
)

func main() { console.Main(root()) }

// shared are the flags that every command has.
type shared struct {
	data     string
	nats     string
	creds    []string
	logLevel string
}

func root() *cobra.Command {
	var s shared
	c := &cobra.Command{
		Use:   "souk",
		Short: "A market for LLM inference",
		Long: `Souk is a market in which clients buy LLM inference from agents: task by task, priced
exactly, every sale recorded.

  souk run                     first look: a market brought up, dialogues played, a report, the ledger checked
  souk up                      only bring a market up: all of it in this process, on loopback
  souk up --vllm URL           the same, selling a vLLM server that runs instead of simulated ones
  souk submit "Hello"          ask a running market something, as client dev (who has money from the start)
  souk quote "Hello"           what that would cost, how soon it would begin, and whether your terms buy it
  souk fund alice 5            give another client money; souk balance alice says what is left
  souk key new alice           a key with which that client comes over HTTP, as to any OpenAI server
  souk replay FILE             play recorded dialogues through it
  souk status                  how the market is, and what to do where it is not well
  souk top                     the same live, in a terminal
  souk console                 the same as pages for a browser (souk up has them, too)
  souk why RECEIPT             where a task went and why, the forecast and what came (submit prints its receipt)

submit and the commands after it find the market by its data directory (--data), so run them in the directory
where the market was started. A market of daemons or containers is found by --nats. Amounts are credits; one
stands for one US dollar.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	c.Version = daemon.Version()
	c.SetVersionTemplate("souk {{.Version}}\n")
	c.PersistentFlags().StringVar(&s.data, "data", cli.Data(),
		"data directory of the market (environment: SOUK_DATA)")
	c.PersistentFlags().StringVar(&s.logLevel, "log-level", "warn",
		"least level logged to stderr: debug, info, warn or error")
	c.SetFlagErrorFunc(console.FlagError)
	c.AddCommand(upCommand(&s), runCommand(&s), s.reach(submitCommand(&s)), s.reach(quoteCommand(&s)),
		s.reach(replayCommand(&s)), statusCommand(&s), topCommand(&s), consoleCommand(&s),
		s.reach(fundCommand(&s)), s.reach(balanceCommand(&s)),
		s.reach(payoutCommand(&s)), keyCommand(&s), s.reach(distributeCommand(&s)),
		s.reach(remitCommand(&s)), s.reach(refundCommand(&s)), s.reach(approveCommand(&s)),
		s.reach(closeCommand(&s)),
		s.reach(writeOffCommand(&s)), cli.WhyCommand(&s.data),
		engineCommand(),
		infraCommand(&s), clusterCommand(&s), authCommand(&s))
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

// reach gives a command that speaks to a market the flag --nats.
func (s *shared) reach(c *cobra.Command) *cobra.Command {
	c.Flags().StringVar(&s.nats, "nats", "",
		"NATS server of a market of daemons or containers; without, the market of --data is meant "+
			"(environment: SOUK_MARKET_NATS)")
	c.Flags().StringSliceVar(&s.creds, "creds", nil,
		"file of creds, for what it may do there; several are separated by commas; without, the keys in "+
			"--data have them or make them (environment: SOUK_MARKET_CREDS)")
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if f := c.Flags(); !f.Changed("nats") && !f.Changed("data") {
			s.nats = os.Getenv("SOUK_MARKET_NATS")
		}
		if creds := os.Getenv("SOUK_MARKET_CREDS"); creds != "" && !c.Flags().Changed("creds") {
			s.creds = strings.Split(creds, ",")
		}
		return run(c, args)
	}
	return c
}

// market is the one behind --nats, or else that of --data.
func (s *shared) market() local.Reach {
	return local.Reach{Data: s.data, NATS: s.nats, Creds: s.creds, CA: os.Getenv("SOUK_MARKET_CA")}
}

// dial connects to the market, to speak in a role.
func (s *shared) dial(role bus.Role, name string) (*local.Link, error) {
	link, err := s.market().Dial(role, name)
	if errors.Is(err, local.ErrNoMarket) {
		err = fmt.Errorf("%w; one of services or containers is reached by --nats nats://HOST:PORT, beyond "+
			"this machine by tls://", err)
	}
	return link, err
}
