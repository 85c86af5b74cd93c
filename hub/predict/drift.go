package predict

import (
	"math"
	"slices"

	"souk/bus/exact"
)

// drift notices that an agent does not answer as it did: by the test of Page and Hinkley on the logarithm of
// what was observed by what was forecast.
type drift struct {
	Mean         float64 // of the logarithms of late
	Seen         float64 // observations that it is of, at most steady
	Above, Below float64 // beyond the mean and the slack, summed up
	Off          float64 // how far they are from it, on the mean
	Last         [5]float64
	Fresh        int // answers since the last alarm, down from settling
}

const (
	slack  = 0.1
	alarm  = 3
	steady = 50
	// far is the least that answers are off for an alarm: three times as long, or a third. Less is no turn of
	// the engine, but a run of tasks that the line knows less well.
	far = 1.1
	// settling is the number of answers after an alarm during which forecasts count as uncertain.
	settling = 20
	// kept is the weight, in answers, that all observations before an alarm keep, scaled by the factor found.
	kept = 10
)

// count takes in an answer. It reports how many times as long as was forecast answers take now, where that is
// news: the middle of the last five has to say so, too, by far more than answers vary, so that one that was
// unlucky does not.
func (d *drift) count(observed, forecast float64) (times float64, news bool) {
	x := min(max(exact.Ln(max(observed, 1e-3)/max(forecast, 1e-3)), -ln10), ln10)
	copy(d.Last[:], d.Last[1:])
	d.Last[len(d.Last)-1] = x
	d.Fresh = max(0, d.Fresh-1)
	if d.Seen >= enough {
		d.Above = max(0, d.Above+x-d.Mean-slack)
		d.Below = max(0, d.Below+d.Mean-x-slack)
	}
	latest := d.Last
	slices.Sort(latest[:])
	middle := latest[len(latest)/2]
	by := min(max(far, 5*d.Off), 2)
	if d.Above > alarm && middle-d.Mean > by || d.Below > alarm && d.Mean-middle > by {
		*d = drift{Mean: d.Mean, Off: d.Off, Seen: d.Seen, Fresh: settling}
		return exact.Exp(middle), true
	}
	d.Seen = min(d.Seen+1, steady)
	d.Off += (math.Abs(x-d.Mean) - d.Off) / d.Seen
	d.Mean += (x - d.Mean) / d.Seen
	return 1, false
}

const ln10 = 2.302585092994046
