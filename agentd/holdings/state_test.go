package holdings

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"souk/agentd/kvevent"
	"souk/bus"
)

var begun = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const block = 4

// text is a message of so many tokens: each is some bytes, as the test likes.
type text []string

func words(seed, tokens, bytes int) (t text) {
	for i := range tokens {
		w := fmt.Sprintf("%d.%d", i, seed)
		t = append(t, (w + "__________")[:max(bytes, len(w))])
	}
	return t
}

// prompt makes of messages what a door says of their text, with a prefix to the end of each and, inside,
// every so many bytes; and the tokens that an engine makes of them.
func prompt(every int, messages ...text) (p bus.Prompt, ids []uint32, ends []int) {
	h := fnv.New64a()
	prefix := func() {
		var b [8]byte
		p.Prefixes = append(p.Prefixes, bus.PrefixHash{Bytes: p.Bytes,
			Hash: binary.LittleEndian.Uint64(h.Sum(b[:0])) * 0x9e3779b97f4a7c15})
		ends = append(ends, len(ids))
	}
	p.Messages = len(messages)
	for _, m := range messages {
		from := p.Bytes
		for _, w := range append(m[:len(m):len(m)], ";") {
			f := fnv.New32a()
			f.Write([]byte(w))
			ids = append(ids, f.Sum32())
			for _, c := range []byte(w) {
				h.Write([]byte{c})
				if p.Bytes++; p.Bytes-from == every {
					prefix()
					from = p.Bytes
				}
			}
		}
		if p.Bytes > from {
			prefix()
		}
	}
	p.Tokens = p.Bytes / 4
	return p, ids, ends
}

// engine says what it stores and removes.
type engine struct {
	s    *State
	now  time.Time
	name map[uint64]kvevent.Key // it has its own names for blocks
}

func newEngine(s *State) *engine {
	s.Listen()
	s.Restarted()
	return &engine{s: s, now: begun, name: map[uint64]kvevent.Key{}}
}

// spaced is a space that only a number says; 0: of tokens alone.
func spaced(n uint64) (s kvevent.Space) {
	s[0] = byte(n)
	return s
}

func (e *engine) names(space uint64, ids []uint32) (keys []kvevent.Key) {
	k := space
	for i := 0; i+block <= len(ids); i += block {
		k = e.s.chain(k, spaced(77), ids[i:i+block])
		keys = append(keys, kvevent.Key(k))
	}
	return keys
}

func (e *engine) say(events ...kvevent.Event) { e.s.Apply(kvevent.Batch{Events: events}) }

// store says that blocks from one on are stored, up to another.
func (e *engine) store(space uint64, ids []uint32, from, to int) {
	keys := e.names(space, ids)
	ev := kvevent.Event{Kind: kvevent.Stored, Blocks: keys[from:to], Tokens: ids[from*block : to*block],
		BlockSize: block, Space: spaced(space)}
	if from > 0 {
		ev.Parent, ev.HasParent = keys[from-1], true
	}
	e.say(ev)
}

func (e *engine) remove(space uint64, ids []uint32, blocks ...int) {
	ev := kvevent.Event{Kind: kvevent.Removed}
	for _, i := range blocks {
		ev.Blocks = append(ev.Blocks, e.names(space, ids)[i])
	}
	e.say(ev)
}

// A block that the engine has twice is held until both copies are gone.
func TestCopies(t *testing.T) {
	s := New(block, 400, 1, [32]byte{1})
	e := newEngine(s)
	p, ids, _ := prompt(512, words(1, 39, 4))
	e.store(0, ids, 0, 10)
	e.store(0, ids, 4, 10)
	s.Prompt(&p, ids, "")
	for i, want := range []int{40, 40, 36, 36, 36} {
		if got := s.Held(&p); got != want && !(want < 40 && got < 40) {
			t.Errorf("after %d removals: %d tokens are held, want %d", i, got, want)
		}
		e.remove(0, ids, 9)
		sound(t, s)
	}
	if c := s.Counts; c.Unknown != 3 {
		t.Errorf("%+v: three were removed that were not there", c)
	}
}

// Without a block in the midst nothing behind it can be found; it can again once the block is back.
func TestAHoleEndsTheChain(t *testing.T) {
	s := New(block, 400, 1, [32]byte{1})
	e := newEngine(s)
	p, ids, ends := prompt(512, words(1, 7, 4), words(2, 7, 4), words(3, 7, 4))
	s.Prompt(&p, ids, "")
	if s.Held(&p) != 0 {
		t.Error("nothing is stored yet")
	}
	e.store(0, ids, 0, 6)
	if got := s.Held(&p); got != ends[2] {
		t.Errorf("%d tokens are held, want %d", got, ends[2])
	}
	e.remove(0, ids, 3)
	if got := s.Held(&p); got != 8 {
		t.Errorf("%d tokens are held before a hole, want 8", got)
	}
	sound(t, s)
	e.remove(0, ids, 0)
	e.store(0, ids, 3, 4) // whose parent is there
	if s.Held(&p) != 0 || s.Blocks != 0 {
		t.Errorf("%d tokens in %d blocks are held behind a hole", s.Held(&p), s.Blocks)
	}
	e.store(0, ids, 0, 1)
	if got := s.Held(&p); got != ends[2] {
		t.Errorf("%d tokens are held once it is filled, want %d", got, ends[2])
	}
	sound(t, s)
	other, more, _ := prompt(512, words(9, 31, 4))
	e.store(0, more, 2, 8) // behind what nobody knows
	if s.Prompt(&other, more, ""); s.Held(&other) != 0 || s.Counts.Unplaced != 6 {
		t.Errorf("%d tokens of a text whose beginning is not known; %+v", s.Held(&other), s.Counts)
	}
}

// Blocks that a salt or an adapter makes others are none of a plain prompt.
func TestNamespaces(t *testing.T) {
	s := New(block, 400, 1, [32]byte{1})
	e := newEngine(s)
	p, ids, _ := prompt(512, words(1, 39, 4))
	e.store(5, ids, 0, 10)
	if s.Prompt(&p, ids, ""); s.Held(&p) != 0 {
		t.Errorf("%d tokens are held, all of another namespace", s.Held(&p))
	}
	keys := e.names(0, ids)[:10]
	e.say(kvevent.Event{Kind: kvevent.Stored, Blocks: keys, Tokens: ids[:10*block], BlockSize: block,
		Host: true})
	if s.Prompt(&p, ids, ""); s.Held(&p) != 0 || s.Coverage() != 1 {
		t.Errorf("%d tokens are held, all in the host's memory; coverage %v", s.Held(&p), s.Coverage())
	}
	e.store(0, ids, 0, 10)
	e.say(kvevent.Event{Kind: kvevent.Removed, Blocks: keys, Host: true})
	if s.Held(&p) != 10*block {
		t.Errorf("%d tokens are held of what left the host's memory alone", s.Held(&p))
	}
	e.say(kvevent.Event{Kind: kvevent.Stored, Blocks: []kvevent.Key{1}, Tokens: ids[:7], BlockSize: 7})
	e.say(kvevent.Event{Kind: kvevent.Stored, Blocks: []kvevent.Key{1, 2}, Tokens: ids[:block],
		BlockSize: block})
	if c := s.Counts; c.Bad != 2 {
		t.Errorf("%+v: blocks of another size, and with too few tokens", c)
	}
	sound(t, s)
}

// depthOf is the block that a prefix is tied to, in tokens.
func depthOf(s *State, m bus.PrefixHash) int {
	i, ok := s.prefixes.by[bus.ShortHash(m.Hash)]
	if !ok {
		return -1
	}
	return int(s.nodes[s.prefixes.all[i].node].depth) * block
}

// Where a text stands in the tokens is guessed by bytes as long as one prompt alone has it, and known from
// the next that goes on from it, or that begins alike.
func TestPlacesAreKnownFromTheNextPrompt(t *testing.T) {
	dense, loose := words(1, 399, 1), words(2, 99, 12) // few bytes a token, and many
	for _, c := range []struct {
		name   string
		tokens int // that both have
		next   []text
	}{
		{"a dialogue goes on", 500, []text{dense, loose, words(3, 80, 4)}},
		{"another text begins alike", 400, []text{dense, words(4, 399, 2)}},
	} {
		s := New(block, 1<<16, 1, [32]byte{1})
		newEngine(s)
		first, ids, ends := prompt(512, dense, loose)
		s.Prompt(&first, ids, "")
		system := slices.Index(ends, len(dense)+1)
		if got := depthOf(s, first.Prefixes[system]); got == ends[system] || got > len(ids) {
			t.Errorf("%s: at first it stands at %d by a guess, and in truth at %d", c.name, got, ends[system])
		}
		next, more, _ := prompt(512, c.next...)
		s.Prompt(&next, more, "")
		last := slices.Index(ends, c.tokens)
		if got, want := depthOf(s, first.Prefixes[last]), ends[last]/block*block; got != want {
			t.Errorf("%s: it stands at %d, want %d", c.name, got, want)
		}
		sound(t, s)
	}
}

// Of an engine that was heard from its beginning all is known; of one that was heard late, what it has said
// since, of all that it has room for.
func TestCoverage(t *testing.T) {
	s := New(block, 100*block, 1, [32]byte{1})
	if s.Coverage() != 0 || s.Evidence() != bus.EvidenceInferred {
		t.Errorf("%v by a %s", s.Coverage(), s.Evidence())
	}
	s.Listen()
	want := func(what string, share float64) {
		t.Helper()
		if got := s.Coverage(); got != share || s.Evidence() != bus.EvidenceEvents {
			t.Errorf("%s: %v by %s, want %v", what, got, s.Evidence(), share)
		}
	}
	want("nothing has come", 0)
	e := newEngine(s)
	want("it began from nothing", 1)
	_, ids, _ := prompt(512, words(1, 400, 4))
	e.store(0, ids, 0, 50)
	want("all it stored is known", 1)
	e.say(kvevent.Event{Kind: kvevent.Stored, Blocks: make([]kvevent.Key, 50), HasParent: true, Parent: 3,
		Tokens: make([]uint32, 50*block), BlockSize: block})
	want("half of what it stored is known", 0.5)
	s.Blind()
	want("it is blind", 0)
	e.store(0, ids, 0, 25)
	want("a quarter of its room is known", 0.25)
	e.say(kvevent.Event{Kind: kvevent.Cleared})
	want("it is empty", 1)
	s.Apply(kvevent.Batch{Lost: true, Bad: 1})
	want("it removed something, and nobody knows what", 0)

	s = New(0, 0, 1, [32]byte{1}) // of an engine that does not say how large it is
	e = newEngine(s)
	e.store(0, ids, 0, 50)
	if got := s.Coverage(); got != 1 || s.Blocks != 50 {
		t.Errorf("%v of an engine whose room is not known, %d blocks", got, s.Blocks)
	}
	if s.Blind(); s.Coverage() != 0 {
		t.Error("what is not known of it may be anything")
	}
}

// What an engine says that it holds is measured by all of its cache.
func TestCoverageOfPartOfACache(t *testing.T) {
	s := New(block, 1000, 1, [32]byte{1})
	e := newEngine(s)
	s.Blind()
	p, ids, _ := prompt(512, words(0, 399, 4))
	s.Prompt(&p, ids, "")
	e.store(0, ids, 0, 100)
	s.Take(begun.Add(time.Second))
	if got := s.Coverage(); got < 0.39 || got > 0.41 {
		t.Errorf("coverage is %v where 400 of 1,000 tokens were said", got)
	}
}

// Of an engine that says nothing nothing is known.
func TestWithoutEvents(t *testing.T) {
	s := New(block, 1000, 1, [32]byte{1})
	p, ids, _ := prompt(512, words(0, 399, 4))
	s.Prompt(&p, ids, "")
	if s.Held(&p) != 0 || s.Blocks != 0 || s.Prefixes() != 0 || s.Evidence() != bus.EvidenceInferred {
		t.Errorf("%d tokens are held, %d blocks, %d prefixes", s.Held(&p), s.Blocks, s.Prefixes())
	}
	sound(t, s)
}

// unseen is a prompt of so many blocks of which nothing is known, with two prefixes in each.
func unseen(r *rand.Rand, blocks int) (p bus.Prompt, ids []uint32) {
	for i := range 2 * blocks {
		p.Bytes += 20
		p.Prefixes = append(p.Prefixes, bus.PrefixHash{Bytes: p.Bytes, Hash: r.Uint64()})
		ids = append(ids, r.Uint32(), uint32(i))
	}
	return p, ids
}

// hub applies the messages as a hub would.
type hub struct {
	held      map[uint64]bool
	seq, base uint64
	parts     int
	bytes     int
	coverage  float64
	life      uint64
	gap       bool
}

func (h *hub) hear(t *testing.T, out []bus.Holdings) {
	t.Helper()
	for i := range out {
		m := out[i]
		m.Agent, m.Boot = "agent-1", 1_790_000_000_000
		data, err := bus.Encode(&m)
		if err != nil {
			t.Fatal(err)
		}
		var got bus.Holdings
		if err := bus.Decode(data, &got); err != nil {
			t.Fatal(err)
		}
		// the subject, and what NATS adds
		h.bytes += len(data) + len(bus.HoldingsSubject("domain", m.Agent)) + 20
		if m.Seq != h.seq+1 {
			h.gap = true
		}
		h.seq, h.coverage, h.life = m.Seq, m.Coverage, m.Life
		switch {
		case m.Parts == 0 && m.Base != h.base:
			t.Fatalf("it goes on from %d, and all was said at %d", m.Base, h.base)
		case m.Parts == 0 && len(data) > maxDelta:
			t.Fatalf("%d bytes at once", len(data))
		case m.Part == 0 && m.Parts > 0:
			h.held, h.base, h.parts = map[uint64]bool{}, m.Seq, m.Parts
		}
		bus.EachShortHash(m.Drop, func(short uint64) {
			if !h.held[short] {
				t.Fatalf("%x is dropped, which was not held", short)
			}
			delete(h.held, short)
		})
		bus.EachShortHash(m.Add, func(short uint64) { h.held[short] = true })
	}
}

// truth compares what the hub was told with what is held.
func (h *hub) truth(t *testing.T, s *State) {
	t.Helper()
	want := map[uint64]bool{}
	for i := range s.prefixes.all {
		if a := &s.prefixes.all[i]; a.node != none && s.nodes[a.node].whole {
			want[a.short] = true
		}
	}
	for m := range want {
		if !h.held[m] {
			t.Fatalf("%x is held, and the hub does not know", m)
		}
	}
	if len(want) != len(h.held) {
		t.Fatalf("the hub believes in %d prefixes, %d are held", len(h.held), len(want))
	}
}

// All is said to a hub that claims the agent, each minute or so, and to one that asks; and every quarter of a
// second what has changed.
func TestWhatIsSaidAndWhen(t *testing.T) {
	s := New(block, 1<<18, 1, [32]byte{1})
	e := newEngine(s)
	h := &hub{}
	now := begun
	var wholes []time.Duration
	take := func() (parts int) {
		out, wake := s.Take(now)
		if !wake.After(now) {
			t.Fatalf("wakes at %v, and it is %v", wake, now)
		}
		h.hear(t, out)
		if len(out) > 0 && out[0].Parts > 0 {
			wholes = append(wholes, now.Sub(begun))
			return out[0].Parts
		}
		return 0
	}
	if take() != 1 || len(h.held) != 0 || h.coverage != 1 || h.life != 1 {
		t.Errorf("at first: %+v", h)
	}
	for i := range 1000 { // forty prefixes a second
		now = now.Add(100 * time.Millisecond)
		p, ids, _ := prompt(512, words(i, 99, 4))
		s.Prompt(&p, ids, "")
		e.store(0, ids, 0, 25)
		take()
	}
	if len(wholes) < 2 || len(wholes) > 3 || wholes[1] < 48*time.Second || wholes[1] > 72*time.Second {
		t.Errorf("all is said after %v", wholes)
	}
	now = now.Add(time.Second)
	take()
	h.truth(t, s)
	s.Asked()
	if now = now.Add(wholeAgain); take() != 1 {
		t.Error("it is asked for all")
	}
	s.Asked()
	if now = now.Add(time.Second); take() != 0 {
		t.Error("it is asked again at once")
	}
	if s.NewHub(); take() != 1 || h.gap {
		t.Errorf("another hub claims it; a gap in what was said: %v", h.gap)
	}
	// what it was told may have come before the new hub sold the agent: that asks once, and waits for nothing
	s.Asked()
	if take() != 1 {
		t.Error("a new hub asks for all, and is to wait")
	}
	s.Asked()
	if now = now.Add(wholeAgain - 1); take() != 0 {
		t.Error("a new hub asks again, and is told at once")
	}
	if now = now.Add(1); take() != 1 {
		t.Error("a new hub that asks again is not told")
	}
	for i := range 9100 { // two parts
		p, ids, _ := prompt(512, words(10000+i, 3, 4))
		s.Prompt(&p, ids, "")
		e.store(0, ids, 0, 1)
	}
	if s.NewHub(); take() != 2 || h.coverage != 1 {
		t.Errorf("%d prefixes are said in %d parts, and cover %v", len(h.held), h.parts, h.coverage)
	}
	h.truth(t, s)
	for i := range 9000 {
		p, ids, _ := prompt(512, words(40000+i, 3, 4))
		s.Prompt(&p, ids, "")
		e.store(0, ids, 0, 1)
	}
	if s.NewHub(); take() != 2 || len(h.held) != MaxSaid || h.coverage > 0.95 {
		t.Errorf("%d prefixes are said of %d, and cover %v", len(h.held), s.Prefixes(), h.coverage)
	}
}

// Two agents that began at once say all at other times.
func TestAgentsAreSpread(t *testing.T) {
	var first []time.Time
	for seed := range uint64(100) {
		s := New(block, 400, seed, [32]byte{1})
		s.Take(begun)
		_, wake := s.Take(begun)
		first = append(first, wake)
	}
	slices.SortFunc(first, time.Time.Compare)
	if d := first[99].Sub(first[0]); d < 20*time.Second || first[0].Before(begun.Add(48*time.Second)) ||
		first[99].After(begun.Add(72*time.Second)) {
		t.Errorf("from %v to %v", first[0].Sub(begun), first[99].Sub(begun))
	}
}

// Whatever an engine says, its agent says less than 4 KB a second of it: over any minute, from the first word
// to a hub on.
func TestFourKilobytesASecond(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, c := range []struct {
		name string
		step func(r *rand.Rand, e *engine, i int)
	}{
		{"new texts as fast as they come", func(r *rand.Rand, e *engine, i int) {
			p, ids := unseen(r, 50)
			e.s.Prompt(&p, ids, "")
			e.store(0, ids, 0, 50)
		}},
		{"the same text, stored and removed", func(r *rand.Rand, e *engine, i int) {
			p, ids := unseen(rand.New(rand.NewPCG(1, 2)), 100)
			e.s.Prompt(&p, ids, "")
			e.store(0, ids, 0, 100)
			e.remove(0, ids, r.IntN(100))
			if r.IntN(3) > 0 {
				e.say(kvevent.Event{Kind: kvevent.Removed, Blocks: e.names(0, ids)})
			}
		}},
		{"it begins anew all the time", func(r *rand.Rand, e *engine, i int) {
			p, ids := unseen(rand.New(rand.NewPCG(1, r.Uint64N(50))), 50)
			e.s.Prompt(&p, ids, "")
			e.store(0, ids, 0, 50)
			if r.IntN(2) > 0 {
				e.say(kvevent.Event{Kind: kvevent.Cleared})
			}
		}},
		{"it fills, and begins anew", func(r *rand.Rand, e *engine, i int) {
			p, ids := unseen(r, 100)
			e.s.Prompt(&p, ids, "")
			if e.store(0, ids, 0, 100); i%200 == 199 {
				e.s.Restarted()
			}
		}},
		{"events are lost", func(r *rand.Rand, e *engine, i int) {
			p, ids := unseen(r, 100)
			e.s.Prompt(&p, ids, "")
			if e.store(0, ids, 0, 100); i%200 == 199 {
				e.s.Blind()
			}
		}},
	} {
		r := rand.New(rand.NewPCG(seed, 1))
		s := New(block, 100_000*block, seed, [32]byte{1})
		e := newEngine(s)
		h := &hub{}
		var minute []int // bytes by the tenth of a second
		most := 0
		for i := range 1200 {
			c.step(r, e, i)
			before := h.bytes
			out, _ := s.Take(e.now)
			h.hear(t, out)
			minute = append(minute, h.bytes-before)
			if len(minute) >= 600 {
				sum := 0
				for _, b := range minute[len(minute)-600:] {
					sum += b
				}
				most = max(most, sum/60)
			}
			e.now = e.now.Add(100 * time.Millisecond)
		}
		t.Logf("%s: at most %d bytes a second", c.name, most)
		if most > 4096 {
			t.Errorf("%s: %d bytes a second", c.name, most)
		}
		for range 400 { // then it is quiet
			out, _ := s.Take(e.now)
			h.hear(t, out)
			e.now = e.now.Add(250 * time.Millisecond)
		}
		if s.Prefixes() <= MaxSaid {
			h.truth(t, s)
		}
		sound(t, s)
	}
}

// Nothing grows without bound: ten million prefixes, and a client with 100,000 sessions.
func TestMemoryIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	s := New(16, 670_000, 1, [32]byte{1})
	s.Listen()
	s.Restarted()
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	r := rand.New(rand.NewPCG(1, 2))
	ids := make([]uint32, 16*20)
	keys := make([]kvevent.Key, 20)
	p := bus.Prompt{Bytes: 51200, Prefixes: make([]bus.PrefixHash, 100)}
	const prefixes = 10_000_000
	for i := 0; i < prefixes; i += 100 {
		for k := range p.Prefixes {
			p.Prefixes[k] = bus.PrefixHash{Bytes: 512 * (k + 1), Hash: r.Uint64()}
		}
		for k := range ids {
			ids[k] = r.Uint32()
		}
		s.Prompt(&p, ids, "")
		for k := range keys {
			keys[k] = kvevent.Key(r.Uint64())
		}
		s.Apply(kvevent.Batch{Events: []kvevent.Event{{Kind: kvevent.Stored, Blocks: keys, Tokens: ids,
			BlockSize: 16}}})
		s.Take(begun.Add(time.Duration(i) * time.Millisecond))
	}
	if size := heap() - before; size > 32<<20 {
		t.Errorf("%d MB are kept of %d prefixes", size>>20, prefixes)
	} else {
		t.Logf("%.1f MB are kept of %d prefixes: %d blocks, %d prefixes", float64(size)/(1<<20), prefixes,
			s.size(), len(s.prefixes.by))
	}
	if s.size() > s.most() || len(s.prefixes.by) > maxPrefixes {
		t.Errorf("%d blocks, %d prefixes", s.size(), len(s.prefixes.by))
	}
	runtime.KeepAlive(s)
}

// sound compares all that is kept with what it is made of.
func sound(t *testing.T, s *State) {
	t.Helper()
	copies, whole, inTree := 0, 0, 0
	free := map[int32]bool{}
	for _, k := range s.spare {
		free[k] = true
	}
	tied := map[int32]int{}
	heldPrefixes, said := 0, 0
	for short, i := range s.prefixes.by {
		a := &s.prefixes.all[i]
		if a.short != short || a.node == none || free[a.node] {
			t.Fatalf("prefix %x: %+v", short, a)
		}
		tied[a.node]++
		if s.nodes[a.node].whole {
			heldPrefixes++
		}
		if a.said {
			said++
		}
		if a.said != s.nodes[a.node].whole && !s.prefixes.turned && !s.prefixes.full && s.events {
			t.Fatalf("prefix %x turned and nobody is told: %+v", short, a)
		}
	}
	if heldPrefixes != s.prefixes.held || said != s.prefixes.said {
		t.Fatalf("%d prefixes held, %d said; want %d and %d", s.prefixes.held, s.prefixes.said, heldPrefixes, said)
	}
	pins := map[int32]int32{}
	for _, k := range s.pinned {
		pins[k]++
	}
	for k := range s.nodes {
		n := &s.nodes[k]
		if free[int32(k)] {
			continue
		}
		if len(n.prefixes) != tied[int32(k)] || n.pins != pins[int32(k)] {
			t.Fatalf("block %d: %+v, want %d prefixes and %d pins", k, n, tied[int32(k)], pins[int32(k)])
		}
		if k == 0 {
			continue
		}
		inTree++
		copies += int(n.copies)
		up := &s.nodes[n.parent]
		if free[n.parent] || n.depth != up.depth+1 || n.copies < 0 || n.whole != (n.copies > 0 && up.whole) {
			t.Fatalf("block %d: %+v behind %+v", k, n, up)
		}
		if n.whole {
			whole++
		}
		if n.copies == 0 && n.kid == none && n.pins == 0 {
			t.Fatalf("nothing needs block %d: %+v", k, n)
		}
		if s.byKey[n.key] != int32(k) {
			t.Fatalf("block %d is not found by its key", k)
		}
	}
	if copies != s.copies || whole != s.Blocks || inTree != s.size() {
		t.Fatalf("%d copies, %d whole, %d blocks; want %d, %d, %d", s.copies, s.Blocks, s.size(), copies, whole,
			inTree)
	}
	named := 0
	for _, c := range s.engine {
		named += int(c.n)
		if free[c.node] || c.n < 1 {
			t.Fatalf("the engine's name of block %d", c.node)
		}
	}
	if s.events && named != copies {
		t.Fatalf("%d copies have names, of %d", named, copies)
	}
}

// FuzzState has an engine say anything, and prompts come and end in any order. What is kept is sound, and a
// hub that hears all is told the truth once it is quiet.
func FuzzState(f *testing.F) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 3))
		data := make([]byte, 400)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
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
		s := New(next()%2*block, next()*block, uint64(next()), [32]byte{1})
		h := &hub{}
		now := begun
		key := func() kvevent.Key { return kvevent.Key(next() % 12) }
		if next()%4 > 0 {
			s.Listen()
		}
		for len(data) > 0 {
			now = now.Add(time.Duration(next()) * 10 * time.Millisecond)
			switch op := next() % 8; op {
			case 0, 1, 2:
				e := kvevent.Event{Kind: kvevent.Kind(1 + next()%3), Parent: key(), HasParent: next()&1 > 0,
					BlockSize: block, Space: spaced(uint64(next() % 8 / 7)), Host: next()%16 == 0}
				if next()%16 == 0 {
					e.BlockSize = next()
				}
				for range next() % 5 {
					e.Blocks = append(e.Blocks, key())
					for range block {
						e.Tokens = append(e.Tokens, uint32(next()%2))
					}
				}
				s.Apply(kvevent.Batch{Events: []kvevent.Event{e}, Bad: next() % 16 / 15,
					Lost: next()%64 == 0})
			case 3, 4, 5:
				p := bus.Prompt{Bytes: 1 + next()}
				at := 0
				for range next() % 6 {
					at = min(p.Bytes, at+next()%40)
					p.Prefixes = append(p.Prefixes, bus.PrefixHash{Bytes: at, Hash: uint64(next()%16) << 16})
				}
				ids := make([]uint32, next()%40)
				for i := range ids {
					ids[i] = uint32(next() % 2)
				}
				s.Prompt(&p, ids, "")
				if n := s.Held(&p); n < 0 {
					t.Fatal(n)
				}
			case 6:
				switch next() % 8 {
				case 0:
					s.Restarted()
				case 1:
					s.Blind()
				case 2:
					s.Asked()
				case 3:
					s.NewHub()
				case 4:
					s.Listen()
				}
			case 7:
				out, _ := s.Take(now)
				h.hear(t, out)
			}
			sound(t, s)
			if c := s.Coverage(); c < 0 || c > 1 || c != c {
				t.Fatalf("coverage %v", c)
			}
		}
		for range 8 {
			now = now.Add(time.Second)
			out, _ := s.Take(now)
			h.hear(t, out)
		}
		sound(t, s)
		if s.events {
			h.truth(t, s)
		}
		if h.gap {
			t.Error("a number is left out")
		}
	})
}

// Held returns the number of a prompt's tokens that are known to be held, by its prefixes.
func (s *State) Held(p *bus.Prompt) int {
	depth := int32(0)
	for _, m := range p.Prefixes {
		i, ok := s.prefixes.by[bus.ShortHash(m.Hash)]
		if !ok || !s.nodes[s.prefixes.all[i].node].whole {
			break
		}
		depth = max(depth, s.nodes[s.prefixes.all[i].node].depth)
	}
	return int(depth) * s.block
}
