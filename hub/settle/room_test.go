package settle

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

func (h *house) reply(x *Hold, code bus.Code) {
	h.Helper()
	h.must(h.room.Replied(&bus.DispatchReply{Agent: "a-1", Boot: 1, Hold: x.ID, Code: code, Message: "so"}))
}

func (h *house) account(x *Hold, change func(*bus.Completion)) {
	h.Helper()
	c := &bus.Completion{Agent: "a-1", Boot: 1, Hold: x.ID, Outcome: bus.OutcomeDone, Inbox: "ack",
		Usage: market.Usage{Prompt: 100, Output: 10}}
	change(c)
	h.must(h.room.Completed(c, nil))
}

func unsaid(c *bus.Completion) {
	c.Outcome, c.Code, c.Unsaid, c.Usage = bus.OutcomeFailed, bus.CodeEngineFailed, true, market.Usage{}
}

// asks has the reader of a task ask for the rest of its answer, of which it has so many chunks.
func (h *house) asks(x *Hold, seq uint64) {
	h.room.Asked(x, &bus.Task{ID: "rest", Resume: &bus.Resume{Agent: "a-1", Seq: seq}})
}

// What becomes of a hold, and of its task, by what its agent and its reader say, and by what they do not.
func TestWhatBecomesOfAHold(t *testing.T) {
	const handedOut = "handed out"
	for _, c := range []struct {
		name  string
		play  func(h *house, x *Hold)
		state State
		want  []string // after it was handed out
	}{
		{"its agent serves it", func(h *house, x *Hold) {
			h.reply(x, "")
			h.account(x, func(*bus.Completion) {})
		}, Captured, []string{"spoke", "served by a-1", "spoke", "captured by served", `done "": `}},
		{"the account comes before the reply", func(h *house, x *Hold) {
			h.account(x, func(*bus.Completion) {})
		}, Captured, []string{"spoke", "captured by served", "served by a-1", `done "": `}},
		{"it is cancelled before the engine spoke", func(h *house, x *Hold) {
			h.room.Cancel(x)
			h.account(x, func(c *bus.Completion) {
				c.Outcome, c.Usage = bus.OutcomeCancelled, market.Usage{}
			})
		}, Void, []string{"spoke", "void by unused",
			`done "cancelled": cancelled before the engine had said anything: nothing is due`}},
		{"its agent has no slot", func(h *house, x *Hold) { h.reply(x, bus.CodeNoSlot) }, Void,
			[]string{"spoke", "avoided: refuses", "void by refuses", "waits again"}},
		{"one agent too many has none", func(h *house, x *Hold) {
			x.Task.Refusals = 3
			h.reply(x, bus.CodeNoSlot)
		}, Void, []string{"spoke", "avoided: refuses", "void by refuses",
			`done "no_room": agents refused it 4 times, the last a-1: no_slot`}},
		{"it asks too much of any agent", func(h *house, x *Hold) { h.reply(x, bus.CodePromptTooLong) }, Void,
			[]string{"spoke", "void by rejects the task", `done "prompt_too_long": so`}},
		{"nobody replies, and another may have it", func(h *house, x *Hold) {
			h.elsewhere = true
			h.pass(2 * time.Second)
			h.pass(2 * time.Second)
			h.pass(2 * time.Second)
			h.agent.Silent = true
			h.pass(2 * time.Second)
			h.account(x, unsaid) // it wakes up
		}, Void, []string{"avoided: no reply", handedOut, handedOut, "void by agent silent",
			"waits for another agent"}},
		{"nobody replies, and no other agent would serve it", func(h *house, x *Hold) {
			h.agent.Silent = true
			for range 4 {
				h.pass(2 * time.Second)
			}
		}, Void, []string{"avoided: no reply", handedOut, handedOut, "void by agent silent",
			"waits again"}},
		{"nobody replies for long", func(h *house, x *Hold) {
			for range 4 {
				h.pass(2 * time.Second)
			}
			h.reply(x, "")
		}, Accepted, []string{"avoided: no reply", handedOut, handedOut, "answered unknown", "spoke",
			"served by a-1"}},
		{"nobody is heard, as the bus is away", func(h *house, x *Hold) {
			h.agent.Silent = true
			h.room.Cut(true)
			for range 5 {
				h.pass(2 * time.Second)
			}
		}, Withdrawn, []string{"avoided: no reply", handedOut, handedOut, "answered unknown",
			"answered unknown"}},
		{"nobody replies for long, and then its agent vanishes", func(h *house, x *Hold) {
			for range 4 {
				h.pass(2 * time.Second)
			}
			h.agent.Silent = true
			h.pass(time.Second)
		}, Void, []string{"avoided: no reply", handedOut, handedOut, "answered unknown",
			"void by agent silent", `done "agent_failed": agent a-1 did not answer, and says nothing`}},
		{"nobody heard it the second time", func(h *house, x *Hold) {
			h.pass(2 * time.Second)
			h.reply(x, bus.CodeUnavailable)
		}, Dispatched, []string{"avoided: no reply", handedOut}},
		{"it was cancelled, and is not dispatched again", func(h *house, x *Hold) {
			h.room.Cancel(x)
			h.pass(2 * time.Second)
		}, Withdrawn, nil},
		{"its agent fails before it spoke", func(h *house, x *Hold) {
			h.elsewhere = true
			h.reply(x, "")
			h.account(x, unsaid)
		}, Void, []string{"spoke", "served by a-1", "spoke", "void by given up unsaid",
			"waits for another agent"}},
		{"no other agent would serve it then", func(h *house, x *Hold) {
			h.reply(x, "")
			h.account(x, unsaid)
		}, Void, []string{"spoke", "served by a-1", "spoke", "void by given up unsaid",
			`done "engine_failed": agent a-1: engine_failed`}},
		{"its agent fails in the midst of it", func(h *house, x *Hold) {
			h.elsewhere = true
			h.account(x, func(c *bus.Completion) { c.Outcome, c.Code, c.Relayed = bus.OutcomeFailed, "", 3 })
		}, Void, []string{"spoke", "void by failed", "served by a-1",
			`done "agent_failed": agent a-1: agent_failed`}},
		{"nobody listens at its agent, which has not replied", func(h *house, x *Hold) {
			h.agent.Dead = true
			h.room.Died(x)
		}, Void, []string{"void by agent dead", "waits again"}},
		{"nobody listens at its agent, and its reader has not had the end", func(h *house, x *Hold) {
			h.elsewhere = true
			h.reply(x, "")
			h.agent.Dead = true
			h.room.Died(x)
			h.pass(time.Minute / 2)
			h.asks(x, 0)
		}, Void, []string{"spoke", "served by a-1", "void by reader gives up", "waits for another agent"}},
		{"its reader has some of it", func(h *house, x *Hold) {
			h.elsewhere = true
			h.reply(x, "")
			h.agent.Dead = true
			h.asks(x, 3)
			h.room.Died(x)
		}, Void, []string{"spoke", "served by a-1", "void by agent silent",
			`done "agent_failed": the agent is dead`}},
		{"its agent is back, and the reader asks too late", func(h *house, x *Hold) {
			h.reply(x, "")
			h.room.Died(x)
			h.pass(deadFor)
			h.asks(x, 3)
			h.asks(x, 3)
			for range 60 {
				h.pass(lookEvery)
			}
		}, Accepted, []string{"spoke", "served by a-1",
			"rest refused duplicate: the same was asked again: that question is answered",
			"rest refused unknown: agent a-1 says that it serves the task: the way from it to you is cut"}},
		{"nobody reads it, and its agent is dead", func(h *house, x *Hold) {
			x.Unread = true
			h.reply(x, "")
			h.room.Died(x)
		}, Void, []string{"spoke", "served by a-1", "void by agent lost",
			`done "agent_failed": the agent is dead`}},
		{"its agent was started again", func(h *house, x *Hold) {
			h.room.Registered(x, &bus.Registration{Boot: 2, Former: []int64{1}})
			h.room.Registered(x, &bus.Registration{Boot: 2, Lives: []int64{2}})
			h.said = append(h.said, x.ID+" and has no account of it")
			h.room.Registered(x, &bus.Registration{Boot: 2, Lives: []int64{1, 2}})
		}, Void, []string{"and has no account of it", "void by agent lost", "waits again"}},
		{"its time is over while the bus is away", func(h *house, x *Hold) {
			h.reply(x, "")
			h.room.Cut(true)
			h.pass(time.Minute)
			h.room.Cut(false)
			h.room.Deaf()
			h.pass(repeatWithin - 1)
			h.said = append(h.said, x.ID+" and that is over")
			h.pass(1)
		}, Void, []string{"spoke", "served by a-1", "and that is over", "void by expired",
			`done "timeout": the agent did not report an end in time; nothing was charged`}},
		{"its time is over while the journal is in doubt", func(h *house, _ *Hold) {
			h.turn.Doubt = "a copy"
			for range 10 {
				h.pass(time.Minute)
			}
		}, Dispatched, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			x := h.begun()
			h.said = nil
			c.play(h, x)
			for i := range h.said {
				h.said[i] = strings.TrimPrefix(h.said[i], x.ID+" ")
			}
			h.only(c.want...)
			if h.check(); x.State != c.state {
				t.Errorf("it is %s, want %s", x.State, c.state)
			}
			moved := x.State == Void && c.want[len(c.want)-1] == "waits for another agent"
			if moved != slices.Equal(x.Task.FailedAt, []string{"a-1"}) || moved && x.Msg.Attempt != 1 {
				t.Errorf("agents that failed it: %v; its next attempt is %d", x.Task.FailedAt, x.Msg.Attempt)
			}
		})
	}
}

// What says nothing of an open hold, or not what its agent may say, changes nothing.
func TestWordsThatMeanNothing(t *testing.T) {
	h := newHouse(t)
	x := h.begun()
	h.said = nil
	for _, m := range []*bus.DispatchReply{{Agent: "a-1", Boot: 1, Hold: "hub-math/9/9"},
		{Agent: "a-2", Boot: 1, Hold: x.ID}, {Agent: "a-1", Boot: 2, Hold: x.ID}} {
		if h.room.Replied(m) == nil {
			t.Errorf("%+v means something", m)
		}
	}
	for _, c := range []*bus.Completion{{Agent: "a-1", Boot: 1, Hold: "hub-x/1/0"},
		{Agent: "a-2", Boot: 1, Hold: x.ID}, {Agent: "a-1", Boot: 2, Hold: x.ID}} {
		if h.room.Completed(c, nil) == nil || h.room.Completed(c, errors.New("no account")) == nil {
			t.Errorf("%+v means something", c)
		}
	}
	h.only()
	h.reply(x, "")
	if h.room.Replied(&bus.DispatchReply{Agent: "a-1", Boot: 1, Hold: x.ID, Code: bus.CodeNoSlot}) == nil {
		t.Error("an agent refuses what it has accepted")
	}
	h.said = nil
	if err := h.room.Completed(&bus.Completion{Agent: "a-1", Boot: 1, Hold: x.ID, Inbox: "ack"},
		errors.New("no account")); err == nil || x.State != Void {
		t.Errorf("%v, and it is %s", err, x.State)
	}
	h.only(x.ID+" spoke", x.ID+" void by unfit account",
		x.ID+` done "agent_failed": agent a-1: its account of the task is none: no account`)
	out := h.turn.Take().Messages
	if ack, ok := out[len(out)-1].Body.(*bus.CompletionAck); !ok || ack.Code != bus.CodeLate {
		t.Errorf("it is told %+v", out[len(out)-1])
	}
	h.check()
}

// The journal tells of a hold what its agent was told, and where its answer went: to its client, or to a
// reader by another name.
func TestReplayed(t *testing.T) {
	h := newHouse(t)
	x := h.hold()
	for _, c := range []struct{ reader, token, want string }{
		{"", "", "ann/t"}, {"bob", "", "bob/t"}, {"bob", "tok", "bob/tok"},
	} {
		rec := x.Rec
		rec.Reader, rec.Token = c.reader, c.token
		p := &ledger.Past{Hold: &rec, Earlier: []string{"hub-math/0/1"},
			Award: &market.Award{SlotPrice: 4, Toll: -3}, Own: 2}
		y, state := h.room.Replayed(p)
		reader, token, _ := strings.Cut(c.want, "/")
		if y.ID != x.ID || y.Rec != rec || !y.Expires.Equal(x.Expires) || !y.Deadline.Equal(x.Expires) ||
			y.Award != *p.Award || y.Own != 2 || !state.Told || state.Reply != bus.ReplyTo(reader, token) ||
			!slices.Equal(state.Earlier, p.Earlier) {
			t.Errorf("%+v, %+v", y, state)
		}
	}
}

// A hold that the journal tells of ends as ever. When its task comes again its agent is asked for it, until
// it says that it serves, or is not to serve it; whose attempt it is the journal knows, and not who asks.
func TestTakenUpAgain(t *testing.T) {
	h := newHouse(t)
	found := func(attempt int) (x *Hold, m *bus.Task) {
		x = h.holdOf(func(rec *ledger.Hold) { rec.Attempt = attempt })
		m, x.Msg, x.Most, x.Task.Told = x.Msg, nil, 0, true
		m.Attempt = 0
		h.room.Found(x)
		h.pass(time.Second)
		h.said = nil
		h.turn.Take()
		h.room.TakeUp(x, m, h.turn.Now().Add(time.Minute))
		return x, m
	}
	withdrawn := func(x *Hold) {
		t.Helper()
		out := h.turn.Take()
		n := 0
		for _, l := range out.Messages {
			if c, ok := l.Body.(*bus.HoldControl); ok && c.Withdraw && c.Hold == x.ID {
				n++
			}
		}
		if n != 1 || len(out.Dispatches) != 0 {
			t.Errorf("%s is withdrawn %d times, and %d tasks are handed out", x.ID, n, len(out.Dispatches))
		}
	}
	x, m := found(0)
	withdrawn(x)
	if x.State != Withdrawn || x.Task.Told || x.Msg != m {
		t.Errorf("it is %s", x.State)
	}
	h.pass(time.Second) // it may not have heard
	withdrawn(x)
	h.reply(x, "")
	h.account(x, func(*bus.Completion) {})
	h.only(x.ID+" spoke", x.ID+" served by a-1", x.ID+" spoke", x.ID+" captured by served",
		x.ID+` done "": `)

	for attempt := range 3 {
		x, m := found(attempt)
		h.reply(x, bus.CodeLate)
		h.only(x.ID+" spoke", x.ID+" avoided: refuses", x.ID+" void by refuses", x.ID+" waits again")
		if m.Attempt != attempt {
			t.Errorf("attempt %d is followed by %d", attempt, m.Attempt)
		}
	}

	y, _ := found(0)
	h.agent.Boot = 2
	h.room.Deaf()
	for range 8 { // what its former life had served it says within that time
		h.only()
		h.pass(time.Second)
	}
	h.only(y.ID+" void by agent silent", y.ID+" waits again")
	h.check()
}

// What the journal says of the end of a hold is so, and is heard by nobody but who asks.
func TestEndsOfTheJournal(t *testing.T) {
	h := newHouse(t)
	paid, unpaid := h.hold(), h.hold()
	for _, x := range []*Hold{paid, unpaid} {
		x.Msg = nil
		h.room.Found(x)
	}
	h.turn.Take()
	h.room.Past(&ledger.Past{Hold: &paid.Rec, Capture: &ledger.Capture{Outcome: bus.OutcomeDone}})
	h.room.Past(&ledger.Past{Hold: &unpaid.Rec, Void: &ledger.Void{Reason: string(bus.CodeLateFirst)}})
	gone := unpaid.Rec
	gone.Round = 77
	h.room.Past(&ledger.Past{Hold: &gone, Void: &ledger.Void{Reason: string(bus.CodeTimeout)}})
	h.only(paid.ID+" captured by ", paid.ID+` done "": `, unpaid.ID+" void by ",
		unpaid.ID+` done "agent_failed": the hold ended without payment`)
	if n, _ := h.room.Kept(); n != 0 || paid.Task.Accepted == nil || !h.turn.Next().IsZero() {
		t.Errorf("%d are open, served by %+v, something is due at %v", n, paid.Task.Accepted, h.turn.Next())
	}
	if out := h.turn.Take(); !out.Empty() {
		t.Errorf("there is to do: %+v", out)
	}
}

// Bodies of tasks are kept up to a limit, once each, until their tasks end.
func TestBodiesAreBounded(t *testing.T) {
	h := newHouse(t)
	h.elsewhere = true
	var all []*Hold
	for range 6 {
		x := h.begun() // of two bytes
		h.reply(x, "")
		all = append(all, x)
	}
	off := h.begun()
	off.Msg.Failover = "off"
	h.reply(off, "")
	if _, kept := h.room.Kept(); kept != 10 || all[5].Msg.Body != nil || off.Msg.Body != nil {
		t.Errorf("%d bytes are kept of at most 10", kept)
	}
	h.account(all[0], unsaid)
	again := h.hold()
	again.Task, again.Msg = all[0].Task, all[0].Msg
	h.room.Begin(again)
	h.reply(again, "")
	if _, kept := h.room.Kept(); kept != 10 {
		t.Errorf("%d bytes are kept after one went to another agent", kept)
	}
	for _, x := range all {
		h.room.Done(x.Task)
		h.room.Done(x.Task)
	}
	if _, kept := h.room.Kept(); kept != 0 {
		t.Errorf("%d bytes are kept of no task", kept)
	}
}

// A dispatch says what its hold has on record, and what the hub adds to it: no limit of its own is later than
// the time that the agent has.
func TestWhatADispatchSays(t *testing.T) {
	h := newHouse(t)
	x := h.hold()
	x.Msg.Inbox, x.Msg.Voucher, x.Task.Earlier = "in", bus.Voucher{1}, []string{"hub-math/0/1"}
	h.room.Begin(x)
	h.pass(2 * time.Second)
	out := h.turn.Take()
	if len(out.Dispatches) != 2 || !out.Placed[0].Free || out.Placed[1].Free {
		t.Fatalf("handed out: %+v, %+v", out.Dispatches, out.Placed)
	}
	d := out.Dispatches[1]
	if d.Hold != x.ID || d.Boot != 1 || d.CostCap != 990 || d.Premium != 10 || d.Quoted != 200 ||
		d.Fee != 10 || d.TimeoutMS != 500 || d.FirstMS != 500 || d.WatchMS != 500 || d.Cached != 30 ||
		d.SlotPrice != 4 || d.Toll != -3 || d.Own != 2 || d.Task.Inbox != "" || d.Task.Voucher != nil ||
		!slices.Equal(d.Earlier, x.Task.Earlier) || x.Msg.Inbox != "in" {
		t.Errorf("it says %+v", d)
	}
	for _, c := range []struct {
		settle, amount market.Credits
		want           int
	}{{0, 1000, 100}, {0, 10 + 50 + 2, 50}, {0, 10 + 2, 0}, {1, 0, 100}} {
		x.Rec.Settle, x.Rec.Amount = market.SettleMetered, c.amount
		if c.settle > 0 {
			x.Rec.Settle = market.SettleQuoted
		}
		if got := x.Covers(100); got != c.want {
			t.Errorf("%d cover %d tokens of 100, want %d", c.amount, got, c.want)
		}
	}
}
