// Package runs plays independent runs of an experiment side by side.
package runs

import (
	"context"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Each plays runs 0 to n-1, on all processors but no more than most at once (0: as many as there are
// processors), and returns what they gave, in order. After the first error, or once ctx ends, none begins;
// that error is returned when those under way have ended. ended, if any, hears after each how many have; it
// is never called twice at once.
func Each[T any](ctx context.Context, n, most int, ended func(runs int), run func(i int) (T, error)) ([]T,
	error) {
	out := make([]T, n)
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(runtime.GOMAXPROCS(0))
	if most > 0 {
		all.SetLimit(min(most, runtime.GOMAXPROCS(0)))
	}
	var telling sync.Mutex
	done := 0
	for i := range n {
		all.Go(func() (err error) {
			if err = ctx.Err(); err != nil {
				return err
			}
			if out[i], err = run(i); err != nil || ended == nil {
				return err
			}
			telling.Lock()
			defer telling.Unlock()
			done++
			ended(done)
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}
