package predict

import (
	"math/rand/v2"
	"testing"
	"time"
)

// What is left to compute before a new prompt is what came before it, less what was done since the last first
// token, and never less than nothing.
func TestWhatIsLeftBeforeAPrompt(t *testing.T) {
	const s = int64(time.Second)
	var q Queue
	says := func(now int64, left time.Duration, decoding, resident int) {
		t.Helper()
		if got := q.Load(now); got != (Load{left, decoding, resident}) {
			t.Errorf("at %v: %+v, want %v, %d and %d", time.Duration(now), got, left, decoding, resident)
		}
	}
	says(10*s, 0, 0, 0)
	long := q.Sent(10*s, 9000, 2*time.Second, 2100*time.Millisecond, 100, 50*time.Millisecond)
	says(10*s, 2*time.Second, 0, 0)
	says(11*s, time.Second, 0, 0)
	q.Sent(11*s, 500, 100*time.Millisecond, 1200*time.Millisecond, 4, 50*time.Millisecond)
	says(11*s, 1100*time.Millisecond, 0, 0)
	says(12*s+s/10, 100*time.Millisecond, 1, 9000) // the first has its first token, as was forecast
	says(13*s, 0, 2, 9000+18+500+4)                // and no answer is longer than it may be
	q.Ended(long, 0)
	says(13*s, 0, 1, 504)
	q.Ended(long, 0) // again
	says(13*s, 0, 1, 504)
}

// A completion that says when the first token came counts as one: the engine has gone on since with what is
// behind it.
func TestAFirstTokenThatIsKnown(t *testing.T) {
	var q Queue
	a := q.Sent(0, 100, time.Second, time.Second, 10, 0)
	q.Sent(0, 100, time.Second, 2*time.Second, 10, 0)
	q.Ended(a, 300*time.Millisecond)
	if got := q.Load(int64(500 * time.Millisecond)); got.Left != 800*time.Millisecond {
		t.Errorf("%v are left, want a second less the 200 ms since the first token", got.Left)
	}
}

// Whatever comes and goes, a queue holds no more than what runs, and says no less than nothing; at another
// hour it says the same.
func TestAnyQueue(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	for range 200 {
		var q, later Queue
		const hour = int64(time.Hour)
		var open []uint64
		now := int64(0)
		for range 100 {
			now += r.Int64N(int64(time.Second))
			if len(open) > 0 && r.IntN(2) == 0 {
				i := r.IntN(len(open))
				ttft := time.Duration(r.Int64N(int64(3*time.Second))) - time.Second
				q.Ended(open[i], ttft)
				later.Ended(open[i], ttft)
				open = append(open[:i], open[i+1:]...)
			} else {
				work, ttft := time.Duration(r.Int64N(int64(time.Second)))-time.Second/4,
					time.Duration(r.Int64N(int64(time.Second)))-time.Second/4
				prompt, output, itl := r.IntN(9000), r.IntN(100), time.Duration(r.Int64N(1e8))
				open = append(open, q.Sent(now, prompt, work, ttft, output, itl))
				later.Sent(now+hour, prompt, work, ttft, output, itl)
			}
			at := now + r.Int64N(int64(time.Second))
			l := q.Load(at)
			if l.Left < 0 || l.Decoding < 0 || l.Decoding > len(open) || l.Resident < 0 ||
				q.Len() != len(open) {
				t.Fatalf("%+v of %d tasks, %d of them open", l, q.Len(), len(open))
			}
			if m := later.Load(at + hour); m != l {
				t.Fatalf("%+v, and an hour later %+v", l, m)
			}
		}
	}
}
