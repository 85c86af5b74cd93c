package agentd

import (
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// An answer without max_tokens has no limit but the engine's own, and where it comes to cost as much as its
// hold covers it ends with length, and its result says what to do.
func TestAnAnswerWithoutMaxTokens(t *testing.T) {
	d := bus.Dispatch{Hold: "h", MaxTokens: 4000, Open: true, Settle: market.SettleMetered, CostCap: 20,
		LimitMS: 7000,
		Price:   market.Price{Miss: 1, Out: 1_000_000},
		Task: bus.Task{Client: "c", ID: "t", Kind: bus.KindChat, Stream: true,
			Prompt: bus.Prompt{Tokens: 10}}}
	var a Agent
	if r := a.Request(&d); r.MaxTokens != 0 || r.First != 7*time.Second {
		t.Errorf("the engine is told %d tokens, and given %v for the first", r.MaxTokens, r.First)
	}
	named, rest := d, d
	named.Open = false
	rest.Task.Resume = &bus.Resume{Tokens: []uint32{1, 2}}
	for _, d := range []bus.Dispatch{named, rest} {
		if r := a.Request(&d); r.MaxTokens != 4000 {
			t.Errorf("the engine is told %d tokens, want 4000", r.MaxTokens)
		}
	}
	run := NewRun(&d, "a", "m", 16)
	var why error
	for n := 0; why == nil; n++ {
		if n > 30 {
			t.Fatal("30 tokens of 1 nano-credit each, and a cap of 20")
		}
		_, why = run.Take(Chunk{Text: "x", Count: 1})
	}
	e := run.End(Answer{}, why)
	if c := e.Completion; c.Outcome != bus.OutcomeDone || c.Finish != "length" || c.Cost > d.CostCap ||
		c.Cost < d.CostCap/2 {
		t.Errorf("%+v: want it done, cut for length, at a cost just within %d", c, d.CostCap)
	}
	if !strings.Contains(e.Result.Message, "name max_tokens") {
		t.Errorf("it says %q", e.Result.Message)
	}
}
