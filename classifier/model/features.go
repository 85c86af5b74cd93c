package model

import "unicode/utf8"

// Buckets is the number of rows of the weight table: every n-gram is hashed into one of them. 2^16 rows
// of 16 bytes are 1 MB, which stays in a core's second-level cache.
const Buckets = 1 << 16

// Limits of what is read of a task. A domain shows itself early, and the first kilobytes never change while
// a session goes on, so every turn of it is named alike.
const (
	MaxSystem = 2 << 10 // bytes of the system prompt
	MaxPrompt = 2 << 10 // bytes of the first user message
)

// Kinds of n-gram, each the start of its own hash, so that the word "cat" and the letters "cat" differ.
const (
	seedWord   = 0x9e3779b97f4a7c15
	seedBigram = 0xc2b2ae3d27d4eb4f
	seedChars  = 0x165667b19e3779f9
)

// Scratch holds the buffers of one classification, so that the hot path allocates nothing. A Scratch
// serves one goroutine at a time; the zero value is ready.
type Scratch struct {
	Features []uint32 // distinct buckets of the last text, in order of first appearance

	seen  []uint16 // seen[f] == stamp: f is among Features
	stamp uint16
	norm  []byte
}

// Extract hashes a text into the distinct n-grams it holds: words, pairs of words, and runs of 3 to 5
// characters inside and across a word's edges. Letters are lowered, digits all become '0' (a sum is
// arithmetic whatever its numbers), white space becomes one blank. The result is s.Features, valid until the
// next call.
func (s *Scratch) Extract(system, prompt string) []uint32 {
	if s.seen == nil {
		s.seen = make([]uint16, Buckets)
	}
	s.stamp++
	if s.stamp == 0 { // wrapped: old stamps would look fresh
		clear(s.seen)
		s.stamp = 1
	}
	s.Features = s.Features[:0]
	s.normalise(cut(system, MaxSystem), cut(prompt, MaxPrompt))
	s.words()
	s.chars()
	return s.Features
}

// cut shortens s to at most n bytes without splitting a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// normalise writes both texts into s.norm, each between blanks.
func (s *Scratch) normalise(texts ...string) {
	b := append(s.norm[:0], ' ')
	for _, t := range texts {
		for i := 0; i < len(t); i++ {
			c := lower[t[i]]
			if c == ' ' && b[len(b)-1] == ' ' {
				continue
			}
			b = append(b, c)
		}
		if b[len(b)-1] != ' ' {
			b = append(b, ' ')
		}
	}
	s.norm = b
}

// lower maps a byte to its normal form; bytes of multi-byte characters stay as they are.
var lower = func() (t [256]byte) {
	for i := range t {
		c := byte(i)
		switch {
		case c <= ' ' || c == 0x7f:
			c = ' '
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		case '0' <= c && c <= '9':
			c = '0'
		}
		t[i] = c
	}
	return t
}()

// inWord tells the bytes that words are made of: letters, digits, '_' and everything beyond ASCII.
var inWord = func() (t [256]bool) {
	for i := range t {
		c := byte(i)
		t[i] = 'a' <= c && c <= 'z' || c == '0' || c == '_' || c >= 0x80
	}
	return t
}()

// words adds each word, and the pair that it makes with the one before.
func (s *Scratch) words() {
	var prev uint64
	for i := 0; i < len(s.norm); {
		c := s.norm[i]
		if c == ' ' {
			i++
			continue
		}
		h := uint64(seedWord)
		if !inWord[c] { // punctuation stands alone: "{", "$", "?"
			h = mix(h, c)
			i++
		} else {
			for i < len(s.norm) && inWord[s.norm[i]] {
				h = mix(h, s.norm[i])
				i++
			}
		}
		s.add(h)
		if prev != 0 {
			s.add((prev*seedBigram ^ h) * seedChars)
		}
		prev = h
	}
}

func (s *Scratch) chars() {
	b := s.norm
	for i := 0; i+3 <= len(b); i++ {
		h := mix(mix(mix(seedChars, b[i]), b[i+1]), b[i+2])
		s.add(h)
		if i+4 > len(b) {
			break
		}
		h = mix(h, b[i+3])
		s.add(h)
		if i+5 > len(b) {
			break
		}
		s.add(mix(h, b[i+4]))
	}
}

// mix is FNV-1a's step, 64 bits wide.
func mix(h uint64, c byte) uint64 { return (h ^ uint64(c)) * 0x100000001b3 }

// bucket takes the high bits of a product, which depend on all of h.
func bucket(h uint64) uint32 {
	h ^= h >> 32
	return uint32(h * 0xd6e8feb86659fd93 >> 48)
}

func (s *Scratch) add(h uint64) {
	f := bucket(h)
	if s.seen[f] != s.stamp {
		s.seen[f] = s.stamp
		s.Features = append(s.Features, f)
	}
}
