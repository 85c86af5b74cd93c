package inspect

import (
	"context"
	"fmt"

	"souk/ledger"
	"souk/market"
)

// Round reads on to a round of a hub's journal.
func (s *Source) Round(ctx context.Context, n uint64) (*ledger.Round, error) {
	var found *ledger.Round
	last := uint64(0)
	err := s.Records(ctx, func(_ *ledger.Frame, r *ledger.Record) error {
		if r.Round != nil {
			if last = r.Round.Round.Number; last == n {
				found = r.Round
				return ErrStop
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, fmt.Errorf("%s has no round %d: its last is %d", s.Name, n, last)
	}
	return found, nil
}

// Explain derives every price of a round from the hub's journal at dir.
func Explain(ctx context.Context, dir string, round uint64) (market.Explanation, error) {
	var x market.Explanation
	sources, err := Open([]string{dir}, "")
	if err != nil {
		return x, err
	}
	if len(sources) != 1 {
		return x, fmt.Errorf("%s holds %d journals: name the directory of one", dir, len(sources))
	}
	r, err := sources[0].Round(ctx, round)
	if err != nil {
		return x, err
	}
	if x, err = r.Explain(); err != nil {
		return x, fmt.Errorf("%s round %d cannot be explained: %w", sources[0].Name, round, err)
	}
	return x, nil
}
