// Package guard is the runtime policy patterns: it looks for patterns in answers while they are streamed, and
// has an answer that holds one cut before it, or counted.
//
// It never rewrites. What may be the beginning of a match is held back until it is known to be none, which is
// at most the longest match of a pattern that cuts; nothing else waits. A pattern has a longest match, since
// repetitions without a bound are refused.
package guard

import (
	"fmt"
	"math/bits"
	"regexp"
	"slices"
	"unicode/utf8"

	"souk/bus"
	"souk/bus/policy"
)

// Pattern is one pattern to look for in answers.
type Pattern struct {
	Name    string   `yaml:"name"`    // in logs, counts, and what a client is told
	Pattern string   `yaml:"pattern"` // RE2, with bounded repetitions
	Action  string   `yaml:"action"`  // Cut or Flag
	Domains []string `yaml:"domains"` // whose answers are looked at; empty: all
}

// What is done about an answer that has a match.
const (
	Cut  = "cut"  // it ends before the match, by finish_reason content_filter, and is paid as far as it went
	Flag = "flag" // it goes on, and is counted
)

// Faults says what is wrong with patterns, each in one line that begins with the position.
func Faults(all []Pattern) (errs []error) {
	if len(all) > MaxPatterns {
		return []error{fmt.Errorf(": %d, at most %d", len(all), MaxPatterns)}
	}
	for i, p := range all {
		wrong := func(err error) {
			if err != nil {
				errs = append(errs, fmt.Errorf("[%d].%w", i, err))
			}
		}
		wrong(bus.CheckID("name", p.Name))
		if slices.ContainsFunc(all[:i], func(o Pattern) bool { return o.Name == p.Name }) {
			wrong(fmt.Errorf("name: another pattern is called %q as well", p.Name))
		}
		if p.Action != Cut && p.Action != Flag {
			wrong(fmt.Errorf("action: %q: write %s or %s", p.Action, Cut, Flag))
		}
		for _, d := range p.Domains {
			wrong(bus.CheckID("domains", d))
		}
		if _, err := parse(p.Pattern); err != nil {
			wrong(fmt.Errorf("pattern: %w", err))
		}
	}
	if len(errs) == 0 {
		if _, err := New(all); err != nil {
			errs = append(errs, fmt.Errorf(": %w", err))
		}
	}
	return errs
}

// Guard looks for patterns. It implements policy.Policy.
type Guard struct {
	policy.Silent
	patterns []Pattern
	after    []*regexp.Regexp   // each as it is after a rune that is no part of it, as its first group
	domains  map[string]*search // that patterns name
	others   *search            // of all other domains
}

// search looks for the patterns of a domain, first those that cut an answer.
type search struct {
	*automaton
	of   []int  // which of all patterns each is
	cuts uint64 // those that cut
	cut  uint32 // instructions of these
	most int    // bytes of their longest match
}

// New makes the searches for patterns that are valid.
func New(all []Pattern) (*Guard, error) {
	g := &Guard{patterns: all, domains: map[string]*search{}}
	for _, p := range all {
		after, err := regexp.Compile(`\A(?s:.)(?s:.*?)(` + p.Pattern + `)`)
		if err != nil {
			return nil, err
		}
		g.after = append(g.after, after)
		for _, d := range p.Domains {
			g.domains[d] = nil
		}
	}
	var err error
	if g.others, err = g.search(""); err != nil {
		return nil, err
	}
	for d := range g.domains {
		if g.domains[d], err = g.search(d); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// search builds the search for a domain's patterns; nil if there are none.
func (g *Guard) search(domain string) (s *search, err error) {
	s = &search{}
	var texts []string
	for _, action := range []string{Cut, Flag} {
		for i, p := range g.patterns {
			if p.Action == action && (len(p.Domains) == 0 || slices.Contains(p.Domains, domain)) {
				s.of, texts = append(s.of, i), append(texts, p.Pattern)
			}
		}
		if len(texts) == 0 {
			continue
		}
		if s.automaton, err = compile(texts); err != nil {
			return nil, err
		}
		if action == Cut {
			s.cuts, s.cut = 1<<len(texts)-1, uint32(len(s.insts))
			for _, p := range texts {
				re, _ := parse(p)
				s.most = max(s.most, longest(re))
			}
		}
	}
	if len(texts) == 0 {
		return nil, nil
	}
	return s, nil
}

// Observe implements policy.Policy: nothing is learned from what becomes of tasks.
func (g *Guard) Observe(policy.Event) {}

// Lane numbers the texts that an answer has, each of which is read by itself.
type Lane int

// The lanes of an answer.
const (
	Text    Lane = iota
	Thought      // reasoning
	Calls        // arguments of the tool calls
	Lanes
)

// Look follows one answer while it is streamed.
type Look struct {
	guard  *Guard
	search *search
	lanes  [Lanes]lane
	caught uint64 // patterns that it has matched
}

// lane holds the state of the search in one text of an answer.
type lane struct {
	threads
	// what was read last and may be the beginning of a match that cuts, after a rune before it: a new line,
	// where there is none
	tail   []byte
	before int // bytes of that rune
}

func newLane() lane { return lane{tail: []byte("\n"), before: 1} }

// Begin looks at an answer of a domain; nil if there is nothing to look for.
func (g *Guard) Begin(domain string) *Look {
	s := g.others
	if own, ok := g.domains[domain]; ok {
		s = own
	}
	if s == nil {
		return nil
	}
	l := &Look{guard: g, search: s}
	for i := range l.lanes {
		l.lanes[i] = newLane()
	}
	return l
}

// Add reads more text of a lane. held is the number of bytes at the lane's end that may begin a match that
// cuts. If a match was found, cut is true and held counts from its beginning.
func (l *Look) Add(of Lane, text string) (held int, cut bool) {
	x := &l.lanes[of]
	for i, r := range text {
		l.search.step(&x.threads, r)
		if cuts := l.note(x.found); cuts != 0 {
			end := i + runeLen(text[i:])
			x.tail = append(x.tail, text[:end]...)
			return l.from(x, cuts) + len(text) - end, true
		}
	}
	x.keep(text, l.search)
	return len(x.tail) - x.before, false
}

// runeLen returns the number of bytes of the first rune of a text.
func runeLen(s string) int {
	_, n := utf8.DecodeRuneInString(s)
	return n
}

// keep remembers the end of what was read, as far as it may begin a match.
func (x *lane) keep(text string, s *search) {
	x.tail = append(x.tail, text...)
	n := 0
	if slices.ContainsFunc(x.at, func(i uint32) bool { return i < s.cut }) { // a match that cuts is under way
		n = s.most
	}
	from := max(x.before, len(x.tail)-n)
	for from < len(x.tail) && !utf8.RuneStart(x.tail[from]) {
		from--
	}
	_, x.before = utf8.DecodeLastRune(x.tail[:from])
	x.tail = append(x.tail[:0], x.tail[from-x.before:]...)
}

// from says how many bytes ago a match begins that ends here.
func (l *Look) from(x *lane, cuts uint64) (bytes int) {
	for ; cuts != 0; cuts &= cuts - 1 {
		i := l.search.of[bits.TrailingZeros64(cuts)]
		if at := l.guard.after[i].FindSubmatchIndex(x.tail); at != nil {
			bytes = max(bytes, len(x.tail)-at[2])
		}
	}
	return bytes
}

// note takes in which patterns were found, and returns those that cut.
func (l *Look) note(found uint64) (cuts uint64) {
	for left := found; left != 0; left &= left - 1 {
		l.caught |= 1 << l.search.of[bits.TrailingZeros64(left)]
	}
	return found & l.search.cuts
}

// End says that this text of the lane has no more: a match may end with it. As of Add. What is added after
// that is another text.
func (l *Look) End(of Lane) (held int, cut bool) {
	x := &l.lanes[of]
	defer func() { *x = newLane() }()
	if cuts := l.note(l.search.ends(&x.threads)); cuts != 0 {
		return l.from(x, cuts), true
	}
	return 0, false
}

// Caught are the names of the patterns that the answer has matched, in the order of the configuration.
func (l *Look) Caught() (names []string) {
	for found := l.caught; found != 0; found &= found - 1 {
		names = append(names, l.guard.patterns[bits.TrailingZeros64(found)].Name)
	}
	return names
}
