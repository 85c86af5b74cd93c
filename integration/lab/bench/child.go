package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// child is a process of its own, measured apart from this one.
type child struct {
	cmd *exec.Cmd
	out *bufio.Reader
}

// startChild runs a command that stands beside this one, and reads its first line of output.
func (o Options) startChild(ctx context.Context, command string, args ...string) (*child, string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(o.Bin, command), args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 15 * time.Second
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	c := &child{cmd: cmd, out: bufio.NewReader(pipe)}
	line, err := c.out.ReadString('\n')
	if err != nil {
		c.stop()
		return nil, "", fmt.Errorf("%s %s: %w: %s", command, strings.Join(args, " "), err, said.String())
	}
	return c, strings.TrimSpace(line), nil
}

// startEngine runs a simulated engine of a profile, and returns its base URL.
func (o Options) startEngine(ctx context.Context, profile string) (*child, string, error) {
	return o.startChild(ctx, "souk", "engine", "--profile", profile, "--port", "0")
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// stop ends the process, and waits for it.
func (c *child) stop() error {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	err := c.cmd.Wait()
	var status *exec.ExitError
	if errors.As(err, &status) && status.ExitCode() == -1 { // by our own signal
		return nil
	}
	return err
}
