package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is one that a cluster starts.
type process struct {
	name     string
	args     []string // command and arguments
	env      []string // on top of our own
	log      string   // stdout and stderr are appended to it
	endpoint string   // to show
	health   string   // answers 200 once it is ready
	within   time.Duration

	cmd  *exec.Cmd
	done chan struct{} // closed once it has ended
	err  error         // how, once done is closed
}

func (p *process) pid() int {
	if p.cmd == nil || p.cmd.Process == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// group runs processes, and notices the first that ends before it is told to.
type group struct {
	mu       sync.Mutex
	running  []*process
	stopping bool
	first    error
	failed   chan struct{}
}

func newGroup() *group { return &group{failed: make(chan struct{})} }

// killAfter is what a process gets beyond the time that it promised to end in.
const killAfter = 3 * time.Second

// start starts a process in a group of its own, so that the Ctrl-C of a terminal reaches only us, and we stop
// all in order.
func (g *group) start(p *process) error {
	log, err := os.OpenFile(p.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	fmt.Fprintf(log, "# %s %s\n", time.Now().UTC().Format(time.RFC3339), strings.Join(p.args, " "))
	p.cmd = exec.Command(p.args[0], p.args[1:]...)
	p.cmd.Env = append(os.Environ(), p.env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = ownGroup()
	p.done = make(chan struct{})
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	g.mu.Lock()
	g.running = append(g.running, p)
	g.mu.Unlock()
	go func() {
		p.err = p.cmd.Wait()
		g.ended(p)
		close(p.done)
	}()
	return nil
}

// ended notes a process that ended before it was told to.
func (g *group) ended(p *process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopping || g.first != nil {
		return
	}
	how := "exit status 0"
	if p.err != nil {
		how = p.err.Error()
	}
	g.first = fmt.Errorf("%s ended by itself: %s. It said last (%s):\n%s", p.name, how, p.log, tail(p.log, 5))
	close(g.failed)
}

func (g *group) failure() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.first
}

// await waits until every process answers that it is ready.
func (g *group) await(ctx context.Context, ps []*process) error {
	for _, p := range ps {
		for wait := 10 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
			why := ready(ctx, p.health)
			if why == nil {
				break
			}
			t := time.NewTimer(wait)
			select {
			case <-t.C:
			case <-g.failed:
				t.Stop()
				return g.failure()
			case <-ctx.Done():
				t.Stop()
				return fmt.Errorf("%s is not ready: %w. It said last (%s):\n%s", p.name, why, p.log,
					tail(p.log, 5))
			}
		}
	}
	return nil
}

// ready asks once; its error says why not.
func ready(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", answer.Status, strings.TrimSpace(string(said)))
	}
	return nil
}

// stop ends the processes in the reverse of the order of their stages, and within a stage all at once: no new
// tasks, then what runs ends, then it is settled. Whatever does not end in the time that it promised is
// killed, and that is an error.
func (g *group) stop(stages [][]*process) error {
	g.mu.Lock()
	g.stopping = true
	g.mu.Unlock()
	var errs []error
	for i := len(stages) - 1; i >= 0; i-- {
		for _, p := range stages[i] {
			if p.cmd != nil && p.cmd.Process != nil {
				_ = p.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended
			}
		}
		for _, p := range stages[i] {
			if p.done == nil || p.cmd.Process == nil {
				continue
			}
			t := time.NewTimer(p.within + killAfter)
			select {
			case <-p.done:
				if code := p.cmd.ProcessState.ExitCode(); code != 0 && !g.blamed(p) {
					errs = append(errs,
						fmt.Errorf("%s did not stop well: %v. It said last (%s):\n%s", p.name, p.err, p.log,
							tail(p.log, 5)))
				}
			case <-t.C:
				_ = syscall.Kill(-p.pid(), syscall.SIGKILL)
				<-p.done
				errs = append(errs,
					fmt.Errorf("%s did not stop within %v, and was killed: see %s", p.name,
						p.within+killAfter, p.log))
			}
			t.Stop()
		}
	}
	return errors.Join(errs...)
}

// blamed reports whether a process was named as the one that ended by itself.
func (g *group) blamed(p *process) bool {
	err := g.failure()
	return err != nil && strings.HasPrefix(err.Error(), p.name+" ended by itself")
}

// tail is the end of a log.
func tail(path string, lines int) string {
	const most = 8 << 10
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > most {
		_, _ = f.Seek(-most, io.SeekEnd)
	}
	data, _ := io.ReadAll(io.LimitReader(f, most))
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return "  " + strings.Join(all[max(0, len(all)-lines):], "\n  ")
}
