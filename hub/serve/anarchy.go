package serve

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"souk/hub"
	"souk/hub/regime"
)

// Anarchy is what the tasks of the last minute took together, by the least that they would have taken had
// they been dealt out otherwise (anarchy, Eq. 12): an index by which times are told apart. Nothing is decided
// by it. 0: nothing was served.
type Anarchy struct {
	Theirs float64 // by the constants of the paper
	Fitted float64 // by those that explain these tasks best
	Tasks  int
}

// anarchy keeps the latest.
type anarchy struct {
	mu     sync.Mutex
	latest Anarchy
}

func (a *anarchy) now() Anarchy {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.latest
}

// estimate makes it anew every minute, beside the hub's loop, until the function that it returns is called.
func (s *Server) estimate(ctx context.Context) (stop func()) {
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	var estimator sync.WaitGroup
	estimator.Go(func() {
		every := time.NewTicker(hub.Windows)
		defer every.Stop()
		for {
			select {
			case <-every.C:
			case <-ctx.Done():
				return
			}
			s.mu.Lock()
			w := s.node.Window()
			s.mu.Unlock()
			of := anarchyOf(&w)
			s.anarchy.mu.Lock()
			s.anarchy.latest = of
			s.anarchy.mu.Unlock()
		}
	})
	return func() {
		end()
		estimator.Wait()
	}
}

func anarchyOf(w *regime.Window) Anarchy {
	by := func(c regime.Constants) float64 {
		x := w.PoA(c)
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return 0
		}
		return x
	}
	return Anarchy{by(regime.Theirs), by(w.Fit()), len(w.Done)}
}

// Within counts durations up to each of some bounds.
type Within struct {
	Bounds []time.Duration
	Counts []int64 // up to each
	Sum    time.Duration
	Count  int64
}

// bounds divides the times that rounds take, for a histogram.
var bounds = []time.Duration{50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond,
	500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 100 * time.Millisecond}

func within(h *hdrhistogram.Histogram) Within {
	w := Within{Bounds: bounds, Counts: make([]int64, len(bounds)), Count: h.TotalCount(),
		Sum: time.Duration(h.Mean() * float64(h.TotalCount()))}
	for _, bar := range h.Distribution() {
		for i, most := range bounds {
			if bar.Count > 0 && bar.To <= int64(most) {
				w.Counts[i] += bar.Count
			}
		}
	}
	return w
}
