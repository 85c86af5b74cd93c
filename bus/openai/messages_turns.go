package openai

import (
	"encoding/json"
	"errors"
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
	Type, Text, Thinking, ID, Name string
	Input, Content                 json.RawMessage
	ToolUseID                      string `json:"tool_use_id"`
	Source                         *struct {
		Type, URL, Data string
		MediaType       string `json:"media_type"`
	}
}

// turnsOf reads the members system and messages.
func turnsOf(system, messages json.RawMessage) ([]chatMessage, error) {
	t := dialogue{called: map[string]bool{}}
	if len(system) > 0 {
		blocks, err := blocksOf("system", system)
		if err == nil {
			err = t.instruct("system", blocks)
		}
		if err != nil {
			return nil, err
		}
	}
	var all []json.RawMessage
	if json.Unmarshal(messages, &all) != nil || len(all) == 0 {
		return nil, bad(`messages: a list is expected, as [{"role": "user", "content": "Hello"}]`)
	}
	for i, m := range all {
		if err := t.message(fmt.Sprintf("messages[%d]", i), m); err != nil {
			return nil, err
		}
	}
	t.release()
	switch n := len(t.said); {
	case n >= bus.MaxMessages:
		return nil, unsupported("messages: more than %d; send fewer", bus.MaxMessages-1)
	case n > 0 && t.said[n-1].Role == "assistant":
		return nil, unsupported("messages[%d].role: the last message is the assistant's, and its text is not gone "+
			"on with here: end with one of the user's", len(all)-1)
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
	between := "\n"
	if m.Role == "assistant" {
		between = ""
	}
	var texts []string
	var parts []any
	for _, p := range m.parts {
		if p.picture != "" {
			url := map[string]string{"url": p.picture}
			parts = append(parts, map[string]any{"type": "image_url", "image_url": url})
			continue
		}
		texts = append(texts, p.text)
		parts = append(parts, map[string]string{"type": "text", "text": p.text})
	}
	if len(texts) == len(parts) {
		return json.RawMessage(Out(nil).Str(strings.Join(texts, between)))
	}
	v, _ := encodeJSON(parts) // strings alone
	return v
}

// blocksOf reads a content: a string is one text.
func blocksOf(at string, v json.RawMessage) ([]block, error) {
	var all []json.RawMessage
	switch {
	case len(v) > 0 && v[0] == '"':
		b := []block{{Type: "text"}}
		return b, json.Unmarshal(v, &b[0].Text)
	case json.Unmarshal(v, &all) != nil || isNothing(v):
		return nil, bad("%s: a string or a list of blocks is expected", at)
	}
	blocks := make([]block, len(all))
	for i, one := range all {
		if err := readInto(fmt.Sprintf("%s[%d]", at, i), one, blockMembers, &blocks[i]); err != nil {
			return nil, err
		}
	}
	return blocks, nil
}

var blockMembers = []string{"type", "text", "thinking", "id", "name", "input", "content", "tool_use_id",
	"source"}

// readInto reads an object, in which none of the names may stand twice.
func readInto(at string, data json.RawMessage, names []string, to any) error {
	s := Scan(data)
	again, ok := eachMember(&s, names, func(int, Span, Span) {})
	err := json.Unmarshal(data, to)
	wrong, typed := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !ok:
		return bad("%s: an object is expected", at)
	case again != "":
		return bad("%s: member %s stands twice: send it once", at, again)
	case typed:
		return bad("%s.%s: it is not to be a JSON %s", at, strings.ToLower(wrong.Field), wrong.Value)
	}
	return err
}

func (t *dialogue) message(at string, data json.RawMessage) error {
	var m struct {
		Role    string
		Content json.RawMessage
	}
	if err := readInto(at, data, []string{"role", "content"}, &m); err != nil {
		return err
	}
	if !slices.Contains([]string{"user", "assistant", "system"}, m.Role) {
		return bad("%s.role: %.40q is none of user, assistant and system; results of tools are the user's, in "+
			"blocks of type tool_result", at, m.Role)
	}
	at += ".content"
	blocks, err := blocksOf(at, m.Content)
	switch {
	case err != nil:
		return err
	case len(blocks) == 0 || len(blocks) == 1 && blocks[0].Type == "text" && blocks[0].Text == "":
		return bad("%s: it is empty: give it some text, or leave the message out", at)
	case m.Role == "user":
		return t.user(at, blocks)
	case m.Role == "assistant":
		return t.assistant(at, blocks)
	}
	return t.instruct(at, blocks)
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
func (t *dialogue) instruct(at string, blocks []block) error {
	for i, b := range blocks {
		switch {
		case b.Type != "text":
			return unsupported("%s[%d].type: %.40q; the system says text alone", at, i, b.Type)
		case b.Text == "" || strings.HasPrefix(b.Text, attribution):
		case len(t.said) == 0:
			t.system = append(t.system, b.Text)
		default:
			t.held = append(t.held, b.Text)
		}
	}
	if len(t.called) == 0 {
		t.release()
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

func (t *dialogue) assistant(at string, blocks []block) error {
	t.release()
	m := t.turn("assistant")
	for i, b := range blocks {
		switch b.Type {
		case "text":
			m.parts = append(m.parts, contentPart{text: b.Text})
		case "thinking":
			m.Reasoning = append(m.Reasoning, b.Thinking...)
		case "redacted_thinking": // nobody but its author can read it
		case "tool_use":
			switch {
			case b.ID == "" || b.Name == "" || len(b.Input) == 0 || b.Input[0] != '{':
				return bad("%s[%d]: a tool_use has an id, a name and an input, which is an object", at, i)
			case t.called[b.ID]:
				return bad("%s[%d].id: %.80q was called already", at, i, b.ID)
			}
			t.called[b.ID] = true
			m.ToolCalls = append(m.ToolCalls, chatCall{b.ID, "function",
				chatFunction{b.Name, string(appendCompact(nil, b.Input))}})
		default:
			return unsupported("%s[%d].type: %.40q is not served here; an assistant's text, thinking and "+
				"tool_use are", at, i, b.Type)
		}
	}
	return nil
}

// user takes in results of tools before all else: engines want them behind the calls at once.
func (t *dialogue) user(at string, blocks []block) error {
	var parts []contentPart
	for i, b := range blocks {
		if b.Type != "tool_result" {
			continue
		}
		if !t.called[b.ToolUseID] {
			return bad("%s[%d].tool_use_id: no tool_use of id %.80q before it waits for a result", at, i, b.ToolUseID)
		}
		delete(t.called, b.ToolUseID)
		m := spoken{chatMessage: chatMessage{Role: "tool", ToolCallID: b.ToolUseID}}
		if len(b.Content) > 0 && !isNothing(b.Content) {
			inner := fmt.Sprintf("%s[%d].content", at, i)
			blocks, err := blocksOf(inner, b.Content)
			if err == nil {
				m.parts, err = shown(inner, blocks)
			}
			if err != nil {
				return err
			}
		}
		for _, p := range m.parts { // a template has no place for them in a result
			if p.picture != "" {
				parts = append(parts, p)
			}
		}
		m.parts = slices.DeleteFunc(m.parts, func(p contentPart) bool { return p.picture != "" })
		t.said = append(t.said, m)
	}
	mine, err := shown(at, blocks)
	if parts = append(parts, mine...); err == nil && len(parts) > 0 {
		m := t.turn("user")
		m.parts = append(m.parts, parts...)
	}
	t.release()
	return err
}

// shown are texts and pictures.
func shown(at string, blocks []block) (parts []contentPart, err error) {
	for i, b := range blocks {
		switch b.Type {
		case "text":
			if b.Text != "" {
				parts = append(parts, contentPart{text: b.Text})
			}
		case "image":
			var url string
			switch s := b.Source; {
			case s == nil:
			case s.Type == "url":
				url = s.URL
			case s.Type == "base64" && s.MediaType != "" && s.Data != "":
				url = "data:" + s.MediaType + ";base64," + s.Data
			}
			if url == "" {
				return nil, unsupported("%s[%d].source: a picture comes as base64, with media_type and data, or by "+
					"its url: files are not kept here", at, i)
			}
			parts = append(parts, contentPart{picture: url})
		case "tool_result": // taken in before
		default:
			return nil, unsupported("%s[%d].type: %.40q is not served here; text, image and, of a user, tool_result "+
				"are", at, i, b.Type)
		}
	}
	return parts, nil
}
