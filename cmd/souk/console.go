package main

import (
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"souk/cmd/console"
	"souk/cmd/local"
	"souk/cmd/web"
)

func consoleCommand(s *shared) *cobra.Command {
	var reg registry
	var cfg web.Config
	c := &cobra.Command{
		Use:   "console",
		Short: "Serve pages on which the market is seen: parts, prices, agents, rounds, clients, a playground",
		Long: `Serves a web console until Ctrl-C: how the market is, who sells what at which price, each
round and why its prices are what they are, clients with their keys and what they spent, and a playground that
streams an answer and shows its bill. It changes nothing. souk up has one already, whose address it prints.

Who logs in shows a token: that of a viewer shows the market, that of an operator also clients, keys and
money. Both are made at the first start, below DATA/console, for their owner's eyes alone; souk console token
shows them. Pages follow the market while they are open, and are read without scripts, too.

What it can show depends on what it may ask, as of souk status: creds of an operator and --etcd are all; with
those of a viewer clients have no balances, without --etcd parts and keys are not listed. Where --data is that
of the market, the record of each round is explained out of its journals. Beyond this machine it speaks TLS
alone.`,
		Example: `  souk console
  souk console --nats tls://10.0.0.1:4222 --creds operator.creds --etcd 10.0.0.1:2379 --gateway https://llm.example
  souk console --listen 0.0.0.0:8443 --tls-cert console.pem --tls-key console.key`,
		Args: console.Takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			log, err := s.logger(c.ErrOrStderr())
			if err != nil {
				return err
			}
			at, closed, err := s.lookOn(c, &reg)
			if err != nil {
				return err
			}
			defer closed()
			if cfg.Gateway == "" {
				cfg.Gateway = at.Link.State.HTTP
			}
			cfg.CA = os.Getenv("SOUK_MARKET_CA")
			if s.nats == "" || c.Flags().Changed("data") {
				cfg.Journals = s.data
			}
			on, err := s.startConsole(cfg, at, log)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%sStop it:           Ctrl-C\n", s.consoleAt(on))
			<-c.Context().Done()
			return on.Close()
		},
	}
	c.Flags().StringVar(&cfg.Listen, "listen", web.DefaultListen,
		"host:port; beyond loopback with --tls-cert and --tls-key")
	c.Flags().StringVar(&cfg.Cert, "tls-cert", "", "file of the console's certificate")
	c.Flags().StringVar(&cfg.Key, "tls-key", "", "file of its key")
	c.Flags().StringVar(&cfg.Gateway, "gateway", "",
		"base URL of a gateway, for the playground; without, that of the market of --data")
	reg.flags(c.Flags())
	s.reach(c)
	c.AddCommand(tokenCommand(s))
	return c
}

// startConsole starts a console whose tokens are in --data.
func (s *shared) startConsole(cfg web.Config, at *local.Lookout, log *slog.Logger) (*web.Server, error) {
	cfg.Data = s.data
	on, err := web.Start(cfg, at, log)
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	return on, nil
}

// consoleAt says where a console is, and how one gets in.
func (s *shared) consoleAt(on *web.Server) string {
	return fmt.Sprintf("Console:           %s, a token is in %s\n", on.Address,
		web.TokenFile(s.data, web.Operator))
}

func tokenCommand(s *shared) *cobra.Command {
	anew := false
	c := &cobra.Command{
		Use:   "token [operator|viewer]",
		Short: "Show a token of the console, or make another",
		Long: `Shows the token with which one logs in to the console of --data, and makes it where there is
none: that of an operator, or of a viewer. With --new it makes another: the last one, and whoever came with
it, is out at once.`,
		Args: console.Takes(0, 1),
		RunE: func(c *cobra.Command, args []string) error {
			role := web.Operator
			if len(args) > 0 {
				role = web.Role(args[0])
			}
			if !slices.Contains(web.Roles, role) {
				return fmt.Errorf("%.40q: write operator or viewer", role)
			}
			token, err := web.Token(s.data, role, anew)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), token)
			return err
		},
	}
	c.Flags().BoolVar(&anew, "new", false, "make another, and end the last one")
	return c
}
