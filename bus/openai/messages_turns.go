package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"souk/bus"
)

// dialogue makes the messages of a chat of those of /v1/messages. What one side says in several messages is
// one, but for results of tools, each of which is a message.
type dialogue struct {
	system []string
	said   []spoken
	called map[string]bool // ids of the tools that were called and have no result yet
	held   []string        // what the system says, until those have come
}

// spoken is a message that is being put together.
type spoken struct {
	chatMessage
	parts []contentPart
}

// contentPart is a text, or a picture by its URL.
type contentPart struct{ text, picture string }

// block is a part of a message's content, of any type.
type block struct {
	Type, Text, Thinking, ID, Name, ToolUseID string
	Input, Content, Source                    json.RawMessage
}

var blockMembers = []string{"type", "text", "thinking", "id", "name", "tool_use_id", "input", "content",
	"source"}

// read reads a block. A body may have very many, so that each is looked at alone, and nothing is kept but
// what it says.
func (b *block) read(at string, data []byte) error {
	texts := []*string{&b.Type, &b.Text, &b.Thinking, &b.ID, &b.Name, &b.ToolUseID}
	raws := []*json.RawMessage{&b.Input, &b.Content, &b.Source}
	s, wrong := Scan(data), ""
	again, ok := eachMember(&s, blockMembers, func(i int, _, v Span) {
		switch {
		case i < 0 || isNothing(s.Text(v)):
		case i >= len(texts):
			*raws[i-len(texts)] = s.Text(v)
		case data[v.From] == '"':
			*texts[i] = string(s.AppendString(nil, v))
		default:
			wrong = blockMembers[i]
		}
	})
	switch {
	case !ok:
		return bad("%s: an object is expected", at)
	case again != "":
		return bad("%s: member %s stands twice: send it once", at, again)
	case wrong != "":
		return bad("%s.%s: a string is expected", at, wrong)
	}
	return nil
}

// eachBlock calls each with every block of a content. A string is one text.
func eachBlock(at string, v json.RawMessage, each func(at string, b *block) error) (err error) {
	s := Scan(v)
	switch s.Next() {
	case '"':
		return each(at, &block{Type: "text", Text: string(s.AppendString(nil, Span{0, len(v)}))})
	case '[':
	default:
		return bad("%s: a string or a list of blocks is expected", at)
	}
	_, err = eachItem(v, func(i int, one json.RawMessage) error {
		var b block
		here := fmt.Sprintf("%s[%d]", at, i)
		if err := b.read(here, one); err != nil {
			return err
		}
		return each(here, &b)
	})
	return err
}

// turnsOf reads the members system and messages.
func turnsOf(system, messages json.RawMessage) ([]chatMessage, error) {
	t := dialogue{called: map[string]bool{}}
	if len(system) > 0 {
		if err := eachBlock("system", system, t.instruct); err != nil {
			return nil, err
		}
	}
	n, err := eachItem(messages, func(i int, one json.RawMessage) error {
		return t.message(fmt.Sprintf("messages[%d]", i), one)
	})
	switch {
	case err != nil:
		return nil, err
	case n == 0:
		return nil, bad(`messages: a list is expected, as [{"role": "user", "content": "Hello"}]`)
	}
	t.release()
	if last := len(t.said) - 1; last >= 0 && t.said[last].Role == "assistant" {
		return nil, unsupported("messages[%d].role: the last message is the assistant's, and its text is not gone "+
			"on with here: end with one of the user's", n-1)
	}
	out, silent := t.chat()
	if silent {
		return nil, refusal(bus.CodeEmptyPrompt, "messages: they are empty: give them some text")
	}
	return out, nil
}

// chat are the messages; silent says that none of them has anything to answer.
func (t *dialogue) chat() (out []chatMessage, silent bool) {
	if len(t.system) > 0 {
		t.said = slices.Insert(t.said, 0, spoken{chatMessage: chatMessage{Role: "system"},
			parts: []contentPart{{text: strings.Join(t.system, "\n")}}})
	}
	silent = true
	for i := range t.said {
		m := &t.said[i]
		if len(m.parts) > 0 || m.Role == "tool" {
			m.Content = m.content()
		}
		silent = silent && !says(m.Content)
		out = append(out, m.chatMessage)
	}
	return out, silent
}

// content joins texts: what an assistant said was one text, other texts are lines. Nearly every engine takes
// a string, and only some take parts.
func (m *spoken) content() json.RawMessage {
	if slices.ContainsFunc(m.parts, func(p contentPart) bool { return p.picture != "" }) {
		o := Out("[")
		for _, p := range m.parts {
			if p.picture != "" {
				o = o.Raw(`{"image_url":{"url":`).Str(p.picture).Raw(`},"type":"image_url"},`)
			} else {
				o = o.Raw(`{"text":`).Str(p.text).Raw(`,"type":"text"},`)
			}
		}
		o[len(o)-1] = ']'
		return json.RawMessage(o)
	}
	var text strings.Builder
	for i, p := range m.parts {
		if i > 0 && m.Role != "assistant" {
			text.WriteByte('\n')
		}
		text.WriteString(p.text)
	}
	return json.RawMessage(Out(nil).Str(text.String()))
}

func (t *dialogue) message(at string, data []byte) error {
	var role string
	var content json.RawMessage
	s := Scan(data)
	again, ok := eachMember(&s, []string{"role", "content"}, func(i int, _, v Span) {
		switch {
		case i == 0 && data[v.From] == '"':
			role = string(s.AppendString(nil, v))
		case i == 1:
			content = s.Text(v)
		}
	})
	switch {
	case !ok:
		return bad("%s: an object is expected", at)
	case again != "":
		return bad("%s: member %s stands twice: send it once", at, again)
	case len(t.said) >= bus.MaxMessages-1: // the system's is one more
		return unsupported("messages: more than %d; send fewer", bus.MaxMessages-1)
	}
	here := at + ".content"
	if n := len(content); n > 1 && len(bytes.TrimSpace(content[1:n-1])) == 0 && content[0] != '{' {
		return bad("%s: it is empty: give it some text, or leave the message out", here)
	}
	switch role {
	case "user":
		return t.user(here, content)
	case "assistant":
		t.release()
		t.turn(role)
		return eachBlock(here, content, t.assistant)
	case "system":
		if err := eachBlock(here, content, t.instruct); err != nil {
			return err
		}
		if len(t.called) == 0 {
			t.release()
		}
		return nil
	}
	return bad("%s.role: %.40q is none of user, assistant and system; results of tools are the user's, in blocks "+
		"of type tool_result", at, role)
}

// turn is the message to which somebody's words belong.
func (t *dialogue) turn(role string) *spoken {
	if n := len(t.said); n == 0 || t.said[n-1].Role != role {
		t.said = append(t.said, spoken{chatMessage: chatMessage{Role: role}})
	}
	return &t.said[len(t.said)-1]
}

// attribution begins a text of Claude Code's that differs in every request: no engine could keep a prompt
// that begins with it.
const attribution = "x-anthropic-billing-header"

// instruct takes in what the system says. Behind the first of the user's messages it becomes part of theirs,
// as templates know no other system than one at the beginning, and as what came before stays as it was.
func (t *dialogue) instruct(at string, b *block) error {
	switch {
	case b.Type != "text":
		return unsupported("%s.type: %.40q; the system says text alone", at, b.Type)
	case b.Text == "" || strings.HasPrefix(b.Text, attribution):
	case len(t.said) == 0:
		t.system = append(t.system, b.Text)
	default:
		t.held = append(t.held, b.Text)
	}
	return nil
}

// release says what was held back. Behind the result of a tool it is part of that: where the user says
// something, many templates drop what the assistant has thought.
func (t *dialogue) release() {
	for _, text := range t.held {
		role := "user"
		if n := len(t.said); n > 0 && t.said[n-1].Role == "tool" {
			role = "tool"
		}
		m := t.turn(role)
		m.parts = append(m.parts, contentPart{text: text})
	}
	t.held = nil
}

func (t *dialogue) assistant(at string, b *block) error {
	m := &t.said[len(t.said)-1]
	switch b.Type {
	case "text":
		m.say(contentPart{text: b.Text})
	case "thinking":
		m.Reasoning = append(m.Reasoning, b.Thinking...)
	case "redacted_thinking": // nobody but its author can read it
	case "tool_use":
		switch {
		case b.ID == "" || b.Name == "":
			return bad("%s: a tool_use has an id and a name", at)
		case t.called[b.ID]:
			return bad("%s.id: %.80q was called already", at, b.ID)
		}
		t.called[b.ID] = true
		m.ToolCalls = append(m.ToolCalls, chatCall{b.ID, "function",
			chatFunction{b.Name, input(b.Input)}})
	default:
		return unsupported("%s.type: %.40q is not served here; an assistant's text, thinking and tool_use are", at,
			b.Type)
	}
	return nil
}

// user takes in results of tools before all else: engines want them behind the calls at once.
func (t *dialogue) user(at string, content json.RawMessage) error {
	var mine spoken
	err := eachBlock(at, content, func(at string, b *block) error {
		if b.Type == "tool_result" {
			return t.result(at, b, &mine)
		}
		return mine.show(at, b)
	})
	if err == nil && len(mine.parts) > 0 {
		m := t.turn("user")
		m.parts = append(m.parts, mine.parts...)
	}
	t.release()
	return err
}

// result takes in what a tool said. A template has no place for pictures in it: those are the user's.
func (t *dialogue) result(at string, b *block, user *spoken) error {
	switch {
	case !t.called[b.ToolUseID]:
		return bad("%s.tool_use_id: no tool_use of id %.80q before it waits for a result", at, b.ToolUseID)
	case len(t.said) >= bus.MaxMessages-1:
		return unsupported("messages: more than %d; send fewer", bus.MaxMessages-1)
	}
	delete(t.called, b.ToolUseID)
	m := spoken{chatMessage: chatMessage{Role: "tool", ToolCallID: b.ToolUseID}}
	if len(b.Content) > 0 {
		err := eachBlock(at+".content", b.Content, func(at string, inner *block) error {
			if inner.Type == "image" {
				return user.show(at, inner)
			}
			return m.show(at, inner)
		})
		if err != nil {
			return err
		}
	}
	t.said = append(t.said, m)
	return nil
}

func (m *spoken) say(p contentPart) {
	if p != (contentPart{}) {
		m.parts = append(m.parts, p)
	}
}

// show takes in a text or a picture.
func (m *spoken) show(at string, b *block) error {
	switch b.Type {
	case "text":
		m.say(contentPart{text: b.Text})
	case "image":
		var s struct {
			Type, URL, Data string
			MediaType       string `json:"media_type"`
		}
		var url string
		switch err := json.Unmarshal(b.Source, &s); {
		case err != nil:
		case s.Type == "url":
			url = s.URL
		case s.Type == "base64" && s.MediaType != "" && s.Data != "":
			url = "data:" + s.MediaType + ";base64," + s.Data
		}
		if url == "" {
			return unsupported("%s.source: a picture comes as base64, with media_type and data, or by its url: files "+
				"are not kept here", at)
		}
		m.say(contentPart{picture: url})
	default:
		return unsupported("%s.type: %.40q is not served here; text, image and, of a user, tool_result are", at,
			b.Type)
	}
	return nil
}
