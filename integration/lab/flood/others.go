package flood

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Others holds the requests of other members: how long each took, and how many failed.
type Others struct {
	Took   []time.Duration
	Failed int
	Last   error // of those that failed
}

// Watch asks every so often until a time is over, however long answers take, and each for patience at most.
func Watch(ctx context.Context, every, during, patience time.Duration,
	ask func(context.Context) error) Others {
	var o Others
	var mu sync.Mutex
	var all sync.WaitGroup
	t := time.NewTicker(every)
	defer t.Stop()
	end := time.NewTimer(during)
	defer end.Stop()
	for {
		select {
		case <-end.C:
			all.Wait()
			return o
		case <-ctx.Done():
			all.Wait()
			return o
		case <-t.C:
		}
		all.Go(func() {
			within, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			began := time.Now()
			err := ask(within)
			mu.Lock()
			defer mu.Unlock()
			o.Took = append(o.Took, time.Since(began))
			if err != nil {
				o.Failed++
				o.Last = err
			}
		})
	}
}

// Quantile is the q-th part of what requests took, by nearest rank.
func (o Others) Quantile(q float64) time.Duration {
	if len(o.Took) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(o.Took))
	return s[min(int(q*float64(len(s))), len(s)-1)]
}

func (o Others) String() string {
	s := fmt.Sprintf("%d requests, p50 %v, p99 %v, worst %v", len(o.Took), o.Quantile(0.5), o.Quantile(0.99),
		o.Quantile(1))
	if o.Failed > 0 {
		s += fmt.Sprintf(", %d failed (%v)", o.Failed, o.Last)
	}
	return s
}
