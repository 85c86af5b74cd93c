package ledger

import (
	"crypto/sha256"
	"fmt"
	"runtime"
	"testing"
)

// A journal has the same bytes on every machine, and the audit says the same of it. The hash was made once, and changes only
// with what trade writes; `make arm64` runs the same test on another architecture.
func TestSameJournalOnEveryMachine(t *testing.T) {
	const want = "36d3517e46de029d4dba0666dc80e9efcefec7d50d0aa271618685383f8c9a5b"
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
