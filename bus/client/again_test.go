package client_test

import (
	"io"
	"testing"
	"time"

	"souk/bus"
)

// A door takes the task to a hub and dies. The client asks again within seconds, reads the answer to its end,
// and pays no heed to what the first door may say after all.
func TestTheDoorDies(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		n := 0
		s.door = func(m bus.Msg, task *bus.Task) {
			if n++; n == 1 {
				go func() {
					time.Sleep(time.Second)
					s.chunk(task.ID, 0, "one")
					time.Sleep(time.Minute)
					s.say(m.Reply, &bus.Answer{Result: &bus.Result{Client: "ada", Task: task.ID,
						Code: bus.CodeUnknown, Message: "the door closes"}})
				}()
				return
			}
			if task.Again != bus.AgainHeard || task.ID != "t" || task.AgeMS == 0 || task.FirstMS == 0 {
				t.Errorf("asked again with %+v", task)
			}
			s.accept(m, task)
		}
		begun := time.Now()
		st := s.submit("t")
		if took := time.Since(begun); took > 4*time.Second || n != 2 {
			t.Errorf("accepted after %v and %d questions", took, n)
		}
		if c, err := st.Next(t.Context()); err != nil || c.Text != "one" {
			t.Errorf("read %+v, %v", c, err)
		}
		for range 60 {
			time.Sleep(time.Second)
			s.beat("t", 1)
		}
		s.end("t", 1, "")
		if _, err := st.Next(t.Context()); err != io.EOF {
			t.Errorf("ended with %v", err)
		}
		if n != 2 {
			t.Errorf("%d questions", n)
		}
	})
}

// A task of which nobody says what became of it may be with a hub: sent again under its id it is looked for,
// as long as that is so.
func TestATaskOfWhichNobodyKnowsIsLookedFor(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		var asked []int
		code, serves := bus.CodeUnknown, false
		s.door = func(m bus.Msg, task *bus.Task) {
			if asked = append(asked, task.Again); serves {
				s.accept(m, task)
				return
			}
			s.say(m.Reply, &bus.Answer{Result: &bus.Result{Client: "ada", Task: task.ID, Hub: "h", Code: code,
				Message: "the door closes"}})
		}
		asks := func(id string, want bus.Code, again int) {
			t.Helper()
			asked = nil
			r, err := s.c.Ask(t.Context(), bus.Task{ID: id, Body: body})
			if bus.CodeOf(err) != want || len(asked) == 0 || asked[0] != again {
				t.Errorf("%s: %+v, %v; the door was asked %v, want %d", id, r, err, asked, again)
			}
		}
		asks("t", bus.CodeUnknown, 0)
		asks("other", bus.CodeUnknown, 0)
		code = bus.CodeUnavailable
		asks("t", bus.CodeUnavailable, bus.AgainUnheard)
		code = bus.CodeInsufficientFunds
		asks("t", bus.CodeInsufficientFunds, bus.AgainUnheard)
		asks("t", bus.CodeInsufficientFunds, 0)
		time.Sleep(11 * time.Minute)
		asks("other", bus.CodeInsufficientFunds, 0)

		serves = true // and the agent falls silent, and nobody says what became of that
		first := s.submit("taken")
		serves, code = false, bus.CodeUnknown
		if _, err := first.Next(t.Context()); bus.CodeOf(err) != bus.CodeUnknown {
			t.Errorf("a silent agent: %v", err)
		}
		asks("taken", bus.CodeUnknown, bus.AgainHeard)
	})
}

// Likewise where the answer is asked for as a whole.
func TestTheDoorOfAWholeAnswerDies(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		n := 0
		s.door = func(m bus.Msg, task *bus.Task) {
			if n++; n == 1 {
				return
			}
			if task.Again != bus.AgainUnheard || task.ID != "t" || task.AgeMS == 0 || task.FirstMS == 0 {
				t.Errorf("asked again with %+v", task)
			}
			s.accept(m, task)
			s.chunk("t", 0, "all of it")
			s.end("t", 1, "")
		}
		begun := time.Now()
		r, err := s.c.Ask(t.Context(), bus.Task{ID: "t", Body: body})
		if took := time.Since(begun); took > 7*time.Second || n != 2 || err != nil || r.Text != "all of it" {
			t.Errorf("%+v, %v after %v and %d questions", r, err, took, n)
		}
	})
}
