package local

import (
	"context"
	"fmt"
	"io"

	"souk/ledger"
	"souk/ledger/inspect"
)

// shown bounds the findings that are printed one by one.
const shown = 20

// CheckLedger audits every journal of a data directory, beside a running market or after it, and says what
// was checked and found. Findings are an error.
func CheckLedger(ctx context.Context, dir string, w io.Writer) error {
	sum, err := inspect.Check(ctx, []string{dir}, inspect.Options{Level: ledger.MaxLevel})
	if err != nil {
		return err
	}
	for _, f := range sum.Findings[:min(shown, len(sum.Findings))] {
		fmt.Fprintln(w, f)
	}
	fmt.Fprintln(w, sum.Line())
	if sum.Count > 0 {
		return fmt.Errorf("the ledger does not hold: %d findings", sum.Count)
	}
	return nil
}
