package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"souk/cmd/daemon"
)

// part is a server of the market as it runs.
type part struct {
	name string
	stop context.CancelFunc
	done chan struct{}
	err  error // once done is closed
}

// server runs one part of the market.
type server interface {
	Run(ctx context.Context) error
	Ready() <-chan struct{}
}

// run starts servers of one kind and waits until they are ready.
func (m *Market) run(ctx context.Context, name string, servers ...server) error {
	for _, s := range servers {
		life, stop := context.WithCancel(context.Background())
		p := &part{name: name, stop: stop, done: make(chan struct{})}
		m.parts = append(m.parts, p)
		go func() {
			defer close(p.done)
			if p.err = s.Run(life); p.err != nil {
				if !daemon.Names(p.err, name) {
					p.err = fmt.Errorf("%s: %w", name, p.err)
				}
				m.fail(p.err)
			} else if life.Err() == nil {
				m.fail(fmt.Errorf("%s: ended by itself", name))
			}
		}()
	}
	for _, s := range servers {
		var why func() string
		if u, ok := s.(interface{ Unready() string }); ok {
			why = u.Unready
			m.whys = append(m.whys, why)
		}
		if err := m.await(ctx, name+" is ready", s.Ready(), why); err != nil {
			return err
		}
	}
	return nil
}

// unready returns why the first unready part that gives a reason is not ready.
func (m *Market) unready() string {
	for _, why := range m.whys {
		if says := why(); says != "" {
			return says
		}
	}
	return ""
}

// await waits for something, or for the first failure. why says, to other commands too, why it is not so yet;
// nil: nothing does.
func (m *Market) await(ctx context.Context, what string, ready <-chan struct{}, why func() string) error {
	if why == nil {
		why = func() string { return "" }
	}
	look := time.Tick(lookEvery)
	defer m.dir.Waits("")
	for {
		select {
		case <-ready:
			return nil
		case <-look:
			m.dir.Waits(why())
		case <-m.failed.Done():
			return m.Err()
		case <-ctx.Done():
			if says := why(); says != "" {
				what += " (" + says + ")"
			}
			return fmt.Errorf("the market did not come up: waited until %s: %w", what, context.Cause(ctx))
		}
	}
}

// Failed is closed when a part of the market has ended by itself; Err says which and why.
func (m *Market) Failed() <-chan struct{} { return m.failed.Done() }

// Err returns why the market failed, or nil.
func (m *Market) Err() error { return context.Cause(m.failed) }

// Close stops the market within [Options].Within: no new tasks, those that run may end, completions are
// settled.
func (m *Market) Close() error { return m.closed() }

func (m *Market) stop() error {
	var errs []error
	for i, p := range m.parts {
		p.stop()
		if i+1 == len(m.parts) || m.parts[i+1].name != p.name {
			for _, same := range m.parts[:i+1] {
				<-same.done
			}
		}
	}
	for _, p := range m.parts {
		if p.err != m.Err() {
			errs = append(errs, p.err)
		}
	}
	for _, closeIt := range slices.Backward(m.opened) {
		errs = append(errs, closeIt())
	}
	return errors.Join(errs...)
}

// inOrder sorts parts by name, in the order given.
func inOrder(parts []*part, names ...string) []*part {
	slices.SortStableFunc(parts, func(a, b *part) int {
		return slices.Index(names, a.name) - slices.Index(names, b.name)
	})
	return parts
}
