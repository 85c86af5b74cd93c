package serve

import (
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/classifier"
)

// A collected answer is heard from the moment its reply subject is known, and whoever guesses that subject
// may speak there before any hub was asked. A chunk that is more than the door keeps ends the answer, not
// the door.
func TestAChunkBeforeAnyHubWasAskedKillsNobody(t *testing.T) {
	sent := bus.Chunk{Task: "t", Text: strings.Repeat("x", 800<<10), Extra: make([]bus.Extra, bus.MaxItems)}
	data, err := bus.Encode(&sent)
	if err != nil {
		t.Fatal(err)
	}
	c := new(bus.Chunk)
	if err := bus.Decode(data, c); err != nil {
		t.Fatalf("%d bytes that nobody could send: %v", len(data), err)
	}
	task := &bus.Task{Client: "ann", ID: "t"}
	w := newWhole(&request{s: &Server{c: classifier.Default()}, client: "ann", task: task}, time.Now())
	w.step(c)
	if !w.m.Over() || bus.CodeOf(w.m.Err()) != bus.CodeSlowReader {
		t.Error(w.m.Err())
	}
}
