package natsbus

import (
	"testing"
	"time"
)

// Whoever waits for a server that is started again is back soon after it; in a long outage attempts are
// rarer. Nobody's pause is anybody else's.
func TestPausesBetweenAttempts(t *testing.T) {
	const wait = 250 * time.Millisecond
	var least, most time.Duration
	for n := 1; n <= 2*quickly; n++ {
		low, high := pause(n, wait, 0), pause(n, wait, 1)
		if high-low < low {
			t.Fatalf("attempt %d comes after %v to %v: all come together", n, low, high)
		}
		switch soon := most < 5*time.Second; {
		case soon && high > 200*time.Millisecond:
			t.Fatalf("attempt %d, after %v, comes only after %v", n, most, high)
		case n > quickly && (low != wait || high != 2*wait):
			t.Fatalf("attempt %d comes after %v to %v", n, low, high)
		}
		least, most = least+low, most+high
	}
	if least < quickly*wait {
		t.Errorf("%d attempts in %v", 2*quickly, least)
	}
}
