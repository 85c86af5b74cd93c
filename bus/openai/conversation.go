package openai

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"souk/bus"
)

// chatMessage is a message of a chat.
type chatMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Reasoning  growing         `json:"reasoning,omitempty"`
	ToolCalls  []chatCall      `json:"tool_calls,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
}

// growing is a text to which much may be added.
type growing []byte

func (g growing) MarshalText() ([]byte, error) { return g, nil }

type chatCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// conversation makes messages of items. What an assistant thought, said and called in one turn are several
// items, and one message.
type conversation struct {
	known    func(id string) ([]byte, bool)
	named    int // bytes of the items that were named by their ids
	messages []chatMessage
	open     bool // the last message is the assistant's, and more of its turn may follow
}

func (c *conversation) add(m chatMessage) {
	c.messages = append(c.messages, m)
	c.open = m.Role == "assistant"
}

// assistant is the message of the turn that an item belongs to.
func (c *conversation) assistant() *chatMessage {
	if !c.open {
		c.add(chatMessage{Role: "assistant"})
	}
	return &c.messages[len(c.messages)-1]
}

// input is a text, or items.
func (c *conversation) input(v json.RawMessage) error {
	if len(v) > 0 && v[0] == '"' {
		c.add(chatMessage{Role: "user", Content: v})
		return nil
	}
	if len(v) == 0 || v[0] != '[' {
		return bad("input: a string or a list of items is expected")
	}
	_, err := eachItem(v, func(i int, item json.RawMessage) error {
		return c.item(fmt.Sprintf("input[%d]", i), item, c.known)
	})
	return err
}

// eachItem calls each with every item of a list that has been read, and its number, until one is wrong. It
// returns how many there were: none where v is no list.
func eachItem(v []byte, each func(i int, item json.RawMessage) error) (n int, err error) {
	s := Scan(v)
	s.Array(func() bool {
		item, ok := s.Value()
		if ok {
			err = each(n, s.Text(item))
			n++
		}
		return ok && err == nil
	})
	return n, err
}

// silent reports whether nothing is said in any of the messages, as the door judges a chat.
func (c *conversation) silent() bool {
	return !slices.ContainsFunc(c.messages, func(m chatMessage) bool { return says(m.Content) })
}

// says reports whether there is anything in a content of ours but white space: a text, or parts of type text
// or image_url.
func says(content json.RawMessage) bool {
	if len(content) == 0 || content[0] != '[' {
		return saysText(content)
	}
	var parts []struct {
		Type string
		Text json.RawMessage
	}
	if json.Unmarshal(content, &parts) != nil {
		return true
	}
	for _, p := range parts {
		if p.Type != "text" || saysText(p.Text) {
			return true
		}
	}
	return false
}

func saysText(v json.RawMessage) bool {
	if len(v) == 0 || v[0] != '"' {
		return false
	}
	s := Scan(v)
	at, _ := s.Value()
	return slices.ContainsFunc(s.AppendString(nil, at), func(c byte) bool { return !isSpace(c) })
}

// inputItem is an item of the input, of any type.
type inputItem struct {
	Type, ID, Role  string
	CallID          string `json:"call_id"`
	Name, Arguments string
	Content, Output json.RawMessage
}

var itemMembers = []string{"type", "id", "role", "call_id", "name", "arguments", "content", "output"}

// read takes in an item. again is a member that stands twice in it; ok is false where it has not the shape of
// one.
func (x *inputItem) read(item []byte) (again string, ok bool) {
	s := Scan(item)
	again, ok = eachMember(&s, itemMembers, func(int, Span, Span) {})
	if ok = ok && json.Unmarshal(item, x) == nil; isNothing(x.Content) {
		x.Content = nil
	}
	return again, ok
}

// item takes one in. known is nil for an item that was itself found by its id.
func (c *conversation) item(at string, v json.RawMessage, known func(string) ([]byte, bool)) error {
	var x inputItem
	switch again, ok := x.read(v); {
	case !ok:
		return bad("%s: an item is an object, whose type, id, role, call_id, name and arguments are strings", at)
	case again != "":
		return bad("%s: member %s stands twice: send it once", at, again)
	}
	if x.Type == "" && x.ID != "" && x.Role == "" && len(x.Content) == 0 { // as clients may write it
		x.Type = "item_reference"
	}
	switch x.Type {
	case "", "message":
		return c.message(at, &x)
	case "reasoning":
		var parts []struct{ Type, Text string }
		if len(x.Content) > 0 && !isNothing(x.Content) && json.Unmarshal(x.Content, &parts) != nil {
			return bad("%s.content: a list of texts is expected", at)
		}
		m := c.assistant()
		if len(m.ToolCalls) > 0 || len(m.Content) > 0 { // what it thought comes before what it said
			c.add(chatMessage{Role: "assistant"})
			m = c.assistant()
		}
		for _, p := range parts {
			m.Reasoning = append(m.Reasoning, p.Text...)
		}
		return nil
	case "function_call":
		if x.CallID == "" || x.Name == "" {
			return bad("%s: a function_call has a call_id and a name", at)
		}
		m := c.assistant()
		m.ToolCalls = append(m.ToolCalls, chatCall{x.CallID, "function", chatFunction{x.Name, x.Arguments}})
		return nil
	case "function_call_output":
		if x.CallID == "" {
			return bad("%s.call_id: the output of a function names the call", at)
		}
		content, err := contentOf(at+".output", x.Output, false)
		if err != nil {
			return err
		}
		c.add(chatMessage{Role: "tool", Content: content, ToolCallID: x.CallID})
		return nil
	case "item_reference":
		if known == nil {
			break
		}
		if v, ok := known(x.ID); ok {
			if c.named += len(v); c.named > bus.MaxBody { // one may be named many times
				return refusal(bus.CodeTooLarge, "%s: the items that are named have more than %d bytes", at,
					bus.MaxBody)
			}
			return c.item(at, v, nil)
		}
		return bad("%s.id: no item %.80q is kept for this key: items of answers are, for a while, at the "+
			"gateway that gave them; send store: false, and clients send whole items", at, x.ID)
	}
	return unsupported("%s.type: %.40q is not served here: messages, reasoning, functions' calls and their "+
		"outputs are", at, x.Type)
}

func (c *conversation) message(at string, x *inputItem) error {
	if !slices.Contains([]string{"user", "assistant", "system", "developer"}, x.Role) {
		return bad("%s.role: %.40q is none of user, assistant, system and developer", at, x.Role)
	}
	content, err := contentOf(at+".content", x.Content, x.Role == "assistant")
	if err != nil {
		return err
	}
	if m := c.assistant; x.Role == "assistant" && c.open && len(m().Content) == 0 && len(m().ToolCalls) == 0 {
		m().Content = content
		return nil
	}
	c.add(chatMessage{Role: x.Role, Content: content})
	return nil
}

// contentOf is the content of a message of a chat. A text in one part is a string, and so are several that
// an engine has written, which are joined.
func contentOf(at string, v json.RawMessage, joined bool) (json.RawMessage, error) {
	var parts []struct {
		Type, Text, Refusal, Detail string
		URL                         string `json:"image_url"`
	}
	switch {
	case len(v) > 0 && v[0] == '"':
		return v, nil
	case len(v) == 0 || v[0] != '[' || json.Unmarshal(v, &parts) != nil:
		return nil, bad("%s: a string or a list of parts is expected", at)
	}
	var text strings.Builder
	var out []any
	pictures := false
	for i, p := range parts {
		switch p.Type {
		case "input_text", "output_text", "text", "refusal":
			t := p.Text + p.Refusal
			text.WriteString(t)
			out = append(out, map[string]string{"type": "text", "text": t})
		case "input_image":
			if p.URL == "" {
				return nil, unsupported("%s[%d]: a picture comes by image_url: files are not kept here", at, i)
			}
			pictures = true
			url := map[string]string{"url": p.URL}
			if p.Detail != "" && p.Detail != "auto" {
				url["detail"] = p.Detail
			}
			out = append(out, map[string]any{"type": "image_url", "image_url": url})
		default:
			return nil, unsupported("%s[%d].type: %.40q is none of input_text, output_text and input_image",
				at, i, p.Type)
		}
	}
	if !pictures && (len(parts) < 2 || joined) {
		return encodeJSON(text.String())
	}
	return encodeJSON(out)
}
