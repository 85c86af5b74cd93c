package classifier

import (
	"time"

	"souk/bus"
	"souk/market"
)

// The treasury grants a hub no more of a client's money than doors vouch for, so with each task the door says
// how much all that it placed of the client there may cost so far: see [bus.Voucher].

// maxVouched bounds the clients at hubs that a line counts for.
const maxVouched = 1 << 16

// pair is a client at the hub of a journal.
type pair struct{ client, journal string }

// vouching counts what the door has vouched for, since its line began. A client that uses up its count at a
// hub goes on in a line of its own.
type vouching struct {
	line   uint64         // the last
	totals map[pair]count // nil: the line is to be begun
}

// count sums what the door has vouched for of a client at a hub, in a line.
type count struct {
	line  uint64
	total market.Credits
}

// Line is the last line in which the door vouches, or one of its lives before did.
func (d *Desk) Line() uint64 { return d.vouching.line }

// Vouch vouches for a task of a client, at the hub of a journal, that may cost so much.
func (d *Desk) Vouch(now time.Time, client, journal string, most market.Credits) Vouched {
	return d.vouching.add(now, client, journal, most)
}

// BeginLine has the door vouch in a new line from now on.
func (d *Desk) BeginLine() { d.vouching.totals = nil }

// LinesFrom says which was the last line of the door's lives before.
func (d *Desk) LinesFrom(line uint64) { d.vouching.line = max(d.vouching.line, line) }

// Vouched limits a client's spending at a hub: bus.NewVoucher makes a voucher of it.
type Vouched struct {
	Journal     string
	Line        uint64
	Total, Most market.Credits
}

// add vouches for one more task, which may cost so much.
func (v *vouching) add(now time.Time, client, journal string, most market.Credits) Vouched {
	p := pair{client, journal}
	n, known := v.totals[p]
	switch {
	case v.totals == nil, !known && len(v.totals) >= maxVouched:
		v.totals = map[pair]count{}
		fallthrough
	case n.total > market.MaxCredits-most:
		v.line = max(v.line+1, uint64(max(0, now.UnixMilli()))) // no life of the door has had it
		n = count{line: v.line}
	case !known:
		n.line = v.line
	}
	n.total += most
	v.totals[p] = n
	return Vouched{journal, n.line, n.total, most}
}

// of returns the last voucher's sums, for a task that may cost so much.
func (v *vouching) of(now time.Time, client, journal string, most market.Credits) Vouched {
	n, known := v.totals[pair{client, journal}]
	if !known {
		return v.add(now, client, journal, most)
	}
	return Vouched{journal, n.line, n.total, most}
}

// Most bounds what a task may cost: by the price its client names, else by its tokens at Config.Worth. A hub
// of which no client names a price charges no more.
func (c *Config) Most(t *bus.Task) market.Credits {
	if p := t.Terms.MaxPrice; p != nil && *p > 0 {
		return *p
	}
	if w := t.Terms.Worth; w != nil && *w > 0 {
		return *w
	}
	output := t.MaxTokens
	if output <= 0 {
		output = c.AnswerTokens
	}
	tokens := market.Usage{Prompt: t.Prompt.Tokens, Output: min(output, longestAnswer)}
	tokens.Prompt = max(tokens.Prompt, leastTokens-tokens.Output)
	return max(1, min(market.Price{Miss: c.Worth, Out: c.Worth}.Cost(tokens), market.MaxWorth))
}

// longestAnswer is the most tokens of an answer that count: more no model writes.
const longestAnswer = 128 << 10

// leastTokens is the least number of tokens that a task counts as, as at a hub.
const leastTokens = 512
