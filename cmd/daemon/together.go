package daemon

import (
	"io"
	"log/slog"
	"sync"
)

// together is a handler that can write many records at once (see [sight.Together]).
type together struct {
	slog.Handler
	out *gathering
}

func (t together) WithAttrs(all []slog.Attr) slog.Handler {
	return together{t.Handler.WithAttrs(all), t.out}
}

func (t together) WithGroup(name string) slog.Handler {
	return together{t.Handler.WithGroup(name), t.out}
}

// Together writes what f logs once f has returned.
func (t together) Together(f func()) {
	t.out.hold(true)
	f()
	t.out.hold(false)
}

// gathering passes on what is written, or holds it back for a while.
type gathering struct {
	to io.Writer

	mu      sync.Mutex
	holding bool
	held    []byte
}

func (g *gathering) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.holding {
		g.held = append(g.held, p...)
		return len(p), nil
	}
	return g.to.Write(p)
}

func (g *gathering) hold(on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holding = on
	if len(g.held) > 0 {
		g.to.Write(g.held)
		g.held = g.held[:0]
	}
}
