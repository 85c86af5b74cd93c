package vllmsim

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

const (
	prosePiece = "The quick brown fox jumps over the lazy dog, and nobody in the village was surprised: it " +
		"had done so every morning since 1987. \"Why?\" asked the miller.\n\n"
	codePiece = "func (s *Server) Close() error {\n\ts.mu.Lock()\n\tdefer s.mu.Unlock()\n\tif s.closed != " +
		"nil { return fmt.Errorf(\"closed: %w\", err) }\n}\n"
	mixedPiece = "naïve café — 北京的天气怎么样？ Привет, мир! 🙂👍🏽 a+b≠c €1.234,56 \t\t x  \r\n"
)

// anyText draws text of all kinds: words, code, white space, other scripts, special tokens, and what is no
// UTF-8.
func anyText(t *rapid.T) string {
	part := rapid.OneOf(
		rapid.SampledFrom([]string{" the", "The", "ing", " ", "  ", "\n", "\n\n", "\t", "\r\n", ".", "...",
			"<|", "<|im_end|>", "<|im_start|>", "<|im_e", "123", "4567", "é", "北京", "🙂", "'s", " (x",
			"\u00a0", "\u2028"}),
		rapid.String(),
		rapid.StringOf(rapid.RuneFrom([]rune("abcXYZ 019.,!\n\t<|>é北"))),
	)
	return strings.Join(rapid.SliceOfN(part, 0, 12).Draw(t, "parts"), "")
}

// What is tokenised can be put together again, whatever it is.
func TestTokensAreReversible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyText(t)
		ids := Tokens().Encode(nil, s)
		if got := Tokens().Decode(ids); got != strings.ToValidUTF8(s, "\uFFFD") {
			t.Fatalf("%q came back as %q", s, got)
		}
		for rest := s; rest != ""; {
			n := nextPiece(rest)
			if n < 1 || n > len(rest) {
				t.Fatalf("the first piece of %q has %d bytes", rest, n)
			}
			rest = rest[n:]
		}
		if again := Tokens().Encode(nil, s); !slices.Equal(ids, again) {
			t.Fatalf("%q: another time other tokens", s)
		}
	})
}

// An answer, tokenised in the next turn of the dialogue, has the tokens with which it was generated, so that
// its blocks are hit: for prose wherever max_tokens cut it, for recorded answers when they were given whole.
func TestAnswersAreCanonical(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := script{prose: newProse(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(1, 300).Draw(t, "mean"))}
		n := rapid.IntRange(1, 400).Draw(t, "tokens")
		var ids []uint32
		for range n {
			id := s.next(true)
			if id == tokenStop {
				break
			}
			ids = append(ids, id)
		}
		if got := Tokens().Encode(nil, Tokens().Decode(ids)); !slices.Equal(got, ids) {
			t.Fatalf("%q: tokens %v became %v", Tokens().Decode(ids), ids, got)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		answer := strings.ToValidUTF8(anyText(t), "")
		question := []Message{{"user", "Well?"}}
		first := chatTokens(nil, &call{messages: question})
		said := Tokens().Encode(nil, answer)
		next := chatTokens(nil,
			&call{messages: append(question, Message{"assistant", answer}, Message{"user", "And?"})})
		if want := append(slices.Clone(first), said...); !slices.Equal(next[:len(want)], want) {
			t.Fatalf("the next turn after %q begins otherwise", answer)
		}
	})
}

func TestProseIsProse(t *testing.T) {
	p := newProse(1, 60)
	var ids []uint32
	for {
		id := p.next(true)
		if id == tokenStop {
			break
		}
		ids = append(ids, id)
	}
	text := Tokens().Decode(ids)
	t.Logf("%d tokens: %s", len(ids), text)
	if !utf8.ValidString(text) || !strings.HasSuffix(text, ".") || strings.Contains(text, "  ") {
		t.Errorf("no prose: %q", text)
	}
	q := newProse(1, 60)
	for range 10_000 {
		if q.next(false) == tokenStop {
			t.Fatal("it stopped although it must not")
		}
	}
}

// The counts are near those of the tokenizers that models have. Those of OpenAI's cl100k_base were taken with
// the module tiktoken-go/tokenizer v0.10.0.
func TestCounts(t *testing.T) {
	for _, c := range []struct {
		name, text      string
		cl100k          int
		least, greatest float64 // ours, as a multiple of cl100k_base's
	}{
		{"prose", prosePiece, 37, 0.9, 1.25},
		{"code", codePiece, 38, 0.9, 1.7},
		{"other scripts", mixedPiece, 45, 0.9, 2.5}, // the vocabulary was learned from English
	} {
		n := len(Tokens().Encode(nil, c.text))
		t.Logf("%s: %d tokens, cl100k_base %d", c.name, n, c.cl100k)
		if r := float64(n) / float64(c.cl100k); r < c.least || r > c.greatest {
			t.Errorf("%s: %d tokens are %.2f times %d", c.name, n, r, c.cl100k)
		}
	}
}

func FuzzEncode(f *testing.F) {
	for _, s := range []string{prosePiece, codePiece, mixedPiece, "<|im_end|>", "<|im_en", "\xff\xfe",
		strings.Repeat("a", 1000), strings.Repeat("\n", 300)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got := Tokens().Decode(Tokens().Encode(nil, s)); got != strings.ToValidUTF8(s, "\uFFFD") {
			t.Fatalf("%q came back as %q", s, got)
		}
	})
}
