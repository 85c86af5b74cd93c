package virtual

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Of engines that are all well hardly a task is taken for lost: fewer than one in a thousand, whatever is
// asked, in traces of many kinds.
func TestHardlyATaskIsLate(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	late, tasks := 0, 0
	for _, trace := range []string{"crowd", "rag", "begin"} {
		s, err := Traces[slices.Index(TraceNames(), trace)].setting(8)
		if err != nil {
			t.Fatal(err)
		}
		s.Seed, s.Tasks, s.Length = seed, 2000, 0
		all, m, _ := sell(t, s, nil)
		late, tasks = late+len(m.Late), tasks+len(all)
		t.Logf("%s: %d of %d", trace, len(m.Late), len(all))
	}
	if float64(late) > 0.001*float64(tasks) {
		t.Errorf("%d of %d tasks were taken for lost", late, tasks)
	}
}
