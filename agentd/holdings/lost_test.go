package holdings

import (
	"testing"

	"souk/agentd/kvevent"
)

// A batch of which a part took blocks away, nobody knows which, leaves nothing known but what it and those
// behind it stored; and a hub is told so.
func TestAfterALostRemovalNothingIsKnown(t *testing.T) {
	s := New(block, 100*block, 1, [32]byte{1})
	e := newEngine(s)
	p, ids, _ := prompt(8, words(1, 40, 4))
	e.store(0, ids, 0, 10)
	s.Prompt(&p, ids, "")
	h := &hub{}
	out, _ := s.Take(e.now)
	if h.hear(t, out); len(h.held) == 0 || s.Blocks != 10 || s.Coverage() != 1 {
		t.Fatalf("%d prefixes and %d blocks are held, coverage %v", len(h.held), s.Blocks, s.Coverage())
	}
	s.Apply(kvevent.Batch{Lost: true, Bad: 1})
	if s.Blocks != 0 || s.Prefixes() != 0 || s.Held(&p) != 0 || s.Coverage() != 0 || s.Counts.Blind != 1 {
		t.Errorf("%d blocks, %d prefixes, %d tokens are held, coverage %v, %+v", s.Blocks, s.Prefixes(),
			s.Held(&p), s.Coverage(), s.Counts)
	}
	out, _ = s.Take(e.now.Add(deltaEvery))
	if h.hear(t, out); len(h.held) != 0 || h.coverage != 0 {
		t.Errorf("a hub believes in %d prefixes, coverage %v", len(h.held), h.coverage)
	}
	e.store(0, ids, 0, 5)
	s.Prompt(&p, ids, "")
	s.Take(e.now.Add(2 * deltaEvery))
	if s.Blocks != 5 || s.Held(&p) == 0 || s.Coverage() != 0.05 {
		t.Errorf("%d blocks are held, %d tokens, coverage %v: the other 95 may hold anything", s.Blocks,
			s.Held(&p), s.Coverage())
	}
	sound(t, s)
}
