package vllm

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// uncut returns the answer of one engine with these stop strings: up to the one that is complete first.
func uncut(all string, stops []string) (string, string) {
	end, at, which := len(all)+1, -1, ""
	for _, s := range stops {
		if i := strings.Index(all, s); i >= 0 && i+len(s) < end {
			end, at, which = i+len(s), i, s
		}
	}
	if at < 0 {
		return all, ""
	}
	return all[:at], which
}

// Whatever the text, the stop strings, the place of the cut and the pieces in which the rest comes: both
// parts together are the uncut answer. The first engine delivers as vLLM does, holding back what might begin
// a stop string.
func TestSeamIsInvisible(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	letters := []string{"a", "b", "c", "é", "咖"}
	word := func(n int) string {
		var b strings.Builder
		for range 1 + rng.IntN(n) {
			b.WriteString(letters[rng.IntN(len(letters))])
		}
		return b.String()
	}
	for range 20000 {
		all := word(30)
		var stops []string
		for range rng.IntN(3) {
			stops = append(stops, word(4))
		}
		want, wantStop := uncut(all, stops)
		cut := rng.IntN(len(all) + 1)
		for cut < len(all) && !utf8.RuneStart(all[cut]) {
			cut++
		}
		said := all[:cut]
		if _, stop := uncut(said, stops); stop != "" {
			continue // the first engine ended there itself
		}
		longest := 0
		for _, s := range stops {
			longest = max(longest, len([]rune(s))-1)
		}
		r := []rune(said)
		delivered := string(r[:max(0, len(r)-longest)])
		s, err := newSeam(delivered, said, stops)
		if err != nil {
			t.Fatal(err)
		}
		got := delivered
		out, stop := s.take("")
		got += out
		for rest := all[cut:]; rest != "" && stop == ""; {
			_, n := utf8.DecodeRuneInString(rest)
			out, stop = s.take(rest[:n])
			rest = rest[n:]
			if !utf8.ValidString(out) {
				t.Fatalf("%q is half a character", out)
			}
			got += out
		}
		if stop == "" {
			got += s.rest()
		}
		if got != want || stop != wantStop {
			t.Fatalf("%q, stops %q, cut at %d: %q ended by %q, want %q by %q", all, stops, cut, got, stop,
				want, wantStop)
		}
	}
}

func TestSeamWhereTheTextsDiffer(t *testing.T) {
	for _, c := range []struct {
		name, delivered, said, next, out string
		stops                            []string
		bad                              bool
	}{
		{"a space that only the tokens show", "Hello", " Hello you", "!", " you!", nil, false},
		{"a special token that only the tokens show, and no stop string", "Hello", "<s>Hello", " you", " you",
			nil, false},
		{"the same with a stop string", "Hello", "<s>Hello", " you", "", []string{"x"}, true},
		{"more was delivered than the tokens kept say", "Hello wor", "Hello", " world", "ld", nil, false},
	} {
		s, err := newSeam(c.delivered, c.said, c.stops)
		if (err != nil) != c.bad {
			t.Errorf("%s: %v", c.name, err)
		}
		if err != nil {
			continue
		}
		a, _ := s.take("")
		b, _ := s.take(c.next)
		if a+b != c.out {
			t.Errorf("%s: %q, want %q", c.name, a+b, c.out)
		}
	}
}

// What is long for a server follows from its own gaps: a tenth of a second is nothing to one that decodes
// slowly.
func TestPace(t *testing.T) {
	now := time.Unix(1, 0)
	var p pace
	if got := p.long(2 * time.Second); got != 2*time.Second {
		t.Errorf("nothing known: %v", got)
	}
	if _, ok := p.longFirst(2*time.Second, 100); ok {
		t.Error("nothing known, and the first token is judged")
	}
	for range 1000 {
		p.moved(now, time.Millisecond)
	}
	if got := p.long(2 * time.Second); got != 2*time.Second {
		t.Errorf("a quick server: %v", got)
	}
	for range 30 {
		p.moved(now, 200*time.Millisecond)
	}
	if got := p.long(2 * time.Second); got < 4*time.Second || got > 5*time.Second {
		t.Errorf("three of a hundred gaps are 200 ms: %v, want 20 of them", got)
	}
	p = pace{}
	p.began(now, 3*time.Second, 1024)
	if got := p.long(2 * time.Second); got != 9*time.Second {
		t.Errorf("a chunk of prefill takes 3 s: %v, want three of them", got)
	}
	if got, ok := p.longFirst(2*time.Second, 4096); !ok || got < 47*time.Second || got > 49*time.Second {
		t.Errorf("four times the prompt: %v", got)
	}
	// short answers of a server that tells neither ids nor what was cached say nothing of long prompts
	p = pace{}
	p.began(now, 100*time.Millisecond, 0)
	first, ok := p.longFirst(2*time.Second, 8192)
	if !ok || first < 160*time.Second {
		t.Errorf("fifty prompt tokens a second, of which nothing was seen: %v", first)
	}
	if p.since(&p.last, now) || !p.since(&p.last, now.Add(-1)) {
		t.Error("when a stream moved last")
	}
}
