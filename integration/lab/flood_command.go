package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"souk/bus"
	"souk/bus/natsauth"
	"souk/integration/lab/flood"
)

// floodCommand is the process that floods where bench measures what others notice: a client with its creds,
// or an agentd with its certificate. It gives way to everybody else, as if it were on another machine.
func floodCommand() *cobra.Command {
	var nats, etcd, creds string
	var lasts, again time.Duration
	c := &cobra.Command{
		Use:    "flood",
		Short:  "One hostile member, against a server of this machine",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if (nats == "") == (etcd == "") || creds == "" {
				return errors.New("--nats or --etcd says what is flooded, and --creds by whom: give both")
			}
			at := nats + etcd
			host, _, err := net.SplitHostPort(at[strings.LastIndexByte(at, '/')+1:])
			if err != nil || !bus.IsLoopback(host) {
				return fmt.Errorf("%s: a flood is for servers of this machine alone, as HOST:PORT", at)
			}
			who, err := natsauth.ReadFile(creds)
			if err != nil {
				return err
			}
			if err := yield(); err != nil {
				return err
			}
			ctx, stop := context.WithTimeout(c.Context(), lasts)
			defer stop()
			fmt.Fprintln(c.OutOrStdout(), "flooding")
			var did flood.Did
			if nats != "" {
				did = flood.NATS{URL: nats, Name: who.Name, Creds: natsauth.File(creds), Again: again,
					Connections: 60, Subscriptions: 1000, Askers: 4}.Run(ctx)
			} else {
				secure, err := natsauth.TLSOf(natsauth.Beside(creds))
				if err != nil {
					return err
				}
				var keys []string
				for _, a := range who.Agents() {
					keys = append(keys, bus.AgentKey(a))
				}
				did = flood.Etcd{Endpoint: etcd, TLS: secure, Connections: 20, Keys: keys,
					Reads: bus.ClaimsPrefix, Values: []int{bus.MaxEntry, 1_400_000, 1000}}.Run(ctx)
			}
			fmt.Fprintln(c.OutOrStdout(), did)
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&nats, "nats", "", "NATS server, nats://HOST:PORT")
	f.StringVar(&etcd, "etcd", "", "etcd, HOST:PORT")
	f.StringVar(&creds, "creds", "", "by which they know it; for etcd the certificate beside them")
	f.DurationVar(&lasts, "for", 20*time.Second, "how long")
	f.DurationVar(&again, "again", time.Second, "how soon a connection to NATS that was closed comes again")
	return c
}
