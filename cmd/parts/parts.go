// Package parts runs the parts of a market as processes.
package parts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"souk/bus/follow"
)

// Part is one process, which can be started any number of times.
type Part struct {
	Name    string
	Args    []string       // command and arguments
	Env     []string       // on top of our own
	Log     string         // stdout and stderr of all its lives are appended to it
	Health  string         // host:port
	ReadyAt string         // path there that answers 200 once it is ready
	Orphan  syscall.Signal // what it gets when this process dies, where the system can: zero is SIGKILL

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed once this life has ended
}

// starter starts all processes, from one thread that never ends: where the system can, they are told when it
// does, as when a test is cut off.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// Start begins a life of the part.
func (p *Part) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.alive() {
		return fmt.Errorf("%s runs already", p.Name)
	}
	log, err := os.OpenFile(p.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	fmt.Fprintf(log, "# %s %s\n", time.Now().UTC().Format(time.RFC3339Nano), strings.Join(p.Args, " "))
	cmd := exec.Command(p.Args[0], p.Args[1:]...)
	cmd.Env = append(os.Environ(), p.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = group(cmp.Or(p.Orphan, syscall.SIGKILL))
	started := make(chan error)
	starter() <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	done := make(chan struct{})
	p.cmd, p.done = cmd, done
	go func() {
		_ = cmd.Wait() // how it ended stands in ProcessState
		close(done)
	}()
	return nil
}

// alive needs the lock.
func (p *Part) alive() bool { return p.cmd != nil && !follow.Closed(p.done) }

// Alive reports whether the part runs, or has been stopped by a signal.
func (p *Part) Alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.alive()
}

// PID is the process id of the part's present or last life.
func (p *Part) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Signal sends a signal to a part that runs.
func (p *Part) Signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.alive() {
		return fmt.Errorf("%s does not run: %w", p.Name, os.ErrProcessDone)
	}
	return p.cmd.Process.Signal(s)
}

// Kill ends a part at once, as kill -9 does, and returns when it has gone.
func (p *Part) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.Ended()
	return nil
}

// Ended is closed when the present life of the part has ended.
func (p *Part) Ended() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

// Code is the exit code of the last life, -1 if a signal ended it.
func (p *Part) Code() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || p.alive() {
		return -1
	}
	return p.cmd.ProcessState.ExitCode()
}

// How says how the last life ended: "exit status 1", "signal: killed".
func (p *Part) How() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.ProcessState.String()
}

// Stop asks a part to end and waits until it has. One that ends otherwise than well is an error; one that
// does not run is none.
func (p *Part) Stop(within time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		if errors.Is(err, os.ErrProcessDone) {
			return nil
		}
		return err
	}
	select {
	case <-p.Ended():
	case <-time.After(within):
		_ = p.Kill()
		return fmt.Errorf("%s did not stop within %v, and was killed. %s", p.Name, within, p.Last())
	}
	if p.Code() != 0 {
		return fmt.Errorf("%s did not stop well: %s. %s", p.Name, p.How(), p.Last())
	}
	return nil
}

// Readiness asks once; nil: it is ready. The error says why it is not.
func (p *Part) Readiness(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err := p.get(ctx, p.ReadyAt)
	return err
}

// Ready waits until the part is ready.
func (p *Part) Ready(ctx context.Context) error {
	for {
		err := p.Readiness(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-p.Ended():
			return fmt.Errorf("%s ended: %s. %s", p.Name, p.How(), p.Last())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w. %s", p.Name, err, p.Last())
		}
	}
}

// Stats reads what the part says at /stats.
func (p *Part) Stats(ctx context.Context, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	text, err := p.get(ctx, "/stats")
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("%s: /stats: %w", p.Name, err)
	}
	return nil
}

func (p *Part) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Health+path, nil)
	if err != nil {
		return nil, err
	}
	answer, err := direct.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(io.LimitReader(answer.Body, 4<<20))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, strings.TrimSpace(string(said)))
	}
	return said, err
}

// direct makes a connection for each request: one that is kept may be to a process that has died.
var direct = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// Said returns everything that the part has logged, in all its lives.
func (p *Part) Said() string {
	text, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Tail is the end of it.
func (p *Part) Tail(lines int) string {
	all := strings.Split(strings.TrimRight(p.Said(), "\n"), "\n")
	return "  " + strings.Join(all[max(0, len(all)-lines):], "\n  ")
}

// Last returns the part's last lines of log, for an error.
func (p *Part) Last() string { return fmt.Sprintf("It said last (%s):\n%s", p.Log, p.Tail(10)) }
