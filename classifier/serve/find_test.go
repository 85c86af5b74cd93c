package serve_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/classifier"
)

// again asks for a task as a reader does whose door has died.
func (w *world) again(heard int, change ...func(*bus.Task)) bus.Answer {
	w.t.Helper()
	a, err := w.tries(heard, change...)
	if err != nil {
		w.t.Fatalf("no answer: %v", err)
	}
	return a
}

func (w *world) tries(heard int, change ...func(*bus.Task)) (a bus.Answer, err error) {
	task := &bus.Task{ID: "t1", Stream: true, Again: heard,
		Body: []byte(`{"messages":[{"role":"user","content":"` + mathQuestion + `"}]}`)}
	for _, f := range change {
		f(task)
	}
	data, err := bus.Encode(task)
	if err != nil {
		return a, err
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Hour)
	defer cancel()
	m, err := w.me.Request(ctx, bus.Msg{Subject: bus.TaskSubject("ada", ""), Data: data})
	if err == nil {
		err = bus.Decode(m.Data, &a)
	}
	return a, err
}

// knows has a hub say whether it knows tasks, and accept those that it is given.
func (h *hub) knows(known bool) (given func() int) {
	n := 0
	h.answer = func(m bus.Msg, t *bus.Task) {
		switch {
		case len(t.Body) > 0:
			h.mu.Lock()
			n++
			h.mu.Unlock()
			if t.Again != 0 {
				h.w.t.Errorf("hub %s is told what is for doors alone", h.domain)
			}
			h.accept(m, t)
			return
		case known:
			h.says(m, t, bus.CodeIDConflict)
		default:
			h.says(m, t, bus.CodeEmptyPrompt)
		}
	}
	return func() int {
		h.mu.Lock()
		defer h.mu.Unlock()
		return n
	}
}

func (h *hub) says(m bus.Msg, t *bus.Task, c bus.Code) {
	h.w.send(m.Reply, &bus.Answer{Result: &bus.Result{Client: t.Client, Task: t.ID, Hub: h.domain, Code: c,
		Message: "said hub " + h.domain}})
}

// Whoever asks a door for a task that another door had gets it from the hub that has it, wherever this door
// would have placed it; and nobody serves it twice.
func TestATaskOfADeadDoorIsFound(t *testing.T) {
	for _, c := range []struct {
		name          string
		math, general string // knows, not or silent
		heard         int
		want          string // the hub that gets it
	}{
		{"the hub that knows it", "not", "knows", bus.AgainHeard, "general"},
		{"the hub that knows it, unheard", "not", "knows", bus.AgainUnheard, "general"},
		{"a hub is silent, and another knows it", "silent", "knows", bus.AgainUnheard, "general"},
		{"nobody knows it", "not", "not", bus.AgainUnheard, "math"},
		{"nobody knows it, and somebody speaks of it", "not", "not", bus.AgainHeard, ""},
		{"a hub does not say", "not", "silent", bus.AgainUnheard, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, nil, func(t *testing.T, w *world) {
				math, general := twoHubs(w)
				given := map[string]func() int{}
				for h, says := range map[*hub]string{math: c.math, general: c.general} {
					given[h.domain] = h.knows(says == "knows")
					if says == "silent" {
						h.answer = func(bus.Msg, *bus.Task) {}
					}
				}
				a := w.again(c.heard)
				switch {
				case c.want != "" && (a.Accepted == nil || a.Accepted.Hub != c.want):
					t.Errorf("answered %+v, want hub %s", a, c.want)
				case c.want == "" && (a.Result == nil || a.Result.Code != bus.CodeUnavailable):
					t.Errorf("answered %+v, want unavailable", a)
				}
				for h, n := range given {
					if want := map[bool]int{true: 1}[h == c.want]; n() != want {
						t.Errorf("hub %s got it %d times, want %d", h, n(), want)
					}
				}
			})
		})
	}
}

// line is a bus that can stand still: as a process that is frozen, its user then hears nothing and, later,
// all of it at once.
type line struct {
	bus.Bus

	mu     sync.Mutex
	frozen chan struct{} // closed once it moves again; nil: it does
	held   []func()
}

func (l *line) slow(h bus.Handler) bus.Handler {
	return func(m bus.Msg) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.frozen == nil {
			h(m)
			return
		}
		l.held = append(l.held, func() { h(m) })
	}
}

func (l *line) Subscribe(subject, queue string, h bus.Handler) (bus.Subscription, error) {
	return l.Bus.Subscribe(subject, queue, l.slow(h))
}

func (l *line) Flush(ctx context.Context) error {
	l.mu.Lock()
	frozen := l.frozen
	l.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
	return l.Bus.Flush(ctx)
}

func (l *line) Request(ctx context.Context, m bus.Msg) (bus.Msg, error) {
	m, err := l.Bus.Request(ctx, m)
	l.mu.Lock()
	frozen := l.frozen
	l.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
	return m, err
}

func (l *line) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen = make(chan struct{})
}

func (l *line) thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, hear := range l.held {
		hear()
	}
	close(l.frozen)
	l.frozen, l.held = nil, nil
}

// A door that was frozen when it was sent a task looks whether it was placed meanwhile, since nobody tells it
// that its reader has asked another door.
func TestAFrozenDoorPlacesNothingTwice(t *testing.T) {
	for name, c := range map[string]struct {
		frozen time.Duration
		want   string
	}{
		"longer than a reader waits": {8 * time.Second, "general"},
		"for a moment":               {time.Second, "math"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, nil, func(t *testing.T, w *world) {
				math, general := twoHubs(w)
				placed := math.knows(false)
				w.pass(10 * time.Second)
				w.line.freeze()
				answer := make(chan bus.Answer, 1)
				go func() { answer <- w.again(0) }()
				w.pass(c.frozen)
				general.knows(true) // another door has placed it there, and there it is accepted once more
				w.line.thaw()
				if a := <-answer; a.Accepted == nil || a.Accepted.Hub != c.want {
					t.Errorf("it goes to %+v, want hub %s; answered %+v", a.Accepted, c.want, a.Result)
				}
				if n := placed(); n != map[string]int{"math": 1}[c.want] {
					t.Errorf("hub math has it %d times", n)
				}
				// and what comes later is placed as ever
				w.pass(3 * time.Second)
				before := len(general.seen())
				w.ask("bob", stream(mathQuestion, `"task":"t2"`), nil)
				if n := len(general.seen()) - before; n != 0 {
					t.Errorf("the other hub is asked of %d tasks that nobody else has", n)
				}
			})
		})
	}
}

// A door that hears nothing of the server any more says so, once it is sure, until it does again.
func TestADoorSaysThatItIsDeaf(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		twoHubs(w)
		w.pass(time.Minute)
		if why := w.door.Deaf(); why != "" {
			t.Errorf("a door that hears: %s", why)
		}
		w.line.freeze()
		w.pass(8 * time.Second)
		if why := w.door.Deaf(); why != "" {
			t.Errorf("after 8 s: %s", why)
		}
		w.pass(12 * time.Second)
		if why := w.door.Deaf(); !strings.Contains(why, "NATS has not answered for 2") {
			t.Errorf("after 20 s: %q", why)
		}
		w.line.thaw()
		w.pass(3 * time.Second)
		if why := w.door.Deaf(); why != "" {
			t.Errorf("it hears again: %s", why)
		}
	})
}

// A task that is in hand here is no other hub's: both who ask for it hear what becomes of it.
func TestATaskInHandIsAskedForAgain(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		math, _ := twoHubs(w)
		math.answer = func(m bus.Msg, task *bus.Task) {
			go func() {
				w.pass(10 * time.Second)
				math.accept(m, task)
			}()
		}
		first := make(chan bus.Answer, 1)
		go func() { first <- w.again(0) }()
		synctest.Wait()
		second := w.again(bus.AgainUnheard)
		if a := <-first; a.Accepted == nil || second.Accepted == nil || *a.Accepted != *second.Accepted {
			t.Errorf("answered %+v and %+v", a, second)
		}
		if n := len(math.seen()); n != 2 { // its first verdict may have been lost
			t.Errorf("the hub was sent it %d times, want once more than before", n)
		}
		go func() { first <- w.again(0) }() // one that is another under the same id is the hub's to judge
		synctest.Wait()
		math.answer = func(m bus.Msg, task *bus.Task) { math.says(m, task, bus.CodeIDConflict) }
		data, err := bus.Encode(&bus.Task{ID: "t1", Stream: true, Again: bus.AgainUnheard,
			Body: []byte(`{"messages":[{"role":"user","content":"Another."}]}`)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var a bus.Answer
		m, err := w.me.Request(ctx, bus.Msg{Subject: bus.TaskSubject("ada", ""), Data: data})
		if err == nil {
			err = bus.Decode(m.Data, &a)
		}
		if err != nil || a.Result == nil || a.Result.Code != bus.CodeIDConflict {
			t.Errorf("another task under the id in hand: %+v %v", a, err)
		}
		<-first
	})
}

// A door that slept over a task asks whether another has placed it meanwhile.
func TestADoorThatSlept(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		task  bus.Task
		after time.Duration
		want  bool
	}{
		{bus.Task{Stream: true}, time.Second, false},
		{bus.Task{Stream: true}, 4 * time.Second, true},
		{bus.Task{}, 4 * time.Second, false},
		{bus.Task{Stream: true, Again: bus.AgainUnheard}, 0, true},
		{bus.Task{Stream: true, Again: bus.AgainUnheard, Resume: &bus.Resume{}}, 0, false},
	} {
		if got := classifier.MayBePlaced(&c.task, now, now.Add(c.after)); got != c.want {
			t.Errorf("%+v after %v: %v", c.task, c.after, got)
		}
	}
}

// A hub that is not sure whether another has the task has the door ask all of them. It is then given the task
// with the number that it said, unless another has it.
func TestAHubHasAllOfThemAsked(t *testing.T) {
	for _, known := range []bool{false, true} {
		inWorld(t, nil, func(t *testing.T, w *world) {
			math, general := twoHubs(w)
			general.knows(known)
			w.pass(10 * time.Second)
			said := bus.LastStatus{Epoch: 3, Seq: 99}
			var heard []bus.LastStatus
			math.answer = func(m bus.Msg, t *bus.Task) {
				switch {
				case len(t.Body) == 0:
					math.says(m, t, bus.CodeEmptyPrompt)
				case t.LastStatus == nil:
					w.t.Error("the door says nothing of what it heard")
				case *t.LastStatus != said:
					heard = append(heard, *t.LastStatus)
					w.send(m.Reply, &bus.Answer{Lookup: &said, Result: &bus.Result{Client: t.Client,
						Task: t.ID,
						Hub:  "math", Code: bus.CodeUnavailable}})
				default:
					math.accept(m, t)
				}
			}
			want := map[bool]string{false: "math", true: "general"}[known]
			if a := w.again(0); a.Accepted == nil || a.Accepted.Hub != want {
				t.Errorf("answered %+v, want hub %s", a, want)
			}
			if len(heard) != 1 || heard[0].Epoch == 0 || heard[0].Seq == 0 {
				t.Errorf("before that the hub was told %+v", heard)
			}
		})
	}
}

// A hub that had a task in its line for a while, where nobody else asked for it, has no room for it after
// all. Until it said so nobody else had the task, so the next hub is given it at once, as a fresh one: no hub
// is asked for it, and one that does not answer is in nobody's way. One that was asked for it by others
// does not say so: then all hubs are asked.
func TestATaskThatWaitedGoesOn(t *testing.T) {
	for _, alone := range []bool{true, false} {
		inWorld(t, nil, func(t *testing.T, w *world) {
			math, general := twoHubs(w)
			silent := w.hub("code", bus.Status{Labels: []string{"code"}})
			silent.answer = func(bus.Msg, *bus.Task) {}
			math.answer = func(m bus.Msg, t *bus.Task) {
				if len(t.Body) == 0 {
					math.says(m, t, bus.CodeEmptyPrompt)
					return
				}
				go func() {
					w.pass(5 * time.Second)
					w.send(m.Reply, &bus.Answer{SoleOwner: alone, Result: &bus.Result{
						Client: t.Client, Task: t.ID,
						Hub: "math", Code: bus.CodeNoRoom, Message: "no slot came free"}})
				}()
			}
			general.answer = func(m bus.Msg, t *bus.Task) {
				general.mu.Lock()
				now := bus.LastStatus{Epoch: general.status.Epoch, Seq: general.status.Seq}
				general.mu.Unlock()
				switch {
				case len(t.Body) == 0:
					general.says(m, t, bus.CodeEmptyPrompt)
				case t.LastStatus == nil || t.LastStatus.Epoch != now.Epoch ||
					now.Seq-t.LastStatus.Seq > 3: // three seconds
					w.send(m.Reply, &bus.Answer{Lookup: &now, Result: &bus.Result{Client: t.Client,
						Task: t.ID,
						Hub:  "general", Code: bus.CodeUnavailable, Message: "look"}})
				default:
					general.accept(m, t)
				}
			}
			w.pass(10 * time.Second)
			asked := time.Now()
			a := w.again(0)
			switch {
			case alone && (a.Accepted == nil || a.Accepted.Hub != "general" || len(silent.seen()) > 0):
				t.Errorf("answered %+v, and hub code was asked %d times", a, len(silent.seen()))
			case alone && time.Since(asked) > 5*time.Second+100*time.Millisecond:
				t.Errorf("accepted after %v", time.Since(asked))
			case !alone && (a.Result == nil || a.Result.Code != bus.CodeUnavailable ||
				len(silent.seen()) != 1):
				t.Errorf("others asked for it: answered %+v, and hub code was asked %d times", a,
					len(silent.seen()))
			}
		})
	}
}

// A door that was frozen while the hub's refusal lay before it does not know who has had the task since. What
// it names is what it had heard before the refusal came; after six seconds it believes no refusal, and finds
// the hub that another door gave the task.
func TestAFrozenDoorHearsARefusalLate(t *testing.T) {
	for _, frozen := range []time.Duration{4 * time.Second, 8 * time.Second} {
		inWorld(t, nil, func(t *testing.T, w *world) {
			math, general := twoHubs(w)
			refuse := func(m bus.Msg, t *bus.Task) {
				w.send(m.Reply, &bus.Answer{SoleOwner: true, Result: &bus.Result{Client: t.Client, Task: t.ID,
					Hub: "math", Code: bus.CodeNoRoom, Message: "no slot came free"}})
			}
			math.answer = func(m bus.Msg, t *bus.Task) {
				if len(t.Body) == 0 {
					math.says(m, t, bus.CodeEmptyPrompt)
					return
				}
				go func() {
					w.pass(5 * time.Second)
					w.line.freeze()
					refuse(m, t)
					w.pass(frozen)
					w.line.thaw()
				}()
			}
			general.answer = func(m bus.Msg, t *bus.Task) {
				if len(t.Body) == 0 {
					general.says(m, t, bus.CodeIDConflict)
					return
				}
				general.accept(m, t)
			}
			w.pass(10 * time.Second)
			a := w.again(0)
			got := general.seen()
			general.mu.Lock()
			now := general.status.Seq
			general.mu.Unlock()
			looked := len(got[0].Body) == 0
			if looked != (frozen > 6*time.Second) || a.Accepted == nil || a.Accepted.Hub != "general" {
				t.Errorf("frozen for %v: all hubs asked: %v; answered %+v", frozen, looked, a)
			}
			if h := got[0].LastStatus; !looked && (h == nil || now-h.Seq < 4) {
				t.Errorf("status %d is the last now, and it names %+v", now, h)
			}
		})
	}
}

// What a door says that it heard it had heard before the task was sent, however much it hears before it sends
// it on. Where nobody can ask another door, it says nothing.
func TestWhatADoorHasHeard(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		math, _ := twoHubs(w)
		w.pass(3 * time.Second)
		w.line.freeze()
		answer := make(chan bus.Answer, 1)
		go func() { answer <- w.again(0) }()
		w.pass(2 * time.Second)
		w.line.thaw()
		<-answer
		first := math.seen()[0].LastStatus
		w.pass(3 * time.Second)
		w.ask("bob", stream(mathQuestion, `"task":"t2"`), nil)
		second := math.seen()[1].LastStatus
		if first == nil || second == nil || second.Seq < first.Seq+4 {
			t.Errorf("heard %+v, and five seconds later %+v", first, second)
		}
		w.ask("bob", stream(mathQuestion, ""), nil)
		if h := math.seen()[2].LastStatus; h != nil {
			t.Errorf("of a task that only this door knows: %+v", h)
		}
	})
}

// A hub that a door has not heard has all hubs asked for every task of it. So the door makes haste to have
// heard it.
func TestADoorSoonHasHeardAHub(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		math, _ := twoHubs(w)
		w.pass(200 * time.Millisecond)
		w.ask("bob", stream(mathQuestion, `"task":"t1"`), nil)
		if h := math.seen()[0].LastStatus; h == nil || h.Epoch == 0 {
			t.Errorf("it has heard of a hub that it knows for 200 ms: %+v", h)
		}
	})
}

// A task that is asked for once more after its deadline is with the hub that has it: only hubs know whether
// it is served.
func TestATaskIsFoundAfterItsDeadline(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		math, general := twoHubs(w)
		math.knows(false)
		general.knows(true)
		late := func(t *bus.Task) { t.DeadlineMS = time.Now().Add(-time.Minute).UnixMilli() }
		if a := w.again(bus.AgainUnheard, late); a.Accepted == nil || a.Accepted.Hub != "general" {
			t.Errorf("answered %+v", a)
		}
		fresh := func(t *bus.Task) { t.ID, t.DeadlineMS = "t2", time.Now().Add(-time.Minute).UnixMilli() }
		if a := w.again(0, fresh); a.Result == nil || a.Result.Code != bus.CodePastDeadline ||
			!strings.Contains(a.Result.Message, "1m0s ago by this door's clock, which says "+
				time.Now().UTC().Format(time.RFC3339)) {
			t.Errorf("a task that nobody had before is answered %+v", a)
		}
	})
}

// A door that gave a task to a hub, which refused it, does not know where another door has put it since.
func TestADoorsMemoryMayBeOld(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		math, general := twoHubs(w)
		math.refuse(bus.CodeInsufficientFunds)
		if a := w.again(0); a.Result == nil || a.Result.Code != bus.CodeInsufficientFunds {
			t.Fatalf("answered %+v", a)
		}
		math.knows(false)
		general.knows(true)
		if a := w.again(bus.AgainUnheard); a.Accepted == nil || a.Accepted.Hub != "general" {
			t.Errorf("answered %+v, want hub general, which has it", a)
		}
	})
}

// A hub that has left may have the task that is asked for once more, so nobody else is given it: until it is
// back with its journal, or so long ago that no reader asks for what it had. Who asks for the first time is
// served.
func TestATaskMayBeWithAHubThatLeft(t *testing.T) {
	for name, c := range map[string]struct {
		back string // the journal that leads then; none if empty
		wait time.Duration
		age  int64 // of the task, in ms
		want bool  // it is placed
	}{
		"it stays away":              {want: false},
		"and the task is older":      {wait: 20 * time.Second, age: 22_000, want: false},
		"and the task is younger":    {wait: 20 * time.Second, age: 2_000, want: true},
		"another, and it is older":   {back: "other", wait: 20 * time.Second, age: 22_000, want: false},
		"another, and it is younger": {back: "other", wait: 20 * time.Second, age: 2_000, want: true},
		"it is back":                 {back: "general", want: true},
		"another journal leads":      {back: "other", want: false},
		"it left eight minutes ago":  {wait: 8 * time.Minute, want: true},
		"another, eight minutes ago": {back: "other", wait: 8 * time.Minute, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, nil, func(t *testing.T, w *world) {
				math, general := twoHubs(w)
				math.knows(false)
				general.knows(false)
				if c.back != "" {
					general.restart(time.Second, c.back)
				} else {
					general.lease.Close(t.Context())
					general.ear.Stop()
				}
				w.pass(c.wait + time.Second)
				math.say(func(*bus.Status) {})
				w.placesAgain(c.want, func(t *bus.Task) { t.AgeMS = c.age })
			})
		})
	}
}

// A question that was on its way for long, as its reader's connection stood still, does not make the task
// younger: its reader says when it was first sent, too. A clock that is ahead makes it no younger, either.
func TestAQuestionThatWasOnItsWayForLong(t *testing.T) {
	for name, c := range map[string]struct {
		before time.Duration // the hub left so long after the task was first sent
		ahead  time.Duration // the reader's clock
		late   time.Duration // on its way
		want   bool          // it is placed
	}{
		"the hub left after it was sent":   {before: time.Second, late: 10 * time.Second},
		"and the clock is behind":          {before: time.Second, ahead: -time.Hour, late: 10 * time.Second},
		"at once, and the clock is ahead":  {before: time.Second, ahead: time.Hour},
		"the hub left before it was sent":  {before: -5 * time.Second, late: 10 * time.Second, want: true},
		"at once, and the clock is behind": {before: -5 * time.Second, ahead: -2 * time.Second, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, nil, func(t *testing.T, w *world) {
				math, general := twoHubs(w)
				math.knows(false)
				general.lease.Close(t.Context())
				general.ear.Stop()
				first := time.Now().Add(-c.before)
				w.pass(6*time.Second - c.before)
				asked := bus.Task{AgeMS: 6000, FirstMS: first.Add(c.ahead).UnixMilli()}
				w.pass(c.late)
				math.say(func(*bus.Status) {})
				w.placesAgain(c.want, func(t *bus.Task) { t.AgeMS, t.FirstMS = asked.AgeMS, asked.FirstMS })
			})
		})
	}
}

// placesAgain asks for a task once more, which no hub that is there knows: it is placed, or a hub that has
// left may have it. A fresh one is placed either way.
func (w *world) placesAgain(want bool, change ...func(*bus.Task)) {
	w.t.Helper()
	a := w.again(bus.AgainUnheard, change...)
	if placed := a.Accepted != nil; placed != want || !placed && a.Result.Code != bus.CodeUnavailable {
		w.t.Errorf("answered %+v", a)
	}
	fresh := func(t *bus.Task) { t.ID = "t2" }
	if a := w.again(0, fresh); a.Accepted == nil {
		w.t.Errorf("a fresh task is answered %+v", a)
	}
}

// A door that begins when a hub has left knows nothing of it but what the registry remembers.
func TestATaskMayBeWithAHubThatLeftBefore(t *testing.T) {
	for name, c := range map[string]struct {
		led  []string // hubs that have led when the door begins
		wait time.Duration
		want bool // it is placed
	}{
		"one that left":               {led: []string{"math", "code"}, want: false},
		"one that left long ago":      {led: []string{"math", "code"}, wait: bus.LedFor, want: true},
		"none but those that lead":    {led: []string{"math", "general"}, want: true},
		"the registry remembers none": {want: true},
	} {
		t.Run(name, func(t *testing.T) {
			led := func(w *world) {
				for _, journal := range c.led {
					if err := w.reg.PutFor(t.Context(), bus.LedKey(journal), nil, bus.LedFor); err != nil {
						t.Fatal(err)
					}
				}
			}
			inWorldAfter(t, nil, led, func(t *testing.T, w *world) {
				math, general := twoHubs(w)
				math.knows(false)
				general.knows(false)
				w.pass(c.wait + time.Second)
				math.say(func(*bus.Status) {})
				w.placesAgain(c.want)
			})
		})
	}
}

// A registry that was not told of a door does not let it read which hubs have led: it opens all the same.
func TestADoorThatMayNotReadWhoHasLed(t *testing.T) {
	forbid := func(w *world) { w.forbidden = bus.LedPrefix }
	inWorldAfter(t, nil, forbid, func(t *testing.T, w *world) {
		math, general := twoHubs(w)
		math.knows(false)
		general.knows(false)
		if a := w.again(bus.AgainUnheard); a.Accepted == nil {
			t.Errorf("answered %+v", a)
		}
	})
}

// A question after the rest of an answer is not answered by what is told to who asks for it from its
// beginning, nor after another attempt.
func TestQuestionsThatAreTheSame(t *testing.T) {
	ask := func(change func(*bus.Task)) *bus.Task {
		task := &bus.Task{Client: "ada", ID: "t1", Stream: true, Body: []byte(`{"messages":[]}`)}
		change(task)
		return task
	}
	whole := ask(func(*bus.Task) {})
	rest := ask(func(t *bus.Task) { t.Resume, t.Attempt = &bus.Resume{Agent: "a"}, 1 })
	for name, c := range map[string]struct {
		a, b *bus.Task
		want bool
	}{
		"from the beginning": {whole, ask(func(t *bus.Task) { t.Again = bus.AgainHeard }), true},
		"the rest": {rest, ask(func(t *bus.Task) {
			t.Resume, t.Attempt, t.Again = &bus.Resume{Agent: "a"}, 1, bus.AgainHeard
		}), true},
		"the rest, and all of it": {rest, whole, false},
		"the rest of another agent": {rest, ask(func(t *bus.Task) {
			t.Resume, t.Attempt = &bus.Resume{Agent: "b"}, 2
		}), false},
		"other content": {whole, ask(func(t *bus.Task) { t.Body = []byte("{}") }), false},
	} {
		if got := classifier.SameQuestion(c.a, c.b); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A door has the rest of an answer in hand, and is asked for the task from its beginning: that is another
// question.
func TestTheRestOfAnAnswerInHandIsAskedForAnew(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		math, _ := twoHubs(w)
		math.answer = func(m bus.Msg, t *bus.Task) {
			if t.Resume == nil && len(t.Body) > 0 {
				math.accept(m, t)
			} else if t.Resume == nil {
				math.says(m, t, bus.CodeIDConflict)
			}
		}
		go func() {
			if _, err := w.tries(0, func(t *bus.Task) {
				t.Hub, t.Attempt, t.Resume = "math", 1, &bus.Resume{Agent: "math-agent"}
			}); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		w.pass(6 * time.Second)
		asked := time.Now()
		if a := w.again(bus.AgainUnheard); a.Accepted == nil || time.Since(asked) > 2*time.Second {
			t.Errorf("answered %+v after %v", a, time.Since(asked))
		}
		math.answer = nil
	})
}

// Of two that say that they are the hub of a domain, the one that led before does not know what the other
// has.
func TestAHubThatLedBeforeIsNotBelieved(t *testing.T) {
	for _, code := range []bus.Code{bus.CodeEmptyPrompt, bus.CodeIDConflict} {
		inWorld(t, nil, func(t *testing.T, w *world) {
			math, general := twoHubs(w)
			math.knows(false)
			general.answer = func(m bus.Msg, t *bus.Task) {
				w.send(m.Reply, &bus.Answer{Lookup: &bus.LastStatus{Epoch: general.status.Epoch - 1},
					Result: &bus.Result{Client: t.Client, Task: t.ID, Hub: "general", Code: code}})
			}
			if a := w.again(bus.AgainUnheard); a.Result == nil || a.Result.Code != bus.CodeUnavailable {
				t.Errorf("%s: answered %+v", code, a)
			}
		})
	}
}

// A hub's verdict is lost: it was cut off from the bus just then. The reader asks once more, by chance at the
// door that still waits for that verdict, and has it.
func TestAVerdictIsLost(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		math, _ := twoHubs(w)
		n := 0
		math.answer = func(m bus.Msg, t *bus.Task) {
			if n++; n > 1 {
				math.accept(m, t)
			}
		}
		first := make(chan bus.Answer, 1)
		go func() { first <- w.again(0) }()
		synctest.Wait()
		w.pass(6 * time.Second)
		asked := time.Now()
		if a := w.again(bus.AgainUnheard); a.Accepted == nil || time.Since(asked) > time.Second {
			t.Errorf("answered %+v after %v", a, time.Since(asked))
		}
		if a := <-first; a.Accepted == nil {
			t.Errorf("who asked first is answered %+v", a)
		}
	})
}
