package openai

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"slices"
	"strings"

	"souk/bus"
)

// Separators of canonical text. JSON cannot hold these control characters unescaped and text hardly ever
// does. Where text holds one after all it is escaped, so that two prompts have the same canonical text only
// if an engine sees the same.
//
//	prompt    = [tools end] { message end }  or, of a completion, text end
//	message   = role "\n" content { endOfContent name value }
//	content   = a text, or parts with endOfPart between them, each a text or, behind escape, other JSON
const (
	endOfPart    = 0x1c
	escape       = 0x1d // and then the escaped byte, with escaped set
	endOfMessage = 0x1e
	endOfContent = 0x1f // and before the role of a message, where it is none of the common ones

	escaped = 0x40
)

// Bytes that are escaped beside the separators: in a role that which ends it; in a member's name, which its
// value follows at once, those that may begin a value (a name of letters ends where the value begins: no word
// of JSON ends in another).
const (
	inRole = "\n"
	inName = `"[{-0123456789`
)

// canonical writes the prompt as one text that begins alike for prompts that begin alike to an engine: the
// tools, then message by message role, content and what else it has. Spelling in JSON does not count where an
// engine reads text. Nothing to say is the same in every spelling: no content, null, an empty text or an
// empty array.
func (b *body) canonical() {
	b.blank = true
	b.ends, b.boundary, b.media = b.ends[:0], 0, 0
	if !b.has("messages") {
		b.canonicalPrompt()
		return
	}
	if b.has("tools") {
		b.buf = appendCompact(b.buf, b.Text(b.of["tools"]))
		b.end()
		b.boundary = len(b.buf)
	}
	opening := true // system messages before anything else
	systemAt, userAt := Span{}, Span{}
	for _, t := range b.chat {
		role := b.roleOf(t.role)
		from := len(b.buf)
		b.content(t.content)
		at := Span{from, len(b.buf)}
		switch role {
		case "system", "developer":
			if opening {
				if systemAt == (Span{}) {
					systemAt = at
				}
				systemAt.To = at.To
			}
		case "user":
			if userAt == (Span{}) {
				userAt = at
			}
			opening = false
		default:
			opening = false
		}
		for i := t.from; i < t.to; i += 2 {
			b.buf = append(b.buf, endOfContent)
			b.write(b.rest[i], inName)
			b.buf = appendCompact(b.buf, b.Text(b.rest[i+1]))
		}
		b.end()
		if opening && (role == "system" || role == "developer") {
			b.boundary = len(b.buf)
		}
	}
	b.system, b.user = b.buf[systemAt.From:systemAt.To], b.buf[userAt.From:userAt.To]
}

// commonRoles begin a message as they are. A completion that begins like one is set apart; of other roles
// their messages are.
var commonRoles = [...]string{"system", "user", "assistant", "tool", "developer", "function"}

// opens returns the common role that a text begins with, up to the end of a line, or "".
func opens(text []byte) string {
	for _, role := range commonRoles {
		if len(text) > len(role) && text[len(role)] == '\n' && string(text[:len(role)]) == role {
			return role
		}
	}
	return ""
}

// roleOf appends a message's role, and returns it if it is a common one.
func (b *body) roleOf(v Span) string {
	from, raw := len(b.buf), b.data[v.From+1:v.To-1]
	for _, role := range commonRoles {
		if string(raw) == role {
			b.buf = append(append(b.buf, role...), '\n')
			return role
		}
	}
	b.write(v, inRole)
	b.buf = append(b.buf, '\n')
	role := opens(b.buf[from:])
	if role == "" {
		b.buf = slices.Insert(b.buf, from, endOfContent)
	}
	return role
}

func (b *body) canonicalPrompt() {
	b.write(b.of["prompt"], "")
	if opens(b.buf) != "" {
		b.buf = slices.Insert(b.buf, 0, endOfMessage)
	}
	b.see(b.buf)
	b.user = b.buf
	b.end()
}

// write appends what a string says, with the separators in it, and the bytes of also, escaped.
func (b *body) write(v Span, also string) {
	from := len(b.buf)
	b.buf = b.AppendString(b.buf, v)
	asWritten := len(b.buf)-from == v.To-v.From-len(`""`) // every escape is longer than what it says
	if (asWritten || !bytes.Contains(b.Text(v), separators)) && !bytes.ContainsAny(b.buf[from:], also) {
		return
	}
	plain := slices.Clone(b.buf[from:])
	b.buf = b.buf[:from]
	for _, c := range plain {
		if isSeparator(c) || strings.IndexByte(also, c) >= 0 {
			b.buf = append(b.buf, escape, c^escaped)
		} else {
			b.buf = append(b.buf, c)
		}
	}
}

func isSeparator(c byte) bool { return c >= endOfPart && c <= endOfContent }

// separators is how canonical text's separators begin in JSON, where they never stand unescaped.
var separators = []byte(`\u001`)

// content appends a message's text: a string, or the texts of its parts and, as they are, other parts.
func (b *body) content(v Span) {
	if v == (Span{}) {
		return
	}
	switch b.data[v.From] {
	case '"':
		from := len(b.buf)
		b.write(v, "")
		b.see(b.buf[from:])
	case '[':
		again := b.within(v)
		first := true
		again.Array(func() bool {
			part, _ := again.Value()
			if !first {
				b.buf = append(b.buf, endOfPart)
			}
			first = false
			b.part(part)
			return true
		})
	}
}

// part appends one part of a message's content.
func (b *body) part(v Span) {
	text, kind := b.textOf(v)
	if text != (Span{}) {
		from := len(b.buf)
		b.write(text, "")
		b.see(b.buf[from:])
		return
	}
	b.buf = append(b.buf, escape)
	if isMedia(kind) {
		b.media++
		b.buf = appendMedia(b.buf, b.Text(v))
	} else {
		b.buf = appendCompact(b.buf, b.Text(v))
	}
	b.blank = false
}

// isMedia reports whether parts of a kind are pictures, sound or the like, whose bytes are no text.
func isMedia(kind string) bool {
	switch kind {
	case "text", "input_text", "output_text", "refusal", "thinking":
		return false
	}
	return true
}

// longMedia is the length of a string of a part from which on it is data: of it stands the hash in canonical
// text, behind a byte that JSON cannot hold, so that nobody can write it himself.
const longMedia = 1 << 10

func appendMedia(dst, part []byte) []byte {
	for {
		at, n := 0, 0
		for ; at < len(part); at++ {
			if part[at] == '"' {
				if n = stringLen(part[at:]); n >= longMedia {
					break
				}
				at += n - 1
			}
		}
		if dst = appendCompact(dst, part[:at]); at == len(part) {
			return dst
		}
		sum := sha256.Sum256(part[at : at+n])
		dst = hex.AppendEncode(append(dst, '"', escape), sum[:])
		dst, part = append(dst, '"'), part[at+n:]
	}
}

// textOf is the text of a part that is nothing else, and the part's type, "" where it is none.
func (b *body) textOf(v Span) (text Span, kind string) {
	if b.data[v.From] != '{' {
		return Span{}, ""
	}
	again := b.within(v)
	again.Object(func(key Span) bool {
		value, ok := again.Value()
		isText := b.data[value.From] == '"'
		switch string(again.Name(key)) { // "te\u0078t" is text, too, and an engine takes the last
		case "type":
			if kind = ""; isText {
				kind = string(again.Name(value))
			}
		case "text":
			if text = (Span{}); isText {
				text = value
			}
		}
		return ok
	})
	if kind != "text" {
		text = Span{}
	}
	return text, kind
}

// see notes whether there is anything to answer.
func (b *body) see(text []byte) {
	for i := 0; b.blank && i < len(text); i++ {
		b.blank = isSpace(text[i])
	}
}

func (b *body) end() {
	b.buf = append(b.buf, endOfMessage)
	b.ends = append(b.ends, len(b.buf))
}

// prompt measures the canonical text and hashes each prefix of it. For whom has another key, or under
// another setting, an engine has nothing of the same text in its cache, so the hashes are others. Nobody can
// make two texts that have one hash: whoever could would pay for the second as if an agent that has the first
// had it, too.
func (b *body) prompt(key []byte) bus.Prompt {
	h := sha256.New()
	b.apart(h, key)
	from := 0
	var sum [sha256.Size]byte
	hash := func(to int) {
		h.Write(b.buf[from:to]) // a hash never fails to write
		from = to
		h.Sum(sum[:0])
		b.prefixes = append(b.prefixes, bus.PrefixHash{Bytes: to, Hash: binary.BigEndian.Uint64(sum[:])})
		b.digests = append(b.digests, sum[:bus.DigestBytes]...)
	}
	for _, end := range b.ends {
		for end-from > bus.PrefixEvery {
			hash(from + bus.PrefixEvery)
		}
		hash(end)
	}
	messages := len(b.chat)
	if !b.has("messages") {
		messages = 1
	}
	tokens := b.tokens()
	return bus.Prompt{Bytes: len(b.buf), Messages: messages, Tokens: tokens,
		AtLeast:  max(0, tokens-MediaTokens*b.media) / sureOf,
		Prefixes: slices.Clone(b.prefixes), Digests: slices.Clone(b.digests), SystemBoundary: b.boundary}
}

// salted returns a key together with the body's cache_salt. Hashes under two salts, as under two keys, have
// nothing in common, so that a client can keep apart the people it speaks for.
func (b *body) salted(key []byte) []byte {
	if b.salt == "" {
		return key
	}
	return slices.Concat(key, []byte{0}, []byte(b.salt))
}

// apart begins the hash of a prompt which an engine does not take from its cache although another of the
// same text is there: one of another key, cut off at some length, or with arguments that a template may write
// before all else. Whoever sends a text again and again, each time apart, has it computed each time. No
// canonical text begins with the separators that are written here.
func (b *body) apart(h hash.Hash, key []byte) {
	write := func(what byte, said []byte) {
		b.head = binary.LittleEndian.AppendUint32(append(b.head[:0], endOfPart, what), uint32(len(said)))
		h.Write(b.head) // a hash never fails to write
		h.Write(said)
	}
	write(0xff, key)
	for i, which := range [...]string{"truncate_prompt_tokens", "add_special_tokens", "chat_template_kwargs",
		"reasoning_effort", "tool_choice", "response_format"} {
		if b.has(which) {
			write(byte(i), b.Text(b.of[which]))
		}
	}
}

// MediaTokens are the tokens that a picture, or sound, is estimated to have, whatever its bytes: what most
// models of today make of a photo or a screenshot. Agents learn how far a prompt's estimate is off.
const MediaTokens = 1500

// sureOf is the part of an estimate of text that is sure: of text that is mostly spaces, and in some
// languages, that is all there is.
const sureOf = 4

// tokens estimates the prompt's length: English text has about four bytes a token, other scripts about
// two and a half, and a chat template adds four tokens a message.
func (b *body) tokens() int {
	other := wide(b.buf)
	return min((len(b.buf)-other+3)/4+other*2/5+4*len(b.ends)+MediaTokens*b.media, bus.MaxTokens)
}

// session is the keyed hash of the system prompt and the first user message: the same for every turn.
func (b *body) session(key []byte) string {
	h := sha256.New()
	var size [16]byte
	binary.LittleEndian.PutUint64(size[:8], uint64(len(key)))
	binary.LittleEndian.PutUint64(size[8:], uint64(len(b.system)))
	h.Write(size[:])
	h.Write(key)
	h.Write(b.system)
	h.Write(b.user)
	var sum [sha256.Size]byte
	return hex.EncodeToString(h.Sum(sum[:0])[:16])
}

// The system prompt of a role: blocks of 16 tokens, of about 64 bytes; the first four are the chat template's
// and what all prompts share, the next four lie in the system prompt and tools (runtime-layer 3.2).
const (
	blockBytes = 64
	skipBlocks = 4
	takeBlocks = 4
)

// role is the keyed hash of the prompt's system prompt, "" where the prompt is too short to have one.
func (b *body) role(key []byte) string {
	const from, to = skipBlocks * blockBytes, (skipBlocks + takeBlocks) * blockBytes
	if len(b.buf) < to {
		return ""
	}
	h := sha256.New()
	h.Write([]byte("role\x00"))
	h.Write(key)
	h.Write(b.buf[from:to])
	var sum [sha256.Size]byte
	return hex.EncodeToString(h.Sum(sum[:0])[:8])
}
