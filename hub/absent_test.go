package hub

import (
	"testing"
	"time"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// quietFor lets time pass in which an agent says nothing, and the bus says of each probe whether anybody
// heard. It returns how many probes there were.
func (h *house) quietFor(d time.Duration, agent string, heard bool) (probes int) {
	h.t.Helper()
	for end := h.now.Add(d); h.now.Before(end); {
		h.now = h.now.Add(50 * time.Millisecond)
		h.n.Tick(h.now)
		h.probes = nil
		h.run()
		for _, a := range h.probes {
			if a == agent {
				probes++
				if !heard {
					h.n.Absent(h.now, agent)
					h.run()
				}
			}
		}
	}
	return probes
}

func (h *house) summarise(agent string, seq uint64) {
	h.t.Helper()
	h.must(h.step(&bus.Summary{Agent: agent, Boot: 1, Seq: seq, State: bus.StateReady, Slots: 1,
		Price: card(1, 1, 4)}))
}

// An agent whose connection has closed is gone within two seconds of its last word: what it was serving is
// void, its reader hears so, and it gets nothing more until it speaks.
func TestAnAgentThatNobodyHears(t *testing.T) {
	h, d := oneRunning(t)
	agent := h.agentOf(d)
	h.accept(d)
	if h.quietFor(2*time.Second, agent, false) < 2 {
		t.Error("it was not asked twice")
	}
	if h.replica.Ended(d.Hold) != ledger.KindVoid {
		t.Fatal("its hold is not void")
	}
	said := h.toReader()
	if len(said) != 1 || said[0].Result == nil || said[0].Result.Code != bus.CodeAgentFailed {
		t.Fatalf("the reader hears %+v", said)
	}
	if a := h.n.lookup(agent); a.free(h.n) != 0 || !a.joined {
		t.Errorf("%d slots of it are sold", a.free(h.n))
	}
	h.summarise(agent, 1)
	if h.n.lookup(agent).free(h.n) != 1 {
		t.Error("it speaks again, and is not sold")
	}
}

// An agent that is quiet and there is left alone: its connection holds, or it speaks in time.
func TestAnAgentThatIsQuietAndThere(t *testing.T) {
	h, d := oneRunning(t)
	agent := h.agentOf(d)
	h.accept(d)
	if n := h.quietFor(3*time.Second, agent, true); n < 5 {
		t.Errorf("%d probes", n)
	}
	h.summarise(agent, 1)
	if n := h.quietFor(time.Second, agent, false); n != 0 {
		t.Errorf("%d probes of an agent that spoke a second ago", n)
	}
	h.quietFor(500*time.Millisecond, agent, false) // a connection that is made again
	h.summarise(agent, 2)
	h.quietFor(time.Second, agent, false)
	if h.replica.Ended(d.Hold) != 0 {
		t.Error("its hold has ended")
	}
}

// After an outage of the bus agents come back later than we do, and are not judged meanwhile.
func TestNobodyIsGoneRightAfterAnOutage(t *testing.T) {
	h, d := oneRunning(t)
	agent := h.agentOf(d)
	h.accept(d)
	h.quietFor(5*time.Second, agent, true)
	h.n.Reconnected(h.now)
	h.run()
	if h.status.Seq == 0 || h.n.status.last != h.now {
		t.Error("no status was sent at once")
	}
	h.quietFor(1900*time.Millisecond, agent, false)
	if h.replica.Ended(d.Hold) != 0 {
		t.Fatal("it was judged too soon")
	}
	h.quietFor(time.Second, agent, false)
	if h.replica.Ended(d.Hold) != ledger.KindVoid {
		t.Error("it is not gone at all")
	}
}

// Others come back later than we do and missed what we said first: the door would send no task to a hub that
// it has not heard.
func TestAHubThatIsBackSaysSoAgain(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "m", 1, 0.5, card(1, 1, 4))
	h.pass(10 * time.Second)
	h.n.Reconnected(h.now)
	h.run()
	for range 10 {
		before := h.status.Seq
		h.pass(backEvery)
		if h.status.Seq == before {
			t.Fatalf("no status for %v, %v after it came back", backEvery, h.now.Sub(h.n.reached))
		}
	}
	h.pass(h.n.cfg.Settling)
	before := h.status.Seq
	h.pass(h.n.cfg.StatusEvery / 2)
	if h.status.Seq != before {
		t.Error("it goes on like that")
	}
}

// Of an answer that was to come at once nothing was delivered: the hub gives the task to another agent.
func TestAWholeAnswerOfAnAgentThatIsGone(t *testing.T) {
	h, first := oneRunning(t)
	h.serve(first, market.Usage{Prompt: 100, Output: 10})
	h.must(h.step(h.task("bob", "t2", func(m *bus.Task) { m.Stream = false })))
	d := h.take("bob", "t2")
	agent := h.agentOf(d)
	h.accept(d)
	other := map[string]string{"a-1": "a-2", "a-2": "a-1"}[agent]
	for range 2 {
		h.summarise(other, h.n.lookup(other).seq+1)
		h.quietFor(time.Second, agent, false)
	}
	next := h.take("bob", "t2")
	if h.agentOf(next) != other || next.Task.Attempt != 1 || h.replica.Ended(d.Hold) != ledger.KindVoid {
		t.Errorf("it goes to %s as attempt %d", h.agentOf(next), next.Task.Attempt)
	}
}
