package forecast

import (
	"testing"
	"time"

	"souk/hub/estimate"
	"souk/hub/predict"
	"souk/market"
)

// The latest first token is that of a prompt of which nothing is cached, however much is believed to be; a
// picture counts with the most tokens that it may have.
func TestWorstFirst(t *testing.T) {
	m := predict.NewMeans()
	task := Task{Prompt: prompt(1000), MaxTokens: 400}
	cold := estimate.Estimate{Prompt: 1000, MaxTokens: 400, Output: 100, Most: 5000}
	warm := cold
	warm.Cached = 900
	in := estimate.Delay{All: time.Second, Queue: time.Second}
	idle := worstFirst(m, &task, &cold, estimate.Delay{})
	if first := m.First(task.Features(&cold)); idle < 2*time.Second+3*first || idle > time.Minute {
		t.Errorf("%v, where %v is expected", idle, first)
	}
	if got := worstFirst(m, &task, &warm, estimate.Delay{}); got != idle {
		t.Errorf("%v with most of the prompt cached, %v with none", got, idle)
	}
	if got := worstFirst(m, &task, &cold, in); got < idle+3*time.Second {
		t.Errorf("%v behind a second's work, %v without", got, idle)
	}
	task.Media = true
	if got := worstFirst(m, &task, &cold, estimate.Delay{}); got <= idle {
		t.Errorf("%v with pictures, %v without", got, idle)
	}
}

// A second of an engine is worth the tokens that it computes in it, at its card: as is assumed first, then as
// was seen.
func TestSecond(t *testing.T) {
	m, card := predict.NewMeans(), market.Price{Miss: market.Credit, Hit: 1, Out: 1}
	a := &Agent{Means: m}
	near := func(want time.Duration) {
		t.Helper()
		got, full := a.Second(card), card.Cost(market.Usage{Prompt: int(time.Second / want)})
		if got < full*98/100 || got > full*102/100 {
			t.Errorf("a second is worth %v, want %v", got, full)
		}
	}
	near(120 * time.Microsecond)
	for i := range 40 {
		sent := time.Duration(10*i) * time.Second
		a.rate.Learn(sent, sent+time.Second, 2000)
	}
	near(500 * time.Microsecond)
	if got := a.Second(market.Price{}); got != 0 {
		t.Errorf("at no price it is worth %v", got)
	}
}

// Of how long its class computes prompts an agent's late first tokens make nothing longer than by the line of
// that, and early ones make it shorter.
func TestAnAgentMakesNoPromptsOfItsClassLonger(t *testing.T) {
	for _, of := range []time.Duration{time.Hour, time.Millisecond} {
		a := &Agent{Means: predict.NewMeans()}
		for i := range 40 {
			sent := time.Duration(2*i) * time.Hour
			a.rate.Learn(sent, sent+of, 2000)
		}
		line := a.Line().Work(2000, 0)
		if takes, counts := a.computes(2000, 0); takes != of || counts != min(of, line) {
			t.Errorf("prompts of %v, of %v by the line: it takes %v, and %v count", of, line, takes, counts)
		}
	}
}
