package forecast

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// FindRiver finds the Python of a name, which must have the river library.
func FindRiver(ctx context.Context, python string) (string, error) {
	path, err := exec.LookPath(python)
	if err != nil {
		return "", fmt.Errorf("no Python: %w", err)
	}
	if out, err := exec.CommandContext(ctx, path, "-c", "import river").CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return "", fmt.Errorf("%s has no river: %s", path, lines[len(lines)-1])
	}
	return path, nil
}

// river is the library's trees in a process of their own, which hears of every task.
type river struct {
	cmd   *exec.Cmd
	in    *bufio.Writer
	pipe  io.WriteCloser
	out   bytes.Buffer
	fault bytes.Buffer
	err   error
}

func startRiver(ctx context.Context, python, script string) (*river, error) {
	r := &river{cmd: exec.CommandContext(ctx, python, script)}
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.fault
	var err error
	if r.pipe, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	r.in = bufio.NewWriterSize(r.pipe, 1<<16)
	return r, r.cmd.Start()
}

// stop ends the process if it still runs.
func (r *river) stop() {
	if r.cmd.ProcessState == nil {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
	}
}

func (r *river) Forecast(v *View, agent int, t *Task) Expected {
	return Expected{x: eq5Of(v, agent, t)}
}

func (r *river) write(line string) {
	if r.err == nil {
		_, r.err = r.in.WriteString(line)
	}
}

func (r *river) Sent(_ *View, t *Task, e Expected) {
	line := fmt.Sprintf("f,%d,%d", t.ID, t.Agent)
	for _, x := range e.x {
		line += fmt.Sprintf(",%g", x)
	}
	r.write(line + "\n")
}

func (r *river) Ended(_ *View, t *Task, _ Expected) {
	r.write(fmt.Sprintf("l,%d,%g,%g\n", t.ID, t.TTFT, t.Cost))
}

func (r *river) Said(*View, int, int) {}

// score waits for the end of the process, and says how it did.
func (r *river) score() (s Score, err error) {
	if err := r.in.Flush(); r.err == nil {
		r.err = err
	}
	if err := r.pipe.Close(); r.err == nil {
		r.err = err
	}
	if err := r.cmd.Wait(); err != nil {
		return s, fmt.Errorf("river: %w: %s", err, r.fault.String())
	}
	if r.err != nil {
		return s, fmt.Errorf("river: %w", r.err)
	}
	if err := json.Unmarshal(r.out.Bytes(), &s); err != nil {
		return s, fmt.Errorf("river: %w: %s", err, r.out.String())
	}
	s.Name = "river"
	return s, nil
}
