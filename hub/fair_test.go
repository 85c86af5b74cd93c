package hub_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// Where nobody says terms, a client with 2 callers waits no longer than one with 40 beside it: on one slot,
// of which nobody has more than the other at the moment that it comes free, as on several, and where the
// small client's answers are longer.
func TestFewCallersWaitNoLongerThanMany(t *testing.T) {
	for _, slots := range []int{1, 2, 8} {
		if testing.Short() && slots == 2 {
			continue
		}
		for _, longer := range []time.Duration{0, 2 * time.Second} {
			t.Run(fmt.Sprint(slots, " slots, longer by ", longer), func(t *testing.T) {
				e := newEngines(t, nil)
				e.join("a-1", "llama", slots, 0.9, card(1, 1, 4))
				e.took = func(d *bus.Dispatch) (time.Duration, market.Usage) {
					u := market.Usage{Prompt: 100, Output: 50}
					if d.Task.Client == "small" {
						return time.Second + longer, u
					}
					return time.Second, u
				}
				waits := map[string][]time.Duration{}
				e.began = func(d *bus.Dispatch) {
					waits[d.Task.Client] = append(waits[d.Task.Client], e.waited(d))
				}
				e.ended = func(d *bus.Dispatch, _ market.Credits) { e.ask(d.Task.Client) }
				for range 40 {
					e.ask("big")
				}
				for range 2 {
					e.ask("small")
				}
				e.lets(3 * time.Minute)
				big, small := waits["big"], waits["small"]
				if slices.Sort(big); len(big) < 50 {
					t.Fatalf("%d tasks of the big client began: the test sees little", len(big))
				}
				if slices.Sort(small); len(small) < 10 {
					t.Fatalf("%d tasks of the small client began in minutes", len(small))
				}
				for _, of := range []int{50, 90, 100} {
					b, s := big[(len(big)-1)*of/100], small[(len(small)-1)*of/100]
					if s > b {
						t.Errorf("%d of a hundred waits are at most %v, of the big client's %v", of, s, b)
					}
				}
				e.audited()
			})
		}
	}
}

// A task that comes again under its id, after it was refused or cut off while it waited, goes before those
// who have waited for less than it had, as if no time had passed between. Who sends a task early and cancels
// it, or sends another under its id, goes before nobody by that.
func TestARetryKeepsItsPlace(t *testing.T) {
	cut := func(e *engines, m *bus.Task) {
		e.must(e.step(&bus.Cancel{Client: m.Client, Task: m.ID, Sender: m.Client}))
	}
	for _, test := range []struct {
		name   string
		cut    func(*engines, *bus.Task)
		first  time.Duration // how long it waits before it is cut off
		again  func(*bus.Task)
		before bool // it goes before bob's
	}{
		{"cut off", cut, 2 * time.Second, nil, true},
		{"refused", func(e *engines, m *bus.Task) { e.want(m.Inbox, "no_room") }, 2 * time.Second, nil, true},
		{"sent away", func(e *engines, m *bus.Task) {
			e.n.Room(false)
			e.n.Room(true)
			e.run()
			e.want(m.Inbox, "unavailable")
		}, 2 * time.Second, nil, true},
		{"cancelled at once", cut, 0, nil, false},
		{"cancelled sooner than bob has waited", cut, time.Second, nil, false},
		{"another task", cut, 2 * time.Second,
			func(m *bus.Task) { m.Body = []byte(`{"messages":[1]}`) }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := newEngines(t, nil)
			e.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
			e.took = func(*bus.Dispatch) (time.Duration, market.Usage) {
				return 10 * time.Second, market.Usage{Prompt: 100, Output: 50}
			}
			var order []string
			e.began = func(d *bus.Dispatch) { order = append(order, d.Task.Client) }
			e.ask("cid")
			m := e.task("ann", "t", func(m *bus.Task) {
				if m.DeadlineMS = e.now.Add(time.Minute).UnixMilli(); test.name == "refused" {
					m.DeadlineMS = e.now.Add(test.first).UnixMilli()
				}
			})
			first := *m
			e.send(&first)
			e.lets(test.first)
			test.cut(e, m)
			e.ask("bob")
			e.lets(1500 * time.Millisecond)
			m.DeadlineMS = 0
			if test.again != nil {
				test.again(m)
			}
			e.send(m)
			e.lets(20 * time.Second)
			want := []string{"cid", "bob", "ann"}
			if test.before {
				want = []string{"cid", "ann", "bob"}
			}
			if !slices.Equal(order, want) {
				t.Errorf("they began in the order %v, want %v", order, want)
			}
			e.audited()
		})
	}
}

// Of what is remembered of tasks that may come again nothing grows without a bound, and a client with many
// leaves the others theirs.
func TestPlacesOfRetriesAreBounded(t *testing.T) {
	e := newEngines(t, nil)
	e.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	e.took = func(*bus.Dispatch) (time.Duration, market.Usage) {
		return 20 * time.Second, market.Usage{Prompt: 100, Output: 50}
	}
	var order []string
	e.began = func(d *bus.Dispatch) { order = append(order, d.Task.Client) }
	e.ask("cid")
	keep := e.task("ann", "t")
	copied := *keep
	e.send(&copied)
	e.lets(2 * time.Second)
	e.must(e.step(&bus.Cancel{Client: "ann", Task: "t", Sender: "ann"}))
	for range 5000 {
		id := e.ask("mallory")
		e.now = e.now.Add(time.Microsecond)
		e.must(e.step(&bus.Cancel{Client: "mallory", Task: id, Sender: "mallory"}))
	}
	e.ask("bob")
	e.lets(time.Second)
	e.send(keep)
	e.lets(time.Minute)
	if want := []string{"cid", "ann", "bob"}; !slices.Equal(order, want) {
		t.Errorf("they began in the order %v, want %v", order, want)
	}
}
