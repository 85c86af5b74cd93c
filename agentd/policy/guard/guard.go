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
	after    []*regexp.Regexp // each as it is after a rune that is no part of it, as its first group
	domains  map[string]*pair // that patterns name
	others   *pair            // of all other domains
}

// pair holds a domain's searches: for patterns that cut an answer, and for those that flag it.
type pair struct{ cut, flag *search }

// search is an automaton, and which of all patterns each of its own is.
type search struct {
	*automaton
	of []int
}

// New makes the tables of patterns that are valid.
func New(all []Pattern) (*Guard, error) {
	g := &Guard{patterns: all, domains: map[string]*pair{}}
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
	if g.others, err = g.pair(""); err != nil {
		return nil, err
	}
	for d := range g.domains {
		if g.domains[d], err = g.pair(d); err != nil {
			return nil, err
		}
	}
	return g, nil
}

func (g *Guard) pair(domain string) (_ *pair, err error) {
	p := &pair{}
	if p.cut, err = g.search(domain, Cut); err == nil {
		p.flag, err = g.search(domain, Flag)
	}
	return p, err
}

// search builds the search for a domain's patterns with an action; nil if there are none.
func (g *Guard) search(domain, action string) (*search, error) {
	s := &search{}
	var texts []string
	for i, p := range g.patterns {
		if p.Action == action && (len(p.Domains) == 0 || slices.Contains(p.Domains, domain)) {
			s.of, texts = append(s.of, i), append(texts, p.Pattern)
		}
	}
	if len(texts) == 0 {
		return nil, nil
	}
	var err error
	s.automaton, err = compile(texts)
	return s, err
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
	pair   *pair
	lanes  [Lanes]lane
	caught uint64 // patterns that it has matched
}

// lane holds the state of the search in one text of an answer.
type lane struct {
	cut, flag int32
	// what was read last and may be the beginning of a match that cuts, after a rune before it: a new line,
	// where there is none
	tail   []byte
	before int // bytes of that rune
}

func newLane() lane { return lane{tail: []byte("\n"), before: 1} }

// Begin looks at an answer of a domain; nil if there is nothing to look for.
func (g *Guard) Begin(domain string) *Look {
	p := g.others
	if own, ok := g.domains[domain]; ok {
		p = own
	}
	if p.cut == nil && p.flag == nil {
		return nil
	}
	l := &Look{guard: g, pair: p}
	for i := range l.lanes {
		l.lanes[i] = newLane()
	}
	return l
}

// Add reads more text of a lane. held is the number of bytes at the lane's end that may begin a match that
// cuts. If a match was found, cut is true and held counts from its beginning.
func (l *Look) Add(of Lane, text string) (held int, cut bool) {
	x := &l.lanes[of]
	l.flag(x, text)
	s := l.pair.cut
	if s == nil {
		return 0, false
	}
	for i, r := range text {
		x.cut = s.step(x.cut, r)
		st := &s.states[x.cut]
		if st.found != 0 {
			x.tail = append(x.tail, text[:i+runeLen(text[i:])]...)
			return l.from(x, st.found) + len(text) - i - runeLen(text[i:]), true
		}
	}
	x.keep(text, s)
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
	n := s.most
	if s.states[x.cut].quiet {
		n = 0
	}
	from := max(x.before, len(x.tail)-n)
	for from < len(x.tail) && !utf8.RuneStart(x.tail[from]) {
		from--
	}
	_, x.before = utf8.DecodeLastRune(x.tail[:from])
	x.tail = append(x.tail[:0], x.tail[from-x.before:]...)
}

// from says how many bytes ago a match begins that ends here, and notes whose it is.
func (l *Look) from(x *lane, found uint64) (bytes int) {
	s := l.pair.cut
	for ; found != 0; found &= found - 1 {
		i := s.of[bits.TrailingZeros64(found)]
		l.caught |= 1 << i
		if at := l.guard.after[i].FindSubmatchIndex(x.tail); at != nil {
			bytes = max(bytes, len(x.tail)-at[2])
		}
	}
	return bytes
}

func (l *Look) flag(x *lane, text string) {
	s := l.pair.flag
	if s == nil {
		return
	}
	for _, r := range text {
		x.flag = s.step(x.flag, r)
		if found := s.states[x.flag].found; found != 0 {
			l.note(s, found)
		}
	}
}

func (l *Look) note(s *search, found uint64) {
	for ; found != 0; found &= found - 1 {
		l.caught |= 1 << s.of[bits.TrailingZeros64(found)]
	}
}

// End says that this text of the lane has no more: a match may end with it. As of Add. What is added after
// that is another text.
func (l *Look) End(of Lane) (held int, cut bool) {
	x := &l.lanes[of]
	defer func() { *x = newLane() }()
	if s := l.pair.flag; s != nil {
		l.note(s, s.states[x.flag].ends)
	}
	if s := l.pair.cut; s != nil {
		if ends := s.states[x.cut].ends; ends != 0 {
			return l.from(x, ends), true
		}
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
