package prefix

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"souk/bus"
)

// says is an agent that says which prompts its engine holds.
type says struct {
	b    *Cache
	seq  uint64
	base uint64
	life uint64
}

func short(prefixes []bus.PrefixHash) (list []byte) {
	for _, m := range prefixes {
		list = bus.AppendShortHash(list, bus.ShortHash(m.Hash))
	}
	return list
}

// whole says all of it, in one part.
func (s *says) whole(coverage float64, prefixes ...[]bus.PrefixHash) (ask bool) {
	s.seq++
	s.base = s.seq
	h := &bus.Holdings{Life: s.life, Seq: s.seq, Base: s.base, Parts: 1, Coverage: coverage,
		Evidence: bus.EvidenceEvents}
	for _, m := range prefixes {
		h.Add = append(h.Add, short(m)...)
	}
	return s.b.Reported(h)
}

// change says what has changed.
func (s *says) change(coverage float64, drop, add []bus.PrefixHash) (ask bool) {
	s.seq++
	return s.b.Reported(&bus.Holdings{Life: s.life, Seq: s.seq, Base: s.base, Coverage: coverage,
		Evidence: bus.EvidenceEvents, Drop: short(drop), Add: short(add)})
}

// What is said twice counts once, and is no reason to ask for all of it again: nor is what comes late.
func TestWhatIsSaidTwice(t *testing.T) {
	_, b, _, s := heard()
	p, q := chat(text(0, 400)), chat(text(1, 400))
	s.whole(0.95, p.Prefixes)
	old := bus.Holdings{Seq: s.seq, Base: s.base, Parts: 1, Coverage: 0.95, Evidence: bus.EvidenceEvents}
	s.change(0.95, nil, q.Prefixes)
	late := bus.Holdings{Seq: s.seq, Base: s.base, Coverage: 0.95, Evidence: bus.EvidenceEvents,
		Drop: short(q.Prefixes)}
	for range 2 {
		if b.Reported(&late) || b.Reported(&old) || overlap(b, &p) == 0 || overlap(b, &q) == 0 || !b.Rules() {
			t.Errorf("%d and %d tokens are believed to be there, rules %v", overlap(b, &p), overlap(b, &q),
				b.Rules())
		}
	}
}

// heard is an index with an agent that says what it holds, and one that does not.
func heard() (x *Index, b, other *Cache, s *says) {
	x = NewIndex(DefaultLimits())
	x.Advance(1)
	b, other = x.New(16, 0), x.New(16, 0)
	return x, b, other, &says{b: b}
}

const second = int64(time.Second)

// Where an agent says nearly all that its engine holds, nothing else is believed but what was served or has
// begun just now.
func TestWhatIsReportedRules(t *testing.T) {
	x, b, other, s := heard()
	old, fresh, known := chat(text(0, 400)), chat(text(1, 400)), chat(text(2, 400))
	serve(b, 1, &old, 400, 0, 0)
	x.Advance(10 * second)
	if s.whole(0.95, known.Prefixes); !b.Rules() || overlap(b, &old) != 0 || overlap(b, &known) != 384 {
		t.Errorf("rules %v: %d of what it does not hold, %d of what it holds", b.Rules(), overlap(b, &old),
			overlap(b, &known))
	}
	run := b.Sent(&fresh, 400, 100, 11*second)
	if overlap(b, &fresh) != 0 {
		t.Error("it was sent, and has not begun")
	}
	if x.Advance(11 * second); overlap(b, &fresh) != 384 {
		t.Error("it has begun")
	}
	x.Advance(40 * second)
	b.Served(run, 1, &fresh, 400, 100, 0)
	if x.Advance(41 * second); overlap(b, &fresh) != 384 {
		t.Error("it was served just now")
	}
	if x.Advance(43 * second); overlap(b, &fresh) != 0 {
		t.Error("it was served, and the agent does not say that it holds it")
	}
	if s.change(0.95, known.Prefixes, fresh.Prefixes); overlap(b, &fresh) == 0 || overlap(b, &known) != 0 {
		t.Error("what has changed is not believed")
	}
	if s.change(0.8, nil, nil); b.Rules() || overlap(b, &old) != 384 || overlap(b, &fresh) == 0 {
		t.Error("it knows too little, so that both count")
	}
	if err := sound(b); err != nil {
		t.Error(err)
	}
	if overlap(other, &fresh) != 0 || overlap(other, &known) != 0 {
		t.Error("another is believed to hold what this one says")
	}
	for i := range 3 { // it was served long ago, and is reported no more
		p := chat(text(byte(3+i), 400))
		serve(b, 1, &p, 400, 0, 0)
	}
	s.change(0.95, nil, nil)
	if x.Advance(50 * second); overlap(b, &old) != 0 || overlap(b, &fresh) == 0 {
		t.Error("it knows enough again")
	}
}

// What was reported counts until three wholes did not come, until something was missed, until the engine
// began anew, and where the engine itself says it.
func TestWhatIsReportedExpires(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(x *Index, s *says) (ask bool)
		asks bool
		own  int // of what was served there
	}{
		{"time passes", func(x *Index, s *says) bool { x.Advance(x.now + 217*second); return false }, false,
			384},
		{"one was missed", func(x *Index, s *says) bool { s.seq++; return s.change(0.95, nil, nil) }, true,
			384},
		{"it goes on from another whole", func(x *Index, s *says) bool {
			s.base--
			return s.change(0.95, nil, nil)
		}, true, 384},
		{"a part was missed", func(x *Index, s *says) bool {
			s.seq++
			s.b.Reported(&bus.Holdings{Seq: s.seq, Base: s.seq, Parts: 3, Evidence: bus.EvidenceEvents})
			s.seq += 2
			return s.b.Reported(&bus.Holdings{Seq: s.seq, Base: s.seq - 2, Part: 2, Parts: 3,
				Evidence: bus.EvidenceEvents})
		}, true, 384},
		{"the engine began anew", func(x *Index, s *says) bool { s.life++; return s.whole(1) }, false, 0},
		{"it no longer hears its engine", func(x *Index, s *says) bool {
			s.seq++
			return s.b.Reported(&bus.Holdings{Seq: s.seq, Base: s.base, Coverage: 1,
				Evidence: bus.EvidenceInferred})
		}, false, 384},
	} {
		x, b, _, s := heard()
		p, served := chat(text(0, 400)), chat(text(1, 400))
		serve(b, 1, &served, 400, 0, 0)
		if s.whole(0.95, p.Prefixes); overlap(b, &p) != 384 {
			t.Fatal(c.name)
		}
		x.Advance(x.now + 3*second)
		if ask := c.do(x, s); ask != c.asks || overlap(b, &p) != 0 || b.Speaks() && c.own > 0 {
			t.Errorf("%s: asked %v, %d tokens are believed", c.name, ask, overlap(b, &p))
		}
		if got := overlap(b, &served); got != c.own {
			t.Errorf("%s: %d tokens are believed of what was served there, want %d", c.name, got, c.own)
		}
		if s.life == 0 {
			if s.change(0.95, nil, nil); c.asks && overlap(b, &p) != 0 {
				t.Errorf("%s: what changes is believed before all is said", c.name)
			}
			if s.whole(0.95, p.Prefixes); overlap(b, &p) != 384 || overlap(b, &served) != 0 {
				t.Errorf("%s: all is said again, and %d tokens are believed", c.name, overlap(b, &p))
			}
		}
		if err := sound(b); err != nil {
			t.Error(err)
		}
		b.Drop()
		if len(x.reported.by)+len(x.own.by) > 0 {
			t.Errorf("%s: %d prefixes are left", c.name, len(x.reported.by)+len(x.own.by))
		}
		x.Advance(x.now + 1000*second)
	}
}

// What one agent says moves what is believed of it, and of nobody else, whatever it says.
func TestALiarMovesNobodyElse(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	x, liar, _, s := heard()
	var others []*Cache
	var prompts []bus.Prompt
	for i := range 20 {
		others = append(others, x.New(16, 0))
		for k := range 4 {
			p := long(i*4+k, 20, 40+r.IntN(100))
			serve(others[i], uint64(k), &p, p.Tokens, 100, -1)
			prompts = append(prompts, p)
		}
	}
	type view struct{ tokens, cached, asserted, verified int }
	look := func() (all []view) {
		for i := range prompts {
			for _, b := range others {
				tokens, cached := b.Expect(&prompts[i], prompts[i].Tokens)
				all = append(all, view{tokens, cached, b.Asserted(&prompts[i], prompts[i].Tokens),
					b.Verified(1, &prompts[i])})
			}
		}
		return all
	}
	before := look()
	lie := func() (prefixes []bus.PrefixHash) {
		for range r.IntN(200) {
			p := &prompts[r.IntN(len(prompts))]
			prefixes = append(prefixes, p.Prefixes[:r.IntN(len(p.Prefixes))]...)
		}
		return prefixes
	}
	believed := 0
	for range 200 {
		x.Advance(x.now + r.Int64N(5*second))
		switch r.IntN(4) {
		case 0:
			s.whole(r.Float64(), lie())
		case 1:
			s.life += r.Uint64N(2)
			s.whole(1, lie(), lie())
		default:
			s.change(0.95, lie(), lie())
		}
		for i := range prompts {
			believed += overlap(liar, &prompts[i])
		}
		for i, v := range look() {
			if v != before[i] {
				t.Fatalf("an agent is believed to hold %+v, and was %+v before another said anything", v,
					before[i])
			}
		}
	}
	if believed == 0 || len(liar.reported.hashes) > x.limits.Reported {
		t.Errorf("%d tokens believed of it: nothing is shown; %d prefixes are kept", believed,
			len(liar.reported.hashes))
	}
}

// Whoever says that it holds what it does not is not heard for a while.
func TestWhoMissesIsNotHeard(t *testing.T) {
	x, b, _, s := heard()
	p := chat(text(0, 400), text(1, 400))
	s.whole(0.95, p.Prefixes)
	asserted := b.Asserted(&p, 800)
	if asserted < 640 || asserted > 720-16 {
		t.Errorf("%d tokens are asserted of 800, all of them guessed", asserted)
	}
	next := chat(text(0, 400), text(1, 400), text(2, 100))
	serve(b, 1, &p, 800, 10, 800)
	if got := b.Asserted(&p, 800); got != 0 {
		t.Errorf("%d tokens are asserted of what was served there", got)
	}
	if s.change(0.95, nil, next.Prefixes); b.Asserted(&next, 900) < 860 || b.Asserted(&next, 900) > 900-16 {
		t.Errorf("%d tokens are asserted, where 800 were counted", b.Asserted(&next, 900))
	}
	for i := range 40 { // two in twenty
		b.Judge(100, 100-100*(i%10/9))
	}
	if !b.Speaks() {
		t.Error("two misses in twenty are no lies")
	}
	for range 3 {
		b.Judge(100, 70) // two blocks less
	}
	if !b.Speaks() {
		t.Error("two blocks may be a guess")
	}
	for range 20 {
		b.Judge(100, 100)
	}
	for range 3 {
		b.Judge(100, 0)
	}
	if b.Speaks() || b.Asserted(&next, 900) != 0 {
		t.Error("three misses in twenty")
	}
	for range 9 { // it goes on saying all
		x.Advance(x.now + 60*second)
		s.whole(0.95, next.Prefixes)
	}
	if b.Speaks() {
		t.Error("it is heard after nine minutes")
	}
	if x.Advance(x.now + 61*second); !b.Speaks() {
		t.Error("it is not heard after ten")
	}
	b.Judge(100, 0)
	if !b.Speaks() {
		t.Error("one miss since")
	}
}

// An agent that says more than is remembered is believed as far as that goes, and does not rule.
func TestMoreIsReportedThanIsRemembered(t *testing.T) {
	x := NewIndex(Limits{Sessions: 10, Hashes: 1000, Reported: 50})
	x.Advance(1)
	b := x.New(16, 0)
	s := &says{b: b}
	all := long(1, 0, 80)
	if s.whole(1, all.Prefixes); b.Rules() || !b.Speaks() || len(b.reported.hashes) != 50 {
		t.Errorf("%d prefixes are remembered", len(b.reported.hashes))
	}
	if s.whole(1, all.Prefixes[:30]); !b.Rules() || len(b.reported.hashes) != 30 {
		t.Errorf("%d prefixes are remembered", len(b.reported.hashes))
	}
}

// An agent of which all is remembered that the limits allow takes less than 1 MB, whether it says what it
// holds or not.
func TestAnAgentTakesLessThanTwoMegabytes(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	for _, talks := range []bool{false, true} {
		takesLess(t, talks)
	}
}

func takesLess(t *testing.T, talks bool) {
	const agents = 20
	limits := DefaultLimits()
	x := NewIndex(limits)
	memory := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := memory()
	caches := make([]*Cache, agents)
	prompts := make([]bus.Prompt, agents)
	now := int64(1)
	serveAt := func(i, session int, p bus.Prompt) {
		now += int64(time.Millisecond)
		x.Advance(now)
		serve(caches[i], uint64(session+1), &p, p.Tokens, 10, -1)
	}
	x.Advance(now)
	for i := range caches {
		caches[i] = x.New(16, 0)
		if talks {
			prompts[i] = long(1000+i, 0, limits.Reported)
			(&says{b: caches[i]}).whole(1, prompts[i].Prefixes)
			prompts[i] = bus.Prompt{}
		}
		for k := range 3 * limits.Sessions {
			serveAt(i, k, long(i*10000+k, 0, limits.Hashes/limits.Sessions))
		}
		serveAt(i, 0, long(1_000_000+i, 0, limits.Hashes/2)) // one that needs half of all prefixes
		for k := range 2 * limits.Sessions {
			serveAt(i, k, long(2_000_000+i*10000+k, 0, limits.Hashes/limits.Sessions))
		}
	}
	x.Advance(now + int64(3*settled))
	each := (memory() - before) / agents
	t.Logf("%d KB an agent: %d prefixes, %d reported, %d sessions", each>>10, len(caches[3].byHash),
		len(caches[3].reported.hashes), caches[3].sessions.Len())
	prefixes, reported := limits.Hashes, 0
	if talks {
		prefixes, reported = limits.Hashes/2, limits.Reported
	}
	if each > 2<<20 || len(caches[3].byHash) < prefixes || len(caches[3].reported.hashes) < reported ||
		caches[3].sessions.Len() < limits.Sessions {
		t.Errorf("%d bytes an agent", each)
	}
	runtime.KeepAlive(caches)
}

// What agents say of prefixes, in messages of 600: each goes as another comes.
func BenchmarkReported(b *testing.B) {
	x := NewIndex(DefaultLimits())
	x.Advance(1)
	const each = 300
	agents := make([]*says, 20)
	for i := range agents {
		agents[i] = &says{b: x.New(16, 0)}
		agents[i].whole(0.95)
	}
	lists := make([][]byte, 64)
	for i := range lists {
		p := long(i, 0, each)
		lists[i] = short(p.Prefixes)
	}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		s := agents[n%len(agents)]
		k := n / len(agents)
		s.seq++
		h := bus.Holdings{Seq: s.seq, Base: s.base, Coverage: 0.95, Evidence: bus.EvidenceEvents,
			Add: lists[k%len(lists)]}
		if k >= 8 {
			h.Drop = lists[(k-8)%len(lists)]
		}
		s.b.Reported(&h)
		n++
	}
	b.ReportMetric(2*each*float64(n)/b.Elapsed().Seconds(), "prefixes/s")
}

// How many prefixes are remembered of an agent goes by the size of its cache, as far as two megabytes allow;
// what the operator sets is a bound on that.
func TestMarksGoByTheCache(t *testing.T) {
	for _, c := range []struct{ set, tokens, want int }{
		{DefaultLimits().Hashes, 0, mostHashes}, {DefaultLimits().Hashes, 1000, fewestHashes},
		{DefaultLimits().Hashes, 80_000, 5000}, {DefaultLimits().Hashes, 6_000_000, mostHashes},
		{3000, 6_000_000, 3000}, {1 << 20, 6_000_000, mostHashes}, {100, 1000, 100},
	} {
		l := DefaultLimits()
		l.Hashes = c.set
		if b := NewIndex(l).New(16, c.tokens); b.most != c.want {
			t.Errorf("%d at most, of a cache of %d tokens: %d prefixes, want %d", c.set, c.tokens, b.most, c.want)
		}
	}
}
