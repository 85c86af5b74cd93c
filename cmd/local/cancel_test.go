package local

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/bus/client"
	"souk/bus/membus"
	"souk/cmd/replay"
)

// scene is a link, and a scripted door, hub and agent, on virtual time.
type scene struct {
	t    *testing.T
	them bus.Bus
	link *Link

	cancel func() // what the door does when it is told to cancel
	stop   func() // what the agent does then

	mu       sync.Mutex
	task     bus.Task // as the door has it
	verdict  string   // where the door's answer to it goes
	cancels  int      // that the door heard
	controls int      // that the agent heard
}

// play asks a task of that id whose context ends after some time, and reports what AskWith returned, and how
// long after that end.
func (s *scene) play(id string, after time.Duration) (a replay.Answer, late time.Duration, err error) {
	s.hear(bus.TaskSubject("*", ""), func(m bus.Msg) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.verdict = m.Reply
		if err := bus.Decode(m.Data, &s.task); err != nil {
			s.t.Error(err)
		}
	})
	s.hear(bus.DoorCancelSubject("ada", ""), func(bus.Msg) {
		s.mu.Lock()
		s.cancels++
		s.mu.Unlock()
		if s.cancel != nil {
			s.cancel()
		}
	})
	s.hear(bus.StreamSubject("agent", "ada"), func(m bus.Msg) {
		var c bus.StreamControl
		if err := bus.Decode(m.Data, &c); err != nil {
			s.t.Error(err)
		}
		if !c.Cancel {
			return
		}
		s.mu.Lock()
		s.controls++
		s.mu.Unlock()
		if s.stop != nil {
			s.stop()
		}
	})
	ctx, end := context.WithTimeout(s.t.Context(), after)
	defer end()
	begun := time.Now()
	a, err = s.link.AskWith(ctx, bus.Task{Client: "ada", ID: id, Kind: bus.KindChat,
		Body: []byte(`{"messages":[{"role":"user","content":"hello"}]}`)}, func(bus.Chunk) {})
	return a, time.Since(begun) - after, err
}

func (s *scene) hear(subject string, h bus.Handler) {
	if _, err := s.them.Subscribe(subject, "", h); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) say(subject string, m bus.Message) {
	data, err := bus.Encode(m)
	if err != nil {
		s.t.Error(err)
		return
	}
	s.them.Publish(bus.Msg{Subject: subject, Data: data})
}

// heard returns what door and agent heard, once all messages have come.
func (s *scene) heard() (task bus.Task, cancels, controls int) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.task, s.cancels, s.controls
}

// answers gives the door's verdict.
func (s *scene) answers(a *bus.Answer) {
	s.mu.Lock()
	verdict := s.verdict
	s.mu.Unlock()
	s.say(verdict, a)
}

func (s *scene) accept() {
	s.answers(&bus.Answer{Accepted: &bus.Accepted{Client: "ada", Task: "t-1", Hub: "h", Agent: "agent",
		Model: "m", Reply: bus.ReplyTo("ada", "t-1")}})
}

func (s *scene) end(code bus.Code) {
	s.say(bus.ReplySubject("ada", "t-1", "agent"), &bus.Chunk{Task: "t-1", Result: &bus.Result{Client: "ada",
		Task: "t-1", Hub: "h", Agent: "agent", Code: code, Cost: 5, Premium: 2}})
}

func interrupted(t *testing.T, f func(t *testing.T, s *scene)) {
	synctest.Test(t, func(t *testing.T) {
		net := membus.New(1)
		s := &scene{t: t, them: net.Bus("them")}
		s.link = &Link{Bus: net.Bus("ada"), role: bus.RoleClient, Name: "ada",
			clients: map[string]*client.Client{}}
		f(t, s)
		s.link.Close()
		s.them.Close()
	})
}

// A task that waits for its agent is cancelled, and the market's word on that is waited for: it may say that
// an agent took the task at the same moment, and then that is what was served and paid.
func TestCancelledWhileAnAgentTakesIt(t *testing.T) {
	interrupted(t, func(t *testing.T, s *scene) {
		s.cancel = s.accept
		s.stop = func() { s.end(bus.CodeCancelled) }
		a, late, err := s.play("t-1", time.Second)
		if r := a.Result; err != nil || r.Code != bus.CodeCancelled || r.Paid() != 7 {
			t.Errorf("got %+v, %v; want what was paid until then", r, err)
		}
		if _, door, agent := s.heard(); door != 1 || agent != 1 || late > time.Second {
			t.Errorf("the door heard %d cancels, the agent %d, and it took %v", door, agent, late)
		}
	})
}

// Whoever is cancelled while nobody has it hears the market say so.
func TestCancelledWhileItWaits(t *testing.T) {
	interrupted(t, func(t *testing.T, s *scene) {
		s.cancel = func() {
			s.answers(&bus.Answer{Result: &bus.Result{Client: "ada", Task: "t-1", Hub: "h",
				Code: bus.CodeCancelled, Message: "cancelled by the client while it waited"}})
		}
		a, late, err := s.play("t-1", time.Second)
		if r := a.Result; err != nil || r.Code != bus.CodeCancelled || r.Hub != "h" || r.Paid() != 0 {
			t.Errorf("got %+v, %v; want the hub's word", r, err)
		}
		if _, door, _ := s.heard(); door != 1 || late > time.Second {
			t.Errorf("the door heard %d cancels, and it took %v", door, late)
		}
	})
}

// Where no last word comes, nobody claims to know what was paid: neither of a task whose agent was not named
// yet, which has the id that it was sent with, nor of one that runs.
func TestCancelledWithoutALastWord(t *testing.T) {
	for id, took := range map[string]bool{"": false, "t-1": true} {
		t.Run("task "+id, func(t *testing.T) {
			interrupted(t, func(t *testing.T, s *scene) {
				if took { // just before it is cancelled: its silence has not been noticed
					time.AfterFunc(1900*time.Millisecond, s.accept)
				}
				a, late, err := s.play(id, 2*time.Second)
				r := a.Result
				task, _, _ := s.heard()
				if err != nil || r.Code != bus.CodeUnknown || r.Client != "ada" || r.Task == "" ||
					r.Task != task.ID {
					t.Errorf("got %+v, %v; want that it is unknown", r, err)
				}
				if late != CancelWithin {
					t.Errorf("the last word was awaited for %v, not %v", late, CancelWithin)
				}
			})
		})
	}
}

// A task that nobody wants any more is not asked for.
func TestCancelledBeforeItIsAsked(t *testing.T) {
	interrupted(t, func(t *testing.T, s *scene) {
		a, late, err := s.play("t-1", 0)
		task, _, _ := s.heard()
		if err != nil || a.Result.Code != bus.CodeCancelled || task.ID != "" || late != 0 {
			t.Errorf("got %+v, %v after %v, and the door %+v", a.Result, err, late, task)
		}
	})
}
