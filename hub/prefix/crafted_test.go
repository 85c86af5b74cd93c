package prefix

import (
	"testing"

	"souk/bus"
)

// inverse returns the inverse of an odd number modulo 2^64.
func inverse(odd uint64) uint64 {
	x := odd
	for range 6 {
		x *= 2 - odd*x
	}
	return x
}

// Who makes its own hashes does not choose where they stand: of ten thousand that are made for the number
// which usually spreads them, none stands far behind its place, neither in what an agent holds nor in the
// index of who does.
func TestCraftedMarksStandAtTheirPlaces(t *testing.T) {
	back := inverse(0x9e3779b97f4a7c15)
	for name, craft := range map[string]func(uint64) uint64{
		"for the middle bits": func(i uint64) uint64 { return (i<<46 | i) * back },
		"for the first bits":  func(i uint64) uint64 { return i * back },
		"in a row":            func(i uint64) uint64 { return i + 1 },
		"in steps":            func(i uint64) uint64 { return (i + 1) << 40 },
	} {
		x := NewIndex(DefaultLimits())
		x.Spread(20261122)
		b := x.New(16, 0)
		for k := range uint64(100) {
			p := &bus.Prompt{Bytes: 100 * 1000, Tokens: 25_000}
			for i := range uint64(100) {
				p.Prefixes = append(p.Prefixes, bus.PrefixHash{Bytes: int(i+1) * 1000,
					Hash: craft(100*k + i)})
			}
			b.Served(b.Sent(p, 25_000, 10, 0), k, p, 25_000, 10, 0)
		}
		far := func(at, from, of int) int { return (at - from + of) % of }
		most, found := 0, 0
		for at, place := range b.byHash.places {
			if place != 0 {
				found++
				most = max(most, far(at, b.byHash.begins(b.nodes[place-1].hash), len(b.byHash.places)))
			}
		}
		held := &x.own.holders
		for at := range held.all {
			if e := &held.all[at]; e.n > 0 {
				found++
				most = max(most, far(at, held.begins(e.key), len(held.all)))
			}
		}
		if most > 200 || found < 18_000 {
			t.Errorf("hashes %s: of %d one stands %d places behind its own", name, found, most)
		}
	}
}
