package fleet

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"souk/hub/estimate"
)

// sent has an agent be sent one more prompt, and returns its name, by which done says that it has ended, and
// how long its first token took; 0: that is not known.
func (a *Agent) sent(now int64, prompt int, work, ttft time.Duration) string {
	a.seq++
	task := fmt.Sprint(a.seq)
	a.Begin("ann", task, time.Unix(0, now), time.Minute)
	a.Computes(now, prompt, work, ttft)
	return task
}

func (a *Agent) done(task string, ttft time.Duration) {
	a.Computed("ann", task, ttft)
	a.End("ann", task)
}

func load(left time.Duration, waiting, decoding, resident int) estimate.Load {
	return estimate.Load{Left: left, Waiting: waiting, Decoding: decoding, Resident: resident}
}

// What is left to compute before a new prompt is what came before it, and of the prompt that is computed now
// the mean of what is left by the time since the last first token and by when its own is expected.
func TestWhatIsLeftBeforeAPrompt(t *testing.T) {
	const s = int64(time.Second)
	var q Agent
	says := func(now int64, left time.Duration, waiting, decoding, resident int) {
		t.Helper()
		if got := q.Load(now); got != load(left, waiting, decoding, resident) {
			t.Errorf("at %v: %+v, want %v, %d, %d and %d", time.Duration(now), got, left, waiting, decoding,
				resident)
		}
	}
	says(10*s, 0, 0, 0, 0)
	long := q.sent(10*s, 9000, 2*time.Second, 2100*time.Millisecond)
	says(10*s, 2*time.Second, 1, 0, 0)
	says(11*s, 1050*time.Millisecond, 1, 0, 0) // between 1 s and 1.1 s
	q.sent(11*s, 500, 100*time.Millisecond, 1200*time.Millisecond)
	says(11*s, 1150*time.Millisecond, 2, 0, 0)
	says(12*s+s/10, 100*time.Millisecond, 1, 1, 9000) // the first has its first token, as was forecast
	says(13*s, 0, 0, 2, 9000+500)
	q.done(long, 0)
	says(13*s, 0, 0, 1, 500)
	q.done(long, 0) // again
	says(13*s, 0, 0, 1, 500)
}

// A completion that says when the first token came counts as one: the engine has gone on since with what is
// behind it.
func TestAFirstTokenThatIsKnown(t *testing.T) {
	var q Agent
	a := q.sent(0, 100, time.Second, time.Second)
	q.sent(0, 100, time.Second, 2*time.Second)
	q.done(a, 300*time.Millisecond)
	if got := q.Load(int64(500 * time.Millisecond)); got.Left != 900*time.Millisecond {
		t.Errorf("%v are left, want a second less half of the 200 ms since the first token", got.Left)
	}
}

// Whatever comes and goes, a queue holds no more than what runs, and says no less than nothing; at another
// hour it says the same.
func TestAnyQueue(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	for range 200 {
		var q, later Agent
		const hour = int64(time.Hour)
		var open []string
		now := int64(0)
		for range 100 {
			now += r.Int64N(int64(time.Second))
			if len(open) > 0 && r.IntN(2) == 0 {
				i := r.IntN(len(open))
				ttft := time.Duration(r.Int64N(int64(3*time.Second))) - time.Second
				q.done(open[i], ttft)
				later.done(open[i], ttft)
				open = append(open[:i], open[i+1:]...)
			} else {
				work, ttft := time.Duration(r.Int64N(int64(time.Second)))-time.Second/4,
					time.Duration(r.Int64N(int64(time.Second)))-time.Second/4
				prompt := r.IntN(9000)
				open = append(open, q.sent(now, prompt, work, ttft))
				later.sent(now+hour, prompt, work, ttft)
			}
			at := now + r.Int64N(int64(time.Second))
			l := q.Load(at)
			if l.Left < 0 || l.Decoding < 0 || l.Decoding > len(open) || l.Resident < 0 ||
				len(q.Runs) != len(open) {
				t.Fatalf("%+v of %d tasks, %d of them open", l, len(q.Runs), len(open))
			}
			if m := later.Load(at + hour); m != l {
				t.Fatalf("%+v, and an hour later %+v", l, m)
			}
		}
	}
}

// An agent that says how many prompts are still to be computed is believed, where it must have heard of them:
// the oldest are computed first, and those behind a late one are as late.
func TestAnAgentSaysWhatItStillComputes(t *testing.T) {
	const s = int64(time.Second)
	q := Agent{}
	for range 3 {
		q.sent(0, 1000, s0, s0)
	}
	q.sent(5*s, 1000, s0, 3*s0)
	says := func(why string, now int64, want estimate.Load) {
		t.Helper()
		if l := q.Load(now); l != want {
			t.Errorf("%s: %+v, want %+v", why, l, want)
		}
	}
	says("believed", 6*s, load(s0/2, 1, 3, 3000))
	q.Said(6*s, 4*s, 0)
	says("none waits, by a word from before the last was sent", 6*s, load(s0/2, 1, 3, 3000))
	q.Said(6*s, 6*s, 3)
	says("three wait", 6*s, load(2*s0+s0/2, 3, 1, 1000))
	says("and the last is as late as those before it", 8*s+s/2+1, load(s0-1, 1, 3, 3000))
	q.Said(6*s, 6*s, 2)
	says("one has begun since", 6*s, load(2*s0, 2, 2, 2000))
	q.sent(6*s, 1000, s0, 9*s0)
	q.Said(6*s, 6*s, 0)
	says("all but the last, of which it has not heard, have begun", 6*s, load(s0, 1, 4, 4000))
	q.Said(6*s, 0, 1000)
	says("much of what it cannot have heard of", 6*s, load(s0, 1, 4, 4000))
	q.Said(6*s, 6*s, -1)
	says("less than nothing", 6*s, load(s0, 1, 4, 4000))
}

const s0 = time.Second
