package openai

import (
	"unicode/utf8"

	"souk/bus"
)

// piece is a part of a chunk: what one engine event said, or the text between two of them. All of it but text
// is JSON that has been read, and of none of it more than clients know.
type piece struct {
	text      string
	reasoning []byte // a string
	refusal   []byte // a string
	calls     []byte // the array of tool calls
	cites     []byte // the array of citations
	logs      []byte // the object of log probabilities

	scratch []byte
}

// takeLogs returns the log probabilities, once.
func (p *piece) takeLogs() []byte {
	logs := p.logs
	p.logs = nil
	return logs
}

// maxEventDepth bounds the nesting of what an engine says in an event: a list of candidates in a list of
// tokens is five deep.
const maxEventDepth = 16

// pieces takes a chunk apart. An agent could write anything into its events: whatever has another shape than
// an engine's is CodeAgentFailed, and nothing of an event is passed on but the values that were read.
func pieces(c *bus.Chunk, chat bool, p *piece, each func(*piece) error) error {
	at := 0
	plain := func(to int) (err error) {
		if to > at {
			*p = piece{text: c.Text[at:to], scratch: p.scratch}
			err, at = each(p), to
		}
		return err
	}
	for i := range c.Extra {
		x := &c.Extra[i]
		if x.At < at || x.At > len(c.Text) {
			return forged("an event stands at byte %d of a text of %d", x.At, len(c.Text))
		}
		if splits(c.Text, x.At) {
			return forged("an event stands at byte %d of a text, within a character", x.At)
		}
		if err := plain(x.At); err != nil {
			return err
		}
		*p = piece{scratch: p.scratch}
		n, err := p.read(x.Choice, chat, c.Text[at:])
		if err != nil {
			return err
		}
		p.text = c.Text[at : at+n]
		at += n
		if err := each(p); err != nil {
			return err
		}
	}
	return plain(len(c.Text))
}

func forged(format string, args ...any) error {
	return refusal(bus.CodeAgentFailed, "the agent sent an event that no engine sends: "+format, args...)
}

// read takes in the choice of an event, and returns how many bytes of text it says.
func (p *piece) read(choice []byte, chat bool, text string) (n int, err error) {
	if !utf8.Valid(choice) {
		return 0, forged("it is not UTF-8")
	}
	s := Scanner{Deepest: maxEventDepth, data: choice}
	said := func(v Span) {
		if err != nil || isNull(&s, v) {
			return
		}
		if choice[v.From] != '"' {
			err = forged("its text is no string")
			return
		}
		p.scratch = s.AppendString(p.scratch[:0], v)
		if n = len(p.scratch); n > len(text) || text[:n] != string(p.scratch) {
			n, err = 0, forged("it says a text that the answer does not have")
		}
	}
	seen := 0
	ok := s.Object(func(key Span) bool {
		name := string(s.Name(key))
		bit := choiceMembers[name]
		if seen&bit != 0 {
			err = forged("member %.40q stands twice", name)
			return false
		}
		seen |= bit
		if name == "delta" && chat && s.Next() == '{' {
			return p.delta(&s, said, &err)
		}
		v, ok := s.Value()
		switch {
		case !ok || isNull(&s, v):
		case bit == 0:
			err = forged("it has a member %.40q", name)
		case name == "index":
			if string(s.Text(v)) != "0" {
				err = forged("it is of another choice than the one that was asked for")
			}
		case name == "text" && !chat:
			said(v)
		case name == "logprobs":
			if choice[v.From] != '{' {
				err = forged("its log probabilities are no object")
			}
			p.logs = s.Text(v)
		case name == "delta" || name == "text":
			err = forged("it has a member %s", name)
		}
		return ok && err == nil
	})
	switch {
	case err != nil:
		return 0, err
	case !ok || !s.End():
		return 0, forged("%v", s.Err())
	}
	return n, nil
}

// choiceMembers are the members of an engine's choice, each a bit of its own. Those that are not read belong
// to the answer's end, which has an event of its own, or nobody asked for them.
var choiceMembers = map[string]int{"index": 1, "delta": 2, "text": 4, "logprobs": 8, "finish_reason": 16,
	"stop_reason": 32, "token_ids": 64, "prompt_token_ids": 128, "prompt_logprobs": 256}

var deltaMembers = map[string]int{"role": 1, "content": 2, "reasoning": 4, "reasoning_content": 8,
	"tool_calls": 16, "refusal": 32, "citations": 64} // the last of Cohere's models

// delta reads what an event adds to a chat.
func (p *piece) delta(s *Scanner, said func(Span), err *error) bool {
	seen := 0
	return s.Object(func(key Span) bool {
		name := string(s.Name(key))
		bit := deltaMembers[name]
		if seen&bit != 0 {
			*err = forged("member %.40q stands twice", name)
			return false
		}
		seen |= bit
		if name == "tool_calls" && s.Next() == '[' {
			return p.readCalls(s, err)
		}
		v, ok := s.Value()
		switch {
		case !ok || isNull(s, v):
		case name == "citations" && s.data[v.From] == '[':
			p.cites = s.Text(v)
		case bit == 0 || name == "tool_calls" || name == "citations":
			*err = forged("its delta has a member %.40q", name)
		case s.data[v.From] != '"':
			*err = forged("%s is no string", name)
		case name == "content":
			said(v)
		case name == "reasoning", name == "reasoning_content" && len(p.reasoning) == 0:
			p.reasoning = s.Text(v)
		case name == "refusal":
			p.refusal = s.Text(v)
		}
		if len(p.reasoning) == 2 { // ""
			p.reasoning = nil
		}
		return ok && *err == nil
	})
}

// readCalls judges tool calls: [{index, id, type, function: {name, arguments}}].
func (p *piece) readCalls(s *Scanner, err *error) bool {
	count, from := 0, s.at
	ok := s.Array(func() bool {
		count++
		return s.Object(func(key Span) bool {
			name := string(s.Name(key))
			switch first := s.Next(); {
			case name == "function" && first == '{':
				return s.Object(func(key Span) bool {
					name := string(s.Name(key))
					v, ok := s.Value()
					known := name == "name" || name == "arguments"
					if ok && !isNull(s, v) && !(known && s.data[v.From] == '"') {
						*err = forged("a tool call's function has a member %.40q", name)
					}
					return ok && *err == nil
				})
			case name == "index" && first != 'n':
				n, ok := s.Count()
				if ok && n >= bus.MaxCalls {
					*err = forged("it begins tool call %d of at most %d", n, bus.MaxCalls)
				}
				return ok && *err == nil
			}
			v, ok := s.Value()
			if ok && !(isNull(s, v) || s.data[v.From] == '"' && (name == "id" || name == "type")) {
				*err = forged("a tool call has a member %.40q", name)
			}
			return ok && *err == nil
		})
	})
	if ok && count > 0 {
		p.calls = s.Text(Span{from, s.at})
	}
	return ok && *err == nil
}

func isNull(s *Scanner, v Span) bool { return s.data[v.From] == 'n' }

// splits reports whether a place in a text lies within a character: half of one is no text.
func splits(text string, at int) bool {
	for i := at - 1; i >= 0 && at-i < utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			_, n := utf8.DecodeRuneInString(text[i:])
			return i+n > at
		}
	}
	return false
}
