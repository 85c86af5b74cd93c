package hub_test

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// An agent whose slots are taken is given one task more while all say the same, or nothing, of what a
// second costs them, and none once they differ; nor where its engine takes none, or prompts are what it has
// no time for.
func TestATaskBeyondTheSlots(t *testing.T) {
	tell := func(worth market.Credits) func(*bus.Task) {
		return func(m *bus.Task) {
			m.Terms = bus.Terms{Worth: &worth, Delta: new(0.5), MaxPrice: &worth}
		}
	}
	for _, c := range []struct {
		name  string
		queue bool
		slots int
		lasts time.Duration // an answer, whose prompt takes 50 ms of that
		terms []func(*bus.Task)
		want  int
	}{
		{"nobody says terms", true, 8, time.Second, []func(*bus.Task){func(*bus.Task) {}}, 2},
		{"all say the same", true, 8, time.Second, []func(*bus.Task){tell(market.Credit)}, 2},
		{"some say that a second is dearer", true, 8, time.Second,
			[]func(*bus.Task){tell(market.Credit), tell(10 * market.Credit)}, 1},
		{"it has few slots, and others may have one sooner", true, 4, time.Second,
			[]func(*bus.Task){func(*bus.Task) {}}, 1},
		{"the engine takes no more", false, 8, time.Second, []func(*bus.Task){func(*bus.Task) {}}, 1},
		{"most of its time is for prompts", true, 8, 300 * time.Millisecond, []func(*bus.Task){func(*bus.Task) {}}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEngines(t, nil)
			e.queue = c.queue
			slots := c.slots
			e.join("a-1", "llama", slots, 0.9, card(1, 1, 1))
			e.took = func(*bus.Dispatch) (time.Duration, market.Usage) {
				return c.lasts, market.Usage{Prompt: 100, Output: 50}
			}
			for i := range 40 {
				e.ask("ann", c.terms[i%len(c.terms)])
				e.lets(2 * time.Second)
			}
			most, first := 0, int64(0)
			e.began = func(d *bus.Dispatch) {
				if most = max(most, len(e.runs)+1); len(e.runs) == slots {
					first = d.FirstMS
				}
			}
			served := 0
			e.ended = func(*bus.Dispatch, market.Credits) { served++ }
			for range slots + 3 {
				e.ask("bob", c.terms[0])
				e.lets(time.Millisecond)
			}
			if most != slots-1+c.want {
				t.Errorf("%d tasks at once in %d slots, want %d", most, slots, slots-1+c.want)
			}
			if c.want > 1 && first < 2000 {
				t.Errorf("one in the engine's queue has %d ms for its first token", first)
			}
			e.lets(time.Minute)
			if len(e.runs) > 0 || served != slots+3 {
				t.Errorf("%d run, and %d of %d are served", len(e.runs), served, slots+3)
			}
		})
	}
}

// An agent that always has one task more than slots gives each as much time as the first of those: what one
// might have had to wait in its engine's queue, nobody after it does.
func TestTimeInAQueueDoesNotAddUp(t *testing.T) {
	e := newEngines(t, nil)
	e.queue = true
	e.join("a-1", "llama", 8, 0.9, card(1, 1, 1))
	for range 40 {
		e.ask("ann")
		e.lets(2 * time.Second)
	}
	var all []int64
	e.began = func(d *bus.Dispatch) { all = append(all, d.TimeoutMS) }
	for range 60 {
		for range 9 {
			e.ask("bob")
		}
		e.lets(time.Second)
	}
	if len(all) < 60 || all[8] <= all[0] || all[len(all)-1] > all[8]*5/4 {
		t.Errorf("%d tasks: an answer has %d ms, then %d ms, at last %d ms", len(all), all[0], all[8],
			all[len(all)-1])
	}
}

// What an agent, or its engine, refuses beyond its slots says nothing of these: it is not left alone, and
// given no other such task before it says that it takes one. The task goes on.
func TestATaskBeyondTheSlotsIsRefused(t *testing.T) {
	for _, by := range []string{"agent", "engine"} {
		e := newEngines(t, nil)
		e.queue = true
		e.join("a-1", "llama", 8, 0.9, card(1, 1, 1))
		for range 40 {
			e.ask("ann")
			e.lets(2 * time.Second)
		}
		e.beat = e.now.Add(time.Hour) // it says nothing before the end
		var runs []bus.Dispatch
		refused := 0
		hands := func() {
			for len(e.dispatched) > 0 {
				d := e.dispatched[0]
				e.dispatched = e.dispatched[1:]
				switch {
				case len(runs) < 8:
					e.accept(d)
					runs = append(runs, d)
				case by == "agent":
					refused++
					e.refuse(d, bus.CodeNoSlot)
				default:
					refused++
					e.accept(d)
					c := completion("a-1", d, market.Usage{})
					c.Outcome, c.Code, c.Unsaid = bus.OutcomeFailed, bus.CodeNoSlot, true
					c.Finish, c.Cost, c.TTFTUS, c.ITLUS = "", 0, 0, 0
					e.must(e.step(c))
				}
			}
		}
		e.prepaid["bob"] = 1_000_000 * market.Credit
		for i := range 14 {
			e.must(e.step(e.task("bob", fmt.Sprint("b", i))))
			e.pass(5 * time.Millisecond)
			hands()
		}
		if refused != 1 {
			t.Errorf("%s: %d are refused before it has said more", by, refused)
		}
		for i := range 14 {
			if len(runs) == 0 {
				t.Fatalf("%s: %d of 14 are served", by, i)
			}
			if i < 6 && len(runs) < 8 {
				t.Errorf("%s: %d of 8 slots are used", by, len(runs))
			}
			d := runs[0]
			runs = runs[1:]
			e.must(e.step(completion("a-1", d, market.Usage{Prompt: 100, Output: 50})))
			e.pass(15 * time.Millisecond)
			hands()
		}
	}
}

// What slots serve in a second is by how long tasks keep them: in an engine's queue they keep none. How long
// a first token takes is learned since there was a slot.
func TestATaskInAQueueKeepsNoSlot(t *testing.T) {
	e := newEngines(t, nil)
	e.queue = true
	e.join("a-1", "llama", 8, 0.9, card(1, 1, 1))
	e.took = func(*bus.Dispatch) (time.Duration, market.Usage) {
		return 8 * time.Second, market.Usage{Prompt: 100, Output: 50}
	}
	for range 40 {
		e.ask("ann")
		e.lets(10 * time.Second)
	}
	e.prepaid["bob"] = 1_000_000 * market.Credit
	type sent struct {
		d         bus.Dispatch
		at, begun time.Time // it was sent, and a slot was free
	}
	var runs []sent
	queued, prompt := 0, 50*time.Millisecond
	hands := func() {
		for _, d := range e.dispatched {
			e.accept(d)
			runs = append(runs, sent{d, e.now, e.now})
		}
		e.dispatched = nil
		queued = max(queued, len(runs))
	}
	end := func() {
		if len(runs) > 8 {
			runs[8].begun = e.now
		}
		c := completion("a-1", runs[0].d, market.Usage{Prompt: 100, Output: 50})
		c.TTFTUS = runs[0].begun.Sub(runs[0].at).Microseconds() + prompt.Microseconds()
		runs = runs[1:]
		e.must(e.step(c))
		hands()
	}
	for i := range 240 {
		if i == 60 {
			prompt = 200 * time.Millisecond
		}
		e.must(e.step(e.task("bob", fmt.Sprint("b", i))))
		if i%4 == 0 {
			e.must(e.step(e.task("bob", fmt.Sprint("more", i))))
		}
		hands()
		e.pass(500 * time.Millisecond)
		hands()
		e.pass(500 * time.Millisecond)
		hands()
		e.must(e.summary("a-1", func(m *bus.Summary) { m.Queue = true }))
		hands()
		if e.now.Sub(runs[0].begun) >= 7*time.Second {
			end()
		}
	}
	if serves := e.n.Stats().Regime.Serves; queued < 9 || serves < 0.97 || serves > 1.2 {
		t.Errorf("8 slots serve a task each second, believed are %v; %d at once", serves, queued)
	}
	for len(runs) > 7 {
		e.pass(time.Second)
		e.must(e.summary("a-1", nil))
		hands()
		end()
	}
	e.must(e.step(e.task("bob", "last")))
	if d := e.take("bob", "last"); d.FirstMS < 2600 || d.FirstMS > 3000 {
		t.Errorf("a first token, which takes 200 ms, has 2 s and four times that: %d ms", d.FirstMS)
	}
}

// nine has an agent of eight slots run as many tasks of bob's, of a second each, and one more: queued is the
// last that began.
func nine(t *testing.T) (e *engines, queued *bus.Dispatch) {
	e, queued = newEngines(t, nil), new(bus.Dispatch)
	e.queue = true
	e.join("a-1", "llama", 8, 0.9, card(1, 1, 1))
	for range 40 {
		e.ask("ann")
		e.lets(2 * time.Second)
	}
	e.began = func(d *bus.Dispatch) { *queued = *d }
	for range 9 {
		e.ask("bob")
		e.lets(time.Millisecond)
	}
	if len(e.runs) != 9 {
		t.Fatalf("%d run", len(e.runs))
	}
	return e, queued
}

// Whatever befalls an agent that has a task in its engine's queue: all of its tasks end as those of slots do.
func TestWhatBefallsATaskBeyondTheSlots(t *testing.T) {
	const all = 9
	for name, befalls := range map[string]func(e *engines) (at string){
		"nothing": func(*engines) string { return "a-1" },
		"the agent drains": func(e *engines) string {
			e.sick["a-1"] = bus.StateDraining
			e.beats()
			return "a-1"
		},
		"the engine dies": func(e *engines) string {
			e.join("a-2", "llama", 16, 0.9, card(1, 1, 1))
			for _, r := range e.runs {
				e.give(r.d, "a-1")
			}
			e.begin()
			return "a-2"
		},
		"the agent is started again": func(e *engines) string {
			reg := registration("a-1", "llama", 8, 0.9, card(1, 1, 1))
			reg.Boot = 2
			e.must(e.register(reg))
			e.pass(0)
			return "" // readers ask for the rest by themselves
		},
		"the agent is gone": func(e *engines) string {
			e.join("a-2", "llama", 16, 0.9, card(1, 1, 1))
			e.mute["a-1"] = true
			e.leave("a-1")
			return "a-1" // what it has it serves on
		},
		"its slots are fewer": func(e *engines) string {
			e.must(e.summary("a-1", func(m *bus.Summary) { m.Slots, m.Queue = 4, true }))
			e.begin()
			return "a-1"
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, _ := nine(t)
			served := 0
			e.ended = func(d *bus.Dispatch, cost market.Credits) {
				if d.Task.Client == "bob" && cost > 0 {
					served++
				}
			}
			e.began = func(*bus.Dispatch) {}
			at := befalls(e)
			want := all
			if at == "" {
				want = 0
			}
			if n := len(e.openHolds()); n != want || e.runningAt(at) != want {
				t.Errorf("%d of %d run at %s, want %d", e.runningAt(at), n, at, want)
			}
			e.lets(5 * time.Second)
			if served != want || len(e.openHolds()) > 0 {
				t.Errorf("%d of %d are served, %d run", served, want, len(e.openHolds()))
			}
			e.audited()
		})
	}
}

// A task that has left its engine's queue without a slot, as its client cancelled it, says nothing of how
// long tasks keep one; and the next has its place.
func TestATaskThatIsCancelledInTheQueueHadNoSlot(t *testing.T) {
	e, queued := nine(t)
	serves := e.n.Stats().Regime.Serves
	for i := range 50 {
		e.must(e.step(&bus.Cancel{Client: "bob", Task: queued.Task.ID, Sender: "bob"}))
		c := completion("a-1", *queued, market.Usage{})
		c.Outcome, c.Cost, c.Finish, c.TTFTUS, c.ITLUS = bus.OutcomeCancelled, 0, "", 0, 0
		e.must(e.step(c))
		last := queued.Task.ID
		e.ask("bob")
		if queued.Task.ID == last {
			t.Fatalf("after %d were cancelled none has the place", i+1)
		}
		e.pass(10 * time.Millisecond)
	}
	e.runs = e.runs[:8]
	e.lets(5 * time.Second)
	if now := e.n.Stats().Regime.Serves; now > 1.1*serves {
		t.Errorf("8 slots are believed to serve %.1f tasks a second, and before %.1f", now, serves)
	}
}

// Who has no time until a slot is free is given no place in an engine's queue, and told the truth in the end.
func TestNoTimeForAQueue(t *testing.T) {
	for left, want := range map[time.Duration]int{150 * time.Millisecond: 8, 30 * time.Second: 9} {
		e, _ := nine(t)
		e.lets(10 * time.Second)
		for i := range 9 {
			e.ask("eve", func(m *bus.Task) {
				if i == 8 {
					m.DeadlineMS = e.now.Add(left).UnixMilli()
				}
			})
			e.lets(time.Millisecond)
		}
		if len(e.runs) != want {
			t.Errorf("with %v left %d run, want %d", left, len(e.runs), want)
		}
		last := fmt.Sprint("t", e.serial)
		if waits := e.n.Unserved("eve", last); waits != nil && !waits.Blocked() {
			t.Errorf("with %v left it waits beside slots that others have, and is not counted", left)
		}
		e.lets(20 * time.Second)
		if got := e.answerTo("inbox.eve." + last); want == 8 && got != string(bus.CodeNoRoom) {
			t.Errorf("with %v left it is told %q", left, got)
		}
	}
}
