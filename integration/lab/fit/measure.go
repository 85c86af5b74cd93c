package fit

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Load says what is measured: so many requests at once, each of Prompt tokens, written in Bytes, of which
// Cached are in the cache, while Beside others get their answers. Answers of one token measure the first
// token, longer ones the time between two.
type Load struct{ AtOnce, Prompt, Cached, Output, Beside, Bytes int }

// Point is a load with the median of what was measured, what the fitted profile says, and how much longer the
// profile's stand-in takes, or shorter.
type Point struct {
	Load
	Took, Fitted, Own time.Duration
}

// Sizes of a server that it does not report: as --max-num-seqs and --max-num-batched-tokens.
type Sizes struct{ Seqs, Batched int }

// loads lists what is measured, as far as a server has room for it.
func loads(s *Server, z Sizes) (all []Load) {
	full := func(n int) int { return (n - 1) / s.Info.BlockSize * s.Info.BlockSize }
	for _, n := range []int{64, 128, 256, 512, 1024, 2048} {
		all = append(all, Load{AtOnce: 1, Prompt: n, Output: 1})
	}
	for _, n := range []int{512, 1024, 2048} {
		all = append(all, Load{AtOnce: 1, Prompt: n, Cached: full(n), Output: 1})
	}
	for _, x := range [][2]int{{1, 64}, {1, 1024}, {1, 2048}, {2, 64}, {4, 64}, {4, 1024}, {8, 64}, {8, 512},
		{16, 64}} {
		all = append(all, Load{AtOnce: x[0], Prompt: x[1], Output: decoded})
	}
	for _, beside := range []int{1, 3, 7} {
		all = append(all, Load{AtOnce: 1, Prompt: 256, Output: 1, Beside: beside},
			Load{AtOnce: 1, Prompt: 1024, Cached: full(1024), Output: 1, Beside: beside})
	}
	for i := range all {
		all[i].Bytes = int(float64(all[i].Prompt) * s.written)
	}
	return slices.DeleteFunc(all, func(x Load) bool {
		return x.AtOnce+x.Beside > z.Seqs || x.Prompt+x.Output > s.Info.MaxModelLen ||
			2*x.AtOnce*(x.Prompt+x.Output)+x.Beside*(besides+longestBeside) > s.Info.KVTokens
	})
}

const (
	decoded = 64 // tokens of an answer by which the time between two is measured
	repeats = 7  // of each load; medians count
)

// measure takes the median of each load, one after another, round by round: what disturbs a machine for a
// second disturbs one round of all.
func (s *Server) measure(ctx context.Context, all []Load) (out []Point, err error) {
	took := make([][]time.Duration, len(all))
	for range repeats {
		for i, x := range all {
			d, err := s.once(ctx, x)
			if err != nil {
				return nil, fmt.Errorf("%+v: %w", x, err)
			}
			took[i] = append(took[i], d)
		}
	}
	for i, x := range all {
		out = append(out, Point{Load: x, Took: median(took[i])})
	}
	return out, nil
}

// once measures a load. Prompts that are to be found in the cache, and those behind which only the time
// between tokens counts, were asked before; and before all of them one that does not count, until whose end a
// server has dropped the answers that the load before left.
func (s *Server) once(ctx context.Context, x Load) (time.Duration, error) {
	s.asked++
	if _, err := s.Ask(ctx, Asked{s.prompt(s.asked, besides), 1, s.salt()}); err != nil {
		return 0, err
	}
	told := make([]Told, x.AtOnce)
	var asked []Asked
	for range x.AtOnce {
		s.asked++
		q := Asked{IDs: s.prompt(s.asked, x.Prompt), Output: 1, Salt: s.salt()}
		if x.Cached > 0 || x.Output > 1 {
			if _, err := s.Ask(ctx, q); err != nil {
				return 0, err
			}
		}
		q.Output = x.Output
		asked = append(asked, q)
	}
	end, err := s.beside(ctx, x.Beside)
	if err != nil {
		return 0, err
	}
	defer end()
	var all errgroup.Group
	for i := range asked {
		all.Go(func() (err error) {
			told[i], err = s.Ask(ctx, asked[i])
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return 0, err
	}
	var took []time.Duration
	for _, t := range told {
		if x.Output > 1 {
			took = append(took, t.Between)
			continue
		}
		if t.Cached != x.Cached {
			return 0, fmt.Errorf("%d tokens of the prompt were found, not %d: is something else asked there?",
				t.Cached, x.Cached)
		}
		took = append(took, t.First)
	}
	return median(took), nil
}

// The tokens of prompts and answers of those who get theirs meanwhile: what all of them fill pushes nothing
// out of the cache.
const (
	besides       = 64
	longestBeside = 2048
)

// beside has so many answers under way until end is called, each with its first token.
func (s *Server) beside(ctx context.Context, n int) (end func(), err error) {
	ctx, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	end = func() {
		stop()
		all.Wait()
	}
	begun := make(chan error, 2*n)
	for range n {
		s.asked++
		q := Asked{IDs: s.prompt(s.asked, besides), Salt: s.salt(),
			Output: min(longestBeside, s.Info.MaxModelLen-besides)}
		all.Go(func() {
			once := sync.OnceFunc(func() { begun <- nil })
			if _, err := s.ask(ctx, q, once); err != nil && ctx.Err() == nil {
				begun <- err
			}
		})
	}
	for range n {
		if err := <-begun; err != nil {
			end()
			return nil, err
		}
	}
	return end, nil
}

func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}
