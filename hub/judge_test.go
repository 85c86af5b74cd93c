package hub_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/learned"
	"souk/hub"
	"souk/hub/quality"
	"souk/market"
)

// answered has an agent answer one of a client's tasks, in a domain.
func (h *house) answered(client, id, agent string, change func(*bus.Completion)) {
	h.t.Helper()
	h.must(h.step(h.task(client, id, worth(market.Credit))))
	d := h.take(client, id)
	if got := h.agentOf(d); agent != "" && got != agent {
		h.t.Fatalf("%s/%s went to %s", client, id, got)
	}
	c := completion(h.agentOf(d), d, market.Usage{Prompt: 100, Output: 9})
	if change != nil {
		change(c)
	}
	h.accept(d)
	h.must(h.step(c))
	h.pass(20 * time.Millisecond)
}

func (h *house) feedback(client, id string, quality float64, gold bool) error {
	return h.step(&bus.Feedback{Client: client, Sender: client, Task: id, Quality: quality, Gold: gold})
}

// scoredIn returns a hub's score of an agent's answers in its first domain.
func (h *house) scored(agent string) quality.Scored {
	h.t.Helper()
	for _, a := range h.n.Stats().Agents {
		if a.Agent == agent && len(a.Scores) > 0 {
			return a.Scores[0]
		}
	}
	h.t.Fatalf("nothing is known of %s", agent)
	return quality.Scored{}
}

// Of two equal agents the one whose answers clients call bad is asked no more, and both what is said and what
// was registered are shown.
func TestJudgementsMoveQuotes(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 1, 0.8, card(1, 1, 4))
	for i := range 40 {
		h.answered("ann", fmt.Sprint("t", i), "a-1", nil)
		h.must(h.feedback("ann", fmt.Sprint("t", i), 0, false))
	}
	s := h.scored("a-1")
	if s.Registered != 0.8 || s.Quality > 0.5 || s.Quality < 0.35 || len(s.Heard) != 1 ||
		s.Heard[0].Source != "feedback" || s.Heard[0].Mean != 0 || s.Heard[0].Weight < 19 {
		t.Errorf("one client calls all answers bad: %+v", s)
	}
	st := h.n.Status()
	if m := st.Models[0]; m.Quality != s.Quality {
		t.Errorf("status: %+v", m)
	}
	h.must(st.Validate())
	h.join("a-2", "llama", 1, 0.75, card(1, 1, 4))
	for i := range 10 {
		h.answered("bob", fmt.Sprint("u", i), "a-2", nil)
	}
}

// An answer is judged once, by its own client, and only where it was served and is remembered.
func TestAnAnswerIsJudgedOnce(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 1, 0.8, card(1, 1, 4))
	h.answered("ann", "t1", "a-1", nil)
	h.must(h.feedback("ann", "t1", 0, false))
	was := h.scored("a-1")
	for range 50 {
		if err := h.feedback("ann", "t1", 0, false); err == nil ||
			!strings.Contains(err.Error(), "was judged before") {
			t.Fatalf("judged again: %v", err)
		}
	}
	if h.feedback("bob", "t1", 0, false) == nil || h.feedback("ann", "t2", 0, false) == nil {
		t.Error("somebody else's answer is judged, or one that was never given")
	}
	h.answered("ann", "t3", "a-1",
		func(c *bus.Completion) { c.Outcome, c.Code = bus.OutcomeFailed, bus.CodeEngineFailed })
	if h.feedback("ann", "t3", 0, false) == nil {
		t.Error("an answer that failed is judged")
	}
	if is := h.scored("a-1"); is.Quality != was.Quality {
		t.Errorf("%+v, and before %+v", is, was)
	}
}

// A reference answer is the word of judges; of anybody else it is a feedback.
func TestGoldIsTheWordOfJudges(t *testing.T) {
	h := newHouse(t, func(c *hub.Config) { c.Quality.Judges = []string{"ann"} })
	h.join("a-1", "llama", 1, 0.5, card(1, 1, 4))
	for i := range 20 {
		for _, client := range []string{"ann", "bob"} {
			id := fmt.Sprint("t", i)
			h.answered(client, id, "a-1", nil)
			h.must(h.feedback(client, id, 1, true))
		}
	}
	for _, x := range h.scored("a-1").Heard {
		if x.Source == "gold" && x.Count != 20 || x.Source == "feedback" && x.Count != 20 {
			t.Errorf("%+v, want 20 of each", x)
		}
	}
	h.n.UseGold("a-1", false)
	without := h.scored("a-1").Quality
	h.n.UseGold("a-1", true)
	if with := h.scored("a-1").Quality; with <= without || without <= 0.5 {
		t.Errorf("quality %v with gold, %v without", with, without)
	}
}

// What was said of an agent's answers is kept over a restart of the hub and of the agent, and forgotten with
// the model that gave them.
func TestJudgementsAreKept(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 1, 0.8, card(1, 1, 4))
	for i := range 20 {
		h.answered("ann", fmt.Sprint("t", i), "a-1", nil)
		h.must(h.feedback("ann", fmt.Sprint("t", i), 0.1, false))
	}
	was := h.n.Quality("a-1")
	data, err := learnedOf(h)
	h.must(err)
	again := newHouse(t, nil)
	again.now = h.now
	again.must(again.n.Forecasts.Relearn(data))
	again.join("a-1", "llama", 1, 0.8, card(1, 1, 4))
	if is := again.n.Quality("a-1"); is != was || is > 0.6 {
		t.Errorf("%v after a restart, %v before", is, was)
	}
	r := registration("a-1", "llama", 1, 0.9, card(1, 1, 4))
	r.Boot = 2
	again.must(again.n.Join(again.now, r))
	if is := again.n.Quality("a-1"); is <= was || is > 0.7 {
		t.Errorf("%v where 0.9 is registered, %v where 0.8 was", is, was)
	}
	r.Model = "qwen"
	again.must(again.n.Join(again.now, r))
	if is := again.n.Quality("a-1"); is != 0.9 {
		t.Errorf("another model is %v, registered for 0.9", is)
	}
}

// Whatever stands in the file, a hub takes in all of it or nothing.
func FuzzRelearn(f *testing.F) {
	h := newHouse(&testing.T{}, nil)
	h.join("a-1", "llama", 1, 0.8, card(1, 1, 4))
	h.answered("ann", "t1", "a-1", nil)
	data, err := learnedOf(h)
	h.must(err)
	// what stands before the numbers, and the sum at the end, are those that a hub writes
	const from, sum = len("souk learned\n") + sha256.Size, sha256.Size
	f.Add(data[from : len(data)-sum])
	f.Fuzz(func(t *testing.T, body []byte) {
		n, err := hub.NewNode(testConfig(), [32]byte{})
		if err != nil {
			t.Fatal(err)
		}
		sealed, err := learned.Sealed(append(data[:from:from], body...))
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Forecasts.Relearn(sealed); err != nil {
			if len(n.Known()) > 0 {
				t.Fatalf("%v, and %d agents are known", err, len(n.Known()))
			}
			return
		}
		for _, q := range n.Judge() { // what was taken in can be reckoned with
			if !(q >= 0 && q <= 1) {
				t.Fatalf("Q is %v", q)
			}
		}
		if _, err := n.Forecasts.Learned(nil); err != nil {
			t.Fatal(err)
		}
	})
}

// learnedOf returns the learned state that the house's hub writes down.
func learnedOf(h *house) ([]byte, error) {
	data, err := h.n.Forecasts.Learned(nil)
	if err != nil {
		return nil, err
	}
	return learned.Sealed(data)
}
