package agentd

import (
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// Two attempts at one task on one agent: the later has the name, the earlier still runs and is found at shutdown.
func TestSecondAttempt(t *testing.T) {
	h := newShelf(1 << 20)
	first := newStream(begun, dispatch("h"), NewRun(dispatch("h"), "a1", "tiny", 16), 1<<20)
	second := newStream(begun, dispatch("h"), NewRun(dispatch("h"), "a1", "tiny", 16), 1<<20)
	h.add(first)
	h.add(second)
	if h.byID[streamID{"ann", "t-h"}] != second || len(h.running()) != 2 {
		t.Fatalf("%d run", len(h.running()))
	}
	for i, s := range []*stream{first, second} {
		if _, _, err := s.end(begun, Answer{Finish: "stop"}, nil, 1<<20, time.Second); err != nil {
			t.Fatal(err)
		}
		h.put(begun, s)
		if len(h.running()) != 1-i {
			t.Errorf("%d run after %d ended", len(h.running()), i+1)
		}
	}
	h.sweep(begun.Add(2 * time.Second))
	if len(h.byID) != 0 || len(h.ended) != 0 || h.bytes != 0 {
		t.Errorf("%+v", h)
	}
}

// An answer that is longer than a message may be ends as a failure that is told, and is not paid.
func TestAnswerLongerThanAMessage(t *testing.T) {
	d := dispatch("h")
	d.Task.Stream = false
	s := newStream(begun, d, NewRun(d, "a1", "tiny", 16), 1<<20)
	if _, err := s.take(begun, words(100), 200); err != nil {
		t.Fatal(err)
	}
	e, data, err := s.end(begun, Answer{Finish: "stop", Usage: market.Usage{Prompt: 50, Output: 100}}, nil, 200, time.Second)
	if err == nil {
		t.Fatalf("%d bytes fit into 200", len(data)) // not even the failure does: the test's bus is too small for that
	}
	s = newStream(begun, d, NewRun(d, "a1", "tiny", 16), 1<<20)
	for range 9 {
		s.take(begun, words(10), 0)
	}
	d.MaxTokens = 1 << 20
	s.take(begun, Chunk{Text: string(make([]byte, 1000)), Count: 1}, 0)
	e, data, err = s.end(begun, Answer{Finish: "stop", Usage: market.Usage{Prompt: 50, Output: 100}}, nil, 900, time.Second)
	var c bus.Chunk
	if err != nil || bus.Decode(data, &c) != nil || c.Result.Code != bus.CodeTooLarge || c.Result.Text != "" || e.Completion.Outcome != bus.OutcomeFailed || e.Completion.Cost != 0 {
		t.Errorf("%+v %v", e, err)
	}
	// In a stream, the chunk alone is refused, and that ends the task.
	s = newStream(begun, dispatch("h"), NewRun(dispatch("h"), "a1", "tiny", 16), 1<<20)
	if _, err := s.take(begun, words(100), 50); err != bus.ErrTooLarge {
		t.Errorf("error %v", err)
	}
	if e, _, err := s.end(begun, Answer{}, bus.ErrTooLarge, 1<<20, time.Second); err != nil || e.Result.Chunks != 0 || e.Completion.Relayed != 0 || e.Result.Code != bus.CodeTooLarge {
		t.Errorf("%+v %v", e, err)
	}
}
