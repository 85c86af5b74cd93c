package vllmsim

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// An answer that broke off on one server goes on exactly where it stopped on another, when its tokens are
// sent there as the end of the prompt: prose, a recorded answer, and one that was forced to go on after its
// end.
func TestAnswerGoesOnElsewhere(t *testing.T) {
	question := []Message{{"system", "Be kind."}, {"user", "What is a café?"}}
	known := Answers{}
	known.Add(question, "A café — 咖啡馆 — is a place for coffee ☕, cake, and talk 👍🏽.")
	for name, c := range map[string]struct {
		answers Answers
		more    string
	}{
		"prose": {nil, ""}, "recorded": {known, ""}, "forced": {known, `,"ignore_eos":true,"max_tokens":60`},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := start(t, Config{Answers: c.answers}), start(t, Config{Answers: c.answers})
			whole := a.say(t, question, c.more)
			tokens, prompt := whole.Choices[0].Tokens, chatTokens(nil, &call{messages: question})
			for k := range tokens {
				ids, _ := json.Marshal(append(prompt[:len(prompt):len(prompt)], tokens[:k]...))
				more := strings.Replace(c.more, "60", fmt.Sprint(60-k), 1)
				if more == "" {
					more = `,"max_tokens":8000`
				}
				code, body := post(t, b, "/v1/completions",
					fmt.Sprintf(`{"prompt":%s,"return_token_ids":true%s}`, ids, more))
				var rest said
				if err := json.Unmarshal([]byte(body), &rest); err != nil || code != 200 {
					t.Fatalf("%d %s", code, body)
				}
				if got, want := fmt.Sprint(rest.Choices[0].Tokens), fmt.Sprint(tokens[k:]); got != want {
					t.Fatalf("after %d tokens: %s, want %s", k, got, want)
				}
			}
		})
	}
}

// A character of several tokens comes whole with its last one; a cut one does not come at all.
func TestCharactersAreNotCut(t *testing.T) {
	question := []Message{{"user", "Well?"}}
	const answer = "é 咖啡馆 👍🏽 ☕."
	s := start(t, Config{Answers: Answers{Key(question): answer}})
	n := len(Tokens().Encode(nil, answer))
	for most := 1; most <= n; most++ {
		_, text := post(t, s, "/v1/chat/completions",
			fmt.Sprintf(`{"messages":[{"role":"user","content":"Well?"}],"stream":true,"max_tokens":%d}`,
				most))
		var got strings.Builder
		for line := range strings.Lines(text) {
			data, ok := strings.CutPrefix(line, "data: {")
			if !ok {
				continue
			}
			var e struct {
				Choices []struct{ Delta struct{ Content string } }
			}
			if err := json.Unmarshal([]byte("{"+data), &e); err != nil {
				t.Fatal(err)
			}
			got.WriteString(e.Choices[0].Delta.Content)
		}
		if g := got.String(); !strings.HasPrefix(answer, g) || most == n && g != answer {
			t.Errorf("%d of %d tokens: %q", most, n, g)
		}
	}
}
