// Command ledger checks and shows the journals of a market. It needs no daemon, network or key, and works
// beside a running hub.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"souk/cmd/daemon"
	"souk/cmd/ledger/cli"
)

func main() {
	// An audit keeps little and drops much: collecting less often costs some megabytes and saves a quarter of
	// the time.
	debug.SetGCPercent(400)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends it at once
	os.Exit(cli.Run(ctx, daemon.Version(), os.Args[1:], os.Stdout, os.Stderr))
}
