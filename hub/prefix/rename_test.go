package prefix

import (
	"encoding/binary"
	"testing"

	"souk/bus"
)

// under is a prompt whose prefixes have other hashes, as under another key.
func under(p bus.Prompt, key uint64) bus.Prompt {
	prefixes := p.Prefixes
	p.Prefixes = nil
	for _, m := range prefixes {
		p.Prefixes = append(p.Prefixes, bus.PrefixHash{Bytes: m.Bytes, Hash: m.Hash ^ key<<40})
	}
	return p
}

func hashes(p bus.Prompt) (list bus.Hashes) {
	for _, m := range p.Prefixes {
		list = binary.BigEndian.AppendUint64(list, m.Hash)
	}
	return list
}

// What is believed of a text by its former prefixes is believed by those it has now: what was served, what
// runs, what sessions are remembered for and what is reported, of each agent and in any order.
func TestMarksThatHaveOtherHashes(t *testing.T) {
	x, b, other, s := heard()
	served, runs, said := chat(text(0, 400)), chat(text(0, 400), text(1, 400)), chat(text(2, 400))
	serve(b, 1, &served, 400, 0, 0)
	serve(other, 2, &served, 400, 0, 0)
	x.Advance(2)
	run := b.Sent(&runs, 800, 10, 5)
	s.whole(0.5, said.Prefixes)
	for _, was := range []bus.Prompt{runs, said} { // runs begins with served
		p := under(was, 1)
		p.Former = hashes(was)
		x.Resolve(&p)
		x.Resolve(&p) // and once more is no more
	}
	is, more, reported := under(served, 1), under(runs, 1), under(said, 1)
	for name, c := range map[string]struct{ is, was *bus.Prompt }{
		"served": {&is, &served}, "told": {&reported, &said}} {
		if overlap(b, c.is) != 384 || overlap(b, c.was) != 0 {
			t.Errorf("%s: %d tokens by the hashes of now, %d by the former", name, overlap(b, c.is),
				overlap(b, c.was))
		}
	}
	if overlap(other, &is) != 384 || overlap(other, &reported) != 0 {
		t.Errorf("of the other agent: %d and %d tokens", overlap(other, &is), overlap(other, &reported))
	}
	if b.Verified(1, &is) != 400 || b.Asserted(&reported, 400) == 0 {
		t.Errorf("%d tokens are verified, %d asserted", b.Verified(1, &is), b.Asserted(&reported, 400))
	}
	if x.Advance(6); overlap(b, &more) == 0 {
		t.Error("what runs is not found")
	}
	b.Served(run, 1, &runs, 800, 10, 400) // as the hub sent it
	if x.Advance(7); overlap(b, &more) != 784 || b.Verified(1, &more) != 800 {
		t.Errorf("%d tokens of what ran then, %d verified", overlap(b, &more), b.Verified(1, &more))
	}
	for _, b := range []*Cache{b, other} {
		if err := sound(b); err != nil {
			t.Error(err)
		}
	}
	s.change(0.5, said.Prefixes, reported.Prefixes)
	if overlap(b, &reported) != 384 || len(b.reported.hashes) != len(reported.Prefixes) {
		t.Errorf("the agent says it, too: %d prefixes reported", len(b.reported.hashes))
	}
	before := x.changes
	late := served // by a door that is late: it is known by the next hashes
	late.Next = hashes(is)
	if x.Resolve(&late); overlap(b, &late) != 384 || x.changes != before {
		t.Errorf("%d tokens of a prompt that a late door sends", overlap(b, &late))
	}
	early := is // nobody knows the next hashes yet
	early.Next = hashes(under(served, 2))
	if x.Resolve(&early); overlap(b, &early) != 384 || x.changes != before {
		t.Errorf("%d tokens of a prompt whose next hashes are not known", overlap(b, &early))
	}
	b.Drop()
	other.Drop()
	if len(x.reported.by)+len(x.own.by) > 0 {
		t.Errorf("%d prefixes are left", len(x.reported.by)+len(x.own.by))
	}
}
