package client_test

import (
	"context"
	"testing"
	"time"

	"souk/bus"
)

// What an agent says while the bus is away is said again, and nobody calls it silent: neither a reader who
// waits through the outage nor one who looks in afterwards.
func TestAnOutageIsNoSilence(t *testing.T) {
	for name, reads := range map[string]bool{"read all the while": true, "read afterwards": false} {
		t.Run(name, func(t *testing.T) {
			play(t, nil, func(t *testing.T, s *scene) {
				s.sendsAgain()
				st := s.submit("t")
				s.token("t", 0, 0, "a")
				back := make(chan struct{})
				time.AfterFunc(time.Second, func() { s.net.Cut("mine") })
				time.AfterFunc(2*time.Second, func() {
					s.token("t", 0, 1, "b")
					s.token("t", 0, 2, "c")
					s.end("t", 3, "")
				})
				time.AfterFunc(26*time.Second, func() {
					s.net.Heal("mine")
					close(back)
				})
				if !reads {
					<-back
				}
				from := time.Now()
				wantRead(t, st, "abc", "")
				if d := time.Since(from); reads && d > 26*time.Second+time.Second || !reads &&
					d > time.Second {
					t.Errorf("the rest came %v after the question", d)
				}
				if len(s.tasks) != 1 {
					t.Errorf("the door got %d tasks, want 1: nothing had to go on elsewhere", len(s.tasks))
				}
			})
		})
	}
}

// Nobody keeps an answer for ever: after a minute without the bus its reader is told that its fate is not
// known.
func TestALongOutage(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		st := s.submit("t")
		s.token("t", 0, 0, "a")
		time.AfterFunc(time.Second, func() { s.net.Cut("mine") })
		from := time.Now()
		wantRead(t, st, "a", bus.CodeUnknown)
		if d := time.Since(from); d < time.Minute || d > time.Minute+time.Second {
			t.Errorf("told after %v, want a minute", d)
		}
	})
}

// The bus goes away while the market looks for somebody to go on with an answer: it is asked again.
func TestAnOutageWhileAnAnswerGoesOn(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.goesOn(func(task *bus.Task) {
			s.token("t", task.Attempt, 2, "c")
			s.ended("t", task.Attempt, 3)
		})
		onward, times := s.door, 0
		s.door = func(m bus.Msg, task *bus.Task) {
			if task.Resume != nil {
				if times++; times == 1 {
					s.net.Cut("mine")
					time.AfterFunc(20*time.Second, func() { s.net.Heal("mine") })
					return
				}
			}
			onward(m, task)
		}
		st := s.submit("t")
		s.token("t", 0, 0, "a")
		s.token("t", 0, 1, "b")
		s.end("t", 2, bus.CodeEngineFailed)
		wantRead(t, st, "abc", "")
		if times != 2 {
			t.Errorf("asked %d times, want 2", times)
		}
	})
}

// A reader that looks in again after a while, as after a machine's sleep, asks the agent before it gives it
// up.
func TestAReaderThatWasAsleep(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.sendsAgain()
		st := s.submit("t")
		s.token("t", 0, 0, "a")
		if _, err := st.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := st.Next(short); err == nil {
			t.Fatal("there is more")
		}
		time.Sleep(20 * time.Second) // virtual
		from := time.Now()
		wantRead(t, st, "bc", "")
		if d := time.Since(from); d > time.Second || len(s.tasks) != 1 {
			t.Errorf("the rest after %v, %d tasks at the door", d, len(s.tasks))
		}
	})
}

// An agent dies while its hub is being started again: the reader asks until that is back.
func TestAHubThatIsAway(t *testing.T) {
	for name, away := range map[string]time.Duration{"for a while": 8 * time.Second, "for long": time.Hour} {
		t.Run(name, func(t *testing.T) {
			play(t, nil, func(t *testing.T, s *scene) {
				s.goesOn(func(task *bus.Task) {
					s.token("t", task.Attempt, 2, "c")
					s.ended("t", task.Attempt, 3)
				})
				onward, back := s.door, time.Now().Add(away)
				s.door = func(m bus.Msg, task *bus.Task) {
					if task.Resume != nil && time.Now().Before(back) {
						s.say(m.Reply,
							&bus.Answer{Result: &bus.Result{Client: "ada", Task: "t",
								Code: bus.CodeUnavailable, Message: "hub h does not listen"}})
						return
					}
					onward(m, task)
				}
				st := s.submit("t")
				s.token("t", 0, 0, "a")
				s.token("t", 0, 1, "b")
				s.end("t", 2, bus.CodeAgentFailed)
				from := time.Now()
				if away < time.Hour {
					wantRead(t, st, "abc", "")
				} else {
					wantRead(t, st, "ab", bus.CodeAgentFailed)
				}
				if d := time.Since(from); d > min(away, 15*time.Second)+2*time.Second {
					t.Errorf("told after %v", d)
				}
			})
		})
	}
}
