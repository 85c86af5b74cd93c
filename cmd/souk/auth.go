package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"souk/bus"
	"souk/bus/natsauth"
	"souk/cmd/console"
	"souk/cmd/local"
)

// authCommand makes, lists and takes away the keys by which processes come to a market's NATS servers.
func authCommand(s *shared) *cobra.Command {
	c := &cobra.Command{
		Use:   "auth",
		Short: "Keys of a market: who may come to its NATS servers, and in which role",
		Long: `A market's NATS servers let nobody in without keys. souk up and souk infra make them in
DATA/auth at their first start, and commands on the same data directory find or make what they need there; so
these commands are for processes on other machines, for servers that somebody else runs, and for taking rights
away.

What a process shows is a file of creds, good for 90 days and read at each connect: renew it under the running
process. A name belongs to one role for ever. Whoever has DATA/auth can be anybody: keep it where these commands
run, and give away no more of it than a process's own creds.

  client     asks and pays, under its own name              gateway    speaks for clients
  hub        sells a domain's slots (its journal's name)    door       sends tasks to hubs
  agentd     serves, as each of its agents                  treasury   keeps the money
  operator   pays in and out                                viewer     looks on`,
	}
	for _, sub := range []*cobra.Command{initAuth(s), addAuth(s), renewAuth(s), revokeAuth(s)} {
		c.AddCommand(s.admitting(sub))
	}
	c.AddCommand(listAuth(s))
	return c
}

// admitting is a command after which an etcd that somebody else runs is told who may use it.
func (s *shared) admitting(c *cobra.Command) *cobra.Command {
	var etcd []string
	c.Flags().StringSliceVar(&etcd, "etcd", nil, "host:port of an etcd that somebody else runs with this market's "+
		"CA, to tell it who may use it (environment: SOUK_MARKET_ETCD); souk infra's is told by itself")
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		failed := run(c, args) // perhaps since NATS could not be told: etcd is, all the same
		if said := os.Getenv("SOUK_MARKET_ETCD"); said != "" && !c.Flags().Changed("etcd") {
			etcd = strings.Split(said, ",")
		}
		keys, err := s.openKeys()
		if len(etcd) == 0 || err != nil {
			return failed
		}
		ctx, cancel := context.WithTimeout(c.Context(), admitWithin)
		defer cancel()
		return errors.Join(failed, local.Admit(ctx, keys, etcd))
	}
	return c
}

func initAuth(s *shared) *cobra.Command {
	var config, jwts string
	var hosts []string
	c := &cobra.Command{
		Use:   "init",
		Short: "Make a market's keys, and what its NATS servers must be told",
		Long: `Makes the keys in DATA/auth where there are none, and writes what stands in the configuration of
NATS servers that somebody else runs, beside their addresses and TLS. It holds no secret.`,
		Example: "  souk auth init --data /etc/souk --nats-config /etc/nats/souk.conf\n" +
			"  nats-server --config FILE       # with the line: include souk.conf",
		Args: console.Takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			keys, err := natsauth.Init(natsauth.Dir(s.data))
			if err != nil {
				return err
			}
			if len(hosts) > 0 {
				if _, err := natsauth.ServerCert(keys.Dir, hosts, time.Now()); err != nil {
					return fmt.Errorf("--hosts: %w", err)
				}
			}
			text, err := keys.ServerConfig(jwts)
			if err != nil {
				return err
			}
			if config == "" {
				_, err = fmt.Fprint(c.OutOrStdout(), text)
				return err
			}
			if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "keys are in %s, for its owner's eyes alone; for the servers: %s\n",
				keys.Dir, config)
			return nil
		},
	}
	c.Flags().StringSliceVar(&hosts, "hosts", nil, "names and addresses of those servers: make the certificate that "+
		"they show, DATA/auth/server.pem and server.key, beside ca.pem")
	c.Flags().StringVar(&config, "nats-config", "", "write what the servers need there (default: print it)")
	c.Flags().StringVar(&jwts, "jwts", "/var/lib/nats/jwt",
		"where a server keeps what it is told of revocations")
	return c
}

// openKeys are the keys that there are.
func (s *shared) openKeys() (*natsauth.Store, error) { return natsauth.Open(natsauth.Dir(s.data)) }

func addAuth(s *shared) *cobra.Command {
	var ids bus.IDs
	valid := natsauth.Valid
	c := &cobra.Command{
		Use:   "add ROLE NAME",
		Short: "Make creds of a new user, and say where they are",
		Example: `  souk auth add client alice
  souk auth add hub math --domain math
  souk auth add agentd node-1 --agents agent-1,agent-2`,
		Args: console.Takes(2, 2),
		RunE: func(c *cobra.Command, args []string) error {
			keys, err := s.openKeys()
			if err != nil {
				return err
			}
			ids.Name = args[1]
			role := bus.Role(args[0])
			if role == bus.RoleHub && ids.Domain == "" {
				ids.Domain = ids.Name
			}
			path, err := keys.Add(role, ids, time.Now(), valid)
			return made(c, path, err)
		},
	}
	c.Flags().StringVar(&ids.Domain, "domain", "", "of a hub (default: its name)")
	c.Flags().StringSliceVar(&ids.Agents, "agents", nil, "of an agentd: the ids of its agents")
	c.Flags().DurationVar(&valid, "valid", valid, "how long they are good")
	return c
}

// made says where creds are.
func made(c *cobra.Command, path string, err error) error {
	if err == nil {
		fmt.Fprintln(c.OutOrStdout(), path)
	}
	return err
}

func renewAuth(s *shared) *cobra.Command {
	var agents []string
	notes := false
	valid := natsauth.Valid
	c := &cobra.Command{
		Use:   "renew NAME",
		Short: "Make new creds for a user, also after a revocation; old ones stay good until they expire",
		Long: `Makes new creds of a user, also of one who was revoked. Those before are good until they expire, unless
--agents leaves out agents that an agentd spoke for: then those before are void, and whoever still shows them is cut
off at once.

--notes makes new note keys instead, of a treasury or a hub. Start it anew with them: it signs what the old ones
signed last. All who judge checkpoints need the new DATA/auth/policy, in which the old keys stay, for what they
signed.`,
		Args: console.Takes(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			keys, err := s.openKeys()
			if err != nil {
				return err
			}
			if notes {
				path, err := keys.RenewNotes(args[0])
				return made(c, path, err)
			}
			path, dropped, err := keys.Renew(args[0], agents, time.Now(), valid)
			if err := made(c, path, err); err != nil || len(agents) == 0 {
				return err
			}
			if len(dropped) == 0 { // servers may not have been told the last time
				return s.tell(c, c.ErrOrStderr(), keys, args[0]+" speaks for "+strings.Join(agents, ", "), "")
			}
			return s.tell(c, c.ErrOrStderr(), keys, args[0]+" speaks no more for "+
				strings.Join(dropped, ", ")+", and its creds of before are void",
				": who shows them was cut off")
		},
	}
	c.Flags().StringSliceVar(&agents, "agents", nil, "of an agentd: the ids of its agents from now on")
	c.Flags().DurationVar(&valid, "valid", valid, "how long they are good")
	c.Flags().BoolVar(&notes, "notes", false, "make new note keys, and no creds")
	return s.reach(c)
}

// tell tells the market's servers what was revoked, and its user what was done and what to do where they were
// not told.
func (s *shared) tell(c *cobra.Command, to io.Writer, keys *natsauth.Store, done, told string) error {
	err := s.market().Push(c.Context(), keys)
	switch {
	case errors.Is(err, local.ErrNoMarket):
		fmt.Fprintf(to, "%s. No market was told: %v. Servers elsewhere are told by --nats\n", done,
			err)
		return nil
	case err != nil:
		fmt.Fprintf(c.ErrOrStderr(), "souk auth: %s in %s, and the servers are not told: %v; repeat it with "+
			"--nats nats://HOST:PORT\n", done, keys.Dir, err)
		return console.Exit(1)
	}
	fmt.Fprintf(to, "%s%s\n", done, told)
	return nil
}

func revokeAuth(s *shared) *cobra.Command {
	c := &cobra.Command{
		Use:   "revoke NAME",
		Short: "Take a user's rights away: it is cut off at once",
		Long: `Voids all creds of a user, and tells the market's servers, which cut it off at once. A client's keys
for HTTP are good all the same, since gateways speak for it there: souk key revoke takes them away. Repeat it where
they could not be told. A server that was told keeps it; one that souk up or souk infra starts reads it in
DATA/auth.`,
		Args: console.Takes(1, 1),
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		keys, err := s.openKeys()
		if err != nil {
			return err
		}
		if err := keys.Revoke(args[0], time.Now()); err != nil {
			return err
		}
		return s.tell(c, c.OutOrStdout(), keys, args[0]+" is revoked", ", and cut off")
	}
	return s.reach(c)
}

func listAuth(s *shared) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List who may come, in which role, and until when",
		Args:  console.Takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			keys, err := s.openKeys()
			if err != nil {
				return err
			}
			users, err := keys.List()
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "ROLE\tNAME\tUNTIL\tDOMAIN OR AGENTS")
			for _, u := range users {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", u.Role, u.Name, until(u, time.Now()),
					u.Domain+strings.Join(u.Agents, ","))
			}
			return w.Flush()
		},
	}
}

// until says how long a user's creds are good.
func until(u natsauth.User, now time.Time) string {
	when := u.Expires.UTC().Format(time.RFC3339)
	switch {
	case u.Revoked:
		return "revoked"
	case u.Expires.IsZero():
		return "as long as its process"
	case !now.Before(u.Expires):
		when = "expired " + when
	}
	if u.Earlier.After(now) {
		when += ", earlier creds " + u.Earlier.UTC().Format(time.RFC3339)
	}
	return when
}
