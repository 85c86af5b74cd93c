package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"souk/integration/lab/grafana"
)

func grafanaCommand() *cobra.Command {
	out := "deploy/grafana"
	c := &cobra.Command{
		Use:   "grafana",
		Short: "Write the dashboards for Grafana, and the rules for Prometheus",
		Long: "Writes what an operator watches a market with: five dashboards, and a file of recording and alerting " +
			"rules.\nThe same program writes the same bytes; deploy/grafana has them.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := os.MkdirAll(out, 0o755); err != nil {
				return err
			}
			if err := grafana.Write(out); err != nil {
				return err
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "%s: %d dashboards, %d alerts\n", out, len(grafana.Dashboards()),
				len(grafana.Alerts()))
			return err
		},
	}
	c.Flags().StringVar(&out, "out", out, "folder that they are written into")
	return c
}
