package prefix

import (
	"testing"

	"souk/bus"
)

// again is an agent that was restarted, and now hears its engine.
func again(b *Cache, unnamed int) *says {
	b.Again()
	s := &says{b: b}
	s.unnamed(unnamed)
	return s
}

// unnamed says that it knows of so many blocks, and of no text of theirs.
func (s *says) unnamed(blocks int) {
	s.seq++
	s.base = s.seq
	s.b.Reported(&bus.Holdings{Life: s.life, Seq: s.seq, Base: s.base, Parts: 1, Coverage: 1, Blocks: blocks,
		Unnamed: blocks, Evidence: bus.EvidenceEvents})
}

// An agent that was restarted names nothing of what its engine holds: what was served before is believed as
// far as there is room for it in what the agent cannot name, what was used last first.
func TestWhatAnAgentServedBeforeItsRestartIsBelieved(t *testing.T) {
	x, b, other, s := heard()
	first, later := chat(text(0, 400)), chat(text(1, 400))
	serve(b, 1, &first, 400, 0, 0)
	x.Advance(2 * second)
	serve(b, 2, &later, 400, 0, 0)
	s.whole(1, first.Prefixes, later.Prefixes)
	x.Advance(10 * second)
	b.Again()
	if overlap(b, &first) != 0 || overlap(b, &later) != 0 || b.Speaks() || b.Verified(2, &later) != 0 {
		t.Error("it has said nothing since, and its engine may be another one")
	}
	s = &says{b: b}
	if s.unnamed(0); overlap(b, &first) != 0 || overlap(b, &later) != 0 {
		t.Error("it has heard nothing yet")
	}
	if s.unnamed(20); overlap(b, &first) != 0 || overlap(b, &later) != 0 {
		t.Error("it has heard little yet")
	}
	if s.unnamed(30); overlap(b, &first) != 384 || overlap(b, &later) != 384 || !b.Rules() ||
		b.Verified(2, &later) != 400 {
		t.Errorf("of 30 blocks: %d of what was used first, %d of what was used last", overlap(b, &first),
			overlap(b, &later))
	}
	if overlap(other, &first) != 0 {
		t.Error("another is believed to hold it")
	}
	// what is served anew goes by what the agent says of it
	serve(b, 2, &later, 400, 0, 384)
	x.Advance(30 * second)
	if s.unnamed(60); overlap(b, &later) != 0 {
		t.Error("it was served in this life, and the agent does not name it")
	}
	if s.whole(1, later.Prefixes); overlap(b, &later) != 384 {
		t.Error("it names it")
	}
	if s.unnamed(20); overlap(b, &first) != 0 {
		t.Error("most of it went")
	}
	if s.unnamed(60); overlap(b, &first) != 0 {
		t.Error("what came was asked for by somebody else")
	}
	if err := sound(b); err != nil {
		t.Error(err)
	}
}

// Where the engine began anew as well, nothing is believed; nor where it does so later.
func TestNothingIsBelievedOfAnEngineThatBeganAnew(t *testing.T) {
	x, b, _, s := heard()
	p := chat(text(0, 400))
	serve(b, 1, &p, 400, 0, 0)
	s.whole(1, p.Prefixes)
	x.Advance(10 * second)
	s = again(b, 0)
	x.Advance(21 * second)
	if s.unnamed(0); overlap(b, &p) != 0 || len(b.byHash) > 0 {
		t.Error("its engine holds nothing")
	}
	if s.unnamed(60); overlap(b, &p) != 0 {
		t.Error("what came is of somebody else")
	}
	serve(b, 1, &p, 400, 0, 0)
	if s = again(b, 60); overlap(b, &p) != 384 {
		t.Error("it was restarted beside an engine that was not")
	}
	s.life++
	if s.unnamed(60); overlap(b, &p) != 0 {
		t.Error("its engine began anew")
	}
}

// Before an agent hears its engine for the first time, it says what it served itself; its engine is no other
// one because it hears it now.
func TestHearingAnEngineMakesItNoOther(t *testing.T) {
	x, b, _, s := heard()
	p := chat(text(0, 400))
	serve(b, 1, &p, 400, 0, 0)
	s.whole(1, p.Prefixes)
	x.Advance(10 * second)
	b.Again()
	s = &says{b: b}
	s.seq, s.base = 1, 1
	b.Reported(&bus.Holdings{Seq: 1, Base: 1, Parts: 1, Evidence: bus.EvidenceInferred})
	s.life = 1
	if s.unnamed(60); overlap(b, &p) != 384 {
		t.Error("it holds what it held")
	}
}
