package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"souk/integration/lab/page"
)

// output writes a command's page.
type output struct{ dir string }

func (o *output) flag(f *pflag.FlagSet, page string) {
	f.StringVar(&o.dir, "out", "", fmt.Sprintf("directory for %s.html and %s.md, and for the front page beside "+
		"them; without it the page is printed as Markdown", page, page))
}

// put leaves a page, and makes those of papers and the front page beside it anew.
func (o *output) put(c *cobra.Command, p *page.Page) error {
	if o.dir == "" {
		_, err := io.WriteString(c.OutOrStdout(), p.Markdown())
		return err
	}
	if err := p.Write(o.dir); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return beside(o.dir)
}

// onlyFlag adds the flag by which a command is told which of its parts to run.
func onlyFlag(f *pflag.FlagSet, only *[]string, what string) {
	f.StringSliceVar(only, "only", nil, what+"; default all")
}

// pick returns those of all whose names were asked for, in the order of all; without a name it returns all.
func pick[T any](only []string, all []T, name func(T) string) (out []T, err error) {
	var names []string
	for _, x := range all {
		if names = append(names, name(x)); len(only) == 0 || slices.Contains(only, name(x)) {
			out = append(out, x)
		}
	}
	for _, n := range only {
		if !slices.Contains(names, n) {
			return nil, fmt.Errorf("--only %s: there is none of that name; there are %s", n, strings.Join(names, ", "))
		}
	}
	return out, nil
}

// both are the things and the rules that are asked for by their names: all things where none is named, and
// all rules where none is.
func both[T any](only []string, all []T, name func(T) string, rules []string) ([]T, []string, error) {
	var things, by []string
	for _, n := range only {
		if slices.Contains(rules, n) {
			by = append(by, n)
		} else {
			things = append(things, n)
		}
	}
	picked, err := pick(things, all, name)
	if err != nil {
		return nil, nil, fmt.Errorf("%w; and by rules: %s", err, strings.Join(rules, ", "))
	}
	if by == nil {
		by = rules
	}
	return picked, by, nil
}

// seedsFrom are seeds one after another.
func seedsFrom(first uint64, n uint) (all []uint64, err error) {
	if n < 1 || n > 10_000 {
		return nil, fmt.Errorf("--seeds %d: 1 to 10,000 runs can be played", n)
	}
	for i := range uint64(n) {
		all = append(all, first+i)
	}
	return all, nil
}

// made returns the command that makes the same page again, without flags that say where it goes.
func made(c *cobra.Command) string {
	out := c.CommandPath()
	c.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains([]string{"out", "json", "html", "profile", "script", "kill"}, f.Name) {
			for _, part := range short(strings.Trim(f.Value.String(), "[]")) {
				out += " --" + f.Name + "=" + part
			}
		}
	})
	return out
}

// short cuts a list of names into lists that fit a line; a flag of names may stand there several times.
func short(list string) (parts []string) {
	const most = 80
	for len(list) > most {
		at := strings.LastIndex(list[:most], ",")
		if at < 0 {
			break
		}
		parts, list = append(parts, list[:at]), list[at+1:]
	}
	return append(parts, list)
}
