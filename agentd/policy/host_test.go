package policy

import (
	"strings"
	"testing"
	"time"

	"souk/agentd/policy/guard"
	"souk/bus"
	"souk/bus/policy"
)

var start = time.Unix(1_800_000_000, 0)

// actor wants done what a test says.
type actor struct {
	policy.Policy
	events []policy.Event
	act    func(policy.Room, []policy.Effect) []policy.Effect
}

func (a *actor) Observe(e policy.Event) { a.events = append(a.events, e) }
func (a *actor) Act(_ time.Time, r policy.Room, to []policy.Effect) []policy.Effect {
	return a.act(r, to)
}

// A policy of the adapter's hook is asked when something has happened, but 50 ms after it was asked last at
// the soonest, and else once a second; one that wants more than it may is off for a minute, and named; then
// it is asked again.
func TestActsWithinRoom(t *testing.T) {
	h, asked, want := &Host{}, 0, 1
	a := &actor{act: func(r policy.Room, to []policy.Effect) []policy.Effect {
		asked++
		for range want {
			to = append(to, policy.Effect{Kind: policy.KeepAlive, Session: 1, Tokens: 1})
		}
		return to
	}}
	if h.Any() || h.Act(start) != nil || h.Watch(start, "math") != nil {
		t.Error("a host without policies does something")
	}
	h.Set(Adapter, "greedy", a)
	if !h.Any() {
		t.Error("there is a policy, and nobody says so")
	}
	now := start
	for range 100 {
		h.Act(now)
		now = now.Add(50 * time.Millisecond)
	}
	if asked != 5 {
		t.Errorf("asked %d times in 5 s in which nothing happens", asked)
	}
	asked = 0
	for range 100 {
		h.Observe(policy.Event{Kind: policy.Served, At: now})
		h.Act(now)
		now = now.Add(20 * time.Millisecond)
	}
	if asked < 30 || asked > 40 {
		t.Errorf("asked %d times in 2 s in which much happens", asked)
	}
	want = mostEffects + 1
	now = now.Add(time.Second)
	if all := h.Act(now); len(all) > 0 {
		t.Errorf("%d effects of one that wants too many", len(all))
	}
	if errs := h.Faults(); len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), "adapter: policy greedy is off") ||
		len(h.Faults()) > 0 {
		t.Errorf("faults: %v", errs)
	}
	want, asked = 1, 0
	if h.Act(now.Add(59 * time.Second)); asked != 0 || h.States(now)[0].Overruns != 1 ||
		h.States(now)[0].Why == "" {
		t.Errorf("asked %d times while off: %+v", asked, h.States(now))
	}
	if all := h.Act(now.Add(policy.OffFor)); len(all) != 1 {
		t.Errorf("it stays off: %v", all)
	}
}

// An answer of which a piece was missed, as the policy was off, is not looked at any more: what comes after
// would be read as if it followed.
func TestAnswersOfWhichAPieceIsMissed(t *testing.T) {
	g, err := guard.New([]guard.Pattern{{Name: "n", Pattern: "secret", Action: guard.Cut}})
	if err != nil {
		t.Fatal(err)
	}
	h := &Host{}
	h.Set(Guard, "patterns", g)
	w, other := h.Watch(start, "math"), h.Watch(start, "math")
	if _, cut := w.Add(start, guard.Text, "sec"); cut {
		t.Error("cut too soon")
	}
	h.Of(Guard).Call(start, "Observe", func() { panic("no") })
	if _, cut := w.Add(start, guard.Text, "ond"); cut {
		t.Error("it is off, and cuts")
	}
	on := start.Add(policy.OffFor)
	if held, cut := w.Add(on, guard.Text, "ret"); cut || held != 0 || w.Caught() != nil {
		t.Error("what was missed is taken for none")
	}
	if _, cut := other.Add(on, guard.Text, "a secret"); !cut {
		t.Error("an answer of which nothing was missed is not looked at any more")
	}
}

// What has become of a task is told as its completion says.
func TestEnded(t *testing.T) {
	h, a := &Host{}, &actor{}
	h.Set(Adapter, "listener", a)
	x := policy.Turn{Client: "ann", Session: bus.SessionKey("ann", "s"), Agent: "a-1", Role: 7}
	for _, c := range []struct {
		outcome, finish string
		kind            policy.EventKind
		stop            policy.Stop
	}{
		{bus.OutcomeDone, "tool_calls", policy.Served, policy.StopTool},
		{bus.OutcomeCancelled, "", policy.Served, policy.StopCut},
		{bus.OutcomeFailed, "", policy.Failed, policy.StopUnknown},
	} {
		h.Observe(x.Ended(start, &bus.Completion{Outcome: c.outcome, Finish: c.finish, TTFTUS: 5}))
		if e := a.events[len(a.events)-1]; e.Kind != c.kind || e.Stop != c.stop || e.Role != 7 ||
			e.Session != bus.SessionKey("ann", "s") || e.Agent != policy.IDOf("a-1") {
			t.Errorf("%s: %+v", c.outcome, e)
		}
	}
}
