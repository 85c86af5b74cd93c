package fleet

import (
	"fmt"
	"testing"
	"time"

	"souk/hub/estimate"
)

// pace is an agent's of which all is known, or nothing: a first token takes as much longer as there is to
// compute, and a millisecond for each task beside it.
type pace struct {
	slowest, own, token time.Duration
}

func (p pace) Delay(in estimate.Load) estimate.Delay {
	return estimate.Delay{All: in.Left + time.Duration(in.Decoding)*time.Millisecond, Queue: in.Left}
}
func (p pace) SlowestITL() time.Duration { return p.slowest }
func (p pace) OwnITL() time.Duration     { return p.own }
func (p pace) SlowestToken(in estimate.Load) (time.Duration, bool) {
	return p.token + time.Duration(in.Resident)*time.Microsecond, p.token > 0
}

// A task waits for the prompts before it, and is slowed by those that run beside it; in a slot that another
// leaves one fewer runs beside it, and the prompts before it are computed meanwhile.
func TestBacklog(t *testing.T) {
	y := newYard(t)
	a := y.join("a") // with two slots
	a.Keeps(pace{})
	now := y.turn.Nano()
	if a.Backlog(now) != (estimate.Delay{}) || a.Besides() != (estimate.Delay{}) {
		t.Error("an idle agent has something in hand")
	}
	a.Begin("ann", "long", y.turn.Now())
	a.Computes(now, 1000, 0, time.Second, time.Second, 10, time.Millisecond)
	if got := a.Backlog(now); got.Queue != Nearly(time.Second) || got.All != got.Queue {
		t.Errorf("behind a prompt of a second: %+v", got)
	}
	if got := a.Besides(); got.All != Nearly(time.Millisecond) || got.Queue != 0 {
		t.Errorf("once that is computed: %+v", got)
	}
	a.Begin("ann", "replayed", y.turn.Now()) // of which the prompt is not known
	if got := a.Load(now); got.Waiting != 1 || got.Decoding != 1 {
		t.Errorf("a task of which it is known that it runs: %+v", got)
	}
	if got := a.Backlog(now); got.All != got.Queue {
		t.Errorf("it comes when one of the two has ended, and is slowed by none: %+v", got)
	}
	y.says(a, 1, 3)
	if got := a.Load(now); got.Decoding != 2 || a.Idle() != 0 {
		t.Errorf("the agent counts one more: %+v", got)
	}
	a.Computed("ann", "long", time.Millisecond)
	a.End("ann", "long")
	if got := a.Load(now); got.Waiting != 0 || a.Running() != 2 {
		t.Errorf("the long one has ended: %+v", got)
	}
}

// An agent is given the time for a token that it was seen to take, as far as the others of its class bear
// that out; and less, once what its answers take is known.
func TestHowLongAnAnswerMayTake(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name                string
		own, others, within time.Duration
		known               time.Duration
	}{
		{"nothing is known", 100 * ms, 0, 100 * ms, 0},
		{"it is slow", 250 * ms, 0, 250 * ms, 0},
		{"it claims a minute", time.Minute, 0, 400 * ms, 0},
		{"among others that are slow", time.Minute, 200 * ms, 800 * ms, 0},
		{"with which it lies", time.Minute, time.Minute, time.Second, 0},
		{"what its answers take is known", 250 * ms, 0, 20*ms + 50*time.Microsecond, 20 * ms},
	} {
		y := newYard(t)
		y.limits.SlowestITL = 100 * ms
		a := y.join("a")
		a.Keeps(pace{slowest: c.own, token: c.known})
		for i := range 2 {
			y.join(fmt.Sprint("b", i)).Keeps(pace{own: c.others})
		}
		if got := y.Within(a, 40, 10); got != 10*c.within {
			t.Errorf("%s: ten tokens may take %v, want %v", c.name, got, 10*c.within)
		}
	}
}
