package guard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"unicode"
	"unicode/utf8"
)

// automaton reads a text once, rune by rune, and finds where one of its patterns has a match: a table that is
// made whole when the patterns are read, so that a rune costs a look-up and no text is read twice. Matches
// may begin anywhere.
type automaton struct {
	prog  []*syntax.Prog
	first []int // of each pattern, the number of its first instruction among those of all

	low   [utf8.RuneSelf]uint16 // the class of each ASCII character
	cuts  []rune                // where a class of the others begins
	width int                   // classes

	next   []int32 // by state and class
	states []state
	most   int // bytes of the longest match
}

// state is a state of the automaton: the patterns that match here, or may be partly matched.
type state struct {
	found uint64 // patterns of which a match has just ended
	ends  uint64 // beside them, those of which one ends here if the text does
	quiet bool   // no match is under way
}

// Bounds of what patterns may be.
const (
	MaxPatterns = 64
	MaxPattern  = 256  // bytes
	MaxMatch    = 1024 // bytes of the longest match of a pattern: as much of an answer may be held back
	maxTable    = 1 << 19
)

var errTable = errors.New("together the patterns need too large a table: write shorter repetitions, " +
	"or fewer patterns")

// compile makes the automaton of patterns, whose positions are the bits of what it finds.
func compile(patterns []string) (*automaton, error) {
	a := &automaton{}
	for i, p := range patterns {
		re, err := parse(p)
		if err != nil {
			return nil, err
		}
		a.most = max(a.most, longest(re))
		prog, err := syntax.Compile(re.Simplify())
		if err != nil {
			return nil, err
		}
		from := 0
		if i > 0 {
			from = a.first[i-1] + len(a.prog[i-1].Inst)
		}
		a.prog, a.first = append(a.prog, prog), append(a.first, from)
	}
	a.classes()
	return a, a.build()
}

// parse reads a pattern, and refuses what a stream cannot be searched for.
func parse(pattern string) (*syntax.Regexp, error) {
	if len(pattern) > MaxPattern {
		return nil, fmt.Errorf("%d bytes, at most %d", len(pattern), MaxPattern)
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", pattern, err)
	}
	if why := unfit(re); why != "" {
		return nil, fmt.Errorf("%q: %s", pattern, why)
	}
	switch n := longest(re); {
	case n > MaxMatch:
		return nil, fmt.Errorf("%q: its longest match has %d bytes, at most %d: write shorter repetitions",
			pattern, n, MaxMatch)
	case matchesNothing(re):
		return nil, fmt.Errorf("%q: it matches where there is nothing", pattern)
	}
	return re, nil
}

// unfit says what of a pattern a stream cannot be searched for.
func unfit(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpStar, syntax.OpPlus:
		return "a match has no greatest length: write {0,N} for * and {1,N} for +"
	case syntax.OpRepeat:
		if re.Max < 0 {
			return fmt.Sprintf("a match has no greatest length: write {%d,N} for {%d,}", re.Min, re.Min)
		}
	case syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText:
		return `^, $, \A and \z are not known in a stream: leave them out, or write \b`
	}
	for _, sub := range re.Sub {
		if why := unfit(sub); why != "" {
			return why
		}
	}
	return ""
}

// longest returns the most bytes that a match may have; all repetitions are bounded.
func longest(re *syntax.Regexp) (n int) {
	switch re.Op {
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			n += widest(re.Flags, r)
		}
	case syntax.OpCharClass:
		if len(re.Rune) > 0 {
			n = runeBytes(re.Rune[len(re.Rune)-1])
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		n = utf8.UTFMax
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			n = max(n, longest(sub))
		}
	case syntax.OpRepeat:
		n = min(longest(re.Sub[0])*re.Max, MaxMatch+1)
	default:
		for _, sub := range re.Sub {
			n = min(n+longest(sub), MaxMatch+1)
		}
	}
	return n
}

func widest(flags syntax.Flags, r rune) int {
	n := runeBytes(r)
	if flags&syntax.FoldCase != 0 {
		for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
			n = max(n, runeBytes(o))
		}
	}
	return n
}

// runeBytes bounds the bytes of runes up to r. No text has half of a surrogate pair: then the bound is 3.
func runeBytes(r rune) int {
	if n := utf8.RuneLen(r); n > 0 {
		return n
	}
	return 3
}

// matchesNothing reports whether the empty text matches.
func matchesNothing(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpLiteral, syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL, syntax.OpNoMatch:
		return re.Op == syntax.OpLiteral && len(re.Rune) == 0
	case syntax.OpQuest:
		return true
	case syntax.OpRepeat:
		return re.Min == 0 || matchesNothing(re.Sub[0])
	case syntax.OpAlternate:
		return slices.ContainsFunc(re.Sub, matchesNothing)
	}
	return !slices.ContainsFunc(re.Sub, func(sub *syntax.Regexp) bool { return !matchesNothing(sub) })
}

// classes sorts runes into classes of which no pattern tells one from another.
func (a *automaton) classes() {
	cuts := []rune{0, '0', '9' + 1, 'A', 'Z' + 1, '_', '_' + 1, 'a', 'z' + 1, '\n', '\n' + 1, utf8.RuneSelf}
	for _, p := range a.prog {
		for i := range p.Inst {
			in := &p.Inst[i]
			switch {
			case in.Op == syntax.InstRune1 || in.Op == syntax.InstRune && len(in.Rune) == 1:
				r := in.Rune[0]
				cuts = append(cuts, r, r+1)
				for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
					cuts = append(cuts, o, o+1)
				}
			case in.Op == syntax.InstRune:
				for i := 0; i < len(in.Rune); i += 2 {
					cuts = append(cuts, in.Rune[i], in.Rune[i+1]+1)
				}
			}
		}
	}
	slices.Sort(cuts)
	a.cuts = slices.Compact(cuts)
	a.width = len(a.cuts)
	for r := range a.low {
		a.low[r] = uint16(a.search(rune(r)))
	}
}

func (a *automaton) search(r rune) int {
	i, found := slices.BinarySearch(a.cuts, r)
	if !found {
		i--
	}
	return i
}

func (a *automaton) class(r rune) int {
	if r < utf8.RuneSelf {
		return int(a.low[r])
	}
	return a.search(r)
}

// step is the state after a rune.
func (a *automaton) step(s int32, r rune) int32 { return a.next[int(s)*a.width+a.class(r)] }

// threads are the instructions at which matches under way are, before what follows is known.
type threads struct {
	at    []int32
	word  bool   // what came last is part of a word
	found uint64 // matches that end at a boundary, which the rune after it showed
}

func (t *threads) key() string {
	b := binary.LittleEndian.AppendUint64(nil, t.found)
	b = append(b, byte(btoi(t.word)))
	for _, i := range t.at {
		b = binary.LittleEndian.AppendUint32(b, uint32(i))
	}
	return string(b)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// build makes all states that a text can lead to.
func (a *automaton) build() error {
	known := map[string]int32{}
	var all []threads
	add := func(t threads) int32 {
		key := t.key()
		if i, ok := known[key]; ok {
			return i
		}
		i := int32(len(all))
		known[key], all = i, append(all, t)
		_, now := a.reach(&t, 0, false)
		_, end := a.reach(&t, boundary(t.word, false), true)
		a.states = append(a.states, state{found: t.found | now, ends: end, quiet: len(t.at) == 0})
		return i
	}
	add(threads{})
	for i := 0; i < len(all); i++ {
		if (i+1)*a.width > maxTable {
			return errTable
		}
		var open [2][]int32 // before a rune that is no part of a word, and before one that is
		var found [2]uint64
		for word := range open {
			t := all[i]
			open[word], found[word] = a.reach(&t, boundary(t.word, word == 1), true)
		}
		for _, r := range a.cuts {
			word := syntax.IsWordChar(r)
			next := threads{word: word, found: found[btoi(word)] &^ a.states[i].found}
			for _, at := range open[btoi(word)] {
				if in, from := a.inst(at); in.MatchRune(r) {
					next.at = append(next.at, from+int32(in.Out))
				}
			}
			slices.Sort(next.at)
			next.at = slices.Compact(next.at)
			a.next = append(a.next, add(next))
		}
	}
	a.prog, a.first = nil, nil
	return nil
}

// boundary returns the conditions that hold between two runes, each of which may be part of a word.
func boundary(before, after bool) syntax.EmptyOp {
	if before != after {
		return syntax.EmptyWordBoundary
	}
	return syntax.EmptyNoWordBoundary
}

// inst is an instruction by its number among all, and the number of the first of its pattern.
func (a *automaton) inst(at int32) (*syntax.Inst, int32) {
	p := a.pattern(at)
	return &a.prog[p].Inst[int(at)-a.first[p]], int32(a.first[p])
}

func (a *automaton) pattern(at int32) int {
	i, found := slices.BinarySearch(a.first, int(at))
	if !found {
		i--
	}
	return i
}

// reach follows what takes no rune, where that holds between the last rune and the next: open are the
// instructions that want a rune, found the patterns of which a match has ended. Where the next rune is not
// known, what wants to know it is not followed. A match may begin here.
func (a *automaton) reach(t *threads, holds syntax.EmptyOp, known bool) (open []int32, found uint64) {
	seen := map[int32]bool{}
	var follow func(at int32)
	follow = func(at int32) {
		if seen[at] {
			return
		}
		seen[at] = true
		in, from := a.inst(at)
		switch in.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			follow(from + int32(in.Out))
			follow(from + int32(in.Arg))
		case syntax.InstCapture, syntax.InstNop:
			follow(from + int32(in.Out))
		case syntax.InstEmptyWidth:
			if known && syntax.EmptyOp(in.Arg)&^holds == 0 {
				follow(from + int32(in.Out))
			}
		case syntax.InstMatch:
			found |= 1 << a.pattern(at)
		case syntax.InstFail:
		default:
			open = append(open, at)
		}
	}
	for _, at := range t.at {
		follow(at)
	}
	for p, prog := range a.prog {
		follow(int32(a.first[p] + prog.Start))
	}
	return open, found
}
