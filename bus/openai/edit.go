package openai

import (
	"slices"
)

// withoutSouk copies the body and leaves the member souk out: what a task is worth is no business of
// the engine's.
func (b *body) withoutSouk() []byte {
	if b.cut == (Span{}) {
		return slices.Clone(b.data)
	}
	return b.edited([]edit{{at: b.soukAndComma()}})
}

// soukAndComma is the member souk with the comma that goes with it.
func (b *body) soukAndComma() Span {
	from, to := b.cut.From, b.cut.To
	after := to
	for after < len(b.data) && isSpace(b.data[after]) {
		after++
	}
	before := from
	for before > 0 && isSpace(b.data[before-1]) {
		before--
	}
	switch {
	case b.data[after] == ',':
		to = after + 1
	case b.data[before-1] == ',':
		from = before - 1
	}
	return Span{from, to}
}

// edit replaces a span of the body by new text.
type edit struct {
	at  Span
	new string
}

// edited is the body with edits of different places: itself where there are none, and else a copy.
func (b *body) edited(edits []edit) []byte {
	if len(edits) == 0 {
		return b.data
	}
	slices.SortFunc(edits, func(x, y edit) int { return x.at.From - y.at.From })
	size := len(b.data)
	for _, e := range edits {
		size += len(e.new)
	}
	out, from := make([]byte, 0, size), 0
	for _, e := range edits {
		out = append(append(out, b.data[from:e.at.From]...), e.new...)
		from = e.at.To
	}
	return append(out, b.data[from:]...)
}
