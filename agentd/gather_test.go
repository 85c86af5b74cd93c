package agentd

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// wholeAnswer is an answer that its reader gives whole, and what of it has gone out.
type wholeAnswer struct {
	t   *testing.T
	s   *Stream
	now time.Time
	out []bus.Chunk
}

func newWholeAnswer(t *testing.T, change func(*bus.Dispatch)) *wholeAnswer {
	d := dispatch("h")
	d.Task.Whole, d.MaxTokens, d.CostCap = true, 1<<20, 1<<40
	change(d)
	return &wholeAnswer{t: t, s: NewStream(begun, d, NewRun(d, "a1", "tiny", 16), 1<<20), now: begun}
}

func (w *wholeAnswer) sent(data []byte) {
	w.t.Helper()
	if data == nil {
		return
	}
	var c bus.Chunk
	if err := bus.Decode(data, &c); err != nil {
		w.t.Fatal(err)
	}
	w.out = append(w.out, c)
}

func (w *wholeAnswer) take(after time.Duration, c Chunk) error {
	w.t.Helper()
	w.now = w.now.Add(after)
	c.Events++
	data, err := w.s.Take(w.now, c, 1<<20)
	w.sent(data)
	return err
}

// end ends it as whoever serves it does.
func (w *wholeAnswer) end(a Answer, why error) Ending {
	w.t.Helper()
	data, err := w.s.Rest(w.now, 1<<20)
	if err != nil {
		w.t.Fatal(err)
	}
	w.sent(data)
	e, data, err := w.s.End(w.now, a, why, 1<<20)
	if err != nil {
		w.t.Fatal(err)
	}
	w.sent(data)
	return e
}

func (w *wholeAnswer) texts() string {
	var all []string
	for _, c := range w.out {
		if c.Result != nil {
			said := fmt.Sprintf("end of %d", c.Result.Chunks)
			if c.Text != "" {
				said += " with " + c.Text
			}
			all = append(all, said)
		} else {
			all = append(all, c.Text)
		}
	}
	return strings.Join(all, " | ")
}

func TestAWholeAnswerIsGathered(t *testing.T) {
	const tick = 50 * time.Millisecond
	token := func(text string) Chunk { return Chunk{Text: text, Count: 1} }
	none := func(*bus.Dispatch) {}
	tail := func(d *bus.Dispatch) { d.Task.Tail = true }
	long := strings.Repeat("x", gatherMost)
	for name, c := range map[string]struct {
		change func(*bus.Dispatch)
		chunks []Chunk
		why    error
		want   string
		paid   int // tokens
	}{
		"the first goes at once, the others together": {none,
			[]Chunk{token("a"), token("b"), token("c"), token("d")}, nil, "a | bcd | end of 2", 4},
		"for a while, not until the end": {none, []Chunk{token("a"), token("b"), token("c"), token("d"),
			token("e"), token("f"), token("g")}, nil, "a | bcde | fg | end of 3", 7},
		"what is long waits for nobody": {none, []Chunk{token("a"), token("b"), token(long), token("c")}, nil,
			"a | b | " + long + " | c | end of 4", 4},
		"a stream is not gathered": {func(d *bus.Dispatch) { d.Task.Whole = false },
			[]Chunk{token("a"), token("b"), token("c")}, nil, "a | b | c | end of 3", 3},
		"what was gathered is paid, and given, where the client cancels": {none,
			[]Chunk{token("a"), token("b"), token("c")}, ErrCancelled, "a | bc | end of 2", 3},
		"where it is cut at max_tokens": {func(d *bus.Dispatch) { d.MaxTokens = 3 },
			[]Chunk{token("a"), token("b"), token("c"), token("d")}, nil, "a | bc | end of 2", 3},
		"and where the engine fails": {none, []Chunk{token("a"), token("b")},
			&EngineError{Code: bus.CodeEngineFailed, Message: "broken"}, "a | b | end of 2", 2},
		"an end that takes text has all of it": {tail, []Chunk{token("a"), token("b"), token("c")}, nil,
			"end of 0 with abc", 3},
		"or the last": {tail, []Chunk{token("a"), token("b"), token("c"), token("d"), token("e"), token("f")},
			nil, "abcd | end of 1 with ef", 6},
		"and not what is long": {tail, []Chunk{token("a"), token(long + "x")}, nil,
			"a | " + long + "x | end of 2", 2},
		"nor anything of nothing": {tail, nil, nil, "end of 0", 0},
		"nor of a stream": {func(d *bus.Dispatch) { d.Task.Tail, d.Task.Whole = true, false },
			[]Chunk{token("a"), token("b")}, nil, "a | b | end of 2", 2},
		"where it goes on, it counts on": {func(d *bus.Dispatch) {
			d.Task.Tail = true
			d.Task.Resume = &bus.Resume{Agent: "a0", Seq: 3, Tokens: []uint32{7}, Text: "so"}
		}, []Chunk{token("a"), token("b")}, nil, "end of 3 with ab", 2},
		"what the end has is paid, and given, where the client cancels": {tail,
			[]Chunk{token("a"), token("b")}, ErrCancelled, "end of 0 with ab", 2},
		"where it is cut at max_tokens, too": {func(d *bus.Dispatch) { d.MaxTokens, d.Task.Tail = 2, true },
			[]Chunk{token("a"), token("b"), token("c")}, nil, "end of 0 with ab", 2},
		"where the task's time is over, it is given": {tail, []Chunk{token("a"), token("b")}, ErrTimeout,
			"end of 0 with ab", 2},
		"where nobody may go on, too": {func(d *bus.Dispatch) {
			d.Task.Tail, d.Task.Failover = true, "off"
		}, []Chunk{token("a"), token("b")},
			&EngineError{Code: bus.CodeEngineFailed, Message: "broken"}, "end of 0 with ab", 2},
		"where the engine fails before any of it went out, its hub decides, and nothing was relayed": {tail,
			[]Chunk{token("a"), token("b")},
			&EngineError{Code: bus.CodeEngineFailed, Message: "broken"}, "", 0},
		"after that it is given": {tail, []Chunk{token("a"), token("b"), token("c"), token("d"), token("e"),
			token("f")}, &EngineError{Code: bus.CodeEngineFailed, Message: "broken"},
			"abcd | end of 1 with ef", 6},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWholeAnswer(t, c.change)
			why := c.why
			for _, chunk := range c.chunks {
				if err := w.take(tick, chunk); err != nil {
					why = err
				}
			}
			a := Answer{Finish: "stop", Usage: market.Usage{Prompt: 50, Output: len(c.chunks)}}
			if why != nil {
				a = Answer{Unmetered: true}
			}
			e := w.end(a, why)
			if got := w.texts(); got != c.want {
				t.Errorf("sent  %.200s\nwant %.200s", got, c.want)
			}
			if e.Completion.Relayed != c.paid {
				t.Errorf("%d tokens are relayed, want %d", e.Completion.Relayed, c.paid)
			}
		})
	}
}

// However it comes, the reader has every byte, token and event of it, in order and in its place, and each
// message has ids of all its tokens or of none.
func TestNothingIsLostInGathering(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for i := range 600 {
		tails := i%2 > 0
		w := newWholeAnswer(t, func(d *bus.Dispatch) { d.Task.Tail = tails })
		var text string
		var tokens []uint32
		var events []string // "offset choice"
		count := 0
		for i := range uint32(rng.IntN(60)) {
			c := Chunk{Text: strings.Repeat("é", 1+rng.IntN(1<<rng.IntN(12))), Count: 1,
				Finish: rng.IntN(20) == 0}
			if rng.IntN(3) > 0 {
				c.Tokens = []uint32{i, i + 1}
			}
			for k := range rng.IntN(3) {
				choice := fmt.Sprintf(`{"n":%d}`, 10*i+uint32(k))
				c.Extra = append(c.Extra, bus.Extra{At: rng.IntN(len(c.Text) + 1), Choice: []byte(choice)})
				events = append(events, fmt.Sprintf("%d %s", len(text)+c.Extra[k].At, choice))
			}
			if err := w.take(time.Duration(rng.IntN(1<<rng.IntN(29))), c); err != nil {
				t.Fatal(err)
			}
			text, tokens, count = text+c.Text, append(tokens, c.Tokens...), count+c.Count
		}
		w.end(Answer{Finish: "stop", Usage: market.Usage{Prompt: 50, Output: count}}, nil)
		last := w.out[len(w.out)-1]
		if last.Result == nil || last.Result.Chunks != uint64(len(w.out)-1) {
			t.Fatalf("%+v ends %d chunks", last.Result, len(w.out)-1)
		}
		said := w.out[:len(w.out)-1]
		if tails && (last.Text != "" || len(last.Extra) > 0) {
			said = w.out // the end has the last of it
		}
		for i, c := range said {
			if c.Seq != uint64(i) || len(c.Tokens) > 0 && len(c.Tokens) != 2*c.Count {
				t.Fatalf("chunk %d has number %d, %d ids, %d tokens", i, c.Seq, len(c.Tokens), c.Count)
			}
			for _, x := range c.Extra {
				at := x.At
				for _, before := range said[:i] {
					at += len(before.Text)
				}
				if want := fmt.Sprintf("%d %s", at, x.Choice); len(events) == 0 || events[0] != want {
					t.Fatalf("event %s, want %q", want, events[:min(1, len(events))])
				}
				events = events[1:]
			}
			if !strings.HasPrefix(text, c.Text) {
				t.Fatal("the text differs")
			}
			text, count = text[len(c.Text):], count-c.Count
			tokens = tokens[min(len(tokens), len(c.Tokens)):]
		}
		if text != "" || len(tokens) > 0 || len(events) > 0 || count != 0 {
			t.Fatalf("%d bytes, %d ids, %d events, %d tokens are missing", len(text), len(tokens), len(events),
				count)
		}
	}
}

// An answer that its hub has decided not to move ends without what its agent had of it; one that another
// agent has got says nothing.
func TestWhatWasNeverSentIsNotSaidLater(t *testing.T) {
	for _, moved := range []bool{true, false} {
		w := newWholeAnswer(t, func(d *bus.Dispatch) { d.Task.Tail = true })
		if err := w.take(0, Chunk{Text: "a", Count: 1}); err != nil {
			t.Fatal(err)
		}
		e := w.end(Answer{}, &EngineError{Code: bus.CodeEngineFailed, Message: "broken"})
		if !e.Completion.Unsaid || e.Completion.Relayed != 0 || len(w.out) > 0 {
			t.Fatalf("%+v, sent %s", e.Completion, w.texts())
		}
		w.sent(w.s.Decided(w.now, moved))
		if got := w.texts(); moved && got != "" || !moved && got != "end of 0" {
			t.Errorf("moved %v: sent %s", moved, got)
		}
	}
}

// An end that no message holds is said without what it was to carry, for which nobody pays.
func TestAnEndThatIsTooLong(t *testing.T) {
	w := newWholeAnswer(t, func(d *bus.Dispatch) { d.Task.Tail = true })
	if err := w.take(0, Chunk{Text: strings.Repeat("b", 3000), Count: 1}); err != nil {
		t.Fatal(err)
	}
	if data, err := w.s.Rest(w.now, 2000); data != nil || err != nil {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	a := Answer{Finish: "stop", Usage: market.Usage{Prompt: 50, Output: 1}}
	e, data, err := w.s.End(w.now, a, nil, 2000)
	if w.sent(data); err != nil || w.texts() != "end of 0" {
		t.Fatalf("sent %s, %v", w.texts(), err)
	}
	if c := e.Completion; c.Outcome != bus.OutcomeFailed || c.Code != bus.CodeTooLarge || c.Relayed != 0 ||
		c.Cost != 0 {
		t.Errorf("%+v", c)
	}
}

// What cannot be sent is paid by nobody, and neither is what would have followed it.
func TestWhatFollowsAGapIsNotSent(t *testing.T) {
	w := newWholeAnswer(t, func(*bus.Dispatch) {})
	for _, text := range []string{"a", strings.Repeat("b", 3000)} {
		if err := w.take(0, Chunk{Text: text, Count: 1}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := w.s.Take(w.now.Add(gatherFor), Chunk{Text: "c", Count: 1, Events: 1}, 2000)
	if !errors.Is(err, bus.ErrTooLarge) {
		t.Fatalf("3000 bytes in a message of 2000: %v", err)
	}
	e := w.end(Answer{Unmetered: true}, err)
	if w.texts() != "a | end of 1" || e.Completion.Relayed != 1 {
		t.Errorf("%s, %d tokens", w.texts(), e.Completion.Relayed)
	}
}
