package inspect

import (
	"context"
	"fmt"

	"souk/ledger"
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
