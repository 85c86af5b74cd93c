package vllm

import (
	"errors"
	"strings"
)

// seam joins the text of an answer that broke off to the text that follows elsewhere, and looks for stop
// strings across the join. Like vLLM it holds back as much text as might begin a stop string.
type seam struct {
	stops []string
	keep  int    // bytes held back: one less than the longest stop string
	sent  string // the last bytes that were delivered, as far back as a stop string may begin
	held  string // not delivered yet
	skip  string // delivered already, though the other engine says it again
}

// newSeam begins with the text that was delivered and with the text of the tokens that were taken over.
// Without stop strings all of it was delivered, even where the two texts differ, as in special tokens that
// only one of them shows.
func newSeam(delivered, said string, stops []string) (*seam, error) {
	s := &seam{stops: stops}
	for _, stop := range stops {
		s.keep = max(s.keep, len(stop)-1)
	}
	rest, ok := strings.CutPrefix(said, delivered)
	if !ok { // some tokenizers begin with a space that only one of the two shows
		rest, ok = strings.CutPrefix(strings.TrimPrefix(said, " "), strings.TrimPrefix(delivered, " "))
	}
	more, longer := strings.CutPrefix(delivered, said)
	switch {
	case ok:
		s.held = rest
	case longer:
		s.skip = more
	case len(stops) > 0:
		return nil, errors.New("what was delivered is not what its tokens say")
	}
	s.sent = tail(delivered, s.keep)
	return s, nil
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// take adds what the engine said, and returns what may be delivered now. If the answer ends at a stop string,
// it returns that, too, and nothing more may be delivered.
func (s *seam) take(text string) (out, stop string) {
	if s.skip != "" && text != "" {
		n := 0
		for n < len(text) && n < len(s.skip) && text[n] == s.skip[n] {
			n++
		}
		text, s.skip = text[n:], s.skip[n:]
		if text != "" {
			s.skip = ""
		}
	}
	s.held += text
	if len(s.stops) == 0 {
		return s.rest(), ""
	}
	all := s.sent + s.held
	at := -1
	for _, want := range s.stops {
		// The earliest end counts, as it would have token by token.
		if i := strings.Index(all, want); i >= 0 && i+len(want) > len(s.sent) &&
			(at < 0 || i+len(want) < at+len(stop)) {
			at, stop = i, want
		}
	}
	if at >= 0 {
		out = all[min(len(s.sent), at):at]
		if at >= len(s.sent) {
			out = all[len(s.sent):at]
		}
		s.held = ""
		return out, stop
	}
	n := max(0, len(s.held)-s.keep)
	for n > 0 && n < len(s.held) && s.held[n]&0xC0 == 0x80 { // not inside a character
		n--
	}
	out, s.held = s.held[:n], s.held[n:]
	s.sent = tail(s.sent+out, s.keep)
	return out, ""
}

// rest returns the text held back when the answer has ended without a stop string.
func (s *seam) rest() string {
	out := s.held
	s.sent, s.held = tail(s.sent+out, s.keep), ""
	return out
}
