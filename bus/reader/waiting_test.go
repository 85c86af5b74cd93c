package reader

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"souk/bus"
)

// opened is a stream of which nobody has said yet who serves it.
func opened(now time.Time) *Stream {
	return New(Config{MaxChunks: 4096, MaxBytes: 4 << 20, AckEvery: 64, Quiet: 3 * time.Second,
		Silence: 6 * time.Second, Doze: 2 * time.Second, ResumeEvery: time.Second,
		ResumeWait: 5 * time.Second, MaxOutage: time.Minute, MaxAbsence: 15 * time.Second,
		MaxAnswer: time.Hour, AskAgain: 3 * time.Second,
	}, &bus.Task{Client: "ada", ID: "t", Body: []byte("{}")}, now)
}

// named is the market's word that an agent serves it.
func named(agent string) Verdict {
	return Verdict{Answer: &bus.Answer{Accepted: &bus.Accepted{Client: "ada", Task: "t", Hub: "h",
		Agent: agent}}}
}

func chunk(n int) *bus.Chunk {
	return &bus.Chunk{Task: "t", Seq: uint64(n), Text: strings.Repeat("x", 1000), Tokens: []uint32{1},
		Count: 1}
}

// asked reports which chunk is asked for again, of whom.
func asked(s *Stream) (said []string) {
	for _, c := range s.Ready().Controls {
		if c.Resume != nil {
			said = append(said, fmt.Sprintf("%s from %d", c.Agent, *c.Resume))
		}
	}
	return said
}

// What senders say whom nobody has named takes up to 64 KB, however many there are and however much they
// say; what found no room is asked for again once its sender is named, and is all there then.
func TestWhatStrangersSayIsBounded(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for _, senders := range []int{1, 3, 4, 1000} {
		s := opened(now)
		for n := range 1000 {
			for who := range senders {
				s.Hear(now, fmt.Sprint("stranger-", who), chunk(n))
			}
			if senders == 1000 && n > 3 {
				break
			}
		}
		if size := s.Size(); size > 64<<10 || size < 4000 {
			t.Errorf("what %d senders said takes %d bytes", senders, size)
		}
		s.Hear(now, "a", chunk(0)) // there is no room
		s.Step(now, named("a"))
		if said := asked(s); len(said) != 1 {
			t.Errorf("beside %d strangers a chunk found no room, and %q is asked for", senders, said)
		}
		for n := range 3 {
			s.Hear(now, "a", chunk(n))
		}
		for n := range 3 {
			if c, ok := s.Next(); !ok || c.Seq != uint64(n) {
				t.Fatalf("beside %d strangers chunk %d is not read", senders, n)
			}
		}
	}
}

// The room that chunks took is free for others once their sender was named and they were read.
func TestRoomOfWhoWasNamedIsFreeAgain(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	s := opened(now)
	for n := range 40 {
		s.Hear(now, "a", chunk(n))
	}
	s.Step(now, named("a"))
	if said := asked(s); len(said) > 0 {
		t.Errorf("all of it was kept, and %q is asked for again", said)
	}
	for n := range 40 {
		if _, ok := s.Next(); !ok {
			t.Fatalf("chunk %d, which was kept, is not read", n)
		}
	}
	for n := 40; n < 80; n++ {
		s.Hear(now, "b", chunk(n))
	}
	if kept := s.waiting.chunks; len(kept) != 40 || s.waiting.lost {
		t.Errorf("there is no room for as much again: %d chunks are kept", len(kept))
	}
}

// A chunk of nobody is kept for nobody: a refusal that names neither hub nor agent names no such sender.
func TestChunksOfNobody(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	s := opened(now)
	s.Hear(now, "", chunk(0))
	s.Hear(now, "", &bus.Chunk{Task: "t", Seq: 1, Result: &bus.Result{Client: "ada", Task: "t", Chunks: 1}})
	if len(s.waiting.chunks) > 0 {
		t.Error("it is kept")
	}
	s.Step(now, Verdict{Answer: &bus.Answer{Result: &bus.Result{Client: "ada", Task: "t",
		Code: bus.CodeNoRoom, Message: "full"}}})
	if r := s.Result(); r == nil || r.Code != bus.CodeNoRoom {
		t.Errorf("it ended with %+v", r)
	}
	if _, ok := s.Next(); ok {
		t.Error("and a chunk of nobody is read")
	}
}
