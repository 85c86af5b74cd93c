package vllmsim

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"
)

// ChatTokens is the prompt that an engine computes for a chat.
func ChatTokens(messages []Message) []uint32 { return chatTokens(nil, &call{messages: messages}) }

// chatTokens applies the chat template and tokenises the result. Each message's text is tokenised by itself,
// so that an answer in the next turn has the tokens it was generated with, whatever it begins with.
//
//	<|begin|><|im_start|>ROLE\nTEXT<|im_end|>\n ... <|im_start|>assistant\n
func chatTokens(out []uint32, c *call) []uint32 {
	v := Tokens()
	switch {
	case c.template.Begin != nil:
		out = v.Encode(out, *c.template.Begin)
	case yes(c.special):
		out = append(out, tokenBegin)
	}
	if c.tools != "" {
		out = append(out, tokenStart)
		out = v.Encode(out, "tools\n")
		out = v.Encode(out, c.tools)
		out = append(out, tokenStop)
		out = v.Encode(out, "\n")
	}
	for i, m := range c.messages {
		out = append(out, tokenStart)
		out = v.Encode(out, m.Role+"\n")
		out = v.Encode(out, m.Content)
		if c.continueFinal && i == len(c.messages)-1 {
			return out
		}
		out = append(out, tokenStop)
		out = v.Encode(out, "\n")
	}
	if yes(c.generation) {
		out = append(out, tokenStart)
		out = v.Encode(out, "assistant\n")
	}
	return out
}

// yes reads a flag that is on unless it is turned off.
func yes(flag *bool) bool { return flag == nil || *flag }

// begun splits a prompt in which the assistant's message is open: what comes before that message's text, and
// the part of the text that is there already. So an answer that broke off elsewhere goes on where it stopped,
// as a model's would, when its tokens are sent as the end of a prompt. For other prompts the second part is
// empty.
func begun(ids []uint32) (head, said []uint32) {
	open := assistantOpens()
	for i := len(ids) - 1; i >= 0 && ids[i] != tokenStop; i-- {
		if ids[i] == tokenStart {
			if rest := ids[i:]; len(rest) >= len(open) && slices.Equal(rest[:len(open)], open) {
				return ids[:i+len(open)], rest[len(open):]
			}
			break
		}
	}
	return ids, nil
}

var assistantOpens = sync.OnceValue(func() []uint32 {
	return Tokens().Encode(nil, specials[tokenStart]+"assistant\n")
})

// dialogue reads the messages of a prompt that the chat template made.
func dialogue(head []uint32) (out []Message) {
	for i := 0; i < len(head); i++ {
		if head[i] != tokenStart {
			continue
		}
		end := i + 1
		for end < len(head) && head[end] != tokenStop {
			end++
		}
		if end == len(head) {
			break // the open one
		}
		role, content, _ := strings.Cut(Tokens().Decode(head[i+1:end]), "\n")
		if role != "tools" {
			out = append(out, Message{role, content})
		}
		i = end
	}
	return out
}

// hashOf is a prompt's part in the seed of its answer.
func hashOf(ids []uint32) uint64 {
	var d xxhash.Digest
	d.Reset()
	var room [1024]byte
	for len(ids) > 0 {
		b := room[:0]
		n := min(len(ids), len(room)/4)
		for _, id := range ids[:n] {
			b = binary.LittleEndian.AppendUint32(b, id)
		}
		_, _ = d.Write(b)
		ids = ids[n:]
	}
	return d.Sum64()
}

// Answers holds the stand-in's answers to known dialogues, by the dialogue's hash. It must not change while a
// server uses it.
type Answers map[uint64]string

// Add makes answer the reply to a dialogue that ends with a user's message.
func (a Answers) Add(dialogue []Message, answer string) { a[Key(dialogue)] = answer }

// Key is the hash of what was said to the model: the messages but the assistant's own, which may have been
// cut. A completion's prompt counts as one message of role "user".
func Key(dialogue []Message) uint64 {
	var d xxhash.Digest
	d.Reset()
	for _, m := range dialogue {
		if m.Role == "assistant" {
			continue
		}
		_, _ = d.WriteString(m.Role)
		_, _ = d.WriteString("\x00")
		_, _ = d.WriteString(m.Content)
		_, _ = d.WriteString("\x00")
	}
	return d.Sum64()
}
