package cli

import (
	"strings"
	"testing"

	"souk/ledger"
)

// What an agent claims to hold stands with its hold, where it claims anything.
func TestAHoldIsShownWithItsClaim(t *testing.T) {
	for claimed, want := range map[int]bool{0: false, 48: true} {
		h := ledger.Hold{Client: "ann", Task: "t", Agent: "a", Claimed: claimed}
		s := sentence(&ledger.Record{Hold: &h})
		if strings.Contains(s, "says that it holds 48 prompt tokens") != want {
			t.Errorf("a claim of %d: %s", claimed, s)
		}
	}
}
