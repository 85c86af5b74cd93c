package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"souk/cmd/parts"
)

// process is a process that a cluster starts.
type process struct {
	parts.Part
	endpoint string // to show
	within   time.Duration
}

// group runs processes, and notices the first that ends before it is told to.
type group struct {
	failed context.Context // ends with that one; the cause says which it was, and how it ended
	fail   context.CancelCauseFunc

	mu       sync.Mutex
	stopping bool
	blamed   *process // that one
}

// killAfter is the time that a process gets beyond its own limit before it is killed.
const killAfter = 3 * time.Second

// start starts a process. Should we be killed, it is told to stop, where the system can.
func (g *group) start(p *process) error {
	p.Orphan = syscall.SIGTERM
	if err := p.Start(); err != nil {
		return err
	}
	go func() {
		<-p.Ended()
		g.ended(p)
	}()
	return nil
}

// ended notes a process that ended before it was told to.
func (g *group) ended(p *process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.stopping && g.blamed == nil {
		g.blamed = p
		g.fail(fmt.Errorf("%s ended by itself: %s. %s", p.Name, p.How(), p.Last()))
	}
}

func (g *group) failure() error { return context.Cause(g.failed) }

// whole returns a context that ends with ctx, or as soon as a process has ended by itself.
func (g *group) whole(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	context.AfterFunc(g.failed, stop)
	return ctx, stop
}

// await waits until every process answers that it is ready.
func (g *group) await(ctx context.Context, ps []*process) error {
	whole, stop := g.whole(ctx)
	defer stop()
	for _, p := range ps {
		if err := p.Ready(whole); err != nil {
			if ctx.Err() == nil {
				<-g.failed.Done()
				return g.failure()
			}
			return err
		}
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
	for _, stage := range slices.Backward(stages) {
		ends := make([]error, len(stage))
		var wg sync.WaitGroup
		for i, p := range stage {
			wg.Go(func() {
				ended := !p.Alive()
				ends[i] = p.Stop(p.within + killAfter)
				if ended && p.PID() != 0 && p.Code() != 0 && p != g.blamed {
					ends[i] = fmt.Errorf("%s ended by itself, too: %s. %s", p.Name, p.How(), p.Last())
				}
			})
		}
		wg.Wait()
		errs = append(errs, ends...)
	}
	return errors.Join(errs...)
}
