package holdings

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"souk/bus"
)

// other is a prompt whose prefixes have other hashes, as under another key.
func other(p bus.Prompt) (q bus.Prompt, former, next bus.Hashes) {
	q = p
	q.Prefixes = nil
	for _, m := range p.Prefixes {
		former = binary.BigEndian.AppendUint64(former, m.Hash)
		m.Hash ^= 1 << 50
		next = binary.BigEndian.AppendUint64(next, m.Hash)
		q.Prefixes = append(q.Prefixes, m)
	}
	return q, former, next
}

func shorts(list []byte) (all []uint64) {
	bus.EachShortHash(list, func(short uint64) { all = append(all, short) })
	slices.Sort(all)
	return all
}

func shortsOf(p bus.Prompt) (all []uint64) {
	for _, m := range p.Prefixes {
		all = append(all, bus.ShortHash(m.Hash))
	}
	slices.Sort(all)
	return all
}

// A text whose prefixes come with other hashes is held as before, where it was exact it stays so, and the hub
// hears the new hashes in place of the former ones, once. A prompt by a door that is late is the same text.
func TestPrefixesThatHaveOtherHashes(t *testing.T) {
	s := New(block, 400, 1, [32]byte{1})
	e := newEngine(s)
	first, second := words(1, 20, 8), words(2, 20, 8)
	p, ids, _ := prompt(64, first)
	e.store(0, ids, 0, len(ids)/block)
	s.Prompt(&p, ids, "")
	p, ids, ends := prompt(64, first, second)
	e.store(0, ids, 5, len(ids)/block)
	s.Prompt(&p, ids, "")
	s.Take(e.now)
	s.NewHub()
	out, _ := s.Take(e.now)
	if !slices.Equal(shorts(out[0].Add), shortsOf(p)) {
		t.Fatalf("held: %x, want %x", shorts(out[0].Add), shortsOf(p))
	}
	held := s.Held(&p)
	exact := func() (n int) {
		for i := range s.prefixes.all {
			if s.prefixes.all[i].exact {
				n++
			}
		}
		return n
	}
	before := exact()
	if held < ends[len(ends)-1]-block || before == 0 {
		t.Fatalf("%d tokens are held, %d prefixes are exact", held, before)
	}
	late := p
	q, former, next := other(p)
	late.Next = next
	s.Prompt(&late, ids, "") // before any other came by the next hashes, they say nothing
	e.now = e.now.Add(time.Second)
	if out, _ := s.Take(e.now); len(out) > 0 {
		t.Errorf("it says %+v", out)
	}
	q.Former = former
	for i := range 3 {
		if i == 2 {
			q = late // by a door that is late
		}
		s.Prompt(&q, ids, "")
		turned, _, _ := other(p)
		if s.Held(&turned) != held || s.Held(&p) != 0 || exact() < before {
			t.Errorf("%d tokens are held by the new hashes, %d by the former, %d prefixes are exact",
				s.Held(&turned), s.Held(&p), exact())
		}
		e.now = e.now.Add(time.Second)
		out, _ := s.Take(e.now)
		switch {
		case i > 0 && len(out) > 0:
			t.Errorf("it says again %+v", out)
		case i == 0 && (len(out) != 1 || out[0].Parts != 0 || out[0].Coverage != 1 ||
			!slices.Equal(shorts(out[0].Add), shortsOf(turned)) ||
			!slices.Equal(shorts(out[0].Drop), shortsOf(p))):
			t.Errorf("it says %+v", out)
		}
	}
}
