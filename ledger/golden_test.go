package ledger

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"souk/bus/bustest/golden"
)

// A journal has the same bytes on every machine, and the audit says the same of it. `make arm64` runs the
// same test on another architecture.
func TestSameJournalOnEveryMachine(t *testing.T) {
	hub, treasury := trade(t, 2026, 600)
	h := sha256.New()
	for _, d := range []*desk{hub, treasury} {
		for _, f := range store(d.frames) {
			h.Write(f.data)
		}
		r := audit(d.name, MaxLevel, store(d.frames)).Finish()
		fmt.Fprintln(h, r.Count, r.Frames, r.Payments, r.Earned, r.Surplus, r.Fees)
	}
	golden.Check(t, "journals", fmt.Sprintf("%x", h.Sum(nil)))
}
