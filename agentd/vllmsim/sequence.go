package vllmsim

import (
	"bytes"
	"slices"
	"time"
	"unicode/utf8"

	"souk/agentd/vllmsim/kv"
	"souk/agentd/vllmsim/sched"
	"souk/bus/follow"
)

// sequence is one answer in the making. A pooling request of several texts is several sequences.
type sequence struct {
	tokens []uint32 // prompt and output
	prompt int      // how many of them are the prompt
	hashes []uint64 // of the full blocks, as far as computed
	root   uint64   // parent of the first block
	salt   string   // of the cache
	// the name of the one that it needs; "": none
	adapter string
	script  script
	limits  limits

	run   sched.Request
	block int // tokens of a block of the cache
	ended bool

	text   []byte  // of the output; a cut character may be at its end
	shown  int     // how much of text may be seen: less than all while a stop string may be about to end
	events []event // one a token

	reason   string // stop, length, abort, once ended
	stopText string // the stop string that ended it
	stopID   int64  // the stop token that ended it; -1 if none

	arrived, scheduled, first, last time.Time

	ready chan struct{} // the server's: something new since last looked
	crash bool          // the engine went away under it
}

// event is the state after a token: how many tokens and how many bytes of text have been given.
type event struct{ tokens, text int32 }

// limits are the conditions that end a sequence.
type limits struct {
	max, min    int // output tokens
	ignoreEOS   bool
	stop        []string
	stopIDs     []uint32
	includeStop bool // the stop string is part of the text
	total       int  // prompt and output tokens: max_model_len
	cut         bool // a fault aborts it at max
}

// signal says that there is something new.
func (s *sequence) signal() { follow.Nudge(s.ready) }

func (s *sequence) output() int { return len(s.tokens) - s.prompt }

// Sched returns the sequence's state in the scheduler.
func (s *sequence) Sched() *sched.Request { return &s.run }

// Prefix are the hashes of the first n full blocks.
func (s *sequence) Prefix(n int) []uint64 {
	parent := s.root
	if len(s.hashes) > 0 {
		parent = s.hashes[len(s.hashes)-1]
	}
	for i := len(s.hashes); i < n; i++ {
		parent = kv.Chain(parent, s.tokens[i*s.block:(i+1)*s.block])
		s.hashes = append(s.hashes, parent)
	}
	return s.hashes[:n]
}

// append gives the sequence its next token, and ends it if that was the last.
func (s *sequence) append(now time.Time, st *stats) {
	l := &s.limits
	id := s.script.next(!l.ignoreEOS && s.output() >= l.min)
	s.tokens = append(s.tokens, id)
	s.run.Tokens++
	n := s.output()
	s.observe(now, n, st)
	switch {
	case id == tokenStop && !l.ignoreEOS:
		s.finish("stop")
	case slices.Contains(l.stopIDs, id) && n >= l.min:
		s.finish("stop")
		s.stopID = int64(id)
	default:
		s.say(Tokens().Text(id))
		if !s.ended && (n >= l.max || len(s.tokens) >= l.total) {
			if l.cut {
				s.finish("abort")
			} else {
				s.finish("length")
			}
		}
	}
	s.events = append(s.events, event{int32(n), int32(s.shown)})
}

func (s *sequence) observe(now time.Time, n int, st *stats) {
	st.generated.Inc()
	if n == 1 {
		s.first = now
		st.ttft.Observe(now.Sub(s.arrived).Seconds())
	} else {
		st.itl.Observe(now.Sub(s.last).Seconds())
	}
	s.last = now
}

// say adds a token's text, looks for stop strings, and holds back what may be the beginning of one, and half
// characters.
func (s *sequence) say(t string) {
	before := len(s.text)
	s.text = append(s.text, t...)
	longest := 0
	for _, stop := range s.limits.stop {
		longest = max(longest, len(stop))
	}
	if longest > 0 && s.output() >= s.limits.min {
		from := max(0, before-longest+1)
		if at, stop := firstOf(s.text[from:], s.limits.stop); at >= 0 {
			end := from + at
			if s.limits.includeStop {
				end += len(stop)
			}
			s.text = s.text[:end]
			s.stopText = stop
			s.finish("stop")
			return
		}
	}
	s.shown = max(s.shown, whole(s.text, len(s.text)-max(0, longest-1)))
}

// firstOf finds the first of the strings that occurs in b; at one place the one named first wins.
func firstOf(b []byte, strings []string) (int, string) {
	at, which := -1, ""
	for _, s := range strings {
		if i := bytes.Index(b, []byte(s)); i >= 0 && (at < 0 || i < at) {
			at, which = i, s
		}
	}
	return at, which
}

func (s *sequence) finish(reason string) {
	s.ended, s.reason, s.stopID = true, reason, -1
	s.shown = max(s.shown, whole(s.text, len(s.text)))
}

// whole is the largest n' <= n at which no character of b is cut.
func whole(b []byte, n int) int {
	if n <= 0 {
		return 0
	}
	if n < len(b) {
		for n > 0 && !utf8.RuneStart(b[n]) {
			n--
		}
		return n
	}
	for i := 1; i < utf8.UTFMax && i <= n; i++ {
		if utf8.RuneStart(b[n-i]) {
			if !utf8.FullRune(b[n-i : n]) {
				return n - i
			}
			break
		}
	}
	return n
}
