// Package console has the parts that interactive commands share: signals, exit codes, a bar of progress.
package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"souk/bus"
)

// gcPercent lets the heap grow to four times what lives before it is collected. A whole market lives in 20
// MB; a collection beside a task costs that task a good part of a millisecond, and was the p99 of the time to
// the first token.
const gcPercent = 300

// Main runs a command with the process's arguments until it ends, or Ctrl-C or the end of its terminal ends
// it, and does not return. The first signal drains, a second one kills.
func Main(c *cobra.Command) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // by nohup
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	go func() {
		<-ctx.Done()
		stop()
	}()
	out := &Output{W: os.Stdout}
	c.SetOut(out)
	err := c.ExecuteContext(ctx)
	if err == nil {
		err = out.Err()
	}
	code := 0
	if err != nil {
		var silent Exit
		switch {
		case errors.As(err, &silent):
			code = int(silent)
		case ctx.Err() != nil && (errors.Is(err, context.Cause(ctx)) || errors.Is(err, context.Canceled)):
			fmt.Fprintf(os.Stderr, "%s: stopped before the end\n", c.Name())
			code = 130 // as shells say it of Ctrl-C
		default:
			// an API key may have been given where something else belongs
			fmt.Fprintf(os.Stderr, "%s: %s\n", c.Name(), bus.HideKeys(Unknown(c.Name(), err).Error()))
			code = 1
		}
	}
	os.Exit(code)
}

// Output remembers that something could not be written: tables say nothing of it, and on a full disk half of
// one would look like all.
type Output struct {
	W   io.Writer
	err error
}

func (o *Output) Write(b []byte) (int, error) {
	n, err := o.W.Write(b)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// Err returns the first failed write as an error.
func (o *Output) Err() error {
	if o.err == nil {
		return nil
	}
	return fmt.Errorf("not all of the output could be written: %w", o.err)
}

// Exit is an error that ends the program with that status; what went wrong has been said already.
type Exit int

func (e Exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// Unknown adds to an error of a command that there is not where those that there are are listed.
func Unknown(name string, err error) error {
	if !strings.HasPrefix(err.Error(), "unknown command ") {
		return err
	}
	return fmt.Errorf("%s\n%s --help lists the commands", strings.TrimRight(err.Error(), "\n"), name)
}

// Any lets [Takes] accept any number of arguments.
const Any = math.MaxInt

// Takes accepts at least and at most so many arguments; whoever writes others is shown the command's usage
// line.
func Takes(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		want := strconv.Itoa(least)
		switch {
		case len(args) >= least && len(args) <= most:
			return nil
		case most == Any:
			want = fmt.Sprintf("%d or more", least)
		case most > least:
			want = fmt.Sprintf("%d or %d", least, most)
		}
		return fmt.Errorf("arguments: %d instead of %s: write %s", len(args), want, c.UseLine())
	}
}

// FlagError adds to an error of flags where they are listed. What Go says of a number that is none, or of a
// time without a unit, becomes what to write.
func FlagError(c *cobra.Command, err error) error {
	given, why, found := strings.Cut(err.Error(), " flag: ")
	for _, x := range []struct{ goSays, write string }{
		{"strconv.ParseFloat: ", "write a number"}, {"strconv.ParseInt: ", "write a whole number"},
		{"strconv.ParseUint: ", "write a whole number from 0 on"},
		{"strconv.ParseBool: ", "write true or false"}, {"time: ", "write a time with its unit, as 10s or 1m30s"},
	} {
		if found && strings.HasPrefix(why, x.goSays) {
			err = fmt.Errorf("%s flag: %s", given, x.write)
		}
	}
	return fmt.Errorf("%w; %s --help lists them", err, c.CommandPath())
}

// Bar shows progress on stderr, where that is a terminal; else nothing.
func Bar(total int, what string) *progressbar.ProgressBar {
	info, err := os.Stderr.Stat()
	return progressbar.NewOptions(total,
		progressbar.OptionSetWriter(os.Stderr),
		progressbar.OptionSetVisibility(err == nil && info.Mode()&os.ModeCharDevice != 0),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
}
