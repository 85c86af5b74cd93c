package line

import (
	"math/bits"
	"time"
)

// Full is all of what waiting is worth, in millionths.
const Full = 1_000_000

// LeftOf is what is left of the worth of waiting after so long, in millionths: all of it until the task's
// patience has passed, and none after as long again. It fades and does not break off, or a low bid could gain
// a slot at the moment when it does.
func LeftOf(waited, patience time.Duration) uint32 {
	switch {
	case waited < patience:
		return Full
	case waited-patience >= patience:
		return 0
	}
	hi, lo := bits.Mul64(uint64(2*patience-waited), Full)
	share, _ := bits.Div64(hi, lo, uint64(patience))
	return uint32(share)
}

// Fades is when, from its arrival, the worth of a task's waiting has fallen from loss, at a share of it, to
// less than other, all else equal.
func Fades(patience time.Duration, share uint32, loss, other int64) time.Duration {
	if loss <= 0 || share == 0 {
		return 0
	}
	part := min(1, float64(max(0, other))/float64(loss)*float64(share)/Full)
	return patience + time.Duration(float64(patience)*(1-part)) + 1
}
