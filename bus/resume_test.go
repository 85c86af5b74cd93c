package bus

import (
	"strings"
	"testing"
)

// What a client says it has is bounded, and text without tokens is no place to go on from.
func TestResumeIsBounded(t *testing.T) {
	for _, c := range []struct {
		r  Resume
		ok bool
	}{
		{Resume{Agent: "a"}, true},
		{Resume{Agent: "a", Seq: 3, Tokens: make([]uint32, MaxResumeTokens),
			Text: strings.Repeat("x", MaxResumeText)}, true},
		{Resume{Agent: "a", Tokens: make([]uint32, MaxResumeTokens+1)}, false},
		{Resume{Agent: "a", Tokens: []uint32{1}, Text: strings.Repeat("x", MaxResumeText+1)}, false},
		{Resume{Agent: "a", Tokens: []uint32{1}, Text: strings.Repeat("x", MaxResumeText-9),
			Reasoning: "ten bytes."}, false},
		{Resume{Agent: "a", Tokens: []uint32{1}, Reasoning: "x", Calls: make([]string, MaxCalls)}, true},
		{Resume{Agent: "a", Tokens: []uint32{1}, Calls: make([]string, MaxCalls+1)}, false},
		{Resume{Agent: "a", Tokens: []uint32{1}, Calls: []string{strings.Repeat("x", MaxCallID+1)}}, false},
		{Resume{Agent: "a", Text: "x"}, false},
		{Resume{Agent: "a", Reasoning: "x"}, false},
		{Resume{}, false},
	} {
		if err := (&Task{Resume: &c.r}).Validate(); (err == nil) != c.ok {
			t.Errorf("%d tokens, %d bytes of %q: %v", len(c.r.Tokens), len(c.r.Text), c.r.Agent, err)
		}
	}
}
