package prefix

import (
	"math/rand/v2"
	"testing"

	"souk/bus"
)

// What an agent says leaves what is believed of the others as it is, also where it names a text's end and
// not its beginning. Whom a prompt finds, and how deep, is the same however the index is asked.
func TestWhatIsReportedMovesNoOther(t *testing.T) {
	const agents, prefixes = 9, 24
	r := rand.New(rand.NewPCG(7, 7))
	for round := range 300 {
		x := NewIndex(DefaultLimits())
		x.Advance(1)
		p := bus.Prompt{Bytes: prefixes * 512, Tokens: prefixes * 128}
		for i := range prefixes {
			p.Prefixes = append(p.Prefixes, bus.PrefixHash{Bytes: 512 * (i + 1), Hash: r.Uint64()})
		}
		var all [agents]*Cache
		var want [agents]int32
		for i := range all {
			all[i] = x.New(16, 0)
		}
		for i, b := range all {
			says := bus.Holdings{Seq: 1, Base: 1, Parts: 1, Coverage: 1, Evidence: bus.EvidenceEvents}
			var said [prefixes + 1]bool
			for k, m := range p.Prefixes {
				honest := i%2 == 0 && k <= 3*i
				if honest || i%2 == 1 && r.IntN(8) == 0 {
					says.Add = bus.AppendShortHash(says.Add, bus.ShortHash(m.Hash))
					said[k+1] = true
				}
			}
			for k := range said { // the last of each eight, and then the last before the next eight
				if said[k] && (k%8 == 0 || k/8*8 == int(want[i])/8*8) {
					want[i] = int32(k)
				}
			}
			if b.Reported(&says) {
				t.Fatal("what was said at once is asked for again")
			}
			found := x.Depths(nil, p.Prefixes)
			for j, other := range all[:i+1] {
				if got := other.Depth(&p); got != want[j] || found[j] != want[j] {
					t.Fatalf("round %d: when agent %d has spoken, %d holds %d prefixes, and %d as it is found, "+
						"want %d", round, i, j, got, found[j], want[j])
				}
			}
		}
	}
}
