package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/bus/client"
	"souk/bus/membus"
)

// scene is a client, and a scripted door and agent, on virtual time.
type scene struct {
	t    *testing.T
	net  *membus.World
	them bus.Bus // door, agent and treasury
	c    *client.Client
	// questions of the client's that are not answered yet
	asking atomic.Int64
	door   func(m bus.Msg, task *bus.Task) // nil: accepts at once

	mu       sync.Mutex
	tasks    []bus.Task
	controls []bus.StreamControl            // what the agent heard
	cancels  []bus.Cancel                   // what the door heard
	resumed  func(task string, from uint64) // what the agent does when asked to send again
	over     chan struct{}
}

func play(t *testing.T, change func(*client.Config), f func(t *testing.T, s *scene)) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{t: t, net: membus.New(1), over: make(chan struct{})}
		s.them = s.net.Bus("them")
		mine := s.net.Bus("mine")
		config := client.Config{ID: "ada"}
		if change != nil {
			change(&config)
		}
		var err error
		if s.c, err = client.New(config, counted{mine, &s.asking}); err != nil {
			t.Fatal(err)
		}
		s.hear(bus.TaskSubject("*", ""), func(m bus.Msg) {
			task := new(bus.Task)
			if err := bus.Decode(m.Data, task); err != nil {
				t.Errorf("the door got %v", err)
				return
			}
			s.mu.Lock()
			s.tasks = append(s.tasks, *task)
			s.mu.Unlock()
			if s.door != nil {
				s.door(m, task)
				return
			}
			s.accept(m, task)
		})
		s.hear(bus.StreamSubject("agent", "ada"), func(m bus.Msg) {
			var c bus.StreamControl
			if err := bus.Decode(m.Data, &c); err != nil {
				t.Errorf("the agent got %v", err)
				return
			}
			s.mu.Lock()
			s.controls = append(s.controls, c)
			s.mu.Unlock()
			if c.Resume != nil && s.resumed != nil {
				s.resumed(c.Token, *c.Resume)
			}
		})
		s.hear(bus.DoorCancelSubject("ada", ""), func(m bus.Msg) {
			var c bus.Cancel
			if err := bus.Decode(m.Data, &c); err != nil {
				t.Errorf("the door got %v", err)
			}
			s.mu.Lock()
			s.cancels = append(s.cancels, c)
			s.mu.Unlock()
		})
		f(t, s)
		synctest.Wait()
		close(s.over)
		s.c.Close()
		mine.Close()
		s.them.Close()
	})
}

// counted is a bus that says how many of its requests wait.
type counted struct {
	bus.Bus
	waiting *atomic.Int64
}

func (c counted) Request(ctx context.Context, m bus.Msg) (bus.Msg, error) {
	c.waiting.Add(1)
	defer c.waiting.Add(-1)
	return c.Bus.Request(ctx, m)
}

func (s *scene) hear(subject string, h bus.Handler) {
	if _, err := s.them.Subscribe(subject, "", h); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) say(subject string, m bus.Message) {
	data, err := bus.Encode(m)
	if err != nil {
		s.t.Errorf("%v", err)
		return
	}
	s.them.Publish(bus.Msg{Subject: subject, Data: data})
}

// frame says a chunk as its sender does: the hub who serves, and an agent the rest.
func (s *scene) frame(task string, c *bus.Chunk) {
	who := "agent"
	switch {
	case c.Agent != "":
		who = "h"
	case c.Attempt > 0:
		who = "next"
	}
	s.say(bus.ReplySubject("ada", task, who), c)
}

func (s *scene) accept(m bus.Msg, t *bus.Task) {
	s.say(m.Reply, &bus.Answer{Accepted: &bus.Accepted{Client: "ada", Task: t.ID, Hub: "h", Agent: "agent",
		Model: "m", Reply: bus.ReplyTo("ada", t.ID)}})
}

func (s *scene) chunk(task string, n uint64, text string) {
	s.frame(task, &bus.Chunk{Task: task, Seq: n, Text: text, Count: 1})
}

func (s *scene) beat(task string, next uint64) {
	s.frame(task, &bus.Chunk{Task: task, Seq: next, Heartbeat: true})
}

func (s *scene) end(task string, chunks uint64, code bus.Code) {
	s.frame(task, &bus.Chunk{Task: task, Seq: chunks, Result: &bus.Result{
		Client: "ada", Task: task, Hub: "h", Agent: "agent", Chunks: chunks, Code: code, Finish: "stop",
		Cost: 5, Premium: 2}})
}

func (s *scene) submit(id string) *client.Stream {
	s.t.Helper()
	return s.submitTask(bus.Task{ID: id, Body: body})
}

func (s *scene) submitTask(task bus.Task) *client.Stream {
	s.t.Helper()
	st, err := s.c.Submit(s.t.Context(), task)
	if err != nil {
		s.t.Fatal(err)
	}
	return st
}

func (s *scene) heard(want func(bus.StreamControl) bool) (n int) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.controls {
		if want(c) {
			n++
		}
	}
	return n
}

func cancels(c bus.StreamControl) bool { return c.Cancel }
func resumes(c bus.StreamControl) bool { return c.Resume != nil }

var body = []byte(`{"messages":[{"role":"user","content":"hello"}]}`)

// read reads to the end and returns text and error.
func read(st *client.Stream) (string, error) {
	var b strings.Builder
	for {
		c, err := st.Next(context.Background())
		if err != nil {
			return b.String(), err
		}
		b.WriteString(c.Text)
	}
}

func wantRead(t *testing.T, st *client.Stream, text string, code bus.Code) {
	t.Helper()
	got, err := read(st)
	if got != text {
		t.Errorf("read %q, want %q", got, text)
	}
	if code == "" && err != io.EOF || code != "" && bus.CodeOf(err) != code {
		t.Errorf("ended with %v, want %v", err, code)
	}
}

func TestAStreamFromBeginToEnd(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		st := s.submit("")
		if id := s.tasks[0].ID; id != st.ID() || !bus.ValidID(id) || len(id) < 20 {
			t.Errorf("the task's id is %q", id)
		}
		if !s.tasks[0].Stream || s.tasks[0].Client != "ada" {
			t.Errorf("the door got %+v", s.tasks[0])
		}
		if st.Accepted().Agent != "agent" {
			t.Errorf("accepted: %+v", st.Accepted())
		}
		if _, ok := st.Result(); ok {
			t.Error("there is a result before the end")
		}
		for i, word := range []string{"how ", "are ", "you"} {
			s.chunk(st.ID(), uint64(i), word)
		}
		s.end(st.ID(), 3, "")
		wantRead(t, st, "how are you", "")
		r, ok := st.Result()
		if !ok || r.Paid() != 7 {
			t.Errorf("result %+v", r)
		}
		time.Sleep(100 * time.Millisecond)
		if n := s.heard(func(c bus.StreamControl) bool { return c.Ack != nil && *c.Ack == 4 }); n != 1 {
			t.Errorf("%d acknowledgements of the whole answer, want 1", n)
		}
		if _, err := st.Next(t.Context()); err != io.EOF {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestTheDoorRefuses(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.door = func(m bus.Msg, task *bus.Task) {
			s.say(m.Reply, &bus.Answer{Result: &bus.Result{Client: "ada", Task: task.ID, Code: bus.CodeNoRoom,
				Message: "full", RetryMS: 250}})
		}
		_, err := s.c.Submit(t.Context(), bus.Task{Body: body})
		var r *client.Refusal
		if bus.CodeOf(err) != bus.CodeNoRoom || !errors.As(err, &r) || r.Result.RetryMS != 250 {
			t.Errorf("error %v", err)
		}
	})
}

func TestNobodyIsThere(t *testing.T) {
	play(t, func(c *client.Config) { c.ID = "ada"; c.MaxWait = time.Minute }, func(t *testing.T, s *scene) {
		lonely := s.net.Bus("lonely")
		defer lonely.Close()
		s.door = func(bus.Msg, *bus.Task) {} // says nothing
		from := time.Now()
		if _, err := s.c.Submit(t.Context(),
			bus.Task{ID: "t-1", Body: body}); bus.CodeOf(err) != bus.CodeUnknown ||
			!strings.Contains(err.Error(), "under its id, t-1,") || time.Since(from) != time.Minute {
			t.Errorf("a silent door: %v after %v", err, time.Since(from))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := membus.New(1).Bus("b")
		defer b.Close()
		c, err := client.New(client.Config{ID: "ada"}, b)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Submit(t.Context(), bus.Task{Body: body}); bus.CodeOf(err) != bus.CodeUnavailable {
			t.Errorf("no door: %v", err)
		}
		if _, err := c.Balance(t.Context(), "ada"); bus.CodeOf(err) != bus.CodeUnavailable {
			t.Errorf("no treasury: %v", err)
		}
	})
}

// What never left cannot be served: whoever asks while the bus is away may ask again under any id.
func TestWhatIsNotSentIsUnavailable(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.net.Cut("mine")
		if _, err := s.c.Submit(t.Context(),
			bus.Task{ID: "t", Body: body}); bus.CodeOf(err) != bus.CodeUnavailable {
			t.Errorf("a task: %v", err)
		}
		if _, err := s.c.Ask(t.Context(),
			bus.Task{ID: "t", Body: body}); bus.CodeOf(err) != bus.CodeUnavailable {
			t.Errorf("a question: %v", err)
		}
		if _, err := s.c.Balance(t.Context(), "ada"); bus.CodeOf(err) != bus.CodeUnavailable {
			t.Errorf("a balance: %v", err)
		}
		s.net.Heal("mine")
		s.submit("t").Close()
		if len(s.tasks) != 1 {
			t.Errorf("the door got %d tasks, want the last", len(s.tasks))
		}
	})
}

func TestChunksBeforeAccepted(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.door = func(m bus.Msg, task *bus.Task) {
			s.chunk(task.ID, 0, "early ")
			s.chunk(task.ID, 1, "bird")
			s.end(task.ID, 2, "")
			time.AfterFunc(time.Second, func() { s.accept(m, task) })
		}
		from := time.Now()
		st := s.submit("t")
		wantRead(t, st, "early bird", "")
		if d := time.Since(from); d != time.Second || st.Accepted().Agent != "agent" {
			t.Errorf("read after %v from %q, want as soon as somebody said from whom", d, st.Accepted().Agent)
		}
		time.Sleep(100 * time.Millisecond)
		whole := func(c bus.StreamControl) bool { return c.Ack != nil && *c.Ack == 3 }
		if n := s.heard(whole); n != 1 || len(s.controls) != 1 {
			t.Errorf("%d acknowledgements of the whole answer, want 1 and nothing else: %+v", n, s.controls)
		}
	})
}

// Of a task whose answer has begun, the market's word may be that it does not know whether the agent serves
// it: the answer goes on.
func TestChunksAndALateRefusal(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.door = func(m bus.Msg, task *bus.Task) {
			s.chunk(task.ID, 0, "early ")
			time.AfterFunc(time.Second, func() {
				s.say(m.Reply,
					&bus.Answer{Result: &bus.Result{Client: "ada", Task: task.ID, Hub: "h", Agent: "agent",
						Code: bus.CodeUnknown, Message: "the agent said nothing"}})
			})
			time.AfterFunc(2*time.Second, func() {
				s.chunk(task.ID, 1, "bird")
				s.end(task.ID, 2, "")
			})
		}
		wantRead(t, s.submit("t"), "early bird", "")
	})
}

// What is cancelled before anybody said who serves it is cancelled at the door, and at the agent once that is
// known.
func TestCancelBetweenTheFirstChunkAndAccepted(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.door = func(m bus.Msg, task *bus.Task) {
			s.chunk(task.ID, 0, "early ")
			time.AfterFunc(time.Second, func() { s.accept(m, task) })
			time.AfterFunc(2*time.Second, func() { s.end(task.ID, 1, bus.CodeCancelled) })
		}
		ctx, leave := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer leave()
		if _, err := s.c.Submit(ctx, bus.Task{ID: "t", Body: body}); bus.CodeOf(err) != bus.CodeCancelled {
			t.Errorf("it ends with %v", err)
		}
		time.Sleep(3 * time.Second)
		s.mu.Lock()
		if len(s.cancels) != 1 || s.cancels[0].Task != "t" {
			t.Errorf("the door heard %+v, want one cancel of t", s.cancels)
		}
		s.mu.Unlock()
		if n := s.heard(cancels); n != 1 {
			t.Errorf("the agent heard %d cancels, want 1", n)
		}
	})
}

// What an agent says that nobody has named is not read, and nobody asks it for a sign of life.
func TestNobodyNamesTheAgent(t *testing.T) {
	play(t, func(c *client.Config) { c.MaxWait = time.Minute }, func(t *testing.T, s *scene) {
		s.door = func(m bus.Msg, task *bus.Task) { s.chunk(task.ID, 0, "early ") }
		_, err := s.c.Submit(t.Context(), bus.Task{ID: "t", Body: body})
		if bus.CodeOf(err) != bus.CodeUnknown {
			t.Errorf("it ends with %v", err)
		}
		if n := s.heard(func(bus.StreamControl) bool { return true }); n != 0 {
			t.Errorf("%d messages to an agent that nobody has named", n)
		}
	})
}

func TestAGapIsFilled(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		words := []string{"a", "b", "c", "d", "e"}
		s.resumed = func(task string, from uint64) {
			for i := from; i < 5; i++ {
				s.chunk(task, i, words[i])
			}
			s.end(task, 5, "")
		}
		st := s.submit("t")
		s.chunk("t", 0, "a")
		s.chunk("t", 3, "d") // b and c are lost
		s.chunk("t", 0, "a") // twice
		from := time.Now()
		wantRead(t, st, "abcde", "")
		if time.Since(from) != 0 {
			t.Errorf("took %v; a gap is asked for at once", time.Since(from))
		}
		if n := s.heard(resumes); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
}

func TestAHeartbeatShowsAGap(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		asked := uint64(99)
		s.resumed = func(task string, from uint64) {
			asked = from
			s.chunk(task, 1, "b")
			s.end(task, 2, "")
		}
		st := s.submit("t")
		s.chunk("t", 0, "a")
		time.AfterFunc(2*time.Second, func() { s.beat("t", 2) })
		wantRead(t, st, "ab", "")
		if asked != 1 {
			t.Errorf("asked from %d, want 1", asked)
		}
	})
}

func TestALostEndFrame(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.resumed = func(task string, from uint64) { s.end(task, 1, "") }
		st := s.submit("t")
		s.chunk("t", 0, "a")
		from := time.Now()
		wantRead(t, st, "a", "")
		if d := time.Since(from); d > 4*time.Second {
			t.Errorf("took %v, want less than two heartbeats", d)
		}
	})
}

func TestHeartbeatsKeepALongPrefillAlive(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		st := s.submit("t")
		go func() {
			for range 30 {
				select {
				case <-time.After(2 * time.Second):
				case <-s.over:
				}
				s.beat("t", 0)
			}
			s.chunk("t", 0, "at last")
			s.end("t", 1, "")
		}()
		wantRead(t, st, "at last", "")
		if n := s.heard(resumes); n != 0 {
			t.Errorf("asked %d times for what nobody lost", n)
		}
	})
}

func TestALostAgent(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		st := s.submit("t")
		s.chunk("t", 0, "a")
		from := time.Now()
		wantRead(t, st, "a", bus.CodeUnknown)
		if d := time.Since(from); d < 6*time.Second || d > 7*time.Second {
			t.Errorf("told after %v, want three heartbeats of 2 s", d)
		}
		if n := s.heard(resumes); n < 2 {
			t.Errorf("asked %d times, want some", n)
		}
		if n := s.heard(cancels); n != 1 {
			t.Errorf("%d cancels, want 1: whoever may still serve it should stop", n)
		}
	})
}

func TestChunksThatNobodyHas(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		st := s.submit("t")
		s.chunk("t", 0, "a")
		s.chunk("t", 2, "c")
		go func() {
			for range 10 {
				select {
				case <-time.After(2 * time.Second):
				case <-s.over:
				}
				s.beat("t", 3)
			}
		}()
		from := time.Now()
		wantRead(t, st, "a", bus.CodeAnswerGone)
		if d := time.Since(from); d < 5*time.Second || d > 6*time.Second {
			t.Errorf("told after %v, want 5 s", d)
		}
		if n := s.heard(resumes); n < 4 || n > 6 {
			t.Errorf("asked %d times in 5 s, want about 5", n)
		}
	})
}

// The agent has served an answer to its end and goes away, and a chunk of it was lost: that is not the whole
// answer, whatever the market says. What was paid is told.
func TestALostChunkOfAServedAnswer(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.nobodyGoesOn(bus.CodeAnswerGone, "served to its end, and paid")
		st := s.submit("t")
		s.token("t", 0, 0, "a")
		s.end("t", 2, "")
		wantRead(t, st, "a", bus.CodeAnswerGone)
		if r, ok := st.Result(); !ok || r.Code != bus.CodeAnswerGone || r.Paid() != 7 {
			t.Errorf("%+v", r)
		}
	})
}

// On a bus that loses much, what is missing is filled chunk by chunk: that takes as long as it takes.
func TestAGapThatMoves(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.resumed = func(task string, from uint64) {
			s.chunk(task, from, string(rune('a'+from)))
			if from < 9 {
				s.beat(task, 10)
				return
			}
			s.end(task, 10, "")
		}
		st := s.submit("t")
		s.beat("t", 10)
		wantRead(t, st, "abcdefghij", "")
	})
}

func TestTheAgentFails(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		st := s.submit("t")
		s.chunk("t", 0, "a")
		s.end("t", 1, bus.CodeEngineFailed)
		wantRead(t, st, "a", bus.CodeEngineFailed)
		if r, ok := st.Result(); !ok || r.Code != bus.CodeEngineFailed {
			t.Errorf("result %+v", r)
		}
	})
}

// A reader that stands still loses its own stream and nobody else's.
func TestASlowReader(t *testing.T) {
	play(t, func(c *client.Config) { c.BufferBytes = 700 }, func(t *testing.T, s *scene) {
		slow, quick := s.submit("slow"), s.submit("quick")
		for i := range uint64(50) {
			s.chunk("slow", i, "x")
		}
		s.chunk("quick", 0, "fine")
		s.end("quick", 1, "")
		wantRead(t, quick, "fine", "")
		synctest.Wait()
		_, err := read(slow)
		if bus.CodeOf(err) != bus.CodeSlowReader {
			t.Errorf("the slow stream ended with %v", err)
		}
		if n := s.heard(func(c bus.StreamControl) bool { return c.Cancel && c.Token == "slow" }); n != 1 {
			t.Errorf("%d cancels of the slow task, want 1", n)
		}
	})
}

func TestAcknowledgements(t *testing.T) {
	play(t, func(c *client.Config) { c.AckEvery = 10 }, func(t *testing.T, s *scene) {
		st := s.submit("t")
		for i := range uint64(25) {
			s.chunk("t", i, "x")
		}
		s.end("t", 25, "")
		synctest.Wait()
		for range 25 {
			if _, err := st.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		_, _ = st.Next(t.Context())
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		var acks []uint64
		for _, c := range s.controls {
			if c.Ack != nil {
				acks = append(acks, *c.Ack)
			}
		}
		if got, want := fmt.Sprint(acks), "[10 20 26]"; got != want {
			t.Errorf("acknowledged %s, want %s: what was read, and the end frame", got, want)
		}
	})
}

func TestCancel(t *testing.T) {
	t.Run("the agent ends the answer", func(t *testing.T) {
		play(t, nil, func(t *testing.T, s *scene) {
			st := s.submit("t")
			s.chunk("t", 0, "half")
			st.Cancel()
			st.Cancel()
			if n := s.heard(cancels); n != 1 {
				t.Errorf("%d cancels, want 1", n)
			}
			s.end("t", 1, bus.CodeCancelled)
			wantRead(t, st, "half", bus.CodeCancelled)
			if r, _ := st.Result(); r.Paid() != 7 {
				t.Errorf("result %+v", r)
			}
		})
	})
	t.Run("the context of Submit ends", func(t *testing.T) {
		play(t, nil, func(t *testing.T, s *scene) {
			ctx, cancel := context.WithCancel(t.Context())
			st, err := s.c.Submit(ctx, bus.Task{ID: "t", Body: body})
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			synctest.Wait()
			wantRead(t, st, "", bus.CodeCancelled)
			if n := s.heard(cancels); n != 1 {
				t.Errorf("%d cancels, want 1", n)
			}
		})
	})
	t.Run("the context of Next does not", func(t *testing.T) {
		play(t, nil, func(t *testing.T, s *scene) {
			st := s.submit("t")
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := st.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Next ended with %v", err)
			}
			s.chunk("t", 0, "a")
			s.end("t", 1, "")
			wantRead(t, st, "a", "")
		})
	})
	t.Run("before anyone has said a word", func(t *testing.T) {
		play(t, nil, func(t *testing.T, s *scene) {
			s.door = func(bus.Msg, *bus.Task) {}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := s.c.Submit(ctx,
				bus.Task{ID: "t", Body: body}); bus.CodeOf(err) != bus.CodeCancelled {
				t.Errorf("Submit ended with %v", err)
			}
			synctest.Wait()
			if len(s.cancels) != 1 || s.cancels[0].Task != "t" {
				t.Errorf("the door heard %v", s.cancels)
			}
		})
	})
	t.Run("while Accepted is on its way", func(t *testing.T) {
		play(t, nil, func(t *testing.T, s *scene) {
			s.door = func(m bus.Msg, task *bus.Task) {
				time.AfterFunc(1500*time.Millisecond, func() { s.accept(m, task) })
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := s.c.Submit(ctx,
				bus.Task{ID: "t", Body: body}); bus.CodeOf(err) != bus.CodeCancelled {
				t.Errorf("Submit ended with %v", err)
			}
			time.Sleep(time.Second) // virtual
			if n := s.heard(cancels); n != 1 {
				t.Errorf("the agent that accepted too late heard %d cancels, want 1", n)
			}
		})
	})
	t.Run("after the end", func(t *testing.T) {
		play(t, nil, func(t *testing.T, s *scene) {
			st := s.submit("t")
			s.end("t", 0, "")
			wantRead(t, st, "", "")
			st.Cancel()
			st.Close()
			if n := s.heard(cancels); n != 0 {
				t.Errorf("%d cancels of what had ended", n)
			}
		})
	})
	t.Run("by closing the client", func(t *testing.T) {
		play(t, nil, func(t *testing.T, s *scene) {
			st := s.submit("t")
			s.c.Close()
			if _, err := read(st); !errors.Is(err, bus.ErrClosed) {
				t.Errorf("the stream ended with %v", err)
			}
			if n := s.heard(cancels); n != 1 {
				t.Errorf("%d cancels, want 1", n)
			}
			if _, err := s.c.Submit(t.Context(), bus.Task{Body: body}); !errors.Is(err, bus.ErrClosed) {
				t.Errorf("Submit on a closed client: %v", err)
			}
		})
	})
}

func TestAsk(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.door = func(m bus.Msg, task *bus.Task) {
			s.accept(m, task)
			tool := bus.Extra{At: 1, Choice: []byte(`{"delta":{"tool_calls":[]}}`)}
			s.frame(task.ID, &bus.Chunk{Task: task.ID, Text: "hel", Extra: []bus.Extra{tool}})
			s.frame(task.ID, &bus.Chunk{Task: task.ID, Seq: 1, Text: "lo", Extra: []bus.Extra{tool}})
			s.frame(task.ID, &bus.Chunk{Task: task.ID, Seq: 2, Result: &bus.Result{Client: "ada",
				Task: task.ID,
				Hub:  "h", Agent: "agent", Chunks: 2, Cost: 5, Premium: 2}})
		}
		r, err := s.c.Ask(t.Context(), bus.Task{Body: body})
		if err != nil || r.Text != "hello" || r.Paid() != 7 || len(r.Extra) != 2 || r.Extra[0].At != 1 ||
			r.Extra[1].At != 4 {
			t.Errorf("%+v, %v", r, err)
		}
		if !s.tasks[0].Whole || !s.tasks[0].Tail {
			t.Error("agents do not hear that the answer is given whole")
		}
		s.door = func(m bus.Msg, task *bus.Task) {
			s.say(m.Reply, &bus.Answer{Result: &bus.Result{Client: "ada", Task: task.ID,
				Code: bus.CodeNoRoom, Message: "dear"}})
		}
		if r, err := s.c.Ask(t.Context(), bus.Task{Body: body}); bus.CodeOf(err) != bus.CodeNoRoom ||
			r.Message != "dear" {
			t.Errorf("refused: %+v, %v", r, err)
		}
		s.door = func(bus.Msg, *bus.Task) {}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.c.Ask(ctx, bus.Task{ID: "t", Body: body}); bus.CodeOf(err) != bus.CodeCancelled {
			t.Errorf("Ask ended with %v", err)
		}
		synctest.Wait()
		if len(s.cancels) != 1 || s.cancels[0].Task != "t" {
			t.Errorf("the door heard %v", s.cancels)
		}
	})
}

// An answer that is longer than a client keeps is cancelled, and what it has cost is said.
func TestAskForTooMuch(t *testing.T) {
	play(t, func(c *client.Config) { c.BufferBytes = 1000 }, func(t *testing.T, s *scene) {
		s.door = func(m bus.Msg, task *bus.Task) {
			s.accept(m, task)
			go func() {
				n := uint64(0)
				for ; s.heard(func(c bus.StreamControl) bool { return c.Cancel }) == 0; n++ {
					s.chunk(task.ID, n, "a hundred bytes of text, or so many that ten of them are too much for whoever asked")
					time.Sleep(time.Millisecond)
				}
				s.frame(task.ID, &bus.Chunk{Task: task.ID, Seq: n, Result: &bus.Result{Client: "ada",
					Task: task.ID, Hub: "h", Agent: "agent", Chunks: n, Code: bus.CodeCancelled, Cost: 5}})
			}()
		}
		r, err := s.c.Ask(t.Context(), bus.Task{Body: body})
		if bus.CodeOf(err) != bus.CodeTooLarge || r.Text != "" || r.Paid() != 5 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func TestLimits(t *testing.T) {
	play(t, func(c *client.Config) { c.MaxStreams = 2 }, func(t *testing.T, s *scene) {
		a := s.submit("a")
		if _, err := s.c.Submit(t.Context(),
			bus.Task{ID: "a", Body: body}); bus.CodeOf(err) != bus.CodeDuplicate {
			t.Errorf("an id in hand: %v", err)
		}
		s.submit("b")
		if _, err := s.c.Submit(t.Context(),
			bus.Task{ID: "c", Body: body}); bus.CodeOf(err) != bus.CodeTooManyTasks {
			t.Errorf("one stream too many: %v", err)
		}
		a.Close()
		s.submit("c")
		if _, err := s.c.Submit(t.Context(),
			bus.Task{ID: "a.b", Body: body}); bus.CodeOf(err) != bus.CodeBadRequest {
			t.Errorf("an id that is no id: %v", err)
		}
	})
	for name, c := range map[string]client.Config{
		"no id": {}, "bad id": {ID: "a.b"}, "negative buffer": {ID: "a", BufferBytes: -1},
		"negative time": {ID: "a", MaxWait: -1},
	} {
		if _, err := client.New(c, nil); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestHostileChunksChangeNothing(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		st := s.submit("t")
		for _, junk := range []string{"", "\xc1", "\x81\xa1t\xa5other", "{}", "\xdf\xff\xff\xff\xff"} {
			s.them.Publish(bus.Msg{Subject: bus.ReplySubject("ada", "t", "agent"), Data: []byte(junk)})
		}
		s.frame("t", &bus.Chunk{Task: "other", Text: "of another task"})
		s.chunk("nobody", 0, "x")
		s.chunk("t", 0, "mine")
		s.end("t", 1, "")
		wantRead(t, st, "mine", "")
	})
}

func TestFunds(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		var asked []bus.FundsRequest
		s.hear(bus.LedgerSubjects, func(m bus.Msg) {
			var q bus.FundsRequest
			if err := bus.Decode(m.Data, &q); err != nil {
				t.Errorf("the treasury got %v", err)
				return
			}
			asked = append(asked, q)
			r := &bus.FundsReply{ID: q.ID, Client: q.Client, Prepaid: 100}
			if q.Client == "eve" {
				r.Code, r.Message = bus.CodeUnknownClient, "no such client"
			}
			s.say(m.Reply, r)
		})
		r, err := s.c.Balance(t.Context(), "bob")
		if err != nil || r.Prepaid != 100 || asked[0].ID == "" || asked[0].Client != "bob" {
			t.Errorf("balance: %+v, %v; asked %+v", r, err, asked)
		}
		if _, err := s.c.Balance(t.Context(), "eve"); bus.CodeOf(err) != bus.CodeUnknownClient {
			t.Errorf("unknown client: %v", err)
		}
	})
}

// The end of a session is said to a door, which says how many hubs it told. A silent door is waited for for
// two seconds.
func TestEndSession(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		if _, err := s.c.EndSession(t.Context(), "s-1"); bus.CodeOf(err) != bus.CodeUnavailable {
			t.Errorf("without a door: %v", err)
		}
		said := &bus.SessionEnded{Session: "s-1", Hubs: 2}
		var got bus.SessionEnd
		s.hear(bus.EndSubject("ada", ""), func(m bus.Msg) {
			if err := bus.Decode(m.Data, &got); err != nil {
				t.Error(err)
			}
			if said != nil {
				s.say(m.Reply, said)
			}
		})
		if n, err := s.c.EndSession(t.Context(), "s-1"); err != nil || n != 2 ||
			got != (bus.SessionEnd{Session: "s-1"}) {
			t.Errorf("%d, %v; the door heard %+v", n, err, got)
		}
		if _, err := s.c.EndSession(t.Context(), "s 1"); err == nil {
			t.Error("a session of no id was taken")
		}
		said = &bus.SessionEnded{Code: bus.CodeBadRequest, Message: "no"}
		if _, err := s.c.EndSession(t.Context(), "s-1"); bus.CodeOf(err) != bus.CodeBadRequest {
			t.Errorf("refused: %v", err)
		}
		said = nil
		begun := time.Now()
		if _, err := s.c.EndSession(t.Context(), "s-1"); bus.CodeOf(err) != bus.CodeUnavailable ||
			time.Since(begun) != 2*time.Second {
			t.Errorf("silence: %v after %v", err, time.Since(begun))
		}
	})
}

func TestFeedback(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		var got bus.Feedback
		s.hear(bus.FeedbackSubject("math", "ada", ""), func(m bus.Msg) { bus.Decode(m.Data, &got) })
		if err := s.c.Feedback("math", "t", 0.75); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got.Task != "t" || got.Quality != 0.75 {
			t.Errorf("the hub heard %+v", got)
		}
		if err := s.c.Gold("math", "t", 0.5); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !got.Gold || got.Quality != 0.5 {
			t.Errorf("heard %+v", got)
		}
		if s.c.Feedback("math", "t", 2) == nil {
			t.Error("a quality of 2 was taken")
		}
	})
}
