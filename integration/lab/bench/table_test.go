package bench

import (
	"strings"
	"testing"
)

// A row with a multiple is judged by it alone: a machine that is three times slower reaches what a quick one
// does. The others are judged by what they are, and a row of which nothing is asked by nothing.
func TestJudging(t *testing.T) {
	per := func(limit float64, runs, bases []float64) Bar {
		return ratio("CPU per task", limit, "floor", "us", runs, bases, "")
	}
	for _, c := range []struct {
		what    string
		bar     Bar
		verdict string
		columns string
	}{
		{"a quick machine", per(2.5, []float64{240, 250, 260}, []float64{120, 125, 130}), "ok",
			"at most 2.5 x floor 250.0 us 2 x 125.0 us ok"},
		{"a slow machine", per(2.5, []float64{720, 750, 780}, []float64{360, 375, 390}), "ok",
			"at most 2.5 x floor 750.0 us 2 x 375.0 us ok"},
		{"more than its share", per(2.5, []float64{240, 250, 260}, []float64{90, 90, 90}), "short",
			"at most 2.5 x floor 250.0 us 2.78 x 90.0 us short"},
		{"run by run", per(2.5, []float64{200, 800, 210}, []float64{100, 400, 70}), "ok",
			"at most 2.5 x floor 210.0 us 2 x 100.0 us ok"},
		{"right at it", per(2, []float64{200}, []float64{100}), "ok",
			"at most 2 x floor 200.0 us 2 x 100.0 us ok"},
		{"nothing asked", per(0, []float64{900}, []float64{100}), "", "900.0 us 9 x 100.0 us"},
		{"absolute", Bar{Asked: "under 200 MB", Limit: 200, Measured: 201, Unit: "MB"}, "short",
			"under 200 MB 201.0 MB short"},
		{"absolute, reached", Bar{Asked: "under 200 MB", Limit: 200, Measured: 200, Unit: "MB"}, "ok",
			"under 200 MB 200.0 MB ok"},
		{"more is better", Bar{Asked: "at least 0.80", Limit: 0.8, Measured: 0.79, AtLeast: true}, "short",
			"at least 0.80 0.79 short"},
		{"none allowed", Bar{Asked: "no client sees an error", Measured: 0, Unit: "errors"}, "ok",
			"no client sees an error 0 errors ok"},
		{"one too many", Bar{Asked: "no client sees an error", Measured: 1, Unit: "errors"}, "short",
			"no client sees an error 1 errors short"},
	} {
		if got := c.bar.verdict(); got != c.verdict {
			t.Errorf("%s: %q, want %q", c.what, got, c.verdict)
		}
		c.bar.Name = "NAME"
		var out strings.Builder
		Write(&out, []Bar{c.bar})
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if got := strings.Join(strings.Fields(lines[len(lines)-1]), " "); got != "NAME "+c.columns {
			t.Errorf("%s: %q, want %q", c.what, got, "NAME "+c.columns)
		}
	}
}

// A row that is measured beside two references is judged by the first alone, and shows both.
func TestARowOfTwoReferences(t *testing.T) {
	x := [][]float64{{120, 130, 140}, {10, 10, 20}, {65, 65, 70}}
	b := newSolving().ratio("NAME", 2, x, "")
	if b.verdict() != "ok" || b.Also.Multiple != 12 {
		t.Errorf("%s, %g loops; want ok and 12", b.verdict(), b.Also.Multiple)
	}
	var out strings.Builder
	Write(&out, []Bar{b})
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	const want = "NAME at most 2 x search 130.0 us 2 x 65.0 us ok 12.0 x loop 10.0"
	if got := strings.Join(strings.Fields(lines[len(lines)-1]), " "); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
