package journal

import "time"

var epoch = time.Now()

// now is a monotonic time in microseconds.
func now() float64 { return float64(time.Since(epoch).Nanoseconds()) / 1e3 }
