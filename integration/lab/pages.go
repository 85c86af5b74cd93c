package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// pageCommand makes a page of results; its --out is left out.
type pageCommand struct {
	name  string
	args  []string
	clock bool // by the clock alone
}

// pageCommands lists the commands that make the pages, in order, with as many runs as an hour has for all of
// them.
var pageCommands = []pageCommand{
	{"crowd", []string{"crowd", "--seeds", "5", "--tasks", "1500"}, false},
	{"cliff", []string{"cliff", "--seeds", "5", "--tasks", "1200"}, false},
	{"frontier", []string{"frontier", "--seeds", "6", "--tasks", "2400", "--fleet", "mixed,two-speeds",
		"--terms", "tempers"}, false},
	{"games", []string{"games", "--seeds", "5"}, false},
	{"forecast", []string{"forecast", "--seeds", "1,2,3,4,5", "--tasks", "8000"}, false},
	{"cachesage", []string{"cachesage", "--seeds", "5", "--only", "star-gsm8k,star-humaneval,star-hotpotqa," +
		"star-coqa,chain,hand-crafted-1000-4,hand-crafted-4000-4,generated-500-4,generated-1000-4," +
		"tau-bench-1000-4,lmcache-magagent,lmcache-miniswe,lmcache-taubench,coding-P5,coding-P5-ends," +
		"coding-open200-P5,coding-open200-P5-ends,mooncake," +
		"lru,lru-told,lfu,arc,ttl-best,paper,paper+prefetch,ours,ours-before,belady"}, false},
	{"policies", []string{"policies", "--seeds", "5"}, false},
	{"routers", []string{"routers", "--seeds", "5", "--tasks", "600"}, false},
	{"hints", []string{"hints", "--seeds", "5", "--turns", "200"}, false},
	{"ahead", []string{"ahead"}, false},
	{"economics", []string{"economics", "--rounds", "150", "--markets", "12"}, false},
	{"iemas", []string{"experiment", "iemas"}, false},
	{"gpus", []string{"experiment", "gpus"}, false},
	{"truth", []string{"experiment", "truth"}, false},
	{"papers", []string{"experiment", "papers"}, false},
	{"thousand", []string{"experiment", "thousand", "--length", "1m"}, true},
	{"hedge", []string{"hedge"}, true},
	{"clock", []string{"crowd", "--real", "--seeds", "1", "--tasks", "300", "--only",
		"mtrag,rag,tau,small,crowd,two-block,sticky,least-loaded,round-robin,market"}, true},
}

func pagesCommand() *cobra.Command {
	var only []string
	out, clock := "integration/results", false
	var list strings.Builder
	for _, p := range pageCommands {
		again := ""
		if p.clock {
			again = "   (by the clock)"
		}
		fmt.Fprintf(&list, "  %-10s lab %s%s\n", p.name, strings.Join(p.args, " "), again)
	}
	c := &cobra.Command{
		Use:   "pages",
		Short: "Make the pages of results anew, and the front page",
		Long: `Makes the pages of results anew, one after another, each by its own command, and the front page of all; from the
root of the repository, where no --out is given. It takes forty minutes of processor time, of which two
processors take a half each. The same build makes the same bytes, but for pages by the clock, which are made
where --clock or their name asks for them.

` + list.String(),
		Example: "  lab pages\n  lab pages --only crowd,games --out /tmp/results",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			chosen, err := pick(only, pageCommands, func(p pageCommand) string { return p.name })
			if err != nil {
				return err
			}
			for _, p := range chosen {
				if p.clock && !clock && len(only) == 0 {
					continue
				}
				began := time.Now()
				one := root()
				one.SetArgs(append(p.args[:len(p.args):len(p.args)], "--out", out))
				one.SetOut(c.OutOrStdout())
				one.SetErr(c.ErrOrStderr())
				if err := one.ExecuteContext(c.Context()); err != nil {
					return fmt.Errorf("page %s: %w", p.name, err)
				}
				fmt.Fprintf(c.ErrOrStderr(), "%s: made in %v\n", p.name, time.Since(began).Round(time.Second))
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&out, "out", out, "directory for the pages")
	f.BoolVar(&clock, "clock", clock, "those by the clock, too")
	onlyFlag(f, &only, "pages to make")
	return c
}
