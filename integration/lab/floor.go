package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"souk/cmd/daemon"
	"souk/integration/lab/bench/floor"
)

// floorCommand runs one process of the floor that bench measures beside a market of processes: a hub, or a
// node with agents.
func floorCommand() *cobra.Command {
	var url, creds, engine, journal string
	var first, agents int
	c := &cobra.Command{
		Use:    "floor",
		Short:  "A part of the bare relay that bench measures markets by",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if (engine == "") == (journal == "") || agents < 1 {
				return errors.New("--engine makes it a node, --journal a hub: give one of them, and " +
					"--agents of at least 1")
			}
			daemon.ShareCores() // as every part of a market of processes
			conn, err := floor.Connect(url, creds)
			if err != nil {
				return err
			}
			defer conn.Close()
			var part interface{ Close() error }
			if engine != "" {
				part, err = floor.StartAgents(conn, engine, first, agents)
			} else {
				var file *floor.File
				if file, err = floor.NewFile(journal); err != nil {
					return err
				}
				defer func() { err = errors.Join(err, file.Close()) }()
				part, err = floor.StartHub(conn, file, agents)
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(c.OutOrStdout(), "ready")
			<-c.Context().Done()
			return part.Close()
		},
	}
	f := c.Flags()
	f.StringVar(&url, "nats", "", "NATS server")
	f.StringVar(&creds, "creds", "", "by which it knows the floor")
	f.StringVar(&engine, "engine", "", "of a node: base URL of its engine")
	f.IntVar(&first, "first", 0, "of a node: number of its first agent")
	f.StringVar(&journal, "journal", "", "of a hub: directory for its journal")
	f.IntVar(&agents, "agents", 0, "how many agents: of a node its own, of a hub all")
	return c
}
