package hub_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/market"
)

// engines is a house whose agents serve what they are given, and say each second that they are well, in
// virtual time.
type engines struct {
	*house
	// how long a task keeps its slot, and what it uses
	took  func(*bus.Dispatch) (time.Duration, market.Usage)
	began func(*bus.Dispatch)
	ended func(*bus.Dispatch, market.Credits) // with what it cost
	sick  map[string]string                   // what agents say of their state that are not ready
	mute  map[string]bool                     // agents that say nothing
	queue bool                                // agents take a task beyond their slots

	asked  map[string]time.Time // when each task was sent first
	runs   []run
	beat   time.Time
	serial int
}

type run struct {
	ends time.Time
	d    bus.Dispatch
	use  market.Usage
}

func newEngines(t *testing.T, change func(*hub.Config)) *engines {
	e := &engines{house: newHouse(t, change), sick: map[string]string{}, mute: map[string]bool{},
		asked: map[string]time.Time{}}
	e.took = func(*bus.Dispatch) (time.Duration, market.Usage) {
		return time.Second, market.Usage{Prompt: 100, Output: 50}
	}
	e.began, e.ended = func(*bus.Dispatch) {}, func(*bus.Dispatch, market.Credits) {}
	e.beat = e.now
	return e
}

// ask sends a task of a client, who has money, and returns its id.
func (e *engines) ask(client string, change ...func(*bus.Task)) string {
	e.t.Helper()
	e.serial++
	id := fmt.Sprint("t", e.serial)
	e.send(e.task(client, id, change...))
	return id
}

// send sends it, and hands out what begins.
func (e *engines) send(m *bus.Task) {
	if _, ok := e.prepaid[m.Client]; !ok {
		e.prepaid[m.Client] = 1_000_000 * market.Credit
	}
	if _, ok := e.asked[m.Client+"."+m.ID]; !ok {
		e.asked[m.Client+"."+m.ID] = e.now
	}
	_ = e.step(m)
	e.begin()
}

// waited is how long a task has waited that begins now.
func (e *engines) waited(d *bus.Dispatch) time.Duration {
	return e.now.Sub(e.asked[d.Task.Client+"."+d.Task.ID])
}

// begin has agents take what was dispatched to them.
func (e *engines) begin() {
	for len(e.dispatched) > 0 {
		d := e.dispatched[0]
		e.dispatched = e.dispatched[1:]
		e.began(&d)
		lasts, use := e.took(&d)
		e.accept(d)
		e.runs = append(e.runs, run{e.now.Add(lasts), d, use})
	}
}

// lets passes virtual time: answers end, agents speak, and the hub is woken when it wants to be.
func (e *engines) lets(pass time.Duration) {
	e.t.Helper()
	until := e.now.Add(pass)
	for {
		next, which := until, -1
		for i := range e.runs {
			if e.runs[i].ends.Before(next) {
				next, which = e.runs[i].ends, i
			}
		}
		beat := e.beat.Before(next)
		if beat {
			next = e.beat
		}
		wake := !e.wake.IsZero() && e.wake.Before(next)
		if wake {
			next = e.wake
			if !next.After(e.now) {
				next = e.now.Add(time.Microsecond)
			}
		}
		e.pass(max(0, next.Sub(e.now)))
		e.begin()
		switch {
		case wake:
		case beat:
			e.beat = e.beat.Add(time.Second)
			e.beats()
		case which >= 0:
			r := e.runs[which]
			e.runs = slices.Delete(e.runs, which, which+1)
			rec, ok := e.replica.Hold(r.d.Hold)
			if !ok { // it has failed meanwhile
				break
			}
			c := completion(rec.Agent, r.d, r.use)
			c.Boot = r.d.Boot
			e.must(e.step(c))
			e.ended(&r.d, c.Cost)
			e.begin()
		default:
			return
		}
	}
}

func (e *engines) beats() {
	for _, id := range slices.Sorted(maps.Keys(e.agents)) {
		if e.agents[id].joined && !e.mute[id] {
			e.must(e.summary(id, func(m *bus.Summary) {
				if m.Queue = e.queue; e.sick[id] != "" {
					m.State = e.sick[id]
				}
			}))
			e.begin()
		}
	}
}
