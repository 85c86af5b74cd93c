package agentd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// A collected answer that no message holds was computed all the same: its client gets what fits, and pays for
// that. Else the prompt would be had for nothing, by asking for more logprobs than there is room for.
func TestACollectedAnswerTooLongForAMessageIsCutAndPaid(t *testing.T) {
	d := dispatch("h")
	d.Task.Stream, d.MaxTokens = false, 1<<20
	d.CostCap = market.MaxCredits
	r := NewRun(d, "a1", "tiny", 16)
	if _, err := r.Take(Chunk{Prompt: 60, Text: "first", Count: 1, Events: 1}); err != nil {
		t.Fatal(err)
	}
	logs := []byte(`{"logprobs":"` + strings.Repeat("x", 2000) + `"}`)
	var err error
	taken := 1
	for ; err == nil; taken++ {
		_, err = r.Take(Chunk{Text: "w", Count: 1, Events: 1, Extra: []bus.Extra{{Choice: logs}}})
	}
	taken-- // the last is not in it
	s := NewStream(time.Now(), d, r, 1<<20)
	e, data, failed := s.End(time.Now(), Answer{Unmetered: true}, err, bus.MaxMessage)
	if failed != nil {
		t.Fatal(failed)
	}
	c, res := e.Completion, e.Result
	if c.Outcome != bus.OutcomeDone || c.Finish != "length" ||
		c.Usage != (market.Usage{Prompt: 60, Output: taken}) || c.Relayed != taken ||
		c.Cost != d.Price.Cost(c.Usage) {
		t.Errorf("after %v: outcome %s, finish %q, %+v for %v", err, c.Outcome, c.Finish, c.Usage, c.Cost)
	}
	if len(res.Text) != len("first")+taken-1 || len(res.Extra) != taken-1 ||
		!strings.Contains(res.Message, "stream") {
		t.Errorf("%d bytes of text, %d extras, %q", len(res.Text), len(res.Extra), res.Message)
	}
	var last bus.Chunk
	if err := bus.Decode(data, &last); err != nil || last.Validate() != nil {
		t.Errorf("the end frame cannot be read: %v", err)
	}
}

// What is counted as fitting fits: many small events have more around them than in them.
func TestSmallEventsFitWhereTheyAreSaidTo(t *testing.T) {
	for _, size := range []int{2, 40, 90, 300} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			d := dispatch("h")
			d.Task.Stream, d.MaxTokens, d.CostCap = false, 1<<24, market.MaxCredits
			r := NewRun(d, "a1", "tiny", 16)
			choice := []byte(`"` + strings.Repeat("x", size-2) + `"`)
			var err error
			n := 0
			for ; err == nil && n < bus.MaxItems; n++ {
				_, err = r.Take(Chunk{Prompt: 60 * (1 - min(n, 1)), Count: 1, Events: 1, Text: "w",
					Extra: []bus.Extra{{Choice: choice}}})
			}
			s := NewStream(time.Now(), d, r, 1<<20)
			e, data, failed := s.End(time.Now(), Answer{Unmetered: true}, err, bus.MaxMessage)
			var last bus.Chunk
			if failed != nil || bus.Decode(data, &last) != nil || e.Completion.Outcome != bus.OutcomeDone {
				t.Errorf("%d events of %d bytes, then %v: outcome %s %s, %d bytes, %v", n, size, err,
					e.Completion.Outcome, e.Completion.Code, len(data), failed)
			}
		})
	}
}
