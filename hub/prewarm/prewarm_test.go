package prewarm

import (
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/hub/turn"
	"souk/ledger"
	"souk/market"
)

func newRoom(p Params) (*Room[string], *turn.Turn) {
	t := turn.New("hub-math", "math", ledger.NewBook(), [32]byte{1})
	t.Leading, t.Epoch = true, 7
	t.Advance(time.Unix(1_800_000_000, 0).Truncate(within))
	return New[string](&t, p), &t
}

// wants names the task whose text is wanted; "": none is.
func wants(r *Room[string]) string {
	t, _, _ := r.Wanted(true)
	return t
}

// A text is wanted that began a dialogue before, within the last minute or the one before, and that some
// agent lacks; nobody is told of it twice.
func TestATextThatManyBeginWith(t *testing.T) {
	r, x := newRoom(Default())
	pass := func(d time.Duration) { x.Advance(x.Now().Add(d)) }
	begins := func(task string, prefix uint64, holders int) string {
		pass(2 * time.Second)
		r.Begins(task, prefix, 3, holders, 4)
		return wants(r)
	}
	if got := begins("a", 1, 1) + begins("b", 2, 1); got != "" {
		t.Errorf("%s is wanted, which began once", got)
	}
	if got := begins("c", 1, 4); got != "" {
		t.Errorf("%s is wanted, which all have", got)
	}
	if got, again := begins("d", 1, 1), wants(r); got != "d" || again != "" {
		t.Errorf("wanted is %q, then %q", got, again)
	}
	pass(within)
	if got := begins("e", 1, 1); got != "e" {
		t.Errorf("%q is wanted: of the minute before three began so", got)
	}
	pass(3 * within)
	if got := begins("f", 1, 1); got != "" {
		t.Errorf("%s is wanted, and none began so for minutes", got)
	}
	r.Begins("g", 1, 3, 1, 4)
	if got, _, ok := r.Wanted(false); ok {
		t.Errorf("%s is wanted while somebody waits", got)
	}
	off, _ := newRoom(Params{})
	for range 9 {
		if off.Begins("a", 1, 3, 1, 4); wants(off) != "" {
			t.Fatal("it is switched off")
		}
	}
}

// While a task of the hub's own is on its way there is no other; after it there is none for a minute, or soon
// where there was money. A hub that stops, or may not record, wants none, and each has a name of its own.
func TestHowOften(t *testing.T) {
	r, x := newRoom(Params{Every: 2 * time.Second})
	begins := func() string {
		r.Begins("t", 1, 3, 1, 4)
		return wants(r)
	}
	begins()
	if begins() == "" || begins() != "" {
		t.Fatal("none is wanted, or another at once")
	}
	of := bus.Task{Client: "ann", ID: "t1", Session: "s", Turn: 3, Role: "judge", Inbox: "inbox",
		Body: []byte("{}"), Reply: "to.ann", MaxTokens: 400, SessionEnd: true, Next: "next"}
	a, b := r.Copy(&of, "probe", "llama"), r.Copy(&of, "probe", "llama")
	if a.ID != "prewarm-7-0" || b.ID != "prewarm-7-1" || a.Client != "probe" || a.Model != "llama" ||
		a.MaxTokens != 1 || a.Session+a.Role+a.Inbox+a.Next != "" || a.Turn != 0 || a.SessionEnd ||
		a.Reply != bus.ReplyTo("hub-math", a.ID) || // who pays hears nothing of another's text
		string(a.Body) != "{}" || of.ID != "t1" {
		t.Errorf("copied are %+v and %+v", a, b)
	}
	r.Sent("own")
	if own := r.Own(); own != "own" {
		t.Errorf("on its way is %q", own)
	}
	x.Advance(x.Now().Add(within))
	begins()
	if begins() != "" {
		t.Error("two are on their way")
	}
	r.Sent("own")
	if r.Over(); begins() != "" {
		t.Error("its account may be empty, and is asked again at once")
	}
	if r.Soon(); begins() != "" {
		t.Error("soon is now")
	}
	if x.Advance(x.Now().Add(2 * time.Second)); begins() == "" {
		t.Error("there was money, and none is wanted any more")
	}
	for what, change := range map[string]func(){
		"drains":  func() { x.Draining = true },
		"is full": func() { x.State = turn.State{Full: true} },
		"doubts":  func() { x.State = turn.State{Doubt: "x"} },
	} {
		change()
		if x.Advance(x.Now().Add(2 * time.Second)); begins() != "" {
			t.Errorf("one is wanted by a hub that %s", what)
		}
	}
}

// What is saved is money and time, by what a second costs those served lately, of each dialogue of an agent's
// part; one who says that a second costs him the world moves that little.
func TestWhatIsSaved(t *testing.T) {
	r, _ := newRoom(Default())
	for range 5 {
		r.Begins("t", 1, 3, 1, 2)
	}
	if got := r.Saves(100, time.Hour); got != 200 {
		t.Errorf("four more on two agents save %d of 100 each", got)
	}
	for range 100 {
		r.Served(1000)
	}
	if got := r.Saves(100, time.Second/2); got != 1200 {
		t.Errorf("with half a second of 1000 they save %d", got)
	}
	if got := r.Saves(0, -time.Second); got != 0 {
		t.Errorf("what comes later saves %d", got)
	}
	r.Served(market.MaxWorth)
	if got := r.Saves(0, time.Second); got < 2000 || got > 2300 {
		t.Errorf("one moves it from 2000 to %d", got)
	}
	if got := r.Saves(market.MaxWorth, 0); got != market.MaxWorth {
		t.Errorf("no worth is %d", got)
	}
}

// An agent may ask twice the median of others, of two in the middle the lesser, and what it likes without.
func TestWhatIsFair(t *testing.T) {
	for _, c := range []struct {
		asks   market.Credits
		others []market.Credits
		fair   bool
	}{
		{market.MaxWorth, nil, true}, {20, []market.Credits{10}, true}, {21, []market.Credits{10}, false},
		{20, []market.Credits{90, 10, 8, 70}, true}, {21, []market.Credits{90, 10, 8, 70}, false},
		{2, []market.Credits{0, 0}, true}, {3, []market.Credits{0, 0}, false},
		{market.MaxCredits, []market.Credits{market.MaxCredits}, true},
	} {
		if got := Fair(c.asks, c.others); got != c.fair {
			t.Errorf("%d beside %d: %v", c.asks, c.others, got)
		}
	}
}

func TestParams(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
	for want, p := range map[string]Params{
		"every: 1ms is": {Every: time.Millisecond}, "every: 2h0m0s is": {Every: 2 * time.Hour}} {
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}
