package openai

import (
	"encoding/json"
)

// outputItem is an item of a response.
type outputItem struct {
	kind  string // itemMessage, itemReasoning or itemCall
	id    string
	at    int // in the output
	parts []*part
	name  string // of a function
	call  string // id of a call
	args  []byte
	// of a call: another item began after it, so it was looked whether it is whole
	judged bool
	done   bool
	cut    bool // by the end of the answer
}

// part is a part of what an item says.
type part struct {
	kind string // partText, partRefusal or partReasoning
	text []byte
	logs [][]byte
	told int // of those, how many went out with the text
}

// json writes an item as far as it has been said.
func (x *outputItem) json() json.RawMessage {
	status := "in_progress"
	switch {
	case x.done && x.cut:
		status = "incomplete"
	case x.done:
		status = "completed"
	}
	o := Out(nil).Raw(`{"id":`).Str(x.id).Raw(`,"type":`).Str(x.kind).Raw(`,"status":`).Str(status)
	switch x.kind {
	case itemCall:
		return json.RawMessage(o.Raw(`,"call_id":`).Str(x.call).Raw(`,"name":`).Str(x.name).
			Raw(`,"arguments":`).Str(string(x.args)).Raw("}"))
	case itemMessage:
		o = o.Raw(`,"role":"assistant","content":[`)
	case itemReasoning:
		o = o.Raw(`,"summary":[],"content":[`)
	}
	for i, p := range x.parts {
		if i > 0 {
			o = o.Raw(",")
		}
		o = append(o, p.json()...)
	}
	return json.RawMessage(o.Raw("]}"))
}

func (p *part) json() json.RawMessage {
	o := Out(nil).Raw(`{"type":`).Str(p.kind)
	switch p.kind {
	case partRefusal:
		o = o.Raw(`,"refusal":`).Str(string(p.text))
	case partReasoning:
		o = o.Raw(`,"text":`).Str(string(p.text))
	default:
		o = append(o.Raw(`,"text":`).Str(string(p.text)).Raw(`,"annotations":[],"logprobs":`), p.logprobs()...)
	}
	return json.RawMessage(o.Raw("}"))
}

// logprobs joins the log probabilities of tokens: a chat's are a response's.
func (p *part) logprobs() json.RawMessage { return joinLogs(p.logs) }

func joinLogs(logs [][]byte) json.RawMessage {
	w := Whole{chat: true, logs: logs}
	var joined struct {
		Content json.RawMessage `json:"content"`
	}
	if len(logs) == 0 || json.Unmarshal(w.logprobs(nil), &joined) != nil {
		return json.RawMessage("[]")
	}
	return joined.Content
}
