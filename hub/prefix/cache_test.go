package prefix

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"testing"

	"souk/bus"
)

// chat builds a prompt from messages as the door does: a prefix to the end of every message and every
// PrefixEvery bytes inside it, each with the hash of all text before it; four bytes a token.
func chat(messages ...string) bus.Prompt {
	p := bus.Prompt{Messages: len(messages)}
	h := fnv.New64a()
	for _, m := range messages {
		m += "\x00"
		for len(m) > 0 {
			n := min(bus.PrefixEvery, len(m))
			h.Write([]byte(m[:n]))
			p.Bytes += n
			p.Prefixes = append(p.Prefixes, bus.PrefixHash{Bytes: p.Bytes, Hash: h.Sum64()})
			m = m[n:]
		}
	}
	p.Tokens = p.Bytes / 4
	return p
}

func text(seed byte, tokens int) string {
	return strings.Repeat(string('a'+rune(seed)), 4*tokens-1)
}

// serve has an agent serve a prompt of a session.
func serve(b *Cache, key uint64, p *bus.Prompt, prompt, output, cached int) {
	b.Served(b.Sent(p, prompt, output, 0), key, p, prompt, output, cached)
}

// overlap returns how many tokens of a prompt the agent is believed to hold.
func overlap(b *Cache, p *bus.Prompt) int {
	_, cached := b.Expect(p, p.Tokens)
	return cached
}

// What an agent has computed is believed to be there for whoever sends the same text, session or not.
func TestOverlap(t *testing.T) {
	system, ask, answer, again := text(0, 96), text(1, 32), text(2, 64), text(3, 32)
	first := chat(system, ask) // 128 tokens, 64 out
	for _, c := range []struct {
		name   string
		prompt bus.Prompt
		want   int
	}{
		{"the next turn finds prompt and answer", chat(system, ask, answer, again), 192},
		{"the same prompt again computes its last block", first, 112},
		{"another question after the same system prompt", chat(system, again), 96},
		{"another system prompt", chat(text(9, 96), ask), 0},
		{"a shorter prompt is no longer than itself", chat(system), 80},
	} {
		for _, key := range []uint64{7, 0} {
			x := NewIndex(DefaultLimits())
			b, other := x.New(16, 0), x.New(16, 0)
			serve(b, key, &first, 128, 64, 0)
			if got := overlap(b, &c.prompt); got != c.want {
				t.Errorf("%s: %d tokens, want %d", c.name, got, c.want)
			}
			if got := overlap(other, &c.prompt); got != 0 {
				t.Errorf("%s: %d tokens where nothing was served", c.name, got)
			}
		}
	}
}

// Prefixes say how far two texts are the same, to within the distance of two.
func TestDepthsAgainstBytes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 2000 {
		var a, b []string
		for range 1 + r.IntN(5) {
			m := text(byte(r.IntN(3)), 1+r.IntN(400))
			a = append(a, m)
			if r.IntN(4) > 0 {
				b = append(b, m)
			} else {
				b = append(b, text(byte(r.IntN(3)), 1+r.IntN(400)))
			}
		}
		pa, pb := chat(a...), chat(b...)
		ta, tb := strings.Join(a, "\x00")+"\x00", strings.Join(b, "\x00")+"\x00"
		lcp := 0
		for lcp < min(len(ta), len(tb)) && ta[lcp] == tb[lcp] {
			lcp++
		}
		x := NewIndex(DefaultLimits())
		agent := x.New(1, 0)
		serve(agent, 1, &pa, pa.Tokens, 0, 0)
		at := 0
		if n := x.Depths(nil, pb.Prefixes)[agent.Place()]; n > 0 {
			at = pb.Prefixes[n-1].Bytes
		}
		if at > lcp || lcp-at > bus.PrefixEvery {
			t.Fatalf("prefixes say %d bytes, texts %d", at, lcp)
		}
	}
}

// What was counted of a text is what the next prompt that begins with it is expected to have; a prefix that
// ends in the middle is guessed by bytes until the engine has found just that.
func TestTokensAreThoseCounted(t *testing.T) {
	b := NewIndex(DefaultLimits()).New(16, 0)
	system, ask, answer, again := text(0, 96), text(1, 32), text(2, 64), text(3, 32)
	expect := func(p bus.Prompt) int {
		tokens, _ := b.Expect(&p, p.Tokens)
		return tokens
	}
	first := chat(system, ask) // 128 by the estimate, and 300 by the engine
	if got := expect(first); got != 128 {
		t.Errorf("%d tokens of what nobody has seen, want the estimate", got)
	}
	serve(b, 1, &first, 300, 64, 0)
	if got := expect(first); got != 300 {
		t.Errorf("%d tokens of what was counted, want 300", got)
	}
	if got := expect(chat(system, ask, answer, again)); got != 300+96 {
		t.Errorf("%d tokens of the next turn, want 300 and the estimate of the rest", got)
	}
	other := chat(system, again)
	if got := overlap(b, &other); got != 224 { // three quarters of 300
		t.Errorf("%d tokens of the system prompt, want 224 by a guess", got)
	}
	serve(b, 2, &other, 280, 10, 192)
	other = chat(system, answer)
	other.Tokens = 1000
	if got := overlap(b, &other); got != 192 {
		t.Errorf("%d tokens of the system prompt, of which 192 were found", got)
	}
}

func TestForgetting(t *testing.T) {
	x := NewIndex(Limits{Sessions: 4, Hashes: 1000})
	b := x.New(16, 0)
	var p [5]bus.Prompt
	for key := range p {
		p[key] = chat(text(byte(key), 64))
		serve(b, uint64(key+1), &p[key], 64, 0, 0)
	}
	held := func() (s string) {
		for key := range p {
			if overlap(b, &p[key]) > 0 {
				s += fmt.Sprint(key)
			}
		}
		return s
	}
	if got := held(); got != "01234" || b.sessions.Len() != 4 {
		t.Errorf("held: %s, of %d sessions", got, b.sessions.Len())
	}

	// 2 was counted and was not found: whatever was used before it is gone as well.
	serve(b, 3, &p[2], 64, 0, 0)
	if got := held(); got != "234" {
		t.Errorf("after a miss: %s, want 234", got)
	}
}

// A text that many sessions begin with takes its room once, and what is used least recently goes first, its
// end before its beginning.
func TestSharedTextTakesRoomOnce(t *testing.T) {
	b := NewIndex(DefaultLimits()).New(16, 1000)
	var p [8]bus.Prompt
	for i := range p {
		p[i] = chat(text(0, 800), text(byte(1+i), 32))
		serve(b, uint64(i+1), &p[i], 832, 0, min(800, 800*i))
	}
	for i := range p {
		want := 816
		if i < 2 {
			want = 800 // 800 + 6*32 are 992
		}
		if got := overlap(b, &p[i]); got != want {
			t.Errorf("session %d: %d tokens, want %d", i, got, want)
		}
	}
}

// What runs has its room: an engine cannot keep for later what its tasks need now. And from its first token
// on others find there what it has computed.
func TestWhatRunsHasRoom(t *testing.T) {
	x := NewIndex(DefaultLimits())
	b := x.New(16, 1000)
	x.Advance(10)
	old, other := chat(text(0, 400)), chat(text(1, 400))
	serve(b, 1, &old, 400, 0, 0)
	run := b.Sent(&other, 400, 100, 20)
	if overlap(b, &old) == 0 || overlap(b, &other) != 0 {
		t.Error("both fit, and the other is not computed yet")
	}
	if x.Advance(20); overlap(b, &old) == 0 || overlap(b, &other) != 384 {
		t.Error("both fit, and the other's first token is expected to have come")
	}
	third := chat(text(2, 400))
	again := b.Sent(&third, 400, 100, 30)
	if overlap(b, &old) != 0 || overlap(b, &third) != 0 {
		t.Error("two that run leave no room for what was, and the second has not begun")
	}
	if x.Advance(30); overlap(b, &third) != 384 {
		t.Error("it has begun")
	}
	b.Ended(again) // refused, say: it left nothing
	if b.tokens != 500 || overlap(b, &third) != 0 {
		t.Errorf("%d tokens, want those of one that runs", b.tokens)
	}
	b.Served(run, 2, &other, 400, 50, 0)
	if b.tokens != 450 || overlap(b, &other) != 384 {
		t.Errorf("%d tokens, want 450 of the one that was served", b.tokens)
	}
	b.Served(b.Sent(&third, 400, 100, 99), 3, &third, 400, 50, 0) // sooner than was expected
	x.Advance(99)
	if b.tokens != 900 || overlap(b, &third) != 384 {
		t.Errorf("%d tokens, want 900", b.tokens)
	}
}

// An engine that found much less than it held for certain has lost the rest, and what it used before that;
// not so where the little it was to find may be a guess that is off, or is still being computed.
func TestWhatWasNotFoundIsGone(t *testing.T) {
	fresh := func() (*Cache, []bus.Prompt) {
		b := NewIndex(DefaultLimits()).New(16, 0)
		p := []bus.Prompt{chat(text(0, 100), text(1, 20)), chat(text(2, 400), text(3, 400)),
			chat(text(0, 100), text(4, 20))}
		for i := range p {
			serve(b, uint64(i+1), &p[i], p[i].Tokens, 0, 0)
		}
		return b, p
	}
	next := func(p bus.Prompt) bus.Prompt { // the next turn
		q := chat(text(5, 64))
		for _, m := range q.Prefixes {
			p.Prefixes = append(p.Prefixes[:len(p.Prefixes):len(p.Prefixes)],
				bus.PrefixHash{Bytes: m.Bytes + p.Bytes,
					Hash: m.Hash ^ p.Prefixes[len(p.Prefixes)-1].Hash})
		}
		p.Bytes, p.Tokens = p.Bytes+q.Bytes, p.Tokens+q.Tokens
		return p
	}
	b, p := fresh()
	long := next(p[1])
	serve(b, 2, &long, long.Tokens, 0, 400)
	if overlap(b, &p[0]) != 96 || overlap(b, &p[2]) == 0 {
		t.Error("its first half was found, and what was used since is forgotten")
	}
	if x, ok := b.find(p[0].Prefixes[len(p[0].Prefixes)-1].Hash); ok && x != 0 {
		t.Error("what was used before its second half is still believed in")
	}
	b, p = fresh()
	other := chat(text(0, 100), text(6, 20))
	run := b.Sent(&other, 120, 0, 0)
	b.Served(run, 4, &other, 120, 0, 48) // 96 by a guess
	if overlap(b, &p[1]) == 0 {
		t.Error("a guess that was off by a few blocks made the agent's cache go")
	}
	b, p = fresh()
	cold := chat(text(7, 300), text(8, 20))
	both := []*Run{b.Sent(&cold, 320, 0, 0), b.Sent(&cold, 320, 0, 0)}
	for _, r := range both {
		b.Served(r, 0, &cold, 320, 0, 0)
	}
	if overlap(b, &p[0]) == 0 || overlap(b, &p[1]) == 0 {
		t.Error("two that computed one text side by side made the agent's cache go")
	}
}

// An agent that goes takes with it all that was believed of it, and leaves its place.
func TestDrop(t *testing.T) {
	x := NewIndex(DefaultLimits())
	a, b := x.New(16, 0), x.New(16, 0)
	p := chat(text(0, 200))
	serve(a, 1, &p, 200, 0, 0)
	serve(b, 1, &p, 200, 0, 0)
	run := a.Sent(&p, 200, 0, 0)
	a.Drop()
	c := x.New(16, 0)
	c.Ended(run) // of the one before
	if c.Place() != a.Place() || overlap(c, &p) != 0 || overlap(b, &p) == 0 {
		t.Errorf("place %d and then %d: %d tokens believed, and %d of the other", a.Place(), c.Place(),
			overlap(c, &p), overlap(b, &p))
	}
	b.Drop()
	if len(x.own.by) != 0 {
		t.Errorf("%d prefixes are left", len(x.own.by))
	}
}

// What an engine found of a text that many prompts begin with corrects what was guessed of all the prefixes
// before its end, so that engines alike are believed to hold as much of it, whichever prompt each had first.
func TestAGuessIsCorrectedByWhatWasFound(t *testing.T) {
	system := strings.Repeat("s", 2*bus.PrefixEvery+20) // a prefix ends shortly before its end
	var first int
	for i, dense := range []int{40, 400, 4000} { // tokens of the rest, which takes as many bytes
		b := NewIndex(DefaultLimits()).New(16, 0)
		p, q, r := chat(system, text(1, 100)), chat(system, text(2, 100)), chat(system, text(3, 100))
		serve(b, 1, &p, 200+dense, 10, 0)
		serve(b, 2, &q, 200+100, 10, 192)
		got := overlap(b, &r)
		if i == 0 {
			first = got
		}
		if got != 192 || got != first {
			t.Errorf("%d tokens are believed to be there, 192 were found", got)
		}
		if err := sound(b); err != nil {
			t.Error(err)
		}
	}
}

// What is billed as cached where an engine did not say so is what the same text verifies, never what is
// merely likely.
func TestVerified(t *testing.T) {
	prefixes := func(ends ...int) (p bus.Prompt) {
		for i, at := range ends {
			p.Prefixes = append(p.Prefixes, bus.PrefixHash{Bytes: at, Hash: uint64(at*7 + i)})
			p.Bytes = at
		}
		return p
	}
	b := NewIndex(DefaultLimits()).New(16, 0)
	first := prefixes(1000, 2000)
	serve(b, 1, &first, 800, 3000, 0)
	for _, c := range []struct {
		name string
		key  uint64
		p    bus.Prompt
		want int
	}{
		{"the same text", 1, prefixes(1000, 2000), 800},
		{"it goes on: not with the answer, and not with the block in which that began", 1,
			prefixes(1000, 2000, 9000), 784},
		{"half of it, which may be as few tokens as one", 1, prefixes(1000), 0},
		{"another text under the same name", 1,
			bus.Prompt{Bytes: 2000, Prefixes: []bus.PrefixHash{{Bytes: 2000, Hash: 5}}}, 0},
		{"another session", 2, prefixes(1000, 2000), 0},
	} {
		if got := b.Verified(c.key, &c.p); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// Answers count until the engine does not find them with the texts that go on from them, and again as soon as
// it does.
func TestAnswersThatAreReadOtherwise(t *testing.T) {
	b := NewIndex(DefaultLimits()).New(16, 0)
	system, ask, answer := text(0, 96), text(1, 32), text(2, 64)
	turns := func(seed byte, finds bool) (believed, found int) {
		first := chat(system, text(seed, 32), ask)
		second := chat(system, text(seed, 32), ask, answer, text(9, 32)) // 160 and 64 and 32 tokens
		serve(b, uint64(seed), &first, 160, 64, overlap(b, &first))
		believed, found = overlap(b, &second), 160
		if finds {
			found = 224
		}
		serve(b, uint64(seed), &second, 256, 16, found)
		return believed, found
	}
	for i, c := range []struct {
		finds bool
		want  int
	}{{true, 224}, {false, 224}, {false, 160}, {true, 160}, {true, 160}, {true, 160}, {true, 160},
		{true, 224}, {false, 224}, {false, 160}, {true, 160}} {
		if got, _ := turns(byte(10+i), c.finds); got != c.want {
			t.Errorf("turn %d: %d tokens are believed to be cached, want %d", i, got, c.want)
		}
	}
}

// Where chance decides whether an answer is read as it was written, few turns are believed to find more than
// they do; and where nearly all are, hardly any are believed to find less.
func TestAnswersThatAreReadOtherwiseNowAndThen(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	for _, c := range []struct{ found, over, under float64 }{{0.5, 0.06, 0.5}, {0.7, 0.15, 0.5},
		{0.98, 0.03, 0.01}, {1, 0, 0}} {
		b := NewIndex(DefaultLimits()).New(16, 0)
		over, under := 0, 0
		const turns = 4000
		for i := range turns {
			ask, answer := text(byte(i%64), 32), text(2, 64)
			first := chat(text(0, 96), text(byte(i/64), 32), ask)
			second := chat(text(0, 96), text(byte(i/64), 32), ask, answer, text(9, 32))
			serve(b, uint64(i), &first, 160, 64, overlap(b, &first))
			found := 160
			if r.Float64() < c.found {
				found = 224
			}
			switch got := overlap(b, &second); {
			case got > found:
				over++
			case got < found:
				under++
			}
			serve(b, uint64(i), &second, 256, 16, found)
		}
		if o, u := float64(over)/turns, float64(under)/turns; o > c.over || u > c.under {
			t.Errorf("%v are found: %.3f of turns are believed to find more, %.3f less", c.found, o, u)
		}
	}
}
