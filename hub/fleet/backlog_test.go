package fleet

import (
	"testing"
	"time"

	"souk/hub/estimate"
)

// pace is an agent's of which all is known, or nothing: a first token takes as much longer as there is to
// compute, and a millisecond for each task beside it.
type pace struct {
	slowest, token time.Duration
	first, prompt  time.Duration // for an empty prompt, and for each token; 0: not known
}

func (p pace) Delay(in estimate.Load) estimate.Delay {
	return estimate.Delay{All: in.Left + time.Duration(in.Decoding)*time.Millisecond, Queue: in.Left}
}
func (p pace) Token(estimate.Load) time.Duration { return p.token }
func (p pace) SlowestITL() time.Duration         { return p.slowest }
func (p pace) AtMost(tokens int) (time.Duration, bool) {
	return p.first + time.Duration(tokens)*p.prompt, p.prompt > 0
}
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
	if a.Backlog(now) != (estimate.Delay{}) || a.Besides() != 0 {
		t.Error("an idle agent has something in hand")
	}
	a.Begin("ann", "long", y.turn.Now(), time.Minute)
	a.Computes(now, 1000, time.Second, time.Second)
	if got := a.Backlog(now); got.Queue != time.Second || got.All != got.Queue {
		t.Errorf("behind a prompt of a second: %+v", got)
	}
	if got := a.Besides(); got != 1 {
		t.Errorf("once that is computed %d run beside another", got)
	}
	a.Begin("ann", "replayed", y.turn.Now(), time.Minute) // of which the prompt is not known
	if got := a.Load(now); got.Waiting != 1 || got.Decoding != 1 {
		t.Errorf("a task of which it is known that it runs: %+v", got)
	}
	if got := a.Backlog(now); got.All != got.Queue {
		t.Errorf("it comes when one of the two has ended, and is slowed by none: %+v", got)
	}
	y.says(a, 1, 3)
	if got := a.Load(now); got.Decoding != 2 || a.Vacant(y.turn.Nano()) != 0 {
		t.Errorf("the agent counts one more: %+v", got)
	}
	a.Computed("ann", "long", time.Millisecond)
	a.End("ann", "long")
	if got := a.Load(now); got.Waiting != 0 || a.Running() != 2 {
		t.Errorf("the long one has ended: %+v", got)
	}
}

// An agent is given the time for a token that it was seen to take, as far as it is believed; and less, once
// what its answers take is known. For the prompt, and those before it, it has what its own rate needs.
func TestHowLongAnAnswerMayTake(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for _, c := range []struct {
		name   string
		pace   pace
		prompt int
		before int           // tokens of the prompt of another task there
		says   time.Duration // by its operator, for the first event
		within time.Duration
	}{
		{"nothing is known", pace{}, 40, 0, 0, 100*s + 10*s},
		{"it is slow", pace{slowest: 2500 * ms}, 40, 0, 0, 100*s + 25*s},
		{"it claims a minute", pace{slowest: time.Minute}, 40, 0, 0, 100*s + 40*s},
		{"what its answers take is known", pace{slowest: 250 * ms, token: 20 * ms}, 40, 0, 0,
			100*s + 10*(20*ms+50*time.Microsecond)},
		{"a first token is expected later", pace{first: 107 * s}, 40, 0, 0, 107*s + 10*s},
		{"a long prompt", pace{first: 7 * s}, 10_000, 0, 0, 400*s + 10*s},
		{"behind another", pace{first: 7 * s}, 10_000, 5000, 0, 600*s + 10*s},
		{"its rate is known", pace{first: 2 * s, prompt: ms}, 40, 0, 0, 2040*ms + 10*s},
		{"it takes 28 ms for a token of a prompt", pace{prompt: 28 * ms}, 10_000, 0, 0, 280*s + 10*s},
		{"and behind another", pace{prompt: 28 * ms}, 10_000, 5000, 0, 420*s + 10*s},
		{"it computes 100,000 a second", pace{prompt: 10 * time.Microsecond}, 10_000, 0, 0, 100*ms + 10*s},
		{"its operator gives it five minutes", pace{}, 40, 0, 300 * s, 300*s + 10*s},
		{"and a day", pace{}, 10_000, 0, 24 * time.Hour, time.Hour + 10*s},
		{"it was cut after an hour", pace{prompt: s}, 10_000, 0, 0, time.Hour + 10*s},
	} {
		y := newYard(t)
		y.limits.SlowestITL = s
		a := y.join("a")
		a.Keeps(c.pace)
		a.reg.FirstMS = c.says.Milliseconds()
		if c.before > 0 {
			a.Begin("ann", "before", y.turn.Now(), time.Minute)
			a.Computes(y.turn.Nano(), c.before, s, s)
		}
		if first, got := y.Within(a, c.prompt, 10); got != c.within || first >= got {
			t.Errorf("%s: ten tokens may take %v, and the first %v, want %v", c.name, got, first, c.within)
		}
	}
	y := newYard(t)
	y.limits.SlowestITL = s
	a := y.join("a")
	a.Keeps(pace{prompt: ms})
	a.Engine(1)
	a.Engine(2)
	if first, _ := y.Within(a, 40, 10); first != 100*s {
		t.Errorf("an engine that was started again has its model to load, and is given %v", first)
	}
}
