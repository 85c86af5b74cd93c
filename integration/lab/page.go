package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"souk/integration/lab/virtual"
)

// fenced is a table of a page, behind the command that made it: <!-- NAME: lab crowd ARGUMENTS --> or lab
// cliff, and then a fence.
var fenced = regexp.MustCompile("(?m)^<!-- ([a-z0-9-]+): lab (crowd|cliff) (.*) -->\n```\n(?s:.*?)^```\n")

// writePage runs the commands of a page's tables, those of these names or all, and puts what they print where
// they stand. What was made is written at once, so that a page can be made in pieces.
func writePage(ctx context.Context, file string, names []string) error {
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var known []string
	for _, m := range fenced.FindAllSubmatch(page, -1) {
		name, command, arguments := string(m[1]), string(m[2]), string(m[3])
		if known = append(known, name); len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s: lab %s %s\n", name, command, arguments)
		c := crowdCommand()
		if command == "cliff" {
			c = cliffCommand()
		}
		var out strings.Builder
		c.SetOut(&out)
		c.SetArgs(strings.Fields(arguments))
		c.SilenceUsage, c.SilenceErrors = true, true
		if err := c.ExecuteContext(ctx); err != nil {
			return fmt.Errorf("%s: table %s: %w", file, name, err)
		}
		table := strings.Trim(strings.TrimSuffix(out.String(), virtual.Legend), "\n")
		made := fmt.Appendf(nil, "<!-- %s: lab %s %s -->\n```\n%s\n```\n", name, command, arguments, table)
		page = bytes.Replace(page, m[0], made, 1)
		if err := os.WriteFile(file, page, 0o644); err != nil {
			return err
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%s has no table %q: it has %v", file, name, known)
		}
	}
	if len(known) == 0 {
		return fmt.Errorf("%s has no table: <!-- NAME: lab crowd ARGUMENTS -->, and a fence below", file)
	}
	return nil
}
