package predict

import (
	"math"
	"testing"
	"time"
)

// An agent that turns slow again and again, and becomes fast so slowly in between that nobody notices, is
// taken to be ten times slower each time in what none of its tasks shows. That ends somewhere: what is
// learned of all agents can still be written down, and read.
func TestAnAgentThatTurnsAgainAndAgain(t *testing.T) {
	e := newEngine(t)
	cs, all := fleet(4)
	l := &Learned{Classes: cs, Outputs: NewOutputs(trees)}
	for i, m := range all {
		l.Agents = append(l.Agents, Learner{string(rune('a' + i)), "llama", m})
	}
	e.serve(all, 100, nil)
	was := all[0].Forecast(cold).TTFT
	turns, asked := 0, 0
	say := func(ttft float64) {
		if asked++; asked%10 == 0 {
			e.serve(all[:3], 1, nil)
		}
		m := all[3]
		m.Learn(Features{Prompt: 500, MaxTokens: 100},
			Observation{Prompt: 500, Output: 50, TTFT: time.Duration(ttft * 1e6), ITL: 10 * time.Millisecond})
		if m.Drift.Fresh == settling {
			turns++
		}
	}
	for range 42 {
		for range 100 {
			say(500)
		}
		for range 100 {
			say(15_000)
		}
		for ttft := 15_000.0; ttft > 500; ttft *= math.Exp(-1.0 / 1500) {
			say(ttft)
		}
	}
	if turns < 42 {
		t.Fatalf("it turned %d times: the test sees nothing", turns)
	}
	data, err := written(l)
	if err != nil {
		t.Fatalf("after %d turns of one agent nothing is written down: %v", turns, err)
	}
	if _, err := readLearned(data); err != nil {
		t.Fatalf("after %d turns of one agent nothing is read: %v", turns, err)
	}
	for i, b := range all[3].Own {
		if most := 3.6e6 / usual[i]; b > most {
			t.Errorf("term %d of its line is %v, at most %v is an hour of a task", i, b, most)
		}
	}
	if is := all[0].Forecast(cold).TTFT; is > was*6/5 || is < was*4/5 {
		t.Errorf("another is forecast %v, before %v", is, was)
	}
}
