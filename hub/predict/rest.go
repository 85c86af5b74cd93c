package predict

import "time"

// Gate learns what forecasts leave over, and adds it while that saves errors. Package hub/predict/tree has
// one.
type Gate interface {
	// Add is what to add to a forecast: 0 while the gate is shut. Where there are slopes, the forecast is a
	// line that rises so with the features at least, and what is added makes it fall nowhere.
	Add(x, slopes []float64) float64
	// Least is at most what Add says where there are slopes, and found sooner.
	Least(x, slopes []float64) float64
	// Learn takes in what came less what was forecast with nothing added.
	Learn(x, slopes []float64, left, weight float64)
	// Mute shuts the gate until it has shown anew that it saves errors.
	Mute()
	// Changes counts what may have changed what Add says.
	Changes() uint64
	// Open reports whether anything is added, and Openings how often that began.
	Open() bool
	Openings() int
	// Saved is all that it has learned, and Restore goes on from there, or leaves it as it was.
	Saved() ([]byte, error)
	Restore([]byte) error
}

// Gates makes a gate for so many features. nil: nothing is added to lines and means.
type Gates func(features int) Gate

// rest is what first tokens take beyond the line of their class, by the tokens to compute, how long the
// prompts before take by the line, and how long what decodes does. Of a line that says more where there is
// more of one of these it makes no forecast that says less.
type rest struct {
	gate Gate
	last [lastKept]addition
	x, s [restFeatures]float64 // scratch
}

// addition is what was added: a round asks it of a task for one agent after the other, and many have as much
// in hand, or nothing.
type addition struct {
	changes                uint64 // of the gate
	known                  bool
	u, queue, beside, rise float64
	added                  time.Duration
}

// lastKept is how many of these are kept, by what is in hand: as many as two bits tell apart.
const lastKept = 4

const (
	// restFeatures are thousands of tokens, and twice milliseconds.
	restFeatures = 3
	// mostRests is how many classes of a hub have a gate, of trees some 6 MB at most. Others are forecast by
	// their lines.
	mostRests = 32
	// mostTimes is how many times what the line says a forecast may be, or what part of it.
	mostTimes = 2
)

func newRest(gates Gates) *rest { return &rest{gate: gates(restFeatures)} }

// mute ends what is added, until it has shown anew that it saves errors: engines are not as they were.
func (r *rest) mute() {
	if r != nil {
		r.gate.Mute()
	}
}

// points are what the gate goes by, and how the line rises with that, at least.
func (r *rest) points(b *line, u, queue, beside float64) (x, slopes []float64) {
	r.x = [...]float64{u, queue, max(0, beside)}
	r.s = [...]float64{b[1], 1, 1}
	return r.x[:], r.s[:]
}

// opened reports whether anything is added.
func (r *rest) opened() bool { return r != nil && r.gate.Open() }

// add is what to add to what a class's line says of a task that has so many thousand tokens to compute, where
// the agent has so much in hand.
func (r *rest) add(b *line, u float64, delay Delay) time.Duration {
	if !r.opened() {
		return 0
	}
	x, s := r.points(b, u, ms(delay.Queue), ms(delay.All-delay.Queue))
	k := &r.last[uint64(delay.All)*0x9e3779b97f4a7c15>>62]
	if k.known && k.changes == r.gate.Changes() && k.u == x[0] && k.queue == x[1] && k.beside == x[2] &&
		k.rise == s[0] {
		return k.added
	}
	*k = addition{r.gate.Changes(), true, x[0], x[1], x[2], s[0], within(r.gate.Add(x, s))}
	return k.added
}

// least is at most what add says, and found sooner.
func (r *rest) least(b *line, u float64, delay Delay) time.Duration {
	if !r.opened() {
		return 0
	}
	x, s := r.points(b, u, ms(delay.Queue), ms(delay.All-delay.Queue))
	return within(r.gate.Least(x, s))
}

// within makes milliseconds a time of an hour at most, before or after.
func within(ms float64) time.Duration {
	return time.Duration(min(max(ms, -3.6e6), 3.6e6) * float64(time.Millisecond))
}

// learn takes in what the line left over.
func (r *rest) learn(b *line, x *point, left, weight float64) {
	queue := float64(b[3] * x[3])
	p, s := r.points(b, x[1], queue, float64(b[4]*x[4])+float64(b[5]*x[5]))
	r.gate.Learn(p, s, left, weight)
}
