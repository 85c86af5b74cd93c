package fit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// Load says what is measured: so many requests at once, each of Prompt tokens of which Cached are in the
// cache. Answers of one token measure the first token, longer ones the time between two.
type Load struct{ AtOnce, Prompt, Cached, Output int }

// Point is a load with the median of what was measured, and what the fitted profile says.
type Point struct {
	Load
	Took, Fitted time.Duration
}

// Sizes of a server that it does not report: as --max-num-seqs and --max-num-batched-tokens.
type Sizes struct{ Seqs, Batched int }

// loads lists what is measured, as far as a server has room for it.
func loads(s *Server, z Sizes) (all []Load) {
	for _, n := range []int{64, 128, 256, 512, 1024, 2048} {
		all = append(all, Load{1, n, 0, 1})
	}
	for _, n := range []int{512, 1024, 2048} {
		all = append(all, Load{1, n, (n - 1) / s.Info.BlockSize * s.Info.BlockSize, 1})
	}
	for _, x := range [][2]int{{1, 64}, {1, 1024}, {1, 2048}, {2, 64}, {4, 64}, {4, 1024}, {8, 64}, {8, 512},
		{16, 64}} {
		all = append(all, Load{x[0], x[1], 0, decoded})
	}
	return slices.DeleteFunc(all, func(x Load) bool {
		return x.AtOnce > z.Seqs || x.Prompt+x.Output > s.Info.MaxModelLen ||
			2*x.AtOnce*(x.Prompt+x.Output) > s.Info.KVTokens
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
// between tokens counts, were asked before.
func (s *Server) once(ctx context.Context, x Load) (time.Duration, error) {
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

func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}
