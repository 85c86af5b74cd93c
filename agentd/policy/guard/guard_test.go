package guard

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// looker is a guard of patterns that cut.
func looker(t *testing.T, patterns ...string) *Guard {
	t.Helper()
	var all []Pattern
	for i, p := range patterns {
		all = append(all, Pattern{Name: fmt.Sprint("p", i), Pattern: p, Action: Cut})
	}
	if errs := Faults(all); len(errs) > 0 {
		t.Fatal(errs)
	}
	g, err := New(all)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// read has a look at a text in pieces, and says what is passed on of it and whether it is cut there.
func read(l *Look, pieces []string) (passed string, cut bool, mostHeld int) {
	all, held := "", 0
	for _, p := range pieces {
		all += p
		if held, cut = l.Add(Text, p); cut {
			return all[:len(all)-held], true, mostHeld
		}
		mostHeld = max(mostHeld, held)
	}
	if held, cut = l.End(Text); cut {
		return all[:len(all)-held], true, mostHeld
	}
	return all, false, mostHeld
}

// split cuts a text into pieces of whole characters.
func split(rng *rand.Rand, text string) (pieces []string) {
	runes := []rune(text)
	for len(runes) > 0 {
		n := min(len(runes), 1+rng.IntN(6))
		pieces, runes = append(pieces, string(runes[:n])), runes[n:]
	}
	return pieces
}

// However a text comes in pieces, an answer is cut if and only if it has a match, before the first match
// begins, and no more is held back than the longest match. The oracle is Go's own regexp.
func TestCutsWhereRegexpFinds(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	patterns := []string{"ab", "a[bc]{1,3}d", "(?i)Straße", `\bab\b`, `\B-\B`, "(ab|ba){2}", "a.{0,3}b",
		"x?y",
		"é{2}", `\d{3}-\d{2}`, "[^a-z ]{2}", "(?:a|ab)(?:c|bcd)", `c\b`, "日本"}
	letters := []rune("aabbccdxy --1234éßſ日本AB\n")
	cuts := 0
	for range 4000 {
		var use []string
		for _, i := range rng.Perm(len(patterns))[:1+rng.IntN(3)] {
			use = append(use, patterns[i])
		}
		g := looker(t, use...)
		var b strings.Builder
		for range rng.IntN(40) {
			b.WriteRune(letters[rng.IntN(len(letters))])
		}
		text := b.String()
		l := g.Begin("math")
		passed, cut, held := read(l, split(rng, text))
		found, most, begins := false, 0, len(text)
		for i, p := range use {
			re := regexp.MustCompile(p)
			if at := re.FindStringIndex(text); at != nil {
				found, begins = true, min(begins, at[0])
			}
			if cut && re.MatchString(passed) && !strings.Contains(p, `\b`) && !strings.Contains(p, `\B`) {
				t.Fatalf("%q of %q: %q is passed on, and holds %q", use, text, passed, p)
			}
			parsed, _ := parse(p)
			most = max(most, longest(parsed))
			_ = i
		}
		if cut != found || !strings.HasPrefix(text, passed) || cut && len(passed) == len(text) {
			t.Fatalf("%q in %q: cut %v after %q, and regexp finds %v", use, text, cut, passed, found)
		}
		if held > most+3 {
			t.Fatalf("%q in %q: %d bytes are held back, and a match has %d at most", use, text, held, most)
		}
		if cut {
			cuts++
			if caught := l.Caught(); len(caught) == 0 {
				t.Fatalf("%q in %q: nobody says what was found", use, text)
			}
			_ = begins
		}
	}
	if cuts < 500 {
		t.Errorf("%d cuts: the test sees little", cuts)
	}
}

// What nobody can search a stream for, or what would need more memory than there is, is refused, by a
// sentence that says what to write.
func TestPatternsThatAreRefused(t *testing.T) {
	good := Pattern{Name: "one", Pattern: `key-\d{4}`, Action: Cut}
	if errs := Faults([]Pattern{good, {Name: "two", Pattern: "(?i)flag me", Action: Flag}}); len(errs) > 0 {
		t.Fatal(errs)
	}
	for want, p := range map[string]Pattern{
		`[0].pattern: "a.*b": a match has no greatest length: write {0,N} for * and {1,N} for +`: {Name: "n",
			Pattern: "a.*b", Action: Cut},
		`[0].pattern: "a{3,}": a match has no greatest length: write {3,N} for {3,}`: {Name: "n",
			Pattern: "a{3,}", Action: Cut},
		`[0].pattern: "^a": ^, $, \A and \z are not known in a stream: leave them out, or write \b`: {
			Name: "n", Pattern: "^a", Action: Cut},
		`[0].pattern: "a?": it matches where there is nothing`: {Name: "n", Pattern: "a?", Action: Cut},
		`[0].pattern: "": it matches where there is nothing`:   {Name: "n", Action: Cut},
		`[0].pattern: "(": error parsing regexp: missing closing ): ` + "`(`": {Name: "n", Pattern: "(",
			Action: Cut},
		`[0].pattern: "(a{1000}){1000}"`: {Name: "n", Pattern: "(a{1000}){1000}", Action: Cut},
		`[0].pattern: "a{999}[é]{99}": its longest match has 1025 bytes, at most 1024`: {Name: "n",
			Pattern: "a{999}[é]{99}", Action: Cut},
		`: together the patterns are too long`: {Name: "n", Pattern: "(?:ab|cd|ef|gh|ij|kl|mn|op){500}",
			Action: Cut},
		`[0].action: "drop": write cut or flag`: {Name: "n", Pattern: "ab", Action: "drop"},
		`[0].name: `:                            {Pattern: "ab", Action: Cut},
		`[0].domains: `: {Name: "n", Pattern: "ab", Action: Cut,
			Domains: []string{"a.b"}},
		`[0].pattern: 300 bytes, at most 256`: {Name: "n", Pattern: strings.Repeat("a", 300), Action: Cut},
	} {
		errs := Faults([]Pattern{p})
		if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), want) {
			t.Errorf("%+v: %v, want %s", p, errs, want)
		}
	}
	if errs := Faults([]Pattern{good, good}); len(errs) != 1 {
		t.Errorf("two of one name: %v", errs)
	}
	if errs := Faults(make([]Pattern, MaxPatterns+1)); len(errs) != 1 {
		t.Errorf("too many: %v", errs)
	}
}

// A pattern counts in its domains alone; one that flags holds nothing back and cuts nothing.
func TestDomainsAndFlags(t *testing.T) {
	g, err := New([]Pattern{
		{Name: "cuts", Pattern: "secret", Action: Cut, Domains: []string{"math"}},
		{Name: "flags", Pattern: "token", Action: Flag},
		{Name: "ends", Pattern: `end\b`, Action: Flag},
	})
	if err != nil {
		t.Fatal(err)
	}
	pieces := []string{"a sec", "ret and a tok", "en the en", "d"}
	l := g.Begin("math")
	if passed, cut, _ := read(l, pieces); passed != "a " || !cut || fmt.Sprint(l.Caught()) != "[cuts]" {
		t.Errorf("in its domain: %q, cut %v, caught %v", passed, cut, l.Caught())
	}
	l = g.Begin("general")
	if passed, cut, held := read(l, pieces); passed != strings.Join(pieces, "") || cut || held > 0 ||
		fmt.Sprint(l.Caught()) != "[flags ends]" {
		t.Errorf("in another: %q, cut %v, held %d, caught %v", passed, cut, held, l.Caught())
	}
	only, err := New([]Pattern{{Name: "cuts", Pattern: "secret", Action: Cut, Domains: []string{"math"}}})
	if err != nil || only.Begin("general") != nil {
		t.Errorf("where there is nothing to look for, somebody looks: %v", err)
	}
}

// 1 us a token: what a guard of usual patterns takes for a token of four characters, and nothing is
// allocated.
func BenchmarkToken(b *testing.B) {
	g, err := New([]Pattern{
		{Name: "card", Pattern: `\b\d{4}[ -]?\d{4}[ -]?\d{4}[ -]?\d{4}\b`, Action: Cut},
		{Name: "key", Pattern: `\bsk-[A-Za-z0-9]{20,48}`, Action: Cut},
		{Name: "mail", Pattern: `[a-z0-9._]{1,32}@[a-z0-9-]{1,32}\.[a-z]{2,6}`, Action: Flag},
	})
	if err != nil {
		b.Fatal(err)
	}
	l := g.Begin("math")
	tokens := []string{" the", " sum", " of", " 12", " and", " 30", " is", " 42", ".\n"}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		l.Add(Text, tokens[i%len(tokens)])
	}
}
