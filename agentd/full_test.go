package agentd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"souk/bus"
)

// An engine that answers that its queue is full is asked seldom, with pauses that grow; what it does take it
// is given; and once it has room it is used again, up to all slots.
func TestAFullEngineIsAskedSeldom(t *testing.T) {
	for _, room := range []int{0, 3} {
		a := newTestAgent(8, Config{})
		a.Claimed(claim(5))
		now, asked, refused := begun, 0, 0
		var last bus.Summary
		ends := map[*bus.Dispatch]time.Time{}
		end := func(d *bus.Dispatch, c bus.Completion) {
			c.Hold = d.Hold
			a.Ended(d, &Ending{Completion: c})
			a.Acked(d.Hold, "")
			delete(ends, d)
		}
		step := func(room int) { // a hub gives it as many tasks as it offers
			now = now.Add(50 * time.Millisecond)
			for d, at := range ends {
				if !now.Before(at) {
					end(d, bus.Completion{Outcome: bus.OutcomeDone})
				}
			}
			if s := a.Ready(now).Summary; s != nil {
				last = *s
			}
			for last.State == bus.StateReady && len(ends) < last.Slots {
				asked++
				d := dispatch(fmt.Sprint("h", asked))
				if reply, start := a.Dispatch("math", d); !start {
					if reply.Code != bus.CodeNoSlot {
						t.Fatal(reply)
					}
					return
				}
				if len(ends) < room {
					a.Began(d, nil)
					ends[d] = now.Add(500 * time.Millisecond)
					continue
				}
				refused++
				end(d, bus.Completion{Outcome: bus.OutcomeFailed, Code: bus.CodeNoSlot})
			}
		}
		for range 1200 { // a minute
			step(room)
		}
		if refused < 5 || refused > 12 {
			t.Errorf("room for %d: in a minute it is asked %d times, %d of them in vain", room, asked, refused)
		}
		if room > 0 && asked-refused < 250 {
			t.Errorf("room for %d: it is given %d tasks", room, asked-refused)
		}
		for range 400 { // twenty seconds
			step(8)
		}
		if len(ends) != 8 || last.Slots != 8 || last.State != bus.StateReady {
			t.Errorf("with room again it has %d tasks of %d slots", len(ends), last.Slots)
		}
	}
}

// An engine that refuses what is beyond its slots is given one such task and no other, and all of its slots
// are offered on: also where one had a place again by the time it refused, and whoever's tasks these are.
func TestAnEngineThatHasNoQueue(t *testing.T) {
	for _, clients := range [][]string{{"c"}, {"c", "c", "c", "c", "d"}} {
		a := newTestAgent(8, Config{})
		a.Claimed(claim(5))
		now, asked, refused, least := begun, 0, 0, 8
		var last bus.Summary
		var runs []*bus.Dispatch
		end := func(d *bus.Dispatch, code bus.Code) {
			a.Ended(d, &Ending{Completion: bus.Completion{Hold: d.Hold, Code: code,
				Outcome: bus.OutcomeFailed}})
			a.Acked(d.Hold, "")
		}
		for range 600 {
			now = now.Add(50 * time.Millisecond)
			if s := a.Ready(now).Summary; s != nil {
				last = *s
			}
			least = min(least, last.Slots)
			var refuses *bus.Dispatch
			for refuses == nil && (len(runs) < last.Slots || last.Queue && len(runs) == last.Slots) {
				d := dispatch(fmt.Sprint("h", asked))
				d.Task.Client = clients[asked%len(clients)]
				asked++
				if _, start := a.Dispatch("math", d); !start {
					break // until its next summary comes
				}
				if len(runs) < 8 {
					a.Began(d, nil)
					runs = append(runs, d)
				} else {
					refuses = d
				}
			}
			end(runs[0], "")
			runs = runs[1:]
			if refuses != nil {
				refused++
				end(refuses, bus.CodeNoSlot)
			}
		}
		if refused != 1 || least != 8 || asked < 500 {
			t.Errorf("of %v: %d of %d are refused, and it offers %d of 8 slots", clients, refused, asked, least)
		}
		a.Healthy(new(int64(500)))
		a.Healthy(new(int64(3))) // it was started anew, perhaps with a queue
		if s := a.Ready(now.Add(time.Second)).Summary; last.Queue || s == nil || !s.Queue {
			t.Errorf("of %v: started anew it says %+v", clients, s)
		}
	}
}

// What an engine refuses one client alone takes no slots from others; and how long it asks to be left alone
// is heeded, up to a minute.
func TestWhoIsRefused(t *testing.T) {
	const most = 8
	at := begun
	var f full
	refuse := func(client string, running int) { f.refuses(at, client, running, 0) }
	refuse("ann", 2)
	if !f.limited || f.most != 2 {
		t.Errorf("the first is held to be full: %+v", f)
	}
	at = at.Add(time.Second)
	f.passes(at)
	at = at.Add(time.Second)
	f.passes(at)
	for running := 3; running <= most; running++ {
		f.takes(at, "bob", running, most)
	}
	for range 100 {
		at = at.Add(50 * time.Millisecond)
		f.takes(at, "bob", 3, most)
		if refuse("ann", 2); f.limited {
			t.Fatalf("ann is refused again, and bob is not: %+v", f)
		}
	}
	if refuse("bob", 2); !f.limited {
		t.Error("bob is refused, too: it is full")
	}
	f = full{}
	refuse("ann", 2)
	f.passes(at)
	at = at.Add(time.Second)
	f.passes(at)
	f.takes(at, "ann", 3, most)
	if refuse("ann", 3); !f.pauses || f.most != 3 {
		t.Errorf("of one client alone it is told as ever: %+v", f)
	}

	for asked, pause := range map[time.Duration]time.Duration{0: fullLeast, time.Millisecond: fullLeast,
		30 * time.Second: 30 * time.Second, time.Hour: fullAsked} {
		f = full{}
		f.refuses(at, "ann", 1, asked)
		_, due := f.passes(at)
		if over, _ := f.passes(at.Add(pause - 1)); over || !due.Equal(at.Add(pause)) {
			t.Errorf("it asks for %v, and is left alone until %v", asked, due.Sub(at))
		}
		if over, _ := f.passes(at.Add(pause)); !over {
			t.Errorf("after %v it is left alone still", pause)
		}
	}
	e := NewRun(dispatch("h"), "a1", "tiny", 16).End(Answer{Unmetered: true},
		&EngineError{Code: bus.CodeNoSlot, Again: 30 * time.Second})
	if e.Again != 30*time.Second || e.Result.RetryMS != 30_000 || e.Engine {
		t.Errorf("%v, and the client may ask again in %d ms", e.Again, e.Result.RetryMS)
	}
}

// An engine that has no endpoint for a kind of task is well, unless it had it before, or has none at all;
// what it lacks is forgotten when it starts again.
func TestWhatAnEngineHasNoEndpointFor(t *testing.T) {
	a := newTestAgent(8, Config{})
	a.Claimed(claim(5))
	n := 0
	without := func(kind string, served bool, features string, missing, engine bool) {
		t.Helper()
		n++
		d := dispatch(fmt.Sprint("h", n))
		if d.Task.Kind = kind; served {
			a.Dispatch("math", d)
			a.Began(d, nil)
			a.Ended(d, &Ending{Completion: bus.Completion{Hold: d.Hold}})
			return
		}
		a.Dispatch("math", d)
		e := NewRun(d, "a1", "tiny", 16).End(Answer{Unmetered: true},
			&EngineError{Code: bus.CodeUnknownModel, Missing: true})
		a.Ended(d, &e)
		if got := strings.Join(a.Registration("n").Features, " "); got != features || e.Missing != missing ||
			e.Engine != engine {
			t.Errorf("%s: %q, news %v, unhealthy %v", kind, got, e.Missing, e.Engine)
		}
	}
	without(bus.KindCompletion, false, "no_completions", true, false)
	without(bus.KindCompletion, false, "no_completions", false, false)
	without(bus.KindChat, false, "no_completions", false, true)
	if err := a.Returned(a.info); err != nil {
		t.Fatal(err)
	}
	without(bus.KindChat, true, "", false, false)
	without(bus.KindChat, false, "", false, true)
	without(bus.KindCompletion, false, "no_completions", true, false)

	// a proxy said so while the engine started: it is asked again each minute
	now := time.Unix(1e9, 0)
	for i, c := range []struct {
		after time.Duration
		due   bool
	}{{0, false}, {59 * time.Second, false}, {time.Second, true}, {59 * time.Second, false},
		{time.Second, true}} {
		now = now.Add(c.after)
		r, due := a.AskAgain(now)
		if due != c.due || r.Kind != bus.KindCompletion || r.MaxTokens != 1 {
			t.Errorf("%d: asked again %v, by %+v", i, due, r)
		}
	}
	a.Has()
	if _, due := a.AskAgain(now.Add(time.Hour)); due || len(a.Registration("n").Features) > 0 {
		t.Errorf("asked again %v though it has served it, features %q", due, a.Registration("n").Features)
	}
}
