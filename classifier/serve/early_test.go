package serve

import (
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/reader"
	"souk/classifier"
)

// A collected answer is heard from the moment its reply subject is known, and whoever guesses that subject
// may speak there before any hub was asked: it is not heard. A cancel may come then, too.
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
	by := asked{s: &Server{c: classifier.Default()}, client: "ann"}
	w := newWhole(&request{asked: by, task: task}, time.Now())
	w.hear("eve", c)
	w.step(reader.Cancel{})
	w.step(reader.Leave{Err: bus.ErrClosed})
	if w.m.Err != bus.ErrClosed {
		t.Error(w.m.Err)
	}
}
