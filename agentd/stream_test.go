package agentd

import (
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// Two attempts at one task on one agent: the later has the name, the earlier still runs and is found at
// shutdown.
func TestSecondAttempt(t *testing.T) {
	h := NewStreams(1 << 20)
	add := func() *Stream {
		s := NewStream(begun, dispatch("h"), NewRun(dispatch("h"), "a1", "tiny", 16), 1<<20)
		h.Add(s)
		return s
	}
	first, second := add(), add()
	if h.Find(StreamID{"ann", "t-h"}) != second || len(h.Running) != 2 {
		t.Fatalf("%d run", len(h.Running))
	}
	for i, s := range []*Stream{first, second} {
		if _, _, err := s.End(begun, Answer{Finish: "stop"}, nil, 1<<20); err != nil {
			t.Fatal(err)
		}
		h.Ended(begun, s, time.Second)
		if len(h.Running) != 1-i {
			t.Errorf("%d run after %d ended", len(h.Running), i+1)
		}
	}
	h.Sweep(begun.Add(2 * time.Second))
	if len(h.byID) != 0 || len(h.ended) != 0 || h.bytes != 0 {
		t.Errorf("%+v", h)
	}
}

// A withheld answer waits for its hub, whatever its reader acknowledges.
func TestAnAckForgetsNoWithheldAnswer(t *testing.T) {
	h := NewStreams(1 << 20)
	s := NewStream(begun, dispatch("h"), NewRun(dispatch("h"), "a1", "tiny", 16), 1<<20)
	h.Add(s)
	broken := &EngineError{Code: bus.CodeEngineFailed, Message: "broken"}
	if _, data, err := s.End(begun, Answer{}, broken, 1<<20); err != nil || data != nil {
		t.Fatalf("%d bytes are told, %v", len(data), err)
	}
	h.Ended(begun, s, time.Second)
	if h.Acked(s, 0) {
		t.Error("it is read")
	}
	h.Sweep(begun)
	if s := h.Withheld("h"); s == nil || s.Decided(begun, false) == nil {
		t.Error("its end is not told after all")
	}
}

// An answer that is longer than a message may be ends as a failure that is told, and is not paid.
func TestAnswerLongerThanAMessage(t *testing.T) {
	d := dispatch("h")
	d.Task.Stream = false
	s := NewStream(begun, d, NewRun(d, "a1", "tiny", 16), 1<<20)
	if _, err := s.Take(begun, words(100), 200); err != nil {
		t.Fatal(err)
	}
	e, data, err := s.End(begun, Answer{Finish: "stop", Usage: market.Usage{Prompt: 50, Output: 100}}, nil,
		200)
	if err == nil {
		// not even the failure does: the test's bus is too small for that
		t.Fatalf("%d bytes fit into 200", len(data))
	}
	s = NewStream(begun, d, NewRun(d, "a1", "tiny", 16), 1<<20)
	for range 9 {
		s.Take(begun, words(10), 0)
	}
	d.MaxTokens = 1 << 20
	s.Take(begun, Chunk{Text: string(make([]byte, 1000)), Count: 1}, 0)
	e, data, err = s.End(begun, Answer{Finish: "stop", Usage: market.Usage{Prompt: 50, Output: 100}}, nil,
		900)
	var c bus.Chunk
	if err != nil || bus.Decode(data, &c) != nil || c.Result.Code != bus.CodeTooLarge ||
		c.Result.Text != "" ||
		e.Completion.Outcome != bus.OutcomeFailed || e.Completion.Cost != 0 {
		t.Errorf("%+v %v", e, err)
	}
	// In a stream, the chunk alone is refused, and that ends the task.
	s = NewStream(begun, dispatch("h"), NewRun(dispatch("h"), "a1", "tiny", 16), 1<<20)
	if _, err := s.Take(begun, words(100), 50); err != bus.ErrTooLarge {
		t.Errorf("error %v", err)
	}
	if e, _, err := s.End(begun, Answer{}, bus.ErrTooLarge, 1<<20); err != nil || e.Result.Chunks != 0 ||
		e.Completion.Relayed != 0 || e.Result.Code != bus.CodeTooLarge {
		t.Errorf("%+v %v", e, err)
	}
}
