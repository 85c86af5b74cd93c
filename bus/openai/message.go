package openai

import (
	"bytes"
	"slices"

	"souk/bus"
)

// turn is one message of a chat.
type turn struct {
	role, content Span
	from, to      int // its other members, in rest: pairs of key and value
}

func allOf(spans []Span, is func(Span) bool) bool {
	return !slices.ContainsFunc(spans, func(p Span) bool { return !is(p) })
}

// message reads one item of messages.
func (b *body) message() bool {
	if b.Next() != '{' {
		return b.fail("a message is an object with role and content")
	}
	if len(b.chat) == bus.MaxMessages && b.refused == nil {
		b.refuse(unsupported("messages: more than %d; send fewer", bus.MaxMessages))
	}
	t := turn{from: len(b.rest)}
	ok := b.Object(func(key Span) bool {
		v, ok := b.Value()
		if !ok {
			return false
		}
		switch string(b.Name(key)) {
		case "role":
			return b.once(&t.role, v, "role")
		case "content":
			return b.once(&t.content, v, "content")
		}
		if string(b.Text(v)) != "null" {
			b.rest = append(b.rest, key, v)
		}
		return true
	})
	t.to = len(b.rest)
	if !ok {
		return false
	}
	if len(b.chat) < bus.MaxMessages {
		b.chat = append(b.chat, t)
		b.judgeMessage(len(b.chat)-1, t)
	}
	return true
}

func (b *body) once(field *Span, v Span, name string) bool {
	if *field != (Span{}) {
		return b.fail("member " + name + " of a message stands twice")
	}
	*field = v
	return true
}

func (b *body) judgeMessage(i int, t turn) {
	if b.refused != nil {
		return
	}
	if t.role == (Span{}) || b.data[t.role.From] != '"' || t.role.To-t.role.From == 2 ||
		t.role.To-t.role.From > bus.MaxID {
		b.refuse(bad("messages[%d].role: a string such as system, user or assistant is expected", i))
	}
	if t.content == (Span{}) {
		return
	}
	switch b.data[t.content.From] {
	case '"', 'n':
	case '[':
		b.judgeParts(i, t.content)
	default:
		b.refuse(bad("messages[%d].content: a string or an array of parts is expected", i))
	}
}

// judgeParts refuses the uuid of a picture: engines take it for a picture's name, whatever salt it came with,
// and give whoever names one what somebody else sent.
func (b *body) judgeParts(i int, v Span) {
	if text := b.Text(v); !bytes.Contains(text, []byte(`"uuid"`)) && !bytes.Contains(text, []byte(`\u`)) {
		return
	}
	again := b.within(v)
	again.Array(func() bool {
		part, ok := again.Value()
		if !ok || b.data[part.From] != '{' {
			return ok
		}
		of := b.within(part)
		return of.Object(func(key Span) bool {
			value, ok := of.Value()
			if ok && string(of.Name(key)) == "uuid" && string(b.Text(value)) != "null" {
				b.refuse(unsupported("messages[%d].content: a part has a uuid, which engines take for the name of "+
					"a picture, whoever sent it: leave it out", i))
			}
			return ok
		})
	})
}
