package bench

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// drawn are turns of something that takes so many times what its base does, on a machine that slows down and
// speeds up, and on which something else has the processor now and then.
func drawn(rng *rand.Rand, n int, times float64) *turns {
	t, speed := &turns{}, 1.0
	one := func() float64 {
		x := 400 * speed * math.Exp(0.05*rng.NormFloat64())
		if rng.IntN(20) == 0 {
			x *= 1 + rng.Float64()
		}
		return x
	}
	for range n {
		speed *= math.Exp(0.1 * rng.NormFloat64())
		t.add(times*one(), one())
	}
	return t
}

// The interval holds the truth about nineteen times in twenty, is narrow enough to tell a twentieth from a
// tenth, and a change that nobody measured in turn moves nothing.
func TestTurnsSayBetweenWhichMultiples(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	const draws, n, times = 1000, 48, 1.03
	held, width := 0, 0.0
	for range draws {
		middle, low, high := drawn(rng, n, times).multiple()
		if middle < low || middle > high {
			t.Fatalf("%v is not between %v and %v", middle, low, high)
		}
		if low <= times && times <= high {
			held++
		}
		width += (high - low) / draws
	}
	if held < draws*92/100 || held > draws*98/100 || width > 0.06 {
		t.Errorf("%d of %d intervals hold the truth, and are %.3f wide", held, draws, width)
	}
}

// Of few turns the interval leaves out as much as it may, and never more: counted over all ways in which
// turns can lie on either side.
func TestIntervalsOfFewTurns(t *testing.T) {
	for n := fewestTurns; n <= 14; n++ {
		below := ranksBelow(n)
		var atMost [2]float64 // how likely so few of the means lie on one side, and one more
		for signs := range 1 << n {
			sum := 0
			for i := range n {
				sum += (i + 1) * (signs >> i & 1)
			}
			for k := range atMost {
				if sum <= below+k {
					atMost[k] += math.Exp2(-float64(n))
				}
			}
		}
		if atMost[0] > 0.025 || atMost[1] <= 0.025 {
			t.Errorf("%d turns: beyond mean %d lies the truth with %.4f, beyond the next with %.4f", n, below,
				atMost[0], atMost[1])
		}
	}
	if got := ranksBelow(400); got < 35000 || got > 36000 { // 40,100 less 1.96 * 2314
		t.Errorf("of 400 turns %d", got)
	}
}

// A row whose interval holds its limit is neither reached nor missed, and shows between what it lies.
func TestARowIsOpenWhereNobodyCanTell(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for times, want := range map[float64]string{0.9: "ok", 1.05: "open", 1.2: "short"} {
		b := drawn(rng, 48, times).bar("NAME", 1.05, "without", "us", "")
		if b.verdict() != want {
			t.Errorf("%v times: %s between %v and %v, want %s", times, b.verdict(), b.Low, b.High, want)
		}
		var out strings.Builder
		Write(&out, []Bar{b})
		shown := "(" + number(b.Low) + " to " + number(b.High) + ") x "
		if !strings.Contains(out.String(), shown) {
			t.Errorf("%q does not say %q", out.String(), shown)
		}
	}
	few := drawn(rng, fewestTurns-1, 1.05).bar("NAME", 1.05, "without", "us", "")
	if few.Low != 0 || few.High != 0 || few.verdict() == "open" {
		t.Errorf("%d turns lie between %v and %v, and are %s", fewestTurns-1, few.Low, few.High,
			few.verdict())
	}
}
