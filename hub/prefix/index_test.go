package prefix

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"souk/bus"
)

// sound compares all that is kept of an agent with what it is made of.
func sound(b *Cache) error {
	tokens, nodes, kids := 0, 0, map[int32]int16{}
	for i := range b.nodes {
		n := &b.nodes[i]
		if n.born == 0 {
			continue
		}
		nodes++
		tokens += int(n.upto) + int(n.answer)
		if k, _ := b.find(n.hash); k != int32(i) {
			return fmt.Errorf("node %d is not found by its hash", i)
		}
		if n.parent != none {
			up := &b.nodes[n.parent]
			kids[n.parent]++
			tokens -= int(up.upto)
			if up.born == 0 || n.held && !up.held || n.sure && !up.sure || n.runs > up.runs {
				return fmt.Errorf("node %d: held %v, %d runs, and its parent: %+v", i, n.held, n.runs, *up)
			}
		}
		vouched := !b.reported.rules || n.until > b.index.tick()
		if b.reported.rules && uint64(n.until)+uint64(settled/tick) >= uint64(b.index.tick()) {
			vouched = vouched || n.shown // its word may rule since less than that
		}
		if !n.sure && n.runs == 0 || n.sure && !n.held || n.shown != (n.held && vouched) {
			return fmt.Errorf("node %d is neither held nor computed, or not shown: %+v", i, *n)
		}
	}
	if nodes != len(b.byHash) {
		return fmt.Errorf("%d nodes, %d of them found by their hashes", nodes, len(b.byHash))
	}
	listed, newer, place := 0, none, map[int32]int{}
	for i := b.use.Newest; i != none; i = b.nodes[i].place.Older {
		n := &b.nodes[i]
		if !n.sure || n.runs > 0 || n.place.Newer != newer || newer != none && b.nodes[newer].used < n.used {
			return fmt.Errorf("node %d is among those that may go: %+v", i, *n)
		}
		if at, ok := place[n.parent]; n.parent != none && b.nodes[n.parent].runs == 0 && !ok {
			return fmt.Errorf("node %d is newer than its parent, which is at %d", i, at)
		}
		place[i] = listed
		listed++
		newer = i
	}
	if newer != b.use.Oldest {
		return fmt.Errorf("the oldest is node %d, and the last one %d", b.use.Oldest, newer)
	}
	for i := range b.nodes {
		n := &b.nodes[i]
		if n.born != 0 && n.kids != kids[int32(i)] {
			return fmt.Errorf("node %d: %d kids, want %d", i, n.kids, kids[int32(i)])
		}
		if n.born != 0 && n.sure && n.runs == 0 {
			listed--
		}
	}
	if listed != 0 {
		return fmt.Errorf("%d nodes too many are among those that may go", listed)
	}
	if tokens != b.tokens { // but for runs, of which there are none then
		return fmt.Errorf("%d tokens, want %d", b.tokens, tokens)
	}
	return nil
}

// plain is a model of an agent that is slow and simple: prefixes that it holds, with when they were last
// used.
type plain map[uint64]struct {
	used, depth, tokens int
}

// FuzzIndex has agents serve texts, in any order and with any outcome, and compares what is believed with a
// map of sets and, as long as no list and no report of an engine comes, with one that lets go what was used
// least recently.
func FuzzIndex(f *testing.F) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 3))
		data := make([]byte, 600)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		data[0] = byte(seed)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		next := func() int {
			if len(data) == 0 {
				return 0
			}
			c := data[0]
			data = data[1:]
			return int(c)
		}
		reports, broken := next()&1 > 0, next()&7 == 0
		turns := next()&3 == 0 // of keys
		limits := Limits{Sessions: 1 + next()%6, Hashes: 1 + next()%40, Reported: next() % 40}
		x := NewIndex(limits)
		caches := make([]*Cache, 1+next()%80)
		models := make([]plain, len(caches))
		for i := range caches {
			caches[i], models[i] = x.New(1+next()%16, 100*(next()%30)), plain{}
		}
		prompt := func() (p bus.Prompt) {
			h := uint64(0)
			for range next() % 7 {
				piece := next() % 3
				h = h*31 + uint64(piece) + 1
				p.Bytes += 40 * (1 + piece)
				if p.Tokens += 10 * (1 + piece); broken && next()&1 > 0 {
					h = uint64(next() % 8)
				}
				p.Prefixes = append(p.Prefixes, bus.PrefixHash{Bytes: p.Bytes, Hash: h << 20})
			}
			if next()%8 == 0 {
				p.Loose = bus.LooseMedia
			}
			if way := next() % 16; turns && way < 2 { // its prefixes come with two names
				var other bus.Hashes
				for _, m := range p.Prefixes {
					other = binary.BigEndian.AppendUint64(other, m.Hash^1<<60)
				}
				if way == 0 {
					p.Next = other
				} else {
					p.Former = other
				}
				x.Resolve(&p)
			}
			return p
		}
		clock, talks := 0, false
		type sent struct {
			i      int
			r      *Run
			p      bus.Prompt
			tokens int
		}
		var runs []sent
		exact := !reports && !broken && !turns
		for len(data) > 0 {
			clock++
			i := next() % len(caches)
			b := caches[i]
			switch op := next() % 16; {
			case op < 6: // served at once
				p := prompt()
				cached := -1
				if reports {
					cached = next()
				}
				b.Served(b.Sent(&p, p.Tokens, 0, 0), uint64(next()%10), &p,
					p.Tokens, 0,
					cached)
				if exact && len(runs) == 0 {
					models[i].serve(b, &p, clock)
				}
			case op < 9 && len(runs) < 20:
				p := prompt()
				n := next() * 8
				first := x.now + int64(next())*2e7
				runs = append(runs, sent{i, b.Sent(&p, n, next(), first), p, n})
				exact = false
			case op < 13 && len(runs) > 0:
				k := next() % len(runs)
				s := runs[k]
				runs = slices.Delete(runs, k, k+1)
				if next()&1 > 0 {
					caches[s.i].Ended(s.r)
				} else {
					caches[s.i].Served(s.r, uint64(next()%10), &s.p, next()*8,
						next(),
						next()-1)
				}
			case op == 15:
				x.Advance(x.now + int64(next())*3e7)
				h := &bus.Holdings{Life: b.reported.life + uint64(next()%32/31), Seq: b.reported.seq + 1,
					Base:     b.reported.base,
					Coverage: float64(next()%2) * 0.95, Evidence: []string{bus.EvidenceEvents,
						bus.EvidenceEvents, bus.EvidenceInferred}[next()%3]}
				if next()%8 == 0 {
					h.Seq += uint64(next() % 3)
				}
				if next()%2 == 0 {
					h.Base, h.Parts = h.Seq, 1+next()%2
				} else if next()%8 == 0 {
					h.Part, h.Parts = 1, 2
				}
				for _, m := range prompt().Prefixes {
					if short := bus.ShortHash(m.Hash); h.Parts == 0 && next()%3 == 0 {
						h.Drop = bus.AppendShortHash(h.Drop, short)
					} else {
						h.Add = bus.AppendShortHash(h.Add, short)
					}
				}
				if ask := b.Reported(h); ask && b.reported.known {
					t.Fatalf("step %d: what is asked for again is known: %+v", clock, b.reported)
				}
				talks, exact = true, false
				if next()%4 == 0 {
					p := prompt()
					if n := b.Asserted(&p, p.Tokens); n < 0 || n >= max(1, 2*p.Tokens) && !broken {
						t.Fatalf("step %d: %d tokens of %d are asserted", clock, n, p.Tokens)
					}
					b.Judge(next(), next())
				}
			case op == 14:
				b.Drop()
				caches[i], models[i] = x.New(1+next()%16, 100*(next()%30)), plain{}
			}
			sets, reported := map[uint64]map[int]bool{}, map[uint64]map[int]bool{}
			for i, b := range caches {
				pending := b.tokens
				for _, s := range runs {
					if s.r.belief == b {
						b.tokens -= s.r.tokens
					}
				}
				if err := sound(b); err != nil {
					t.Fatalf("step %d, agent %d: %v", clock, i, err)
				}
				b.tokens = pending
				if len(b.reported.hashes) > limits.Reported {
					t.Fatalf("step %d, agent %d: %d prefixes are reported", clock, i, len(b.reported.hashes))
				}
				for short := range b.reported.hashes {
					if reported[short] == nil && b.reported.speaks {
						reported[short] = map[int]bool{}
					}
					if b.reported.speaks {
						reported[short][b.Place()] = true
					}
				}
				if b.sessions.Len() > limits.Sessions || len(b.byHash) > 2*limits.Hashes ||
					len(runs) == 0 && (len(b.byHash) > limits.Hashes ||
						b.capacity > 0 && b.tokens > b.capacity) {
					t.Fatalf("step %d, agent %d: %d sessions, %d prefixes, %d tokens of %d", clock, i,
						b.sessions.Len(), len(b.byHash), b.tokens, b.capacity)
				}
				for j := range b.nodes {
					if n := &b.nodes[j]; n.shown {
						if sets[n.hash] == nil {
							sets[n.hash] = map[int]bool{}
						}
						sets[n.hash][b.Place()] = true
					}
				}
				if exact && !slices.Equal(models[i].hashes(), held(b)) {
					t.Fatalf("step %d, agent %d holds %v, want %v", clock, i, held(b), models[i].hashes())
				}
			}
			if len(sets) != len(x.own.by) {
				t.Fatalf("step %d: %d prefixes in the index, want %d", clock, len(x.own.by), len(sets))
			}
			if len(reported) != len(x.reported.by) {
				t.Fatalf("step %d: %d prefixes in the index by what is reported, want %d", clock,
					len(x.reported.by),
					len(reported))
			}
			p := prompt()
			depths := x.Depths(nil, p.Prefixes)
			served := make([]int, len(p.Prefixes)+1) // agents, by how much of it they have served and hold
			for _, b := range caches {
				k := 0
				for k < len(p.Prefixes) {
					if i, ok := b.find(p.Prefixes[k].Hash); !ok || !b.nodes[i].held {
						break
					}
					k++
				}
				served[k]++
			}
			most := len(p.Prefixes)
			for most > 0 && served[most] == 0 {
				most--
			}
			if served[0] *= min(1, most); !broken {
				if depth, agents := x.Deepest(&p); int(depth) != most || agents != served[most] {
					t.Fatalf("step %d: %d agents hold %d prefixes, want %d and %d", clock, agents, depth,
						served[most], most)
				}
			}
			for _, b := range caches {
				got, want := int(depths[b.Place()]), 0
				for want < len(p.Prefixes) && sets[p.Prefixes[want].Hash][b.Place()] {
					want++
				}
				if got != int(b.Depth(&p)) || got < want && !broken ||
					got > want && !broken && !talks || got < 0 ||
					got > len(p.Prefixes) {
					t.Fatalf("step %d: depth %d, want %d", clock, got, want)
				}
				if n, cached := b.ExpectAt(&p, int32(got), p.Tokens); cached < 0 || cached >= max(1, n) ||
					n < min(1, p.Tokens) {
					t.Fatalf("step %d: %d tokens of %d are expected in the cache", clock, cached, n)
				}
				b.Verified(uint64(next()%10), &p)
			}
		}
	})
}

// serve does what a simple cache does.
func (m plain) serve(b *Cache, p *bus.Prompt, clock int) {
	before, tokens := 0, 0
	if len(p.Prefixes) > b.index.limits.Hashes { // it needs its room, and is not remembered
		tokens = p.Tokens
		p = &bus.Prompt{}
	}
	for i, prefix := range p.Prefixes {
		n := m[prefix.Hash]
		n.used, n.depth, n.tokens = clock, i, prefix.Bytes/4-before
		m[prefix.Hash] = n
		before = prefix.Bytes / 4
	}
	for _, n := range m {
		tokens += n.tokens
	}
	for len(m) > b.index.limits.Hashes || b.capacity > 0 && tokens > b.capacity && len(m) > 0 {
		var last uint64
		for hash, n := range m {
			if o, ok := m[last]; !ok || n.used < o.used || n.used == o.used && n.depth > o.depth {
				last = hash
			}
		}
		tokens -= m[last].tokens
		delete(m, last)
	}
}

func (m plain) hashes() (all []uint64) {
	for hash := range m {
		all = append(all, hash)
	}
	slices.Sort(all)
	return all
}

func held(b *Cache) (all []uint64) {
	for i := range b.nodes {
		if n := &b.nodes[i]; n.born != 0 && n.held {
			all = append(all, n.hash)
		}
	}
	slices.Sort(all)
	return all
}

// long is a prompt of so many prefixes, of which the first few are common to all.
func long(seed, common, prefixes int) (p bus.Prompt) {
	for i := range prefixes {
		var b [16]byte
		if i >= common {
			binary.LittleEndian.PutUint64(b[:], uint64(seed)+1)
		}
		binary.LittleEndian.PutUint64(b[8:], uint64(i))
		r := rand.NewPCG(binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:]))
		p.Bytes += bus.PrefixEvery
		p.Prefixes = append(p.Prefixes, bus.PrefixHash{Bytes: p.Bytes, Hash: r.Uint64()})
	}
	p.Tokens = p.Bytes / 4
	return p
}

// What is remembered takes no more memory than the limits say, however much is served.
func TestMemoryIsBounded(t *testing.T) {
	const agents, perHash = 100, 150
	limits := Limits{Sessions: 8192, Hashes: 1 << 11}
	x := NewIndex(limits)
	memory := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := memory()
	caches := make([]*Cache, agents)
	for i := range caches {
		caches[i] = x.New(16, 0)
	}
	for round := range 3 * limits.Hashes / 64 {
		for i, b := range caches {
			p := long(round*agents+i, 8, 64)
			serve(b, 0, &p, p.Tokens, 10, -1)
		}
	}
	prefixes := 0
	for _, b := range caches {
		prefixes += len(b.byHash)
	}
	each := float64(memory()-before) / float64(prefixes)
	t.Logf("%d prefixes, %.0f bytes each", prefixes, each)
	if prefixes > agents*limits.Hashes || each > perHash {
		t.Errorf("%d prefixes of %.0f bytes, want at most %d of %d", prefixes, each, agents*limits.Hashes, perHash)
	}
	runtime.KeepAlive(caches)
}

// A round's look-up: 16 tasks with 800 prefixes each, of which 100 agents hold some; most begin alike, and
// one or another agent has the dialogue so far.
func BenchmarkLookUp(b *testing.B) {
	x := NewIndex(DefaultLimits())
	r := rand.New(rand.NewPCG(1, 2))
	caches := make([]*Cache, 100)
	for i := range caches {
		caches[i] = x.New(16, 0)
		for k := range 8 {
			p := long(i*8+k, 40, 100+r.IntN(700))
			serve(caches[i], 0, &p, p.Tokens, 100, -1)
		}
	}
	tasks := make([]bus.Prompt, 16)
	for i := range tasks {
		tasks[i] = long(r.IntN(800), 40, 800)
	}
	b.ReportAllocs()
	for b.Loop() {
		for i := range tasks {
			p := &tasks[i]
			for _, a := range caches {
				a.Expect(p, p.Tokens)
			}
		}
	}
}

// A prefix that an agent comes to hold, while the oldest one goes.
func BenchmarkUpdate(b *testing.B) {
	x := NewIndex(DefaultLimits())
	caches := make([]*Cache, 20)
	for i := range caches {
		caches[i] = x.New(16, 1<<20)
	}
	const prefixes = 200
	prompts := make([]bus.Prompt, 2000)
	for i := range prompts {
		prompts[i] = long(i, 40, 40+prefixes)
	}
	n := 0
	for b.Loop() {
		p := &prompts[n%len(prompts)]
		serve(caches[n%len(caches)], uint64(n), p, p.Tokens, 100, -1)
		n++
	}
	b.ReportMetric(float64(n*prefixes)/b.Elapsed().Seconds(), "prefixes/s")
}
