package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"souk/integration/lab/fit"
)

func fitCommand() *cobra.Command {
	plan := fit.Plan{Callers: 4, Turns: 30, Pause: 100 * time.Millisecond, Rounds: 3, Seed: 1}
	sizes := fit.Sizes{Seqs: 256, Batched: 2048}
	var urls []string
	var out output
	c := &cobra.Command{
		Use:   "fit",
		Short: "Fit a stand-in's profile to running vLLM servers, and say how far off it is",
		Long: `Measures each running vLLM server, some ten seconds: first tokens by prompt, what is cached of it left out, and
the time between tokens by how many answers run side by side. It fits the profile of a stand-in to that, and plays
one run on the server and on the stand-in in turn, to say how far cached tokens and times are apart. Only one
server is asked at a time. One that goes away is said to have.

It sends nothing but requests; each run has a cache_salt of its own, so no cache has to be emptied. Servers need
--enable-prompt-tokens-details.`,
		Example: "  lab fit --vllm http://127.0.0.1:8001\n" +
			"  lab fit --vllm http://127.0.0.1:8001,http://127.0.0.1:8002 --max-num-seqs 8 --out integration/results",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if len(urls) == 0 {
				return errors.New("--vllm names no server: http://HOST:PORT, or several with commas between them")
			}
			if plan.Callers < 1 || plan.Callers > 256 || min(plan.Turns, plan.Rounds) < 1 || plan.Pause < 0 ||
				sizes.Seqs < 1 || sizes.Batched < sizes.Seqs {
				return fmt.Errorf("--sessions are 1 to 256, --turns, --rounds and --max-num-seqs at least 1, --pause not " +
					"below 0, and --max-num-batched-tokens not below --max-num-seqs")
			}
			when := fit.When(time.Now())
			var all []fit.Made
			fitted := 0
			for _, url := range urls {
				m := fit.Made{URL: url}
				if m.Server, m.Err = fit.Find(c.Context(), url); m.Err == nil {
					if m.Fitted, m.Err = fit.Fit(c.Context(), m.Server, sizes); m.Err == nil {
						m.Rounds, m.Err = m.Fitted.Play(c.Context(), m.Server, plan)
					}
				}
				if m.Fitted != nil {
					fitted++
				}
				all = append(all, m)
			}
			if fitted == 0 {
				return all[0].Err
			}
			return out.put(c, fit.Page(made(c), when, sizes, plan, all))
		},
	}
	f := c.Flags()
	out.flag(f, "fit")
	f.StringSliceVar(&urls, "vllm", nil, "servers, http://HOST:PORT")
	f.IntVar(&plan.Callers, "sessions", plan.Callers, "callers of the run, each of whom asks one question after another")
	f.IntVar(&plan.Turns, "turns", plan.Turns, "questions of each")
	f.DurationVar(&plan.Pause, "pause", plan.Pause, "mean pause before each")
	f.IntVar(&plan.Rounds, "rounds", plan.Rounds, "how often the run is played on the server and on the stand-in")
	f.IntVar(&sizes.Seqs, "max-num-seqs", sizes.Seqs, "as the servers have it")
	f.IntVar(&sizes.Batched, "max-num-batched-tokens", sizes.Batched, "as the servers have it")
	return c
}
