package hub

import (
	"slices"
	"testing"
	"time"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// fails is an agent's account of a dispatch that its engine broke off after some tokens; unsaid: none were
// delivered, and its reader has not been told.
func (h *house) fails(d bus.Dispatch, relayed int, unsaid bool) {
	h.t.Helper()
	h.must(h.step(&bus.Completion{Agent: h.agentOf(d), Boot: 1, Hold: d.Hold, Client: d.Task.Client,
		Task: d.Task.ID, Outcome: bus.OutcomeFailed,
		Code: bus.CodeEngineFailed, Relayed: relayed, Unsaid: unsaid, Inbox: "ack." + d.Hold}))
}

// rest is the task again, with what its reader has.
func (h *house) rest(agent string, tokens int, inbox string) *bus.Task {
	return h.task("ann", "t1", func(m *bus.Task) {
		m.Body = []byte(`{"messages":[]}`)
		m.Inbox, m.Attempt = inbox, 1
		m.Resume = &bus.Resume{Agent: agent, Seq: uint64(tokens), Tokens: make([]uint32, tokens)}
		if tokens > 0 {
			m.Resume.Text = "so far"
		}
	})
}

// toReader lists what the hub said where the chunks come.
func (h *house) toReader() (said []*bus.Chunk) {
	for _, l := range h.letters {
		if c, ok := l.Message.(*bus.Chunk); ok && l.Subject == "souk.v1.reply.ann.t1" {
			said = append(said, c)
		}
	}
	return said
}

// Nothing was delivered: the task goes to the other agent, its reader learns from a heartbeat who that is,
// and one receipt names both holds, of which the first is void.
func TestATaskThatFailedBeforeItsFirstToken(t *testing.T) {
	h, d := oneRunning(t)
	h.accept(d)
	h.fails(d, 0, true)
	if got := h.ack(d.Hold); got != "ack moved" {
		t.Errorf("%s: its agent would tell the reader", got)
	}
	if h.replica.Ended(d.Hold) != ledger.KindVoid {
		t.Error("the failed hold is not void")
	}
	if got := h.running(); got != "ann/t1>a-2" {
		t.Fatalf("running %q, want it on a-2", got)
	}
	next := h.take("ann", "t1")
	if next.Task.Attempt != 1 || !slices.Equal(next.Earlier, []string{d.Hold}) ||
		string(next.Task.Body) == "" || next.Task.Resume != nil {
		t.Errorf("dispatched as %+v", next)
	}
	h.serve(next, market.Usage{Prompt: 100, Output: 10})
	said := h.toReader()
	if len(said) != 1 || !said[0].Heartbeat || said[0].Agent != "a-2" || said[0].Attempt != 1 {
		t.Errorf("the reader hears %+v", said)
	}
	if r := h.n.known[taskKey{"ann", "t1"}].final; r.Code != "" || r.Agent != "a-2" ||
		!slices.Equal(r.Receipt.Earlier, []string{d.Hold}) {
		t.Errorf("%+v", r)
	}
	if h.replica.Held("ann") != 0 || h.replica.OpenCount() != 0 {
		t.Error("money is still held")
	}
}

// A repeated completion gets the same word, so that the reader is not told of a failure that was none.
func TestAMovedTaskIsAcknowledgedTwice(t *testing.T) {
	h, d := oneRunning(t)
	h.accept(d)
	c := &bus.Completion{Agent: h.agentOf(d), Boot: 1, Hold: d.Hold, Outcome: bus.OutcomeFailed,
		Code: bus.CodeEngineFailed, Unsaid: true, Inbox: "ack"}
	h.must(h.step(c))
	h.letters = nil
	h.must(h.step(c))
	if got := h.ack(d.Hold); got != "ack moved" {
		t.Errorf("%s, want ack moved", got)
	}
}

// An agent may serve, fail and say so before its reply to the dispatch is read: the reader has chunks, so it
// hears first that it was accepted, and can have the answer go on elsewhere.
func TestAFailureBeforeTheDispatchReply(t *testing.T) {
	h, d := oneRunning(t)
	h.fails(d, 2, false)
	h.want("inbox.ann.t1", "accepted by a-1")
	h.must(h.step(h.rest("a-1", 2, "inbox.again")))
	if got := h.running(); got != "ann/t1>a-2" {
		t.Fatalf("running %q, want the rest on a-2", got)
	}
}

func TestATaskThatIsNotMoved(t *testing.T) {
	for name, f := range map[string]func(h *house, d bus.Dispatch){
		"its reader was told": func(h *house, d bus.Dispatch) { h.fails(d, 0, false) },
		"nobody else is there": func(h *house,
			d bus.Dispatch) {
			h.n.Leave(h.now, "a-2")
			h.fails(d, 0, true)
		},
		"its client cancelled it": func(h *house, d bus.Dispatch) {
			h.must(h.step(&bus.Cancel{Client: "ann", Task: "t1"}))
			h.fails(d, 0, true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, d := oneRunning(t)
			h.accept(d)
			f(h, d)
			if got := h.ack(d.Hold); got != "ack " || h.running() != "" ||
				h.replica.Ended(d.Hold) != ledger.KindVoid {
				t.Errorf("%s, running %q", got, h.running())
			}
		})
	}
}

// While a moved task waits for a slot its reader hears that it lives.
func TestAMovedTaskThatWaits(t *testing.T) {
	h, d := oneRunning(t)
	h.must(h.step(h.task("bob", "t2")))
	other := h.take("bob", "t2")
	h.accept(d)
	h.accept(other)
	h.fails(d, 0, true)
	for range 8 {
		h.pass(500 * time.Millisecond)
	}
	if n := len(h.toReader()); n != 2 {
		t.Errorf("%d heartbeats in 4 s, want 2", n)
	}
	h.serve2(other)
	if got := h.running(); got != "ann/t1>a-2" {
		t.Errorf("running %q", got)
	}
}

// The next agent of a moved task took it, and dies: its reader may have some of it. It is told, and goes on
// with what it has.
func TestAMovedTaskWhoseAgentDies(t *testing.T) {
	h, d := oneRunning(t)
	h.join("a-3", "llama", 1, 0.4, card(1, 1, 4))
	h.accept(d)
	h.fails(d, 0, true)
	next := h.take("ann", "t1")
	h.accept(next)
	reborn := registration("a-2", "llama", 1, 0.5, card(1, 1, 4))
	reborn.Boot = 2
	h.must(h.n.Join(h.now, reborn))
	h.run()
	if got := h.running(); got != "" {
		t.Fatalf("running %q from its beginning, under attempt %d, which has one", got,
			h.dispatched[0].Task.Attempt)
	}
	said := h.toReader()
	if last := said[len(said)-1]; last.Result == nil || last.Result.Code != bus.CodeAgentFailed ||
		last.Attempt != 1 {
		t.Errorf("the reader hears %+v", last)
	}
	h.must(h.step(h.rest("a-2", 40, "again")))
	if got := h.running(); got != "ann/t1>a-3" {
		t.Fatalf("running %q, answer %q", got, h.answerTo("again"))
	}
	rest := h.take("ann", "t1")
	if rest.Task.Attempt != 2 || !slices.Equal(rest.Earlier, []string{d.Hold, next.Hold}) {
		t.Errorf("dispatched as %+v", rest)
	}
}

// A reader gives the next agent of a moved task up before that has answered, and then it refuses: the reader
// hears who serves.
func TestAMovedTaskThatIsRefused(t *testing.T) {
	h, d := oneRunning(t)
	h.join("a-3", "llama", 1, 0.4, card(1, 1, 4))
	h.accept(d)
	h.fails(d, 0, true)
	next := h.take("ann", "t1")
	h.must(h.step(h.rest("a-2", 0, "again")))
	h.want("again", "")
	h.refuse(next, bus.CodeNoSlot)
	if got := h.running(); got != "ann/t1>a-3" {
		t.Fatalf("running %q, answer %q", got, h.answerTo("again"))
	}
	h.accept(h.take("ann", "t1"))
	h.want("again", "accepted by a-3")
}

// serve2 completes a dispatch that was accepted.
func (h *house) serve2(d bus.Dispatch) {
	h.t.Helper()
	h.must(h.step(completion(h.agentOf(d), d, market.Usage{Prompt: 100, Output: 10})))
}

// What was delivered comes back from the reader: the rest is a new award, of the same model, with what is
// left of max_tokens, by another agent, whether the reader or the agent speaks first.
func TestTheRestOfAnAnswer(t *testing.T) {
	for name, first := range map[string]string{"the agent speaks first": "agent",
		"the reader speaks first": "reader"} {
		t.Run(name, func(t *testing.T) {
			h, d := oneRunning(t)
			h.accept(d)
			if first == "agent" {
				h.fails(d, 40, false)
			}
			h.must(h.step(h.rest("a-1", 40, "again")))
			if first == "reader" {
				h.want("again", "")
				h.fails(d, 40, false)
			}
			if got := h.running(); got != "ann/t1>a-2" {
				t.Fatalf("running %q, want it on a-2; answer %q", got, h.answerTo("again"))
			}
			next := h.take("ann", "t1")
			if next.Task.Attempt != 1 || next.Whole != d.MaxTokens ||
				next.MaxTokens != d.MaxTokens-40+backOffBound || next.Model != "llama" ||
				len(next.Task.Resume.Tokens) != 40 || !slices.Equal(next.Earlier, []string{d.Hold}) {
				t.Errorf("dispatched as %+v", next)
			}
			h.serve(next, market.Usage{Prompt: 140, Output: 20})
			h.want("again", "accepted by a-2")
			if h.replica.Ended(d.Hold) != ledger.KindVoid ||
				h.replica.Ended(next.Hold) != ledger.KindCapture || h.replica.Held("ann") != 0 {
				t.Error("the first hold is to be void, the second captured, and nothing held")
			}
			if h.n.open != 0 || h.n.bodies != 0 {
				t.Errorf("%d tasks open, %d bytes of bodies kept", h.n.open, h.n.bodies)
			}
		})
	}
}

// What only parsers can tell goes on where an engine lends its own.
func TestTheRestOfAnAnswerWithTools(t *testing.T) {
	for name, features := range map[string][]string{"lent": {bus.Parsers}, "not lent": nil} {
		t.Run(name, func(t *testing.T) {
			h, d := oneRunning(t)
			third := registration("a-3", "llama", 1, 0.1, card(1, 1, 4))
			third.Features = features
			h.must(h.n.Join(h.now, third))
			h.accept(d)
			h.fails(d, 40, false)
			rest := h.rest("a-1", 40, "again")
			rest.Body = []byte(`{"messages":[],"tools":[{"type":"function"}]}`)
			h.n.known[taskKey{"ann", "t1"}].digest = contentDigest(rest)
			h.must(h.step(rest))
			if features == nil {
				h.want("again", string(bus.CodeAgentFailed))
				if h.running() != "" {
					t.Errorf("running %q", h.running())
				}
			} else if got := h.running(); got != "ann/t1>a-3" {
				t.Errorf("running %q, want it on a-3, worst as it is", got)
			}
		})
	}
}

// A reader who lost the hub's answer asks again for the same: the task goes on once, and whoever asks hears
// where.
func TestTheRestIsAskedForTwice(t *testing.T) {
	h, d := oneRunning(t)
	h.must(h.step(h.task("bob", "t2"))) // on the other agent, so that the rest has to wait
	other := h.take("bob", "t2")
	h.accept(d)
	h.accept(other)
	h.must(h.step(h.rest("a-1", 40, "first")))
	h.must(h.step(h.rest("a-1", 40, "second"))) // its agent may be serving it
	h.want("first", string(bus.CodeDuplicate))
	h.fails(d, 40, false)
	h.must(h.step(h.rest("a-1", 40, "third"))) // it waits
	h.serve2(other)
	next := h.take("ann", "t1")
	h.accept(next)
	h.want("second", "accepted by a-2")
	h.want("third", "accepted by a-2")
	h.must(h.step(h.rest("a-1", 40, "fourth"))) // it runs
	h.want("fourth", "accepted by a-2")
	h.serve2(next)
	h.must(h.step(h.rest("a-1", 40, "fifth"))) // it has ended: its agent still has the chunks
	h.want("fifth", "accepted by a-2")
	h.must(h.step(h.rest("a-2", 41, "sixth")))
	h.want("sixth", string(bus.CodeAgentFailed))
	if h.replica.Ended(d.Hold) != ledger.KindVoid || h.replica.Ended(next.Hold) != ledger.KindCapture ||
		h.replica.OpenCount() != 0 {
		t.Error("the first hold is to be void, the second captured, and no other there")
	}
}

// A reader's word moves no money: an answer that was served to its end stays paid, and an agent that the hub
// hears is not given up.
func TestAReaderThatIsNotRight(t *testing.T) {
	t.Run("the answer was served", func(t *testing.T) {
		h, d := oneRunning(t)
		h.serve(d, market.Usage{Prompt: 100, Output: 10})
		h.must(h.step(h.rest("a-1", 9, "again")))
		h.want("again", string(bus.CodeAnswerGone))
	})
	t.Run("it is served now", func(t *testing.T) {
		h, d := oneRunning(t)
		h.accept(d)
		h.must(h.step(h.rest("a-1", 9, "again")))
		h.serve2(d)
		h.want("again", string(bus.CodeAnswerGone))
		if h.replica.Ended(d.Hold) != ledger.KindCapture {
			t.Error("the agent is not paid")
		}
	})
	t.Run("its agent lives", func(t *testing.T) {
		h, d := oneRunning(t)
		h.accept(d)
		h.must(h.step(h.rest("a-1", 9, "again")))
		for i := range 12 {
			h.pass(time.Second)
			h.must(h.summary("a-1", uint64(i+1), nil))
		}
		h.want("again", string(bus.CodeUnknown))
		if h.replica.OpenCount() != 1 {
			t.Error("the hold has ended")
		}
	})
	t.Run("another body", func(t *testing.T) {
		h, d := oneRunning(t)
		h.accept(d)
		h.fails(d, 9, false)
		m := h.rest("a-1", 9, "again")
		m.Body = []byte(`{"messages":[{}]}`)
		h.must(h.step(m))
		h.want("again", string(bus.CodeIDConflict))
	})
	t.Run("a task of nobody", func(t *testing.T) {
		h := newHouse(t, nil)
		h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
		h.must(h.step(h.rest("a-1", 9, "again")))
		h.want("again", string(bus.CodeUnknown))
	})
}

// An agent that neither its reader nor the hub hears has failed: nothing is due, and the other goes on.
func TestASilentAgent(t *testing.T) {
	h, d := oneRunning(t)
	h.accept(d)
	h.pass(11 * time.Second)
	h.must(h.summary("a-2", 1, nil))
	h.must(h.step(h.rest("a-1", 9, "again")))
	h.pass(time.Second)
	if got := h.running(); got != "ann/t1>a-2" {
		t.Fatalf("running %q, answer %q", got, h.answerTo("again"))
	}
	late := completion("a-1", d, market.Usage{Prompt: 100, Output: 10})
	h.n.Step(h.now, late)
	h.run()
	if got := h.ack(d.Hold); got != "ack "+string(bus.CodeLate) {
		t.Errorf("%s, want late: it earns nothing", got)
	}
}

// No answer goes on twice: it may be the task that kills engines.
func TestNoAnswerGoesOnTwice(t *testing.T) {
	h, d := oneRunning(t)
	h.join("a-3", "llama", 1, 0.4, card(1, 1, 4))
	h.accept(d)
	h.fails(d, 40, false)
	h.must(h.step(h.rest("a-1", 40, "again")))
	next := h.take("ann", "t1")
	h.accept(next)
	h.fails(next, 0, true)
	if got := h.ack(next.Hold); got != "ack " || h.running() != "" {
		t.Errorf("%s, running %q", got, h.running())
	}
	h.must(h.step(h.rest("a-2", 41, "third")))
	h.want("third", string(bus.CodeAgentFailed))
}
