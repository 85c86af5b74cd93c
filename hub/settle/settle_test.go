package settle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/hub/turn"
	"souk/ledger"
	"souk/market"
)

const paidIn = market.Credits(1_000_000)

// house is a room over a book in which ann has money, and the hub that has its tasks and agents.
type house struct {
	testing.TB
	turn  turn.Turn
	room  *Room
	holds []*Hold
	ends  map[string]int

	agent     Agent    // as all are
	largest   int      // slots that one has, and that are free elsewhere
	elsewhere bool     // another agent would serve any task
	said      []string // what became of tasks, in words
	done      *bus.Result
}

func (h *house) Agent(*Hold) Agent { return h.agent }

func (h *house) Spoke(x *Hold, m bus.Message) { h.say(x, "spoke") }

func (h *house) Avoid(x *Hold, e Event) { h.say(x, "avoided: "+string(e)) }

func (h *house) HandOut(x *Hold, d *bus.Dispatch) turn.Placed {
	h.say(x, "handed out")
	return turn.Placed{Free: true}
}

func (h *house) Answer(x *Hold, a *bus.Answer) bool {
	if a.Accepted != nil {
		h.say(x, "served by "+a.Accepted.Agent)
	} else {
		h.say(x, "answered "+string(a.Result.Code))
	}
	return true
}

func (h *house) Refuse(m *bus.Task, code bus.Code, _ time.Duration, why string) {
	h.said = append(h.said, fmt.Sprintf("%s refused %s: %s", m.ID, code, why))
}

func (h *house) Others(*Hold) (largest, free int) { return h.largest, h.largest }

func (h *house) Wait(x *Hold, elsewhere bool) func() {
	switch {
	case !elsewhere:
		return func() { h.say(x, "waits again") }
	case !slices.Contains(x.Task.FailedAt, x.Rec.Agent):
		h.Errorf("%s is to go from an agent that is not known to have failed it", x.ID)
	case h.elsewhere:
		return func() { h.say(x, "waits for another agent") }
	}
	return nil
}

func (h *house) Ended(x *Hold, how Ending) {
	h.say(x, fmt.Sprintf("%s by %s", x.State, how.Event))
}

func (h *house) Done(x *Hold, r *bus.Result, tell bool) {
	h.say(x, fmt.Sprintf("done %q: %s", r.Code, r.Message))
	h.done = r
}

func (h *house) say(x *Hold, what string) { h.said = append(h.said, x.ID+" "+what) }

// only checks what was said since it was last asked.
func (h *house) only(want ...string) {
	h.Helper()
	if !slices.Equal(h.said, want) {
		h.Errorf("said:\n%s\nwant:\n%s", strings.Join(h.said, "\n"), strings.Join(want, "\n"))
	}
	h.said = nil
}

// pass lets time pass.
func (h *house) pass(d time.Duration) {
	h.turn.Advance(h.turn.Now().Add(d))
	h.turn.Ring()
}

func newHouse(t testing.TB) *house {
	h := &house{TB: t, turn: turn.New("hub-math", "math", ledger.NewBook(), [32]byte{1}),
		ends: map[string]int{}}
	h.turn.Leading, h.turn.Epoch = true, 1
	h.turn.Advance(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	h.room = New(&h.turn, Limits{MaxRefusals: 3,
		MaxKnown: 100, KeepBodies: 10, Hedge: Hedging{On: true}}, h)
	h.agent, h.largest = Agent{Known: true, Boot: 1}, 8
	for _, r := range []ledger.Record{ledger.NewOpen("hub-math", ledger.RoleHub, "math", h.turn.Salt()),
		ledger.NewAccept("hub-math", 1, "ann", paidIn, h.turn.Salt())} {
		if err := h.turn.Commit(r); err != nil {
			t.Fatal(err)
		}
	}
	h.turn.Wrote = func(f *ledger.Frame) {
		for _, r := range f.Records {
			switch r.Kind {
			case ledger.KindVoid:
				h.ends[r.Void.Hold]++
			case ledger.KindCapture:
				h.ends[r.Capture.Hold]++
			}
		}
	}
	return h
}

// hold records a hold, of which nothing has happened yet.
func (h *house) hold() *Hold { return h.holdOf(func(*ledger.Hold) {}) }

func (h *house) holdOf(change func(*ledger.Hold)) *Hold {
	x := &Hold{ID: ledger.HoldID("hub-math", uint64(len(h.holds)+1), 0), Task: &Task{Reply: "reply.ann.t"},
		Msg:      &bus.Task{Client: "ann", ID: "t", Reply: "reply.ann.t", Body: []byte("{}")},
		Deadline: h.turn.Now().Add(time.Minute), Sent: h.turn.Now(),
		Expires: h.turn.Now().Add(time.Minute), Most: 100,
		Timeout: 500 * time.Millisecond, First: 600 * time.Millisecond, Watch: time.Second,
		Verified: 30, Award: market.Award{SlotPrice: 4, Toll: -3}, Own: 2}
	x.Rec = ledger.Hold{Client: "ann", Task: "t", Agent: "a-1", Model: "llama",
		Round: uint64(len(h.holds) + 1), Kind: bus.DispatchTask, Amount: 1000, Premium: 10, Fee: 10,
		Quoted: 200, Price: market.Price{Miss: 1e6, Hit: 1e5, Out: 2e6}, Settle: market.SettleMetered,
		Prompt: 100, Output: 10, MaxTokens: 50, Expires: x.Expires.UnixNano(), Boot: 1}
	change(&x.Rec)
	_, prev := h.turn.Book.LastRound()
	round := market.Round{Domain: "math", Number: x.Rec.Round, Prev: prev, Rule: market.DefaultRule}
	won := market.Outcome{Awards: []market.Award{{}}}
	rec := x.Rec
	if err := h.turn.Commit(ledger.NewRound("hub-math", round, won, h.turn.Salt()),
		h.turn.Book.NewHold(x.ID, &rec, h.turn.Salt())); err != nil {
		h.Fatal(err)
	}
	h.holds = append(h.holds, x)
	return x
}

// begun records a hold and hands its task out.
func (h *house) begun() *Hold {
	x := h.hold()
	h.room.Begin(x)
	return x
}

// happen has an event find a hold. other says what of that which an event may bring is so.
func (h *house) happen(x *Hold, e Event, other int) {
	h.elsewhere = other%2 == 0
	switch rule := x.State.On(e); {
	case rule.Not != "":
		h.room.happens(x, e)
	case e == Awarded:
		h.room.Begin(x)
	case e == Found:
		h.room.Found(x)
	case rule.To == Captured:
		h.must(h.room.Completed(&bus.Completion{Hold: x.ID, Agent: "a-1", Boot: 1, Outcome: bus.OutcomeDone,
			Usage: market.Usage{Prompt: 100, Output: other % 80}, Cost: market.Credits(other)}, nil))
	case rule.To == Void:
		h.room.void(x, e, agentFailed("so it is"))
	default:
		h.room.happens(x, e)
	}
}

func (h *house) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// check compares the room with the book.
func (h *house) check() {
	h.Helper()
	open, paid := 0, market.Credits(0)
	for _, x := range h.holds {
		want := 1
		if !x.State.Ended() {
			want, open = 0, open+1
		}
		if n := h.ends[x.ID]; n != want {
			h.Fatalf("%s is %s, and %d records end it", x.ID, x.State, n)
		}
		if x.State != None && x.timer.IsSet() == x.State.Ended() {
			h.Fatalf("%s is %s, and its timer is set: %v", x.ID, x.State, x.timer.IsSet())
		}
	}
	for _, b := range h.turn.Book.Balances("*") {
		if !strings.HasPrefix(b.Account, "client:") && !strings.HasPrefix(b.Account, "clearing:") {
			paid += b.Amount
		}
	}
	avail := h.turn.Book.Avail("ann")
	if n, _ := h.room.Kept(); n != open {
		h.Fatalf("%d holds are open, and the room has %d", open, n)
	}
	if n := h.turn.Book.OpenCount(); n != open || avail+paid+1000*market.Credits(open) != paidIn {
		h.Fatalf("%d holds are open, in the book %d; ann has %v, paid were %v of %v: %v", open, n, avail,
			paid, paidIn, h.turn.Book.Balances("*"))
	}
}

// Whatever happens, in any order: every hold ends at most once, as captured or void, its money is paid or
// given back once, and nothing is said or done for it after that.
func FuzzHolds(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 5, 0, 0, 11, 1, 1, 21, 0})
	f.Fuzz(func(t *testing.T, all []byte) { play(newHouse(t), all) })
}

func TestHolds(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	ended := 0
	for range 50 {
		all := make([]byte, 600)
		for i := range all {
			all[i] = byte(r.Uint32())
		}
		h := newHouse(t)
		play(h, all)
		for _, x := range h.holds {
			if x.State.Ended() {
				ended++
			}
		}
	}
	if ended < 100 {
		t.Errorf("only %d holds ended: nothing was tried", ended)
	}
}

func play(h *house, all []byte) {
	for ; len(all) >= 3; all = all[3:] {
		if k := int(all[0]) % 8; k >= len(h.holds) {
			h.happen(h.hold(), []Event{Awarded, Found}[all[1]%2], int(all[2]))
		}
		x, e := h.holds[int(all[0])%8%len(h.holds)], events[int(all[1])%len(events)]
		over := x.State.Ended()
		h.turn.Take()
		before := h.turn.Book.Balances("*")
		if h.happen(x, e, int(all[2])); over {
			if out := h.turn.Take(); !out.Empty() || !slices.Equal(h.turn.Book.Balances("*"), before) {
				h.Fatalf("%s is %s, and by %s there is to do: %+v", x.ID, x.State, e, out)
			}
		}
		h.turn.Advance(h.turn.Now().Add(time.Duration(all[2]) * time.Millisecond))
		h.check()
	}
	for _, x := range h.holds {
		if !x.State.Ended() {
			h.happen(x, Expired, 0)
		}
	}
	h.check()
	if n := h.turn.Book.OpenCount(); n != 0 {
		h.Fatalf("%d holds stay open after their time", n)
	}
}

// unwritable has no end of a hold be recorded until mend is called: a frame with an end of what is not there
// is refused.
func (h *house) unwritable(x *Hold) (mend func()) {
	h.turn.Along = func(r []ledger.Record) []ledger.Record {
		rec := x.Rec
		rec.Round = 99
		return append(r, ledger.NewVoid("hub-math", rec, "timeout", h.turn.Salt()))
	}
	return func() { h.turn.Along = nil }
}

// What cannot be recorded changes nothing, and is tried again; what has ended does not end again.
func TestWhatIsNotRecordedHasNotHappened(t *testing.T) {
	h := newHouse(t)
	x := h.begun()
	h.said = nil
	mend := h.unwritable(x)
	h.pass(x.Expires.Sub(h.turn.Now()))
	if x.State != Dispatched || len(h.turn.Out.Faults) != 1 {
		t.Fatalf("it is %s, with %v", x.State, h.turn.Out.Faults)
	}
	h.only()
	if !x.timer.At().Equal(h.turn.Now().Add(endAgain)) {
		t.Errorf("it is tried again at %v", x.timer.At())
	}
	mend()
	h.pass(endAgain)
	h.only(x.ID+" void by expired",
		x.ID+` done "timeout": the agent did not report an end in time; nothing was charged`)
	if x.State != Void || x.timer.IsSet() {
		t.Fatalf("it is %s", x.State)
	}
	h.room.capture(x, &bus.Completion{Outcome: bus.OutcomeDone})
	if h.room.voided(x, Lost, bus.CodeAgentFailed, End) || len(h.turn.Out.Faults) != 3 {
		t.Errorf("it ended again: %v", h.turn.Out.Faults)
	}
	other := h.hold()
	h.room.Found(other)
	if h.room.happens(other, Expired); other.State != Replayed || len(h.turn.Out.Faults) != 4 {
		t.Errorf("it is %s, and nothing says so: %v", other.State, h.turn.Out.Faults)
	}
	h.check()
}

// An agent that its reader has given up is looked at until its hold has ended, also where that cannot be
// recorded at first.
func TestAnAgentThatIsGivenUpIsLookedAtAgain(t *testing.T) {
	for name, c := range map[string]struct {
		is    func(*Agent)
		after time.Duration
		want  string
	}{
		"silent":    {func(a *Agent) { a.Silent = true }, lookEvery, "the agent fell silent"},
		"restarted": {func(a *Agent) { a.Boot = 2 }, 2 * time.Second, "the agent was restarted"},
	} {
		h := newHouse(t)
		x := h.begun()
		h.must(h.room.Replied(&bus.DispatchReply{Agent: "a-1", Boot: 1, Hold: x.ID}))
		h.room.Asked(x, &bus.Task{ID: "t", Resume: &bus.Resume{Agent: "a-1", Seq: 3}})
		c.is(&h.agent)
		mend := h.unwritable(x)
		h.pass(c.after)
		if x.State != Accepted || len(h.turn.Out.Faults) == 0 {
			t.Fatalf("%s: it is %s, with %v", name, x.State, h.turn.Out.Faults)
		}
		mend()
		if h.pass(lookEvery); x.State != Void || !strings.HasSuffix(h.said[len(h.said)-1], c.want) {
			t.Errorf("%s: it is %s after that: %v", name, x.State, h.said)
		}
		h.check()
	}
}

// A task goes to other agents so often and no more, by the codes that may be its agent's fault, and not where
// its client was told, or wants no more of it.
func TestMayMove(t *testing.T) {
	for _, c := range []struct {
		name  string
		with  func(*house, *Hold)
		code  bus.Code
		moves bool
		again bool // tried again, where nobody can have begun
	}{
		{"at first", func(*house, *Hold) {}, bus.CodeEngineFailed, true, true},
		{"it was not begun", func(*house, *Hold) {}, bus.CodeNoSlot, true, true},
		{"it is at fault itself", func(*house, *Hold) {}, bus.CodeBadRequest, false, true},
		{"two failed it", func(_ *house, x *Hold) { x.Task.Earlier = []string{"1", "2"} },
			bus.CodeEngineFailed, false, true},
		{"two failed it, and one did not begin", func(_ *house, x *Hold) {
			x.Task.Earlier = []string{"1", "2"}
		}, bus.CodeNoSlot, true, true},
		{"too many refused it", func(_ *house, x *Hold) { x.Task.Refusals, x.Task.Moves = 3, 3 },
			bus.CodeNoSlot, false, false},
		{"cancelled", func(h *house, x *Hold) { h.room.Cancel(x) },
			bus.CodeNoSlot, false, false},
		{"its client wants no failover", func(_ *house, x *Hold) { x.Msg.Failover = "off" },
			bus.CodeEngineFailed, false, true},
		{"its client was told that nobody knows", func(_ *house, x *Hold) { x.Task.Told = true },
			bus.CodeEngineFailed, false, false},
		{"its client was told who serves", func(h *house, x *Hold) {
			h.must(h.room.Replied(&bus.DispatchReply{Agent: "a-1", Boot: 1, Hold: x.ID}))
		}, bus.CodeEngineFailed, true, false},
		{"it is the rest of an answer",
			func(_ *house, x *Hold) { x.Msg.Resume = &bus.Resume{Tokens: []uint32{1}} },
			bus.CodeEngineFailed, false, true},
		{"the hub stops", func(h *house, _ *Hold) { h.turn.Draining = true },
			bus.CodeNoSlot, false, false},
		{"another leads", func(h *house, _ *Hold) { h.turn.Leading = false },
			bus.CodeNoSlot, false, false},
	} {
		h := newHouse(t)
		x := h.begun()
		x.Deadline = h.turn.Now().Add(time.Second)
		c.with(h, x)
		moves, again := h.room.mayMove(x, c.code), h.room.mayTryAgain(x)
		if moves != c.moves || again != c.again {
			t.Errorf("%s: moves %v, want %v; tried again %v, want %v", c.name, moves, c.moves, again, c.again)
		}
		h.turn.Advance(x.Deadline)
		if h.room.mayMove(x, c.code) || h.room.mayTryAgain(x) {
			t.Errorf("%s: it goes on after its deadline", c.name)
		}
	}
}

// An agent that says again what became of a hold is answered as the first time.
func TestAcknowledge(t *testing.T) {
	h := newHouse(t)
	x, other, third := h.hold(), h.hold(), h.hold()
	for _, x := range h.holds {
		h.room.Begin(x)
	}
	h.elsewhere = true
	h.must(h.room.Completed(&bus.Completion{Hold: x.ID, Agent: "a-1", Boot: 1, Outcome: bus.OutcomeFailed,
		Code: bus.CodeEngineFailed, Unsaid: true}, nil))
	h.room.void(other, Expired, unpaid{reason: bus.CodeTimeout})
	h.must(h.room.Completed(&bus.Completion{Hold: third.ID, Agent: "a-1", Boot: 1, Outcome: bus.OutcomeDone,
		Usage: market.Usage{Prompt: 1, Output: 1}}, nil))
	for _, c := range []struct {
		hold, outcome string
		want          bus.Code
	}{
		{x.ID, bus.OutcomeFailed, bus.CodeMoved}, {x.ID, bus.OutcomeDone, bus.CodeLate},
		{other.ID, bus.OutcomeFailed, bus.CodeLate}, {third.ID, bus.OutcomeDone, ""},
		{"hub-math/77/0", bus.OutcomeDone, bus.CodeLate},
	} {
		for range 2 {
			h.turn.Take()
			h.must(h.room.Completed(&bus.Completion{Hold: c.hold, Outcome: c.outcome, Inbox: "in"}, nil))
			out := h.turn.Take().Messages
			if len(out) != 1 || out[0].Subject != "in" || out[0].Body.(*bus.CompletionAck).Code != c.want {
				t.Errorf("%s, %s: %+v, want %q", c.hold, c.outcome, out, c.want)
			}
		}
	}
	if n := h.room.Counts().Late; n != 10 {
		t.Errorf("%d accounts are counted as late", n)
	}
}

// Of a late first token its agent is asked once more if it has not heard, and it counts once.
func TestAskedToGiveUp(t *testing.T) {
	h := newHouse(t)
	h.elsewhere = true
	x := h.begun()
	h.must(h.room.Replied(&bus.DispatchReply{Agent: "a-1", Boot: 1, Hold: x.ID}))
	late := func() []turn.Message {
		h.turn.Take()
		h.room.HeardLate("a-1", []string{x.ID, "hub-math/9/9"})
		return h.turn.Take().Messages
	}
	if out := late(); len(out) != 0 {
		t.Errorf("it is asked before it is late: %+v", out)
	}
	h.turn.Advance(h.turn.Now().Add(x.Watch))
	if h.largest = 0; len(late()) != 0 {
		t.Error("so many may go as the largest agent has slots")
	}
	if h.largest, h.elsewhere = 1, false; len(late()) != 0 {
		t.Error("it is asked, and no other would serve it")
	}
	h.elsewhere = true
	for range 2 {
		if out := late(); len(out) != 1 || !out[0].Body.(*bus.HoldControl).Late || h.room.spent != 1 ||
			!x.Given {
			t.Errorf("%+v, %v spent", out, h.room.spent)
		}
	}
	if n := h.room.Late("a-1"); n != 2 {
		t.Errorf("%d are late", n)
	}
	h.said = nil
	h.must(h.room.Completed(&bus.Completion{Hold: x.ID, Agent: "a-1", Boot: 1, Outcome: bus.OutcomeFailed,
		Code: bus.CodeEngineFailed, Unsaid: true}, nil))
	h.only(x.ID+" spoke", x.ID+" void by given up unsaid", x.ID+" waits for another agent")
	if n := h.room.Counts(); n != (Counts{Moved: 1, Hedged: 1}) {
		t.Errorf("%+v", n)
	}
	if h.room.Forget("a-1"); h.room.Late("a-1") != 0 {
		t.Error("it is not forgotten")
	}
}
