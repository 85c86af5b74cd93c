package virtual

import "math"

// measured are figures that tests alone look at: tasks on the engine that had fewest, by the mean; the mean
// time to a first token, in ms; and how far beliefs of what is cached were off, in tokens a task.
func measured(all []*Request, engines int) (fewest, first, off float64) {
	tasks, served := make([]float64, engines), 0.0
	for _, r := range all {
		if r.Refused {
			continue
		}
		served++
		tasks[r.Engine]++
		first += millis(r.First - r.Arrived)
		off += math.Abs(float64(r.believed - r.Cached))
	}
	fewest = served
	for _, n := range tasks {
		fewest = min(fewest, n)
	}
	return fewest * float64(engines) / served, first / served, off / served
}
