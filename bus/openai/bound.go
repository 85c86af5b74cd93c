package openai

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strings"

	"souk/bus"
)

// Measure reads an OpenAI body for its prompt alone, as the door does.
func Measure(data []byte) (bus.Prompt, error) {
	b := bodies.Get().(*body)
	defer b.release()
	if err := b.read(data); err != nil {
		return bus.Prompt{}, err
	}
	if err := b.judge(); err != nil {
		return bus.Prompt{}, err
	}
	b.canonical()
	p := b.prompt(b.salted(nil))
	b.bound(&p)
	return p, nil
}

// A template may write the JSON of a tool on many lines, and a number with all its digits.
const (
	indent    = 4  // spaces for each level
	maxNumber = 25 // characters of a number: 1e15 is written as 1000000000000000.0
)

// callRoom bounds a tool call's text in a template, as a multiple of its bytes: templates write its
// arguments, which are JSON in a string, anew.
const callRoom = 4

// bound fills in what p's bytes say of its tokens, once the canonical text and the rest of p are there.
func (b *body) bound(p *bus.Prompt) {
	p.Wide = wide(b.buf)
	text := int64(len(b.buf))
	room := func(v Span) {
		text += spread(b.Text(v)) + 2*int64(wide(b.Text(v))) // as \u escapes, at worst
	}
	p.Pieces, p.Tools = max(1, len(b.chat)), b.items(b.of["tools"])
	if b.has("tools") {
		room(b.of["tools"])
		p.Wide += escapes(b.Text(b.of["tools"]))
	}
	p.Pieces += p.Tools
	// no part of the canonical text
	for _, which := range [...]string{"tool_choice", "response_format", "reasoning_effort"} {
		if v := b.of[which]; b.has(which) {
			text += int64(v.To - v.From)
			p.Wide += wide(b.Text(v)) + escapes(b.Text(v))
			room(v)
		}
	}
	if b.has("chat_template_kwargs") {
		text += int64(len(b.Text(b.of["chat_template_kwargs"])))
		b.loose = max(b.loose, b.kwargsLoose())
	}
	for i := range b.chat {
		t := &b.chat[i]
		parts, escaped := b.parts(t.content)
		p.Pieces += max(0, parts-1) // one part is as good as a string
		p.Wide += escaped
		for k := t.from; k < t.to; k += 2 {
			v, name := b.rest[k+1], b.Text(b.rest[k])
			p.Wide += escapes(b.Text(v))
			switch {
			case string(name) == `"tool_calls"` && b.data[v.From] == '[':
				text += (callRoom - 1) * int64(v.To-v.From)
				p.Pieces += b.items(v)
			case string(name) == `"tools"` && b.data[v.From] == '[':
				room(v)
				n := b.items(v)
				p.Pieces, p.Tools = p.Pieces+n, p.Tools+n
			case b.data[v.From] != '"' || !plainMember(name):
				b.loose = max(b.loose, bus.LooseCounted)
			}
		}
	}
	p.Text, p.Loose = int(min(text, bus.MaxTokens)), b.loose
	p.Pieces, p.Tools = min(p.Pieces, bus.MaxTokens), min(p.Tools, bus.MaxTokens)
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
func (b *body) items(v Span) (n int) {
	if v == (Span{}) || b.data[v.From] != '[' {
		return 0
	}
	again := b.within(v)
	again.Array(func() bool {
		_, ok := again.Value()
		n++
		return ok
	})
	return n
}

// parts counts the parts of a message's content, and the bytes beyond ASCII that those may come to which
// stand as they were written; it notes those that are no text.
func (b *body) parts(v Span) (n, escaped int) {
	if v == (Span{}) || b.data[v.From] != '[' {
		return 0, 0
	}
	again := b.within(v)
	again.Array(func() bool {
		part, ok := again.Value()
		n++
		if b.data[part.From] == '"' {
			escaped += escapes(b.Text(part))
			return ok
		}
		text, kind := b.textOf(part)
		if text == (Span{}) { // it stands as it was written
			escaped += escapes(b.Text(part))
		}
		switch {
		case isMedia(kind):
			b.loose = bus.LooseMedia
		case kind == "refusal", kind == "thinking":
			b.loose = max(b.loose, bus.LooseCounted)
		}
		return ok
	})
	return n, escaped
}

// Limits of chat_template_kwargs: a template may write a value as often as it likes.
const (
	maxKwargs     = 16
	maxKwargBytes = 64
)

// judgeKwargs takes switches, numbers and short words.
func (b *body) judgeKwargs(v Span) {
	if b.data[v.From] != '{' {
		b.refuse(bad("chat_template_kwargs: an object is expected"))
		return
	}
	n := 0
	again := b.within(v)
	again.Object(func(key Span) bool {
		value, ok := again.Value()
		if n++; n > maxKwargs {
			b.refuse(unsupported("chat_template_kwargs: more than %d; send fewer", maxKwargs))
		}
		if c := b.data[value.From]; c == '{' || c == '[' || value.To-value.From > maxKwargBytes {
			b.refuse(unsupported("chat_template_kwargs.%.40s: a switch, a number or a word of at most %d "+
				"bytes is taken",
				b.data[key.From+1:key.To-1], maxKwargBytes-2))
		}
		return ok && b.refused == nil
	})
}

// kwargsLoose says what a template may make of chat_template_kwargs. Agents measure their templates with
// thinking on and off.
func (b *body) kwargsLoose() (loose int) {
	again := b.within(b.of["chat_template_kwargs"])
	again.Object(func(key Span) bool {
		value, ok := again.Value()
		v, name := string(b.Text(value)), string(again.Name(key))
		thinks := name == "enable_thinking" || name == "thinking"
		if !thinks || v != "true" && v != "false" {
			loose = bus.LooseCounted
		}
		return ok
	})
	return loose
}

// spread bounds how many bytes a JSON text grows by when it is written on many lines, with spaces between its
// parts and all digits of its numbers.
func spread(data []byte) (more int64) {
	line := func(depth int64) int64 { return 2 + indent*depth }
	depth := int64(0)
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			i += stringLen(data[i:]) - 1
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
