package admission_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/hub/admission"
	"souk/hub/turn"
	"souk/ledger"
	"souk/market"
)

// known is a task of the tests' hub.
type known struct{ admission.Request }

// desk is a room, and what it said to whom.
type desk struct {
	*admission.Room[*known]
	turn   turn.Turn
	served admission.Served // what agents have made of any task
}

func newDesk(most int) *desk {
	d := &desk{turn: turn.New("math-1", "math", ledger.NewBook(), [32]byte{})}
	d.turn.Advance(time.Unix(1000, 0))
	d.Room = admission.NewRoom(&d.turn,
		admission.Deadlines{Deadline: time.Minute, MaxDeadline: time.Hour}, most,
		func(*known) admission.Served { return d.served })
	return d
}

// request asks for a task by a door that has heard the hub's last status.
func request(id, door, body string) *bus.Task {
	return &bus.Task{Client: "ann", ID: id, Door: door, Inbox: "to." + door, Body: []byte(body),
		Stream: true, Reply: bus.ReplyTo("ann", id),
		Prompt: bus.Prompt{Tokens: 9}, LastStatus: &bus.LastStatus{Epoch: 1, Seq: 5}}
}

// come takes a request in, and returns what it is, and what its door was told.
func (d *desk) come(m *bus.Task) (*known, string) {
	d.turn.Take()
	t, what, err := d.Come(m, &bus.LastStatus{Epoch: 1, Seq: 5}, m.LastStatus != nil && m.LastStatus.Seq < 5)
	if err != nil {
		return t, "error: " + d.said()
	}
	return t, [...]string{"answered: " + d.said(), "comes", "repeats"}[what]
}

// said returns the room's messages since, and to whom they go.
func (d *desk) said() (all string) {
	for _, l := range d.turn.Take().Messages {
		a := l.Body.(*bus.Answer)
		switch {
		case a.Accepted != nil:
			all += l.Subject + " accepted by " + a.Accepted.Agent + "; "
		case a.SoleOwner:
			all += fmt.Sprint(l.Subject, " ", a.Result.Code, " here alone; ")
		default:
			all += fmt.Sprint(l.Subject, " ", a.Result.Code, "; ")
		}
	}
	return all
}

// take admits a request.
func (d *desk) take(m *bus.Task) *known {
	t := &known{admission.New(m.Client, m.ID, m.Content(), 0)}
	t.From(m)
	d.Take(t)
	t.Wait(m.Inbox)
	return t
}

// Each line is what comes to a hub that has one task in hand, by door one, and what becomes of it.
func TestWhatARequestIs(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*bus.Task)
		want   string
	}{
		{"another task", func(m *bus.Task) { m.ID = "u" }, "comes"},
		{"no id", func(m *bus.Task) { m.ID = "" }, "error: to.two bad_request; "},
		{"no prompt", func(m *bus.Task) { m.ID, m.Prompt.Tokens = "u", 0 }, "answered: to.two empty_prompt; "},
		{"the rest of nothing", func(m *bus.Task) { m.ID, m.Resume = "u", &bus.Resume{} },
			"answered: to.two unknown; "},
		{"by a door that is out of step", func(m *bus.Task) { m.ID, m.LastStatus.Seq = "u", 4 },
			"answered: to.two unavailable; "},
		{"the same again", func(*bus.Task) {}, "repeats"},
		{"the same, to another reader", func(m *bus.Task) { m.Reply = "reply.ann.other" },
			"answered: to.two duplicate; "},
		{"its rest", func(m *bus.Task) { m.Resume = &bus.Resume{} }, "repeats"},
		{"a question whose it is",
			func(m *bus.Task) { *m = bus.Task{Client: "ann", ID: "t", Inbox: "to.two"} },
			"answered: to.two id_conflict; "},
		{"whose one is that is not here",
			func(m *bus.Task) { *m = bus.Task{Client: "ann", ID: "u", Inbox: "to.two"} },
			"answered: to.two empty_prompt; "},
	} {
		d := newDesk(10)
		first := request("t", "one", "hello")
		if _, what := d.come(first); what != "comes" {
			t.Fatalf("the first task %s", what)
		}
		d.take(first)
		m := request("t", "two", "hello")
		c.change(m)
		if _, got := d.come(m); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Who asks again hears what is known: who serves the task, that its id is of another, or how it has ended;
// and some wait with whom asked first.
func TestWhoAsksAgain(t *testing.T) {
	d := newDesk(10)
	m := request("t", "one", "hello")
	x := d.take(m)
	by := &bus.Accepted{Agent: "a-1"}
	repeat := func(m *bus.Task, accepted *bus.Accepted, unsure bool) string {
		d.turn.Take()
		d.served = admission.Served{Accepted: accepted, Unsure: unsure}
		if what := d.Again(x, m); what != admission.Answered {
			return fmt.Sprint("is ", what)
		}
		return d.said()
	}
	again := request("t", "two", "hello")
	for _, c := range []struct{ got, want string }{
		{repeat(request("t", "two", "bye"), nil, false), "to.two id_conflict; "},
		{repeat(again, by, false), "to.two accepted by a-1; "},
		{repeat(again, nil, true), "to.two unknown; "},
		{repeat(again, nil, false), ""},
	} {
		if c.got != c.want {
			t.Errorf("it is told %q, want %q", c.got, c.want)
		}
	}
	for range admission.MoreInboxes - 2 { // beside the first
		if got := repeat(again, nil, false); got != "" {
			t.Errorf("one that may wait is told %q", got)
		}
	}
	if got := repeat(again, nil, false); got != "to.two duplicate; " {
		t.Errorf("one too many is told %q", got)
	}
	if !d.Last(&x.Request, &bus.Result{Agent: "a-1"}, false, true) || d.Open() != 0 {
		t.Error("nobody waited for the last word")
	}
	d.turn.Take()
	d.Remember(x, &bus.Result{Agent: "a-1"}, d.turn.Now())
	if got := repeat(again, by, false); got != "to.two accepted by a-1; " {
		t.Errorf("while the agent has its chunks it is told %q", got)
	}
	d.turn.Advance(d.turn.Now().Add(31 * time.Second))
	if got := repeat(again, by, false); got != "to.two answer_gone; " {
		t.Errorf("later it is told %q", got)
	}
	if got := d.Tally().Tasks; got[""] != 1 || got[bus.CodeIDConflict] != 1 || got[bus.CodeDuplicate] != 1 {
		t.Errorf("counted: %v", got)
	}
}

// A task that the journal alone tells of, that comes again as the rest of its answer and then waits for a
// slot, goes on where it left off if it comes once more: it is the rest of nothing that is known here.
func TestATaskTakenUpAsARestKeepsItsPlace(t *testing.T) {
	d := newDesk(2)
	m := request("t", "one", "hello")
	x := &known{admission.New(m.Client, m.ID, m.Content(), 1)}
	d.Take(x)
	m.Resume = &bus.Resume{}
	x.From(m)
	x.Wait(m.Inbox)
	d.Last(&x.Request, &bus.Result{Code: bus.CodeNoRoom}, false, true)
	d.Forget(x, 3*time.Second, &bus.Result{Code: bus.CodeNoRoom})
	y := admission.New("ann", "t", m.Content(), 0)
	if d.Find("ann", "t") != nil || d.Waited(&y) != 3*time.Second {
		t.Errorf("it is known, or has waited %v", d.Waited(&y))
	}
}

// A task that never held money is forgotten, and goes on where it left off if it comes again as it was. One
// that did is remembered for a while, and of many the last.
func TestWhoIsRemembered(t *testing.T) {
	d := newDesk(2)
	m := request("t", "one", "hello")
	x := d.take(m)
	d.Last(&x.Request, &bus.Result{Code: bus.CodeNoRoom}, false, true)
	if d.said() != "to.one no_room here alone; " {
		t.Error("it is not told that no other hub can have it")
	}
	d.Forget(x, 3*time.Second, &bus.Result{Code: bus.CodeNoRoom})
	y, other := admission.New("ann", "t", m.Content(), 0), admission.New("ann", "t", [16]byte{1}, 0)
	if d.Find("ann", "t") != nil || d.Waited(&y) != 3*time.Second || d.Waited(&other) != 0 {
		t.Errorf("it is known, or has waited %v, another %v", d.Waited(&y), d.Waited(&other))
	}
	if x = d.take(m); d.Waited(&y) != 0 {
		t.Error("its place is kept twice")
	}
	// its rest never held money, and is refused for good
	d.Last(&x.Request, &bus.Result{}, false, false)
	d.Remember(x, &bus.Result{Code: bus.CodeAgentFailed}, d.turn.Now())
	m.Resume = &bus.Resume{}
	rest := d.take(m)
	if d.Find("ann", "t") != rest {
		t.Error("the rest does not stand for the task while it is open")
	}
	d.Last(&rest.Request, &bus.Result{Code: bus.CodeNotWorthIt}, false, false)
	d.Forget(rest, time.Second, &bus.Result{Code: bus.CodeNotWorthIt})
	if d.Find("ann", "t") != x || d.Waited(&y) != 0 {
		t.Error("its task is not known any more, or it may wait in line as if it were new")
	}
	for i := range 2 {
		z := d.take(request(fmt.Sprint("z", i), "one", "hello"))
		d.Last(&z.Request, &bus.Result{}, true, false)
		d.Remember(z, &bus.Result{}, d.turn.Now())
	}
	if d.Find("ann", "t") != nil || len(d.Known()) != 2 || d.Open() != 0 {
		t.Errorf("%d are known, %d open", len(d.Known()), d.Open())
	}
	d.turn.Advance(d.turn.Now().Add(admission.KeepIDs))
	if d.ForgetEnded(); len(d.Known()) != 0 {
		t.Errorf("%d are known after a minute", len(d.Known()))
	}
}

// Each line is one task, of which an agent has made so much, and a request for the rest of its answer, which
// broke off at a-1.
func TestWhoAsksForTheRest(t *testing.T) {
	failed := func(agent string, code bus.Code) func(*desk) *bus.Result {
		return func(d *desk) *bus.Result {
			return &bus.Result{Agent: agent, Code: code, Receipt: d.ended(ledger.KindVoid)}
		}
	}
	for _, c := range []struct {
		name   string
		served admission.Served
		ended  func(d *desk) *bus.Result // nil: it is open
		ask    func(*bus.Task)
		what   admission.What
		want   string
	}{
		{name: "its agent has it", served: admission.Served{Agent: "a-1", Held: true}, what: admission.Asks},
		{name: "it went on to another, which is told", what: admission.Answered,
			served: admission.Served{Agent: "a-2", Held: true, Moved: true,
				Accepted: &bus.Accepted{Agent: "a-2"}}, want: "to.one accepted by a-2; "},
		{name: "it waits for another, and its reader waits along", served: admission.Served{Moved: true}},
		{name: "it waits", want: "to.one duplicate; "},
		{name: "of another content", ask: func(m *bus.Task) { m.Body = []byte("bye") },
			want: "to.one id_conflict; "},
		{name: "it was served", ended: func(d *desk) *bus.Result { return &bus.Result{Agent: "a-1"} },
			want: "to.one answer_gone; "},
		{name: "it was paid when it was cancelled", ended: func(d *desk) *bus.Result {
			return &bus.Result{Agent: "a-1", Code: bus.CodeCancelled, Receipt: d.ended(ledger.KindCapture)}
		}, want: "to.one answer_gone; "},
		{name: "its agent failed", ended: failed("a-1", bus.CodeAgentFailed), what: admission.GoesOn},
		{name: "its agent failed, and nobody else is wanted", ask: func(m *bus.Task) { m.Failover = "off" },
			ended: failed("a-1", bus.CodeAgentFailed), want: "to.one agent_failed; "},
		{name: "another failed", ended: failed("a-2", bus.CodeAgentFailed), want: "to.one agent_failed; "},
		{name: "it was refused as it is", ended: failed("a-1", bus.CodeTooLarge), want: "to.one too_large; "},
	} {
		d := newDesk(10)
		d.turn.Leading, d.served = true, c.served
		x := d.take(request("t", "one", "hello"))
		if c.ended != nil {
			r := c.ended(d)
			d.Last(&x.Request, r, false, false)
			d.Remember(x, r, d.turn.Now())
			d.served.Agent = r.Agent
		}
		d.turn.Take()
		m := request("t", "one", "hello")
		if m.Resume = (&bus.Resume{Agent: "a-1"}); c.ask != nil {
			c.ask(m)
		}
		if what := d.Again(x, m); what != c.what {
			t.Errorf("%s: it is %d, want %d", c.name, what, c.what)
		}
		if got := d.said(); got != c.want {
			t.Errorf("%s: told %q, want %q", c.name, got, c.want)
		}
	}
}

// The rest of an answer does not go on a second time, unless its agent is dead; and where it was refused for
// good, whoever asks later hears the same, while one that may come again does.
func TestARestThatBreaksOff(t *testing.T) {
	d := newDesk(10)
	d.turn.Leading = true
	x := d.take(request("t", "one", "hello"))
	failed := &bus.Result{Agent: "a-1", Code: bus.CodeAgentFailed, Receipt: d.ended(ledger.KindVoid)}
	d.Last(&x.Request, failed, false, false)
	d.Remember(x, failed, d.turn.Now())
	d.served.Agent = "a-1"
	ask := func(agent string, attempt int) *bus.Task {
		m := request("t", "one", "hello")
		m.Resume, m.Attempt = &bus.Resume{Agent: agent}, attempt
		d.turn.Take()
		return m
	}
	m := ask("a-1", 1)
	d.RefuseRest(&x.Request, m, &bus.Result{Code: bus.CodeNoRoom, RetryMS: 1000})
	if got := d.said(); got != "to.one no_room; " || d.Again(x, ask("a-1", 1)) != admission.GoesOn {
		t.Errorf("it may come again, and is told %q, and so for ever", got)
	}
	no := &bus.Result{Code: bus.CodeNotWorthIt}
	d.RefuseRest(&x.Request, ask("a-1", 1), no)
	d.turn.Take()
	if d.Again(x, ask("a-1", 1)) != admission.Answered || d.said() != "to.one not_worth_it; " ||
		no.Receipt == nil {
		t.Error("its last word is another when it is asked again")
	}
	rest := d.take(m)
	d.served = admission.Served{Agent: "a-2", Held: true}
	for _, c := range []struct {
		noEnd bool
		what  admission.What
		want  string
	}{{want: "to.one agent_failed; "}, {noEnd: true, what: admission.Asks}} {
		d.served.NoEnd = c.noEnd
		if what := d.Again(rest, ask("a-2", 2)); what != c.what || d.said() != c.want {
			t.Errorf("of an agent whose reader has no end (%v): it is %d, want %d", c.noEnd, what, c.what)
		}
	}
}

// ended records a hold of a-1 that ended so, and returns its receipt.
func (d *desk) ended(kind ledger.Kind) *bus.Receipt {
	price := market.Price{Miss: 1e6, Hit: 1e5, Out: 2e6}
	hold := ledger.Hold{Client: "ann", Task: "t", Agent: "a-1", Model: "llama", Round: 1,
		Kind: bus.DispatchTask, Amount: 1000, Premium: 10, Fee: 10, Quoted: 200,
		Price: price, Settle: market.SettleMetered, Prompt: 100, Output: 10, MaxTokens: 50,
		Expires: d.turn.Now().Add(time.Minute).UnixNano(), Boot: 1}
	round := market.Round{Domain: "math", Number: 1, Rule: market.DefaultRule}
	end := ledger.NewVoid("math-1", hold, string(bus.CodeAgentFailed), d.turn.Salt())
	if kind == ledger.KindCapture {
		c := ledger.Capture{Outcome: bus.OutcomeDone, Usage: market.Usage{Prompt: 100, Output: 10}}
		c.Cost = market.Settle(hold.Settle, price, 0, hold.Quoted, c.Usage, hold.Amount-hold.Premium)
		end = ledger.NewCapture("math-1", hold, c, d.turn.Salt())
	}
	for _, records := range [][]ledger.Record{
		{ledger.NewOpen("math-1", ledger.RoleHub, "math", d.turn.Salt())},
		{ledger.NewAccept("math-1", 1, "ann", 5000, d.turn.Salt())},
		{ledger.NewRound("math-1", round, market.Outcome{Awards: []market.Award{{}}}, d.turn.Salt()),
			d.turn.Book.NewHold(ledger.HoldID("math-1", 1, 0), &hold, d.turn.Salt())}, {end}} {
		if err := d.turn.Commit(records...); err != nil {
			panic(err)
		}
	}
	return &bus.Receipt{ID: ledger.HoldID("math-1", 1, 0)}
}

// A client judges an answer once, and none that it was not served here.
func TestWhoJudgesAnAnswer(t *testing.T) {
	d := newDesk(10)
	x := d.take(request("t", "one", "hello"))
	word := &bus.Feedback{Client: "ann", Sender: "ann", Task: "t", Quality: 1}
	judge := func(want string) {
		t.Helper()
		q, err := d.Judged(word)
		if err == nil && q != &x.Request || err == nil != (want == "") ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	judge("which was not served here lately") // not yet
	served := &bus.Result{Agent: "a-1"}
	d.Last(&x.Request, served, false, false)
	d.Remember(x, served, d.turn.Now())
	word.Sender = "bob"
	judge("which was not served here lately") // to bob
	word.Sender = "ann"
	judge("")
	judge("which was judged before")
	word.Task = "u"
	judge("which was not served here lately")
}

// A deadline is the hub's where a task names none, is not past, and no further ahead than the hub takes.
func TestDeadline(t *testing.T) {
	d := newDesk(10)
	now, far := d.turn.Now(), time.Hour+time.Millisecond
	for _, c := range []struct {
		in, at time.Duration
		code   bus.Code
	}{{0, time.Minute, ""}, {time.Second, time.Second, ""}, {time.Hour, time.Hour, ""},
		{-time.Second, -time.Second, bus.CodePastDeadline}, {far, far, bus.CodeBadTerms}} {
		m := request("t", "one", "hello")
		if c.in != 0 {
			m.DeadlineMS = now.Add(c.in).UnixMilli()
		}
		at, no := d.Deadline(now, m)
		if no == nil {
			no = &bus.Result{}
		}
		if !at.Equal(now.Add(c.at)) || no.Code != c.code {
			t.Errorf("in %v: at %v, %s; want %v, %s", c.in, at.Sub(now), no.Code, c.at, c.code)
		}
	}
}

// A task is told the first reason for which there is no room for it.
func TestWhoFindsRoom(t *testing.T) {
	for _, c := range []struct {
		name     string
		draining bool
		load     admission.Load
		code     bus.Code
		why      string
		retry    int64
	}{
		{name: "there is room", load: admission.Load{Waiting: 7, Has: 3}},
		{name: "the hub stops", draining: true, code: bus.CodeDraining, why: "stopping; try again",
			load: admission.Load{Closed: "stopping", Again: time.Second, Full: true}, retry: 1000},
		{name: "it takes none", load: admission.Load{Closed: "no disk", Again: time.Minute, Full: true},
			code: bus.CodeUnavailable, why: "no disk", retry: 60_000},
		{name: "the queue is full", load: admission.Load{Waiting: 7, Full: true, Has: 3, TooMany: true},
			code: bus.CodeNoRoom, why: "7 tasks wait and 1 are open: the queue is full", retry: 1000},
		{name: "its client has enough", load: admission.Load{Has: 3, TooMany: true},
			code: bus.CodeTooManyTasks, why: "3 tasks of client ann wait for its money or a slot, the most", retry: 1000},
	} {
		d := newDesk(10)
		d.turn.Draining = c.draining
		d.take(request("t", "one", "hello"))
		x := d.Judge(request("u", "one", "hello"), c.load)
		if x == nil {
			x = &bus.Result{}
		}
		if x.Code != c.code || !strings.HasPrefix(x.Message, c.why) || x.RetryMS != c.retry {
			t.Errorf("%s: %s %q in %d ms; want %s %q in %d", c.name, x.Code, x.Message, x.RetryMS, c.code, c.why,
				c.retry)
		}
	}
}
