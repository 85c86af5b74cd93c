package holdings

import (
	"math/rand/v2"
	"testing"

	"souk/bus"
)

// strange counts blocks that are held and whose text is not known, the slow way.
func strange(s *State) (n int) {
	for k := range s.nodes {
		if at := &s.nodes[k]; k > 0 && at.whole && !at.known {
			n++
		}
	}
	return n
}

// Who begins beside an engine that has served hears of blocks whose texts it does not know: it says how many
// they are. Each is known once a prompt has it, and so is what was answered behind a prompt.
func TestBlocksOfUnknownTextAreCounted(t *testing.T) {
	s := New(block, 400, 1, [32]byte{})
	e := newEngine(s)
	first, ids, _ := prompt(8, words(1, 39, 4))  // ten blocks
	_, others, _ := prompt(8, words(2, 39, 4))   // of somebody else
	_, answered, _ := prompt(8, words(3, 15, 4)) // four blocks behind the first prompt
	whole := append(ids[:len(ids):len(ids)], answered...)
	e.store(0, ids, 0, 10)
	e.store(0, others, 0, 10)
	e.store(0, whole, 10, 12) // of its answer, one block before the prompt is known and one after
	said := func(want int, what string) {
		t.Helper()
		out, _ := s.Take(e.now)
		if got := s.unnamed; got != want || strange(s) != want {
			t.Fatalf("%s: %d blocks of unknown text, %d by counting, not %d", what, got, strange(s), want)
		}
		if len(out) > 0 && out[len(out)-1].Unnamed != want {
			t.Fatalf("%s: it says %d, not %d", what, out[len(out)-1].Unnamed, want)
		}
	}
	s.NewHub()
	said(22, "at its beginning")
	s.Prompt(&first, ids, "")
	said(10, "one prompt is known")
	e.store(0, whole, 12, 14)
	said(10, "its answer went on")
	e.remove(0, others, 9, 8, 7)
	e.now = e.now.Add(deltaEvery)
	out, _ := s.Take(e.now)
	if len(out) != 1 || out[0].Unnamed != 7 || out[0].Parts != 0 {
		t.Fatalf("blocks of unknown text went, and it says %+v", out)
	}
	e.now = e.now.Add(deltaEvery)
	e.remove(0, others, 6)
	e.now = e.now.Add(deltaEvery)
	if out, _ := s.Take(e.now); len(out) != 1 || out[0].Unnamed != 6 {
		t.Fatalf("one more went, and it says %+v", out)
	}
	s.Restarted()
	if said(0, "the engine began anew"); s.Evidence() != bus.EvidenceEvents {
		t.Error(s.Evidence())
	}
}

// Whatever comes, the count is right.
func TestTheCountOfUnknownTextIsRight(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	s := New(block, 400, 1, [32]byte{})
	e := newEngine(s)
	held := map[int]int{}
	for step := range 3000 {
		k := r.IntN(8)
		p, ids, _ := prompt(8, words(0, 11, 4), words(k, 4+4*(k%5), 4), words(k+9, 4*(1+k%3), 4))
		n := len(ids) / block
		switch r.IntN(4) {
		case 0:
			if held[k] == 0 {
				e.store(0, ids, 0, n)
				held[k]++
			}
		case 1:
			if held[k] > 0 {
				for i := range n {
					e.remove(0, ids, n-1-i)
				}
				held[k]--
			}
		case 2:
			s.Prompt(&p, ids[:r.IntN(len(ids))+1], "")
		case 3:
			e.now = e.now.Add(deltaEvery)
			s.Take(e.now)
		}
		if r.IntN(500) == 0 {
			s.Restarted()
			held = map[int]int{}
		}
		if got := strange(s); got != s.unnamed {
			t.Fatalf("step %d: %d blocks of unknown text, and %d are counted", step, got, s.unnamed)
		}
	}
}
