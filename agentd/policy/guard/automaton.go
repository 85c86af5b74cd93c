package guard

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"unicode"
	"unicode/utf8"
)

// automaton reads a text once, rune by rune, and finds where one of its patterns has a match: by the
// instructions of all of them, at which matches are under way side by side. Matches may begin anywhere.
type automaton struct {
	insts []syntax.Inst // of all patterns; the Arg of an InstMatch is its pattern
	// which of them want the first rune of a match: where no word begins or ends, and where one does
	begins [2][]uint32
}

// threads are the matches under way in a text.
type threads struct {
	at    []uint32 // instructions behind the last rune
	word  bool     // that is part of a word
	found uint64   // patterns of which a match has just ended, or is now known to have ended before that rune

	open, stack, seen []uint32 // scratch
	round             uint32   // that seen is of
}

// Bounds of what patterns may be.
const (
	MaxPatterns = 64
	MaxPattern  = 256     // bytes
	MaxMatch    = 1024    // bytes of the longest match of a pattern: as much of an answer may be held back
	maxInsts    = 1 << 13 // as many may be under way at each rune
)

var errLong = errors.New("together the patterns are too long: write shorter repetitions, or fewer patterns")

// compile makes the automaton of patterns, whose positions are the bits of what it finds.
func compile(patterns []string) (*automaton, error) {
	a := &automaton{}
	var starts []uint32
	for i, p := range patterns {
		re, err := parse(p)
		if err != nil {
			return nil, err
		}
		prog, err := syntax.Compile(re.Simplify())
		if err != nil {
			return nil, err
		}
		from := uint32(len(a.insts))
		starts = append(starts, from+uint32(prog.Start))
		for _, in := range prog.Inst {
			switch in.Out += from; in.Op {
			case syntax.InstAlt, syntax.InstAltMatch:
				in.Arg += from
			case syntax.InstMatch:
				in.Arg = uint32(i)
			}
			a.insts = append(a.insts, in)
		}
	}
	if len(a.insts) > maxInsts {
		return nil, errLong
	}
	for edge := range a.begins {
		t := threads{at: starts}
		a.begins[edge], _ = a.reach(&t, true, edge == 1)
	}
	return a, nil
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

// step reads a rune.
func (a *automaton) step(t *threads, r rune) {
	word, edge := syntax.IsWordChar(r), 0
	if word != t.word {
		edge = 1
	}
	open, late := a.reach(t, true, edge == 1)
	late &^= t.found
	t.at, t.word = t.at[:0], word
	for _, list := range [...][]uint32{open, a.begins[edge]} {
		for _, i := range list {
			if in := &a.insts[i]; in.MatchRune(r) {
				t.at = append(t.at, in.Out)
			}
		}
	}
	_, now := a.reach(t, false, false)
	t.found = late | now
}

// ends returns the patterns of which a match ends if the text does.
func (a *automaton) ends(t *threads) uint64 {
	_, found := a.reach(t, true, t.word)
	return found &^ t.found
}

// reach follows what takes no rune, from the matches under way: open are the instructions that want a rune,
// found the patterns of which a match has ended. edge says whether a word begins or ends here. Where that is
// not known, what wants to know it is not followed.
func (a *automaton) reach(t *threads, known, edge bool) (open []uint32, found uint64) {
	if len(t.at) == 0 {
		return nil, 0
	}
	if t.seen == nil {
		t.seen = make([]uint32, len(a.insts))
	}
	if t.round++; t.round == 0 {
		clear(t.seen)
		t.round = 1
	}
	holds := syntax.EmptyNoWordBoundary
	if edge {
		holds = syntax.EmptyWordBoundary
	}
	t.open, t.stack = t.open[:0], append(t.stack[:0], t.at...)
	for len(t.stack) > 0 {
		i := t.stack[len(t.stack)-1]
		t.stack = t.stack[:len(t.stack)-1]
		if t.seen[i] == t.round {
			continue
		}
		t.seen[i] = t.round
		switch in := &a.insts[i]; in.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			t.stack = append(t.stack, in.Arg, in.Out)
		case syntax.InstCapture, syntax.InstNop:
			t.stack = append(t.stack, in.Out)
		case syntax.InstEmptyWidth:
			if known && syntax.EmptyOp(in.Arg)&^holds == 0 {
				t.stack = append(t.stack, in.Out)
			}
		case syntax.InstMatch:
			found |= 1 << in.Arg
		case syntax.InstFail:
		default:
			t.open = append(t.open, i)
		}
	}
	return t.open, found
}
