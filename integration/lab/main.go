// Command lab measures a market: what it costs, what it bears, and how it plays as a game.
package main

import (
	"github.com/spf13/cobra"

	"souk/cmd/console"
	"souk/cmd/daemon"
)

func main() { console.Main(root()) }

func root() *cobra.Command {
	c := &cobra.Command{
		Use:   "lab",
		Short: "Measure a market: what it costs, what it bears, how it plays as a game",
		Long: `Measures markets that it starts itself, from the commands that stand beside this one.

  lab bench        what a task, a token and a round cost, beside what nobody can avoid
  lab soak         load while parts are killed, and an account of everything at the end
  lab crowd        the market beside published rules where slots are short
  lab cliff        the same where open sessions need more than the caches hold
  lab frontier     welfare against first tokens, each rule over its own knob
  lab replay FILE  anybody's trace under every rule and the market
  lab experiment   a paper's own experiments, theirs beside ours; what GPUs cost; a thousand engines; what lies cost
  lab fit          a stand-in of a running vLLM server, and how far off it is
  lab pages        every page of results anew
  lab routers      routers that have learned, beside the best single model; lab learn makes their weights
  lab load         latencies and CPU of a market that runs elsewhere, as its clients see it
  lab train        the classifier's model, made and judged anew
  lab release      what users download: archives, bills of materials, checksums
  lab grafana      dashboards and alerts of deploy/grafana`,
		Version:       daemon.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	c.SetVersionTemplate("lab {{.Version}}\n")
	c.SetFlagErrorFunc(console.FlagError)
	c.AddCommand(benchCommand(), soakCommand(), crowdCommand(), cliffCommand(), frontierCommand(),
		replayCommand(), gamesCommand(), forecastCommand(), cachesageCommand(), policiesCommand(),
		hedgeCommand(), economicsCommand(), hintsCommand(), aheadCommand(), pagesCommand(), floorCommand(),
		floodCommand(), trainCommand(), evalCommand(), learnCommand(), routersCommand(), loadCommand(),
		experimentCommand(), fitCommand(), releaseCommand(), grafanaCommand())
	return c
}
