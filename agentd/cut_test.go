package agentd

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"souk/agentd/policy"
	"souk/agentd/policy/guard"
	"souk/bus"
	"souk/market"
)

// cutting is a run whose answer ends before what a pattern finds, of an engine of no name.
func cutting(t *testing.T, pattern string) *Run {
	t.Helper()
	c := Config{Policies: policy.Params{Guard: patterns},
		Patterns: []guard.Pattern{{Name: "p", Pattern: pattern, Action: guard.Cut}}}
	d := &bus.Dispatch{Domain: "math", Hold: "h", MaxTokens: 1000, CostCap: market.Credit,
		Price:  market.Price{Miss: 10, Hit: 1, Out: 40},
		Settle: market.SettleMetered,
		Task: bus.Task{Client: "c", ID: "t", Kind: bus.KindChat, Stream: true,
			Prompt: bus.Prompt{Tokens: 10}}}
	r := NewRun(d, "a", "m", 16)
	now := time.Unix(1e9, 0)
	by := policy.New(c.Policies, c.knownPolicies(new(EngineConfig))).Watch(now, "math")
	r.watch, r.now = &watch{by: by}, now
	return r
}

// spoken returns what a reader of the run's chunks sees: text, and the events of the engine.
func spoken(r *Run, chunks ...Chunk) (text string, why error) {
	for _, c := range chunks {
		var out *bus.Chunk
		out, why = r.Take(c)
		if out != nil {
			text += out.Text
			for _, x := range out.Extra {
				text += string(x.Choice)
			}
		}
		if why != nil {
			return text, why
		}
	}
	return text, why
}

func event(choice string) Chunk {
	return Chunk{Count: 1, Events: 1, Extra: []bus.Extra{{Choice: []byte(choice)}}}
}

// An event that says no text, as that of a token which is half of a letter has it where log probabilities are
// asked for, does not let out what is held back.
func TestAnEventWithoutTextLetsNothingOut(t *testing.T) {
	r := cutting(t, `secret-\d{3}`)
	silent := event(`{"index":0,"delta":{"content":""},"logprobs":{"content":[]}}`)
	text, why := spoken(r, Chunk{Text: "it is sec", Count: 3, Events: 1}, silent,
		Chunk{Text: "ret-123", Count: 2, Events: 1})
	if why != errCaught || strings.Contains(text, "sec") {
		t.Errorf("%v, the reader has %q", why, text)
	}
}

// Where a match ends in the text and another in the reasoning of the same chunk, neither is passed on.
func TestTwoMatchesInOneChunk(t *testing.T) {
	r := cutting(t, `secret`)
	text, why := spoken(r, event(`{"index":0,"delta":{"reasoning":"a secre"}}`),
		Chunk{Text: "hello, a secret", Count: 3, Events: 2,
			Extra: []bus.Extra{{Choice: []byte(`{"index":0,"delta":{"reasoning":"t"}}`)}}})
	if why != errCaught || strings.Contains(text, "secre") {
		t.Errorf("%v, the reader has %q", why, text)
	}
}

// The arguments of two calls are two texts.
func TestCallsAreReadApart(t *testing.T) {
	call := func(i int, args string) Chunk {
		return event(fmt.Sprintf(`{"index":0,"delta":{"tool_calls":[{"index":%d,"function":{"name":"f",`+
			`"arguments":%q}}]}}`, i, args))
	}
	r := cutting(t, `\d{4}`)
	if _, why := spoken(r, call(0, "12"), call(1, "34"), Chunk{Finish: true}); why != nil {
		t.Errorf("12 and 34 are taken for 1234: %v", why)
	}
	r = cutting(t, `\d{4}`)
	if _, why := spoken(r, call(0, "12"), call(0, "34")); why != errCaught {
		t.Errorf("1234 of one call: %v", why)
	}
}

// With a stop string an engine says tokens, and their log probabilities, before their text: as many letters
// as may be the beginning of that string. They are not passed on before that text has been read.
func TestTokensBeforeTheirText(t *testing.T) {
	const answer = "it is secret-123, or so I have heard from others"
	for _, pattern := range []string{`secret-\d{3}`, `nothing`} {
		for _, stop := range []string{"0123456789abcdefghij", ""} {
			r := cutting(t, pattern)
			r.watch.lag = lagOf(fmt.Appendf(nil, `{"stop":[%q,"x"]}`, stop))
			if one := lagOf(fmt.Appendf(nil, `{"stop":%q}`, stop)); one != r.watch.lag {
				t.Errorf("%q alone: %d, among others %d", stop, one, r.watch.lag)
			}
			var chunks []Chunk
			for i := range answer {
				c := event(fmt.Sprintf(`{"index":0,"delta":{},"logprobs":{"content":[{"token":%q}]}}`,
					answer[i:i+1]))
				if at := i - max(0, len(stop)-1); at >= 0 {
					c.Text = answer[at : at+1]
				}
				chunks = append(chunks, c)
			}
			chunks = append(chunks, Chunk{Text: answer[len(answer)-max(0, len(stop)-1):], Finish: true})
			var spelt, text string
			count := 0
			var why error
			for _, c := range chunks {
				var out *bus.Chunk
				if out, why = r.Take(c); out != nil {
					text, count = text+out.Text, count+out.Count
					for _, x := range out.Extra {
						token, _, _ := strings.Cut(strings.SplitAfter(string(x.Choice), `"token":"`)[1], `"`)
						spelt += token
					}
				}
				if why != nil {
					break
				}
			}
			if pattern == "nothing" {
				if why != nil || text != answer || spelt != answer || count != len(answer) {
					t.Errorf("stop %q: %v, %q, spelt %q, %d tokens", stop, why, text, spelt, count)
				}
			} else if why != errCaught || !strings.HasPrefix("it is ", text) ||
				!strings.HasPrefix("it is ", spelt) || count != len(spelt) {
				t.Errorf("stop %q: %v, %q, spelt %q, %d tokens", stop, why, text, spelt, count)
			}
		}
	}
}

// What a pattern finds is cut before it, also where a class of it has halves of letters, which no text has.
func TestHalvesOfLetters(t *testing.T) {
	for _, p := range []string{`abc[a-z\x{D800}]{4}`, `ab[\x{0}-\x{DFFF}]c`} {
		whole := "xx abccabc"
		at := regexp.MustCompile(p).FindStringIndex(whole)
		if at == nil {
			t.Fatalf("%q: no match", p)
		}
		r := cutting(t, p)
		var chunks []Chunk
		for _, c := range whole {
			chunks = append(chunks, Chunk{Text: string(c), Count: 1, Events: 1})
		}
		if text, why := spoken(r, chunks...); why != errCaught || text != whole[:at[0]] {
			t.Errorf("%q: %v, the reader has %q, want %q", p, why, text, whole[:at[0]])
		}
	}
}
