package reader

import (
	"strings"
	"testing"
	"time"

	"souk/bus"
)

// An answer to a pooling task is of no use before it is whole: an agent that breaks off within it is followed
// by one that begins anew, whatever was delivered, and no word of the first comes after.
func TestAPoolingTaskBeginsAnew(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	task := bus.Task{Client: "ada", ID: "t", Kind: bus.KindEmbedding, Body: []byte("{}")}
	s := New(opened(now).c, &task, now)
	s.Ready()
	s.Step(now, named("a"))
	piece := func(attempt, n int, text string) *bus.Chunk {
		return &bus.Chunk{Task: "t", Attempt: attempt, Seq: uint64(n), Text: text}
	}
	s.Hear(now, "a", piece(0, 0, "one"))
	s.Hear(now, "a", piece(0, 1, "two"))
	s.Hear(now, "a", &bus.Chunk{Task: "t", Result: &bus.Result{Client: "ada", Task: "t", Chunks: 2,
		Code: bus.CodeEngineFailed}})
	asks := s.Ready().Submit
	if asks == nil || asks.Resume == nil || asks.Resume.Seq != 2 || len(asks.Resume.Tokens) > 0 ||
		asks.Resume.Text != "" {
		t.Fatalf("asked: %+v", asks)
	}
	other := named("b")
	other.Answer.Accepted.Attempt = 1
	s.Step(now, other)
	s.Hear(now, "b", piece(1, 2, "whole"))
	s.Hear(now, "a", piece(0, 2, "three"))
	end := piece(1, 0, "")
	end.Result = &bus.Result{Client: "ada", Task: "t", Chunks: 3}
	s.Hear(now, "b", end)
	said := ""
	for c, ok := s.Next(); ok; c, ok = s.Next() {
		said += c.Text
	}
	if said != "onetwowhole" || s.Result() == nil || s.Err != nil {
		t.Errorf("%q, %+v, %v", said, s.Result(), s.Err)
	}
}

// An agent that has all of an answer at once waits for its reader, which says at once how much it has taken.
func TestMuchIsAcknowledgedAtOnce(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	s := opened(now)
	s.Step(now, named("a"))
	s.Ready()
	half := strings.Repeat("x", bus.AckBytes/2)
	for i := range 4 {
		s.Hear(now, "a", &bus.Chunk{Task: "t", Seq: uint64(i), Text: half})
		s.Next()
		all := s.Ready().Controls
		if acked := len(all) == 1 && all[0].Now && *all[0].Ack == uint64(i+1); acked != (i%2 == 1) {
			t.Errorf("after %d halves: %+v", i+1, all)
		}
	}
}
