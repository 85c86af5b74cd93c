package integration

import (
	"math/rand/v2"
	"regexp"
	"testing"

	"souk/agentd/policy/guard"
	"souk/cmd/replay"
)

// In the answers of all dialogues that come with the program nothing is cut; with a string planted into each,
// every one is cut, before that string and not a character sooner.
func TestPlantedStrings(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	patterns := []guard.Pattern{
		{Name: "card", Pattern: `\b\d{4}[ -]\d{4}[ -]\d{4}[ -]\d{4}\b`, Action: guard.Cut},
		{Name: "key", Pattern: `\bsk-[A-Za-z0-9]{20,48}\b`, Action: guard.Cut},
		{Name: "marker", Pattern: `(?i)strictly confidential`, Action: guard.Cut},
	}
	plants := []string{"4929 1234-5678 9012", "sk-abcdefghij0123456789KLM", "Strictly CONFIDENTIAL"}
	g, err := guard.New(patterns)
	if err != nil {
		t.Fatal(err)
	}
	all, err := replay.Bundled()
	if err != nil {
		t.Fatal(err)
	}
	// read says how much of an answer is passed on, and whether it is cut there.
	read := func(text string) (string, bool) {
		l := g.Begin("math")
		runes := []rune(text)
		for at := 0; at < len(runes); {
			n := min(len(runes)-at, 1+rng.IntN(12))
			at += n
			if held, cut := l.Add(guard.Text, string(runes[at-n:at])); cut {
				passed := string(runes[:at])
				return passed[:len(passed)-held], true
			}
		}
		held, cut := l.End(guard.Text)
		return text[:len(text)-held], cut
	}
	answers, cuts := 0, 0
	for _, d := range all {
		for i, x := range d.Turns {
			for _, text := range []string{x.Answer, x.User} {
				if text == "" {
					continue
				}
				answers++
				for _, p := range patterns {
					if regexp.MustCompile(p.Pattern).MatchString(text) {
						t.Fatalf("dialogue %s, turn %d holds %s of itself", d.ID, i, p.Name)
					}
				}
				if passed, cut := read(text); cut || passed != text {
					t.Fatalf("dialogue %s, turn %d: cut after %q", d.ID, i, passed)
				}
				runes := []rune(text)
				at := rng.IntN(len(runes) + 1)
				before := string(runes[:at]) + ": "
				planted := before + plants[answers%len(plants)] + " " + string(runes[at:])
				passed, cut := read(planted)
				if !cut || passed != before {
					t.Fatalf("dialogue %s, turn %d: of %q cut %v after %q", d.ID, i, planted, cut, passed)
				}
				cuts++
			}
		}
	}
	t.Logf("%d planted strings in %d texts are cut, and none of the texts without", cuts, answers)
	if answers < 1000 {
		t.Error("there are few answers: the test sees little")
	}
}
