package queue_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/hub/queue"
	"souk/hub/turn"
	"souk/ledger"
)

var start = time.Unix(1000, 0)

func at(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

// task is a task of the tests' hub.
type task struct {
	queue.Entry
	name string
}

// line is a queue, and the hub that it tells of its tasks.
type line struct {
	*queue.Room[*task]
	turn  turn.Turn
	said  []string // by timers
	lasts time.Duration
}

func newLine(rule queue.Rule, most int) *line {
	l := &line{turn: turn.New("j", "d", ledger.NewBook(), [32]byte{})}
	l.Room = queue.NewRoom[*task](&l.turn, rule, most, l)
	l.turn.Advance(start)
	return l
}

func (l *line) Overdue(t *task) { l.say("%s is overdue", t.name); l.Remove(t) }
func (l *line) Beat(t *task)    { l.say("%s waits", t.name) }
func (l *line) Spent(all []*task) {
	l.say("spent:%s", names(all))
	for _, t := range all {
		l.Lasts(t, l.lasts)
	}
}

func (l *line) say(format string, args ...any) {
	at := l.turn.Now().Sub(start).Milliseconds()
	l.said = append(l.said, fmt.Sprintf("%d ms: ", at)+fmt.Sprintf(format, args...))
}

// pass lets time pass until then, with what is due meanwhile, and returns what was said.
func (l *line) pass(ms int) []string {
	l.said = nil
	for next := l.turn.Next(); !next.IsZero() && !next.After(at(ms)); next = l.turn.Next() {
		l.turn.Advance(next)
		l.turn.Ring()
	}
	l.turn.Advance(at(ms))
	return l.said
}

// come adds a task of a client, which came then and may wait for a minute.
func (l *line) come(client, name string, ms int) *task {
	t := &task{queue.New(client, at(ms), at(ms+60_000)), name}
	l.Add(t, true, 0)
	return t
}

func names(all []*task) (s string) {
	for _, t := range all {
		s += " " + t.name
	}
	return s
}

// take names those that the next round looks at.
func (l *line) take() string { return strings.TrimSpace(names(l.Take(nil))) }

// Each line is one story: the rule, tasks by arrival (ms), the free slots, and from when on a round is due.
func TestDue(t *testing.T) {
	paper := queue.Rule{MaxBatch: 4, ClosesAt: 16, MaxWait: 10 * time.Millisecond}
	eager := paper
	eager.Eager = true
	for _, c := range []struct {
		name    string
		rule    queue.Rule
		arrived []int
		free    int
		due     int // ms; -1 never
	}{
		{"a lone task meets a free slot", eager, []int{0}, 1, 0},
		{"the paper's window waits even then", paper, []int{0}, 1, 10},
		{"two tasks, two slots: nothing contends", eager, []int{0, 0}, 2, 0},
		{"two tasks, one slot: the window opens", eager, []int{0, 0}, 1, 10},
		{"a full batch closes at once", eager, []int{0, 0, 0, 0}, 1, 0},
		{"a full batch closes the paper's window", paper, []int{0, 0, 0, 0}, 9, 0},
		{"no slot, no round", eager, []int{0, 0, 0, 0, 0}, 0, -1},
		{"nothing waits", eager, nil, 3, -1},
		{"the oldest counts, wherever it stands", eager, []int{8, 2, 5}, 1, 12},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLine(c.rule, 100)
			for i, ms := range c.arrived {
				l.come("ann", fmt.Sprint(i), ms)
			}
			got := -1
			for ms := range 100 {
				if l.pass(ms); l.Due(c.free) {
					got = ms
					break
				}
			}
			if got != c.due {
				t.Errorf("due at %d ms, want %d", got, c.due)
			}
		})
	}
}

// Rounds of tasks that compete keep apart, by how many they are, up to MaxWait. Those that have a slot each
// wait for no round before, nor does anybody whose clock was set back.
func TestRoundsOfACrowdKeepApart(t *testing.T) {
	for _, c := range []struct {
		tasks, free int
		held        int // ms: the round before
		due         int
	}{{40, 1, 1000, 1004}, {90, 1, 1000, 1009}, {90, 89, 1000, 1009}, {90, 90, 1000, 1000},
		{300, 1, 1000, 1010}, {90, 1, 990, 1000}, {90, 1, 997, 1006}, {90, 1, 1001, 1000},
		{2, 1, 1000, 1010}} {
		l := newLine(queue.Default(), 1000)
		l.pass(c.held)
		l.take()
		if c.held > 1000 { // and then the clock was set back
			l.turn.Replay(at(1000).UnixNano())
		}
		l.pass(1000)
		for i := range c.tasks {
			l.come("ann", fmt.Sprint(i), 1000)
		}
		if wake := l.Deadline(c.free); c.free < c.tasks && c.held <= 1000 && wake.After(at(1000)) &&
			!wake.Equal(at(c.due)) || c.due > 1000 && !wake.After(at(1000)) {
			t.Errorf("%+v: to be looked at in %v", c, wake.Sub(at(1000)))
		}
		due := 1000
		for ; !l.Due(c.free); due++ {
			l.pass(due + 1)
		}
		if due != c.due {
			t.Errorf("%+v: due at %d ms", c, due)
		}
	}
}

// A hub that holds a round for each task that comes does nothing else where a round takes long: it leaves as
// long between them, also where slots outnumber tasks.
func TestNoRoundIsHeldRightAfterALongOne(t *testing.T) {
	l := newLine(queue.Default(), 100)
	l.come("ann", "0", 1000)
	l.pass(1000)
	l.take()
	l.Took(5 * time.Millisecond)
	l.come("ann", "1", 1001)
	l.pass(1001)
	if wake := l.Deadline(9); l.Due(9) || !wake.Equal(at(1010)) {
		t.Errorf("after a round of 5 ms the next is due at once: %v, or to be looked at in %v", l.Due(9),
			wake.Sub(at(1001)))
	}
	l.pass(1009)
	before := l.Due(9)
	l.pass(1010)
	if before || !l.Due(9) {
		t.Errorf("due after 9 ms: %v, after 10: %v", before, l.Due(9))
	}
	l.turn.Replay(at(990).UnixNano()) // the clock was set back: nobody waits for what is to come
	l.pass(990)
	if !l.Due(9) {
		t.Error("not due once the clock was set back")
	}
}

func TestARoundTakesThoseThatCameFirstFirst(t *testing.T) {
	l := newLine(queue.Default(), 100)
	var all []*task
	for i := range 6 {
		all = append(all, l.come("ann", fmt.Sprint(i), i))
	}
	l.Remove(all[1])
	l.Remove(all[1])
	if all[1].Waits || l.Waiting() != 5 || l.Of("ann") != 5 {
		t.Errorf("a task is removed twice: %d wait, %d of its client", l.Waiting(), l.Of("ann"))
	}
	l.come("ann", "9", 3) // it comes back, behind the one that came as early
	if got, want := l.take(), "0 2 3 9 4 5"; got != want {
		t.Errorf("a round takes %s, want %s", got, want)
	}
	if got := l.take(); got != "" || !l.Deadline(9).IsZero() || l.Due(9) || l.Waiting() != 6 {
		t.Errorf("the next takes %q at %v, of %d that wait: want nobody, for want of news", got, l.Deadline(9),
			l.Waiting())
	}
}

// Who was left is not looked at before there is news, and then in line with those that came meanwhile.
func TestWhoIsLeftWaitsForNews(t *testing.T) {
	l := newLine(queue.Default(), 100)
	l.come("ann", "1", 1)
	two := l.come("bob", "2", 2)
	if l.Left("ann") {
		t.Error("somebody was left before there was a round")
	}
	l.take()
	l.pass(99)
	if l.Next() != 0 || l.Waiting() != 2 || l.Due(1) || !l.Left("ann") || l.Left("cid") || two.Due() {
		t.Errorf("%d to be looked at of %d, due: %v", l.Next(), l.Waiting(), l.Due(1))
	}
	l.come("ann", "4", 3)
	l.come("ann", "0", 0)
	l.come("ann", "3", 2)
	if l.Again(two); l.Next() != 4 || !two.Due() {
		t.Errorf("%d are to be looked at, one of them again", l.Next())
	}
	l.Again(two)
	l.turn.Changed = false
	if l.News(); !l.turn.Changed || l.Left("ann") || l.Next() != 5 {
		t.Errorf("%d are to be looked at after news", l.Next())
	}
	if got := l.take(); got != "0 1 2 3 4" {
		t.Errorf("%s are looked at", got)
	}
	if l.Remove(two); two.Due() {
		t.Error("one that was removed is looked at")
	}
	if l.Again(two); l.Next() != 0 {
		t.Error("one that was removed is looked at again")
	}
}

// A task ends at its deadline; its reader, if it is to be told, is told before that that it waits.
func TestDeadlinesAndBeats(t *testing.T) {
	l := newLine(queue.Default(), 100)
	l.Add(&task{queue.New("ann", at(-10), at(100)), "a"}, true, 0)
	l.Add(&task{queue.New("ann", at(0), at(250)), "b"}, true, 100*time.Millisecond)
	gone := &task{queue.New("ann", at(0), at(50)), "c"}
	l.Add(gone, true, 20*time.Millisecond)
	l.Remove(gone)
	want := []string{"100 ms: a is overdue", "100 ms: b waits", "200 ms: b waits", "250 ms: b is overdue"}
	if got := l.pass(1000); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if l.Waiting() != 0 || !l.turn.Next().IsZero() {
		t.Errorf("%d wait, something is due at %v", l.Waiting(), l.turn.Next())
	}
}

// The hub is asked about those that may be worth no more than they cost, each at its own time, at once where
// several are; and not of those whose deadline comes first.
func TestWhoIsSpentIsAskedFor(t *testing.T) {
	l := newLine(queue.Default(), 100)
	for i, ms := range []int{300, 100, 100, 90_000} {
		l.Lasts(l.come("ann", fmt.Sprint(i), 0), time.Duration(ms)*time.Millisecond)
	}
	soon := l.come("ann", "soon", 0)
	l.Lasts(soon, 0) // no sooner than is worth looking at
	l.lasts = time.Hour
	want := []string{"50 ms: spent: soon", "100 ms: spent: 1 2", "300 ms: spent: 0"}
	if got := l.pass(50_000); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Those who wait beside a slot that is free are looked at again soon, however often that is said.
func TestWhoWaitsBesideASlotIsLookedAtSoon(t *testing.T) {
	l := newLine(queue.Default(), 100)
	l.come("ann", "a", 0)
	l.take()
	l.Beside()
	l.pass(30)
	l.Beside()
	if l.pass(49); l.Next() != 0 {
		t.Error("it is looked at at once")
	}
	if l.pass(50); l.Next() != 1 {
		t.Error("it is not looked at")
	}
}

// How long a task waits: since it came, since its answer broke off, and other times under its id.
func TestHowLongOneWaits(t *testing.T) {
	e := queue.New("ann", at(100), at(1000))
	e.Before = 7 * time.Second
	if e.Waited(at(300)) != 200*time.Millisecond || e.InLine(at(300)) != 7200*time.Millisecond ||
		e.Deadline.Sub(at(300)) != 700*time.Millisecond {
		t.Errorf("it has waited for %v, in line for %v, with %v left", e.Waited(at(300)), e.InLine(at(300)),
			e.Deadline.Sub(at(300)))
	}
	e.Broke = at(250)
	if e.Waited(at(300)) != 50*time.Millisecond || e.InLine(at(300)) != 7200*time.Millisecond {
		t.Errorf("the rest of it has waited for %v, in line for %v", e.Waited(at(300)), e.InLine(at(300)))
	}
}

// There is room for so many that wait, or for as many more as have a slot. Who has to leave came last of the
// client with most, also while a round looks at all of them.
func TestWhoHasToLeave(t *testing.T) {
	l := newLine(queue.Default(), 4)
	for i, client := range []string{"ann", "bob", "ann", "bob", "cid"} {
		l.come(client, fmt.Sprint(i), i)
	}
	if got := l.Spare(0, 5); got != -1 {
		t.Errorf("room for %d, want one too many", got)
	}
	if got := l.Spare(10, 7); got != 7 {
		t.Errorf("room for %d with three free slots, want 7", got)
	}
	l.take()
	x, why := l.Excess(0, 5)
	const said = "4 tasks wait, all that may, and no client has more among them than bob, with 2: its last to come " +
		"has to leave"
	if x.name != "3" || why != said {
		t.Fatalf("%s has to leave: %q; want 3: %q", x.name, why, said)
	}
	if l.Remove(x); l.Spare(0, 5) != 0 {
		t.Errorf("room for %d once it has left", l.Spare(0, 5))
	}
	if x, _ := l.Excess(0, 5); x != nil {
		t.Errorf("%s has to leave, and there is just enough room", x.name)
	}
	none := newLine(queue.Default(), 0)
	for i, client := range []string{"ann", "bob", "ann", "bob", "cid"} {
		none.come(client, fmt.Sprint(i), i)
	}
	for _, want := range []string{"3", "2", "4", "1", "0"} {
		x, _ := none.Excess(0, 5)
		if x.name != want {
			t.Fatalf("%s has to leave, want %s", x.name, want)
		}
		none.Remove(x)
	}
	if x, _ := none.Excess(0, 5); x != nil || none.Busiest() != 0 {
		t.Error("nobody waits, and somebody has to leave")
	}
}

// What a task is told whose deadline has passed is true of every round that it was in.
func TestWhatOneIsToldThatMissedItsDeadline(t *testing.T) {
	yes, no := func() bool { return true }, func() bool { return false }
	for _, c := range []struct {
		name       string
		met, short bool
		rounds     int
		refusals   int
		free, open func() bool
		want       string
	}{
		{name: "never looked at, beside a free slot", free: yes, open: yes, want: "no round was held"},
		{name: "never looked at, and none was free", free: no, open: yes, want: "in no round before the deadline"},
		{name: "nobody takes tasks", met: true, free: no, open: no, want: "each is stopping, silent, or"},
		{name: "all too late", met: true, short: true, free: yes, open: yes, want: "give it more time"},
		{name: "all went to others", met: true, short: true, rounds: 2, free: yes, open: yes,
			want: "in 2 rounds before the deadline the slots that would do"},
		{name: "refused, and all others went to others", met: true, rounds: 1, refusals: 1, free: yes, open: yes,
			want: "in 1 round before the deadline the slots that would do"},
		{name: "refused alone", met: true, refusals: 2, free: yes, open: yes,
			want: "agents refused it 2 times"},
	} {
		l := newLine(queue.Default(), 4)
		x := l.come("ann", "a", 0)
		if x.Short = c.short; c.met {
			l.take()
		}
		for range c.rounds {
			x.Rounds++
		}
		if got := l.Missed(x, c.refusals, c.free, c.open); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Whoever found a free slot, each time that it was added, that would do, and no round without one, waited for
// none.
func TestWhoWaitedForNoSlot(t *testing.T) {
	l := newLine(queue.Default(), 100)
	x, y := l.come("ann", "a", 0), &task{queue.New("ann", at(0), at(100)), "b"}
	l.Add(y, false, 0)
	if !x.AtOnce() || y.AtOnce() {
		t.Error("it waited though a slot was free, or did not though none was")
	}
	l.Remove(y)
	if l.Add(y, true, 0); y.AtOnce() {
		t.Error("it has waited, and a free slot later has that forgotten")
	}
	if x.Short = true; x.AtOnce() {
		t.Error("a slot that would be too late is none that was free")
	}
	if x.Short, x.Barred = false, true; l.take() == "" || x.Barred {
		t.Error("what kept it from an agent in a round before counts in the next")
	}
	if x.Rounds++; x.AtOnce() {
		t.Error("it lost a round, and waited for no slot")
	}
}

// The queue against plain lists, under a random mix of what may happen.
func TestAgainstPlainLists(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	l := newLine(queue.Default(), 0)
	type row struct {
		*task
		client string
		left   bool
	}
	var plain []row
	for i := range 5000 {
		switch k := rng.IntN(12); {
		case k == 0:
			got, want := l.take(), ""
			for j := range plain {
				if !plain[j].left {
					want += " " + plain[j].name
				}
				plain[j].left = true
			}
			if got != strings.TrimSpace(want) {
				t.Fatalf("step %d: took %q, want %q", i, got, want)
			}
		case k == 1:
			l.Wake()
			for j := range plain {
				plain[j].left = false
			}
		case k == 2 && len(plain) > 0:
			j := rng.IntN(len(plain))
			l.Again(plain[j].task)
			plain[j].left = false
		case k < 6 && len(plain) > 0:
			j := rng.IntN(len(plain))
			l.Remove(plain[j].task)
			plain = slices.Delete(plain, j, j+1)
		default:
			ms := rng.IntN(40)
			client := fmt.Sprint("c", rng.IntN(4))
			x := l.come(client, fmt.Sprint(i), ms)
			j := len(plain)
			for j > 0 && plain[j-1].Arrived.After(at(ms)) {
				j--
			}
			plain = slices.Insert(plain, j, row{x, client, false})
		}
		next, of, most := 0, map[string]int{}, 0
		for _, x := range plain {
			if !x.left {
				next++
			}
			of[x.client]++
			most = max(most, of[x.client])
		}
		var last *task
		for _, x := range plain {
			if of[x.client] == most {
				last = x.task
			}
		}
		leaves, _ := l.Excess(0, len(plain))
		if l.Next() != next || l.Waiting() != len(plain) || l.Busiest() != most || leaves != last ||
			l.Of("c1") != of["c1"] || l.Squeezes(most-1) || most > 1 && !l.Squeezes(most-2) {
			t.Fatalf("step %d: %d of %d to be looked at, want %d of %d; %d of one client, want %d", i, l.Next(),
				l.Waiting(), next, len(plain), l.Busiest(), most)
		}
	}
}

func TestValidate(t *testing.T) {
	if err := queue.Default().Validate(); err != nil {
		t.Error(err)
	}
	for _, r := range []queue.Rule{{}, {MaxBatch: 1, ClosesAt: 1, MaxWait: -1},
		{MaxBatch: 1, ClosesAt: 1, MaxWait: time.Hour}, {MaxBatch: 1}, {ClosesAt: 1},
		{MaxBatch: 1, ClosesAt: 1, Apart: -1},
		{MaxBatch: queue.MostBatch + 1, ClosesAt: 1}, {MaxBatch: 1, ClosesAt: queue.MostBatch + 1}} {
		if r.Validate() == nil {
			t.Errorf("%+v passes", r)
		}
	}
}
