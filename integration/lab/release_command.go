package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"souk/integration/lab/release"
)

func releaseCommand() *cobra.Command {
	var tree, out, key string
	var only []string
	var again bool
	c := &cobra.Command{
		Use:   "release VERSION",
		Short: "Make what users download: archives, bills of materials, checksums and their signature",
		Long: `Builds the commands of a checkout without changes for linux and darwin on amd64 and arm64, and writes for each an
archive with licences and manuals and a bill of materials (CycloneDX), and SHA256SUMS of all.

The version needs a heading in CHANGELOG.md. The same commit and version give the same bytes on any machine with
the same Go; --again builds twice and compares. A signature is made by ssh-keygen; SECURITY.md says how to judge it.`,
		Example: "  make release VERSION=v0.1.0 KEY=~/.ssh/release\n  lab release v0.1.0 --only linux-amd64 --again",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			r, err := release.Open(c.Context(), tree, args[0])
			if err != nil {
				return err
			}
			platforms, err := pick(only, release.Platforms, release.Platform.String)
			if err != nil {
				return err
			}
			if key != "" {
				if _, err := os.Stat(key); err != nil { // said before minutes of building
					return fmt.Errorf("--key: %w", err)
				}
			}
			to := c.ErrOrStderr()
			if err := r.Make(c.Context(), out, platforms, to); err != nil {
				return err
			}
			if again {
				if err := r.Again(c.Context(), out, platforms, to); err != nil {
					return err
				}
				fmt.Fprintln(to, "both builds are alike")
			}
			if key == "" {
				fmt.Fprintln(to, "not signed: --key names an SSH key to sign with")
			} else if err := release.Sign(c.Context(), out, key); err != nil {
				return err
			}
			sums, err := os.ReadFile(out + "/" + release.Sums)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s\n%s: %s of commit %.12s\n", strings.TrimSpace(string(sums)), out,
				r.Version, r.Commit)
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&tree, "tree", ".", "root of the checkout")
	f.StringVar(&out, "out", "bin/release", "folder for what is made; it is empty or made")
	f.StringVar(&key, "key", "", "SSH key to sign the checksums with; of an agent's, the public one")
	f.BoolVar(&again, "again", false, "build all a second time, from a clone with nothing compiled, and compare")
	onlyFlag(f, &only, "platforms, as linux-amd64")
	return c
}
