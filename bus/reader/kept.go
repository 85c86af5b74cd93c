package reader

import (
	"errors"
	"fmt"

	"souk/bus"
	"souk/bus/openai"
)

// kept holds the received part of an answer, in order, in case another agent has to continue it: token ids,
// text, reasoning and tool calls, all bounded.
type kept struct {
	off     bool // failover is not wanted: nothing is kept
	anew    bool // whoever takes over begins anew: nobody sees any of the answer before it is whole
	tokens  []uint32
	text    []byte
	thought []byte   // reasoning
	calls   []string // ids of tool calls
	ends    bool     // the engine said that the answer ends here
	why     error    // it cannot be continued
}

func (k *kept) add(c *bus.Chunk) {
	if k.off || k.why != nil {
		return
	}
	if k.ends = k.ends || c.Finish; k.anew {
		return
	}
	var thought []byte
	begun, beyond := k.calls, false
	for _, x := range c.Extra {
		text, calls, ok := openai.Parsed(x)
		thought = append(thought, text...)
		beyond = beyond || !ok
		for range calls {
			id, next := calls[len(begun)] // in order, as engines begin them
			begun, beyond = append(begun, id), beyond || !next
		}
	}
	switch {
	case beyond || len(begun) > bus.MaxCalls:
		k.why = errors.New("what the engine said of it is more than text, reasoning and tool calls")
	case len(c.Tokens) == 0 && (c.Count > 0 || c.Text != ""):
		k.why = errors.New("the engine reported no token ids")
	case len(k.tokens)+len(c.Tokens) > bus.MaxResumeTokens:
		k.why = fmt.Errorf("it has more than %d tokens", bus.MaxResumeTokens)
	case len(k.text)+len(c.Text)+len(k.thought)+len(thought) > bus.MaxResumeText:
		k.why = fmt.Errorf("it has more than %d bytes", bus.MaxResumeText)
	default:
		k.tokens = append(k.tokens, c.Tokens...)
		k.text = append(k.text, c.Text...)
		k.thought, k.calls = append(k.thought, thought...), begun
		return
	}
	k.tokens, k.text, k.thought, k.calls = nil, nil, nil, nil
}

// resume is the answer so far, or why it cannot be continued; next is the number of the next chunk.
func (k *kept) resume(t *bus.Task, agent string, next uint64) (*bus.Resume, error) {
	switch {
	case t.Failover == "off" || k.off:
		return nil, errors.New("failover is off")
	case k.why != nil:
		return nil, k.why
	case k.ends:
		return nil, errors.New("it is whole; only its account is missing")
	// the engine's parser made nothing of its tokens yet: the answer begins anew
	case len(k.text)+len(k.thought)+len(k.calls) == 0:
		return &bus.Resume{Agent: agent, Seq: next}, nil
	}
	r := &bus.Resume{
		Agent: agent, Seq: next, Tokens: k.tokens, Text: string(k.text), Reasoning: string(k.thought),
		Calls: k.calls,
	}
	if t.Large != nil { // the door has its body and judges
		return r, nil
	}
	_, err := openai.CanContinue(r, t.Body)
	if err != nil {
		return nil, err
	}
	return r, nil
}
