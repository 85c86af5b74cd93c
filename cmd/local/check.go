package local

import (
	"context"
	"errors"
	"fmt"
	"io"

	"souk/ledger"
	"souk/ledger/inspect"
)

// ErrLedger marks a ledger in which something is not as it should be.
var ErrLedger = errors.New("the ledger does not hold")

// levels says what each level of the audit looks at.
var levels = []string{
	"every byte as it was written, no frame missing, epochs never fall",
	"roots and checkpoints",
	"every record legal: money held before an award, each hold ended once",
	"sums exact: every record, every round, every journal",
	"every round proved: best matching, least prices, or as posted; its holds are its awards",
	"grants of the treasury against what the hubs took in",
	"costs: usage times price card",
}

// CheckLedger audits every journal of a data directory, beside a running market or after it, and says level
// by level what was found. What is wrong is ErrLedger.
func CheckLedger(ctx context.Context, dir string, w io.Writer) error {
	sum, err := inspect.Check(ctx, []string{dir}, inspect.Options{Level: ledger.MaxLevel})
	if err != nil {
		return err
	}
	found := make([]int, len(levels))
	for _, f := range sum.Findings {
		found[f.Level]++
	}
	for level, what := range levels {
		verdict := "ok"
		switch {
		case found[level] > 0:
			verdict = fmt.Sprintf("%d FINDINGS", found[level])
		case level == ledger.LevelMerkle:
			verdict = "these journals have no checkpoints yet"
		case level == ledger.LevelAcross && !sum.Across:
			verdict = "not checked"
		}
		fmt.Fprintf(w, "  level %d  %-86s %s\n", level, what, verdict)
	}
	for i, f := range sum.Findings {
		if i == 20 {
			fmt.Fprintf(w, "  ... and %d more\n", sum.Count-i)
			break
		}
		fmt.Fprintln(w, " ", f)
	}
	fmt.Fprintln(w, sum.Line())
	if sum.Count > 0 {
		return fmt.Errorf("%w: %d findings", ErrLedger, sum.Count)
	}
	return nil
}

// Check audits the market's journals; see [CheckLedger].
func (m *Market) Check(ctx context.Context, w io.Writer) error {
	return CheckLedger(ctx, m.dir.Path(), w)
}

// Explain writes why each price of a round is what it is.
func (m *Market) Explain(ctx context.Context, w io.Writer, r RoundRef) error {
	x, err := inspect.Explain(ctx, r.Path, r.Round)
	if err == nil {
		_, err = io.WriteString(w, x.String())
	}
	return err
}
