package bus

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strings"
)

// How many tokens a prompt has is known once an engine has counted it. Until then there is an estimate,
// which forecasts and default terms are made of, and there is a bound, which money is set aside for: no
// token of a text stands for less than one byte of it, so that a prompt has no more tokens than bytes,
// and what the model's chat template adds, which the agent measures at its engine.

// What a prompt's bytes say of its tokens. See [Prompt.Loose].
const (
	LooseNone    = iota // no prompt of so many bytes has more tokens than [Template.Bound] says
	LooseCounted        // a template may make more of it: the engine counts it before it computes anything
	LooseMedia          // images, sound: only computing it tells
)

// Template is what a model's chat template and tokenizer make of a prompt beside what its client wrote,
// as the agent measured it.
type Template struct {
	Fixed int `json:"fixed"`           // tokens around any prompt
	Each  int `json:"each"`            // and around each of its pieces
	Tools int `json:"tools,omitempty"` // and what introduces tools; below 0: not measured
	Wide  int `json:"wide"`            // most tokens of a byte beyond ASCII, where text is normalised
}

// maxWide is the most that any normal form of Unicode makes of a byte of UTF-8: one Arabic ligature of
// three bytes takes 33.
const maxWide = 11

// Assumed is more than the usual template adds, for agents that have not measured theirs.
var Assumed = Template{Fixed: 512, Each: 32, Tools: 512, Wide: 3}

// Bound is the most tokens that a prompt can come to. ok is false where its bytes do not say so; then it
// is a guess on the high side.
func (t Template) Bound(p *Prompt) (tokens int, ok bool) {
	ok = p.Text > 0 && p.Loose == LooseNone && (p.Tools == 0 || t.Tools >= 0)
	n := int64(p.Text) + int64(max(t.Wide, 1)-1)*int64(p.Wide)
	n += int64(t.Fixed) + int64(t.Each)*int64(p.Pieces)
	if p.Tools > 0 {
		n += int64(max(t.Tools, 0))
	}
	return int(min(n, MaxTokens)), ok
}

// MeasurePrompt reads an OpenAI body for its prompt alone, as the door does.
func MeasurePrompt(data []byte) (Prompt, error) {
	b := bodies.Get().(*body)
	defer b.release()
	if err := b.read(data); err != nil {
		return Prompt{}, err
	}
	if err := b.judge(); err != nil {
		return Prompt{}, err
	}
	b.canonical()
	p := b.prompt()
	b.bound(&p)
	return p, nil
}

// A template may write the JSON of a tool on many lines, and a number with all its digits.
const (
	indent    = 4  // spaces for each level
	maxNumber = 25 // characters of a number: 1e15 is written as 1000000000000000.0
)

// callRoom is how many times its bytes a tool call may take: templates write its arguments, which are
// JSON in a string, anew.
const callRoom = 4

// bound fills in what p's bytes say of its tokens, once the canonical text and the rest of p are there.
func (b *body) bound(p *Prompt) {
	p.Wide = wide(b.buf)
	text := int64(len(b.buf))
	room := func(v span) {
		text += spread(b.text(v)) + 2*int64(wide(b.text(v))) // as \u escapes, at worst
	}
	p.Pieces, p.Tools = max(1, len(b.chat)), b.items(b.tools)
	if b.tools != (span{}) {
		room(b.tools)
		p.Wide += escapes(b.text(b.tools))
	}
	p.Pieces += p.Tools
	for _, v := range []span{b.toolChoice, b.format, b.effort} { // no part of the canonical text
		if v != (span{}) {
			text += int64(v.to - v.from)
			p.Wide += wide(b.text(v)) + escapes(b.text(v))
			room(v)
		}
	}
	if b.kwargs != (span{}) {
		text += int64(b.kwargs.to - b.kwargs.from)
		b.loose = max(b.loose, b.kwargsLoose())
	}
	for i := range b.chat {
		t := &b.chat[i]
		p.Pieces += max(0, b.parts(t.content)-1) // one part is as good as a string
		for k := t.from; k < t.to; k += 2 {
			v, name := b.rest[k+1], b.text(b.rest[k])
			p.Wide += escapes(b.text(v))
			switch {
			case string(name) == `"tool_calls"` && b.data[v.from] == '[':
				text += (callRoom - 1) * int64(v.to-v.from)
				p.Pieces += b.items(v)
			case string(name) == `"tools"` && b.data[v.from] == '[':
				room(v)
				n := b.items(v)
				p.Pieces, p.Tools = p.Pieces+n, p.Tools+n
			case b.data[v.from] != '"' || !plainMember(name):
				b.loose = max(b.loose, LooseCounted)
			}
		}
	}
	p.Text, p.Loose = int(min(text, MaxTokens)), b.loose
	p.Pieces, p.Tools = min(p.Pieces, MaxTokens), min(p.Tools, MaxTokens)
}

// plainMember are members of a message whose text a template writes once, if at all.
func plainMember(quoted []byte) bool {
	switch string(quoted) {
	case `"name"`, `"tool_call_id"`, `"reasoning"`, `"reasoning_content"`, `"refusal"`, `"task"`:
		return true
	}
	return false
}

// items counts the entries of an array.
func (b *body) items(v span) (n int) {
	if v == (span{}) || b.data[v.from] != '[' {
		return 0
	}
	again := scanner{data: b.data[:v.to], at: v.from}
	again.array(func() bool {
		_, ok := again.value()
		n++
		return ok
	})
	return n
}

// parts counts the parts of a message's content, and notes those that are no text.
func (b *body) parts(v span) (n int) {
	if v == (span{}) || b.data[v.from] != '[' {
		return 0
	}
	again := scanner{data: b.data[:v.to], at: v.from}
	again.array(func() bool {
		again.next()
		part, ok := again.value()
		n++
		if b.data[part.from] == '"' {
			return ok
		}
		kind := ""
		if b.data[part.from] == '{' {
			in := scanner{data: b.data[:part.to], at: part.from}
			in.object(func(key span) bool {
				value, ok := in.value()
				if b.memberIs(key, "type") && b.data[value.from] == '"' {
					kind = string(b.appendString(nil, value))
				}
				return ok
			})
		}
		switch kind {
		case "text", "input_text", "output_text":
		case "refusal", "thinking":
			b.loose = max(b.loose, LooseCounted)
		default:
			b.loose = LooseMedia
		}
		return ok
	})
	return n
}

// memberIs reports whether a key, however it is written, is name.
func (b *body) memberIs(key span, name string) bool {
	raw := b.data[key.from+1 : key.to-1]
	return string(raw) == name || bytes.IndexByte(raw, '\\') >= 0 && string(b.appendString(nil, key)) == name
}

// Limits of chat_template_kwargs: a template may write a value as often as it likes.
const (
	maxKwargs     = 16
	maxKwargBytes = 64
)

// judgeKwargs takes switches, numbers and short words.
func (b *body) judgeKwargs(v span) {
	if b.data[v.from] != '{' {
		b.refuse(bad("chat_template_kwargs: an object is expected"))
		return
	}
	n := 0
	again := scanner{data: b.data[:v.to], at: v.from}
	again.object(func(key span) bool {
		value, ok := again.value()
		if n++; n > maxKwargs {
			b.refuse(unsupported("chat_template_kwargs: more than %d; send fewer", maxKwargs))
		}
		if c := b.data[value.from]; c == '{' || c == '[' || value.to-value.from > maxKwargBytes {
			b.refuse(unsupported("chat_template_kwargs.%.40s: a switch, a number or a word of at most %d "+
				"bytes is taken",
				b.data[key.from+1:key.to-1], maxKwargBytes-2))
		}
		return ok
	})
}

// kwargsLoose says what a template may make of chat_template_kwargs. Agents measure their templates with
// thinking on and off.
func (b *body) kwargsLoose() (loose int) {
	again := scanner{data: b.data[:b.kwargs.to], at: b.kwargs.from}
	again.object(func(key span) bool {
		value, ok := again.value()
		v := string(b.text(value))
		thinks := b.memberIs(key, "enable_thinking") || b.memberIs(key, "thinking")
		if !thinks || v != "true" && v != "false" {
			loose = LooseCounted
		}
		return ok
	})
	return loose
}

// spread is how many bytes more a JSON text takes when it is written on many lines, with spaces between
// its parts and all digits of its numbers.
func spread(data []byte) (more int64) {
	line := func(depth int64) int64 { return 2 + indent*depth }
	depth := int64(0)
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			for i++; data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case c == '{', c == '[':
			depth++
			more += line(depth)
		case c == '}', c == ']':
			depth--
			more += line(depth)
		case c == ',':
			more += line(depth)
		case c == ':':
			more += 2
		case c == '-', c >= '0' && c <= '9':
			from := i
			for i+1 < len(data) && strings.IndexByte(" \t\r\n,]}", data[i+1]) < 0 {
				i++
			}
			more += max(0, int64(maxNumber-(i+1-from)))
		case c == 't', c == 'f', c == 'n': // None is longer than null
			more++
		}
	}
	return more
}

// wide counts the bytes beyond ASCII.
func wide(text []byte) (n int) {
	const highs = 0x8080808080808080
	for ; len(text) >= 8; text = text[8:] {
		n += bits.OnesCount64(binary.LittleEndian.Uint64(text) & highs)
	}
	for _, c := range text {
		n += int(c >> 7)
	}
	return n
}

// escapes counts the bytes beyond ASCII that the escapes of a JSON text, which stands as it was written, may
// come to: three each.
func escapes(text []byte) int { return 3 * bytes.Count(text, []byte(`\u`)) }
