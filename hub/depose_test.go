package hub

import (
	"errors"
	"testing"
	"time"

	"souk/bus"
	"souk/ledger"
	"souk/ledger/journal"
	"souk/market"
)

// A hub that was deposed takes no more tasks, and settles those that it had awarded: their money is held in its journal alone.
func TestADeposedHubSettlesWhatItAwarded(t *testing.T) {
	h, d := oneRunning(t)
	h.accept(d)
	h.must(h.step(h.task("bob", "t2")))
	other := h.take("bob", "t2")
	h.accept(other)
	served := completion(h.agentOf(d), d, market.Usage{Prompt: 100, Output: 10})
	h.n.Depose(h.now)
	h.run()
	if err := h.step(h.task("ann", "t3")); !errors.Is(err, ErrNotLeading) {
		t.Errorf("a task is taken: %v", err)
	}
	h.must(h.step(served))
	if h.replica.Ended(d.Hold) != ledger.KindCapture || h.ack(d.Hold) != "ack " {
		t.Errorf("%s", h.ack(d.Hold))
	}
	h.must(h.step(served))
	if h.ack(d.Hold) != "ack " {
		t.Errorf("the repeat gets %s", h.ack(d.Hold))
	}
	if h.wake.IsZero() || h.wake.After(h.n.holds[other.Hold].expires) {
		t.Errorf("it wakes at %v", h.wake)
	}
	// Its reader gives up on the agent, and the agent fails: no other gets the task from a hub that leads nothing.
	h.must(h.step(&bus.Completion{Agent: h.agentOf(other), Boot: 1, Hold: other.Hold, Client: "bob", Task: "t2", Outcome: bus.OutcomeFailed, Code: bus.CodeEngineFailed, Unsaid: true, Inbox: "x"}))
	if h.replica.Ended(other.Hold) != ledger.KindVoid || h.running() != "" || h.replica.OpenCount() != 0 {
		t.Errorf("running %q, %d holds", h.running(), h.replica.OpenCount())
	}
	h.must(h.n.Lead(h.now, 9)) // and its frames were those of the epoch that it led
	h.run()
}

// What nobody reports ends by its own time, also at a hub that is deposed, or that was started again and waits.
func TestHoldsOfADeposedHubEnd(t *testing.T) {
	h, d := oneRunning(t)
	h.accept(d)
	h.n.Depose(h.now)
	h.run()
	again, err := NewNode(testConfig(), [32]byte{2})
	h.must(err)
	for _, f := range h.frames {
		h.must(again.Replay(f))
	}
	for _, n := range []*Node{h.n, again} {
		h.n, h.replica = n, ledger.NewBook()
		for _, f := range h.frames {
			h.must(h.replica.ApplyFrame(f))
		}
		frames := h.frames
		h.run()
		if h.wake.IsZero() {
			t.Fatal("it never wakes")
		}
		h.pass(h.wake.Sub(h.now))
		for h.replica.OpenCount() > 0 && !h.wake.IsZero() {
			h.pass(h.wake.Sub(h.now))
		}
		if h.replica.Ended(d.Hold) != ledger.KindVoid {
			t.Error("its hold has not ended")
		}
		h.now, h.frames = start, frames
	}
}

// A completion on a hold of another hub is not for us to answer: that hub has its money.
func TestAnotherHubsHold(t *testing.T) {
	h, d := oneRunning(t)
	c := completion("a-1", d, market.Usage{Prompt: 100, Output: 10})
	c.Hold = "hub-other/1/0"
	if err := h.step(c); err == nil || h.ack(c.Hold) != "none" {
		t.Errorf("%v, %s", err, h.ack(c.Hold))
	}
}

// A hub that was killed and starts again does not wait for its own lease: the lock of its journal says that nobody else can
// hold it. Another hub's leadership is waited for.
func TestAFormerLifesLeadershipIsNotWaitedFor(t *testing.T) {
	tn := newTown(t)
	tn.agent("a-1", 4, nil)
	j, err := journal.Open(tn.dir, journal.Config{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	leave := func(life string) bus.Leadership {
		entry, err := bus.EncodeEntry(&bus.HubEntry{Domain: "math", Hub: "hub-1", Journal: "hub-math", Life: life})
		if err != nil {
			t.Fatal(err)
		}
		l, err := tn.world.Registry().Elect(t.Context(), bus.HubKey("math"), entry, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Claim(t.Context(), bus.ClaimKey("a-1"), []byte(`{"agent":"a-1","domain":"math","hub":"hub-1","epoch":1}`)); err != nil {
			t.Fatal(err)
		}
		return l
	}
	dead := leave(j.Life())
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	s, stop := tn.hub(nil)
	select {
	case <-dead.Lost():
	default:
		t.Error("the former life still leads")
	}
	if !s.Leading() {
		t.Error("a hub that is ready does not lead")
	}
	until(t, "the agent is sold", func() bool { return tn.ask(request("t")) == "accepted by a-1" })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if s.Leading() {
		t.Error("a hub that has ended leads")
	}

	stranger := leave("another")
	j, err = journal.Open(tn.dir, journal.Config{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	waits, end, _ := tn.start("waits", tn.world.Registry(), j, nil)
	defer end.stop()
	if err := stranger.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-waits.Ready()
}
