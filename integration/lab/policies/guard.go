package policies

import (
	"fmt"
	"math/rand/v2"
	"regexp"

	"souk/agentd/policy/guard"
	"souk/cmd/replay"
)

// GuardPatterns are the patterns to look for in the recorded answers, none of which has a match.
var GuardPatterns = []guard.Pattern{
	{Name: "card", Pattern: `\b\d{4}[ -]\d{4}[ -]\d{4}[ -]\d{4}\b`, Action: guard.Cut},
	{Name: "key", Pattern: `\bsk-[A-Za-z0-9]{20,48}\b`, Action: guard.Cut},
	{Name: "marker", Pattern: `(?i)strictly confidential`, Action: guard.Cut},
}

var planted = []string{"4929 1234-5678 9012", "sk-abcdefghij0123456789KLM", "Strictly CONFIDENTIAL"}

// GuardFigures counts over all recorded texts, once as they are and once with a string planted into each.
type GuardFigures struct {
	Texts  int
	Found  int // planted strings before which the answer ended, to the letter
	Leaked int // and those of which something was passed on
	False  int // texts without one that were cut
}

// GuardRules are ways to look.
var GuardRules = []string{"none", "patterns", "patterns, constant", "each piece by itself", "all at the end"}

// PlayGuard looks at the recorded texts in pieces of one to twelve letters.
func PlayGuard(rule string, seed uint64) (f GuardFigures, err error) {
	g, err := guard.New(GuardPatterns)
	if err != nil {
		return f, err
	}
	var simple []*regexp.Regexp
	for _, p := range GuardPatterns {
		simple = append(simple, regexp.MustCompile(p.Pattern))
	}
	all, err := replay.Bundled()
	if err != nil {
		return f, err
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	// read returns the part of a text that is passed on, and whether it is cut there.
	read := func(text string) (passed string, cut bool) {
		look := g.Begin("math")
		for rest := []rune(text); len(rest) > 0; {
			n := min(len(rest), 1+rng.IntN(12))
			piece := string(rest[:n])
			rest = rest[n:]
			switch rule {
			case "patterns":
				held, cut := look.Add(guard.Text, piece)
				if passed += piece; cut {
					return passed[:len(passed)-held], true
				}
			case "each piece by itself":
				for _, p := range simple {
					if at := p.FindStringIndex(piece); at != nil {
						return passed + piece[:at[0]], true
					}
				}
				passed += piece
			default:
				passed += piece
			}
		}
		switch rule {
		case "patterns":
			held, cut := look.End(guard.Text)
			return passed[:len(passed)-held], cut
		case "all at the end": // all of it is passed on by now
			for _, p := range simple {
				cut = cut || p.MatchString(passed)
			}
		}
		return passed, cut
	}
	for _, d := range all {
		for _, x := range d.Turns {
			for _, text := range []string{x.Answer, x.User} {
				if text == "" {
					continue
				}
				f.Texts++
				if passed, cut := read(text); cut || passed != text {
					f.False++
				}
				runes := []rune(text)
				at := rng.IntN(len(runes) + 1)
				before := string(runes[:at]) + ": "
				secret := planted[f.Texts%len(planted)]
				switch passed, cut := read(before + secret + " " + string(runes[at:])); {
				case cut && passed == before:
					f.Found++
				case len(passed) > len(before):
					f.Leaked++
				}
			}
		}
	}
	return f, nil
}

func guardPage(seeds []uint64) (string, error) {
	text := `
## guard

An agent ends an answer before what it does not pass on. Of each recorded question and answer, cut into pieces of
one to twelve letters as an engine might send them: planted strings before which the answer ended to the letter,
those of which something was passed on, and texts without one that were cut. What it costs a token is in
[bench](bench.md), where it is measured.

| rule | texts | found | something passed on | cut without cause |
|---|---|---|---|---|
`
	for _, rule := range GuardRules {
		var sum GuardFigures
		for _, seed := range seeds {
			f, err := PlayGuard(rule, seed)
			if err != nil {
				return "", err
			}
			sum.Texts, sum.Found = sum.Texts+f.Texts, sum.Found+f.Found
			sum.Leaked, sum.False = sum.Leaked+f.Leaked, sum.False+f.False
		}
		of := func(n int) float64 { return float64(n) / float64(sum.Texts) }
		text += fmt.Sprintf("| %s | %d | %.4f | %.4f | %.4f |\n", rule, sum.Texts, of(sum.Found), of(sum.Leaked),
			of(sum.False))
	}
	return text, nil
}
