package bus

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"souk/market"
)

// problems collects the first thing wrong with a message; later checks are then skipped.
type problems struct{ err error }

func (p *problems) add(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

// id wants an id; optional says that it may be empty.
func (p *problems) id(field, s string) {
	if p.err == nil {
		p.err = CheckID(field, s)
	}
}

func (p *problems) optionalID(field, s string) {
	if s != "" {
		p.id(field, s)
	}
}

// name wants printable text of at most limit bytes; it may be empty.
func (p *problems) name(field, s string, limit int) {
	if p.err != nil {
		return
	}
	if len(s) > limit {
		p.add("%s: %d bytes, at most %d are taken", field, len(s), limit)
		return
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; c >= utf8.RuneSelf || c < ' ' || c == 0x7f {
			p.slowName(field, s)
			return
		}
	}
}

func (p *problems) slowName(field, s string) {
	if !utf8.ValidString(s) {
		p.add("%s: %.80q is not UTF-8", field, s)
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			p.add("%s: %.80q holds a character that does not print", field, s)
		}
	}
}

// text wants at most limit bytes of whatever people or engines write.
func (p *problems) text(field string, n, limit int) {
	if n > limit {
		p.add("%s: %d bytes, at most %d are taken", field, n, limit)
	}
}

func (p *problems) within(field string, n, least, most int64) {
	if n < least || n > most {
		p.add("%s: %d is not within %d and %d", field, n, least, most)
	}
}

// reply wants what ReplyTo makes, or nothing.
func (p *problems) reply(s string) {
	if _, _, ok := ReaderOf(s); s != "" && !ok {
		p.add("reply: %.80q is not a subject %sreply.<reader>.<token>", s, Root)
	}
}

func (p *problems) count(field string, n int)    { p.within(field, int64(n), 0, MaxTokens) }
func (p *problems) micros(field string, n int64) { p.within(field, n, 0, maxMicros) }
func (p *problems) number(field string, n uint64) {
	p.within(field, int64(min(n, 1<<63-1)), 0, maxCount)
}
func (p *problems) epoch(field string, n int64) { p.within(field, n, 0, maxCount) }
func (p *problems) list(field string, n, most int) {
	if n > most {
		p.add("%s: %d entries, at most %d are taken", field, n, most)
	}
}
func (p *problems) credits(f string, c market.Credits) { p.amount(f, c, 0) }

// signed takes amounts below zero as well: tolls.
func (p *problems) signed(f string, c market.Credits) { p.amount(f, c, -market.MaxCredits) }

// tolls are the parts of a toll that are told apart, never above zero.
func (p *problems) tolls(congestion market.Credits, crowd *market.Toll) {
	if crowd == nil {
		crowd = &market.Toll{}
	}
	for _, part := range []struct {
		name string
		toll market.Credits
	}{{"congestion", congestion}, {"crowd.load", crowd.Load}, {"crowd.age", crowd.Age},
		{"crowd.beside", crowd.Beside}} {
		if c := part.toll; c > 0 || c < -market.MaxCredits {
			p.add("%s: %s credits is not within %s and 0", part.name, c, -market.MaxCredits)
		}
	}
}

// tiers are all of an agent's slots, or none.
func (p *problems) tiers(tiers []market.Tier, slots int) {
	if n, err := market.ValidateTiers(tiers); err != nil {
		p.add("tiers: %w", err)
	} else if len(tiers) > 0 && n != slots {
		p.add("tiers: %d slots together, the agent has %d", n, slots)
	}
}

func (p *problems) amount(field string, c, least market.Credits) {
	if c < least || c > market.MaxCredits {
		p.add("%s: %s credits is not within %s and %s", field, c, least, market.MaxCredits)
	}
}

// amounts are credits by class.
func (p *problems) amounts(field string, m map[string]market.Credits) {
	p.list(field, len(m), MaxClasses)
	for _, class := range slices.Sorted(maps.Keys(m)) {
		p.name(field, class, MaxName)
		p.credits(field+"."+class, m[class])
	}
}

func (p *problems) share(field string, x float64) {
	if !(x >= 0 && x <= 1) { // also refuses NaN
		p.add("%s: %v is not within 0 and 1", field, x)
	}
}

func (p *problems) oneOf(field, s string, words ...string) {
	if slices.Contains(words, s) {
		return
	}
	said := slices.Clone(words) // a copy, so that words need not be allocated where all is well
	if some := slices.DeleteFunc(said, func(w string) bool { return w == "" }); len(some) < len(words) {
		p.add("%s: %.40q is none of %s; it may be left out", field, s, strings.Join(some, ", "))
	} else {
		p.add("%s: %.40q is none of %s", field, s, strings.Join(some, ", "))
	}
}

func (p *problems) price(field string, c market.Price) {
	if err := c.Validate(); err != nil {
		p.add("%s: %w", field, err)
	}
}

func (p *problems) usage(u market.Usage) {
	p.count("usage.prompt", u.Prompt)
	p.count("usage.output", u.Output)
	if u.Cached < 0 || u.Cached > u.Prompt {
		p.add("usage.cached: %d is not within 0 and the %d tokens of the prompt", u.Cached, u.Prompt)
	}
}

// earlier wants the holds of a few attempts.
func (p *problems) earlier(holds []string) {
	p.list("earlier", len(holds), maxEarlier)
	for _, id := range holds {
		p.name("earlier", id, MaxName)
	}
}

func (p *problems) labels(labels []string) {
	p.list("labels", len(labels), maxEntries)
	for _, l := range labels {
		p.id("labels", l)
	}
}
