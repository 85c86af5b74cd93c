package client

import (
	"errors"
	"fmt"
	"slices"

	"souk/bus"
)

// kept is what was received of an answer, in order, in case it has to go on at another agent: token ids
// and text, both bounded.
type kept struct {
	off    bool // failover is not wanted: nothing is kept
	tokens []uint32
	text   []byte
	ends   bool  // the engine said that the answer ends here
	why    error // it cannot go on
}

func (k *kept) add(c bus.Chunk) {
	if k.off || k.why != nil {
		return
	}
	k.ends = k.ends || c.Finish
	switch {
	case slices.ContainsFunc(c.Extra, func(x bus.Extra) bool { return !x.Logprobs() }):
		k.why = errors.New("tool calls or reasoning have begun")
	case len(c.Tokens) == 0 && (c.Count > 0 || c.Text != ""):
		k.why = errors.New("the engine reported no token ids")
	case len(k.tokens)+len(c.Tokens) > bus.MaxResumeTokens:
		k.why = fmt.Errorf("it has more than %d tokens", bus.MaxResumeTokens)
	case len(k.text)+len(c.Text) > bus.MaxResumeText:
		k.why = fmt.Errorf("it has more than %d bytes", bus.MaxResumeText)
	default:
		k.tokens = append(k.tokens, c.Tokens...)
		k.text = append(k.text, c.Text...)
		return
	}
	k.tokens, k.text = nil, nil
}

// resume is the answer so far, or why it cannot go on; next is the number of the next chunk.
func (k *kept) resume(t *bus.Task, agent string, next uint64) (*bus.Resume, error) {
	switch {
	case t.Failover == "off" || k.off:
		return nil, errors.New("failover is off")
	case k.why != nil:
		return nil, k.why
	case k.ends:
		return nil, errors.New("it is whole; only its account is missing")
	case next > 0 && len(k.tokens) == 0:
		return nil, errors.New("the engine reported no token ids")
	case len(k.tokens) > 0:
		if err := bus.CanContinue(t.Body); err != nil {
			return nil, err
		}
	}
	return &bus.Resume{Agent: agent, Seq: next, Tokens: k.tokens, Text: string(k.text)}, nil
}
