package predict

import "time"

// Gate learns what forecasts leave over, and adds it while that saves errors. One is hub/predict/tree.
type Gate interface {
	// Add returns the correction to a forecast: 0 while the gate is shut. With slopes, the forecast is a line
	// that rises at least so fast with the features, and the corrected forecast still falls nowhere.
	Add(x, slopes []float64) float64
	// Learn takes in the residual of the forecast without correction.
	Learn(x, slopes []float64, left, weight float64)
	// Mute shuts the gate until it has shown anew that it saves errors.
	Mute()
	// Open reports whether anything is added.
	Open() bool
	// Saved returns everything that it has learned; Restore goes on from there, or leaves it as it was.
	Saved() ([]byte, error)
	Restore([]byte) error
}

// Gates makes a gate for so many features. nil: nothing is added to lines and means.
type Gates func(features int) Gate

// rest forecasts the residuals of a class's line for first tokens, by the tokens to compute, the line's time
// for the prompts before, and that for the tasks that decode. Where the line rises with one of these, the
// corrected forecast does not fall.
type rest struct {
	gate Gate
	x, s [restFeatures]float64 // scratch
}

const (
	// restFeatures are thousands of tokens, and twice milliseconds.
	restFeatures = 3
	// mostRests bounds the classes of a hub that have a gate, with trees of some 6 MB at most. Others are
	// forecast by their lines.
	mostRests = 32
	// mostTimes bounds the factor by which a forecast may differ from its line, either way.
	mostTimes = 2
)

func newRest(gates Gates) *rest { return &rest{gate: gates(restFeatures)} }

// mute shuts the gate until it has shown anew that it saves errors: engines have changed.
func (r *rest) mute() {
	if r != nil {
		r.gate.Mute()
	}
}

// points returns the gate's features, and the least slopes with which the line rises with them.
func (r *rest) points(b *line, u, queue, beside float64) (x, slopes []float64) {
	r.x = [...]float64{u, queue, max(0, beside)}
	r.s = [...]float64{b[1], 1, 1}
	return r.x[:], r.s[:]
}

// add returns the correction to a class's line for a task of so many thousand tokens, under such a load.
func (r *rest) add(b *line, u float64, delay Delay) time.Duration {
	if r == nil || !r.gate.Open() {
		return 0
	}
	x, s := r.points(b, u, ms(delay.Queue), ms(delay.All-delay.Queue))
	return time.Duration(min(max(r.gate.Add(x, s), -3.6e6), 3.6e6) * float64(time.Millisecond))
}

// learn takes in a residual of the line.
func (r *rest) learn(b *line, x *point, left, weight float64) {
	queue := float64(b[3] * x[3])
	p, s := r.points(b, x[1], queue, float64(b[4]*x[4])+float64(b[5]*x[5]))
	r.gate.Learn(p, s, left, weight)
}
