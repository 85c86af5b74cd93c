package hub

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// oneRunning is a house where a-1 and a-2 have a slot each and ann's t1 was handed to a-1.
func oneRunning(t *testing.T) (*house, bus.Dispatch) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	h.join("a-2", "llama", 1, 0.5, card(1, 1, 4))
	h.must(h.step(h.task("ann", "t1")))
	return h, h.take("ann", "t1")
}

func TestARefusedTaskGoesElsewhere(t *testing.T) {
	h, d := oneRunning(t)
	h.pass(time.Millisecond)
	h.refuse(d, bus.CodeNoSlot)
	if h.replica.Ended(d.Hold) != ledger.KindVoid {
		t.Error("the refused hold is not void")
	}
	if got := h.running(); got != "ann/t1>a-2" {
		t.Fatalf("running %q, want it on a-2", got)
	}
	h.want("inbox.ann.t1", "")
	h.serve(h.take("ann", "t1"), market.Usage{Prompt: 100, Output: 1})

	// The agent that refused is left alone for a while, then tried again.
	h.must(h.step(h.task("ann", "t2")))
	if got := h.running(); got != "ann/t2>a-2" {
		t.Errorf("running %q: a-1 has just refused", got)
	}
	h.pass(time.Second)
	h.must(h.step(h.task("ann", "t3")))
	if got := h.running(); got != "ann/t2>a-2 ann/t3>a-1" {
		t.Errorf("running %q: a-1 may be tried again", got)
	}
}

// A refusal that lies with the task is its end.
func TestARefusalOfTheTaskIsFinal(t *testing.T) {
	h, d := oneRunning(t)
	h.refuse(d, bus.CodeBadRequest)
	h.want("inbox.ann.t1", "bad_request")
	if h.running() != "" || h.replica.OpenCount() != 0 {
		t.Error("the task was tried again")
	}
}

// Nobody answers: the task is dispatched again to the same agent, which knows the hold if it has it. It goes
// nowhere else before its hold has ended, and the client hears what is known.
func TestAnUnansweredDispatch(t *testing.T) {
	h, d := oneRunning(t)
	for n := range 2 {
		h.pass(2 * time.Second)
		if len(h.again) != n+1 {
			t.Fatalf("dispatched %d times again after %d timeouts", len(h.again), n+1)
		}
		if again := h.again[n]; !reflect.DeepEqual(again, d) {
			t.Fatalf("dispatched again as %+v, want %+v", again, d)
		}
	}
	h.pass(2 * time.Second)
	last := h.letters[len(h.letters)-1]
	if c, ok := last.Message.(*bus.StreamControl); !ok || c.Recall != d.Hold || c.Secret == 0 || c.Secret != d.Secret ||
		last.Subject != "souk.v1.agent.a-1.stream.ann" {
		t.Fatalf("the agent is not told to stop: %+v", last)
	}
	h.want("inbox.ann.t1", "")
	h.pass(2 * time.Second)
	h.want("inbox.ann.t1", "unknown")
	if h.running() != "" {
		t.Fatal("the task was handed out twice")
	}
	h.pass(10 * time.Minute)
	if h.replica.Ended(d.Hold) != ledger.KindVoid {
		t.Error("the hold did not end by its own time (I16)")
	}
	h.must(h.step(completion("a-1", d, market.Usage{Prompt: 100, Output: 5})))
	if got := h.ack(d.Hold); got != "ack late" || h.replica.Balance("agent:a-1:payable") != 0 {
		t.Errorf("a late completion: %s", got)
	}
}

// An agent that hangs answers nothing and says nothing: its hold ends, and the task goes elsewhere as another
// attempt, before its client would be told that nobody knows.
func TestAnUnansweredDispatchToASilentAgent(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	h.join("a-2", "llama", 1, 0.5, card(1, 1, 4))
	h.pass(11 * time.Second) // a hub that has just come would believe that agents are late
	h.must(h.summary("a-1", 1, nil))
	h.must(h.summary("a-2", 1, nil))
	h.must(h.step(h.task("ann", "t1")))
	d := h.take("ann", "t1")
	for n := range 3 {
		h.pass(2 * time.Second)
		h.must(h.summary("a-2", uint64(n+2), nil))
	}
	if h.replica.Ended(d.Hold) != 0 {
		t.Fatal("the hold ended early")
	}
	h.pass(2 * time.Second)
	h.want("inbox.ann.t1", "")
	next := h.take("ann", "t1")
	if h.agentOf(next) != "a-2" || next.Task.Attempt != d.Task.Attempt+1 ||
		h.replica.Ended(d.Hold) != ledger.KindVoid {
		t.Errorf("goes to %s as attempt %d, the first hold ended by %d", h.agentOf(next), next.Task.Attempt,
			h.replica.Ended(d.Hold))
	}
	h.must(h.step(completion("a-1", d, market.Usage{Prompt: 100, Output: 5}))) // it wakes
	if got := h.ack(d.Hold); got != "ack late" || h.replica.Balance("agent:a-1:payable") != 0 {
		t.Errorf("a late completion: %s", got)
	}
	h.serve(next, market.Usage{Prompt: 100, Output: 5})
	h.want("inbox.ann.t1", "accepted by a-2")
}

// The agent stopped before it began: the task is tried elsewhere.
func TestARecalledDispatchThatNeverBegan(t *testing.T) {
	h, d := oneRunning(t)
	for range 3 {
		h.pass(2 * time.Second)
	}
	c := completion("a-1", d, market.Usage{})
	c.Outcome, c.Code, c.Unsaid = bus.OutcomeFailed, bus.CodeAgentFailed, true
	h.must(h.summary("a-2", 1, nil))
	h.must(h.step(c))
	if got := h.running(); got != "ann/t1>a-2" {
		t.Errorf("running %q, want a-2", got)
	}
	if got := h.ack(d.Hold); got != "ack moved" || h.replica.Ended(d.Hold) != ledger.KindVoid {
		t.Errorf("%s, ended by %d", got, h.replica.Ended(d.Hold))
	}
}

// Only the reply was lost: the agent served, and is paid.
func TestALostDispatchReply(t *testing.T) {
	h, d := oneRunning(t)
	h.must(h.step(completion("a-1", d, market.Usage{Prompt: 100, Output: 5})))
	h.want("inbox.ann.t1", "accepted by a-1")
	if got := h.replica.Balance("agent:a-1:payable"); got != 120_000 {
		t.Errorf("the agent is due %v", got)
	}
}

// The reply comes late, after the agent was told to stop: the client hears that it was accepted, and what the
// hub itself had stopped costs nothing.
func TestALateDispatchReply(t *testing.T) {
	h, d := oneRunning(t)
	for range 3 {
		h.pass(2 * time.Second)
	}
	h.accept(d)
	h.want("inbox.ann.t1", "accepted by a-1")
	c := completion("a-1", d, market.Usage{Prompt: 100, Output: 3})
	c.Outcome = bus.OutcomeCancelled
	h.must(h.step(c))
	if h.replica.Ended(d.Hold) != ledger.KindVoid || h.running() != "" {
		t.Errorf("a task that the hub stopped was charged, or handed out again: ended by %d, running %q",
			h.replica.Ended(d.Hold), h.running())
	}
}

// An agent whose card has changed since the round refuses; that is not the task's fault.
func TestARefusalOverTheCard(t *testing.T) {
	h, d := oneRunning(t)
	h.refuse(d, bus.CodeBadTerms)
	if got := h.running(); got != "ann/t1>a-2" {
		t.Errorf("running %q, want it on a-2", got)
	}
}

func TestAnAgentThatNeverReports(t *testing.T) {
	h, d := oneRunning(t)
	h.accept(d)
	h.pass(10 * time.Minute)
	var told *bus.Result
	for _, l := range h.letters {
		if c, ok := l.Message.(*bus.Chunk); ok && l.Subject == "souk.v1.reply.ann.t1" {
			told = c.Result
		}
	}
	if told == nil || told.Code != bus.CodeTimeout || told.Paid() != 0 || told.Receipt.ID != d.Hold {
		t.Errorf("the client hears %+v", told)
	}
	if h.replica.OpenCount() != 0 || h.replica.Held("ann") != 0 {
		t.Error("money is still held")
	}
}

func TestCancel(t *testing.T) {
	h, d := oneRunning(t)
	h.accept(d)
	h.must(h.step(h.task("ann", "t2")))
	h.must(h.step(h.task("ann", "t3")))
	h.must(h.step(&bus.Cancel{Client: "ann", Task: "t3"}))
	h.want("inbox.ann.t3", "cancelled")
	h.must(h.step(&bus.Cancel{Client: "bob", Task: "t1"})) // not bob's
	h.must(h.step(&bus.Cancel{Client: "ann", Task: "t1"}))
	last := h.letters[len(h.letters)-1]
	if c, ok := last.Message.(*bus.StreamControl); !ok || !c.Cancel ||
		last.Subject != "souk.v1.agent.a-1.stream.ann" {
		t.Fatalf("the agent is not told: %+v", last)
	}
	c := completion("a-1", d, market.Usage{Prompt: 100, Output: 7})
	c.Outcome, c.Finish = bus.OutcomeCancelled, ""
	h.must(h.step(c))
	if got := h.replica.Balance("agent:a-1:payable"); got != 128_000 {
		t.Errorf("metered so far: %v, want 0.000128", got)
	}
}

// A cancelled task that an agent refuses is not tried elsewhere.
func TestCancelBeforeARefusal(t *testing.T) {
	h, d := oneRunning(t)
	h.must(h.step(&bus.Cancel{Client: "ann", Task: "t1"}))
	h.refuse(d, bus.CodeNoSlot)
	h.want("inbox.ann.t1", "cancelled")
	if h.running() != "" {
		t.Error("it was handed out again")
	}
}

// Each line is an agent's account that is not what it should be, and what is settled.
func TestHostileCompletions(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*bus.Completion)
		due    func(bus.Dispatch) market.Credits
		faults int
	}{
		{"claims a thousandfold", func(c *bus.Completion) { c.Cost *= 1000 },
			func(bus.Dispatch) market.Credits { return 140_000 }, 1},
		{"claims nothing", func(c *bus.Completion) { c.Cost = 0 },
			func(bus.Dispatch) market.Credits { return 140_000 }, 1},
		{"a million tokens", func(c *bus.Completion) { c.Usage.Output = 1e6 },
			func(d bus.Dispatch) market.Credits {
				return d.Price.Cost(market.Usage{Prompt: 100, Output: d.MaxTokens})
			}, 1},
		{"a word for its end that no record holds",
			func(c *bus.Completion) { c.Finish = strings.Repeat("é", bus.MaxName/2) },
			func(bus.Dispatch) market.Credits { return 140_000 }, 0},
		{"failed", func(c *bus.Completion) { c.Outcome, c.Code = bus.OutcomeFailed, bus.CodeEngineFailed },
			func(bus.Dispatch) market.Credits { return 0 }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, d := oneRunning(t)
			h.accept(d)
			m := completion("a-1", d, market.Usage{Prompt: 100, Output: 10})
			c.change(m)
			h.must(h.step(m))
			if got, want := h.replica.Balance("agent:a-1:payable"), c.due(d); got != want {
				t.Errorf("the agent is due %v, want %v", got, want)
			}
			if h.replica.OpenCount() != 0 || len(h.faults) != c.faults {
				t.Errorf("%d holds open, flagged %v", h.replica.OpenCount(), h.faults)
			}
		})
	}
	t.Run("of another's hold", func(t *testing.T) {
		h, d := oneRunning(t)
		if h.step(completion("a-2", d, market.Usage{Prompt: 100, Output: 10})) == nil ||
			h.replica.OpenCount() != 1 {
			t.Error("a-2 was paid for a-1's task")
		}
	})
	t.Run("impossible usage", func(t *testing.T) {
		h, d := oneRunning(t)
		h.accept(d)
		m := completion("a-1", d, market.Usage{Prompt: 100, Cached: 101})
		for range 2 { // said again it is answered again
			h.letters = nil
			h.step(m)
			if h.replica.Ended(d.Hold) != ledger.KindVoid || h.ack(d.Hold) != "ack late" ||
				h.replica.Balance(ledger.Payable("a-1")) != 0 {
				t.Errorf("%s: more cached than there was; %s", h.ack(d.Hold), h.replica.Ended(d.Hold))
			}
		}
		h.pass(time.Millisecond)
		h.must(h.step(h.task("bob", "t2")))
		if d := h.take("bob", "t2"); h.agentOf(d) != "a-1" {
			t.Error("the slot is not free")
		}
	})
	t.Run("of a hold that never was", func(t *testing.T) {
		h, d := oneRunning(t)
		d.Hold = "hub-math/99/0"
		h.must(h.step(completion("a-1", d, market.Usage{Prompt: 100})))
		if got := h.ack(d.Hold); got != "ack late" {
			t.Error(got)
		}
	})
}

// An answer that may take longer than any message can say is given the longest.
func TestTheLongestAnswer(t *testing.T) {
	h := newHouse(t, nil)
	r := registration("a-1", "llama", 1, 0.9, card(1, 1, 4))
	r.MaxModelLen = 0
	h.must(h.n.Join(h.now, r))
	h.must(h.step(h.task("ann", "t1", func(m *bus.Task) { m.MaxTokens = 1_000_000 })))
	if d := h.take("ann", "t1"); d.TimeoutMS != bus.MaxPatient || d.MaxTokens != 1_000_000 {
		t.Errorf("%d ms for %d tokens", d.TimeoutMS, d.MaxTokens)
	}
}

// An agent's new process ends what the old one ran: that is dead for certain.
func TestARestartedAgent(t *testing.T) {
	h, d := oneRunning(t)
	h.accept(d)
	h.n.Leave(h.now, "a-1")
	h.run()
	if h.replica.OpenCount() != 1 {
		t.Error("a lost lease alone ended a hold")
	}
	r := registration("a-1", "llama", 1, 0.9, card(1, 1, 4))
	r.Boot = 2
	h.must(h.n.Join(h.now, r))
	h.run()
	if h.replica.OpenCount() != 0 {
		t.Error("the hold of the dead process is open")
	}
	h.must(h.step(h.task("ann", "t2")))
	if got := h.running(); got != "ann/t2>a-1" {
		t.Errorf("running %q", got)
	}
}

// A hub that starts again keeps open holds, is paid by them, and answers repeats truthfully. What was served
// while the hub slept, or was cut off, was served in time: its agent is still telling it, and is given the
// time to.
func TestAHoldsTimeWhileItsHubIsDeaf(t *testing.T) {
	for name, c := range map[string]struct{ begin, end func(*house) }{
		"asleep":  {func(*house) {}, func(h *house) { h.n.Slept(h.now) }},
		"cut off": {func(h *house) { h.n.Disconnected(h.now) }, func(h *house) { h.n.Reconnected(h.now) }},
	} {
		for _, told := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, its agent tells it: %v", name, told), func(t *testing.T) {
				h, d := oneRunning(t)
				agent := h.agentOf(d)
				h.accept(d)
				life := h.n.holds[d.Hold].expires.Sub(h.now)
				c.begin(h)
				if name == "cut off" {
					h.pass(life + time.Minute)
				}
				h.now = h.now.Add(life + time.Minute)
				c.end(h)
				for end := h.now.Add(repeatWithin - time.Second); h.now.Before(end); {
					h.summarise(agent, h.n.lookup(agent).seq+1)
					h.pass(time.Second)
				}
				if h.replica.Ended(d.Hold) != 0 {
					t.Fatal("its hold has ended, and nobody could tell")
				}
				if told {
					h.must(h.step(completion(agent, d, market.Usage{Prompt: 100, Output: 10})))
				}
				h.pass(2 * time.Second)
				want := map[bool]ledger.Kind{true: ledger.KindCapture, false: ledger.KindVoid}[told]
				if got := h.replica.Ended(d.Hold); got != want {
					t.Errorf("it ended as %v, want %v", got, want)
				}
			})
		}
	}
}

func TestRecovery(t *testing.T) {
	h, d := oneRunning(t)
	h.accept(d)
	h.must(h.step(h.task("ann", "t2")))
	lost := h.take("ann", "t2")

	again, err := NewNode(testConfig(), [32]byte{2})
	h.must(err)
	for _, f := range h.frames {
		h.must(again.Replay(f))
	}
	if fmt.Sprint(again.Book().OpenHolds()) != fmt.Sprint(h.n.Book().OpenHolds()) ||
		again.Book().Avail("ann") != h.n.Book().Avail("ann") {
		t.Fatal("the replayed book differs (I14)")
	}
	if err := again.Lead(h.now, 6); err == nil {
		t.Error("a lower epoch leads")
	}
	h.n = again
	h.now = h.now.Add(time.Second)
	h.must(again.Lead(h.now, 8))
	h.run()
	if got := h.asked[len(h.asked)-1]; got.Op != bus.OpAllotted || got.Request.After != 1 {
		t.Errorf("the treasury is asked %+v", got)
	}
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	h.join("a-2", "llama", 1, 0.5, card(1, 1, 4))
	h.must(h.step(h.task("ann", "t3")))
	if h.running() != "" {
		t.Errorf("running %s: the slots are taken by recovered holds", h.running())
	}
	repeat := h.task("ann", "t1")
	repeat.Inbox = "repeat"
	h.must(h.step(repeat))
	h.want("repeat", "")
	if len(h.again) != 1 {
		t.Fatalf("%d dispatches were sent again", len(h.again))
	}
	same := h.again[0]
	if same.Hold != d.Hold || same.Epoch != 8 || same.CostCap != d.CostCap || same.Premium != d.Premium ||
		same.MaxTokens != d.MaxTokens || string(same.Task.Body) != string(d.Task.Body) {
		t.Errorf("dispatched again as %+v, at first as %+v", same, d)
	}
	h.accept(same) // as it had before
	h.want("repeat", "accepted by a-1")

	h.must(h.step(completion("a-1", d, market.Usage{Prompt: 100, Output: 10})))
	if got := h.ack(d.Hold); got != "ack " || h.replica.Balance("agent:a-1:payable") != 140_000 {
		t.Errorf("%s: the agent served through the restart", got)
	}
	h.must(h.step(repeat))
	h.want("repeat", "accepted by a-1") // which still has the chunks
	if got := h.running(); got != "ann/t3>a-1" {
		t.Errorf("running %q", got)
	}
	h.pass(10 * time.Minute)
	if h.replica.Ended(lost.Hold) != ledger.KindVoid {
		t.Error("a recovered hold never ends")
	}
}

// Only the agent of a hold may speak of it.
func TestARefusalByAnother(t *testing.T) {
	h, d := oneRunning(t)
	if h.step(&bus.DispatchReply{Agent: "a-2", Hold: d.Hold, Code: bus.CodeNoSlot}) == nil ||
		h.replica.OpenCount() != 1 {
		t.Error("a-2 refused a-1's task")
	}
}

// Every repeat of a completion gets the same acknowledgement, a failure's too.
func TestRepeatsAreAcknowledgedAlike(t *testing.T) {
	h, d := oneRunning(t)
	h.accept(d)
	c := completion("a-1", d, market.Usage{Prompt: 100, Output: 3})
	c.Outcome, c.Code = bus.OutcomeFailed, bus.CodeEngineFailed
	for range 3 {
		h.letters = nil
		h.must(h.step(c))
		if got := h.ack(d.Hold); got != "ack " {
			t.Errorf("%q", got)
		}
	}
}

// Refusals of dispatches that were made together are one: an agent that has not heard yet who sells it
// refuses them all, and is tried again as soon as after one.
func TestRefusalsOfOneMomentAreOne(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 8, 0.8, card(1, 1, 4))
	for i := range 8 {
		h.must(h.step(h.task("ann", fmt.Sprint("t", i))))
	}
	h.pass(h.n.cfg.Batch.MaxWait)
	for round := range 3 {
		if got := len(h.dispatched); got != 8 {
			t.Fatalf("after %d times all is refused: %d of 8 tasks are dispatched", round, got)
		}
		for i := range 8 {
			h.refuse(h.take("ann", fmt.Sprint("t", i)), bus.CodeNotClaimed)
		}
		h.pass(h.n.cfg.AvoidLeast << round)
	}
}

// A task that every agent refuses is given up after MaxRefusals, and its client is told so.
func TestRefusedEverywhere(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.MaxRefusals = 3 })
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	h.must(h.step(h.task("ann", "t1")))
	for range 4 {
		h.want("inbox.ann.t1", "")
		h.refuse(h.take("ann", "t1"), bus.CodeNotClaimed)
		h.pass(time.Second)
	}
	h.want("inbox.ann.t1", "no_room")
	if h.running() != "" {
		t.Error("it was tried a fifth time")
	}
}
