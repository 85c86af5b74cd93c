package ledger

import (
	"crypto/sha256"
	"fmt"
	"runtime"
	"testing"
)

// A journal has the same bytes on every machine, and the audit says the same of it. The hash was made once,
// and changes only with what trade writes; `make arm64` runs the same test on another architecture.
func TestSameJournalOnEveryMachine(t *testing.T) {
	const want = "b8183057a637d88ba4d346e71a3ccb78c3e28a00a138782ea272893050cd83bc"
	hub, treasury := trade(t, 2026, 600)
	h := sha256.New()
	for _, d := range []*desk{hub, treasury} {
		for _, f := range store(d.frames) {
			h.Write(f.data)
		}
		r := audit(d.name, MaxLevel, store(d.frames)).Finish()
		fmt.Fprintln(h, r.Count, r.Frames, r.Payments, r.Payouts, r.Surplus, r.Fees)
	}
	if got := fmt.Sprintf("%x", h.Sum(nil)); got != want {
		t.Errorf("%s: journals hash to %s, want %s", runtime.GOARCH, got, want)
	}
}
