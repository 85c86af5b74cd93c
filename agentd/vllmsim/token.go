package vllmsim

import (
	_ "embed"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// Special tokens: their ids, and the text that stands for them in a prompt.
const (
	tokenPad = iota
	tokenBegin
	tokenEnd
	tokenStart // of a message
	tokenStop  // of a message; the model's end of sequence
	firstByte  // then the 256 bytes, then what vocab.txt has
)

var specials = [firstByte]string{"<|pad|>", "<|begin|>", "<|end|>", "<|im_start|>", "<|im_end|>"}

//go:embed vocab.txt
var vocabText string

// Vocabulary is the stand-in's tokenizer: byte-pair encoding over the pieces of a text. Decode(Encode(s)) ==
// s for every s.
type Vocabulary struct {
	text []string         // by id
	id   map[string]int32 // of learned tokens and bytes; ids rise in the order of merging
}

// Tokens is the vocabulary that comes with the package; it is parsed on first use.
var Tokens = sync.OnceValue(func() *Vocabulary {
	v, err := parseVocabulary(vocabText)
	if err != nil {
		panic("vllmsim: vocab.txt: " + err.Error())
	}
	return v
})

func parseVocabulary(lines string) (*Vocabulary, error) {
	v := &Vocabulary{id: map[string]int32{}}
	v.text = append(v.text, specials[:]...)
	for b := range 256 {
		v.add(string([]byte{byte(b)}))
	}
	n := 0
	for line := range strings.Lines(lines) {
		n++
		t, err := strconv.Unquote(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if _, twice := v.id[t]; twice || len(t) < 2 {
			return nil, fmt.Errorf("line %d: %q is there already", n, t)
		}
		v.add(t)
	}
	return v, nil
}

func (v *Vocabulary) add(t string) {
	v.id[t] = int32(len(v.text))
	v.text = append(v.text, t)
}

func (v *Vocabulary) Len() int { return len(v.text) }

// Text returns the bytes of a token, which may be part of a character. Ids out of range are empty.
func (v *Vocabulary) Text(id uint32) string {
	if int(id) >= len(v.text) {
		return ""
	}
	return v.text[id]
}

// Decode joins the texts of tokens. Bytes that are no UTF-8 become U+FFFD, as a real server shows them.
func (v *Vocabulary) Decode(ids []uint32) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(v.Text(id))
	}
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}

// Encode appends the tokens of s. The texts of special tokens in s become special tokens, as on a real
// server.
func (v *Vocabulary) Encode(out []uint32, s string) []uint32 {
	for {
		at, id := nextSpecial(s)
		out = v.encodePlain(out, s[:at])
		if at == len(s) {
			return out
		}
		out = append(out, id)
		s = s[at+len(specials[id]):]
	}
}

// nextSpecial returns the offset of the first special token of s, len(s) if there is none, and its id.
func nextSpecial(s string) (int, uint32) {
	for at := 0; ; at += 2 {
		next := strings.Index(s[at:], "<|")
		if next < 0 {
			return len(s), 0
		}
		at += next
		if id, ok := specialAt(s[at:]); ok {
			return at, id
		}
	}
}

func specialAt(s string) (uint32, bool) {
	for id, t := range specials {
		if strings.HasPrefix(s, t) {
			return uint32(id), true
		}
	}
	return 0, false
}

func (v *Vocabulary) encodePlain(out []uint32, s string) []uint32 {
	for s != "" {
		n := nextPiece(s)
		out = v.encodePiece(out, s[:n])
		s = s[n:]
	}
	return out
}

// maxPiece bounds the quadratic work of merging: longer pieces (base64, long runs of one mark) are cut.
const maxPiece = 256 // bytes; longer than any learned token

func (v *Vocabulary) encodePiece(out []uint32, p string) []uint32 {
	if id, ok := v.id[p]; ok {
		return append(out, uint32(id))
	}
	for len(p) > maxPiece {
		cut := maxPiece
		for cut > maxPiece-utf8.UTFMax && !utf8.RuneStart(p[cut]) {
			cut--
		}
		out = v.merge(out, p[:cut])
		p = p[cut:]
	}
	return v.merge(out, p)
}

// merge joins neighbours, that pair first whose text was learned first, until none can be joined.
func (v *Vocabulary) merge(out []uint32, p string) []uint32 {
	const none = math.MaxInt32
	// part i is p[edges[i]:edges[i+1]]; joined[i] is it and the next as one token
	var edges, joined [maxPiece + 1]int32
	n := len(p)
	join := func(i int) int32 {
		if i+2 <= n {
			if id, ok := v.id[p[edges[i]:edges[i+2]]]; ok {
				return id
			}
		}
		return none
	}
	for i := range n + 1 {
		edges[i] = int32(i)
	}
	for i := range n {
		joined[i] = join(i)
	}
	for n > 1 {
		at := 0
		for i := 1; i < n-1; i++ {
			if joined[i] < joined[at] {
				at = i
			}
		}
		if joined[at] == none {
			break
		}
		copy(edges[at+1:], edges[at+2:n+1])
		copy(joined[at:], joined[at+1:n])
		n--
		joined[at] = join(at)
		if at > 0 {
			joined[at-1] = join(at - 1)
		}
	}
	for i := range n {
		out = append(out, uint32(v.id[p[edges[i]:edges[i+1]]]))
	}
	return out
}
