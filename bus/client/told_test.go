package client_test

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"souk/bus"
	"souk/bus/client"
)

// told is a stream that nobody waits for: whoever brings news takes it in at once.
type told struct {
	mu           sync.Mutex
	s            *client.Stream
	known, ended bool
	text         string
	err          error
}

// ask has a task asked. News may come before the stream is known here.
func (x *told) ask(t *testing.T, c *client.Client) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var err error
	if x.s, err = c.Begin(bus.Task{ID: "t", Body: body}, x.news); err != nil {
		t.Fatal(err)
	}
}

func (x *told) news() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return
	}
	if !x.known {
		if x.known, x.err = x.s.Verdict(); !x.known || x.err != nil {
			return
		}
	}
	for {
		c, ok, err := x.s.Poll()
		if x.text += c.Text; err != nil {
			x.ended, x.err = true, err
		}
		if !ok {
			return
		}
	}
}

func TestNewsIsTold(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		x := new(told)
		x.ask(t, s.c)
		synctest.Wait()
		if !x.known || x.err != nil || x.text != "" {
			t.Fatalf("after the verdict: %+v", x)
		}
		s.frame("t", &bus.Chunk{Task: "t", Seq: 1, Text: "b", Count: 1})
		synctest.Wait()
		if x.text != "" {
			t.Fatalf("beyond a gap came %q", x.text)
		}
		s.frame("t", &bus.Chunk{Task: "t", Text: "a", Count: 1})
		synctest.Wait()
		if x.text != "ab" || x.ended {
			t.Fatalf("got %+v, want ab and no end", x)
		}
		s.frame("t", &bus.Chunk{Task: "t", Seq: 2, Result: &bus.Result{Client: "ada", Task: "t", Hub: "h",
			Agent: "agent", Finish: "stop", Chunks: 2}})
		synctest.Wait()
		if r, ok := x.s.Result(); !x.ended || x.err != io.EOF || !ok || r.Finish != "stop" {
			t.Fatalf("at the end: %+v, %+v", x, r)
		}
	})
}

// A chunk is news, and so is Close, after which nothing is to be read.
func TestWhatWaitsToBeRead(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		var calls atomic.Int64
		stream, err := s.c.Begin(bus.Task{ID: "t", Body: body}, func() { calls.Add(1) })
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.frame("t", &bus.Chunk{Task: "t", Text: "a", Count: 1})
		synctest.Wait()
		if calls.Load() != 2 {
			t.Fatalf("%d calls", calls.Load())
		}
		stream.Close()
		if calls.Load() != 3 {
			t.Fatalf("closed: %d calls", calls.Load())
		}
		if _, ok, err := stream.Poll(); ok || !errors.Is(err, bus.ErrClosed) {
			t.Fatalf("closed: %v", err)
		}
	})
	play(t, nil, func(t *testing.T, s *scene) {
		s.door = func(m bus.Msg, task *bus.Task) {
			s.say(m.Reply, &bus.Answer{Result: &bus.Result{Client: "ada", Task: task.ID,
				Code: bus.CodeNoRoom}})
		}
		x := new(told)
		x.ask(t, s.c)
		synctest.Wait()
		if !x.known || bus.CodeOf(x.err) != bus.CodeNoRoom {
			t.Fatalf("refused: %+v", x)
		}
	})
}
